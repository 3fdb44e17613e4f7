// @ts-check
/** What the page knows of one utterance: its text, words, audio and times. Pure: neither DOM nor network nor clock. */

import { PLAYABLE_FORMATS } from "./pcm.js";

/** @typedef {"waiting" | "speaking" | "finished" | "stopping" | "interrupted" | "failed"} UtteranceState */

/**
 * What may follow what; anything else came late and is ignored.
 * waiting      text is on its way, nothing has been heard yet
 * speaking     its sound has begun
 * finished     all of it was heard
 * stopping     silenced here; the server's answer is awaited
 * interrupted  the server has said what had been heard
 * failed       refused, failed, or lost with its connection
 * @type {Readonly<Record<UtteranceState, readonly UtteranceState[]>>}
 */
export const TRANSITIONS = Object.freeze({
  waiting: ["speaking", "finished", "stopping", "failed"],
  speaking: ["finished", "stopping", "failed"],
  finished: [],
  stopping: ["interrupted", "failed"],
  interrupted: [],
  failed: [],
});

/** @typedef {import("./native_codec.js").WireWord} WireWord */
/** @typedef {{first_at_ms: number, last_at_ms: number, start_sample: number, end_sample: number, is_whole: boolean}} Segment */
/** @typedef {{at_ms: number, received_ms: number, played_ms: number}} LeadPoint audio received and played by a moment */

/** One waveform point per this much audio. */
export const ENVELOPE_STEP_S = 0.02;

export class Utterance {
  /** @type {UtteranceState} */
  state = "waiting";
  /** The input as typed, tags included, one code point each. @type {string[]} */
  code_points = [];
  is_text_complete = false;
  /** @type {{at_ms: number, chars: number}[]} */
  fragments = [];
  /** @type {WireWord[]} */
  words = [];
  /** Runs of audio that the server marked as segments. @type {Segment[]} */
  segments = [];
  /** Loudest sample of each ENVELOPE_STEP_S. @type {number[]} */
  envelope = [];
  /** @type {LeadPoint[]} */
  lead = [];
  /** @type {{at_ms: number, played_ms: number}[]} */
  underruns = [];

  format = "";
  sample_rate_hz = 0;
  received_samples = 0;
  played_samples = 0;
  /** @type {Float32Array<ArrayBuffer>[]} */
  chunks = [];
  is_audio_complete = false;
  /** @type {"exact" | "estimated"} */
  word_timing = "exact";

  /** Moments on the page's clock; null until they came. @type {number | null} */
  first_text_at_ms = null;
  /** @type {number | null} */
  first_frame_at_ms = null;
  /** @type {number | null} */
  first_sound_at_ms = null;
  /** @type {number | null} */
  ended_at_ms = null;
  /** @type {import("./native_codec.js").DoneMessage | null} */
  done = null;
  /** @type {import("./native_codec.js").CancelledMessage | null} */
  cancelled = null;
  /** Characters before this were heard; known once it was stopped. @type {number | null} */
  spoken_chars = null;
  /** What the server remarked, each once. @type {Set<string>} */
  notes = new Set();
  failure = "";

  /**
   * @param {object} options
   * @param {string} options.id
   * @param {string} options.voice
   * @param {boolean} options.is_queued it was opened while another was still to be heard
   */
  constructor({ id, voice, is_queued }) {
    this.id = id;
    this.voice = voice;
    this.is_queued = is_queued;
  }

  get text() {
    return this.code_points.join("");
  }

  /** Is there more to come: text, audio, or the server's answer? */
  get is_open() {
    return TRANSITIONS[this.state].length > 0;
  }

  get received_ms() {
    return this.sample_rate_hz === 0 ? 0 : (this.received_samples * 1000) / this.sample_rate_hz;
  }

  get played_ms() {
    return this.sample_rate_hz === 0 ? 0 : (this.played_samples * 1000) / this.sample_rate_hz;
  }

  /** From the first text sent to the first sound at the loudspeaker. @returns {number | null} */
  get first_audio_ms() {
    if (this.first_sound_at_ms === null || this.first_text_at_ms === null) return null;
    return this.first_sound_at_ms - this.first_text_at_ms;
  }

  /** How much of the text had been sent at the first sound. @returns {string} in words of the text, "all" if complete */
  writtenAtFirstSound() {
    const at_ms = this.first_sound_at_ms ?? Number.POSITIVE_INFINITY;
    let chars = 0;
    for (const fragment of this.fragments) if (fragment.at_ms <= at_ms) chars += fragment.chars;
    if (this.is_text_complete && chars === this.code_points.length) return "all";
    const words =
      this.code_points
        .slice(0, chars)
        .join("")
        .replaceAll(/<\|[^|]*\|>/g, " ")
        .match(/\S+/g)?.length ?? 0;
    return words === 1 ? "1 word" : `${words} words`;
  }

