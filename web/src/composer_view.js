// @ts-check
/** The text box and what is pressed around it; decides what a key means, not what speech is. */

import { byId, element } from "./dom.js";
import { EXAMPLES, withoutUnsupported } from "./examples.js";
import { TypingFeed, modelTokens } from "./fragments.js";
import { tagText } from "./tags.js";

/** @typedef {import("./settings.js").Settings} Settings */

/** A focused text box brings up a keyboard over half the screen there. */
const TOUCH = "(pointer: coarse)";
/** A writer who pauses this long wants to hear what is there. */
const PAUSE_MS = 700;

/** @type {Readonly<Record<Settings["mode"], string>>} */
const HINTS = Object.freeze({
  model: "Enter speaks, Shift+Enter is a new line, Ctrl+Enter interrupts with this text, Esc stops.",
  whole: "Enter speaks, Shift+Enter is a new line, Ctrl+Enter interrupts with this text, Esc stops.",
  typing:
    "Each word is spoken once it is finished; Enter ends the utterance, Esc stops. What was sent cannot be taken back.",
});

export class ComposerView {
  #form = byId("composer", HTMLFormElement);
  #text = byId("text", HTMLTextAreaElement);
  #speak = byId("speak", HTMLButtonElement);
  #stop = byId("stop", HTMLButtonElement);
  #barge_in = byId("barge-in", HTMLButtonElement);
  #rate = byId("rate", HTMLInputElement);
  #rate_value = byId("rate-value", HTMLOutputElement);
  #rate_field = byId("rate-field", HTMLLabelElement);
  #hint = byId("keys-hint", HTMLElement);
  #examples = byId("examples", HTMLElement);
  #feed = new TypingFeed();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #pause;
  #settings;
  #actions;
  #is_speaking = false;
  #can_speak = false;

  /**
   * @param {Settings} settings
   * @param {object} actions
   * @param {(pieces: string[], is_interrupting: boolean) => void} actions.onSpeak
   * @param {(text: string) => void} actions.onTyped a piece of an utterance under way
   * @param {() => void} actions.onPause speak what was typed
   * @param {() => void} actions.onTypingEnd
   * @param {() => void} actions.onStop
   * @param {() => void} actions.onChange
   */
  constructor(settings, actions) {
    this.#settings = settings;
    this.#actions = actions;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit(false);
    });
    this.#barge_in.addEventListener("click", () => this.#submit(true));
    this.#stop.addEventListener("click", () => actions.onStop());
    this.#text.addEventListener("keydown", (event) => this.#press(event));
    this.#text.addEventListener("input", () => this.#typed());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.#is_speaking) {
        event.preventDefault();
        actions.onStop();
      }
    });
    for (const radio of this.#form.querySelectorAll("input[name=mode]")) {
      if (!(radio instanceof HTMLInputElement)) continue;
      radio.checked = radio.value === settings.mode;
      radio.addEventListener("change", () => {
        if (settings.mode === "typing") this.#endTyping();
        settings.mode = /** @type {Settings["mode"]} */ (radio.value);
        this.#showMode();
        actions.onChange();
      });
    }
    this.#rate.value = String(settings.tokens_per_s);
    this.#rate.addEventListener("input", () => {
      settings.tokens_per_s = this.#rate.valueAsNumber;
      this.#showMode();
      actions.onChange();
    });
    this.#showMode();
  }

  get text() {
    return this.#text.value;
  }

  /** @param {Record<string, string>} support */
  showExamples(support) {
    this.#examples.replaceChildren(
      ...EXAMPLES.map(({ title, text }) =>
        element(
          "button",
          { type: "button", class: "example", onclick: () => this.#fill(withoutUnsupported(text, support)) },
          title,
        ),
      ),
    );
  }

  /** @param {boolean} is_speaking @param {boolean} can_speak */
  setState(is_speaking, can_speak) {
    this.#is_speaking = is_speaking;
    this.#can_speak = can_speak;
    // A disabled button loses the focus; someone who has just stopped by keyboard goes on in the text box.
    if (!is_speaking && document.activeElement === this.#stop && !matchMedia(TOUCH).matches) this.#text.focus();
    this.#stop.disabled = !is_speaking;
    this.#showMode();
  }

  /** @param {import("./tags.js").Tag} tag put at the caret, with a space before it where words would run together */
  insertTag(tag) {
    const { selectionStart, selectionEnd, value } = this.#text;
    const before = value.slice(0, selectionStart);
    const gap = before === "" || /\s$|\|>$/.test(before) ? "" : " ";
    this.#text.setRangeText(`${gap}${tagText(tag)}`, selectionStart, selectionEnd, "end");
    this.#text.focus();
    this.#typed();
  }

  /** The utterance being typed was stopped: what is in the box is not said again, what is typed next begins another. */
  stopTyping() {
    clearTimeout(this.#pause);
    if (this.#settings.mode === "typing") this.#feed.skip(this.#text.value);
  }

  /** @param {string} text */
  sayAgain(text) {
    if (!this.#can_speak) return;
    this.#actions.onSpeak(this.#settings.mode === "model" ? modelTokens(text) : [text], this.#is_speaking);
  }

  /** @param {string} text */
  #fill(text) {
    clearTimeout(this.#pause);
    this.#feed.clear();
    this.#text.value = text;
    this.#text.focus();
    this.#actions.onChange();
    if (this.#settings.mode === "typing") this.#typed();
    this.#showMode();
  }

  #showMode() {
    const { mode, tokens_per_s } = this.#settings;
    this.#rate_field.hidden = mode !== "model";
    this.#rate_value.textContent = `${tokens_per_s} tokens/s`;
    this.#rate.setAttribute("aria-valuetext", `${tokens_per_s} tokens a second`);
    this.#hint.textContent = HINTS[mode];
    const has_text = this.#text.value.trim() !== "";
    this.#speak.disabled = !this.#can_speak || !has_text;
    this.#barge_in.hidden = mode === "typing" || !this.#is_speaking || !has_text;
    this.#barge_in.disabled = !this.#can_speak;
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.#submit(event.ctrlKey || event.metaKey);
  }

  /** @param {boolean} is_interrupting */
  #submit(is_interrupting) {
    if (!this.#can_speak) return;
    if (this.#settings.mode === "typing") {
      this.#endTyping();
      return;
    }
    const text = this.#text.value;
    if (text.trim() === "") return;
    this.#actions.onSpeak(this.#settings.mode === "model" ? modelTokens(text) : [text], is_interrupting);
    this.#text.value = "";
    this.#showMode();
    // On a phone the keyboard would cover what is being said.
    if (matchMedia(TOUCH).matches) this.#text.blur();
    this.#actions.onChange();
  }

  #typed() {
    this.#actions.onChange();
    this.#showMode();
    if (this.#settings.mode !== "typing" || !this.#can_speak) return;
    const piece = this.#feed.update(this.#text.value);
    if (piece !== "") this.#actions.onTyped(piece);
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => {
      const rest = this.#feed.settle(this.#text.value);
      if (rest !== "") this.#actions.onTyped(rest);
      if (this.#feed.sent !== "") this.#actions.onPause();
    }, PAUSE_MS);
  }

  #endTyping() {
    clearTimeout(this.#pause);
    const rest = this.#feed.settle(this.#text.value);
    if (rest.trim() !== "") this.#actions.onTyped(rest);
    this.#feed.clear();
    this.#text.value = "";
    this.#actions.onTypingEnd();
    this.#showMode();
  }
}
