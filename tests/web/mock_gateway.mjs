// @ts-check
/**
 * A gateway for the page's tests: speaks the native protocol (docs/protocol.md) with tones in place of a voice, and does
 * what it is told to do wrong. Every word is a tone of its own, so a recording shows which word it is; a seeded sequence
 * makes each sample known in advance.
 *
 *   node mock_gateway.mjs [PORT]     serves the page with it, to look at
 */

import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { WebSocketServer } from "ws";

const WEB = fileURLToPath(new URL("../../web/", import.meta.url));
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "media-src 'self' blob:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const MIME = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};

export const RATE_HZ = 24_000;
const FRAME_SAMPLES = RATE_HZ / 25;
const GAP_S = 0.05;
/** Semitones over the lowest tone. */
const SCALE = [0, 2, 4, 7, 9, 12];
const RESUME_KEPT_MS = 30_000;
const ADVANCE_MS = 20;

const TAGS = {
  rendered:
    "style:whispering prosody:speed_slow prosody:speed_fast prosody:pause prosody:long_pause prosody:pitch_low prosody:pitch_high sfx:laughter",
  approximated: "emotion:elation emotion:sadness emotion:anger style:shouting prosody:expressive_high",
  contextual: "sfx:sigh sfx:humming",
};

/**
 * @typedef {object} Behaviour what the mock does differently from a good server; may be changed while it runs
 * @property {string} [key] asks for this key
 * @property {boolean} [forbids] refuses pages of this address
 * @property {boolean} [is_full] refuses new connections with 503
 * @property {boolean} [is_draining] refuses new connections with 503 draining
 * @property {number} [first_audio_ms] delay of the first audio
 * @property {number} [stall_at_ms] once per utterance, stop sending at this audio position
 * @property {number} [stall_ms] for this long
 * @property {boolean} [fails] ends each utterance with an engine failure
 * @property {number} [speed] generates this many times faster than real time
 * @property {boolean} [forgets] knows no session to resume
 */

/** @param {string} text @returns {{text: string, start_char: number, end_char: number}[]} */
function wordsOf(text) {
  const code_points = Array.from(text);
  const words = [];
  let at = 0;
  while (at < code_points.length) {
    if (code_points[at] === "<" && code_points[at + 1] === "|") {
      while (at < code_points.length && code_points[at] !== ">") at += 1;
      at += 1;
    } else if (/\s/.test(/** @type {string} */ (code_points[at]))) {
      at += 1;
    } else {
      const start = at;
      while (
        at < code_points.length &&
        !/\s/.test(/** @type {string} */ (code_points[at])) &&
        !(code_points[at] === "<" && code_points[at + 1] === "|")
      )
        at += 1;
      words.push({ text: code_points.slice(start, at).join(""), start_char: start, end_char: at });
    }
  }
  return words;
}

/** @param {string} word */
function wordSamples(word) {
  return Math.round((0.12 + 0.035 * Math.min(12, Array.from(word).length)) * RATE_HZ);
}

/** @type {Map<string, Int16Array>} */
const TONES = new Map();

/** One word's sound: a tone with soft edges. @param {string} word @param {number} index @returns {Int16Array} */
function tone(word, index) {
  const key = `${wordSamples(word)} ${index % SCALE.length}`;
  const known = TONES.get(key);
  if (known !== undefined) return known;
  const made = makeTone(word, index);
  TONES.set(key, made);
  return made;
}

/** @param {string} word @param {number} index @returns {Int16Array} */
function makeTone(word, index) {
  const samples = wordSamples(word);
  const semitones = SCALE[index % SCALE.length] ?? 0;
  const pitch_hz = 220 * 2 ** (semitones / 12);
  return Int16Array.from({ length: samples }, (_, i) => {
    const edge = Math.min(1, i / 240, (samples - 1 - i) / 240);
    const body =
      Math.sin((2 * Math.PI * pitch_hz * i) / RATE_HZ) + 0.35 * Math.sin((4 * Math.PI * pitch_hz * i) / RATE_HZ);
    return Math.round(7000 * edge * body);
  });
}

