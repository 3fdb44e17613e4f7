// @ts-check
/** How long to wait before the next attempt to connect. Pure: its random source is an argument. */

const FIRST_DELAY_S = 0.5;
const MAX_DELAY_S = 20;
const GROWTH = 1.8;

export class Backoff {
  #attempt = 0;

  /** Call when a connection has worked. */
  reset() {
    this.#attempt = 0;
  }

  /**
   * @param {number | undefined} retry_after_s what the server asked for, if it did; never undercut
   * @param {number} random in [0, 1)
   * @returns {number} seconds
   */
  nextDelay(retry_after_s, random) {
    const ceiling_s = Math.min(MAX_DELAY_S, FIRST_DELAY_S * GROWTH ** this.#attempt);
    this.#attempt += 1;
    // Half fixed, half random, so that a crowd that lost its server together does not come back together.
    const delay_s = ceiling_s * (0.5 + random / 2);
    return Math.max(delay_s, retry_after_s === undefined ? 0 : retry_after_s * (1 + random / 10));
  }
}
