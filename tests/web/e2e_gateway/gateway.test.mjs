// @ts-check
/** The page on a real gateway with its embedded voice (PAGE_URL; started by tests/e2e/test_page.py). */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { Visit, assertSameSamples, closeBrowser, firstSound, lastSound } from "../e2e/harness.mjs";

const run = promisify(execFile);
const ADDRESS = process.env.PAGE_URL ?? "";
const RATE_HZ = 24_000;
const TEXT = "The first choir sings a line. The second one answers it, and neither waits for the whole song.";

after(closeBrowser);

/** @param {Buffer} file @returns {Int16Array} */
function wavSamples(file) {
  assert.equal(file.subarray(0, 4).toString("latin1"), "RIFF");
  const bytes = Uint8Array.from(file.subarray(44));
  return new Int16Array(bytes.buffer, 0, Math.floor(bytes.length / 2));
}

test("what is heard is what the gateway sent: every sample, no underrun, each word lit", async () => {
  await Visit.run(ADDRESS, async (visit) => {
    await visit.speak(TEXT, "model");
    await visit.until("finished", 60_000);
    const [download] = await Promise.all([visit.page.waitForEvent("download"), visit.page.click("text=Save WAV")]);
    const saved = Float32Array.from(wavSamples(await readFile(await download.path())), (sample) => sample / 32768);
    assert.ok(saved.length > 3 * RATE_HZ && saved.some((sample) => Math.abs(sample) > 0.1), "that was no speech");
    assert.equal(await visit.page.textContent("#fact-underruns"), "0");
    const { samples } = await visit.recording();
    // A voice may fall silent between segments while text is still being written: compare from sound to sound.
    const heard = samples.filter((sample) => sample !== 0);
    assertSameSamples(
      heard,
      saved.filter((sample) => sample !== 0),
    );
    const words = await visit.page.locator("#utterances li:first-child .word.heard").allTextContents();
    assert.deepEqual(words.join(" ").match(/\w+/g), TEXT.match(/\w+/g));
  });
});

test("a stop says exactly what was heard, and the server agrees", async () => {
  await Visit.run(ADDRESS, async (visit) => {
    await visit.speak(`${TEXT} ${TEXT}`);
    await visit.untilHeard(5);
    await visit.page.keyboard.press("Escape");
    await visit.until("interrupted");
    const cancel = visit.sent("cancel")[0];
    const answer = visit.got("cancelled")[0];
    assert.equal(answer.played_source, "client");
    assert.ok(Math.abs(answer.played_ms - cancel.played_ms) < 0.1);
    assert.equal(answer.spoken_text + answer.remaining_text, `${TEXT} ${TEXT}`);
    assert.equal(await visit.page.textContent("#utterances li:first-child .spoken > .heard"), answer.spoken_text);
    assert.equal(await visit.page.textContent("#utterances li:first-child .spoken > .unheard"), answer.remaining_text);
    const { samples } = await visit.recording();
    assert.ok(lastSound(samples) - firstSound(samples) <= (cancel.played_ms * RATE_HZ) / 1000 + 1);
    await visit.speak("And on we go.");
    await visit.until("finished", 30_000);
  });
});

test("every format and rate on offer is played", async () => {
  await Visit.run(ADDRESS, async (visit) => {
    await visit.ready();
    const formats = await visit.page
      .locator("#setting-audio-sent-as option")
      .evaluateAll((options) => options.map((option) => /** @type {HTMLOptionElement} */ (option).value));
    assert.ok(
      formats.includes("pcm_s16le") &&
        formats.includes("mulaw") &&
        formats.includes("alaw") &&
        formats.includes("pcm_f32le"),
    );
    for (const format of formats) {
      await visit.page.selectOption("#setting-audio-sent-as", format);
      if (format === "pcm_f32le") await visit.page.selectOption("#setting-sample-rate", "44100");
      await visit.speak("Good morning.");
      await visit.until("speaking");
      await visit.until("finished", 30_000);
      assert.equal(await visit.page.locator("#utterances li:first-child .notes li").count(), 0, format);
      assert.equal(await visit.page.textContent("#fact-underruns"), "0", format);
    }
  });
});

test("the snippets for Python and curl run as they are shown, and give speech", async () => {
  await Visit.run(ADDRESS, async (visit) => {
    await visit.ready();
    await visit.page.fill("#text", `She said: "it's ready", isn't it?`);
    await visit.page.fill("#setting-speed", "1.25");
    for (const language of ["python", "curl"]) {
      await visit.page.click(`#snippet-tab-${language}`);
      const code = (await visit.page.textContent("#snippet pre")) ?? "";
      const folder = await mkdtemp(join(tmpdir(), "snippet-"));
      if (language === "python") {
        await writeFile(join(folder, "snippet.py"), code);
        await run(process.env.PYTHON ?? "python3", ["snippet.py"], { cwd: folder });
      } else {
        await run("sh", ["-c", code], { cwd: folder });
      }
      const samples = wavSamples(await readFile(join(folder, "speech.wav")));
      assert.ok(
        samples.length > RATE_HZ && samples.some((sample) => Math.abs(sample) > 3000),
        `${language} gave no speech`,
      );
    }
  });
});