/** All of an utterance's sound. @param {string} text @returns {{pcm: Int16Array, words: any[]}} */
export function render(text) {
  const words = [];
  const parts = [];
  let at = 0;
  for (const [index, word] of wordsOf(text).entries()) {
    const sound = tone(word.text, index);
    words.push({ ...word, start_ms: (at * 1000) / RATE_HZ, end_ms: ((at + sound.length) * 1000) / RATE_HZ });
    parts.push(sound, new Int16Array(GAP_S * RATE_HZ));
    at += sound.length + GAP_S * RATE_HZ;
  }
  const pcm = new Int16Array(at);
  let to = 0;
  for (const part of parts) {
    pcm.set(part, to);
    to += part.length;
  }
  return { pcm, words };
}

class MockUtterance {
  /** @param {string} id @param {number} number */
  constructor(id, number) {
    this.id = id;
    this.number = number;
    this.text = "";
    this.is_ended = false;
    this.is_started = false;
    this.is_over = false;
    this.sent = 0;
    this.sent_words = 0;
    this.acked_ms = 0;
    this.is_flushed = false;
    /** @type {number | null} */
    this.first_text_at_ms = null;
    /** @type {number | null} */
    this.first_audio_at_ms = null;
    this.wait_until_ms = 0;
    this.has_stalled = false;
  }
}

class MockSession {
  /** @param {MockGateway} gateway */
  constructor(gateway) {
    this.gateway = gateway;
    this.id = `mock-${(gateway.next_session += 1)}`;
    this.token = `token-${this.id}`;
    /** @type {import("ws").WebSocket | null} */
    this.socket = null;
    this.seq = 0;
    /** @type {{seq: number, data: string | Buffer}[]} */
    this.history = [];
    /** @type {Map<string, MockUtterance>} */
    this.utterances = new Map();
    this.next_number = 1;
    this.max_ahead_ms = 3000;
    this.advanced_at_ms = performance.now();
    this.timer = setInterval(() => this.advance(), ADVANCE_MS);
  }

  /** @param {Record<string, unknown>} message */
  send(message) {
    this.seq += 1;
    this.write(this.seq, JSON.stringify({ ...message, seq: this.seq }));
  }

  /** @param {number} seq @param {string | Buffer} data */
  write(seq, data) {
    this.history.push({ seq, data });
    if (this.socket?.readyState === 1) this.socket.send(data);
  }

  /** @param {string} code @param {string} message @param {Record<string, unknown>} [rest] */
  error(code, message, rest = {}) {
    this.send({ type: "error", code, message, ...rest });
  }

  /** @param {any} message */
  receive(message) {
    const utterance = this.utterances.get(message.utterance);
    switch (message.type) {
      case "open":
        this.utterances.set(message.utterance, new MockUtterance(message.utterance, this.next_number));
        this.next_number += 1;
        if (message.voice !== undefined && !["heart", "gale"].includes(message.voice)) {
          /** @type {MockUtterance} */ (this.utterances.get(message.utterance)).is_over = true;
          this.error("voice_not_found", `voice '${message.voice}' is not known`, { utterance: message.utterance });
        }
        break;
      case "text":
        if (utterance === undefined || utterance.is_over) break;
        utterance.first_text_at_ms ??= performance.now();
        utterance.wait_until_ms ||= performance.now() + (this.gateway.behaviour.first_audio_ms ?? 40);
        utterance.text += message.text;
        break;
      case "flush":
        if (utterance !== undefined) utterance.is_flushed = true;
        break;
      case "end":
        if (utterance !== undefined) utterance.is_ended = true;
        break;
      case "ack":
        if (utterance !== undefined) utterance.acked_ms = Math.max(utterance.acked_ms, message.played_ms);
        break;
      case "cancel":
        if (utterance === undefined)
          this.error("unknown_utterance", "unknown utterance", { utterance: message.utterance });
        else this.cancel(utterance, message.played_ms);
        break;
      case "ping":
        this.send({ type: "pong" });
        break;
      case "config":
        break;
      default:
        this.error("unknown_type", `unknown type ${message.type}`);
    }
  }

