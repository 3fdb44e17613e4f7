// @ts-check
/** The list of what was said, the newest first. */

import { byId } from "./dom.js";
import { UtteranceCard } from "./utterance_card.js";

/** @typedef {import("./utterance.js").Utterance} Utterance */

/** Where the text box and the transcript do not fit on the screen together. */
const NARROW = "(max-width: 40rem)";

export class TranscriptView {
  #list = byId("utterances", HTMLElement);
  #empty = byId("transcript-empty", HTMLElement);
  /** @type {Map<Utterance, UtteranceCard>} */
  #cards = new Map();
  #actions;

  /**
   * @param {object} actions
   * @param {(utterance: Utterance) => number} actions.heardSamples samples at the listener's ear
   * @param {(text: string) => void} actions.onAgain
   */
  constructor(actions) {
    this.#actions = actions;
    new ResizeObserver(() => this.#cards.forEach((card) => card.redraw())).observe(this.#list);
  }

  /** @param {Utterance} utterance */
  add(utterance) {
    const card = new UtteranceCard(utterance, this.#actions.onAgain);
    this.#cards.set(utterance, card);
    this.#empty.hidden = true;
    this.#list.prepend(card.element);
    this.#reveal(card);
  }

  /** On a small screen, bring what is about to be heard into sight. @param {UtteranceCard} card */
  #reveal(card) {
    if (matchMedia(NARROW).matches) card.element.scrollIntoView({ block: "start" });
  }

  /** @param {Utterance} utterance */
  remove(utterance) {
    this.#cards.get(utterance)?.element.remove();
    this.#cards.delete(utterance);
  }

  /** @param {Utterance} utterance */
  update(utterance) {
    const card = this.#cards.get(utterance);
    if (card === undefined) return;
    const was_waiting = card.element.dataset.state === "waiting";
    card.update();
    if (was_waiting && utterance.state === "speaking") this.#reveal(card);
  }

  /** @param {number} now_ms */
  paint(now_ms) {
    for (const [utterance, card] of this.#cards) {
      if (card.is_settled) continue;
      const heard_ms =
        utterance.sample_rate_hz === 0 ? 0 : (this.#actions.heardSamples(utterance) * 1000) / utterance.sample_rate_hz;
      card.paint(heard_ms, now_ms);
    }
  }
}
