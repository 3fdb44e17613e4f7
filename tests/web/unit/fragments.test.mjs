// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { TypingFeed, modelTokens } from "../../../web/src/fragments.js";

const TEXTS = [
  "",
  " ",
  "Hello, world!",
  "  two  spaces\n\nand lines ",
  "internationalisation of counterrevolutionaries",
  "<|emotion:elation|>Yes!",
  "a<|prosody:pause|><|sfx:cough|>Ahem",
  "unfinished <|emotion:el",
  "<|broken",
  "naïve café e\u0301toile",
  "東京へ行きます。",
  "👩‍👩‍👧 and 😀😀😀",
  "it's $29.99, isn’t it?",
  "\u{1f600}".repeat(20),
  "مرحبا بالعالم",
];

test("tokens joined are the text", () => {
  for (const text of TEXTS) assert.equal(modelTokens(text).join(""), text);
});

test("no token is empty, and none cuts a surrogate pair or a letter from its marks", () => {
  for (const text of TEXTS) {
    for (const token of modelTokens(text)) {
      assert.notEqual(token, "");
      assert.ok(token.isWellFormed(), token);
      assert.ok(!/^\p{M}/u.test(token), `${text}: ${token}`);
    }
  }
});

test("a word comes with the space before it, a mark alone, a long word in parts", () => {
  assert.deepEqual(modelTokens("Well, it works."), ["Well", ",", " it", " works", "."]);
  assert.deepEqual(modelTokens("internationalisation"), ["interna", "tionali", "sation"]);
});

test("a tag is cut as a model cuts it", () => {
  assert.deepEqual(modelTokens("<|emotion:elation|>Yes"), ["<|", "emotion", ":elation", "|>", "Yes"]);
});

test("typing sends finished words and holds back the one under way", () => {
  const feed = new TypingFeed();
  assert.equal(feed.update("Hel"), "");
  assert.equal(feed.update("Hello"), "");
  assert.equal(feed.update("Hello "), "Hello ");
  assert.equal(feed.update("Hello wor"), "");
  assert.equal(feed.update("Hello world."), "world.");
  assert.equal(feed.settle("Hello world. Bye"), " Bye");
  assert.equal(feed.settle("Hello world. Bye"), "");
});

test("correcting the word under way is free", () => {
  const feed = new TypingFeed();
  feed.update("Hello wrold");
  assert.equal(feed.update("Hello wrold"), "");
  assert.equal(feed.update("Hello world "), "world ");
});

test("what was sent stays sent: taking it out of the box sends nothing, and nothing is sent twice", () => {
  const feed = new TypingFeed();
  assert.equal(feed.update("one two "), "one two ");
  assert.equal(feed.update("one "), "");
  assert.equal(feed.update("one three "), "three ");
});

test("a tag under way is held back until it is whole", () => {
  const feed = new TypingFeed();
  assert.equal(feed.update("well <|prosody:"), "well ");
  assert.equal(feed.update("well <|prosody:pause"), "");
  assert.equal(feed.update("well <|prosody:pause|> so "), "<|prosody:pause|> so ");
});

test("what typing sends in all is what was typed", () => {
  const text = "The quick (brown) fox; it jumps… over <|sfx:cough|>the lazy dog!";
  const feed = new TypingFeed();
  let sent = "";
  for (let i = 1; i <= text.length; i += 1) sent += feed.update(text.slice(0, i));
  sent += feed.settle(text);
  assert.equal(sent, text);
});

test("after a stop what is in the box is not sent again, and what follows is", () => {
  const feed = new TypingFeed();
  feed.update("one two thr");
  feed.skip("one two thr");
  assert.equal(feed.update("one two three "), "ee ");
  feed.skip("one two three ");
  assert.equal(feed.update("one two three four "), "four ");
});
