// @ts-check
/**
 * The socket to the gateway: opens it, authenticates, says in plain data why it is not there, and brings it back. It knows
 * `ready`, `resumed`, `pong` and the codes that close a connection; every other message goes to its owner unread.
 */

import { Backoff } from "./backoff.js";
import { CodecError, SUBPROTOCOL, decodeAudio, decodeMessage, encodeMessage } from "./native_codec.js";

/**
 * @typedef {{kind: "connecting"}
 *   | {kind: "ready"}
 *   | {kind: "resting"}
 *   | {kind: "waiting", reason: "full" | "draining" | "starting" | "away", detail: string, retry_at_ms: number}
 *   | {kind: "locked", reason: "needed" | "refused" | "forbidden", detail: string}} ConnectionState
 * resting: the server closed an idle connection; the next use opens it again
 */

/** @typedef {{id: string, name: string, language: string, description: string, derived_from: string | null}} Voice */
/**
 * @typedef {object} ServerInfo
 * @property {Voice[]} voices
 * @property {string} default_voice
 * @property {{name: string, word_timing: string, languages: string[], parameters: string[],
 *   tags: Record<string, import("./tags.js").TagSupport>}} model
 */

const READY_TIMEOUT_MS = 10_000;
/** While something is being said; an idle page leaves it to the server to close an idle connection. */
const HEARTBEAT_MS = 5_000;
const RESUME_MS = 30_000;
const CLOSE_GOING_AWAY = 1001;
const CLOSE_ABNORMAL = 1006;
const CLOSE_POLICY = 1008;
const CLOSE_TRY_LATER = 1013;

/** Why a connection could not be had, before its words for people. */
class Refusal extends Error {
  /**
   * @param {"full" | "draining" | "starting" | "away" | "needed" | "refused" | "forbidden"} reason
   * @param {string} detail
   * @param {number} [retry_after_s]
   */
  constructor(reason, detail, retry_after_s) {
    super(detail);
    this.reason = reason;
    this.retry_after_s = retry_after_s;
  }
}

export class Connection {
  #base_url;
  #events;
  #backoff = new Backoff();
  /** @type {WebSocket | null} */
  #socket = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #retry;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #heartbeat;
  #is_pong_due = false;
  #is_attempting = false;
  /** The access key, in memory only. */
  #key = "";
  /** Closed by the server with these words, if it gave any. @type {import("./native_codec.js").ErrorMessage | null} */
  #last_error = null;
  /** @type {string | null} */
  #resume_token = null;
  #last_seq = 0;
  /** The session to fall back on while a kept one is asked for. @type {import("./native_codec.js").ReadyMessage | null} */
  #fresh = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #resume_timeout;
  /** @type {((is_ready: boolean) => void)[]} */
  #waiters = [];
  /** @type {ConnectionState} */
  state = { kind: "connecting" };

  /**
   * @param {string} base_url the page's own address
   * @param {object} events
   * @param {(state: ConnectionState) => void} events.onState
   * @param {(info: ServerInfo) => void} events.onInfo
   * @param {(ready: import("./native_codec.js").ReadyMessage) => void} events.onReady a fresh session
   * @param {() => boolean} events.isInUse is something being said? Then a lost connection is noticed soon, and taken up again
   * @param {(message: import("./native_codec.js").ResumedMessage) => void} events.onResumed
   * @param {() => void} events.onLost whatever the last session held is gone
   * @param {(message: import("./native_codec.js").ControlMessage) => void} events.onMessage
   * @param {(frame: import("./native_codec.js").AudioFrame) => void} events.onAudio
   */
  constructor(base_url, events) {
    this.#base_url = base_url;
    this.#events = events;
  }

  start() {
    globalThis.addEventListener("online", () => this.retryNow());
    document.addEventListener("visibilitychange", () => {
      // A hidden page's timers sleep: whoever comes back to it does not wait for them.
      if (!document.hidden && this.state.kind === "waiting") this.retryNow();
    });
    void this.#attempt();
  }

