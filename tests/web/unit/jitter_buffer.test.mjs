// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { JitterBuffer } from "../../../web/src/jitter_buffer.js";

const RATE_HZ = 24_000;
const QUANTUM = 128;

/** @param {Partial<{source_rate_hz: number, output_rate_hz: number, prebuffer_s: number}>} [options] */
function makeBuffer(options = {}) {
  return new JitterBuffer({ source_rate_hz: RATE_HZ, output_rate_hz: RATE_HZ, prebuffer_s: 0.05, ...options });
}

/** Distinct, never zero: 0.1 … 0.9. @param {number} count @param {number} [from] */
function ramp(count, from = 0) {
  return Float32Array.from({ length: count }, (_, i) => 0.1 + (((from + i) * 7919) % 8000) / 10_000);
}

/** @param {number} count @param {number} rate_hz @param {number} [pitch_hz] */
function sine(count, rate_hz, pitch_hz = 440) {
  return Float32Array.from({ length: count }, (_, i) => 0.5 * Math.sin((2 * Math.PI * pitch_hz * i) / rate_hz));
}

/** Pull whole quanta until the end. @param {JitterBuffer} buffer @param {number} [quanta] */
function pull(buffer, quanta = 4000) {
  const out = [];
  const block = new Float32Array(QUANTUM);
  for (let i = 0; i < quanta && buffer.state !== "ended"; i += 1) {
    const count = buffer.pull(block, 0, QUANTUM, i * QUANTUM);
    out.push(...block.subarray(0, count));
  }
  return Float32Array.from(out);
}

test("at equal rates every sample comes out once, unchanged, in order", () => {
  const buffer = makeBuffer();
  const samples = ramp(30_001);
  buffer.push(samples);
  buffer.finish();
  assert.deepEqual(pull(buffer), samples);
  assert.equal(buffer.played_samples, 30_001);
  assert.equal(buffer.underruns, 0);
  assert.equal(buffer.state, "ended");
});

test("pieces of any size give what one piece gives", () => {
  for (const rates of [
    [24_000, 24_000],
    [24_000, 48_000],
    [24_000, 44_100],
    [48_000, 44_100],
    [8_000, 48_000],
  ]) {
    const [source_rate_hz, output_rate_hz] = /** @type {[number, number]} */ (rates);
    const samples = sine(6001, source_rate_hz);
    const whole = makeBuffer({ source_rate_hz, output_rate_hz });
    whole.push(samples);
    whole.finish();
    const pieces = makeBuffer({ source_rate_hz, output_rate_hz });
    for (let at = 0, size = 1; at < samples.length; at += size, size = (size * 5 + 3) % 997)
      pieces.push(samples.subarray(at, at + size));
    pieces.finish();
    assert.deepEqual(pull(pieces), pull(whole), `${rates}`);
  }
});

test("nothing sounds before the prebuffer is there, and then the first sample is the first pushed", () => {
  const buffer = makeBuffer({ prebuffer_s: 0.1 });
  buffer.push(ramp(1200));
  assert.ok(pull(buffer, 3).every((sample) => sample === 0));
  assert.equal(buffer.state, "filling");
  buffer.push(ramp(1200, 1200));
  assert.deepEqual(pull(buffer, 2), ramp(2 * QUANTUM));
});

test("a segment shorter than the prebuffer is played at once", () => {
  const buffer = makeBuffer({ prebuffer_s: 0.5 });
  buffer.push(ramp(300));
  buffer.endSegment();
  assert.deepEqual(pull(buffer, 1), ramp(QUANTUM));
});

test("a prebuffer that never fills is not waited for forever", () => {
  const buffer = makeBuffer({ prebuffer_s: 0.1 });
  buffer.push(ramp(2000));
  const out = pull(buffer, 100);
  const first = out.findIndex((sample) => sample !== 0);
  assert.ok(first > 0.2 * RATE_HZ && first <= 0.31 * RATE_HZ, `began after ${first} frames`);
});

test("running dry in mid-segment is one underrun: faded out, silent, faded in, no sample lost", () => {
  const buffer = makeBuffer();
  const flat = new Float32Array(4000).fill(0.5);
  buffer.push(flat);
  const before = pull(buffer, 40);
  assert.equal(buffer.state, "starved");
  assert.equal(buffer.underruns, 1);
  const end = 4000;
  assert.ok(before.subarray(0, end - 120).every((sample) => sample === 0.5));
  for (let i = end - 119; i < end; i += 1) {
    assert.ok(/** @type {number} */ (before[i]) < /** @type {number} */ (before[i - 1]), `no fall at ${i}`);
  }
  assert.ok(before.subarray(end).every((sample) => sample === 0));
  assert.equal(buffer.played_samples, 4000);
  buffer.push(flat);
  buffer.finish();
  const after = pull(buffer);
  assert.equal(after.length, 4000);
  assert.ok(/** @type {number} */ (after[0]) < 0.01);
  for (let i = 1; i < 120; i += 1) assert.ok(/** @type {number} */ (after[i]) > /** @type {number} */ (after[i - 1]));
  assert.ok(after.subarray(121).every((sample) => sample === 0.5));
  assert.equal(buffer.played_samples, 8000);
  assert.equal(buffer.underruns, 1);
});

