// @ts-check
/** The page at the door of a real gateway that has one place and asks for a key (started by tests/e2e/test_page.py). */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Visit, closeBrowser } from "../e2e/harness.mjs";

const ADDRESS = process.env.PAGE_URL ?? "";
const KEY = process.env.PAGE_KEY ?? "";
/** Chromium itself reports refused requests on the console. */
const REFUSED = /Failed to load resource|WebSocket connection to/;

after(closeBrowser);

/** @param {Visit} visit @param {string} words */
function untilTold(visit, words) {
  return visit.page.waitForFunction((title) => document.querySelector("#notice-title")?.textContent === title, words);
}

/** @param {Visit} visit @param {string} key */
async function showKey(visit, key) {
  await visit.page.fill("#key", key);
  await visit.page.press("#key", "Enter");
}

test("a key is asked for, a wrong one is refused, the right one speaks, and the next visitor is told that it is full", async () => {
  await Visit.run(
    ADDRESS,
    async (first) => {
      await untilTold(first, "This server asks for a key");
      await showKey(first, "not-the-key-of-this-server");
      await untilTold(first, "The server refuses this key");
      await showKey(first, KEY);
      await first.speak("The door is open.");
      await first.until("finished", 30_000);
      await Visit.run(
        ADDRESS,
        async (second) => {
          await showKey(second, KEY);
          await untilTold(second, "The server is full");
          assert.ok(await second.page.isDisabled("#speak"));
          await first.page.close();
          await second.page.click("#retry");
          await second.speak("My turn.");
          await second.until("finished", 30_000);
        },
        { allowed: REFUSED },
      );
    },
    { allowed: REFUSED },
  );
});