  /** @param {MockUtterance} utterance @param {number} played_ms */
  cancel(utterance, played_ms) {
    const after_done = utterance.is_over;
    utterance.is_over = true;
    const { words } = render(utterance.text);
    const unheard = words.find((word) => (word.start_ms + word.end_ms) / 2 > played_ms);
    const code_points = Array.from(utterance.text);
    const spoken_chars = unheard?.start_char ?? code_points.length;
    this.send({
      type: "cancelled",
      utterance: utterance.id,
      after_done,
      sent_ms: (utterance.sent * 1000) / RATE_HZ,
      played_ms,
      played_source: "client",
      spoken_text: code_points.slice(0, spoken_chars).join(""),
      spoken_chars,
      remaining_text: code_points.slice(spoken_chars).join(""),
    });
  }

  /** Send what is due: the head of the lane only, within the send-ahead. */
  advance() {
    const utterance = [...this.utterances.values()].find((candidate) => !candidate.is_over);
    if (utterance === undefined || performance.now() < utterance.wait_until_ms || utterance.text === "") return;
    const behaviour = this.gateway.behaviour;
    // A word may still grow until a space follows it, as in a real chunker.
    const settled =
      utterance.is_ended || utterance.is_flushed
        ? utterance.text
        : utterance.text.slice(0, utterance.text.search(/\s\S*$/) + 1);
    const { pcm, words } = render(settled);
    if (behaviour.fails === true) {
      this.error("engine_failed", "the engine failed on this text", { utterance: utterance.id, retryable: true });
      this.finish(utterance, "error");
      return;
    }
    if (!utterance.is_started && pcm.length > 0) {
      utterance.is_started = true;
      this.send({
        type: "started",
        utterance: utterance.id,
        number: utterance.number,
        voice: "heart",
        format: "pcm_s16le",
        sample_rate_hz: RATE_HZ,
        seed: 7,
        word_timing: "exact",
      });
    }
    // By the clock, not by the timer: a busy machine must not make it slower than it says.
    const now_ms = performance.now();
    const since_ms = Math.max(this.advanced_at_ms, utterance.wait_until_ms - ADVANCE_MS);
    this.advanced_at_ms = now_ms;
    let budget = Math.round(((now_ms - since_ms) / 1000) * RATE_HZ * (behaviour.speed ?? 8));
    while (utterance.sent < pcm.length && budget > 0) {
      const sent_ms = (utterance.sent * 1000) / RATE_HZ;
      if (sent_ms - utterance.acked_ms >= this.max_ahead_ms) return;
      if (behaviour.stall_at_ms !== undefined && !utterance.has_stalled && sent_ms >= behaviour.stall_at_ms) {
        utterance.has_stalled = true;
        utterance.wait_until_ms = performance.now() + (behaviour.stall_ms ?? 0);
        return;
      }
      const count = Math.min(FRAME_SAMPLES, pcm.length - utterance.sent);
      const until_ms = ((utterance.sent + count) * 1000) / RATE_HZ;
      const due = words.slice(utterance.sent_words).filter((word) => word.start_ms < until_ms);
      if (due.length > 0) this.send({ type: "words", utterance: utterance.id, words: due });
      utterance.sent_words += due.length;
      this.audio(
        utterance,
        pcm.subarray(utterance.sent, utterance.sent + count),
        utterance.sent + count === pcm.length,
        utterance.is_ended,
      );
      budget -= count;
    }
    if (utterance.sent >= pcm.length && utterance.is_ended) this.finish(utterance, "complete");
  }

  /** @param {MockUtterance} utterance @param {Int16Array} samples @param {boolean} is_segment_end @param {boolean} is_ended */
  audio(utterance, samples, is_segment_end, is_ended) {
    utterance.first_audio_at_ms ??= performance.now();
    this.seq += 1;
    const data = Buffer.alloc(16 + samples.length * 2);
    data.writeUInt8(1, 0);
    data.writeUInt8(1, 1);
    data.writeUInt16LE(utterance.number, 2);
    data.writeUInt32LE(this.seq, 4);
    data.writeUInt32LE(utterance.sent, 8);
    const is_last = is_segment_end && is_ended;
    data.writeUInt16LE((utterance.sent === 0 ? 1 : 0) | (is_last ? 2 : 0) | (is_segment_end ? 4 : 0), 12);
    samples.forEach((sample, i) => data.writeInt16LE(sample, 16 + 2 * i));
    utterance.sent += samples.length;
    this.write(this.seq, data);
  }

