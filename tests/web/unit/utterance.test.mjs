// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { TRANSITIONS, Utterance } from "../../../web/src/utterance.js";

const RATE_HZ = 1000;

function makeUtterance() {
  const utterance = new Utterance({ id: "u", voice: "heart", is_queued: false });
  utterance.begin({
    type: "started",
    utterance: "u",
    number: 1,
    voice: "heart",
    format: "pcm_s16le",
    sample_rate_hz: RATE_HZ,
    seed: 3,
    word_timing: "exact",
  });
  return utterance;
}

/** @param {number} start_sample @param {number} count @param {{is_segment_end?: boolean, is_last?: boolean}} [flags] */
function frame(start_sample, count, { is_segment_end = false, is_last = false } = {}) {
  const samples = Int16Array.from({ length: count }, (_, i) => start_sample + i);
  return /** @type {const} */ ({
    type: "audio",
    number: 1,
    seq: 1,
    start_sample,
    is_first: start_sample === 0,
    is_last,
    is_segment_end,
    payload: new Uint8Array(samples.buffer),
  });
}

function withWords() {
  const utterance = makeUtterance();
  utterance.append("one 😀two <|prosody:pause|>three", 0);
  utterance.words.push(
    { text: "one", start_char: 0, end_char: 3, start_ms: 0, end_ms: 200 },
    { text: "😀two", start_char: 4, end_char: 8, start_ms: 250, end_ms: 450 },
    { text: "three", start_char: 27, end_char: 32, start_ms: 800, end_ms: 1000 },
  );
  return utterance;
}

test("text is kept by code points, however it is cut", () => {
  const utterance = makeUtterance();
  utterance.append("a😀", 10);
  utterance.append("b", 20);
  assert.deepEqual(utterance.code_points, ["a", "😀", "b"]);
  assert.equal(utterance.text, "a😀b");
  assert.equal(utterance.first_text_at_ms, 10);
});

test("a word is heard when at least half of it was", () => {
  const utterance = withWords();
  assert.deepEqual(
    [0, 99, 100, 349, 350, 899, 900, 5000].map((at_ms) => utterance.heardWords(at_ms)),
    [0, 0, 1, 1, 2, 2, 3, 3],
  );
});

test("the word being said is known, and none between words", () => {
  const utterance = withWords();
  assert.deepEqual(
    [0, 199, 200, 249, 250, 449, 450, 799, 800, 1000].map((at_ms) => utterance.wordAt(at_ms)),
    [0, 0, -1, -1, 1, 1, -1, -1, 2, -1],
  );
});

test("a stop marks up to the first unheard word", () => {
  const utterance = withWords();
  utterance.freeze(300);
  assert.equal(utterance.spoken_chars, 4);
  utterance.freeze(350);
  assert.equal(utterance.spoken_chars, 27);
});

test("a stop after all known words marks all of the text only if no more audio was to come", () => {
  const utterance = withWords();
  utterance.append(" and more", 0);
  utterance.freeze(2000);
  assert.equal(utterance.spoken_chars, 32);
  utterance.is_audio_complete = true;
  utterance.freeze(2000);
  assert.equal(utterance.spoken_chars, utterance.code_points.length);
});

test("audio that comes twice after a reconnection counts once, and a hole is an error", () => {
  const utterance = makeUtterance();
  assert.equal(utterance.receiveAudio(frame(0, 100), 5).length, 100);
  assert.equal(utterance.receiveAudio(frame(50, 100), 6).length, 50);
  assert.equal(utterance.receiveAudio(frame(0, 100), 7).length, 0);
  assert.equal(utterance.received_samples, 150);
  assert.throws(() => utterance.receiveAudio(frame(160, 10), 8), /10 samples are missing before sample 160/);
  assert.deepEqual(
    utterance.chunks.flatMap((chunk) => [...chunk].map((sample) => sample * 32768)),
    Array.from({ length: 150 }, (_, i) => i),
  );
});

test("audio in a format this page cannot play is an error that names it", () => {
  const utterance = makeUtterance();
  utterance.format = "opus";
  assert.throws(() => utterance.receiveAudio(frame(0, 10), 0), /cannot play opus/);
});

test("segments run from their first packet to the one that ends them", () => {
  const utterance = makeUtterance();
  utterance.receiveAudio(frame(0, 40), 10);
  utterance.receiveAudio(frame(40, 40, { is_segment_end: true }), 20);
  utterance.receiveAudio(frame(80, 40, { is_segment_end: true, is_last: true }), 30);
  assert.deepEqual(utterance.segments, [
    { first_at_ms: 10, last_at_ms: 20, start_sample: 0, end_sample: 80, is_whole: true },
    { first_at_ms: 30, last_at_ms: 30, start_sample: 80, end_sample: 120, is_whole: true },
  ]);
  assert.ok(utterance.is_audio_complete);
});

test("an empty last frame ends the utterance", () => {
  const utterance = makeUtterance();
  utterance.receiveAudio(frame(0, 40), 10);
  utterance.receiveAudio(frame(40, 0, { is_last: true }), 20);
  assert.ok(utterance.is_audio_complete);
  assert.equal(utterance.segments[0]?.is_whole, true);
});

test("of an interrupted utterance what was heard is saved, of another all", () => {
  const utterance = makeUtterance();
  utterance.receiveAudio(frame(0, 100), 0);
  utterance.receiveAudio(frame(100, 100), 0);
  utterance.played_samples = 130;
  assert.equal(
    utterance.savedChunks().reduce((sum, chunk) => sum + chunk.length, 0),
    200,
  );
  utterance.enter("stopping");
  assert.deepEqual(
    utterance.savedChunks().map((chunk) => chunk.length),
    [100, 30],
  );
});

test("what comes after the end changes no state", () => {
  const utterance = makeUtterance();
  assert.ok(utterance.enter("speaking"));
  assert.ok(utterance.enter("stopping"));
  assert.ok(!utterance.enter("finished"));
  assert.ok(utterance.enter("interrupted"));
  for (const state of /** @type {(keyof typeof TRANSITIONS)[]} */ (Object.keys(TRANSITIONS)))
    assert.ok(!utterance.enter(state));
  assert.ok(!utterance.is_open);
});
