// @ts-check
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Conversation } from "../../../web/src/conversation.js";

const RATE_HZ = 24_000;

/** A conversation whose connection and player are lists of what was asked of them. */
function makeConversation() {
  /** @type {any[]} */
  const sent = [];
  /** @type {any[]} */
  const played = [];
  /** @type {string[]} */
  const problems = [];
  /** @type {string[]} */
  const forgotten = [];
  const link = { is_up: true };
  const connection = {
    /** @param {any} message */
    send(message) {
      if (link.is_up) sent.push(message);
      return link.is_up;
    },
  };
  const player = {
    /** @type {Record<string, number>} */
    stops_at: {},
    open: (/** @type {any[]} */ ...args) => played.push(["open", ...args]),
    push: (/** @type {any[]} */ ...args) => played.push(["push", args[0], args[1].length, args[2], args[3]]),
    finish: (/** @type {string} */ id) => played.push(["finish", id]),
    async interrupt(/** @type {string[]} */ ids) {
      return Object.fromEntries(ids.map((id) => [id, this.stops_at[id] ?? 0]));
    },
    heardAtMs: () => 0,
  };
  const conversation = new Conversation(/** @type {any} */ (connection), /** @type {any} */ (player), {
    onOpened() {},
    onChanged() {},
    onForgotten: (utterance) => forgotten.push(utterance.id),
    onProblem: (message) => problems.push(message),
  });
  return { conversation, sent, played, problems, forgotten, player, link };
}

/** @param {Conversation} conversation @param {import("../../../web/src/utterance.js").Utterance} utterance @param {number} number */
function start(conversation, utterance, number) {
  conversation.receive({
    type: "started",
    utterance: utterance.id,
    number,
    voice: "heart",
    format: "pcm_s16le",
    sample_rate_hz: RATE_HZ,
    seed: 1,
    word_timing: "exact",
  });
}

/** @param {Conversation} conversation @param {number} number @param {number} start_sample @param {number} count @param {boolean} [is_last] */
function audio(conversation, number, start_sample, count, is_last = false) {
  conversation.receiveAudio({
    type: "audio",
    number,
    seq: 1,
    start_sample,
    is_first: start_sample === 0,
    is_last,
    is_segment_end: is_last,
    payload: new Uint8Array(2 * count),
  });
}

/** @param {string} id @param {import("../../../web/src/jitter_buffer.js").BufferState} state @param {number} played_samples */
function report(id, state, played_samples) {
  return {
    frame: 0,
    tracks: [{ id, state, played_samples, buffered_samples: 0, underruns: 0, starved_frames: 0, start_frame: 0 }],
  };
}

test("a text at once is opened, sent and ended", () => {
  const { conversation, sent } = makeConversation();
  const utterance = conversation.speak(["Hello."], null, { voice: "heart" });
  assert.deepEqual(sent, [
    { type: "open", utterance: utterance.id, voice: "heart" },
    { type: "text", utterance: utterance.id, text: "Hello." },
    { type: "end", utterance: utterance.id },
  ]);
});

test("a paced text goes out at its rate, and what a late timer missed goes out together", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let now_ms = 1000;
  const clock = mock.method(performance, "now", () => now_ms);
  try {
    const { conversation, sent } = makeConversation();
    conversation.speak(["a", "b", "c", "d", "e"], 10, {});
    const texts = () => sent.filter((message) => message.type === "text").map((message) => message.text);
    assert.deepEqual(texts(), ["a"]);
    now_ms += 100;
    mock.timers.tick(100);
    assert.deepEqual(texts(), ["a", "b"]);
    now_ms += 1000;
    mock.timers.tick(100);
    assert.deepEqual(texts(), ["a", "b", "c", "d", "e"]);
    assert.equal(sent.at(-1).type, "end");
  } finally {
    clock.mock.restore();
    mock.timers.reset();
  }
});

test("a stop ends every utterance in the order opened, each with what was played of it", async () => {
  const { conversation, sent, player } = makeConversation();
  const first = conversation.speak(["One."], null, {});
  const second = conversation.speak(["Two."], null, {});
  start(conversation, first, 1);
  audio(conversation, 1, 0, RATE_HZ);
  player.stops_at[first.id] = 12_001;
  await conversation.interrupt();
  assert.deepEqual(sent.slice(-2), [
    { type: "cancel", utterance: first.id, played_ms: 500.042 },
    { type: "cancel", utterance: second.id, played_ms: 0 },
  ]);
  assert.deepEqual([first.state, second.state], ["stopping", "stopping"]);
});

test("audio and words that come after a stop are not played", async () => {
  const { conversation, played } = makeConversation();
  const utterance = conversation.speak(["One."], null, {});
  start(conversation, utterance, 1);
  audio(conversation, 1, 0, 100);
  await conversation.interrupt();
  audio(conversation, 1, 100, 100);
  assert.equal(played.filter(([what]) => what === "push").length, 1);
  assert.equal(utterance.received_samples, 100);
});

