// @ts-check
/**
 * The conversation on this page: opens utterances, streams their text, hands audio to the player, and stops them. Owns
 * every Utterance; views are told what changed and read it from there.
 */

import { Utterance } from "./utterance.js";

/** @typedef {import("./native_codec.js").OpenOptions} OpenOptions */
/** @typedef {import("./native_codec.js").ControlMessage} ControlMessage */
/** @typedef {import("./connection.js").Connection} Connection */
/** @typedef {import("./player.js").Player} Player */

const ACK_EVERY_MS = 200;
/** Audio kept for saving, over all utterances; the oldest goes first. */
const KEPT_AUDIO_S = 600;
const KEPT_UTTERANCES = 50;

/** States in which text, audio and progress still count. @type {readonly string[]} */
const LIVE = ["waiting", "speaking"];

/** A stream of text pieces at an even pace; `null` rate: all at once. */
class Pacer {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {string[]} pieces
   * @param {number | null} rate_hz
   * @param {(piece: string) => void} onPiece
   * @param {() => void} onEnd
   */
  constructor(pieces, rate_hz, onPiece, onEnd) {
    const began_at_ms = performance.now();
    let next = 0;
    const turn = () => {
      const elapsed_s = (performance.now() - began_at_ms) / 1000;
      // A background tab's timers are late: what is due by now goes out together.
      const due = rate_hz === null ? pieces.length : Math.floor(elapsed_s * rate_hz) + 1;
      while (next < Math.min(due, pieces.length)) {
        onPiece(/** @type {string} */ (pieces[next]));
        next += 1;
      }
      if (next === pieces.length) onEnd();
      else this.#timer = setTimeout(turn, 1000 / (rate_hz ?? 1000));
    };
    turn();
  }

  stop() {
    clearTimeout(this.#timer);
  }
}

export class Conversation {
  #connection;
  #player;
  #events;
  /** @type {Map<string, Utterance>} */
  #utterances = new Map();
  /** @type {Map<number, Utterance>} */
  #by_number = new Map();
  /** @type {Map<string, Pacer>} */
  #pacers = new Map();
  /** @type {Map<string, number>} */
  #acked_ms = new Map();
  /** Longest input of an utterance, as the server announced it. */
  #max_chars = Number.POSITIVE_INFINITY;
  #next_id = 1;
  #id_prefix = Math.floor(Math.random() * 0x7fffffff).toString(36);

  /**
   * @param {Connection} connection
   * @param {Player} player
   * @param {object} events
   * @param {(utterance: Utterance) => void} events.onOpened
   * @param {(utterance: Utterance) => void} events.onChanged text, words or state are different
   * @param {(utterance: Utterance) => void} events.onForgotten too old to be kept
   * @param {(message: string) => void} events.onProblem something about the session, not about one utterance
   */
  constructor(connection, player, events) {
    this.#connection = connection;
    this.#player = player;
    this.#events = events;
  }

