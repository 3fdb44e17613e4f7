// @ts-check
/** The small pure parts: backoff, announcer, tags, examples, settings. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Announcer } from "../../../web/src/announcer.js";
import { Backoff } from "../../../web/src/backoff.js";
import { EXAMPLES, withoutUnsupported } from "../../../web/src/examples.js";
import { DEFAULT_SETTINGS, openOptions, parseSettings } from "../../../web/src/settings.js";
import { TAG_GROUPS, findTags, tagText } from "../../../web/src/tags.js";

test("waits grow to a ceiling and start over after a success", () => {
  const backoff = new Backoff();
  const waits = Array.from({ length: 12 }, () => backoff.nextDelay(undefined, 0.999));
  for (let i = 1; i < waits.length; i += 1)
    assert.ok(/** @type {number} */ (waits[i]) >= /** @type {number} */ (waits[i - 1]));
  assert.ok(/** @type {number} */ (waits.at(-1)) <= 20);
  backoff.reset();
  assert.ok(backoff.nextDelay(undefined, 0) <= 0.5);
});

test("a wait that the server asked for is never undercut, and clients do not all come at its end together", () => {
  assert.equal(new Backoff().nextDelay(30, 0), 30);
  assert.ok(new Backoff().nextDelay(30, 0.9) > 32);
});

test("nothing is announced over speech; afterwards the latest news is", () => {
  /** @type {string[]} */
  const said = [];
  const announcer = new Announcer((message) => said.push(message));
  announcer.say("Connected.");
  announcer.setSpeaking(true);
  announcer.say("No connection.");
  announcer.say("Connected again.");
  assert.deepEqual(said, ["Connected."]);
  announcer.setSpeaking(false);
  announcer.setSpeaking(false);
  assert.deepEqual(said, ["Connected.", "Connected again."]);
});

test("there are 43 tags, each once", () => {
  const names = TAG_GROUPS.flatMap((group) => group.tags.map((tag) => tag.name));
  assert.equal(names.length, 43);
  assert.equal(new Set(names).size, 43);
});

test("whole tags are found by code points, broken ones are not tags", () => {
  assert.deepEqual(findTags(Array.from("😀<|sfx:cough|>a<|prosody:pause|>"), 0), [
    { start: 1, end: 14, name: "sfx:cough" },
    { start: 15, end: 32, name: "prosody:pause" },
  ]);
  for (const text of ["<|", "<|a", "<|a|", "<|a<|b", "a|>", ""]) assert.deepEqual(findTags(Array.from(text), 0), []);
  assert.deepEqual(findTags(Array.from("<|a<|b|>"), 0), [{ start: 3, end: 8, name: "b" }]);
});

test("examples use known tags, and lose those a voice cannot do", () => {
  const known = new Set(TAG_GROUPS.flatMap((group) => group.tags.map((tag) => tag.name)));
  for (const { text } of EXAMPLES) {
    const used = findTags(Array.from(text), 0);
    assert.ok(used.every((tag) => known.has(tag.name)));
    assert.equal(findTags(Array.from(withoutUnsupported(text, {})), 0).length, 0);
    assert.equal(withoutUnsupported(text, Object.fromEntries(used.map((tag) => [tag.name, "rendered"]))), text);
  }
});

test("a tag is inserted in the form the protocol documents", () => {
  assert.equal(tagText({ name: "emotion:awe", label: "awe" }), "<|emotion:awe|>");
  assert.equal(tagText({ name: "sfx:cough", label: "cough", spoken: "Ahem" }), "<|sfx:cough|>Ahem");
});

test("stored settings that are missing, broken or out of range are as by default", () => {
  for (const stored of [
    null,
    "",
    "{",
    "null",
    "7",
    "[]",
    '{"speed":9,"format":"opus","seed":-1,"theme":"pink","mode":1,"prebuffer_ms":"60"}',
  ]) {
    assert.deepEqual(parseSettings(stored), DEFAULT_SETTINGS, String(stored));
  }
});

test("settings survive storage", () => {
  const settings = {
    ...DEFAULT_SETTINGS,
    voice: "gale",
    speed: 1.25,
    format: "mulaw",
    seed: 7,
    theme: /** @type {const} */ ("dark"),
    tokens_per_s: 60,
  };
  assert.deepEqual(parseSettings(JSON.stringify(settings)), settings);
});

/** @param {string[]} parameters @returns {import("../../../web/src/connection.js").ServerInfo} */
function info(parameters) {
  const voice = { id: "heart", name: "Heart", language: "en", description: "", derived_from: null };
  return {
    voices: [voice],
    default_voice: "heart",
    model: { name: "m", word_timing: "exact", languages: ["en"], parameters, tags: {} },
  };
}

test("only what the server can use is asked for", () => {
  const settings = { ...DEFAULT_SETTINGS, voice: "gone", speed: 1.5, seed: 4, language: "fr", sample_rate_hz: 16_000 };
  assert.deepEqual(openOptions(settings, info([])), { format: "pcm_s16le", voice: "heart", sample_rate_hz: 16_000 });
  assert.deepEqual(openOptions({ ...settings, format: "mulaw", language: "en" }, info(["speed", "seed"])), {
    format: "mulaw",
    voice: "heart",
    speed: 1.5,
    seed: 4,
    language: "en",
  });
});
