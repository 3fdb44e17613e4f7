// @ts-check
/**
 * One utterance's audio between the network and the sound card: a ring at the source's rate, a prebuffer, resampling to
 * the output's rate, a short fade where the network was late, and an exact count of what has been played. Pure; `pull`
 * allocates nothing, so it may run on the audio thread.
 *
 * An empty buffer means two different things. In the middle of a segment the network or the server was late: an
 * *underrun*, counted and faded. At the end of a segment the text has simply not gone on yet: that is *waiting*.
 */

import { Resampler } from "./resampler.js";

/** @typedef {"filling" | "playing" | "starved" | "waiting" | "stopping" | "ended"} BufferState */

/**
 * What may follow what; anything else is a fault of this file.
 * filling   collecting the prebuffer; silent
 * playing   sound
 * starved   ran dry in mid-segment; silent until the (grown) prebuffer is there
 * waiting   ran dry at a segment's end; silent until the next segment's prebuffer is there
 * stopping  fading out for good
 * ended     nothing more will come out
 * @type {Readonly<Record<BufferState, readonly BufferState[]>>}
 */
export const TRANSITIONS = Object.freeze({
  filling: ["playing", "ended"],
  playing: ["starved", "waiting", "stopping", "ended"],
  starved: ["playing", "waiting", "ended"],
  waiting: ["playing", "ended"],
  stopping: ["ended"],
  ended: [],
});

const INITIAL_RING_S = 4;
/** Far over any send-ahead a client may ask for; a server that sends more breaks the protocol. */
const MAX_RING_S = 120;
const UNDERRUN_FADE_S = 0.005;
const STOP_FADE_S = 0.01;
const MAX_PREBUFFER_S = 1;
/** A prebuffer is not waited for longer than this multiple of itself: what is there is played. */
const PATIENCE = 3;

export class JitterBuffer {
  /** @type {BufferState} */
  #state = "filling";
  #ring;
  #resampler;
  #output_rate_hz;
  #source_rate_hz;
  #max_ring_samples;
  #prebuffer_samples;
  #stop_fade_frames;
  #underrun_fade_frames;
  /** Source samples written so far, and the source position of the next output sample: whole part and numerator. */
  #written_samples = 0;
  #position_samples = 0;
  #position_numerator = 0;
  /** Where the text has been spoken up to, as far as is known: nothing is missing behind it. */
  #segment_end_samples = -1;
  #is_finished = false;
  #gain = 1;
  #gain_step = 0;
  #stop_frames_left = 0;
  #silent_frames = 0;

  underruns = 0;
  starved_frames = 0;
  /** Output frame (the queue's clock) at which the first sample came out; null before. @type {number | null} */
  start_frame = null;

  /**
   * @param {object} options
   * @param {number} options.source_rate_hz
   * @param {number} options.output_rate_hz
   * @param {number} options.prebuffer_s audio collected before the first sound, unless the segment is shorter
   */
  constructor({ source_rate_hz, output_rate_hz, prebuffer_s }) {
    this.#resampler = new Resampler(source_rate_hz, output_rate_hz);
    this.#source_rate_hz = source_rate_hz;
    this.#output_rate_hz = output_rate_hz;
    this.#ring = new Float32Array(INITIAL_RING_S * source_rate_hz);
    this.#max_ring_samples = MAX_RING_S * source_rate_hz;
    this.#prebuffer_samples = Math.round(Math.min(prebuffer_s, MAX_PREBUFFER_S) * source_rate_hz);
    this.#underrun_fade_frames = Math.max(1, Math.round(UNDERRUN_FADE_S * output_rate_hz));
    this.#stop_fade_frames = Math.max(1, Math.round(STOP_FADE_S * output_rate_hz));
  }

  get state() {
    return this.#state;
  }

  get source_rate_hz() {
    return this.#source_rate_hz;
  }

