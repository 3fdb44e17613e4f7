// @ts-check
/** What is heard, when words light up for it, and what a stop does to both. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, test } from "node:test";
import { JitterBuffer } from "../../../web/src/jitter_buffer.js";
import { RATE_HZ, render } from "../mock_gateway.mjs";
import { assertSameSamples, closeBrowser, firstSound, lastSound, visitMock } from "./harness.mjs";

const TEXT = "One two three, four five! Six seven eight nine ten eleven twelve.";
const LONG = `${TEXT} ${TEXT} ${TEXT}`;
/** Required of the page: how far a word may be lit from the moment it is heard, and how soon a stop is silent. */
const LIGHT_TOLERANCE_S = 0.08;
/** Of the words: a machine that is busy with other things paints a frame late now and then. */
const LATE_FRAMES = 0.1;
const SILENCE_WITHIN_S = 0.05;

after(closeBrowser);

/** @param {string} text */
function expected(text) {
  return Float32Array.from(render(text).pcm, (sample) => sample / 32768);
}

test("every sample that the gateway sends is played, once, in order, without an underrun", async () => {
  await visitMock({}, async (visit) => {
    await visit.speak(TEXT);
    await visit.until("finished");
    const { samples } = await visit.recording();
    const sound = expected(TEXT);
    const start = firstSound(samples) - firstSound(sound);
    assertSameSamples(samples.slice(start, start + sound.length), sound);
    assert.equal(lastSound(samples.subarray(start)), lastSound(sound));
    assert.equal(await visit.page.textContent("#fact-underruns"), "0");
  });
});

test("at another rate of the sound card the same sound is played, as the jitter buffer makes it", async () => {
  await visitMock(
    {},
    async (visit) => {
      await visit.speak(TEXT);
      await visit.until("finished");
      const rate_hz = await visit.page.evaluate(() => /** @type {any} */ (globalThis).audio_context.sampleRate);
      const reference = new JitterBuffer({ source_rate_hz: RATE_HZ, output_rate_hz: rate_hz, prebuffer_s: 0 });
      reference.push(expected(TEXT));
      reference.finish();
      const sound = new Float32Array(Math.ceil((expected(TEXT).length * rate_hz) / RATE_HZ));
      assert.equal(reference.pull(sound, 0, sound.length, 0), sound.length);
      const { samples } = await visit.recording();
      const start = firstSound(samples) - firstSound(sound);
      assertSameSamples(samples.slice(start, start + sound.length), sound);
    },
    { rate_hz: 44_100 },
  );
});

test("each word lights up when it is heard, and all are marked at the end", async () => {
  await visitMock({}, async (visit) => {
    await visit.speak(LONG, "model");
    await visit.until("finished", 30_000);
    const { samples, frameOf } = await visit.recording();
    const { pcm, words } = render(LONG);
    const origin = firstSound(samples) - firstSound(Float32Array.from(pcm));
    const lit = await visit.page.evaluate(() => /** @type {any} */ (globalThis).lit);
    assert.deepEqual(
      lit.map((/** @type {any} */ word) => word.text),
      words.map((word) => word.text),
    );
    const off_ms = words.map((word, index) => {
      const heard_at_s = frameOf(origin + Math.round((word.start_ms * RATE_HZ) / 1000)) / RATE_HZ;
      return Math.round((lit[index].at_s - heard_at_s) * 1000);
    });
    const within = off_ms.filter((off) => Math.abs(off) <= LIGHT_TOLERANCE_S * 1000);
    assert.ok(within.length >= (1 - LATE_FRAMES) * words.length, `words were lit ${off_ms.join(", ")} ms off`);
    assert.equal(await visit.page.locator("#utterances li:first-child .word.heard").count(), words.length);
  });
});

test("Escape silences at once, and the marked words are those that the server says were heard", async () => {
  await visitMock({}, async (visit) => {
    await visit.speak(LONG);
    await visit.untilHeard(6);
    await visit.page.keyboard.press("Escape");
    await visit.until("interrupted");
    await visit.page.waitForTimeout(200);
    const gesture_at_s = await visit.page.evaluate(() => /** @type {any} */ (globalThis).gesture_at_s);
    const { samples, frameOf } = await visit.recording();
    const silent_at_s = frameOf(lastSound(samples)) / RATE_HZ;
    assert.ok(
      silent_at_s - gesture_at_s <= SILENCE_WITHIN_S,
      `silent ${Math.round((silent_at_s - gesture_at_s) * 1000)} ms after`,
    );

    const [cancel] = visit.sent("cancel");
    const sound = expected(LONG);
    const played = lastSound(samples) - (firstSound(samples) - firstSound(sound));
    // The fade's last sample, and a tone's own zeros, cannot be told from silence.
    assert.ok(
      Math.abs((cancel.played_ms * RATE_HZ) / 1000 - played) <= 3,
      `said ${cancel.played_ms} ms, played ${played} samples`,
    );

    const marked = await visit.page.textContent("#utterances li:first-child .spoken > .heard");
    const struck = await visit.page.textContent("#utterances li:first-child .spoken > .unheard");
    const unheard = render(LONG).words.find((word) => (word.start_ms + word.end_ms) / 2 > cancel.played_ms);
    assert.equal(marked, LONG.slice(0, unheard.start_char));
    assert.equal(struck, LONG.slice(unheard.start_char));
  });
});

