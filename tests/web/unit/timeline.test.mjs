// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { timelineShapes } from "../../../web/src/timeline.js";
import { Utterance } from "../../../web/src/utterance.js";

const WIDTH = 500;

/** Text at 1000, its packet at 1040, its sound at 1100; one second of audio. */
function spoken() {
  const utterance = new Utterance({ id: "u", voice: "v", is_queued: false });
  utterance.append("hello ", 1000);
  utterance.append("there", 1200);
  utterance.sample_rate_hz = 1000;
  utterance.received_samples = 1000;
  utterance.first_frame_at_ms = 1040;
  utterance.first_sound_at_ms = 1100;
  utterance.segments = [{ first_at_ms: 1040, last_at_ms: 1300, start_sample: 0, end_sample: 1000, is_whole: true }];
  utterance.envelope = Array.from({ length: 50 }, (_, i) => (i % 5) / 10);
  utterance.enter("speaking");
  return utterance;
}

test("before any text there is nothing to draw", () => {
  assert.equal(timelineShapes(new Utterance({ id: "u", voice: "v", is_queued: false }), WIDTH, 0), null);
});

test("everything lies within the width, in the order in which it happened", () => {
  const utterance = spoken();
  const shapes = timelineShapes(utterance, WIDTH, 1500);
  assert.ok(shapes !== null);
  const [first = -1, second = -1] = shapes.fragments;
  const segment = shapes.segments[0];
  assert.ok(segment !== undefined && shapes.first_audio_x !== null);
  assert.ok(0 <= first && first < segment.x && segment.x < shapes.first_audio_x && shapes.first_audio_x < second);
  for (const x of [...shapes.fragments, ...shapes.waveform.map((bar) => bar.x), segment.x + segment.width])
    assert.ok(x >= 0 && x <= WIDTH);
});

test("what was played stands where it was heard, a stall included; the rest follows now", () => {
  const utterance = spoken();
  utterance.lead = [
    { at_ms: 1100, received_ms: 500, played_ms: 0 },
    { at_ms: 1300, received_ms: 500, played_ms: 200 },
    { at_ms: 1900, received_ms: 1000, played_ms: 200 },
    { at_ms: 2000, received_ms: 1000, played_ms: 300 },
  ];
  utterance.played_samples = 300;
  const shapes = timelineShapes(utterance, WIDTH, 2000);
  assert.ok(shapes !== null);
  const scale = WIDTH / shapes.span_ms;
  /** @param {number} index */
  const at = (index) => /** @type {number} */ (shapes.waveform[index]?.x) / scale + 1000;
  assert.ok(Math.abs(at(5) - 1200) < 5, `audio at 100 ms drawn at ${at(5)}`);
  assert.ok(Math.abs(at(12) - 1940) < 5, `audio at 240 ms drawn at ${at(12)}`);
  assert.ok(Math.abs(at(40) - 2500) < 5, `audio at 800 ms drawn at ${at(40)}`);
  assert.deepEqual([shapes.waveform[14]?.is_heard, shapes.waveform[15]?.is_heard], [true, false]);
});

test("the audio ahead of the listener is scaled by its largest", () => {
  const utterance = spoken();
  utterance.lead = [
    { at_ms: 1100, received_ms: 2000, played_ms: 0 },
    { at_ms: 1300, received_ms: 2000, played_ms: 1000 },
  ];
  const shapes = timelineShapes(utterance, WIDTH, 1300);
  assert.deepEqual(
    shapes?.lead.map(([, height]) => height),
    [1, 0.5],
  );
  assert.equal(shapes?.lead_scale_ms, 2000);
});

test("a long utterance has a bounded number of bars and ticks", () => {
  const utterance = spoken();
  utterance.received_samples = 600_000;
  utterance.envelope = new Array(30_000).fill(0.5);
  const shapes = timelineShapes(utterance, WIDTH, 2000);
  assert.ok(shapes !== null && shapes.waveform.length <= 360 && shapes.ticks.length <= 7 && shapes.ticks.length >= 2);
});

test("a stop is marked where the sound ended", () => {
  const utterance = spoken();
  utterance.noteProgress(1600, 500);
  utterance.enter("stopping");
  utterance.spoken_chars = 6;
  utterance.ended_at_ms = 1600;
  const shapes = timelineShapes(utterance, WIDTH, 5000);
  assert.ok(shapes !== null && shapes.end_x !== null);
  assert.ok(Math.abs(shapes.end_x - (600 * WIDTH) / shapes.span_ms) < 2);
});

test("what waits behind another utterance is drawn where it will be heard, not where it arrived", () => {
  const utterance = spoken();
  utterance.first_sound_at_ms = 3100;
  utterance.lead = [
    { at_ms: 1100, received_ms: 100, played_ms: 0 },
    { at_ms: 2000, received_ms: 1000, played_ms: 0 },
    { at_ms: 3200, received_ms: 1000, played_ms: 100 },
  ];
  utterance.played_samples = 100;
  const shapes = timelineShapes(utterance, WIDTH, 3200);
  const first = /** @type {number} */ (shapes?.waveform[0]?.x);
  assert.ok(shapes !== null && Math.abs(first - /** @type {number} */ (shapes.first_audio_x)) < 2);
});
