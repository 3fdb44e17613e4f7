// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { PLAYABLE_FORMATS, encodeWav, isPlayable } from "../../../web/src/pcm.js";

test("16-bit samples become floats by 1/32768, at any alignment", () => {
  const bytes = new Uint8Array([0xff, 0x00, 0x80, 0xff, 0x7f, 0x01, 0x00]);
  const samples = PLAYABLE_FORMATS.pcm_s16le.decode(bytes.subarray(1));
  assert.deepEqual([...samples], [-1, 32767 / 32768, 1 / 32768]);
});

test("float samples are taken as they are", () => {
  const source = new Float32Array([0.25, -1.5]);
  assert.deepEqual([...PLAYABLE_FORMATS.pcm_f32le.decode(new Uint8Array(source.buffer))], [0.25, -1.5]);
});

test("µ-law decodes by ITU-T G.711: its silences, extremes and a middle value", () => {
  const decoded = PLAYABLE_FORMATS.mulaw
    .decode(new Uint8Array([0xff, 0x7f, 0x80, 0x00, 0xc0]))
    .map((sample) => sample * 32768);
  assert.deepEqual([...decoded], [0, -0, 32124, -32124, 1884]);
});

test("A-law decodes by ITU-T G.711: its smallest values, extremes and a middle value", () => {
  const decoded = PLAYABLE_FORMATS.alaw
    .decode(new Uint8Array([0xd5, 0x55, 0xaa, 0x2a, 0x80]))
    .map((sample) => sample * 32768);
  assert.deepEqual([...decoded], [8, -8, 32256, -32256, 5504]);
});

test("half a sample is refused, not guessed", () => {
  assert.throws(
    () => PLAYABLE_FORMATS.pcm_s16le.decode(new Uint8Array(3)),
    /3 bytes does not hold whole 2-byte samples/,
  );
  assert.throws(() => PLAYABLE_FORMATS.pcm_f32le.decode(new Uint8Array(6)), /6 bytes/);
});

test("only formats this page can decode are playable", () => {
  assert.ok(isPlayable("pcm_s16le"));
  for (const format of ["opus", "", "toString", "__proto__"]) assert.ok(!isPlayable(format), format);
});

test("a WAV file states its exact sizes and holds the samples rounded and clipped", () => {
  const file = encodeWav([new Float32Array([0, 0.5]), new Float32Array([2, -2])], 24_000);
  const view = new DataView(file);
  const text = Buffer.from(file).toString("latin1");
  assert.equal(text.slice(0, 4) + text.slice(8, 16) + text.slice(36, 40), "RIFFWAVEfmt data");
  assert.equal(view.getUint32(4, true), file.byteLength - 8);
  assert.equal(view.getUint32(40, true), 8);
  assert.equal(view.getUint32(24, true), 24_000);
  assert.equal(view.getUint32(28, true), 48_000);
  assert.deepEqual(
    [0, 1, 2, 3].map((i) => view.getInt16(44 + 2 * i, true)),
    [0, 16384, 32767, -32768],
  );
});

test("16-bit audio that is saved is the audio that was sent", () => {
  const sent = new Int16Array(65536).map((_, i) => i - 32768);
  const file = encodeWav([PLAYABLE_FORMATS.pcm_s16le.decode(new Uint8Array(sent.buffer))], 8000);
  assert.deepEqual(new Int16Array(file.slice(44)), sent);
});
