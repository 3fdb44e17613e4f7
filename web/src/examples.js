// @ts-check
/** Texts to begin with. Their tags are left out where the voice cannot do them. */

import { findTags } from "./tags.js";

export const EXAMPLES = Object.freeze([
  {
    title: "Hello",
    text: "Hello! I am the voice of your agent. I started speaking before this sentence was finished, and you can interrupt me whenever you like.",
  },
  {
    title: "An order",
    text: "Your order number 4,182 ships on March 3rd. It is two pairs at $29.99 each, so $59.98 in all. <|prosody:pause|>Shall I send it to the same address?",
  },
  {
    title: "Good news",
    text: "<|emotion:elation|>You won't believe it: the results are in, and you passed! <|prosody:long_pause|>All of it, on the first try.",
  },
  {
    title: "A secret",
    text: "<|style:whispering|>Come closer. There is a garden behind this wall, and nobody has opened its door for a hundred years.",
  },
  {
    title: "A longer story",
    text:
      "An antiphon is music for two choirs. The first sings a line, and the second answers it from the other side of the church. " +
      "Neither waits for the whole song to be written down. Each hears where the other has got to, and goes on from there. " +
      "That is how this voice works: your agent writes, and while it is still writing, the voice is already answering. " +
      "If you speak up in the middle, it stops, and it knows which word was the last one you heard.",
  },
]);

/**
 * @param {string} text
 * @param {Record<string, string>} support by tag name
 * @returns {string} without the tags that nothing would come of
 */
export function withoutUnsupported(text, support) {
  const code_points = Array.from(text);
  for (const tag of findTags(code_points, 0).reverse()) {
    if ((support[tag.name] ?? "unsupported") === "unsupported") code_points.splice(tag.start, tag.end - tag.start);
  }
  return code_points.join("");
}