  /** In the order opened. */
  get utterances() {
    return [...this.#utterances.values()];
  }

  get is_speaking() {
    return this.utterances.some((utterance) => utterance.is_open);
  }

  /**
   * @param {OpenOptions} options
   * @returns {Utterance}
   */
  open(options) {
    const id = `${this.#id_prefix}-${this.#next_id}`;
    this.#next_id += 1;
    const utterance = new Utterance({ id, voice: options.voice ?? "", is_queued: this.is_speaking });
    this.#utterances.set(id, utterance);
    this.#connection.send({ type: "open", utterance: id, ...options });
    this.#events.onOpened(utterance);
    this.#forgetOldUtterances();
    return utterance;
  }

  /**
   * @param {string[]} pieces
   * @param {number | null} rate_hz pieces a second; null = all at once
   * @param {OpenOptions} options
   */
  speak(pieces, rate_hz, options) {
    const utterance = this.open(options);
    const pacer = new Pacer(
      pieces,
      rate_hz,
      (piece) => this.append(utterance, piece),
      () => this.end(utterance),
    );
    this.#pacers.set(utterance.id, pacer);
    return utterance;
  }

  /** @param {import("./native_codec.js").ReadyMessage} ready */
  begin(ready) {
    this.#max_chars = ready.limits.utterance_chars;
  }

  /** @param {Utterance} utterance @param {string} text */
  append(utterance, text) {
    if (text === "" || utterance.is_text_complete || !LIVE.includes(utterance.state)) return;
    const added = Array.from(text);
    const chars = utterance.code_points.length + added.length;
    const is_over = chars > this.#max_chars;
    // The server would refuse the piece whole: it gets as much as it takes, and the listener is told.
    const taken = is_over ? added.slice(0, this.#max_chars - utterance.code_points.length).join("") : text;
    if (taken !== "") {
      utterance.append(taken, performance.now());
      this.#connection.send({ type: "text", utterance: utterance.id, text: taken });
    }
    if (is_over) {
      const [given, limit] = [chars, this.#max_chars].map((count) => count.toLocaleString("en"));
      utterance.notes.add(`The text is ${given} characters or more, at most ${limit} are spoken.`);
      this.#pacers.get(utterance.id)?.stop();
      this.end(utterance);
    }
    this.#events.onChanged(utterance);
  }

  /** Speak what was sent, without waiting for more. @param {Utterance} utterance */
  flush(utterance) {
    this.#connection.send({ type: "flush", utterance: utterance.id });
  }

  /** @param {Utterance} utterance */
  end(utterance) {
    if (utterance.is_text_complete) return;
    utterance.is_text_complete = true;
    if (utterance.is_open) this.#connection.send({ type: "end", utterance: utterance.id });
    this.#events.onChanged(utterance);
  }

  /**
   * Silence everything now, then tell the server how far each was heard.
   * @returns {Promise<Utterance[]>} those that were stopped
   */
  async interrupt() {
    const stopped = this.utterances.filter((utterance) => utterance.is_open && utterance.enter("stopping"));
    for (const utterance of stopped) this.#pacers.get(utterance.id)?.stop();
    const played = await this.#player.interrupt(stopped.map((utterance) => utterance.id));
    for (const utterance of stopped) {
      utterance.is_text_complete = true;
      utterance.played_samples = played[utterance.id] ?? 0;
      utterance.ended_at_ms = performance.now();
      const played_ms = Math.round(utterance.played_ms * 1000) / 1000;
      utterance.freeze(played_ms);
      // Without a connection it is said when the session is taken up again, or nobody is left to be told.
      this.#connection.send({ type: "cancel", utterance: utterance.id, played_ms });
      this.#events.onChanged(utterance);
    }
    return stopped;
  }

  // ---- from the server -------------------------------------------------------------------------------------------

  /** @param {ControlMessage} message */
  receive(message) {
    const id = "utterance" in message ? message.utterance : undefined;
    const utterance = id === undefined ? undefined : this.#utterances.get(id);
    if (utterance === undefined) {
      if (message.type === "error" || message.type === "warning") this.#events.onProblem(message.message);
      return;
    }
    switch (message.type) {
      case "started":
        utterance.begin(message);
        this.#by_number.set(message.number, utterance);
        if (utterance.state === "waiting") this.#player.open(utterance.id, message.sample_rate_hz);
        break;
      case "words":
        utterance.words.push(...message.words);
        if (utterance.state === "stopping") utterance.freeze(utterance.played_ms);
        break;
      case "done":
        utterance.done = message;
        utterance.is_text_complete = true;
        this.#pacers.get(utterance.id)?.stop();
        if (message.reason === "error") {
          this.#cutShort(utterance, utterance.failure || "The server could not speak it.");
        } else if (utterance.received_samples === 0 && utterance.enter("finished")) {
          utterance.ended_at_ms = performance.now();
        } else {
          utterance.is_audio_complete = true;
          this.#player.finish(utterance.id);
        }
        break;
      case "cancelled":
        utterance.cancelled = message;
        utterance.spoken_chars = message.spoken_chars;
        utterance.enter("stopping");
        utterance.enter("interrupted");
        break;
      case "warning":
        if (message.code === "nothing_to_cancel") utterance.enter("interrupted");
        else utterance.notes.add(message.message);
        break;
      case "error":
        if (utterance.state === "stopping") utterance.enter("interrupted");
        else this.#cutShort(utterance, message.message);
        break;
      default:
        return;
    }
    this.#events.onChanged(utterance);
  }

  /** @param {import("./native_codec.js").AudioFrame} frame */
  receiveAudio(frame) {
    const utterance = this.#by_number.get(frame.number);
    if (utterance === undefined || !LIVE.includes(utterance.state)) return;
    try {
      const samples = utterance.receiveAudio(frame, performance.now());
      this.#player.push(utterance.id, samples.slice(), frame.is_segment_end, frame.is_last);
    } catch (error) {
      this.#cutShort(utterance, error instanceof Error ? error.message : String(error));
      this.#events.onChanged(utterance);
    }
    this.#forgetOldAudio();
  }

  #forgetOldUtterances() {
    const closed = this.utterances.filter((utterance) => !utterance.is_open);
    for (const utterance of closed.slice(0, Math.max(0, this.#utterances.size - KEPT_UTTERANCES))) {
      this.#utterances.delete(utterance.id);
      this.#pacers.delete(utterance.id);
      this.#acked_ms.delete(utterance.id);
      this.#events.onForgotten(utterance);
    }
  }

  #forgetOldAudio() {
    let kept_s = 0;
    for (const utterance of this.utterances.reverse()) {
      if (utterance.sample_rate_hz > 0) kept_s += utterance.received_samples / utterance.sample_rate_hz;
      if (kept_s > KEPT_AUDIO_S && !utterance.is_open) utterance.chunks = [];
    }
  }

  /** @param {import("./player.js").Report} report */
  noteProgress(report) {
    const now_ms = performance.now();
    for (const track of report.tracks) {
      const utterance = this.#utterances.get(track.id);
      if (utterance === undefined || !LIVE.includes(utterance.state)) continue;
      if (track.start_frame !== null && utterance.enter("speaking")) {
        // No sound comes before its packet; a sound card that starts up in bursts may make it seem so.
        const heard_at_ms = this.#player.heardAtMs(track.start_frame);
        utterance.first_sound_at_ms = Math.max(heard_at_ms, utterance.first_frame_at_ms ?? heard_at_ms);
        this.#events.onChanged(utterance);
      }
      utterance.noteProgress(now_ms, track.played_samples);
      for (let i = utterance.underruns.length; i < track.underruns; i += 1) {
        utterance.underruns.push({ at_ms: now_ms, played_ms: utterance.played_ms });
      }
      const is_over = track.state === "ended";
      this.#acknowledge(utterance, is_over);
      if (is_over) this.#playedOut(utterance, now_ms);
    }
  }

  /** @param {Utterance} utterance @param {number} now_ms */
  #playedOut(utterance, now_ms) {
    if (utterance.failure === "") utterance.enter("finished");
    else this.#fail(utterance);
    utterance.ended_at_ms = now_ms;
    this.#events.onChanged(utterance);
  }

  /** @param {Utterance} utterance @param {boolean} is_over */
  #acknowledge(utterance, is_over) {
    const acked_ms = this.#acked_ms.get(utterance.id) ?? 0;
    const played_ms = Math.round(utterance.played_ms * 1000) / 1000;
    if (played_ms <= acked_ms || (!is_over && played_ms - acked_ms < ACK_EVERY_MS)) return;
    if (this.#connection.send({ type: "ack", utterance: utterance.id, played_ms }))
      this.#acked_ms.set(utterance.id, played_ms);
  }

  // ---- connection --------------------------------------------------------------------------------------------------

  /** @param {import("./native_codec.js").ResumedMessage} message */
  resume(message) {
    const kept = new Map(message.utterances.map((entry) => [entry.utterance, entry]));
    for (const utterance of this.utterances.filter((candidate) => candidate.is_open)) {
      const entry = kept.get(utterance.id);
      if (entry === undefined) {
        if (!utterance.is_audio_complete)
          this.#cutShort(utterance, "The server no longer knew it after the connection was lost.");
        continue;
      }
      const missing = utterance.code_points.slice(entry.received_chars).join("");
      if (missing !== "" && !entry.ended)
        this.#connection.send({ type: "text", utterance: utterance.id, text: missing });
      if (utterance.is_text_complete && !entry.ended) this.#connection.send({ type: "end", utterance: utterance.id });
      if (utterance.state === "stopping") {
        this.#connection.send({ type: "cancel", utterance: utterance.id, played_ms: utterance.played_ms });
      }
    }
  }

  /** The session is gone. */
  lose() {
    this.#by_number.clear();
    for (const utterance of this.utterances.filter((candidate) => candidate.is_open)) {
      if (utterance.state === "stopping") utterance.enter("interrupted");
      else if (!utterance.is_audio_complete)
        this.#cutShort(utterance, "The connection was lost before all of it had arrived.");
      this.#events.onChanged(utterance);
    }
  }

  /** Nothing more will come of it; what has come is still played. @param {Utterance} utterance @param {string} why */
  #cutShort(utterance, why) {
    this.#pacers.get(utterance.id)?.stop();
    utterance.is_text_complete = true;
    utterance.failure ||= why;
    if (utterance.received_samples === 0) this.#fail(utterance);
    else this.#player.finish(utterance.id);
  }

  /** @param {Utterance} utterance */
  #fail(utterance) {
    if (!utterance.enter("failed")) return;
    utterance.ended_at_ms = performance.now();
    utterance.freeze(utterance.played_ms);
  }
}
