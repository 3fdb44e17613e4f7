// @ts-check
/**
 * The native wire protocol's bytes and messages, and nothing else (docs/protocol.md). Pure.
 *
 * Text positions on the wire are Unicode code points; JavaScript's are UTF-16 units. The page keeps an utterance's
 * input as an array of code points, so both sides count alike.
 */

export const SUBPROTOCOL = "antiphon.v1.json";

const HEADER_BYTES = 16;
const HEADER_VERSION = 1;
const HEADER_KIND_AUDIO = 1;

const FLAG_FIRST = 1;
const FLAG_LAST = 2;
const FLAG_SEGMENT_END = 4;

/** A message of the server that the page cannot read. */
export class CodecError extends Error {
  /** @override */
  name = "CodecError";
}

/**
 * @typedef {object} AudioFrame
 * @property {"audio"} type
 * @property {number} number the utterance's number, as given by its `started`
 * @property {number} seq
 * @property {number} start_sample output samples from the utterance's first
 * @property {boolean} is_first
 * @property {boolean} is_last
 * @property {boolean} is_segment_end
 * @property {Uint8Array} payload encoded samples; may be empty on the last frame
 */

/**
 * @typedef {object} WireWord
 * @property {string} text
 * @property {number} start_char
 * @property {number} end_char
 * @property {number} start_ms
 * @property {number} end_ms
 */

/**
 * @typedef {object} ReadyMessage
 * @property {"ready"} type
 * @property {string} session
 * @property {string} resume_token
 * @property {string} model
 * @property {readonly unknown[]} voices
 * @property {string} default_voice
 * @property {string[]} formats
 * @property {number} sample_rate_hz
 * @property {{message_bytes: number, utterance_chars: number, utterances: number, idle_s: number,
 *   utterance_idle_s: number, resume_ms: number}} limits
 * @property {string} version
 */

/**
 * @typedef {object} StartedMessage
 * @property {"started"} type
 * @property {string} utterance
 * @property {number} number
 * @property {string} voice
 * @property {string} format
 * @property {number} sample_rate_hz
 * @property {number} seed
 * @property {"exact" | "estimated"} word_timing
 * @property {number} [pre_skip_samples]
 */

/**
 * @typedef {object} DoneMessage
 * @property {"done"} type
 * @property {string} utterance
 * @property {"complete" | "timeout" | "error"} reason
 * @property {number} audio_ms
 * @property {number} audio_samples
 * @property {number} chars
 * @property {{queue_ms: number, first_audio_ms: number | null, generation_ms: number, segments: number}} metrics
 */

/**
 * @typedef {object} CancelledMessage
 * @property {"cancelled"} type
 * @property {string} utterance
 * @property {boolean} after_done
 * @property {number} sent_ms
 * @property {number} played_ms
 * @property {"client" | "ack" | "clock"} played_source
 * @property {string} spoken_text
 * @property {number} spoken_chars
 * @property {string} remaining_text
 */

/** @typedef {{type: "words", utterance: string, words: WireWord[]}} WordsMessage */
/** @typedef {{type: "flushed", utterance: string, id?: string | number}} FlushedMessage */
/** @typedef {{type: "warning", code: string, message: string, utterance?: string, detail?: string}} WarningMessage */
/**
 * @typedef {{type: "error", code: string, message: string, utterance?: string, retryable?: boolean,
 *   retry_after_s?: number}} ErrorMessage
 */
/**
 * @typedef {{type: "resumed", session: string,
 *   utterances: {utterance: string, received_chars: number, ended: boolean}[]}} ResumedMessage
 */
/** @typedef {{type: "pong", id?: string | number}} PongMessage */

/**
 * @typedef {(ReadyMessage | StartedMessage | WordsMessage | FlushedMessage | DoneMessage | CancelledMessage |
 *   WarningMessage | ErrorMessage | ResumedMessage | PongMessage) & {seq?: number}} ControlMessage
 */

/**
 * @typedef {object} OpenOptions
 * @property {string} [voice]
 * @property {string} [format]
 * @property {number} [sample_rate_hz]
 * @property {number} [speed]
 * @property {number} [seed]
 * @property {string} [language]
 * @property {{temperature?: number, top_p?: number, top_k?: number}} [sampling]
 */

/**
 * @typedef {({type: "open", utterance: string} & OpenOptions)
 *   | {type: "text", utterance: string, text: string}
 *   | {type: "flush", utterance: string, id?: string | number}
 *   | {type: "end", utterance: string}
 *   | {type: "cancel", utterance?: string, played_ms?: number}
 *   | {type: "ack", utterance: string, played_ms: number}
 *   | {type: "config", max_ahead_ms?: number | null, resume_ms?: number}
 *   | {type: "resume", resume_token: string, last_seq: number}
 *   | {type: "ping", id?: string | number}} ClientMessage
 */

/** @param {ClientMessage} message @returns {string} */
export function encodeMessage(message) {
  return JSON.stringify(message);
}

/**
 * @param {string} data one text frame
 * @returns {ControlMessage}
 * @throws {CodecError} if it is not a JSON map with a `type`
 */
export function decodeMessage(data) {
  let message;
  try {
    message = JSON.parse(data);
  } catch (error) {
    throw new CodecError(`a text message is not JSON: ${error instanceof Error ? error.message : error}`);
  }
  if (typeof message !== "object" || message === null || typeof message.type !== "string") {
    throw new CodecError("a text message has no type");
  }
  return message;
}

/**
 * @param {ArrayBuffer} data one binary frame: 16 bytes of header, then the payload
 * @returns {AudioFrame} the payload is a view into `data`
 * @throws {CodecError} if the header is short, of another version or of another kind
 */
export function decodeAudio(data) {
  if (data.byteLength < HEADER_BYTES) {
    throw new CodecError(`an audio message has ${data.byteLength} bytes, at least ${HEADER_BYTES} expected`);
  }
  const header = new DataView(data, 0, HEADER_BYTES);
  const version = header.getUint8(0);
  const kind = header.getUint8(1);
  if (version !== HEADER_VERSION || kind !== HEADER_KIND_AUDIO) {
    throw new CodecError(`an audio message has version ${version} and kind ${kind}, 1 and 1 expected`);
  }
  const flags = header.getUint16(12, true);
  return {
    type: "audio",
    number: header.getUint16(2, true),
    seq: header.getUint32(4, true),
    start_sample: header.getUint32(8, true),
    is_first: (flags & FLAG_FIRST) !== 0,
    is_last: (flags & FLAG_LAST) !== 0,
    is_segment_end: (flags & FLAG_SEGMENT_END) !== 0,
    payload: new Uint8Array(data, HEADER_BYTES),
  };
}
