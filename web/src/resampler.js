// @ts-check
/**
 * Sample-rate conversion on the sample clock: a windowed-sinc polyphase filter whose position is kept in integers, so
 * that hours of speech neither drift nor round. Pure; nothing is allocated after construction.
 */

const TAPS_PER_SIDE = 16;
const KAISER_BETA = 8;
const PASSBAND = 0.94;
/** Every pair of usual rates needs fewer phases than this; a stranger one is rounded to the nearest phase. */
const MAX_PHASES = 2048;

/** @param {number} a @param {number} b @returns {number} */
function gcd(a, b) {
  return b === 0 ? a : gcd(b, a % b);
}

/** The modified Bessel function of order 0, by its series. @param {number} x */
function bessel0(x) {
  let sum = 1;
  let term = 1;
  for (let k = 1; term > sum * 1e-12; k += 1) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

export class Resampler {
  /** @param {number} source_rate_hz @param {number} output_rate_hz */
  constructor(source_rate_hz, output_rate_hz) {
    for (const rate of [source_rate_hz, output_rate_hz]) {
      if (!Number.isInteger(rate) || rate <= 0) throw new RangeError(`a sample rate of ${rate} Hz is not possible`);
    }
    const divisor = gcd(source_rate_hz, output_rate_hz);
    /** Output samples per `source_step` source samples. */
    this.output_step = output_rate_hz / divisor;
    this.source_step = source_rate_hz / divisor;
    this.is_identity = source_rate_hz === output_rate_hz;
    const cutoff = this.is_identity ? 1 : Math.min(1, output_rate_hz / source_rate_hz) * PASSBAND;
    /** Source samples needed on each side of a position. */
    this.reach_samples = this.is_identity ? 0 : Math.ceil(TAPS_PER_SIDE / cutoff);
    this.phases = Math.min(this.output_step, MAX_PHASES);
    this.taps = 2 * this.reach_samples;
    /** Row p holds the filter for a position p / phases past a source sample. */
    this.table = this.is_identity ? new Float32Array(0) : this.#design(cutoff);
  }

  /** @param {number} cutoff fraction of the source's Nyquist frequency */
  #design(cutoff) {
    const table = new Float32Array(this.phases * this.taps);
    for (let phase = 0; phase < this.phases; phase += 1) {
      const row = table.subarray(phase * this.taps, (phase + 1) * this.taps);
      let sum = 0;
      for (let tap = 0; tap < this.taps; tap += 1) {
        const x = tap - (this.reach_samples - 1) - phase / this.phases;
        const angle = Math.PI * cutoff * x;
        const sinc = angle === 0 ? 1 : Math.sin(angle) / angle;
        const edge = x / this.reach_samples;
        const window =
          Math.abs(edge) >= 1 ? 0 : bessel0(KAISER_BETA * Math.sqrt(1 - edge * edge)) / bessel0(KAISER_BETA);
        row[tap] = sinc * window;
        sum += sinc * window;
      }
      for (let tap = 0; tap < this.taps; tap += 1) row[tap] = /** @type {number} */ (row[tap]) / sum;
    }
    return table;
  }

  /**
   * Filter taps begin at source sample `at - reach + 1` for the position `at + numerator / output_step`.
   * @param {number} numerator 0 … output_step - 1
   * @returns {number} index into `table` of the position's first tap
   */
  row(numerator) {
    const phase =
      this.phases === this.output_step ? numerator : Math.floor((numerator * this.phases) / this.output_step);
    return phase * this.taps;
  }
}
