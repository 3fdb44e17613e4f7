// @ts-check
/** The page by keyboard, by screen reader, on a phone, in the dark: and its rules about what may load. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, test } from "node:test";
import { closeBrowser, visitMock } from "./harness.mjs";

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TEXT =
  "One two three, four five! Six seven eight nine ten eleven twelve. And thirteen, fourteen, fifteen, sixteen in the end.";
const REFUSED = /Failed to load resource|WebSocket connection to/;
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true };

after(closeBrowser);

/** @param {import("./harness.mjs").Visit} visit */
async function violations(visit) {
  await visit.page.evaluate(AXE);
  const results = await visit.page.evaluate(() =>
    /** @type {any} */ (globalThis).axe.run(document, { resultTypes: ["violations"] }),
  );
  return results.violations.map(
    (/** @type {any} */ violation) =>
      `${violation.id}: ${violation.nodes.map((/** @type {any} */ node) => node.html).join(" | ")}`,
  );
}

for (const [name, context] of /** @type {const} */ ([
  ["desktop, light", {}],
  ["desktop, dark", { colorScheme: "dark" }],
  ["phone, light", PHONE],
  ["phone, dark", { ...PHONE, colorScheme: "dark" }],
])) {
  test(`axe finds nothing on the page, idle, speaking and interrupted: ${name}`, async () => {
    await visitMock(
      {},
      async (visit) => {
        await visit.ready();
        assert.deepEqual(await violations(visit), []);
        await visit.speak(`<|style:whispering|>${TEXT}`);
        await visit.untilHeard(2);
        assert.deepEqual(await violations(visit), []);
        await visit.page.keyboard.press("Escape");
        await visit.until("interrupted");
        assert.deepEqual(await violations(visit), []);
        const width = await visit.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(width <= 0, `the page is ${width} px wider than the screen`);
      },
      { context },
    );
  });
}

test("axe finds nothing where the server is full or asks for a key", async () => {
  for (const behaviour of [{ is_full: true }, { key: "sesame" }]) {
    await visitMock(
      behaviour,
      async (visit) => {
        await visit.page.waitForSelector("#notice:not([hidden])");
        assert.deepEqual(await violations(visit), []);
      },
      { allowed: REFUSED },
    );
  }
});

test("everything can be reached and done by keyboard alone, and the focus is never lost", async () => {
  await visitMock({}, async (visit) => {
    await visit.ready();
    await visit.page.keyboard.press("Tab");
    assert.equal(await visit.page.evaluate(() => document.activeElement?.className), "skip-link");
    await visit.page.keyboard.press("Enter");
    await visit.page.keyboard.type(TEXT);
    await visit.page.keyboard.press("Enter");
    await visit.until("speaking");
    await visit.page.focus("#stop");
    await visit.page.keyboard.press("Space");
    await visit.until("interrupted");
    assert.equal(await visit.page.evaluate(() => document.activeElement?.id), "text");
    const reached = new Set();
    for (let i = 0; i < 120; i += 1) {
      await visit.page.keyboard.press("Tab");
      const name = await visit.page.evaluate(() => {
        const active = document.activeElement;
        return active === document.body ? "" : `${active?.id} ${active?.textContent?.trim().slice(0, 24)}`;
      });
      if (name === "") break;
      reached.add(name);
    }
    for (const part of [
      "Say again",
      "Save WAV",
      "whispering",
      "setting-voice",
      "setting-speed",
      "snippet-tab-python",
      "Copy",
    ]) {
      assert.ok(
        [...reached].some((name) => name.includes(part)),
        `${part} was not reached`,
      );
    }
  });
});

test("a tag is put at the caret, and one that the voice cannot do cannot be pressed", async () => {
  await visitMock({}, async (visit) => {
    await visit.ready();
    await visit.page.fill("#text", "Hello world");
    await visit.page.evaluate(() => {
      const box = /** @type {HTMLTextAreaElement} */ (document.querySelector("#text"));
      box.setSelectionRange(5, 5);
    });
    await visit.page.click("button.tag:has-text('pause') >> nth=0");
    assert.equal(await visit.page.inputValue("#text"), "Hello <|prosody:pause|> world");
    assert.equal(await visit.page.evaluate(() => document.activeElement?.id), "text");
    assert.ok(await visit.page.isDisabled("button.tag:has-text('disgust')"));
    assert.equal(await visit.page.locator("button.tag").count(), 43);
  });
});

