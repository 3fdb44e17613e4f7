// @ts-check
/** What the page says and does when the server is full, away, locked, or lost in mid-sentence. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { RATE_HZ, render } from "../mock_gateway.mjs";
import { Bench, closeBrowser, firstSound } from "./harness.mjs";

const TEXT = "One two three, four five! Six seven eight nine ten eleven twelve. And thirteen, fourteen, fifteen, sixteen in the end.";
/** Chromium itself reports refused requests and broken sockets on the console; these tests are about them. */
const REFUSED = /Failed to load resource|WebSocket connection to/;

after(closeBrowser);

/** @param {Bench} bench */
async function notice(bench) {
  await bench.page.waitForSelector("#notice:not([hidden])");
  return { title: await bench.page.textContent("#notice-title"), detail: await bench.page.textContent("#notice-detail") };
}

test("a session that was cut off in mid-sentence is taken up again, and no sample is missing", async () => {
  await Bench.run(
    {},
    async (bench) => {
      await bench.speak(TEXT);
      await bench.untilHeard(3);
      bench.gateway.cut();
      await bench.until("finished", 30_000);
      const [resume] = bench.messages("resume");
      assert.ok(resume.last_seq > 0);
      const { samples } = await bench.recording();
      const sound = Float32Array.from(render(TEXT).pcm, (sample) => sample / 32768);
      const start = firstSound(samples) - firstSound(sound);
      assert.deepEqual(samples.slice(start, start + RATE_HZ), sound.slice(0, RATE_HZ));
      assert.equal(await bench.page.locator("#utterances li:first-child .word.heard").count(), render(TEXT).words.length);
      assert.equal(await bench.page.locator("#utterances li:first-child .notes li").count(), 0);
    },
    { allowed: REFUSED },
  );
});

test("text written while the connection was away is sent when it is back", async () => {
  await Bench.run(
    {},
    async (bench) => {
      await bench.ready();
      await bench.page.fill("#rate", "12");
      await bench.speak(TEXT, "model");
      await bench.until("speaking");
      bench.gateway.cut();
      await bench.until("finished", 40_000);
      assert.equal(bench.messages("text").map((message) => message.text).join("").length >= TEXT.length, true);
      const session = [...bench.gateway.sessions.values()][0];
      assert.deepEqual([...(session?.utterances.values() ?? [])].map((utterance) => utterance.text), [TEXT]);
    },
    { allowed: REFUSED },
  );
});

test("a session that the server forgot is said to be lost, what had come is heard, and the next utterance works", async () => {
  await Bench.run(
    { forgets: true },
    async (bench) => {
      await bench.speak(`${TEXT} ${TEXT}`);
      await bench.untilHeard(2);
      bench.gateway.cut();
      await bench.until("failed", 30_000);
      assert.match((await bench.page.textContent("#utterances li:first-child .notes")) ?? "", /connection was lost/);
      const marked = await bench.page.textContent("#utterances li:first-child .spoken > .heard");
      assert.ok((marked ?? "").startsWith("One two three, four"));
      await bench.speak("Here again.");
      await bench.until("finished");
    },
    { allowed: REFUSED },
  );
});

test("a full server is said to be full, and is tried again when asked to", async () => {
  await Bench.run(
    { is_full: true },
    async (bench) => {
      const { title, detail } = await notice(bench);
      assert.equal(title, "The server is full");
      assert.match(detail ?? "", /All 4 voices are in use\. Trying again in \d+ s\./);
      assert.ok(await bench.page.isDisabled("#speak"));
      bench.gateway.behaviour.is_full = false;
      await bench.page.click("#retry");
      await bench.ready();
      assert.ok(await bench.page.isHidden("#notice"));
    },
    { allowed: REFUSED },
  );
});

test("a server that restarts is said to do so, and is found again by itself", async () => {
  await Bench.run(
    {},
    async (bench) => {
      await bench.ready();
      bench.gateway.behaviour.is_draining = true;
      bench.gateway.cut();
      assert.equal((await notice(bench)).title, "The server is away");
      await bench.page.waitForFunction(() => document.querySelector("#notice-title")?.textContent === "The server is going down for a restart");
      bench.gateway.behaviour.is_draining = false;
      await bench.page.click("#retry");
      await bench.ready();
    },
    { allowed: REFUSED },
  );
});

test("a lost connection comes back by itself, without a word over the speech", async () => {
  await Bench.run(
    {},
    async (bench) => {
      await bench.ready();
      bench.gateway.cut();
      await bench.page.waitForSelector("#connection[data-kind=waiting]");
      await bench.ready();
      await bench.speak("Back again.");
      await bench.until("finished");
    },
    { allowed: REFUSED },
  );
});

test("a server that asks for a key is given one, by a short-lived token on the socket", async () => {
  await Bench.run(
    { key: "sesame" },
    async (bench) => {
      assert.equal((await notice(bench)).title, "This server asks for a key");
      await bench.page.fill("#key", "wrong");
      await bench.page.press("#key", "Enter");
      await bench.page.waitForFunction(() => document.querySelector("#notice-title")?.textContent === "The server refuses this key");
      assert.match((await notice(bench)).detail ?? "", /not known here/);
      await bench.page.fill("#key", "sesame");
      await bench.page.press("#key", "Enter");
      await bench.speak("Open.");
      await bench.until("finished");
      assert.deepEqual(bench.gateway.socket_tokens, ["short-lived-sesame"]);
      const stored = await bench.page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
      assert.ok(!stored.includes("sesame"));
      assert.match((await bench.page.textContent("#snippet")) ?? "", /ANTIPHON_KEY/);
    },
    { allowed: REFUSED },
  );
});

test("an engine's failure is said on the utterance, and the next one can be tried", async () => {
  await Bench.run({ fails: true }, async (bench) => {
    await bench.speak(TEXT);
    await bench.until("failed");
    assert.match((await bench.page.textContent("#utterances li:first-child .notes")) ?? "", /the engine failed/);
    bench.gateway.behaviour.fails = false;
    await bench.page.click("text=Say again");
    await bench.until("finished");
  });
});

test("a text over the server's limit is cut short in words, not refused in silence", async () => {
  await Bench.run({}, async (bench) => {
    await bench.speak(`${"word ".repeat(2001)}`);
    await bench.page.waitForSelector(".notes li");
    assert.match((await bench.page.textContent(".notes")) ?? "", /10,005 characters or more, at most 10,000/);
  });
});

test("an idle connection that the server closed is opened again by the next word", async () => {
  await Bench.run({}, async (bench) => {
    await bench.ready();
    bench.gateway.closeIdle();
    await bench.page.waitForSelector("#connection[data-kind=resting]");
    await bench.page.fill("#text", "Awake.");
    await bench.page.press("#text", "Enter");
    await bench.until("finished");
  });
});
