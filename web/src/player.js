// @ts-check
/**
 * The page's loudspeaker: owns the AudioContext and the worklet, and knows which sample is at the listener's ear now.
 *
 * Two positions differ by the sound card's delay. *Played* samples have been handed over and cannot be called back: that
 * is what a barge-in reports. *Heard* samples are leaving the loudspeaker at this moment: that is what lights words up.
 */

import { PlaybackHistory } from "./playback_history.js";

/** @typedef {import("./playback_processor.js").ProcessorRequest} ProcessorRequest */
/** @typedef {import("./playback_processor.js").ProcessorReply} ProcessorReply */
/** @typedef {import("./playback_history.js").Report} Report */

const POLL_MS = 20;
/** A reply that takes longer means the audio thread is dead; the last report is the best answer then. */
const INTERRUPT_REPLY_MS = 1000;
const MAX_OUTPUT_DELAY_S = 2;
/** A context that does not run this long after a gesture is being held back, and says nothing about it. */
const RESUME_PATIENCE_MS = 500;

export class Player {
  /** @type {AudioContext | null} */
  #context = null;
  /** @type {AudioWorkletNode | null} */
  #node = null;
  /** Requests made before the worklet was there. @type {{request: ProcessorRequest, transfer: Transferable[]}[]} */
  #early = [];
  #is_unavailable = false;
  /** @type {Map<string, {source_rate_hz: number, is_over: boolean}>} */
  #tracks = new Map();
  #history = new PlaybackHistory();
  /** @type {Map<number, (played: Record<string, number>) => void>} */
  #interrupts = new Map();
  #next_request = 1;
  /** @type {ReturnType<typeof setInterval> | null} */
  #poll = null;
  #events;
  #prebuffer_s = 0.06;

  /**
   * @param {object} events
   * @param {(report: Report) => void} events.onProgress about 50 times a second while there is something to play
   * @param {(state: AudioContextState | "unavailable", detail: string) => void} events.onState
   * @param {(id: string, message: string) => void} events.onFailed
   */
  constructor(events) {
    this.#events = events;
  }

  /** For utterances opened later. @param {number} prebuffer_s */
  setPrebuffer(prebuffer_s) {
    this.#prebuffer_s = prebuffer_s;
  }

