// @ts-check
/** One utterance's card: its words light up as they are heard; what was not heard after a stop is struck out. */

import { element } from "./dom.js";
import { encodeWav } from "./pcm.js";
import { findTags } from "./tags.js";
import { TimelineView } from "./timeline_view.js";

/** @typedef {import("./utterance.js").Utterance} Utterance */
/** @typedef {import("./utterance.js").UtteranceState} UtteranceState */

const TIMELINE_EVERY_MS = 80;

/** @type {Readonly<Record<UtteranceState, string>>} */
const STATE_WORDS = Object.freeze({
  waiting: "waiting",
  speaking: "speaking",
  finished: "said",
  stopping: "stopping",
  interrupted: "interrupted",
  failed: "not said",
});

/** @param {number} ms */
function seconds(ms) {
  return `${(ms / 1000).toFixed(1)} s`;
}

/**
 * Text with its tags as chips.
 * @param {readonly string[]} code_points
 * @param {number} start
 * @param {number} end
 * @returns {(Node | string)[]}
 */
function pieces(code_points, start, end) {
  const nodes = [];
  let at = start;
  for (const tag of findTags(code_points.slice(0, end), start)) {
    if (tag.start > at) nodes.push(code_points.slice(at, tag.start).join(""));
    const name = tag.name.replace(/^[^:]*:/, "").replaceAll("_", " ");
    nodes.push(element("span", { class: "tag-chip", title: `<|${tag.name}|>` }, name));
    at = tag.end;
  }
  if (end > at) nodes.push(code_points.slice(at, end).join(""));
  return nodes;
}

export class UtteranceCard {
  #utterance;
  #text = element("p", { class: "spoken" });
  #tail = element("span", { class: "to-come" });
  #state = element("span", { class: "state" });
  #facts = element("span", { class: "facts" });
  #notes = element("ul", { class: "notes", hidden: true });
  #save;
  #again;
  #timeline;
  /** @type {HTMLElement[]} */
  #words = [];
  /** What stands before each word: tags, marks, spaces. @type {Map<number, HTMLElement>} */
  #gaps = new Map();
  #worded_to = 0;
  #heard = 0;
  #current = -1;
  #is_settled = false;
  #painted_at_ms = 0;
  element;

  /** @param {Utterance} utterance @param {(text: string) => void} onAgain */
  constructor(utterance, onAgain) {
    this.#utterance = utterance;
    this.#timeline = new TimelineView(utterance);
    this.#save = element(
      "button",
      { type: "button", class: "quiet small", onclick: () => this.#download() },
      "Save WAV",
    );
    this.#again = element(
      "button",
      { type: "button", class: "quiet small", onclick: () => onAgain(utterance.text) },
      "Say again",
    );
    this.#text.append(this.#tail);
    this.element = element(
      "li",
      { class: "utterance", "data-state": utterance.state },
      element(
        "div",
        { class: "utterance-head" },
        this.#state,
        this.#facts,
        element("div", { class: "utterance-actions" }, this.#again, this.#save),
      ),
      this.#text,
      this.#notes,
      this.#timeline.element,
    );
    this.update();
  }

  get is_settled() {
    return this.#is_settled;
  }

  /** The utterance's data changed. */
  update() {
    const utterance = this.#utterance;
    this.element.dataset.state = utterance.state;
    const is_cut = utterance.state === "failed" && utterance.played_samples > 0;
    this.#state.textContent = is_cut ? "cut short" : STATE_WORDS[utterance.state];
    this.#again.hidden = utterance.is_open;
    this.#save.hidden = utterance.is_open || utterance.savedChunks().length === 0;
    this.#updateNotes();
    this.#updateFacts();
    if (utterance.spoken_chars !== null) this.#strike(utterance.spoken_chars);
    else this.#extend();
    if (!utterance.is_open && !this.#is_settled) this.#settle();
  }

  #settle() {
    this.#is_settled = true;
    if (this.#utterance.spoken_chars === null) {
      this.#light(this.#words.length, -1);
      this.#tail.classList.add("heard");
    }
    this.#timeline.describe();
    this.#timeline.paint(performance.now());
  }

  #updateNotes() {
    const { notes, failure, state } = this.#utterance;
    const lines = [...notes, ...(failure !== "" && state === "failed" ? [failure] : [])];
    if (lines.length === this.#notes.childElementCount) return;
    this.#notes.hidden = lines.length === 0;
    this.#notes.replaceChildren(...lines.map((line) => element("li", {}, line)));
  }

