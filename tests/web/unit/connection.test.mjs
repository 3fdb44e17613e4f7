// @ts-check
/** What goes out over a connection that has been lost, while the session it held is asked for. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Connection } from "../../../web/src/connection.js";

/** @type {FakeSocket[]} */
let sockets = [];
/** @type {string[]} */
let events = [];

class FakeSocket {
  static OPEN = 1;
  readyState = 1;
  /** @type {any[]} */
  sent = [];
  /** @type {((event: {data: string}) => void) | null} */
  onmessage = null;
  /** @type {((event: {code: number, reason: string}) => void) | null} */
  onclose = null;

  constructor() {
    sockets.push(this);
  }

  /** @param {string} data */
  send(data) {
    this.sent.push(JSON.parse(data));
  }

  close() {
    this.readyState = 3;
    this.onclose?.({ code: 1006, reason: "" });
  }

  /** @param {object} message */
  answer(message) {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

const READY = {
  type: "ready",
  session: "s",
  resume_token: "t",
  model: "m",
  voices: [],
  default_voice: "v",
  limits: { resume_ms: 30_000 },
  seq: 0,
};

beforeEach(() => {
  sockets = [];
  events = [];
  Object.assign(globalThis, {
    WebSocket: FakeSocket,
    addEventListener() {},
    document: { addEventListener() {}, hidden: false },
    fetch: async () => ({ ok: true, json: async () => ({ voices: [], model: {} }) }),
  });
});

/** @returns {Connection} */
function connection() {
  return new Connection("http://server/", {
    onState: (state) => events.push(state.kind),
    onInfo: () => {},
    onReady: () => events.push("fresh"),
    isInUse: () => true,
    onResumed: () => events.push("resumed"),
    onLost: () => events.push("lost"),
    onMessage: () => {},
    onAudio: () => {},
  });
}

async function turn() {
  for (let count = 0; count < 10; count += 1) await Promise.resolve();
}

/** A connection that was lost, and whose second socket has just been answered with `ready`. */
async function broughtBack() {
  const made = connection();
  made.start();
  await turn();
  sockets[0]?.answer(READY);
  await turn();
  sockets[0]?.close();
  made.retryNow();
  await turn();
  events = [];
  sockets[1]?.answer(READY);
  await turn();
  return made;
}

test("nothing overtakes what was written while the connection was away", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const made = await broughtBack();
  assert.deepEqual(
    sockets[1]?.sent.map((message) => message.type),
    ["resume"],
  );
  assert.equal(made.send({ type: "text", utterance: "u", text: "later" }), false);
  assert.equal(made.state.kind, "connecting");
  sockets[1]?.answer({ type: "resumed", utterances: [] });
  assert.deepEqual(events, ["ready", "resumed"]);
  assert.equal(made.send({ type: "text", utterance: "u", text: "later" }), true);
});

test("where the server has forgotten the session a fresh one begins, and then messages go out", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const made = await broughtBack();
  sockets[1]?.answer({ type: "error", code: "resume_unknown", message: "gone", seq: 1 });
  assert.deepEqual(events, ["ready", "lost", "fresh"]);
  assert.equal(made.send({ type: "text", utterance: "u", text: "anew" }), true);
});

test("a server that does not answer the question is asked again over another socket", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const made = await broughtBack();
  context.mock.timers.tick(10_000);
  await turn();
  assert.equal(made.state.kind, "waiting");
  made.retryNow();
  await turn();
  sockets[2]?.answer(READY);
  await turn();
  assert.deepEqual(
    sockets[2]?.sent.map((message) => message.type),
    ["resume"],
  );
});
