// @ts-check
/** The form for voice and sound. */

import { element } from "./dom.js";
import { PLAYABLE_FORMATS, isPlayable } from "./pcm.js";
import { MAX_SEED, PCM_RATES_HZ, PREBUFFER_RANGE_MS, SPEED_RANGE, hasFreeRate } from "./settings.js";

/** @typedef {import("./settings.js").Settings} Settings */
/** @typedef {import("./connection.js").ServerInfo} ServerInfo */

export class SettingsView {
  #form;
  #settings;
  #onChange;

  /**
   * @param {HTMLFormElement} form
   * @param {Settings} settings read and written here
   * @param {() => void} onChange
   */
  constructor(form, settings, onChange) {
    this.#form = form;
    this.#settings = settings;
    this.#onChange = onChange;
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  /**
   * @param {ServerInfo} info
   * @param {readonly string[]} formats what the server sends
   * @param {number} default_rate_hz
   */
  show(info, formats, default_rate_hz) {
    const settings = this.#settings;
    const parameters = info.model.parameters;
    const rows = [
      this.#choice(
        "Voice",
        info.voices.map((voice) => [voice.id, voice.name || voice.id]),
        settings.voice ?? info.default_voice,
        (value) => (settings.voice = value === info.default_voice ? null : value),
        (value) => info.voices.find((voice) => voice.id === value)?.description ?? "",
      ),
    ];
    if (info.model.languages.length > 1) {
      rows.push(
        this.#choice(
          "Language",
          [
            ["", "as the text"],
            ...info.model.languages.map((code) => /** @type {[string, string]} */ ([code, languageName(code)])),
          ],
          settings.language ?? "",
          (value) => (settings.language = value || null),
        ),
      );
    }
    if (parameters.includes("speed")) {
      rows.push(
        this.#range(
          "Speed",
          SPEED_RANGE,
          settings.speed,
          (value) => `${value.toFixed(2)}×`,
          (value) => (settings.speed = value),
        ),
      );
    }
    if (parameters.includes("seed")) rows.push(this.#seed());
    const playable = formats.filter(isPlayable);
    rows.push(
      this.#choice(
        "Audio sent as",
        playable.map((format) => [format, PLAYABLE_FORMATS[format].label]),
        settings.format,
        (value) => {
          settings.format = value;
          this.show(info, formats, default_rate_hz);
        },
      ),
    );
    if (hasFreeRate(settings.format)) {
      rows.push(
        this.#choice(
          "Sample rate",
          [
            ["", `${default_rate_hz} Hz (the voice's own)`],
            ...PCM_RATES_HZ.filter((rate) => rate !== default_rate_hz).map(
              (rate) => /** @type {[string, string]} */ ([String(rate), `${rate} Hz`]),
            ),
          ],
          settings.sample_rate_hz === null ? "" : String(settings.sample_rate_hz),
          (value) => (settings.sample_rate_hz = value === "" ? null : Number(value)),
        ),
      );
    }
    rows.push(
      this.#range(
        "Buffer before sound",
        PREBUFFER_RANGE_MS,
        settings.prebuffer_ms,
        (value) => `${value} ms`,
        (value) => (settings.prebuffer_ms = value),
      ),
    );
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.id : "";
    this.#form.replaceChildren(...rows);
    const same = focused === "" ? null : this.#form.querySelector(`#${CSS.escape(focused)}`);
    if (same instanceof HTMLElement) same.focus();
  }

  /**
   * @param {string} label
   * @param {[string, string][]} options value and words
   * @param {string} chosen
   * @param {(value: string) => void} onChosen
   * @param {(value: string) => string} [describe]
   */
  #choice(label, options, chosen, onChosen, describe) {
    const id = `setting-${label.toLowerCase().replaceAll(" ", "-")}`;
    const about = element("p", { class: "fine", id: `${id}-about` }, describe?.(chosen) ?? "");
    const select = element(
      "select",
      { id, "aria-describedby": about.id },
      ...options.map(([value, words]) => element("option", { value, selected: value === chosen }, words)),
    );
    select.addEventListener("change", () => {
      about.textContent = describe?.(select.value) ?? "";
      onChosen(select.value);
      this.#onChange();
    });
    return element("div", { class: "field" }, element("label", { for: id }, label), select, about);
  }

  /**
   * @param {string} label
   * @param {{min: number, max: number, step: number}} range
   * @param {number} value
   * @param {(value: number) => string} words
   * @param {(value: number) => void} onChosen
   */
  #range(label, range, value, words, onChosen) {
    const id = `setting-${label.toLowerCase().replaceAll(" ", "-")}`;
    const output = element("output", { for: id, "aria-live": "off" }, words(value));
    const input = element("input", {
      type: "range",
      id,
      min: String(range.min),
      max: String(range.max),
      step: String(range.step),
      value: String(value),
      "aria-valuetext": words(value),
    });
    input.addEventListener("input", () => {
      output.textContent = words(input.valueAsNumber);
      input.setAttribute("aria-valuetext", words(input.valueAsNumber));
      onChosen(input.valueAsNumber);
      this.#onChange();
    });
    return element("div", { class: "field" }, element("label", { for: id }, label, output), input);
  }

  #seed() {
    const settings = this.#settings;
    const input = element("input", {
      type: "number",
      id: "setting-seed",
      min: "0",
      max: String(MAX_SEED),
      step: "1",
      placeholder: "another each time",
      value: settings.seed === null ? "" : String(settings.seed),
    });
    input.addEventListener("input", () => {
      const seed = input.value === "" ? null : input.valueAsNumber;
      if (seed !== null && !(Number.isSafeInteger(seed) && seed >= 0)) return;
      settings.seed = seed;
      this.#onChange();
    });
    return element("div", { class: "field" }, element("label", { for: "setting-seed" }, "Seed"), input);
  }
}

/** @param {string} code BCP 47 */
function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code) ?? code;
  } catch {
    return code;
  }
}
