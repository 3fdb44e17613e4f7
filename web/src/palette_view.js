// @ts-check
/** All tags by group, each with what the loaded voice makes of it; a press puts one at the caret. */

import { element } from "./dom.js";
import { SUPPORT, TAG_GROUPS } from "./tags.js";

/** @typedef {import("./tags.js").TagSupport} TagSupport */
/** @typedef {import("./tags.js").Tag} Tag */

export class PaletteView {
  #root;
  #legend;
  #onPick;

  /**
   * @param {HTMLElement} root
   * @param {HTMLElement} legend
   * @param {(tag: Tag) => void} onPick
   */
  constructor(root, legend, onPick) {
    this.#root = root;
    this.#legend = legend;
    this.#onPick = onPick;
  }

  /** @param {Record<string, TagSupport>} support by tag name; a missing one is unsupported */
  show(support) {
    const kinds = /** @type {TagSupport[]} */ (Object.keys(SUPPORT)).filter((kind) =>
      TAG_GROUPS.some((group) => group.tags.some((tag) => (support[tag.name] ?? "unsupported") === kind)),
    );
    this.#legend.replaceChildren(
      ...kinds.flatMap((kind) => [
        element(
          "span",
          { class: "legend", "data-support": kind },
          element("span", { class: "mark", "aria-hidden": "true" }),
          SUPPORT[kind],
        ),
        " ",
      ]),
    );
    this.#root.replaceChildren(
      ...TAG_GROUPS.map((group) =>
        element(
          "section",
          { class: "tag-group", "aria-labelledby": `tags-${group.id}` },
          element("h3", { id: `tags-${group.id}` }, group.title),
          element("p", { class: "fine" }, group.hint),
          element(
            "ul",
            { class: "tags" },
            ...group.tags.map((tag) => element("li", {}, this.#button(tag, support[tag.name] ?? "unsupported"))),
          ),
        ),
      ),
    );
  }

  /** @param {Tag} tag @param {TagSupport} support */
  #button(tag, support) {
    return element(
      "button",
      {
        type: "button",
        class: "tag",
        "data-support": support,
        title: `<|${tag.name}|>: ${SUPPORT[support]}`,
        disabled: support === "unsupported",
        onclick: () => this.#onPick(tag),
      },
      element("span", { class: "mark", "aria-hidden": "true" }),
      tag.label,
      element("span", { class: "visually-hidden" }, `, ${SUPPORT[support]}`),
    );
  }
}
