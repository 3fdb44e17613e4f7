// @ts-check
/** Where everything of an utterance's timeline is drawn: times to coordinates. Pure. */

import { ENVELOPE_STEP_S } from "./utterance.js";

/** @typedef {import("./utterance.js").Utterance} Utterance */
/** @typedef {{x: number, width: number}} Bar */

/**
 * @typedef {object} TimelineShapes
 * @property {number} span_ms what the whole width stands for
 * @property {number[]} fragments x of each piece of text sent
 * @property {Bar[]} segments audio of each segment, as it arrived
 * @property {{x: number, height: number, is_heard: boolean}[]} waveform at the time it is heard; height 0 … 1
 * @property {[number, number][]} lead x, and audio ahead of the listener as 0 … 1 of `lead_scale_ms`
 * @property {number} lead_scale_ms
 * @property {number | null} first_audio_x
 * @property {number | null} end_x where it was stopped
 * @property {number[]} underruns
 * @property {{x: number, label: string}[]} ticks
 */

const MIN_SPAN_MS = 2000;
const TICK_STEPS_S = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300];
const MAX_TICKS = 7;
const MAX_WAVE_BARS = 360;

/**
 * When a position in the audio is heard: as measured where it has been played, at 1x after that.
 * @param {Utterance} utterance
 * @param {number} now_ms
 * @returns {(audio_ms: number) => number} milliseconds on the page's clock; ask in ascending order
 */
function playbackClock(utterance, now_ms) {
  const { lead } = utterance;
  const start_ms = utterance.first_sound_at_ms ?? now_ms;
  let at = 0;
  return (audio_ms) => {
    while (at < lead.length && /** @type {import("./utterance.js").LeadPoint} */ (lead[at]).played_ms <= audio_ms)
      at += 1;
    const next = lead[at];
    const previous = lead[at - 1];
    if (next === undefined) {
      if (previous === undefined) return start_ms + audio_ms;
      if (previous.played_ms === audio_ms && audio_ms > 0) return previous.at_ms;
      return Math.max(previous.at_ms, utterance.is_open ? now_ms : 0) + audio_ms - previous.played_ms;
    }
    if (previous === undefined || previous.played_ms === 0) return next.at_ms - (next.played_ms - audio_ms);
    const share = (audio_ms - previous.played_ms) / (next.played_ms - previous.played_ms);
    return Math.min(previous.at_ms + share * (next.at_ms - previous.at_ms), next.at_ms);
  };
}

/**
 * @param {Utterance} utterance
 * @param {number} width
 * @param {number} now_ms
 * @returns {TimelineShapes | null} null before any text
 */
export function timelineShapes(utterance, width, now_ms) {
  const origin_ms = utterance.first_text_at_ms;
  if (origin_ms === null) return null;
  const heardAt = playbackClock(utterance, now_ms);
  const was_stopped = utterance.spoken_chars !== null;
  const stopped_at_ms =
    was_stopped && utterance.received_samples > 0 ? playbackClock(utterance, now_ms)(utterance.played_ms) : null;
  /** @type {{at_ms: number, height: number, is_heard: boolean}[]} */
  const waves = [];
  const step_ms = ENVELOPE_STEP_S * 1000;
  const stride = Math.max(1, Math.ceil(utterance.envelope.length / MAX_WAVE_BARS));
  for (let i = 0; i < utterance.envelope.length; i += stride) {
    const height = Math.max(...utterance.envelope.slice(i, i + stride).map((peak) => peak ?? 0));
    const audio_ms = i * step_ms;
    waves.push({ at_ms: heardAt(audio_ms), height, is_heard: audio_ms < utterance.played_ms });
  }
  const ends = [
    utterance.fragments.at(-1)?.at_ms ?? origin_ms,
    utterance.is_open ? now_ms : (utterance.ended_at_ms ?? now_ms),
    waves.at(-1)?.at_ms ?? origin_ms,
    origin_ms + MIN_SPAN_MS,
  ];
  const span_ms = (Math.max(...ends) - origin_ms) * 1.02;
  /** @param {number} at_ms */
  const x = (at_ms) => Math.round(((at_ms - origin_ms) / span_ms) * width * 10) / 10;
  const loudest = Math.max(0.05, ...waves.map((wave) => wave.height));
  const leads = utterance.lead.map((point) => Math.max(0, point.received_ms - point.played_ms));
  const lead_scale_ms = Math.max(1000, ...leads);
  const tick_s = TICK_STEPS_S.find((step) => span_ms / 1000 / step <= MAX_TICKS) ?? 600;
  const tick_count = Math.floor(span_ms / 1000 / tick_s);
  return {
    span_ms,
    fragments: utterance.fragments.map((fragment) => x(fragment.at_ms)),
    segments: utterance.segments.map(({ first_at_ms, last_at_ms }) => ({
      x: x(first_at_ms),
      width: Math.max(3, x(last_at_ms) - x(first_at_ms)),
    })),
    waveform: waves.map(({ at_ms, height, is_heard }) => ({ x: x(at_ms), height: height / loudest, is_heard })),
    lead: utterance.lead.map((point, i) => [x(point.at_ms), /** @type {number} */ (leads[i]) / lead_scale_ms]),
    lead_scale_ms,
    first_audio_x: utterance.first_sound_at_ms === null ? null : x(utterance.first_sound_at_ms),
    end_x: stopped_at_ms === null ? null : x(stopped_at_ms),
    underruns: utterance.underruns.map((underrun) => x(underrun.at_ms)),
    ticks: Array.from({ length: tick_count }, (_, i) => {
      const at_s = (i + 1) * tick_s;
      return { x: x(origin_ms + at_s * 1000), label: `${at_s} s` };
    }),
  };
}
