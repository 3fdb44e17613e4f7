// @ts-check
/** Composition root of the page: connection, player, conversation and views meet here and nowhere else. */

import { Announcer } from "./announcer.js";
import { ComposerView } from "./composer_view.js";
import { Connection } from "./connection.js";
import { Conversation } from "./conversation.js";
import { byId } from "./dom.js";
import { HeroView } from "./hero_view.js";
import { PaletteView } from "./palette_view.js";
import { Player } from "./player.js";
import { openOptions, parseSettings } from "./settings.js";
import { SettingsView } from "./settings_view.js";
import { SnippetsView } from "./snippets_view.js";
import { StatusView } from "./status_view.js";
import { ThemeView } from "./theme_view.js";
import { TranscriptView } from "./transcript_view.js";

/** @typedef {import("./utterance.js").Utterance} Utterance */

const STORAGE_KEY = "antiphon.settings";

/** Storage may be forbidden; the page then forgets, and works. @returns {string | null} */
function readStorage() {
  try {
    return localStorage.getItem(STORAGE_KEY);
  } catch {
    return null;
  }
}

const settings = parseSettings(readStorage());
/** @type {import("./connection.js").ServerInfo | null} */
let info = null;
let was_speaking = false;
let is_painting = false;
/** The utterance that "as I type" is writing. @type {Utterance | null} */
let typed = null;

const announcer_region = byId("announcer", HTMLElement);
const announcer = new Announcer((message) => (announcer_region.textContent = message));
const status = new StatusView({
  onRetry: () => connection.retryNow(),
  onKey: (key) => connection.useKey(key),
});
const hero = new HeroView();
const transcript = new TranscriptView({
  heardSamples: (utterance) => player.heardSamples(utterance.id),
  onAgain: (text) => composer.sayAgain(text),
});
const theme = new ThemeView(settings, save);
const palette = new PaletteView(byId("palette", HTMLElement), byId("tags-legend", HTMLElement), (tag) =>
  composer.insertTag(tag),
);
const settings_view = new SettingsView(byId("settings", HTMLFormElement), settings, save);
const snippets = new SnippetsView(byId("snippets", HTMLElement), (message) => announcer.say(message));

const player = new Player({
  onProgress: (report) => conversation.noteProgress(report),
  onState: (state, detail) => status.showSound(state, detail),
  onFailed: (_id, message) => status.showProblem(message),
});

const connection = new Connection(document.baseURI, {
  onState(state) {
    status.showConnection(state);
    announcer.say(status.words);
    refresh();
  },
  onInfo(next) {
    info = next;
    palette.show(next.model.tags);
    byId("panel-tags", HTMLElement).hidden = false;
    composer.showExamples(next.model.tags);
    refresh();
  },
  onReady(ready) {
    conversation.begin(ready);
    if (info !== null) settings_view.show(info, ready.formats, ready.sample_rate_hz);
    byId("panel-voice", HTMLElement).hidden = false;
    byId("colophon", HTMLElement).textContent =
      `Antiphon ${ready.version} · model ${ready.model} · session ${ready.session.slice(0, 8)}`;
  },
  isInUse: () => conversation.is_speaking,
  onResumed: (message) => conversation.resume(message),
  onLost: () => conversation.lose(),
  onMessage: (message) => conversation.receive(message),
  onAudio: (frame) => conversation.receiveAudio(frame),
});

const conversation = new Conversation(connection, player, {
  onOpened(utterance) {
    transcript.add(utterance);
    hero.follow(utterance);
    if (!is_painting) requestAnimationFrame(paint);
    is_painting = true;
    refresh();
  },
  onChanged(utterance) {
    transcript.update(utterance);
    hero.update();
    if (utterance === typed && (!utterance.is_open || utterance.is_text_complete)) typed = null;
    refresh();
  },
  onForgotten: (utterance) => transcript.remove(utterance),
  onProblem: (message) => status.showProblem(message),
});

const composer = new ComposerView(settings, {
  onSpeak(pieces, is_interrupting) {
    const rate_hz = settings.mode === "model" ? settings.tokens_per_s : null;
    say(async () => {
      if (is_interrupting) await conversation.interrupt();
      conversation.speak(pieces, rate_hz, openOptions(settings, info));
    });
  },
  onTyped(text) {
    say(() => {
      typed ??= conversation.open(openOptions(settings, info));
      conversation.append(typed, text);
    });
  },
  onPause() {
    say(() => {
      if (typed !== null) conversation.flush(typed);
    });
  },
  onTypingEnd() {
    say(() => {
      if (typed !== null) conversation.end(typed);
      typed = null;
    });
  },
  onStop: () => void stop(),
  onChange: save,
});

/** What the user has asked to be said, in that order, however long the connection takes to come. */
let turn = Promise.resolve();

/** Must be called within the user's gesture, which lets sound through. @param {() => void | Promise<void>} action */
function say(action) {
  player.setPrebuffer(settings.prebuffer_ms / 1000);
  player.unlock();
  turn = turn
    .then(async () => {
      if (await connection.demand()) await action();
    })
    // One that went wrong is told, and does not silence those after it.
    .catch(reportError);
}

async function stop() {
  composer.stopTyping();
  typed = null;
  const [stopped] = await conversation.interrupt();
  if (stopped === undefined) return;
  const last_word = stopped.words[stopped.heardWords(stopped.played_ms) - 1]?.text;
  announcer.say(last_word === undefined ? "Stopped before the first word." : `Stopped after “${last_word}”.`);
}

function save() {
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(settings));
  } catch {
    // Storage may be forbidden or full; the settings hold until the page is left.
  }
  refresh();
}

/** What depends on more than one part. */
function refresh() {
  const is_speaking = conversation.is_speaking;
  composer.setState(is_speaking, connection.state.kind === "ready" || connection.state.kind === "resting");
  document.documentElement.classList.toggle("speaking", is_speaking);
  if (is_speaking !== was_speaking) announcer.setSpeaking(is_speaking);
  was_speaking = is_speaking;
  snippets.show({
    base_url: document.baseURI,
    text: composer.text.trim() || conversation.utterances.at(-1)?.text || "Hello from Antiphon.",
    model: info?.model.name ?? "",
    options: openOptions(settings, info),
    needs_key: connection.needs_key,
  });
}

/** Runs only while something moves. @param {number} now_ms */
function paint(now_ms) {
  transcript.paint(now_ms);
  hero.paint();
  is_painting = conversation.is_speaking;
  if (is_painting) requestAnimationFrame(paint);
}

// Any gesture makes the sound card ready, so that it costs nothing at the first word, and lets held-back sound through.
for (const gesture of ["pointerup", "keydown"]) {
  document.addEventListener(gesture, () => player.unlock(), { capture: true });
}

// On a small screen the panels would bury the page; they open at a press.
if (matchMedia("(max-width: 62rem)").matches) {
  for (const panel of document.querySelectorAll("details.panel")) panel.removeAttribute("open");
}
theme.show();
connection.start();