  /** @param {MockUtterance} utterance @param {string} reason */
  finish(utterance, reason) {
    utterance.is_over = true;
    const first = utterance.first_audio_at_ms;
    this.send({
      type: "done",
      utterance: utterance.id,
      reason,
      audio_ms: (utterance.sent * 1000) / RATE_HZ,
      audio_samples: utterance.sent,
      chars: Array.from(utterance.text).length,
      metrics: {
        queue_ms: 1,
        first_audio_ms: first === null ? null : first - (utterance.first_text_at_ms ?? first),
        generation_ms: 20,
        segments: 1,
      },
    });
  }
}

export class MockGateway {
  /** @param {Behaviour} [behaviour] */
  constructor(behaviour = {}) {
    this.behaviour = behaviour;
    this.next_session = 0;
    /** Tokens shown on the socket's address. @type {string[]} */
    this.socket_tokens = [];
    /** @type {Map<string, MockSession>} */
    this.sessions = new Map();
    this.server = createServer((request, response) => this.answer(request, response));
    this.sockets = new WebSocketServer({ noServer: true, handleProtocols: () => "antiphon.v1.json" });
    this.server.on("upgrade", (request, socket, head) => this.upgrade(request, socket, head));
  }

  /** @param {number} [port] @returns {Promise<string>} the page's address */
  async listen(port = 0) {
    await new Promise((resolve) => this.server.listen(port, "127.0.0.1", () => resolve(null)));
    const address = this.server.address();
    return `http://127.0.0.1:${typeof address === "object" ? address?.port : address}/`;
  }

  async close() {
    for (const session of this.sessions.values()) {
      clearInterval(session.timer);
      session.socket?.terminate();
    }
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** Cut every connection, as a network does. */
  cut() {
    for (const session of this.sessions.values()) session.socket?.terminate();
  }

  /** Send every connection an audio message of a version nobody knows. */
  babble() {
    const data = Buffer.alloc(16, 9);
    for (const session of this.sessions.values()) session.socket?.send(data);
  }

  /** Close every connection as idle. */
  closeIdle() {
    for (const session of this.sessions.values()) {
      session.error("idle_timeout", "nothing was said for 300 s");
      session.socket?.close(1000, "idle_timeout");
    }
  }

  /** @param {import("node:http").IncomingMessage} request @returns {[number, Record<string, unknown>] | null} */
  refusal(request) {
    const { key, forbids, is_full, is_draining } = this.behaviour;
    if (forbids === true)
      return [403, { type: "error", code: "bad_value", message: "Only pages of other addresses may use it." }];
    if (is_full === true)
      return [
        503,
        { type: "error", code: "capacity", message: "All 4 voices are in use.", retryable: true, retry_after_s: 30 },
      ];
    if (is_draining === true)
      return [503, { type: "error", code: "draining", message: "", retryable: true, retry_after_s: 30 }];
    const url = new URL(request.url ?? "/", "http://mock");
    const shown = request.headers.authorization?.replace("Bearer ", "") ?? url.searchParams.get("token");
    if (key === undefined || shown === key || shown === `short-lived-${key}`) return null;
    if (shown === null) return [401, { type: "error", code: "bad_value", message: "This server needs a key." }];
    return [403, { type: "error", code: "bad_value", message: "This key is not known here." }];
  }

  /** @param {import("node:http").IncomingMessage} request @param {import("node:http").ServerResponse} response */
  answer(request, response) {
    const path = new URL(request.url ?? "/", "http://mock").pathname;
    response.setHeader("Content-Security-Policy", CSP);
    response.setHeader("X-Content-Type-Options", "nosniff");
    if (path === "/" || path.startsWith("/web/")) {
      const file = join(WEB, path === "/" ? "index.html" : normalize(path.slice("/web/".length)));
      if (!existsSync(file)) {
        response.statusCode = 404;
        response.end();
        return;
      }
      response.setHeader(
        "Content-Type",
        MIME[/** @type {keyof typeof MIME} */ (extname(file))] ?? "application/octet-stream",
      );
      createReadStream(file).pipe(response);
      return;
    }
    const open_status = path === "/antiphon/v1/speak" ? 426 : 200;
    const [status, body] = this.refusal(request) ?? [open_status, this.json(path)];
    response.statusCode = body === undefined ? 404 : status;
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify(body ?? {}));
  }