  /** @param {UtteranceState} next @returns {boolean} false if it came too late */
  enter(next) {
    if (!TRANSITIONS[this.state].includes(next)) return false;
    this.state = next;
    return true;
  }

  /** @param {string} fragment @param {number} now_ms */
  append(fragment, now_ms) {
    const added = Array.from(fragment);
    this.code_points.push(...added);
    this.fragments.push({ at_ms: now_ms, chars: added.length });
    this.first_text_at_ms ??= now_ms;
  }

  /** @param {import("./native_codec.js").StartedMessage} message */
  begin(message) {
    this.voice = message.voice;
    this.format = message.format;
    this.sample_rate_hz = message.sample_rate_hz;
    this.word_timing = message.word_timing;
  }

  /**
   * @param {import("./native_codec.js").AudioFrame} frame
   * @param {number} now_ms
   * @returns {Float32Array<ArrayBuffer>} its samples that are new: after a reconnection some come twice
   * @throws {RangeError} if samples are missing before it, or the payload is broken
   */
  receiveAudio(frame, now_ms) {
    const format = PLAYABLE_FORMATS[/** @type {import("./pcm.js").PlayableFormat} */ (this.format)];
    if (format === undefined) throw new RangeError(`this page cannot play ${this.format || "audio without a format"}`);
    const decoded = format.decode(frame.payload);
    const overlap = this.received_samples - frame.start_sample;
    if (overlap < 0) throw new RangeError(`${-overlap} samples are missing before sample ${frame.start_sample}`);
    const samples = /** @type {Float32Array<ArrayBuffer>} */ (decoded.slice(Math.min(overlap, decoded.length)));
    if (samples.length > 0) {
      this.first_frame_at_ms ??= now_ms;
      this.chunks.push(samples);
      this.#extendEnvelope(samples);
      let segment = this.segments.at(-1);
      if (segment === undefined || segment.is_whole) {
        const start_sample = this.received_samples;
        segment = { first_at_ms: now_ms, last_at_ms: now_ms, start_sample, end_sample: start_sample, is_whole: false };
        this.segments.push(segment);
      }
      this.received_samples += samples.length;
      segment.last_at_ms = now_ms;
      segment.end_sample = this.received_samples;
    }
    const last = this.segments.at(-1);
    if (last !== undefined && (frame.is_segment_end || frame.is_last)) last.is_whole = true;
    if (frame.is_last) this.is_audio_complete = true;
    return samples;
  }

  /** @param {Float32Array} samples */
  #extendEnvelope(samples) {
    const step = Math.max(1, Math.round(ENVELOPE_STEP_S * this.sample_rate_hz));
    for (let i = 0; i < samples.length; i += 1) {
      const at = Math.floor((this.received_samples + i) / step);
      this.envelope[at] = Math.max(this.envelope[at] ?? 0, Math.abs(/** @type {number} */ (samples[i])));
    }
  }

  /** @param {number} now_ms @param {number} played_samples */
  noteProgress(now_ms, played_samples) {
    this.played_samples = Math.max(this.played_samples, played_samples);
    const last = this.lead.at(-1);
    if (last !== undefined && now_ms - last.at_ms < 40) return;
    this.lead.push({ at_ms: now_ms, received_ms: this.received_ms, played_ms: this.played_ms });
  }

  /**
   * The protocol's rule: a word is heard when at least half of its duration lies before the point.
   * @param {number} at_ms
   * @returns {number} how many of `words` were heard
   */
  heardWords(at_ms) {
    let low = 0;
    let high = this.words.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const word = /** @type {WireWord} */ (this.words[middle]);
      if ((word.start_ms + word.end_ms) / 2 <= at_ms) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @param {number} at_ms @returns {number} index of the word being said, or -1 between words */
  wordAt(at_ms) {
    const index = this.words.findLastIndex((word) => word.start_ms <= at_ms);
    const word = this.words[index];
    return word !== undefined && at_ms < word.end_ms ? index : -1;
  }

  /**
   * Silenced here at this point: marks what was heard by the protocol's rule, until the server has said it.
   * @param {number} played_ms
   */
  freeze(played_ms) {
    this.spoken_chars = this.words[this.heardWords(played_ms)]?.start_char ?? this.#charsWithoutWords();
  }

  /** All words that are known were heard, yet text may follow that has no words yet. */
  #charsWithoutWords() {
    return this.is_audio_complete ? this.code_points.length : (this.words.at(-1)?.end_char ?? 0);
  }

  /** Audio that a saved file holds: of an interrupted utterance what was heard. @returns {Float32Array<ArrayBuffer>[]} */
  savedChunks() {
    if (this.state !== "interrupted" && this.state !== "stopping") return this.chunks;
    const chunks = [];
    let left = this.played_samples;
    for (const chunk of this.chunks) {
      if (left <= 0) break;
      chunks.push(chunk.subarray(0, left));
      left -= chunk.length;
    }
    return chunks;
  }
}