test("no step in an underrun is steeper than its fade, at any arrival", () => {
  for (let late = 1; late < 40; late += 3) {
    const buffer = makeBuffer({ prebuffer_s: 0.01 });
    const flat = new Float32Array(1000).fill(0.5);
    const block = new Float32Array(QUANTUM);
    const out = [];
    buffer.push(flat);
    for (let i = 0; i < 60; i += 1) {
      if (i === late) {
        buffer.push(flat);
        buffer.finish();
      }
      const count = buffer.pull(block, 0, QUANTUM, i * QUANTUM);
      out.push(...block.subarray(0, count));
    }
    const start = out.findIndex((sample) => sample > 0);
    for (let i = start + 1; i < out.length; i += 1) {
      const step = Math.abs(/** @type {number} */ (out[i]) - /** @type {number} */ (out[i - 1]));
      assert.ok(step < 0.02, `a step of ${step} at ${i}, audio late by ${late} quanta`);
    }
  }
});

test("each underrun asks for a longer prebuffer", () => {
  const buffer = makeBuffer({ prebuffer_s: 0.05 });
  buffer.push(ramp(1300));
  pull(buffer, 12);
  assert.equal(buffer.state, "starved");
  buffer.push(ramp(1300));
  pull(buffer, 1);
  assert.equal(buffer.state, "starved");
  buffer.push(ramp(1300));
  pull(buffer, 1);
  assert.equal(buffer.state, "playing");
});

test("running dry at a segment's end is waiting, not an underrun, and nothing is faded", () => {
  const buffer = makeBuffer();
  const samples = ramp(2000);
  buffer.push(samples);
  buffer.endSegment();
  const out = pull(buffer, 30);
  assert.deepEqual(out.subarray(0, 2000), samples);
  assert.equal(buffer.state, "waiting");
  buffer.push(ramp(3000));
  buffer.finish();
  assert.deepEqual(pull(buffer), ramp(3000));
  assert.equal(buffer.underruns, 0);
  assert.equal(buffer.starved_frames, 0);
});

test("a stop says how far it will have played before its fade is heard, and then plays exactly that", () => {
  for (const output_rate_hz of [24_000, 48_000, 44_100]) {
    const buffer = makeBuffer({ output_rate_hz });
    buffer.push(new Float32Array(24_000).fill(0.5));
    pull(buffer, 50);
    const promised = buffer.interrupt();
    const tail = pull(buffer);
    assert.equal(buffer.played_samples, promised);
    assert.equal(tail.length, Math.round(0.01 * output_rate_hz));
    assert.ok(Math.abs(/** @type {number} */ (tail.at(-1))) < 0.01);
    for (let i = 1; i < tail.length; i += 1)
      assert.ok(/** @type {number} */ (tail[i]) < /** @type {number} */ (tail[i - 1]));
    assert.equal(buffer.state, "ended");
  }
});

test("a stop near the end promises no more than there is", () => {
  const buffer = makeBuffer();
  buffer.push(ramp(1400));
  buffer.finish();
  pull(buffer, 10);
  assert.equal(buffer.interrupt(), 1400);
  pull(buffer);
  assert.equal(buffer.played_samples, 1400);
});

test("a stop before any sound has played nothing, and late samples are dropped", () => {
  const buffer = makeBuffer();
  buffer.push(ramp(100));
  assert.equal(buffer.interrupt(), 0);
  buffer.push(ramp(24_000));
  assert.equal(pull(buffer).length, 0);
  assert.equal(buffer.interrupt(), 0);
});

test("a resampled tone is the same tone, and as long as the arithmetic says", () => {
  for (const [source_rate_hz, output_rate_hz] of /** @type {[number, number][]} */ ([
    [24_000, 48_000],
    [24_000, 44_100],
    [22_050, 48_000],
    [8_000, 48_000],
    [48_000, 44_100],
    [44_100, 48_000],
    [48_000, 24_000],
  ])) {
    const buffer = makeBuffer({ source_rate_hz, output_rate_hz });
    const count = source_rate_hz / 2;
    buffer.push(sine(count, source_rate_hz));
    buffer.finish();
    const out = pull(buffer);
    assert.equal(out.length, Math.ceil((count * output_rate_hz) / source_rate_hz));
    const expected = sine(out.length, output_rate_hz);
    const edge = Math.ceil((40 * output_rate_hz) / source_rate_hz);
    let worst = 0;
    for (let i = edge; i < out.length - edge; i += 1) {
      worst = Math.max(worst, Math.abs(/** @type {number} */ (out[i]) - /** @type {number} */ (expected[i])));
    }
    // 16 taps a side with a Kaiser window of 8: over 70 dB under a tone of 0.5.
    assert.ok(worst < 1.5e-4, `${source_rate_hz} to ${output_rate_hz}: off by ${worst}`);
  }
});