  /** @param {string} path @returns {any} */
  json(path) {
    if (path === "/ready") return { status: "ready" };
    if (path === "/antiphon/v1/speak")
      return { type: "error", code: "bad_message", message: "this path is a WebSocket" };
    if (path === "/antiphon/v1/token") return { token: `short-lived-${this.behaviour.key}`, expires_in_s: 60 };
    if (path !== "/antiphon/v1/voices") return undefined;
    const tags = Object.fromEntries(
      Object.entries(TAGS).flatMap(([support, names]) => names.split(" ").map((name) => [name, support])),
    );
    return {
      voices: [
        {
          id: "heart",
          name: "Heart",
          language: "en",
          description: "Warm and clear; American English.",
          derived_from: null,
        },
        { id: "gale", name: "Gale", language: "en", description: "Brighter and quicker.", derived_from: "heart" },
      ],
      default_voice: "heart",
      model: { name: "tones", word_timing: "exact", languages: ["en"], parameters: ["speed", "seed"], tags },
    };
  }

  /** @param {import("node:http").IncomingMessage} request @param {import("node:stream").Duplex} socket @param {Buffer} head */
  upgrade(request, socket, head) {
    const refusal = this.refusal(request);
    if (refusal !== null) {
      const body = JSON.stringify(refusal[1]);
      socket.end(
        `HTTP/1.1 ${refusal[0]} Refused\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
      return;
    }
    const token = new URL(request.url ?? "/", "http://mock").searchParams.get("token");
    if (token !== null) this.socket_tokens.push(token);
    this.sockets.handleUpgrade(request, socket, head, (peer) => this.connect(peer));
  }

  /** @param {import("ws").WebSocket} peer */
  connect(peer) {
    let session = new MockSession(this);
    this.sessions.set(session.token, session);
    session.socket = peer;
    peer.send(
      JSON.stringify({
        type: "ready",
        session: session.id,
        resume_token: session.token,
        model: "tones",
        voices: ["heart", "gale"],
        default_voice: "heart",
        formats: ["pcm_s16le", "pcm_f32le", "mulaw", "alaw"],
        sample_rate_hz: RATE_HZ,
        limits: {
          message_bytes: 262144,
          utterance_chars: 10000,
          utterances: 64,
          idle_s: 300,
          utterance_idle_s: 60,
          resume_ms: RESUME_KEPT_MS,
        },
        version: "0.0.0-mock",
      }),
    );
    peer.on("message", (data) => {
      const message = JSON.parse(String(data));
      if (message.type !== "resume") {
        session.receive(message);
        return;
      }
      const kept = this.behaviour.forgets === true ? undefined : this.sessions.get(message.resume_token);
      if (kept === undefined) {
        session.error("resume_unknown", "this session is not kept here");
        return;
      }
      clearInterval(session.timer);
      this.sessions.delete(session.token);
      session = kept;
      session.socket = peer;
      const utterances = [...kept.utterances.values()].map((utterance) => ({
        utterance: utterance.id,
        received_chars: Array.from(utterance.text).length,
        ended: utterance.is_ended,
      }));
      peer.send(JSON.stringify({ type: "resumed", session: kept.id, utterances }));
      for (const { seq, data: past } of kept.history) if (seq > message.last_seq) peer.send(past);
    });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const gateway = new MockGateway();
  const address = await gateway.listen(Number(process.argv[2] ?? 8099));
  process.stdout.write(`the page with a mock gateway: ${address}\n`);
}
