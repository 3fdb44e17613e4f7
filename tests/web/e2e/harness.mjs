// @ts-check
/** The page in headless Chromium, with every sample that it plays recorded. */

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";
import { MockGateway } from "../mock_gateway.mjs";
import { front } from "./front.mjs";

/** @typedef {import("playwright-core").Page} Page */
/** @typedef {import("../mock_gateway.mjs").Behaviour} Behaviour */

const CHROMIUM =
  process.env.CHROMIUM ??
  ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync) ??
  "";
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

const RECORDER_PATH = "/web/recorder.js";

/**
 * Runs in the audio worklet before the page's processor, and makes it report each quantum that it hands over. (A recording
 * node of its own would miss what the browser drops under load between the two.)
 */
const RECORDER = `
const register = globalThis.registerProcessor;
globalThis.registerProcessor = (name, Processor) =>
  register(name, class extends Processor {
    process(inputs, outputs, parameters) {
      const answer = super.process(inputs, outputs, parameters);
      this.port.postMessage({ type: "recorded", frame: currentFrame, samples: outputs[0][0].slice() });
      return answer;
    }
  });
`;

/** Runs in the page before its own code: collects the recording, and notes when words light up and keys are pressed. */
function tap(/** @type {{rate_hz: number | null, recorder: string}} */ { rate_hz, recorder }) {
  /** @type {any} */
  const page = globalThis;
  page.recorded = [];
  const Context = AudioContext;
  page.AudioContext = class extends Context {
    /** @param {AudioContextOptions} options */
    constructor(options) {
      super(rate_hz === null ? options : { ...options, sampleRate: rate_hz });
      page.audio_context = this;
    }
  };
  const addModule = AudioWorklet.prototype.addModule;
  AudioWorklet.prototype.addModule = async function (url, options) {
    await addModule.call(this, recorder);
    return addModule.call(this, url, options);
  };
  const Node = AudioWorkletNode;
  page.AudioWorkletNode = class extends Node {
    /** @param {BaseAudioContext} context @param {string} name @param {AudioWorkletNodeOptions} options */
    constructor(context, name, options) {
      super(context, name, options);
      this.port.addEventListener("message", ({ data }) => {
        if (data.type === "recorded") page.recorded.push(data);
      });
    }
  };
  page.lit = [];
  const seen = new WeakSet();
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      if (!(target instanceof HTMLElement) || !target.classList.contains("current") || seen.has(target)) continue;
      seen.add(target);
      const context = /** @type {AudioContext} */ (page.audio_context);
      // What is at the loudspeaker at this moment, as the browser itself tells it.
      const { contextTime = 0, performanceTime = 0 } = context.getOutputTimestamp();
      page.lit.push({ text: target.textContent, at_s: contextTime + (performance.now() - performanceTime) / 1000 });
    }
  }).observe(document, { subtree: true, attributes: true, attributeFilter: ["class"] });
  for (const name of ["keydown", "click"]) {
    document.addEventListener(name, () => (page.gesture_at_s = page.audio_context?.currentTime), { capture: true });
  }
}

/** Frames per call of an audio worklet's `process`. */
const QUANTUM = 128;

/** @type {import("playwright-core").Browser | null} */
let browser = null;

export async function closeBrowser() {
  await browser?.close();
  browser = null;
}

/**
 * @typedef {object} VisitOptions
 * @property {number | null} [rate_hz] of the sound card; null = the browser's own
 * @property {import("playwright-core").BrowserContextOptions} [context]
 * @property {RegExp} [allowed] complaints on the console that this test is about
 */

/** One visit to the page at an address, with all that is played, sent and complained of there. */
export class Visit {
  /** Errors and warnings of the page's console, and what it threw. @type {string[]} */
  complaints = [];
  /** @type {any[]} */
  #sent = [];
  /** @type {any[]} */
  #got = [];

