// @ts-check
/**
 * Utterances heard one after another: each has its own jitter buffer, the next begins in the very sample after the
 * last one's end. Pure; `pull` allocates nothing.
 */

import { JitterBuffer } from "./jitter_buffer.js";

/**
 * @typedef {object} TrackReport
 * @property {string} id
 * @property {import("./jitter_buffer.js").BufferState} state
 * @property {number} played_samples source samples
 * @property {number} buffered_samples source samples
 * @property {number} underruns
 * @property {number} starved_frames output frames of silence in mid-segment
 * @property {number | null} start_frame output frame of its first sample
 */

/** Ended tracks are reported this many times, then forgotten. */
const ENDED_REPORTS = 2;

export class PlaybackQueue {
  /** @type {{id: string, buffer: JitterBuffer, reports_left: number}[]} */
  #tracks = [];
  /** The first track that has not ended. */
  #head = 0;
  #output_rate_hz;

  /** @param {number} output_rate_hz */
  constructor(output_rate_hz) {
    this.#output_rate_hz = output_rate_hz;
  }

  /** @param {string} id @param {number} source_rate_hz @param {number} prebuffer_s */
  open(id, source_rate_hz, prebuffer_s) {
    if (this.#find(id) !== undefined) throw new Error(`the utterance ${id} is being played already`);
    const buffer = new JitterBuffer({ source_rate_hz, output_rate_hz: this.#output_rate_hz, prebuffer_s });
    this.#tracks.push({ id, buffer, reports_left: ENDED_REPORTS });
  }

  /** @param {string} id */
  #find(id) {
    return this.#tracks.find((track) => track.id === id)?.buffer;
  }

  /**
   * Samples of an utterance that is not known (interrupted and forgotten) are dropped: late by nature, not an error.
   * @param {string} id
   * @param {Float32Array} samples
   * @param {boolean} is_segment_end
   * @param {boolean} is_last
   */
  push(id, samples, is_segment_end, is_last) {
    const buffer = this.#find(id);
    if (buffer === undefined) return;
    buffer.push(samples);
    if (is_last) buffer.finish();
    else if (is_segment_end) buffer.endSegment();
  }

  /** @param {string} id */
  finish(id) {
    this.#find(id)?.finish();
  }

  /**
   * @param {string} id
   * @returns {number} source samples that will have been played when it is silent; 0 if it is not known
   */
  interrupt(id) {
    return this.#find(id)?.interrupt() ?? 0;
  }

  /**
   * Fill `output` with what is to be heard next.
   * @param {Float32Array} output
   * @param {number} frame the output clock at output[0]
   */
  pull(output, frame) {
    let done = 0;
    while (done < output.length) {
      const track = this.#tracks[this.#head];
      if (track === undefined) {
        output.fill(0, done);
        return;
      }
      done += track.buffer.pull(output, done, output.length - done, frame + done);
      if (track.buffer.state === "ended") this.#head += 1;
    }
  }

  /** State of every track; not for the audio callback. @returns {TrackReport[]} */
  report() {
    const report = this.#tracks.map(({ id, buffer }) => ({
      id,
      state: buffer.state,
      played_samples: buffer.played_samples,
      buffered_samples: buffer.buffered_samples,
      underruns: buffer.underruns,
      starved_frames: buffer.starved_frames,
      start_frame: buffer.start_frame,
    }));
    for (const track of this.#tracks) if (track.buffer.state === "ended") track.reports_left -= 1;
    while (this.#head > 0 && this.#tracks[0] !== undefined && this.#tracks[0].reports_left <= 0) {
      this.#tracks.shift();
      this.#head -= 1;
    }
    return report;
  }
}