  retryNow() {
    if (this.#socket === null && !this.#is_attempting) void this.#attempt();
  }

  /** Does this server ask for a key? */
  get needs_key() {
    return this.#key !== "" || this.state.kind === "locked";
  }

  /** @param {string} key */
  useKey(key) {
    this.#key = key.trim();
    this.retryNow();
  }

  /** Wait until messages can be sent; opens a resting connection. @returns {Promise<boolean>} */
  demand() {
    if (this.state.kind === "ready") return Promise.resolve(true);
    if (this.state.kind === "locked" || this.state.kind === "waiting") return Promise.resolve(false);
    const answer = new Promise((resolve) => this.#waiters.push(resolve));
    this.retryNow();
    return answer;
  }

  /** @param {import("./native_codec.js").ClientMessage} message @returns {boolean} false if there is no connection now */
  send(message) {
    if (this.#socket?.readyState !== WebSocket.OPEN || this.state.kind !== "ready") return false;
    this.#socket.send(encodeMessage(message));
    return true;
  }

  /** @param {ConnectionState} state */
  #enter(state) {
    this.state = state;
    if (state.kind !== "connecting") {
      for (const waiter of this.#waiters.splice(0)) waiter(state.kind === "ready");
    }
    this.#events.onState(state);
  }

  async #attempt() {
    clearTimeout(this.#retry);
    this.#is_attempting = true;
    this.#last_error = null;
    this.#enter({ kind: "connecting" });
    try {
      this.#events.onInfo(await this.#fetchJson("antiphon/v1/voices", {}));
      await this.#openSocket(this.#key === "" ? null : await this.#token());
      this.#backoff.reset();
    } catch (error) {
      this.#giveUp(error instanceof Refusal ? error : new Refusal("away", String(error)));
    } finally {
      this.#is_attempting = false;
    }
  }

  async #token() {
    const answer = await this.#fetchJson("antiphon/v1/token", { method: "POST" });
    return /** @type {string} */ (answer.token);
  }

  /** @param {string} path @param {RequestInit} options @returns {Promise<any>} */
  async #fetchJson(path, options) {
    const headers = this.#key === "" ? {} : { Authorization: `Bearer ${this.#key}` };
    let response;
    try {
      response = await fetch(new URL(path, this.#base_url), { ...options, headers, cache: "no-store" });
    } catch {
      throw new Refusal("away", navigator.onLine ? "The server does not answer." : "This device is offline.");
    }
    if (response.ok) return response.json();
    throw await this.#refusalOf(response);
  }

  /** @param {Response} response */
  async #refusalOf(response) {
    let body;
    try {
      body = await response.json();
    } catch {
      body = {};
    }
    const message = typeof body.message === "string" ? body.message : "";
    const seconds = Number(body.retry_after_s ?? response.headers.get("Retry-After") ?? Number.NaN);
    const wait = Number.isFinite(seconds) ? seconds : undefined;
    switch (response.status) {
      case 401:
        return new Refusal(this.#key === "" ? "needed" : "refused", message);
      case 403:
        return new Refusal(this.#key === "" ? "forbidden" : "refused", message);
      case 429:
        return new Refusal("full", message, wait);
      case 503:
        if (body.code === "draining" || body.status === "draining") return new Refusal("draining", message, wait);
        if (body.status === "starting") return new Refusal("starting", message, wait);
        return new Refusal(body.status === "failed" ? "away" : "full", message, wait);
      default:
        return new Refusal("away", message || `The server answered with status ${response.status}.`, wait);
    }
  }

  /** @param {string | null} token @returns {Promise<void>} once the session is there */
  #openSocket(token) {
    const url = new URL("antiphon/v1/speak", this.#base_url);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    if (token !== null) url.searchParams.set("token", token);
    const socket = new WebSocket(url, SUBPROTOCOL);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    return new Promise((resolve, reject) => {
      let is_established = false;
      const timeout = setTimeout(() => socket.close(), READY_TIMEOUT_MS);
      socket.onmessage = ({ data }) => {
        let message;
        try {
          message = typeof data === "string" ? decodeMessage(data) : decodeAudio(data);
        } catch (error) {
          if (!(error instanceof CodecError)) throw error;
          this.#last_error = {
            type: "error",
            code: "bad_message",
            message: `The server speaks another language: ${error.message}.`,
          };
          socket.close();
          return;
        }
        if (message.type === "audio") {
          this.#last_seq = message.seq;
          this.#events.onAudio(message);
        } else if (message.type === "ready") {
          clearTimeout(timeout);
          is_established = true;
          this.#establish(message);
          resolve();
        } else {
          this.#receive(message);
        }
      };
      socket.onclose = (event) => {
        clearTimeout(timeout);
        clearTimeout(this.#resume_timeout);
        clearInterval(this.#heartbeat);
        this.#socket = null;
        this.#fresh = null;
        if (is_established) this.#closed(event);
        else this.#explainFailure(event).then(reject, reject);
      };
    });
  }

  /** @param {import("./native_codec.js").ReadyMessage} ready */
  #establish(ready) {
    this.#is_pong_due = false;
    this.#heartbeat = setInterval(() => this.#beat(), HEARTBEAT_MS);
    if (this.#resume_token !== null && this.#events.isInUse()) {
      this.#fresh = ready;
      const resume = { type: "resume", resume_token: this.#resume_token, last_seq: this.#last_seq };
      this.#socket?.send(encodeMessage(/** @type {import("./native_codec.js").ClientMessage} */ (resume)));
      // Nothing else goes out before the answer: it would overtake what was written while the connection was away.
      this.#resume_timeout = setTimeout(() => this.#socket?.close(), READY_TIMEOUT_MS);
      return;
    }
    this.#last_seq = 0;
    this.#beginAnew(ready);
  }

  /** @param {import("./native_codec.js").ReadyMessage} ready */
  #beginAnew(ready) {
    this.#enter({ kind: "ready" });
    this.#events.onLost();
    this.#begin(ready);
  }

  /** @param {import("./native_codec.js").ReadyMessage} ready */
  #begin(ready) {
    const resume_ms = Math.min(RESUME_MS, ready.limits.resume_ms);
    this.#resume_token = resume_ms > 0 ? ready.resume_token : null;
    if (resume_ms > 0) this.send({ type: "config", resume_ms });
    this.#events.onReady(ready);
  }

  /** @param {import("./native_codec.js").ControlMessage} message */
  #receive(message) {
    if (message.type === "pong") {
      this.#is_pong_due = false;
    } else if (message.type === "resumed") {
      clearTimeout(this.#resume_timeout);
      this.#fresh = null;
      this.#enter({ kind: "ready" });
      this.#events.onResumed(message);
      return;
    } else if (message.type === "error" && message.utterance === undefined) {
      this.#last_error = message;
      const fresh = this.#fresh;
      if (fresh !== null && (message.code === "resume_unknown" || message.code === "resume_gap")) {
        clearTimeout(this.#resume_timeout);
        this.#fresh = null;
        this.#last_seq = message.seq ?? 0;
        this.#beginAnew(fresh);
        return;
      }
    }
    if (message.seq !== undefined) this.#last_seq = message.seq;
    this.#events.onMessage(message);
  }

  #beat() {
    if (!this.#events.isInUse()) {
      this.#is_pong_due = false;
      return;
    }
    if (this.#is_pong_due) {
      // The network went away without a word.
      this.#socket?.close();
      return;
    }
    this.#is_pong_due = this.send({ type: "ping" });
  }

  /** @param {CloseEvent} event */
  #closed(event) {
    const error = this.#last_error;
    if (error?.code === "idle_timeout") {
      this.#resume_token = null;
      this.#events.onLost();
      this.#enter({ kind: "resting" });
      return;
    }
    if (this.#resume_token === null) this.#events.onLost();
    this.#giveUp(this.#refusalOfClose(event));
  }

  /** @param {CloseEvent} event @returns {Refusal} */
  #refusalOfClose(event) {
    const error = this.#last_error;
    const detail = error?.message ?? event.reason;
    const wait = error?.retry_after_s;
    if (event.code === CLOSE_TRY_LATER)
      return new Refusal(error?.code === "draining" ? "draining" : "full", detail, wait);
    if (event.code === CLOSE_GOING_AWAY || error?.code === "draining") return new Refusal("draining", detail, wait);
    if (event.code === CLOSE_POLICY) return new Refusal(this.#key === "" ? "needed" : "refused", detail);
    return new Refusal("away", detail || "The connection was lost.", wait);
  }

  /**
   * A browser does not say why a WebSocket was refused: ask the same questions by plain HTTP.
   * @param {CloseEvent} event
   * @returns {Promise<Refusal>}
   */
  async #explainFailure(event) {
    if (event.code !== CLOSE_ABNORMAL) return this.#refusalOfClose(event);
    for (const path of ["ready", "antiphon/v1/speak"]) {
      try {
        await this.#fetchJson(path, {});
      } catch (error) {
        // Its answer to a plain request on the socket's path may only say that it is no plain path.
        if (error instanceof Refusal && (path === "ready" || error.reason !== "away")) return error;
      }
    }
    return new Refusal("away", "The server answers, but does not take a WebSocket: a proxy may be in the way.");
  }

  /** @param {Refusal} refusal */
  #giveUp(refusal) {
    const { reason, message, retry_after_s } = refusal;
    if (reason === "needed" || reason === "refused" || reason === "forbidden") {
      this.#events.onLost();
      this.#enter({ kind: "locked", reason, detail: message });
      return;
    }
    const delay_s = this.#backoff.nextDelay(retry_after_s, Math.random());
    this.#retry = setTimeout(() => void this.#attempt(), delay_s * 1000);
    this.#enter({ kind: "waiting", reason, detail: message, retry_at_ms: performance.now() + delay_s * 1000 });
  }
}