test("the server's word on what was heard is the last one", async () => {
  const { conversation } = makeConversation();
  const utterance = conversation.speak(["One two."], null, {});
  await conversation.interrupt();
  conversation.receive({
    type: "cancelled",
    utterance: utterance.id,
    after_done: false,
    sent_ms: 0,
    played_ms: 0,
    played_source: "client",
    spoken_text: "One ",
    spoken_chars: 4,
    remaining_text: "two.",
  });
  assert.deepEqual([utterance.state, utterance.spoken_chars], ["interrupted", 4]);
});

test("an utterance that the server no longer knows when it is stopped is over all the same", async () => {
  for (const message of /** @type {const} */ ([
    { type: "warning", code: "nothing_to_cancel", message: "nothing to cancel" },
    { type: "error", code: "unknown_utterance", message: "unknown utterance" },
  ])) {
    const { conversation } = makeConversation();
    const utterance = conversation.speak(["One."], null, {});
    await conversation.interrupt();
    conversation.receive({ ...message, utterance: utterance.id });
    assert.equal(utterance.state, "interrupted");
  }
});

test("acknowledgements are sparse, ascending, and complete at the end", () => {
  const { conversation, sent } = makeConversation();
  const utterance = conversation.speak(["One."], null, {});
  start(conversation, utterance, 1);
  audio(conversation, 1, 0, RATE_HZ, true);
  for (let played = 0; played < RATE_HZ; played += 600)
    conversation.noteProgress(report(utterance.id, "playing", played));
  conversation.noteProgress(report(utterance.id, "ended", RATE_HZ));
  conversation.noteProgress(report(utterance.id, "ended", RATE_HZ));
  const acks = sent.filter((message) => message.type === "ack").map((message) => message.played_ms);
  assert.deepEqual(acks, [200, 400, 600, 800, 1000]);
  assert.equal(utterance.state, "finished");
});

test("with the session gone, what had arrived is played out, and then it is said what is missing", () => {
  const { conversation, played } = makeConversation();
  const heard = conversation.speak(["One."], null, {});
  const unheard = conversation.speak(["Two."], null, {});
  const whole = conversation.speak(["Three."], null, {});
  start(conversation, heard, 1);
  audio(conversation, 1, 0, 1000);
  start(conversation, whole, 3);
  audio(conversation, 3, 0, 1000, true);
  conversation.lose();
  assert.deepEqual([heard.state, unheard.state, whole.state], ["waiting", "failed", "waiting"]);
  assert.ok(played.some(([what, id]) => what === "finish" && id === heard.id));
  conversation.noteProgress(report(heard.id, "ended", 1000));
  conversation.noteProgress(report(whole.id, "ended", 1000));
  assert.deepEqual([heard.state, whole.state], ["failed", "finished"]);
  assert.match(heard.failure, /connection was lost/);
});

test("a session taken up again gets the text that it missed, its end, and a stop that it missed", async () => {
  const { conversation, sent, link } = makeConversation();
  const typed = conversation.open({});
  conversation.append(typed, "One 😀 ");
  const stopped = conversation.speak(["Stop me."], null, {});
  link.is_up = false;
  conversation.append(typed, "two.");
  conversation.end(typed);
  stopped.sample_rate_hz = RATE_HZ;
  await conversation.interrupt();
  assert.equal(typed.state, "stopping");
  link.is_up = true;
  sent.length = 0;
  conversation.resume({
    type: "resumed",
    session: "s",
    utterances: [
      { utterance: typed.id, received_chars: 6, ended: false },
      { utterance: stopped.id, received_chars: 8, ended: true },
    ],
  });
  assert.deepEqual(sent, [
    { type: "text", utterance: typed.id, text: "two." },
    { type: "end", utterance: typed.id },
    { type: "cancel", utterance: typed.id, played_ms: 0 },
    { type: "cancel", utterance: stopped.id, played_ms: 0 },
  ]);
});

test("missing audio and a foreign message break one utterance, not the page", () => {
  const { conversation, problems } = makeConversation();
  const utterance = conversation.speak(["One."], null, {});
  start(conversation, utterance, 1);
  audio(conversation, 1, 500, 100);
  assert.equal(utterance.state, "failed");
  assert.match(utterance.failure, /500 samples are missing/);
  conversation.receive({ type: "error", code: "quota", message: "too many", utterance: "someone else's" });
  assert.deepEqual(problems, ["too many"]);
});

test("old utterances are forgotten, those under way never", () => {
  const { conversation, forgotten } = makeConversation();
  const first = conversation.open({});
  for (let i = 0; i < 60; i += 1) {
    const utterance = conversation.speak(["x"], null, {});
    conversation.receive({
      type: "done",
      utterance: utterance.id,
      reason: "complete",
      audio_ms: 0,
      audio_samples: 0,
      chars: 1,
      metrics: { queue_ms: 0, first_audio_ms: null, generation_ms: 0, segments: 0 },
    });
  }
  assert.equal(conversation.utterances.length, 50);
  assert.equal(forgotten.length, 11);
  assert.equal(conversation.utterances[0], first);
});