  /** @param {Page} page @param {string} address */
  constructor(page, address) {
    this.page = page;
    this.address = address;
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) this.complaints.push(message.text());
    });
    page.on("pageerror", (error) => this.complaints.push(String(error)));
    page.on("websocket", (socket) => {
      socket.on("framesent", ({ payload }) => this.#sent.push(JSON.parse(String(payload))));
      socket.on("framereceived", ({ payload }) => {
        if (typeof payload === "string") this.#got.push(JSON.parse(payload));
      });
    });
  }

  /**
   * @param {string} address
   * @param {(visit: Visit) => Promise<void>} body
   * @param {VisitOptions} [options]
   */
  static async run(address, body, { rate_hz = 24_000, context = {}, allowed = /^$/ } = {}) {
    const before = await front(address, RECORDER_PATH, RECORDER);
    browser ??= await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
    const session = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...context });
    session.setDefaultTimeout(15_000);
    try {
      const page = await session.newPage();
      const visit = new Visit(page, before.address);
      await page.addInitScript(tap, { rate_hz, recorder: RECORDER_PATH });
      await page.goto(before.address);
      await body(visit);
      assert.deepEqual(
        visit.complaints.filter((line) => !allowed.test(line)),
        [],
      );
    } finally {
      await session.close();
      await before.close();
    }
  }

  /** Client messages of a type, in order. @param {string} type */
  sent(type) {
    return this.#sent.filter((message) => message.type === type);
  }

  /** Server messages of a type, in order. @param {string} type */
  got(type) {
    return this.#got.filter((message) => message.type === type);
  }

  ready() {
    return this.page.waitForSelector("#connection[data-kind=ready]");
  }

  /** @param {"model" | "whole" | "typing"} mode */
  async setMode(mode) {
    await this.page.check(`input[name=mode][value=${mode}]`);
  }

  /** @param {string} text @param {"model" | "whole"} [mode] */
  async speak(text, mode = "whole") {
    await this.ready();
    await this.setMode(mode);
    await this.page.fill("#text", text);
    await this.page.press("#text", "Enter");
  }

  /** The newest card in this state. @param {string} state @param {number} [timeout] */
  async until(state, timeout = 20_000) {
    try {
      await this.page.waitForSelector(`#utterances li:first-child[data-state=${state}]`, { timeout });
    } catch (error) {
      const seen = await this.page.evaluate(() => {
        const text = (/** @type {string} */ selector) => document.querySelector(selector)?.textContent;
        const card = document.querySelector("#utterances li:first-child");
        const audio = /** @type {any} */ (globalThis).audio_context;
        return {
          card: card instanceof HTMLElement ? `${card.dataset.state}: ${card.textContent}` : "none",
          connection: text("#connection"),
          notice: text("#notice"),
          audio: `${audio?.state} at ${audio?.currentTime} s`,
        };
      });
      const last = this.#got.slice(-3).map((message) => message.type);
      throw new Error(`not ${state}: ${JSON.stringify(seen)}, last messages ${last}`, { cause: error });
    }
  }

  /** Wait until this much of the newest utterance has been heard. @param {number} words */
  untilHeard(words) {
    return this.page.waitForFunction(
      (count) => document.querySelectorAll("#utterances li:first-child .word.heard").length >= count,
      words,
    );
  }

  /** Everything that went to the loudspeaker, and the output clock at a sample of it. */
  async recording() {
    const { frames, samples } = await this.page.evaluate(() => {
      const chunks = /** @type {any} */ (globalThis).recorded;
      return {
        frames: chunks.map((/** @type {any} */ chunk) => chunk.frame),
        samples: chunks.flatMap((/** @type {any} */ chunk) => [...chunk.samples]),
      };
    });
    return {
      samples: Float32Array.from(samples),
      /** @param {number} index @returns {number} output frame */
      frameOf: (index) => frames[Math.floor(index / QUANTUM)] + (index % QUANTUM),
    };
  }
}

/**
 * A visit to the page on a mock gateway.
 * @param {Behaviour} behaviour
 * @param {(visit: Visit, gateway: MockGateway) => Promise<void>} body
 * @param {VisitOptions} [options]
 */
export async function visitMock(behaviour, body, options) {
  const gateway = new MockGateway(behaviour);
  try {
    await Visit.run(await gateway.listen(), (visit) => body(visit, gateway), options);
  } finally {
    await gateway.close();
  }
}

/** Index of the first sample that is not silence. @param {Float32Array} samples */
export function firstSound(samples) {
  return samples.findIndex((sample) => sample !== 0);
}

/** Index after the last sample that is not silence. @param {Float32Array} samples */
export function lastSound(samples) {
  return samples.findLastIndex((sample) => sample !== 0) + 1;
}

/**
 * Equal to the last bit; says where they part, not what they hold.
 * @param {Float32Array | Int16Array} actual
 * @param {Float32Array | Int16Array} expected
 */
export function assertSameSamples(actual, expected) {
  const parting = expected.findIndex((sample, i) => sample !== actual[i]);
  assert.equal(parting, -1, `sample ${parting} of ${expected.length} is ${actual[parting]}, not ${expected[parting]}`);
  assert.equal(actual.length, expected.length);
}
