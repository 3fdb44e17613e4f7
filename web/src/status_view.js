// @ts-check
/** Says in words how the connection and the sound are, and what can be done about it. */

import { byId } from "./dom.js";

/** @typedef {import("./connection.js").ConnectionState} ConnectionState */

const PROBLEM_SHOWN_MS = 8000;

/** @type {Readonly<Record<"full" | "draining" | "starting" | "away", {short: string, title: string, about: string}>>} */
const WAITING = Object.freeze({
  full: {
    short: "Server full",
    title: "The server is full",
    about: "Every voice it can give is in use at the moment.",
  },
  draining: {
    short: "Server restarting",
    title: "The server is going down for a restart",
    about: "It takes no new speech until it is back.",
  },
  starting: {
    short: "Server starting",
    title: "The server is starting",
    about: "Its voice is not ready yet.",
  },
  away: {
    short: "No connection",
    title: "The server is away",
    about: "It cannot be reached from here.",
  },
});

/** @type {Readonly<Record<"needed" | "refused" | "forbidden", {short: string, title: string, about: string}>>} */
const LOCKED = Object.freeze({
  needed: { short: "Key needed", title: "This server asks for a key", about: "Whoever runs it can give you one." },
  refused: {
    short: "Key refused",
    title: "The server refuses this key",
    about: "It may be mistyped, or no longer valid.",
  },
  forbidden: {
    short: "Refused",
    title: "The server refuses this page",
    about: "It may only be used from other addresses.",
  },
});

export class StatusView {
  #chip = byId("connection", HTMLElement);
  #chip_words = byId("connection-words", HTMLElement);
  #notice = byId("notice", HTMLElement);
  #title = byId("notice-title", HTMLElement);
  #detail = byId("notice-detail", HTMLElement);
  #retry = byId("retry", HTMLButtonElement);
  #key_form = byId("key-form", HTMLFormElement);
  #key = byId("key", HTMLInputElement);
  /** @type {ConnectionState} */
  #state = { kind: "connecting" };
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #countdown;
  #sound_problem = "";
  #problem = "";

  /**
   * @param {object} actions
   * @param {() => void} actions.onRetry
   * @param {(key: string) => void} actions.onKey
   */
  constructor(actions) {
    this.#retry.addEventListener("click", () => actions.onRetry());
    this.#key_form.addEventListener("submit", (event) => {
      event.preventDefault();
      actions.onKey(this.#key.value);
      this.#key.value = "";
    });
  }

  /** The connection's state in a sentence. */
  get words() {
    const state = this.#state;
    if (state.kind === "waiting") return `${WAITING[state.reason].title}. Trying again by itself.`;
    if (state.kind === "locked") return `${LOCKED[state.reason].title}.`;
    return { connecting: "Connecting.", ready: "Connected.", resting: "Connected when needed." }[state.kind];
  }

  /** @param {ConnectionState} state */
  showConnection(state) {
    // A try that follows a failure keeps the notice until it is known how it went: no flicker.
    const is_retrying = state.kind === "connecting" && this.#state.kind === "waiting";
    this.#chip.dataset.kind = state.kind;
    clearInterval(this.#countdown);
    if (is_retrying) {
      this.#chip_words.textContent = "Trying again";
      return;
    }
    this.#state = state;
    this.#write();
    if (state.kind === "waiting") this.#countdown = setInterval(() => this.#write(), 500);
  }

  /** @param {AudioContextState | "unavailable" | "interrupted"} state @param {string} detail */
  showSound(state, detail) {
    this.#sound_problem =
      state === "running" || state === "closed"
        ? ""
        : state === "unavailable"
          ? `This browser cannot play the speech: ${detail}.`
          : "The browser holds the sound back. Press anywhere on the page to let it through.";
    this.#write();
  }

  /** @param {string} message shown for some seconds */
  showProblem(message) {
    this.#problem = message;
    this.#write();
    setTimeout(() => {
      if (this.#problem === message) this.#problem = "";
      this.#write();
    }, PROBLEM_SHOWN_MS);
  }

  #write() {
    const state = this.#state;
    const notice = this.#noticeWords();
    this.#notice.hidden = notice === null;
    this.#chip_words.textContent = this.#chipWords();
    this.#retry.hidden = state.kind !== "waiting";
    this.#key_form.hidden = state.kind !== "locked" || state.reason === "forbidden";
    if (notice === null) return;
    if (this.#title.textContent !== notice.title) this.#title.textContent = notice.title;
    if (this.#detail.textContent !== notice.detail) this.#detail.textContent = notice.detail;
  }

  #chipWords() {
    const state = this.#state;
    switch (state.kind) {
      case "waiting":
        return WAITING[state.reason].short;
      case "locked":
        return LOCKED[state.reason].short;
      case "connecting":
        return "Connecting";
      default:
        return "Connected";
    }
  }

  /** @returns {{title: string, detail: string} | null} */
  #noticeWords() {
    const state = this.#state;
    if (state.kind === "waiting") {
      const { title, about } = WAITING[state.reason];
      const left_s = Math.max(0, Math.ceil((state.retry_at_ms - performance.now()) / 1000));
      const when = left_s > 0 ? `Trying again in ${left_s} s.` : "Trying again now.";
      return { title, detail: `${state.detail || about} ${when}` };
    }
    if (state.kind === "locked") {
      const { title, about } = LOCKED[state.reason];
      return { title, detail: state.reason === "needed" ? about : state.detail || about };
    }
    if (this.#sound_problem !== "") return { title: "No sound yet", detail: this.#sound_problem };
    if (this.#problem !== "") return { title: "The server remarks", detail: this.#problem };
    return null;
  }
}