test("what lies above the output's range is gone, not folded back", () => {
  const buffer = makeBuffer({ source_rate_hz: 48_000, output_rate_hz: 24_000 });
  buffer.push(sine(24_000, 48_000, 15_000));
  buffer.finish();
  const out = pull(buffer).subarray(100, 11_900);
  assert.ok(Math.max(...out.map(Math.abs)) < 1e-3);
});

test("the count of played samples neither drifts nor rounds over a long time", () => {
  const buffer = makeBuffer({ output_rate_hz: 44_100 });
  const block = new Float32Array(QUANTUM);
  const second = new Float32Array(RATE_HZ);
  let frames = 0;
  for (let s = 0; s < 120; s += 1) {
    buffer.push(second);
    while (frames < (s + 0.5) * 44_100) frames += buffer.pull(block, 0, QUANTUM, frames);
    assert.equal(buffer.played_samples, Math.ceil((frames * RATE_HZ) / 44_100));
  }
});

test("the ring grows for a burst and keeps every sample, in any phase of it", () => {
  const buffer = makeBuffer({ output_rate_hz: 24_000 });
  const block = new Float32Array(QUANTUM);
  let pushed = 0;
  let pulled = 0;
  const expected = ramp(24_000 * 20);
  for (const burst of [10_000, 90_000, 300_000, 80_000]) {
    buffer.push(expected.subarray(pushed, pushed + burst));
    pushed += burst;
    for (let i = 0; i < 70 && pulled + QUANTUM < pushed - 500; i += 1) {
      buffer.pull(block, 0, QUANTUM, pulled);
      assert.deepEqual(block, expected.slice(pulled, pulled + QUANTUM));
      pulled += QUANTUM;
    }
  }
});

test("more than two minutes waiting is refused with the limit", () => {
  const buffer = makeBuffer();
  assert.throws(() => buffer.push(new Float32Array(121 * RATE_HZ)), /at most 2880000 are kept/);
});

test("an utterance without a sample ends at once", () => {
  const buffer = makeBuffer();
  buffer.finish();
  assert.equal(pull(buffer).length, 0);
  assert.equal(buffer.state, "ended");
  assert.equal(buffer.start_frame, null);
});

test("the first sample's frame is known", () => {
  const buffer = makeBuffer();
  const block = new Float32Array(QUANTUM);
  buffer.pull(block, 0, QUANTUM, 1000);
  buffer.push(ramp(2000));
  buffer.pull(block, 0, QUANTUM, 1128);
  assert.equal(buffer.start_frame, 1128);
});

/** A repeatable stream of numbers in [0, 1). @param {number} seed */
function random(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

test("however audio arrives, every sample is played once and counted, and silence is all that is added", () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const next = random(seed);
    const prebuffer_s = next() * 0.2;
    const buffer = makeBuffer({ prebuffer_s });
    // Constant sound: what is played can only be it, it under a fade, or silence.
    const total = 2000 + Math.floor(next() * 30_000);
    const block = new Float32Array(QUANTUM);
    let pushed = 0;
    let sounding = 0;
    let frame = 0;
    while (buffer.state !== "ended" && frame < 40 * RATE_HZ) {
      while (pushed < total && next() < 0.3) {
        const count = Math.min(total - pushed, 1 + Math.floor(next() * 3000));
        buffer.push(new Float32Array(count).fill(0.5));
        pushed += count;
        if (next() < 0.3) buffer.endSegment();
      }
      if (pushed === total) buffer.finish();
      const before = buffer.played_samples;
      const count = buffer.pull(block, 0, QUANTUM, frame);
      const sound = block.subarray(0, count).filter((sample) => sample > 0).length;
      const played = buffer.played_samples - before;
      // A fade's own end is 0: at most one sample of each fade cannot be told from silence.
      assert.ok(played >= sound && played - sound <= 2, `seed ${seed}: ${sound} heard, ${played} counted`);
      assert.ok(block.subarray(0, count).every((sample) => sample >= 0 && sample <= 0.5));
      sounding += played;
      frame += QUANTUM;
    }
    assert.equal(sounding, total, `seed ${seed}`);
    assert.equal(buffer.state, "ended");
  }
});
