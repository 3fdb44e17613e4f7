// @ts-check
/** What the page says and does when the server is full, away, locked, or lost in mid-sentence. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { RATE_HZ, render } from "../mock_gateway.mjs";
import { assertSameSamples, closeBrowser, firstSound, visitMock } from "./harness.mjs";

const TEXT =
  "One two three, four five! Six seven eight nine ten eleven twelve. And thirteen, fourteen, fifteen, sixteen in the end.";
/** Chromium itself reports refused requests and broken sockets on the console; these tests are about them. */
const REFUSED = /Failed to load resource|WebSocket connection to/;

after(closeBrowser);

/** @param {import("./harness.mjs").Visit} visit */
async function notice(visit) {
  await visit.page.waitForSelector("#notice:not([hidden])");
  return {
    title: await visit.page.textContent("#notice-title"),
    detail: await visit.page.textContent("#notice-detail"),
  };
}

test("a session that was cut off in mid-sentence is taken up again, and no sample is missing", async () => {
  await visitMock(
    {},
    async (visit, gateway) => {
      await visit.speak(TEXT);
      await visit.untilHeard(3);
      gateway.cut();
      await visit.until("finished", 30_000);
      const [resume] = visit.sent("resume");
      assert.ok(resume.last_seq > 0);
      const { samples } = await visit.recording();
      const sound = Float32Array.from(render(TEXT).pcm, (sample) => sample / 32768);
      const start = firstSound(samples) - firstSound(sound);
      assertSameSamples(samples.slice(start, start + RATE_HZ), sound.slice(0, RATE_HZ));
      assert.equal(
        await visit.page.locator("#utterances li:first-child .word.heard").count(),
        render(TEXT).words.length,
      );
      assert.equal(await visit.page.locator("#utterances li:first-child .notes li").count(), 0);
    },
    { allowed: REFUSED },
  );
});

test("text written while the connection was away is sent when it is back", async () => {
  await visitMock(
    {},
    async (visit, gateway) => {
      await visit.ready();
      await visit.page.fill("#rate", "12");
      await visit.speak(TEXT, "model");
      await visit.until("speaking");
      gateway.cut();
      await visit.until("finished", 40_000);
      assert.equal(
        visit
          .sent("text")
          .map((message) => message.text)
          .join("").length >= TEXT.length,
        true,
      );
      const session = [...gateway.sessions.values()][0];
      assert.deepEqual(
        [...(session?.utterances.values() ?? [])].map((utterance) => utterance.text),
        [TEXT],
      );
    },
    { allowed: REFUSED },
  );
});

test("a session that the server forgot is said to be lost, what had come is heard, and the next utterance works", async () => {
  await visitMock(
    { forgets: true },
    async (visit, gateway) => {
      await visit.speak(`${TEXT} ${TEXT}`);
      await visit.untilHeard(2);
      gateway.cut();
      await visit.until("failed", 30_000);
      assert.match((await visit.page.textContent("#utterances li:first-child .notes")) ?? "", /connection was lost/);
      const marked = await visit.page.textContent("#utterances li:first-child .spoken > .heard");
      assert.ok((marked ?? "").startsWith("One two three, four"));
      await visit.speak("Here again.");
      await visit.until("finished");
    },
    { allowed: REFUSED },
  );
});

test("a full server is said to be full, and is tried again when asked to", async () => {
  await visitMock(
    { is_full: true },
    async (visit, gateway) => {
      const { title, detail } = await notice(visit);
      assert.equal(title, "The server is full");
      assert.match(detail ?? "", /All 4 voices are in use\. Trying again in \d+ s\./);
      assert.ok(await visit.page.isDisabled("#speak"));
      gateway.behaviour.is_full = false;
      await visit.page.click("#retry");
      await visit.ready();
      assert.ok(await visit.page.isHidden("#notice"));
    },
    { allowed: REFUSED },
  );
});

test("a server that restarts is said to do so, and is found again by itself", async () => {
  await visitMock(
    {},
    async (visit, gateway) => {
      await visit.ready();
      gateway.behaviour.is_draining = true;
      gateway.cut();
      assert.equal((await notice(visit)).title, "The server is away");
      await visit.page.waitForFunction(
        () => document.querySelector("#notice-title")?.textContent === "The server is going down for a restart",
      );
      gateway.behaviour.is_draining = false;
      await visit.page.click("#retry");
      await visit.ready();
    },
    { allowed: REFUSED },
  );
});

test("a lost connection comes back by itself, without a word over the speech", async () => {
  await visitMock(
    {},
    async (visit, gateway) => {
      await visit.ready();
      gateway.cut();
      await visit.page.waitForSelector("#connection[data-kind=waiting]");
      await visit.ready();
      await visit.speak("Back again.");
      await visit.until("finished");
    },
    { allowed: REFUSED },
  );
});

test("a server that asks for a key is given one, by a short-lived token on the socket", async () => {
  await visitMock(
    { key: "sesame" },
    async (visit, gateway) => {
      assert.equal((await notice(visit)).title, "This server asks for a key");
      await visit.page.fill("#key", "wrong");
      await visit.page.press("#key", "Enter");
      await visit.page.waitForFunction(
        () => document.querySelector("#notice-title")?.textContent === "The server refuses this key",
      );
      assert.match((await notice(visit)).detail ?? "", /not known here/);
      await visit.page.fill("#key", "sesame");
      await visit.page.press("#key", "Enter");
      await visit.speak("Open.");
      await visit.until("finished");
      assert.deepEqual(gateway.socket_tokens, ["short-lived-sesame"]);
      const stored = await visit.page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
      assert.ok(!stored.includes("sesame"));
      assert.match((await visit.page.textContent("#snippet")) ?? "", /ANTIPHON_KEY/);
    },
    { allowed: REFUSED },
  );
});

test("an engine's failure is said on the utterance, and the next one can be tried", async () => {
  await visitMock({ fails: true }, async (visit, gateway) => {
    await visit.speak(TEXT);
    await visit.until("failed");
    assert.match((await visit.page.textContent("#utterances li:first-child .notes")) ?? "", /the engine failed/);
    gateway.behaviour.fails = false;
    await visit.page.click("text=Say again");
    await visit.until("finished");
  });
});

test("a text over the server's limit is cut short in words, not refused in silence", async () => {
  await visitMock({}, async (visit) => {
    await visit.speak(`${"word ".repeat(2001)}`);
    await visit.page.waitForSelector(".notes li");
    assert.match((await visit.page.textContent(".notes")) ?? "", /10,005 characters or more, at most 10,000/);
  });
});

test("an idle connection that the server closed is opened again by the next word", async () => {
  await visitMock({}, async (visit, gateway) => {
    await visit.ready();
    gateway.closeIdle();
    await visit.page.waitForSelector("#connection[data-kind=resting]");
    await visit.page.fill("#text", "Awake.");
    await visit.page.press("#text", "Enter");
    await visit.until("finished");
  });
});

test("a page that the server does not want is told so, and asks for no key", async () => {
  await visitMock(
    { forbids: true },
    async (visit) => {
      const { title, detail } = await notice(visit);
      assert.equal(title, "The server refuses this page");
      assert.match(detail ?? "", /pages of other addresses/);
      assert.ok(await visit.page.isHidden("#key-form"));
    },
    { allowed: REFUSED },
  );
});

test("a server that speaks another language is left, in words", async () => {
  await visitMock({}, async (visit, gateway) => {
    await visit.ready();
    gateway.babble();
    assert.match((await notice(visit)).detail ?? "", /speaks another language: an audio message has version 9/);
  });
});