  #updateFacts() {
    const { first_audio_ms, is_queued, received_ms, played_ms, state, cancelled, word_timing, voice } = this.#utterance;
    const facts = [];
    if (voice !== "") facts.push(voice);
    if (first_audio_ms !== null && !is_queued) facts.push(`first audio ${Math.round(first_audio_ms)} ms`);
    if (state === "interrupted" || state === "stopping") {
      facts.push(
        `heard ${seconds(cancelled?.played_ms ?? played_ms)} of ${seconds(cancelled?.sent_ms ?? received_ms)} sent`,
      );
    } else if (received_ms > 0) facts.push(seconds(received_ms));
    if (word_timing === "estimated") facts.push("word times estimated");
    this.#facts.textContent = facts.join(" · ");
  }

  /** Give newly timed words their own elements; the rest stays one run of text. */
  #extend() {
    const { code_points, words } = this.#utterance;
    const added = [];
    for (const word of words.slice(this.#words.length)) {
      if (word.start_char > this.#worded_to) {
        const gap = element("span", {}, ...pieces(code_points, this.#worded_to, word.start_char));
        // Words that are lit already have lit the mark that follows them.
        gap.classList.toggle("heard", this.#words.length > 0 && this.#words.length <= this.#heard);
        this.#gaps.set(this.#words.length, gap);
        added.push(gap);
      }
      const text = code_points.slice(Math.max(word.start_char, this.#worded_to), word.end_char).join("");
      const span = element("span", { class: "word" }, text);
      this.#words.push(span);
      added.push(span);
      this.#worded_to = Math.max(this.#worded_to, word.end_char);
    }
    this.#tail.before(...added);
    this.#tail.replaceChildren(...pieces(code_points, this.#worded_to, code_points.length));
  }

  /** @param {number} spoken_chars */
  #strike(spoken_chars) {
    const { code_points, words } = this.#utterance;
    const heard = element("span", { class: "heard" });
    let at = 0;
    for (const word of words.filter((candidate) => candidate.start_char < spoken_chars)) {
      heard.append(...pieces(code_points, at, word.start_char));
      heard.append(
        element("span", { class: "word heard" }, code_points.slice(word.start_char, word.end_char).join("")),
      );
      at = word.end_char;
    }
    heard.append(...pieces(code_points, at, Math.max(at, spoken_chars)));
    at = Math.max(at, spoken_chars);
    const parts = [heard];
    if (at < code_points.length) {
      parts.push(element("s", { class: "unheard" }, ...pieces(code_points, at, code_points.length)));
    }
    this.#text.replaceChildren(...parts);
  }

  /**
   * @param {number} heard_ms audio at the listener's ear; 0 before the first sound
   * @param {number} now_ms
   */
  paint(heard_ms, now_ms) {
    const utterance = this.#utterance;
    if (heard_ms > 0 && utterance.spoken_chars === null && !this.#is_settled) {
      this.#light(utterance.words.findLastIndex((word) => word.start_ms <= heard_ms) + 1, utterance.wordAt(heard_ms));
    }
    if (now_ms - this.#painted_at_ms >= TIMELINE_EVERY_MS) {
      this.#painted_at_ms = now_ms;
      this.#timeline.paint(now_ms);
      this.#updateFacts();
    }
  }

  /** The width changed. */
  redraw() {
    this.#timeline.paint(performance.now());
  }

  /** @param {number} heard words begun @param {number} current index, or -1 */
  #light(heard, current) {
    for (; this.#heard < heard; this.#heard += 1) {
      for (const part of [this.#gaps.get(this.#heard), this.#words[this.#heard], this.#gaps.get(this.#heard + 1)]) {
        part?.classList.add("heard");
      }
    }
    if (current === this.#current) return;
    this.#words[this.#current]?.classList.remove("current");
    this.#words[current]?.classList.add("current");
    this.#current = current;
  }

  #download() {
    const { sample_rate_hz, id } = this.#utterance;
    const file = new Blob([encodeWav(this.#utterance.savedChunks(), sample_rate_hz)], { type: "audio/wav" });
    const url = URL.createObjectURL(file);
    element("a", { href: url, download: `antiphon-${id}.wav` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }
}
