// @ts-check
/** The figure that matters most, large: how long from text to sound; and what it is made of. */

import { byId } from "./dom.js";

/** @typedef {import("./utterance.js").Utterance} Utterance */

/** @param {number | null | undefined} ms */
function milliseconds(ms) {
  return ms === null || ms === undefined ? "–" : `${Math.round(ms)} ms`;
}

export class HeroView {
  #figure = byId("first-audio", HTMLOutputElement);
  #lead = byId("hero-lead", HTMLElement);
  #parts = [byId("hero-figure", HTMLElement), byId("hero-facts", HTMLElement)];
  #written = byId("fact-written", HTMLElement);
  #server = byId("fact-server", HTMLElement);
  #packet = byId("fact-packet", HTMLElement);
  #buffer = byId("fact-buffer", HTMLElement);
  #ahead = byId("fact-ahead", HTMLElement);
  #underruns = byId("fact-underruns", HTMLElement);
  /** @type {Utterance | null} */
  #utterance = null;

  /** @param {Utterance} utterance its figures are shown, unless it had to wait for another's end */
  follow(utterance) {
    if (utterance.is_queued) return;
    this.#utterance = utterance;
    for (const part of this.#parts) part.hidden = false;
    this.update();
  }

  update() {
    const utterance = this.#utterance;
    if (utterance === null) return;
    const { first_audio_ms, first_text_at_ms, first_frame_at_ms, done } = utterance;
    const packet_ms =
      first_frame_at_ms === null || first_text_at_ms === null ? null : first_frame_at_ms - first_text_at_ms;
    this.#figure.textContent = first_audio_ms === null ? "…" : String(Math.round(first_audio_ms));
    this.#written.textContent = first_audio_ms === null ? "–" : utterance.writtenAtFirstSound();
    this.#server.textContent = milliseconds(done?.metrics.first_audio_ms);
    this.#packet.textContent = milliseconds(packet_ms);
    this.#buffer.textContent = milliseconds(
      first_audio_ms === null || packet_ms === null ? null : first_audio_ms - packet_ms,
    );
    if (first_audio_ms === null && !utterance.is_open) {
      this.#figure.textContent = "–";
      this.#lead.textContent = "nothing was heard of the last one";
    } else {
      this.#lead.textContent = "from the first letter sent to the first sound";
    }
  }

  paint() {
    const utterance = this.#utterance;
    if (utterance === null) return;
    const ahead_ms = utterance.is_open ? Math.max(0, utterance.received_ms - utterance.played_ms) : 0;
    const ahead = utterance.is_open ? `${(ahead_ms / 1000).toFixed(1)} s` : "–";
    if (this.#ahead.textContent !== ahead) this.#ahead.textContent = ahead;
    const underruns = String(utterance.underruns.length);
    if (this.#underruns.textContent !== underruns) this.#underruns.textContent = underruns;
  }
}
