// @ts-check
/** What the listener chose, and what of it a given server can take. Pure. */

import { isPlayable } from "./pcm.js";

/**
 * @typedef {object} Settings
 * @property {string | null} voice null = the server's default
 * @property {number} speed ratio, 1 = the voice's own pace
 * @property {string} format
 * @property {number | null} sample_rate_hz null = the server's default
 * @property {string | null} language null = the server's choice
 * @property {number | null} seed null = another at each utterance
 * @property {number} prebuffer_ms audio collected before sound begins
 * @property {"model" | "whole" | "typing"} mode
 * @property {number} tokens_per_s
 * @property {"system" | "light" | "dark"} theme
 */

/** @type {Readonly<Settings>} */
export const DEFAULT_SETTINGS = Object.freeze({
  voice: null,
  speed: 1,
  format: "pcm_s16le",
  sample_rate_hz: null,
  language: null,
  seed: null,
  prebuffer_ms: 60,
  mode: "model",
  tokens_per_s: 50,
  theme: "system",
});

/** Rates a listener may ask of PCM; telephone formats imply theirs. */
export const PCM_RATES_HZ = Object.freeze([8000, 16000, 22050, 24000, 44100, 48000]);
export const SPEED_RANGE = Object.freeze({ min: 0.5, max: 2, step: 0.05 });
export const PREBUFFER_RANGE_MS = Object.freeze({ min: 20, max: 500, step: 10 });
export const MAX_SEED = 2 ** 53 - 1;

/** @param {unknown} value @param {number} min @param {number} max @param {number} fallback */
function numberWithin(value, min, max, fallback) {
  return typeof value === "number" && value >= min && value <= max ? value : fallback;
}

/**
 * Settings out of storage: whatever is missing or strange there is as by default.
 * @param {string | null} stored
 * @returns {Settings}
 */
export function parseSettings(stored) {
  let kept;
  try {
    kept = JSON.parse(stored ?? "{}");
  } catch {
    kept = {};
  }
  const fallback = DEFAULT_SETTINGS;
  /** @param {unknown} value */
  const stringOrNull = (value) => (typeof value === "string" && value !== "" ? value : null);
  return {
    voice: stringOrNull(kept?.voice),
    speed: numberWithin(kept?.speed, SPEED_RANGE.min, SPEED_RANGE.max, fallback.speed),
    format: typeof kept?.format === "string" && isPlayable(kept.format) ? kept.format : fallback.format,
    sample_rate_hz: PCM_RATES_HZ.includes(kept?.sample_rate_hz) ? kept.sample_rate_hz : null,
    language: stringOrNull(kept?.language),
    seed: Number.isSafeInteger(kept?.seed) && kept.seed >= 0 ? kept.seed : null,
    prebuffer_ms: numberWithin(
      kept?.prebuffer_ms,
      PREBUFFER_RANGE_MS.min,
      PREBUFFER_RANGE_MS.max,
      fallback.prebuffer_ms,
    ),
    mode: ["model", "whole", "typing"].includes(kept?.mode) ? kept.mode : fallback.mode,
    tokens_per_s: numberWithin(kept?.tokens_per_s, 2, 120, fallback.tokens_per_s),
    theme: ["system", "light", "dark"].includes(kept?.theme) ? kept.theme : fallback.theme,
  };
}

/** @param {string} format @returns {boolean} may a rate be asked of it? */
export function hasFreeRate(format) {
  return format.startsWith("pcm_");
}

/**
 * The settings as an `open` message carries them: only what differs from the server's defaults and what it can use.
 * @param {Settings} settings
 * @param {import("./connection.js").ServerInfo | null} info
 * @returns {import("./native_codec.js").OpenOptions}
 */
export function openOptions(settings, info) {
  const parameters = info?.model.parameters ?? [];
  /** @type {import("./native_codec.js").OpenOptions} */
  const options = { format: settings.format };
  const voice = info?.voices.find((candidate) => candidate.id === settings.voice)?.id ?? info?.default_voice;
  if (voice !== undefined) options.voice = voice;
  if (settings.sample_rate_hz !== null && hasFreeRate(settings.format))
    options.sample_rate_hz = settings.sample_rate_hz;
  if (settings.speed !== 1 && parameters.includes("speed")) options.speed = settings.speed;
  if (settings.seed !== null && parameters.includes("seed")) options.seed = settings.seed;
  if (settings.language !== null && (info?.model.languages ?? []).includes(settings.language))
    options.language = settings.language;
  return options;
}
