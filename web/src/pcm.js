// @ts-check
/** Encoded samples of the wire to float samples, and float samples to a WAV file. Pure. */

const MULAW_BIAS = 0x84;

/** G.711 µ-law byte -> float sample. */
const MULAW = Float32Array.from({ length: 256 }, (_, byte) => {
  const inverted = ~byte & 0xff;
  const magnitude = (((inverted & 0x0f) << 3) + MULAW_BIAS) << ((inverted & 0x70) >> 4);
  const sample = magnitude - MULAW_BIAS;
  return (inverted & 0x80 ? -sample : sample) / 32768;
});

/** G.711 A-law byte -> float sample. */
const ALAW = Float32Array.from({ length: 256 }, (_, byte) => {
  const toggled = byte ^ 0x55;
  const exponent = (toggled & 0x70) >> 4;
  const mantissa = (toggled & 0x0f) << 4;
  const magnitude = exponent === 0 ? mantissa + 8 : (mantissa + 0x108) << (exponent - 1);
  return (toggled & 0x80 ? magnitude : -magnitude) / 32768;
});

/** @typedef {(payload: Uint8Array) => Float32Array} PayloadDecoder */

/** @param {Uint8Array} payload @param {number} bytes */
function viewOf(payload, bytes) {
  if (payload.byteLength % bytes !== 0) {
    throw new RangeError(`an audio payload of ${payload.byteLength} bytes does not hold whole ${bytes}-byte samples`);
  }
  return new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
}

/** The formats this page can play, by their wire name, with the words shown for them. */
export const PLAYABLE_FORMATS = Object.freeze({
  pcm_s16le: {
    label: "PCM, 16 bit",
    /** @type {PayloadDecoder} */
    decode(payload) {
      const view = viewOf(payload, 2);
      return Float32Array.from({ length: payload.byteLength / 2 }, (_, i) => view.getInt16(i * 2, true) / 32768);
    },
  },
  pcm_f32le: {
    label: "PCM, 32-bit float",
    /** @type {PayloadDecoder} */
    decode(payload) {
      const view = viewOf(payload, 4);
      return Float32Array.from({ length: payload.byteLength / 4 }, (_, i) => view.getFloat32(i * 4, true));
    },
  },
  mulaw: {
    label: "µ-law (telephone)",
    /** @type {PayloadDecoder} */
    decode: (payload) => Float32Array.from(payload, (byte) => /** @type {number} */ (MULAW[byte])),
  },
  alaw: {
    label: "A-law (telephone)",
    /** @type {PayloadDecoder} */
    decode: (payload) => Float32Array.from(payload, (byte) => /** @type {number} */ (ALAW[byte])),
  },
});

/** @typedef {keyof typeof PLAYABLE_FORMATS} PlayableFormat */

/** @param {string} format @returns {format is PlayableFormat} */
export function isPlayable(format) {
  return Object.hasOwn(PLAYABLE_FORMATS, format);
}

/**
 * A RIFF WAVE file, 16-bit mono. Its sizes are exact, so every player can open it.
 * @param {readonly Float32Array[]} chunks samples in [-1, 1]
 * @param {number} sample_rate_hz
 * @returns {ArrayBuffer}
 */
export function encodeWav(chunks, sample_rate_hz) {
  const sample_count = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  const data_bytes = sample_count * 2;
  const file = new ArrayBuffer(44 + data_bytes);
  const view = new DataView(file);
  /** @param {number} at @param {string} name */
  const tag = (at, name) => [...name].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  tag(0, "RIFF");
  view.setUint32(4, 36 + data_bytes, true);
  tag(8, "WAVE");
  tag(12, "fmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, sample_rate_hz, true);
  view.setUint32(28, sample_rate_hz * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  tag(36, "data");
  view.setUint32(40, data_bytes, true);
  let at = 44;
  for (const chunk of chunks) {
    for (const sample of chunk) {
      view.setInt16(at, Math.round(Math.max(-32768, Math.min(32767, sample * 32768))), true);
      at += 2;
    }
  }
  return file;
}
