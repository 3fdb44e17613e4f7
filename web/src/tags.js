// @ts-check
/** The inline tags, by group, as the page shows and inserts them (docs/tags.md). Pure data. */

/** @typedef {"rendered" | "approximated" | "contextual" | "unsupported"} TagSupport */
/** @typedef {{name: string, label: string, spoken?: string}} Tag `spoken`: the sound's usual spelling, put after it */
/** @typedef {{id: string, title: string, hint: string, tags: readonly Tag[]}} TagGroup */

/** What each kind of support means, in words. @type {Readonly<Record<TagSupport, string>>} */
export const SUPPORT = Object.freeze({
  rendered: "this voice does it",
  approximated: "this voice comes close",
  contextual: "this voice imitates it with the word after it",
  unsupported: "this voice cannot",
});

/** @param {string} category @param {string} value @param {string} [spoken] @returns {Tag} */
function tag(category, value, spoken) {
  const words = value.replace(/^(speed|pitch|expressive)_/, "").replaceAll("_", " ");
  const tag = { name: `${category}:${value}`, label: words };
  return spoken === undefined ? tag : { ...tag, spoken };
}

/** @param {string} value @param {string} label @returns {Tag} */
function prosody(value, label) {
  return { name: `prosody:${value}`, label };
}

/** @type {readonly TagGroup[]} */
export const TAG_GROUPS = Object.freeze([
  {
    id: "emotion",
    title: "Emotion",
    hint: "Colours what follows, to the end of the utterance.",
    tags: [
      "elation",
      "amusement",
      "enthusiasm",
      "determination",
      "pride",
      "contentment",
      "affection",
      "relief",
      "contemplation",
      "confusion",
      "surprise",
      "awe",
      "longing",
      "arousal",
      "anger",
      "fear",
      "disgust",
      "bitterness",
      "sadness",
      "shame",
      "helplessness",
    ].map((value) => tag("emotion", value)),
  },
  {
    id: "style",
    title: "Style",
    hint: "How the voice is used, to the end of the utterance.",
    tags: ["singing", "shouting", "whispering"].map((value) => tag("style", value)),
  },
  {
    id: "pace",
    title: "Pace and pitch",
    hint: "Hold to the end of the utterance.",
    tags: [
      prosody("speed_very_slow", "very slow"),
      prosody("speed_slow", "slow"),
      prosody("speed_fast", "fast"),
      prosody("speed_very_fast", "very fast"),
      prosody("pitch_low", "low pitch"),
      prosody("pitch_high", "high pitch"),
      prosody("expressive_low", "calm"),
      prosody("expressive_high", "lively"),
    ],
  },
  {
    id: "pause",
    title: "Pauses",
    hint: "Act where they stand.",
    tags: [prosody("pause", "pause"), prosody("long_pause", "long pause")],
  },
  {
    id: "sfx",
    title: "Sounds",
    hint: "Act where they stand, on the word right after them.",
    tags: [
      tag("sfx", "cough", "Ahem"),
      tag("sfx", "laughter", "Haha"),
      tag("sfx", "crying", "Boohoo"),
      tag("sfx", "screaming", "Aaah"),
      tag("sfx", "burping", "Burp"),
      tag("sfx", "humming", "Hmm"),
      tag("sfx", "sigh", "Ahh"),
      tag("sfx", "sniff", "Sff"),
      tag("sfx", "sneeze", "Achoo"),
    ],
  },
]);

/**
 * What is put into the text. A sound's usual spelling stands right after its tag: that is what the models imitate.
 * @param {Tag} tag
 * @returns {string}
 */
export function tagText(tag) {
  return `<|${tag.name}|>${tag.spoken ?? ""}`;
}

/**
 * Where an utterance's text holds tags, in code points.
 * @param {readonly string[]} code_points
 * @param {number} from
 * @returns {{start: number, end: number, name: string}[]} complete tags only
 */
export function findTags(code_points, from) {
  const found = [];
  for (let start = from; start < code_points.length - 1; start += 1) {
    if (code_points[start] !== "<" || code_points[start + 1] !== "|") continue;
    for (let end = start + 2; end < code_points.length - 1; end += 1) {
      if (code_points[end] === "<") break;
      if (code_points[end] === "|" && code_points[end + 1] === ">") {
        found.push({ start, end: end + 2, name: code_points.slice(start + 2, end).join("") });
        start = end + 1;
        break;
      }
    }
  }
  return found;
}
