// @ts-check
/** Light, dark, or as the system has it. */

import { byId } from "./dom.js";

const THEMES = /** @type {const} */ (["system", "light", "dark"]);
const MARKS = Object.freeze({ system: "◐", light: "☀", dark: "☾" });
const WORDS = Object.freeze({ system: "as the system", light: "light", dark: "dark" });

export class ThemeView {
  #button = byId("theme", HTMLButtonElement);
  #mark = byId("theme-mark", HTMLElement);
  #settings;

  /** @param {import("./settings.js").Settings} settings @param {() => void} onChange */
  constructor(settings, onChange) {
    this.#settings = settings;
    this.#button.addEventListener("click", () => {
      settings.theme = THEMES[(THEMES.indexOf(settings.theme) + 1) % THEMES.length] ?? "system";
      this.show();
      onChange();
    });
  }

  show() {
    const { theme } = this.#settings;
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    this.#mark.textContent = MARKS[theme];
    this.#button.setAttribute("aria-label", `Colours: ${WORDS[theme]}`);
    this.#button.title = `Colours: ${WORDS[theme]}`;
  }
}
