// @ts-check
/// <reference path="./worklet.d.ts" />
/**
 * The audio thread's end: moves samples from the queue to the output. Everything else happens in messages from the page,
 * between two calls of `process`; the page asks for reports, none is sent unasked.
 */

import { PlaybackQueue } from "./playback_queue.js";

/**
 * @typedef {{type: "open", id: string, source_rate_hz: number, prebuffer_s: number}
 *   | {type: "push", id: string, samples: Float32Array, is_segment_end: boolean, is_last: boolean}
 *   | {type: "finish", id: string}
 *   | {type: "interrupt", ids: string[], request: number}
 *   | {type: "report"}} ProcessorRequest
 */

/**
 * @typedef {{type: "report", frame: number, tracks: import("./playback_queue.js").TrackReport[]}
 *   | {type: "interrupted", request: number, played_samples: Record<string, number>}
 *   | {type: "failed", id: string, message: string}} ProcessorReply
 */

class PlaybackProcessor extends AudioWorkletProcessor {
  #queue = new PlaybackQueue(sampleRate);

  constructor() {
    super();
    this.port.onmessage = (event) => this.#receive(event.data);
  }

  /** @param {ProcessorRequest} request */
  #receive(request) {
    switch (request.type) {
      case "open":
        this.#queue.open(request.id, request.source_rate_hz, request.prebuffer_s);
        break;
      case "push":
        try {
          this.#queue.push(request.id, request.samples, request.is_segment_end, request.is_last);
        } catch (error) {
          this.#reply({ type: "failed", id: request.id, message: String(error) });
        }
        break;
      case "finish":
        this.#queue.finish(request.id);
        break;
      case "interrupt": {
        const played = request.ids.map((id) => [id, this.#queue.interrupt(id)]);
        this.#reply({ type: "interrupted", request: request.request, played_samples: Object.fromEntries(played) });
        break;
      }
      case "report":
        this.#reply({ type: "report", frame: currentFrame, tracks: this.#queue.report() });
        break;
    }
  }

  /** @param {ProcessorReply} reply */
  #reply(reply) {
    this.port.postMessage(reply);
  }

  /** @param {Float32Array[][]} _inputs @param {Float32Array[][]} outputs @returns {boolean} */
  process(_inputs, outputs) {
    const channel = outputs[0]?.[0];
    if (channel !== undefined) this.#queue.pull(channel, currentFrame);
    return true;
  }
}

registerProcessor("antiphon-playback", PlaybackProcessor);
