// @ts-check
/**
 * Tells a screen reader what happened, never over the speech: while something is being said, only the latest news is kept,
 * and told when it is quiet again.
 */

export class Announcer {
  #write;
  #held = "";
  #is_quiet = true;

  /** @param {(message: string) => void} write puts a message into the live region */
  constructor(write) {
    this.#write = write;
  }

  /** @param {string} message */
  say(message) {
    if (this.#is_quiet) this.#write(message);
    else this.#held = message;
  }

  /** @param {boolean} is_speaking */
  setSpeaking(is_speaking) {
    this.#is_quiet = !is_speaking;
    if (this.#is_quiet && this.#held !== "") {
      this.#write(this.#held);
      this.#held = "";
    }
  }
}