  /** Must be called within a user's gesture: browsers keep a page silent before one. */
  unlock() {
    if (this.#is_unavailable) return;
    if (this.#context === null) this.#create();
    const context = this.#context;
    if (context === null || context.state === "running") return;
    context.resume().catch((error) => this.#events.onState("suspended", String(error)));
    setTimeout(() => {
      if (context.state !== "running") this.#events.onState(context.state, "");
    }, RESUME_PATIENCE_MS);
  }

  #create() {
    let context;
    try {
      context = new AudioContext({ latencyHint: "interactive" });
    } catch (error) {
      this.#giveUp(error instanceof Error ? error.message : String(error));
      return;
    }
    this.#context = context;
    context.onstatechange = () => this.#events.onState(context.state, "");
    if (context.audioWorklet === undefined) {
      // Only secure contexts have it: https, or localhost.
      this.#giveUp("the browser gives an AudioWorklet only to https pages and localhost");
      return;
    }
    context.audioWorklet.addModule(new URL("./playback_processor.js", import.meta.url)).then(
      () => this.#connect(context),
      (error) => this.#giveUp(String(error)),
    );
  }

  /** There will be no sound on this page. @param {string} why */
  #giveUp(why) {
    this.#is_unavailable = true;
    this.#early = [];
    this.#events.onState("unavailable", why);
  }

  /** @param {AudioContext} context */
  #connect(context) {
    const node = new AudioWorkletNode(context, "antiphon-playback", { numberOfInputs: 0, outputChannelCount: [1] });
    node.port.onmessage = (event) => this.#receive(event.data);
    node.connect(context.destination);
    this.#node = node;
    for (const { request, transfer } of this.#early.splice(0)) node.port.postMessage(request, transfer);
  }

  /** @param {ProcessorRequest} request @param {Transferable[]} [transfer] */
  #send(request, transfer = []) {
    if (this.#node !== null) this.#node.port.postMessage(request, transfer);
    else if (!this.#is_unavailable && request.type !== "report") this.#early.push({ request, transfer });
  }

  /** @param {string} id @param {number} source_rate_hz */
  open(id, source_rate_hz) {
    this.#tracks.set(id, { source_rate_hz, is_over: false });
    this.#send({ type: "open", id, source_rate_hz, prebuffer_s: this.#prebuffer_s });
    if (this.#poll === null) this.#poll = setInterval(() => this.#send({ type: "report" }), POLL_MS);
  }

  /**
   * @param {string} id
   * @param {Float32Array<ArrayBuffer>} samples given away: the caller must not use them afterwards
   * @param {boolean} is_segment_end
   * @param {boolean} is_last
   */
  push(id, samples, is_segment_end, is_last) {
    this.#send({ type: "push", id, samples, is_segment_end, is_last }, [samples.buffer]);
  }

  /** @param {string} id */
  finish(id) {
    this.#send({ type: "finish", id });
  }

  /**
   * Silence these utterances, with a fade of a few milliseconds.
   * @param {string[]} ids
   * @returns {Promise<Record<string, number>>} source samples played of each
   */
  async interrupt(ids) {
    const known = ids.filter((id) => this.#tracks.has(id));
    const request = this.#next_request;
    this.#next_request += 1;
    const answer = new Promise((resolve) => {
      this.#interrupts.set(request, resolve);
      setTimeout(() => resolve(null), INTERRUPT_REPLY_MS);
    });
    this.#send({ type: "interrupt", ids: known, request });
    const played = this.#node === null ? null : await answer;
    this.#interrupts.delete(request);
    return Object.fromEntries(ids.map((id) => [id, played?.[id] ?? this.#history.last(id)?.played_samples ?? 0]));
  }

  /** @param {ProcessorReply} reply */
  #receive(reply) {
    switch (reply.type) {
      case "report":
        this.#note(reply);
        break;
      case "interrupted":
        this.#interrupts.get(reply.request)?.(reply.played_samples);
        break;
      case "failed":
        this.#events.onFailed(reply.id, reply.message);
        break;
    }
  }

  /** @param {Report} report */
  #note(report) {
    this.#history.note({ frame: report.frame, tracks: report.tracks });
    for (const { id, state } of report.tracks) {
      const track = this.#tracks.get(id);
      if (track !== undefined && state === "ended") track.is_over = true;
    }
    this.#events.onProgress(report);
    const is_idle = report.tracks.length === 0 && [...this.#tracks.values()].every((track) => track.is_over);
    if (is_idle && this.#poll !== null) {
      clearInterval(this.#poll);
      this.#poll = null;
      this.#history.clear();
      this.#tracks.clear();
    }
  }

  /** The output clock's position at the loudspeaker now, in frames. */
  #heardFrame() {
    const context = this.#context;
    if (context === null) return 0;
    const now_s = context.currentTime;
    const stamp = context.getOutputTimestamp();
    let heard_s = (stamp.contextTime ?? 0) + (performance.now() - (stamp.performanceTime ?? 0)) / 1000;
    if (!(stamp.contextTime ?? 0) || heard_s > now_s + 0.05 || heard_s < now_s - MAX_OUTPUT_DELAY_S) {
      heard_s = now_s - (context.outputLatency || 0);
    }
    return heard_s * context.sampleRate;
  }

  /**
   * @param {number} frame of the output clock
   * @returns {number} when it is heard, on `performance.now()`'s clock
   */
  heardAtMs(frame) {
    return performance.now() + ((frame - this.#heardFrame()) / (this.#context?.sampleRate ?? 1)) * 1000;
  }

  /**
   * @param {string} id
   * @returns {number} source samples of the utterance that have left the loudspeaker
   */
  heardSamples(id) {
    const track = this.#tracks.get(id);
    if (track === undefined || this.#context === null) return 0;
    return this.#history.playedAt(id, this.#heardFrame(), track.source_rate_hz / this.#context.sampleRate);
  }
}
