// @ts-check
/** Tabs of code for the settings on the screen, each to copy. */

import { element } from "./dom.js";
import { SNIPPETS } from "./snippets.js";

/** @typedef {import("./snippets.js").SnippetContext} SnippetContext */

const COPIED_MS = 1600;

export class SnippetsView {
  #tabs;
  #code = element("code");
  #note = element("p", { class: "fine" });
  #panel;
  #chosen = 0;
  /** @type {SnippetContext | null} */
  #context = null;

  /** @param {HTMLElement} root @param {(message: string) => void} announce */
  constructor(root, announce) {
    this.#tabs = SNIPPETS.map(({ id, title }, index) =>
      element(
        "button",
        {
          type: "button",
          role: "tab",
          id: `snippet-tab-${id}`,
          "aria-controls": "snippet",
          onclick: () => this.#choose(index),
        },
        title,
      ),
    );
    const list = element("div", { class: "tabs", role: "tablist", "aria-label": "Language" }, ...this.#tabs);
    list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      this.#choose((this.#chosen + step + SNIPPETS.length) % SNIPPETS.length);
      this.#tabs[this.#chosen]?.focus();
    });
    const copy = element("button", { type: "button", class: "quiet small copy" }, "Copy");
    copy.addEventListener("click", async () => {
      let is_copied = true;
      try {
        await navigator.clipboard.writeText(this.#code.textContent ?? "");
      } catch {
        is_copied = false;
        getSelection()?.selectAllChildren(this.#code);
      }
      copy.textContent = is_copied ? "Copied" : "Selected: press Ctrl+C";
      announce(is_copied ? "Code copied." : "Code selected.");
      setTimeout(() => (copy.textContent = "Copy"), COPIED_MS);
    });
    this.#panel = element(
      "div",
      { role: "tabpanel", id: "snippet", class: "snippet" },
      element("pre", { tabindex: "0" }, this.#code),
      copy,
    );
    root.replaceChildren(list, this.#panel, this.#note);
    this.#choose(0);
  }

  /** @param {number} index */
  #choose(index) {
    this.#chosen = index;
    this.#tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === index));
      tab.tabIndex = i === index ? 0 : -1;
    });
    this.#panel.setAttribute("aria-labelledby", `snippet-tab-${SNIPPETS[index]?.id}`);
    this.#write();
  }

  /** @param {SnippetContext} context */
  show(context) {
    this.#context = context;
    this.#write();
  }

  #write() {
    const snippet = SNIPPETS[this.#chosen];
    if (snippet === undefined || this.#context === null) return;
    this.#code.textContent = snippet.code(this.#context);
    this.#note.textContent = snippet.note;
  }
}
