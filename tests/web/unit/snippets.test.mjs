// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { SNIPPETS } from "../../../web/src/snippets.js";

/** @type {import("../../../web/src/snippets.js").SnippetContext} */
const CONTEXT = {
  base_url: "https://voice.example/",
  text: `She said: "it's\n$HOME \\ here"`,
  model: "hibari",
  options: { voice: "heart", format: "pcm_s16le", speed: 1.25, seed: 7 },
  needs_key: false,
};

/** @param {string} id @param {Partial<import("../../../web/src/snippets.js").SnippetContext>} [changes] */
function code(id, changes = {}) {
  const snippet = SNIPPETS.find((candidate) => candidate.id === id);
  assert.ok(snippet !== undefined);
  return snippet.code({ ...CONTEXT, ...changes });
}

test("each snippet points at this server, by the scheme that its client takes", () => {
  assert.match(code("python"), /"wss:\/\/voice\.example\/antiphon\/v1\/speak"/);
  assert.match(code("curl"), /https:\/\/voice\.example\/v1\/audio\/speech/);
  assert.match(code("livekit"), /base_url="https:\/\/voice\.example\/v1"/);
  assert.match(code("pipecat"), /url="wss:\/\/voice\.example"/);
  assert.match(code("pipecat", { base_url: "http://127.0.0.1:8000/" }), /url="ws:\/\/127\.0\.0\.1:8000"/);
});

test("each snippet has the voice and speed on the screen, and no speed where none is asked for", () => {
  for (const { id } of SNIPPETS) {
    assert.match(code(id), /heart/);
    assert.match(code(id), /1\.25/);
    assert.doesNotMatch(code(id, { options: { voice: "heart", format: "pcm_s16le" } }), /speed/, id);
  }
});

test("a key is named by its variable and never shown, and only where one is needed", () => {
  for (const { id } of SNIPPETS) {
    assert.match(code(id, { needs_key: true }), /ANTIPHON_KEY/);
    assert.doesNotMatch(code(id), /ANTIPHON_KEY/);
  }
});

test("a text with quotes, dollars and backslashes is the same text in the shell", () => {
  const body = JSON.stringify({
    model: "hibari",
    voice: "heart",
    input: CONTEXT.text,
    response_format: "wav",
    speed: 1.25,
  });
  assert.ok(code("curl").includes(`-d '${body.replaceAll("'", `'\\''`)}'`));
});

test("audio that is no PCM is saved as what it is", () => {
  const options = { voice: "heart", format: "mulaw" };
  assert.match(code("python", { options }), /open\("speech\.mulaw", "wb"\)/);
  assert.doesNotMatch(code("python", { options }), /wave/);
});