  /** Source samples that have come out, exactly; a sample under a fade counts. */
  get played_samples() {
    return Math.min(this.#position_samples + (this.#position_numerator > 0 ? 1 : 0), this.#written_samples);
  }

  get buffered_samples() {
    return this.#written_samples - this.played_samples;
  }

  /** @param {BufferState} next */
  #enter(next) {
    if (!TRANSITIONS[this.#state].includes(next))
      throw new Error(`a jitter buffer cannot go from ${this.#state} to ${next}`);
    this.#state = next;
  }

  /**
   * Not for the audio callback: the ring may grow.
   * @param {Float32Array} samples at the source's rate
   * @throws {RangeError} if more than MAX_RING_S would be waiting
   */
  push(samples) {
    if (this.#state === "stopping" || this.#state === "ended") return;
    const kept = Math.min(this.#written_samples, this.buffered_samples + 2 * this.#resampler.reach_samples + 1);
    const needed = kept + samples.length;
    if (needed > this.#max_ring_samples) {
      throw new RangeError(`${needed} samples are waiting to be played, at most ${this.#max_ring_samples} are kept`);
    }
    if (needed > this.#ring.length)
      this.#grow(Math.min(this.#max_ring_samples, Math.max(needed, 2 * this.#ring.length)), kept);
    const at = this.#written_samples % this.#ring.length;
    const first = Math.min(samples.length, this.#ring.length - at);
    this.#ring.set(samples.subarray(0, first), at);
    this.#ring.set(samples.subarray(first), 0);
    this.#written_samples += samples.length;
  }

  /** @param {number} capacity @param {number} kept samples before the write position that are still needed */
  #grow(capacity, kept) {
    const ring = new Float32Array(capacity);
    for (let i = this.#written_samples - kept; i < this.#written_samples; i += 1) {
      ring[i % capacity] = /** @type {number} */ (this.#ring[i % this.#ring.length]);
    }
    this.#ring = ring;
  }

  /** All that was pushed so far ends a segment: running dry here is no underrun. */
  endSegment() {
    this.#segment_end_samples = this.#written_samples;
  }

  /** Nothing more will be pushed. */
  finish() {
    this.#is_finished = true;
    this.endSegment();
  }

  /**
   * Fade out and end. The answer is known at once, before the fade has been played.
   * @returns {number} source samples that will have been played when it is silent
   */
  interrupt() {
    if (this.#state === "ended") return this.played_samples;
    if (this.#state !== "playing") {
      if (this.#state !== "stopping") this.#enter("ended");
      return this.played_samples;
    }
    const frames = Math.min(this.#stop_fade_frames, this.#framesLeft());
    if (frames === 0) {
      this.#enter("ended");
      return this.played_samples;
    }
    this.#enter("stopping");
    this.#stop_frames_left = frames;
    this.#gain_step = -this.#gain / frames;
    const { source_step, output_step } = this.#resampler;
    const numerator = this.#position_numerator + frames * source_step;
    const position = this.#position_samples + Math.floor(numerator / output_step);
    return Math.min(position + (numerator % output_step > 0 ? 1 : 0), this.#written_samples);
  }

  /** Is all that was pushed complete up to a segment's end? */
  #isWhole() {
    return this.#segment_end_samples === this.#written_samples;
  }

  /** Output frames that can be made from what is in the ring. */
  #framesLeft() {
    const { source_step, output_step, reach_samples } = this.#resampler;
    const end = this.#written_samples - (this.#isWhole() ? 0 : reach_samples);
    const distance = (end - this.#position_samples) * output_step - this.#position_numerator;
    return Math.max(0, Math.ceil(distance / source_step));
  }

  /** @param {number} count output frames about to pass @returns {boolean} */
  #isReady(count) {
    const buffered = this.#written_samples - this.#position_samples;
    if (buffered <= 0) return false;
    if (this.#isWhole() || buffered >= this.#prebuffer_samples + this.#resampler.reach_samples) return true;
    this.#silent_frames += count;
    const patience_frames = (PATIENCE * this.#prebuffer_samples * this.#output_rate_hz) / this.#source_rate_hz;
    return this.#silent_frames > patience_frames && this.#framesLeft() > this.#underrun_fade_frames;
  }

  /**
   * Write the next `count` output frames to `output[offset …]`.
   * @param {Float32Array} output
   * @param {number} offset
   * @param {number} count
   * @param {number} frame the output clock at `offset`
   * @returns {number} frames written; fewer than `count` only if the utterance ended there
   */
  pull(output, offset, count, frame) {
    let done = 0;
    while (done < count) {
      switch (this.#state) {
        case "playing":
          done += this.#play(output, offset + done, count - done);
          break;
        case "stopping":
          done += this.#fade(output, offset + done, count - done);
          break;
        case "ended":
          return done;
        default:
          if (this.#is_finished && this.#framesLeft() === 0) {
            this.#enter("ended");
          } else if (this.#isReady(count - done)) {
            this.#begin(frame + done);
          } else {
            if (this.#state === "starved") {
              if (this.#isWhole() && this.#framesLeft() === 0) this.#enter("waiting");
              else this.starved_frames += count - done;
            }
            output.fill(0, offset + done, offset + count);
            done = count;
          }
      }
    }
    return done;
  }

  /** @param {number} frame */
  #begin(frame) {
    if (this.start_frame === null) this.start_frame = frame;
    // After an underrun the sound is faded in again; a segment's own beginning is played as it was made.
    this.#gain = this.#state === "starved" ? 0 : 1;
    this.#gain_step = this.#gain < 1 ? 1 / this.#underrun_fade_frames : 0;
    this.#silent_frames = 0;
    this.#enter("playing");
  }

  /** @param {Float32Array} output @param {number} offset @param {number} count @returns {number} */
  #play(output, offset, count) {
    const left = this.#framesLeft();
    const is_whole = this.#isWhole();
    if (left === 0) {
      if (this.#is_finished) {
        this.#enter("ended");
      } else if (is_whole) {
        this.#enter("waiting");
      } else {
        this.#enter("starved");
        this.underruns += 1;
        this.#prebuffer_samples = Math.min(2 * this.#prebuffer_samples, MAX_PREBUFFER_S * this.#source_rate_hz);
      }
      return 0;
    }
    let frames = Math.min(count, left);
    if (!is_whole && left <= this.#underrun_fade_frames) {
      this.#gain_step = -this.#gain / left;
    } else {
      if (!is_whole) frames = Math.min(frames, left - this.#underrun_fade_frames);
      if (this.#gain < 1) this.#gain_step = 1 / this.#underrun_fade_frames;
    }
    this.#render(output, offset, frames);
    return frames;
  }

  /** @param {Float32Array} output @param {number} offset @param {number} count @returns {number} */
  #fade(output, offset, count) {
    const frames = Math.min(count, this.#stop_frames_left);
    this.#render(output, offset, frames);
    this.#stop_frames_left -= frames;
    if (this.#stop_frames_left === 0) this.#enter("ended");
    return frames;
  }

  /** @param {Float32Array} output @param {number} offset @param {number} frames */
  #render(output, offset, frames) {
    const resampler = this.#resampler;
    const { table, taps, reach_samples, source_step, output_step, is_identity } = resampler;
    const ring = this.#ring;
    const capacity = ring.length;
    const written = this.#written_samples;
    let gain = this.#gain;
    for (let i = 0; i < frames; i += 1) {
      let sample = 0;
      if (is_identity) {
        sample = /** @type {number} */ (ring[this.#position_samples % capacity]);
      } else {
        const row = resampler.row(this.#position_numerator);
        const start = this.#position_samples - reach_samples + 1;
        const first_tap = start < 0 ? -start : 0;
        const last_tap = Math.min(taps, written - start);
        let at = (start + first_tap) % capacity;
        for (let tap = first_tap; tap < last_tap; tap += 1) {
          sample += /** @type {number} */ (ring[at]) * /** @type {number} */ (table[row + tap]);
          at += 1;
          if (at === capacity) at = 0;
        }
      }
      output[offset + i] = sample * gain;
      if (this.#gain_step !== 0) {
        gain += this.#gain_step;
        if (gain >= 1) {
          gain = 1;
          this.#gain_step = 0;
        } else if (gain <= 0) {
          gain = 0;
        }
      }
      this.#position_numerator += source_step;
      while (this.#position_numerator >= output_step) {
        this.#position_numerator -= output_step;
        this.#position_samples += 1;
      }
    }
    this.#gain = gain;
  }
}
