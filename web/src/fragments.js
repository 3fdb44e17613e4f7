// @ts-check
/** Text cut as a language model would write it, and text as a person types it. Pure. */

const TAG = /<\|[^|>]*\|>/y;
const WORD = /\s*[\p{L}\p{M}\p{N}'’]+/uy;
const OTHER = /\s*[^\p{L}\p{M}\p{N}'’\s]/uy;
const SPACE = /\s+/y;
const LONGEST_TOKEN = 7;

/** @param {RegExp} pattern @param {string} text @param {number} at */
function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}

/**
 * Pieces about as long as a model's tokens: a word with the space before it, a long word in parts, each mark on its own.
 * An inline tag is cut too, as a model cuts it. Never within a surrogate pair or between a letter and its marks.
 * @param {string} text
 * @returns {string[]} their join is `text`
 */
export function modelTokens(text) {
  const tokens = [];
  let at = 0;
  while (at < text.length) {
    const tag = matchAt(TAG, text, at);
    if (tag !== undefined) {
      const colon = tag.indexOf(":");
      const cuts = colon > 2 ? [2, colon, tag.length - 2] : [2, tag.length - 2];
      let from = 0;
      for (const cut of [...cuts, tag.length]) {
        if (cut > from) tokens.push(tag.slice(from, cut));
        from = Math.max(from, cut);
      }
      at += tag.length;
      continue;
    }
    const piece = matchAt(WORD, text, at) ?? matchAt(OTHER, text, at) ?? matchAt(SPACE, text, at) ?? text.slice(at);
    tokens.push(...cutLongWord(piece));
    at += piece.length;
  }
  return tokens;
}

/** @param {string} word @returns {string[]} */
function cutLongWord(word) {
  const graphemes = word.match(/\P{M}\p{M}*/gu) ?? [word];
  if (graphemes.length <= LONGEST_TOKEN + 1) return [word];
  const parts = Math.ceil(graphemes.length / LONGEST_TOKEN);
  const size = Math.ceil(graphemes.length / parts);
  return Array.from({ length: parts }, (_, i) => graphemes.slice(i * size, (i + 1) * size).join("")).filter(Boolean);
}

/**
 * What to send of a text box while it is typed in. The word under way is held back until it is finished or the writer
 * pauses, so that correcting it is free; what has been sent cannot be taken back, and is not sent again.
 */
export class TypingFeed {
  /** The box's text up to here has been sent. */
  #sent = "";

  /** Text sent since the box was last cleared. */
  get sent() {
    return this.#sent;
  }

  /**
   * @param {string} value the whole box
   * @returns {string} what to send now, perhaps nothing
   */
  update(value) {
    this.#forgetRemoved(value);
    const held = value.slice(this.#sent.length);
    const finished = /^[\s\S]*[\s.,;:!?…。，！？、)"”]/u.exec(held)?.[0] ?? "";
    const open_tag = finished.lastIndexOf("<|");
    const is_inside_tag = open_tag >= 0 && !finished.includes("|>", open_tag);
    return this.#take(is_inside_tag ? finished.slice(0, open_tag) : finished);
  }

  /**
   * The writer pauses or is done.
   * @param {string} value
   * @returns {string}
   */
  settle(value) {
    this.#forgetRemoved(value);
    return this.#take(value.slice(this.#sent.length));
  }

  clear() {
    this.#sent = "";
  }

  /** What is in the box has had its time: only later text will be sent. @param {string} value */
  skip(value) {
    this.#sent = value;
  }

  /** @param {string} value */
  #forgetRemoved(value) {
    if (value.startsWith(this.#sent)) return;
    let common = 0;
    while (common < value.length && value[common] === this.#sent[common]) common += 1;
    // Sent text was changed: it stays said. What is in the box now counts as sent, later text will be sent.
    this.#sent = common < this.#sent.length ? value : this.#sent;
  }

  /** @param {string} text */
  #take(text) {
    this.#sent += text;
    return text;
  }
}
