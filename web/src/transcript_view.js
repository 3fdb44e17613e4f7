// @ts-check
/** The list of what was said, the newest first. */

import { byId } from "./dom.js";
import { UtteranceCard } from "./utterance_card.js";

/** @typedef {import("./utterance.js").Utterance} Utterance */

export class TranscriptView {
  #list = byId("utterances", HTMLElement);
  #empty = byId("transcript-empty", HTMLElement);
  /** @type {Map<Utterance, UtteranceCard>} */
  #cards = new Map();
  #heardSamples;

  /** @param {(utterance: Utterance) => number} heardSamples samples at the listener's ear */
  constructor(heardSamples) {
    this.#heardSamples = heardSamples;
    new ResizeObserver(() => this.#cards.forEach((card) => card.redraw())).observe(this.#list);
  }

  /** @param {Utterance} utterance */
  add(utterance) {
    const card = new UtteranceCard(utterance);
    this.#cards.set(utterance, card);
    this.#empty.hidden = true;
    this.#list.prepend(card.element);
  }

  /** @param {Utterance} utterance */
  update(utterance) {
    this.#cards.get(utterance)?.update();
  }

  /** @param {number} now_ms */
  paint(now_ms) {
    for (const [utterance, card] of this.#cards) {
      if (card.is_settled) continue;
      const heard_ms = utterance.sample_rate_hz === 0 ? 0 : (this.#heardSamples(utterance) * 1000) / utterance.sample_rate_hz;
      card.paint(heard_ms, now_ms);
    }
  }
}
