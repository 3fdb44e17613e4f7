// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { CodecError, decodeAudio, decodeMessage, encodeMessage } from "../../../web/src/native_codec.js";

/** @param {{version?: number, kind?: number, flags?: number, payload?: number[]}} fields */
function frame({ version = 1, kind = 1, flags = 0, payload = [] }) {
  const bytes = new Uint8Array(16 + payload.length);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, version);
  view.setUint8(1, kind);
  view.setUint16(2, 513, true);
  view.setUint32(4, 0x01020304, true);
  view.setUint32(8, 4_000_000_000, true);
  view.setUint16(12, flags, true);
  bytes.set(payload, 16);
  return bytes.buffer;
}

test("an audio header's fields are little-endian and unsigned", () => {
  const audio = decodeAudio(frame({ payload: [1, 2, 3, 4] }));
  assert.equal(audio.number, 513);
  assert.equal(audio.seq, 0x01020304);
  assert.equal(audio.start_sample, 4_000_000_000);
  assert.deepEqual([...audio.payload], [1, 2, 3, 4]);
});

test("each flag of an audio header is read on its own", () => {
  for (const flags of [0, 1, 2, 3, 4, 5, 6, 7]) {
    const { is_first, is_last, is_segment_end } = decodeAudio(frame({ flags }));
    assert.deepEqual([is_first, is_last, is_segment_end], [(flags & 1) > 0, (flags & 2) > 0, (flags & 4) > 0]);
  }
});

test("an empty payload is a frame", () => {
  assert.equal(decodeAudio(frame({ flags: 2 })).payload.length, 0);
});

test("a short, foreign or newer audio message is refused with what was wrong", () => {
  assert.throws(() => decodeAudio(new ArrayBuffer(15)), { name: "CodecError", message: /15 bytes, at least 16/ });
  assert.throws(() => decodeAudio(frame({ version: 2 })), /version 2/);
  assert.throws(() => decodeAudio(frame({ kind: 9 })), /kind 9/);
});

test("a text message is a map with a type, and nothing else is", () => {
  assert.equal(decodeMessage('{"type":"pong","seq":4}').type, "pong");
  for (const data of ["", "[]", "null", "3", '"pong"', "{}", '{"type":7}', "{"]) {
    assert.throws(() => decodeMessage(data), CodecError, data);
  }
});

test("messages are sent as the protocol spells them", () => {
  assert.equal(
    encodeMessage({ type: "text", utterance: "u", text: 'a "b" \u{1f600}' }),
    '{"type":"text","utterance":"u","text":"a \\"b\\" 😀"}',
  );
});