test("the stop button stops too, and nothing that was queued behind is heard", async () => {
  await visitMock({}, async (visit) => {
    await visit.speak(LONG);
    await visit.speak("And this comes afterwards.");
    await visit.page.waitForSelector("#utterances li:nth-child(2)[data-state=speaking]");
    await visit.page.click("#stop");
    await visit.until("interrupted");
    await visit.page.waitForSelector("#utterances li:nth-child(2)[data-state=interrupted]");
    assert.deepEqual(
      visit.sent("cancel").map((message) => message.played_ms > 0),
      [true, false],
    );
    await visit.page.waitForTimeout(300);
    const before = (await visit.recording()).samples;
    assert.ok(before.subarray(-RATE_HZ / 10).every((sample) => sample === 0));
  });
});

test("a barge-in with a new text stops the old one and speaks the new one", async () => {
  await visitMock({}, async (visit) => {
    await visit.speak(LONG);
    await visit.untilHeard(3);
    await visit.page.fill("#text", "Wait a moment.");
    await visit.page.press("#text", "Control+Enter");
    await visit.until("finished");
    const { samples } = await visit.recording();
    const sound = expected("Wait a moment.");
    const end = lastSound(samples) - lastSound(sound);
    assertSameSamples(samples.slice(end, end + lastSound(sound)), sound.slice(0, lastSound(sound)));
    assert.equal(await visit.page.getAttribute("#utterances li:nth-child(2)", "data-state"), "interrupted");
  });
});

test("a stall is one underrun, faded, and nothing is lost over it", async () => {
  await visitMock({ stall_at_ms: 1000, stall_ms: 3000 }, async (visit) => {
    await visit.speak(TEXT);
    await visit.until("finished");
    assert.equal(await visit.page.textContent("#fact-underruns"), "1");
    const { samples } = await visit.recording();
    const sound = samples.subarray(firstSound(samples), lastSound(samples));
    let steepest = 0;
    for (let i = 1; i < sound.length; i += 1) {
      steepest = Math.max(steepest, Math.abs(/** @type {number} */ (sound[i]) - /** @type {number} */ (sound[i - 1])));
    }
    const source = expected(TEXT);
    let natural = 0;
    for (let i = 1; i < source.length; i += 1) {
      natural = Math.max(natural, Math.abs(/** @type {number} */ (source[i]) - /** @type {number} */ (source[i - 1])));
    }
    assert.ok(steepest <= natural + 0.01, `a step of ${steepest}, where the sound itself has ${natural}`);
    assert.equal(await visit.page.locator("#utterances li:first-child .word.heard").count(), render(TEXT).words.length);
  });
});

test("played audio is acknowledged as it goes, up to the last sample", async () => {
  await visitMock({}, async (visit) => {
    await visit.speak(TEXT);
    await visit.until("finished");
    const acks = visit.sent("ack").map((message) => message.played_ms);
    assert.ok(acks.length >= 10);
    assert.deepEqual(
      acks,
      [...acks].sort((a, b) => a - b),
    );
    assert.ok(Math.abs(acks.at(-1) - (render(TEXT).pcm.length * 1000) / RATE_HZ) < 0.01);
  });
});

test("a saved file holds the samples of the gateway", async () => {
  await visitMock({}, async (visit) => {
    await visit.speak(TEXT);
    await visit.until("finished");
    const [download] = await Promise.all([visit.page.waitForEvent("download"), visit.page.click("text=Save WAV")]);
    const file = await readFile(await download.path());
    assertSameSamples(
      new Int16Array(file.buffer.slice(file.byteOffset + 44, file.byteOffset + file.byteLength)),
      render(TEXT).pcm,
    );
    assert.match(download.suggestedFilename(), /^antiphon-.*\.wav$/);
  });
});

test("what is typed is spoken while it is typed", async () => {
  await visitMock({}, async (visit) => {
    await visit.ready();
    await visit.setMode("typing");
    await visit.page.focus("#text");
    await visit.page.keyboard.type("Hello there, this is ", { delay: 25 });
    await visit.until("speaking");
    assert.equal(visit.sent("end").length, 0);
    await visit.page.keyboard.type("typed by hand", { delay: 25 });
    await visit.page.keyboard.press("Enter");
    await visit.until("finished");
    assert.equal(
      visit
        .sent("text")
        .map((message) => message.text)
        .join(""),
      "Hello there, this is typed by hand",
    );
    assert.equal(visit.sent("end").length, 1);
    assert.equal(await visit.page.inputValue("#text"), "");
  });
});

test("typing after a stop begins anew: what was in the box is not said again", async () => {
  await visitMock({}, async (visit) => {
    await visit.ready();
    await visit.setMode("typing");
    await visit.page.focus("#text");
    await visit.page.keyboard.type("Hello there, this is ", { delay: 15 });
    await visit.until("speaking");
    await visit.page.keyboard.press("Escape");
    await visit.until("interrupted");
    await visit.page.keyboard.type("something else. ", { delay: 15 });
    await visit.until("speaking");
    await visit.page.keyboard.press("Enter");
    await visit.until("finished");
    const last = visit.sent("open").at(-1).utterance;
    const text = visit.sent("text").filter((message) => message.utterance === last);
    assert.equal(text.map((message) => message.text).join(""), "something else. ");
  });
});

test("as a model would, text goes out in pieces at the chosen rate, and speech begins before it is all there", async () => {
  await visitMock({}, async (visit) => {
    await visit.ready();
    await visit.page.fill("#rate", "20");
    await visit.speak(LONG, "model");
    await visit.until("speaking");
    assert.equal(visit.sent("end").length, 0, "the text was complete before the first sound");
    await visit.page.keyboard.press("Escape");
    await visit.until("interrupted");
    const sent = visit.sent("text").length;
    await visit.page.waitForTimeout(300);
    assert.equal(visit.sent("text").length, sent, "text went on after the stop");
  });
});