test("a screen reader is told nothing while the page speaks", async () => {
  await visitMock(
    {},
    async (visit, gateway) => {
      await visit.ready();
      await visit.page.evaluate(() => {
        const page = /** @type {any} */ (globalThis);
        page.said = [];
        const report = () =>
          page.said.push({
            words: document.querySelector("#announcer")?.textContent,
            speaking: document.documentElement.classList.contains("speaking"),
          });
        new MutationObserver(report).observe(/** @type {Node} */ (document.querySelector("#announcer")), {
          childList: true,
          characterData: true,
          subtree: true,
        });
      });
      await visit.speak(TEXT);
      await visit.untilHeard(3);
      gateway.cut();
      await visit.page.waitForSelector("#connection[data-kind=waiting]");
      await visit.ready();
      await visit.page.keyboard.press("Escape");
      await visit.until("interrupted");
      await visit.page.waitForFunction(() => /** @type {any} */ (globalThis).said.length > 0);
      const said = await visit.page.evaluate(() => /** @type {any} */ (globalThis).said);
      assert.ok(
        said.every((/** @type {any} */ entry) => !entry.speaking),
        JSON.stringify(said),
      );
      const live = await visit.page.locator("[aria-live]:not([aria-live=off]), [role=log], [role=alert]").count();
      assert.equal(live, 0, "another live region would read over the speech");
    },
    { allowed: REFUSED },
  );
});

test("nothing on the page breaks its own content-security policy, or comes from elsewhere", async () => {
  await visitMock({}, async (visit) => {
    /** @type {string[]} */
    const foreign = [];
    visit.page.on("request", (request) => {
      if (!request.url().startsWith(visit.address) && !request.url().startsWith("blob:")) foreign.push(request.url());
    });
    await visit.page.reload();
    await visit.speak("One two.");
    await visit.until("finished");
    await visit.page.click("#theme");
    await visit.page.click("#snippet-tab-curl");
    assert.deepEqual(foreign, []);
    assert.equal(await visit.page.locator("[style], style, script:not([src])").count(), 0);
  });
});

test("the colours chosen and the settings are there again after a reload", async () => {
  await visitMock({}, async (visit) => {
    await visit.ready();
    await visit.page.click("#theme");
    await visit.page.click("#theme");
    await visit.page.fill("#setting-speed", "1.5");
    await visit.page.selectOption("#setting-voice", "gale");
    await visit.setMode("whole");
    await visit.page.reload();
    await visit.ready();
    assert.equal(await visit.page.evaluate(() => document.documentElement.dataset.theme), "dark");
    assert.equal(await visit.page.inputValue("#setting-speed"), "1.5");
    assert.equal(await visit.page.inputValue("#setting-voice"), "gale");
    assert.ok(await visit.page.isChecked("input[name=mode][value=whole]"));
    await visit.speak("One.");
    await visit.until("finished");
    const [open] = visit.sent("open");
    assert.deepEqual([open.voice, open.speed], ["gale", 1.5]);
    assert.match((await visit.page.textContent("#snippet")) ?? "", /voice="gale".*speed=1\.5/);
  });
});

test("sound that the browser holds back is said to be, and is heard from its first word once it is let through", async () => {
  await visitMock({}, async (visit) => {
    await visit.page.evaluate(() => {
      const page = /** @type {any} */ (globalThis);
      const Context = AudioContext;
      page.is_held = true;
      page.AudioContext = class extends Context {
        /** @param {AudioContextOptions} options */
        constructor(options) {
          super(options);
          void this.suspend();
        }

        /** @override */
        resume() {
          return page.is_held ? new Promise(() => {}) : super.resume();
        }
      };
    });
    await visit.speak("One two three.");
    await visit.page.waitForFunction(() => document.querySelector("#notice-title")?.textContent === "No sound yet");
    assert.equal(await visit.page.locator(".word.heard").count(), 0, "a word is marked that nobody heard");
    await visit.page.evaluate(() => {
      /** @type {any} */ (globalThis).is_held = false;
    });
    await visit.page.click("#notice");
    await visit.until("finished");
    assert.ok(await visit.page.isHidden("#notice"));
    assert.equal(await visit.page.locator(".word.heard").count(), 3);
  });
});
