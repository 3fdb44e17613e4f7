// @ts-check
/** Draws an utterance's timeline as SVG. */

import { svg } from "./dom.js";
import { timelineShapes } from "./timeline.js";

/** @typedef {import("./utterance.js").Utterance} Utterance */

const HEIGHT = 112;
const GUTTER = 62;
const TEXT_Y = 6;
const TEXT_HEIGHT = 12;
const SEGMENT_Y = 25;
const SEGMENT_HEIGHT = 8;
const WAVE_MIDDLE = 56;
const WAVE_HALF = 17;
const LEAD_BASE = 96;
const LEAD_HEIGHT = 17;
const AXIS_Y = 109;
/** Closer than this, strokes of pieces of text would run into one bar. */
const DENSE_PX = 3.5;

export class TimelineView {
  #utterance;
  element = svg("svg", { class: "timeline", role: "img", height: HEIGHT });

  /** @param {Utterance} utterance */
  constructor(utterance) {
    this.#utterance = utterance;
    this.element.setAttribute("aria-label", "Timeline of this utterance");
  }

  /** @param {number} now_ms */
  paint(now_ms) {
    const width = this.element.clientWidth;
    const shapes = width > GUTTER ? timelineShapes(this.#utterance, width - GUTTER - 8, now_ms) : null;
    if (shapes === null) return;
    const marks = svg("g", { transform: `translate(${GUTTER} 0)` });
    for (const y of [TEXT_Y + TEXT_HEIGHT + 1, SEGMENT_Y + SEGMENT_HEIGHT + 1, WAVE_MIDDLE, LEAD_BASE]) {
      marks.append(svg("line", { class: "staff", x1: 0, x2: width - GUTTER, y1: y, y2: y }));
    }
    marks.append(
      svg("path", {
        class: shapes.fragments.length * DENSE_PX > width ? "fragments dense" : "fragments",
        d: shapes.fragments.map((x) => `M${x} ${TEXT_Y}v${TEXT_HEIGHT}`).join(""),
      }),
      ...shapes.segments.map((bar) =>
        svg("rect", { class: "segment", x: bar.x, y: SEGMENT_Y, width: bar.width, height: SEGMENT_HEIGHT, rx: 2 }),
      ),
      this.#wave(shapes, false),
      this.#wave(shapes, true),
      this.#lead(shapes),
      ...shapes.underruns.map((x) =>
        svg("path", { class: "underrun", d: `M${x} ${WAVE_MIDDLE - WAVE_HALF}v${2 * WAVE_HALF}` }),
      ),
    );
    if (shapes.end_x !== null) {
      marks.append(svg("path", { class: "stopped", d: `M${shapes.end_x} ${SEGMENT_Y}V${LEAD_BASE}` }));
    }
    if (shapes.first_audio_x !== null) {
      marks.append(svg("path", { class: "first-audio", d: `M${shapes.first_audio_x} ${TEXT_Y}V${LEAD_BASE}` }));
    }
    for (const tick of shapes.ticks) {
      marks.append(svg("text", { class: "tick", x: tick.x, y: AXIS_Y, "text-anchor": "middle" }, tick.label));
    }
    this.element.replaceChildren(
      this.#label("text in", TEXT_Y + TEXT_HEIGHT - 2),
      this.#label("segments", SEGMENT_Y + SEGMENT_HEIGHT),
      this.#label("heard", WAVE_MIDDLE + 4),
      this.#label("ahead", LEAD_BASE - 2),
      marks,
    );
  }

  /** Words for those who do not see it; set once it no longer changes. */
  describe() {
    const { first_audio_ms, segments, fragments, underruns, received_ms, played_ms, spoken_chars } = this.#utterance;
    const parts = [
      `${fragments.length} pieces of text`,
      `${segments.length} segments of audio, ${(received_ms / 1000).toFixed(1)} seconds`,
      first_audio_ms === null ? "no sound" : `first sound after ${Math.round(first_audio_ms)} milliseconds`,
      `${underruns.length} underruns`,
    ];
    if (spoken_chars !== null) parts.push(`stopped after ${(played_ms / 1000).toFixed(1)} seconds`);
    this.element.setAttribute("aria-label", `Timeline: ${parts.join(", ")}.`);
  }

  /** @param {string} words @param {number} y */
  #label(words, y) {
    return svg("text", { class: "row-label", x: GUTTER - 8, y, "text-anchor": "end" }, words);
  }

  /** @param {import("./timeline.js").TimelineShapes} shapes @param {boolean} is_heard */
  #wave(shapes, is_heard) {
    const d = shapes.waveform
      .filter((bar) => bar.is_heard === is_heard)
      .map((bar) => {
        const half = Math.max(0.6, bar.height * WAVE_HALF);
        return `M${bar.x} ${(WAVE_MIDDLE - half).toFixed(1)}v${(2 * half).toFixed(1)}`;
      })
      .join("");
    return svg("path", { class: is_heard ? "wave heard" : "wave", d });
  }

  /** @param {import("./timeline.js").TimelineShapes} shapes */
  #lead(shapes) {
    const first = shapes.lead[0];
    const last = shapes.lead.at(-1);
    if (first === undefined || last === undefined) return svg("path", { class: "lead", d: "" });
    const line = shapes.lead.map(([x, height]) => `L${x} ${(LEAD_BASE - height * LEAD_HEIGHT).toFixed(1)}`).join("");
    return svg("path", { class: "lead", d: `M${first[0]} ${LEAD_BASE}${line}L${last[0]} ${LEAD_BASE}Z` });
  }
}
