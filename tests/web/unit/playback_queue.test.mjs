// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { PlaybackQueue } from "../../../web/src/playback_queue.js";

const QUANTUM = 128;

/** @param {PlaybackQueue} queue @param {number} quanta @param {number} [from] */
function pull(queue, quanta, from = 0) {
  const out = new Float32Array(quanta * QUANTUM);
  for (let i = 0; i < quanta; i += 1) queue.pull(out.subarray(i * QUANTUM, (i + 1) * QUANTUM), from + i * QUANTUM);
  return out;
}

/** @param {number} count @param {number} value */
function flat(count, value) {
  return new Float32Array(count).fill(value);
}

test("an empty queue is silence", () => {
  assert.ok(pull(new PlaybackQueue(24_000), 2).every((sample) => sample === 0));
});

test("the next utterance begins in the very sample after the last one's end", () => {
  const queue = new PlaybackQueue(24_000);
  queue.open("a", 24_000, 0.05);
  queue.push("a", flat(1000, 0.25), true, true);
  queue.open("b", 24_000, 0.05);
  queue.push("b", flat(2000, 0.75), true, true);
  const out = pull(queue, 30);
  assert.ok(out.subarray(0, 1000).every((sample) => sample === 0.25));
  assert.ok(out.subarray(1000, 3000).every((sample) => sample === 0.75));
  assert.ok(out.subarray(3000).every((sample) => sample === 0));
  assert.equal(queue.report().find((track) => track.id === "b")?.start_frame, 1000);
});

test("an utterance that is there waits for one before it that is not", () => {
  const queue = new PlaybackQueue(24_000);
  queue.open("a", 24_000, 0.05);
  queue.open("b", 24_000, 0.05);
  queue.push("b", flat(1000, 0.75), true, true);
  assert.ok(pull(queue, 3).every((sample) => sample === 0));
  queue.push("a", flat(QUANTUM, 0.25), true, true);
  const out = pull(queue, 2, 3 * QUANTUM);
  assert.equal(out[0], 0.25);
  assert.equal(out[QUANTUM], 0.75);
});

test("a stop of one lets the next be heard, and of all is silence", () => {
  const queue = new PlaybackQueue(24_000);
  for (const id of ["a", "b"]) {
    queue.open(id, 24_000, 0.01);
    queue.push(id, flat(24_000, id === "a" ? 0.25 : 0.75), true, true);
  }
  pull(queue, 10);
  assert.equal(queue.interrupt("a"), 10 * QUANTUM + 240);
  assert.equal(pull(queue, 4).at(-1), 0.75);
  queue.interrupt("b");
  pull(queue, 2);
  assert.ok(pull(queue, 5).every((sample) => sample === 0));
});

test("samples and stops for an utterance nobody knows are no error", () => {
  const queue = new PlaybackQueue(24_000);
  queue.push("ghost", flat(10, 1), false, false);
  queue.finish("ghost");
  assert.equal(queue.interrupt("ghost"), 0);
});

test("an id can be played once at a time", () => {
  const queue = new PlaybackQueue(24_000);
  queue.open("a", 24_000, 0);
  assert.throws(() => queue.open("a", 24_000, 0), /a is being played already/);
});

test("an ended utterance is reported as ended before it is forgotten", () => {
  const queue = new PlaybackQueue(24_000);
  queue.open("a", 24_000, 0);
  queue.push("a", flat(100, 0.5), true, true);
  pull(queue, 2);
  const [first] = queue.report();
  assert.deepEqual([first?.state, first?.played_samples, first?.buffered_samples], ["ended", 100, 0]);
  queue.report();
  assert.deepEqual(queue.report(), []);
  queue.open("a", 24_000, 0);
});

test("utterances of different rates follow each other at the output's", () => {
  const queue = new PlaybackQueue(48_000);
  queue.open("a", 24_000, 0);
  queue.push("a", flat(2400, 0.25), true, true);
  queue.open("b", 8_000, 0);
  queue.push("b", flat(800, 0.75), true, true);
  const out = pull(queue, 80);
  assert.ok(Math.abs(/** @type {number} */ (out[2400]) - 0.25) < 0.001);
  assert.ok(Math.abs(/** @type {number} */ (out[7200]) - 0.75) < 0.001);
  assert.equal(out[9600], 0);
});
