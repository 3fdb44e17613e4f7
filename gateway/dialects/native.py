"""The native dialect, `antiphon.v1.json` and `antiphon.v1.msgpack`: docs/protocol.md is its page."""

from __future__ import annotations

import base64
import codecs
import json
import math
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NoReturn

import msgpack

from engine.speech import Sampling
from gateway.dialects.base import Handshake
from gateway.errors import ClientError, ErrorCode
from gateway.events import (
    UNSET,
    Acknowledge,
    Audio,
    Cancel,
    Cancelled,
    ClientEvent,
    Configure,
    Done,
    EndText,
    Failed,
    Flush,
    Flushed,
    OpenUtterance,
    Ping,
    Pong,
    Ready,
    Resume,
    Resumed,
    ServerEvent,
    Started,
    TextFragment,
    UtteranceOptions,
    Warned,
    Words,
)

JSON_SUBPROTOCOL: Final = "antiphon.v1.json"
MSGPACK_SUBPROTOCOL: Final = "antiphon.v1.msgpack"

AUDIO_HEADER: Final = struct.Struct("<BBHIIHH")
"""version, kind, number, seq, start_sample, flags, reserved: 16 bytes, little-endian."""
AUDIO_VERSION: Final = 1
AUDIO_KIND: Final = 1
FLAG_FIRST: Final = 1
FLAG_LAST: Final = 2
FLAG_SEGMENT_END: Final = 4
SEQ_MODULUS: Final = 1 << 32

MAX_ID_CHARS: Final = 64
MAX_SEED: Final = 2**53 - 1
MAX_LEXICON_WORDS: Final = 1000
MAX_WORD_CHARS: Final = 256
MAX_SHOWN_CHARS: Final = 60
MAX_OPEN_DECODERS: Final = 256
"""Utterances that may have half a UTF-8 character pending at once (msgpack bin text)."""

Wire = Literal["json", "msgpack"]
Check = Callable[[str, Any], Any]


def choose_subprotocol(offered: tuple[str, ...]) -> str | None:
    """The first of ours that the client offers; None (JSON, no subprotocol header) where it offers none of them."""
    return next((name for name in offered if name in (JSON_SUBPROTOCOL, MSGPACK_SUBPROTOCOL)), None)


# ---- checks of single values: each returns the value to use, or raises ClientError naming value and limit -----------


def _refuse(field: str, value: object, wanted: str) -> NoReturn:
    raise ClientError(ErrorCode.BAD_VALUE, f"{field} is {_shown(value)}, must be {wanted}")


def _shown(value: object) -> str:
    """A peer's value in a message: short, and never taken apart (it may be nested without end)."""
    if isinstance(value, str | bytes):
        return repr(value[:MAX_SHOWN_CHARS]) + ("…" if len(value) > MAX_SHOWN_CHARS else "")
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return f"a {type(value).__name__}"


def _string(min_chars: int, max_chars: int) -> Check:
    def check(field: str, value: Any) -> str:
        if not isinstance(value, str):
            _refuse(field, value, "a string")
        if not min_chars <= len(value) <= max_chars:
            raise ClientError(
                ErrorCode.BAD_VALUE, f"{field} has {len(value):,} characters, must have {min_chars} to {max_chars}"
            )
        return value

    return check


def _number(low: float, high: float, *, low_is_open: bool = False) -> Check:
    def check(field: str, value: Any) -> float:
        wanted = f"a number {'above' if low_is_open else 'from'} {low:g}" + (
            f" to {high:g}" if math.isfinite(high) else (" up" if not low_is_open else "")
        )
        if isinstance(value, bool) or not isinstance(value, int | float):
            _refuse(field, value, wanted)
        try:
            number = float(value)
        except OverflowError:
            _refuse(field, value, wanted)
        if not math.isfinite(number) or number < low or number > high or (low_is_open and number == low):
            _refuse(field, value, wanted)
        return number

    return check


def _integer(low: int, high: int) -> Check:
    def check(field: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            _refuse(field, value, f"an integer from {low} to {high}")
        return value

    return check


def _choice(*names: str) -> Check:
    def check(field: str, value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            _refuse(field, value, " or ".join(repr(name) for name in names))
        return value

    return check


def _boolean(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        _refuse(field, value, "true or false")
    return value


def _optional(check: Check) -> Check:
    return lambda field, value: None if value is None else check(field, value)


def _text(field: str, value: Any) -> str | bytes:
    if not isinstance(value, str | bytes):
        _refuse(field, value, "a string")
    return value


def _correlation_id(field: str, value: Any) -> str | int:
    if isinstance(value, str):
        if len(value) > MAX_ID_CHARS:
            raise ClientError(ErrorCode.BAD_VALUE, f"{field} has {len(value):,} characters, at most {MAX_ID_CHARS}")
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_SEED:
        return value
    _refuse(field, value, f"a string of at most {MAX_ID_CHARS} characters or an integer within ±(2^53-1)")


def _sampling(field: str, value: Any) -> Sampling:
    if not isinstance(value, dict):
        _refuse(field, value, "a map of temperature, top_p, top_k")
    read = _read_fields(value, f"{field}.", {}, SAMPLING_FIELDS)
    return Sampling(read.get("temperature"), read.get("top_p"), read.get("top_k"))


def _lexicon(field: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        _refuse(field, value, "a map of words to respellings or /phonemes/")
    if len(value) > MAX_LEXICON_WORDS:
        raise ClientError(ErrorCode.BAD_VALUE, f"{field} has {len(value):,} words, at most {MAX_LEXICON_WORDS:,}")
    word = _string(1, MAX_WORD_CHARS)
    return {word(f"a word of {field}", key): word(f"{field}[{key!r:.40}]", entry) for key, entry in value.items()}


# ---- the message table: type -> (required fields, optional fields) --------------------------------------------------

_ID: Final = _string(1, MAX_ID_CHARS)
_NAME: Final = _string(1, 256)
_MILLISECONDS: Final = _number(0, math.inf)
_RATE: Final = _integer(1, 1_000_000)
_SPEED: Final = _number(0, math.inf, low_is_open=True)
_SEED: Final = _integer(0, MAX_SEED)

SAMPLING_FIELDS: Final[Mapping[str, Check]] = {
    "temperature": _optional(_number(0, 10)),
    "top_p": _optional(_number(0, 1, low_is_open=True)),
    "top_k": _optional(_integer(1, 1_000_000)),
}

MESSAGES: Final[Mapping[str, tuple[Mapping[str, Check], Mapping[str, Check]]]] = {
    "open": (
        {"utterance": _ID},
        {
            "lane": _ID,
            "voice": _NAME,
            "format": _NAME,
            "sample_rate_hz": _RATE,
            "speed": _SPEED,
            "seed": _SEED,
            "language": _NAME,
            "words": _boolean,
            "segmentation": _choice("auto", "manual"),
            "sampling": _sampling,
        },
    ),
    "text": ({"utterance": _ID, "text": _text}, {}),
    "flush": ({"utterance": _ID}, {"id": _correlation_id}),
    "end": ({"utterance": _ID}, {}),
    "cancel": ({}, {"utterance": _ID, "played_ms": _MILLISECONDS}),
    "ack": ({"utterance": _ID, "played_ms": _MILLISECONDS}, {}),
    "config": (
        {},
        {
            "voice": _NAME,
            "format": _NAME,
            "sample_rate_hz": _optional(_RATE),
            "speed": _SPEED,
            "seed": _optional(_SEED),
            "language": _optional(_NAME),
            "lexicon": _lexicon,
            "audio": _choice("binary", "base64"),
            "max_ahead_ms": _optional(_number(0, math.inf, low_is_open=True)),
            "tag_scope": _choice("utterance", "session"),
            "resume_ms": _MILLISECONDS,
        },
    ),
    "resume": ({"resume_token": _string(1, 256), "last_seq": _integer(0, SEQ_MODULUS - 1)}, {}),
    "ping": ({}, {"id": _correlation_id}),
}


def _read_fields(
    message: Mapping[Any, Any], prefix: str, required: Mapping[str, Check], optional: Mapping[str, Check]
) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for field, value in message.items():
        check = required.get(field) or optional.get(field)
        if check is None:
            known = ", ".join([*required, *optional])
            raise ClientError(ErrorCode.UNKNOWN_FIELD, f"unknown field {prefix}{field!s:.80}; known: {known}")
        read[field] = check(f"{prefix}{field}", value)
    for field in required:
        if field not in read:
            raise ClientError(ErrorCode.MISSING_FIELD, f"field {prefix}{field} is missing")
    return read


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class NativeDialect:
    """One connection's native dialect. The only state: the next seq, and halves of UTF-8 characters of bin text."""

    def __init__(self, handshake: Handshake, max_message_bytes: int) -> None:
        self._subprotocol = choose_subprotocol(handshake.subprotocols)
        self._wire: Wire = "msgpack" if self._subprotocol == MSGPACK_SUBPROTOCOL else "json"
        self._max_message_bytes = max_message_bytes
        self._seq = 0
        self._decoders: OrderedDict[str, codecs.IncrementalDecoder] = OrderedDict()

    @property
    def subprotocol(self) -> str | None:
        return self._subprotocol

    def begin(self) -> list[ClientEvent]:
        return []

    # ---- receive -----------------------------------------------------------------------------------------------------

    def receive(self, message: str | bytes) -> list[ClientEvent]:
        fields = self._parse(message)
        kind = fields.pop("type", None)
        if kind is None:
            raise ClientError(ErrorCode.MISSING_FIELD, "field type is missing")
        spec = MESSAGES.get(kind) if isinstance(kind, str) else None
        if spec is None:
            raise ClientError(ErrorCode.UNKNOWN_TYPE, f"unknown type {_shown(kind)}; known: {', '.join(MESSAGES)}")
        utterance = fields.get("utterance")
        try:
            return self._event(kind, _read_fields(fields, "", *spec))
        except ClientError as error:
            if isinstance(utterance, str) and 1 <= len(utterance) <= MAX_ID_CHARS:
                error.utterance = utterance
                error.is_refused_open = kind == "open"
            raise

    def _parse(self, message: str | bytes) -> dict[Any, Any]:
        size = len(message) if isinstance(message, bytes) else _utf8_bytes(message, self._max_message_bytes)
        if size > self._max_message_bytes:
            raise ClientError(
                ErrorCode.MESSAGE_TOO_BIG, f"message is {size:,} bytes, at most {self._max_message_bytes:,}"
            )
        try:
            if self._wire == "json":
                if isinstance(message, bytes):
                    raise ClientError(
                        ErrorCode.BAD_MESSAGE, f"{JSON_SUBPROTOCOL} takes text messages, this one is binary"
                    )
                value = json.loads(message, parse_constant=_reject_constant)
            else:
                if isinstance(message, str):
                    raise ClientError(
                        ErrorCode.BAD_MESSAGE, f"{MSGPACK_SUBPROTOCOL} takes binary messages, this one is text"
                    )
                value = msgpack.unpackb(message, raw=False, strict_map_key=True)
        except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
            reason = str(error) or type(error).__name__
            raise ClientError(ErrorCode.BAD_MESSAGE, f"not {self._wire}: {reason:.200}") from None
        if not isinstance(value, dict):
            raise ClientError(ErrorCode.BAD_MESSAGE, f"a message is a map, this one is a {type(value).__name__}")
        return value

    def _event(self, kind: str, read: dict[str, Any]) -> list[ClientEvent]:
        match kind:
            case "open":
                self._decoders.pop(read["utterance"], None)
                return [
                    OpenUtterance(
                        utterance=read["utterance"],
                        lane=read.get("lane", "main"),
                        options=UtteranceOptions(
                            voice=read.get("voice"),
                            format=read.get("format"),
                            sample_rate_hz=read.get("sample_rate_hz"),
                            speed=read.get("speed"),
                            seed=read.get("seed"),
                            language=read.get("language"),
                            sampling=read.get("sampling") or Sampling(),
                        ),
                        has_words=read.get("words", True),
                        segmentation=read.get("segmentation", "auto"),
                    )
                ]
            case "text":
                return [TextFragment(read["utterance"], self._decoded(read["utterance"], read["text"]))]
            case "flush":
                return [Flush(read["utterance"], read.get("id"))]
            case "end":
                return self._end(read["utterance"])
            case "cancel":
                played_ms = read.get("played_ms")
                if played_ms is not None and "utterance" not in read:
                    raise ClientError(
                        ErrorCode.MISSING_FIELD, "played_ms needs an utterance; field utterance is missing"
                    )
                return [Cancel(read.get("utterance"), None if played_ms is None else played_ms / 1000)]
            case "ack":
                return [Acknowledge(read["utterance"], read["played_ms"] / 1000)]
            case "config":
                ahead_ms = read.get("max_ahead_ms", UNSET)
                return [
                    Configure(
                        voice=read.get("voice", UNSET),
                        format=read.get("format", UNSET),
                        sample_rate_hz=read.get("sample_rate_hz", UNSET),
                        speed=read.get("speed", UNSET),
                        seed=read.get("seed", UNSET),
                        language=read.get("language", UNSET),
                        lexicon=read.get("lexicon", UNSET),
                        max_ahead_s=ahead_ms / 1000 if isinstance(ahead_ms, float) else ahead_ms,
                        tag_scope=read.get("tag_scope", UNSET),
                        resume_s=read["resume_ms"] / 1000 if "resume_ms" in read else UNSET,
                        audio_encoding=read.get("audio", UNSET),
                    )
                ]
            case "resume":
                return [Resume(read["resume_token"], read["last_seq"])]
            case _:
                return [Ping(read.get("id"))]

    def _decoded(self, utterance: str, text: str | bytes) -> str:
        """Text of a `text` message; msgpack bin may cut a character anywhere."""
        if isinstance(text, str):
            if utterance in self._decoders and self._decoders[utterance].getstate()[0]:
                raise ClientError(
                    ErrorCode.BAD_VALUE, "text is a string, but half a UTF-8 character is pending from bytes"
                )
            return text
        decoder = self._decoders.get(utterance)
        if decoder is None:
            if len(self._decoders) >= MAX_OPEN_DECODERS:
                self._decoders.popitem(last=False)
            decoder = self._decoders[utterance] = codecs.getincrementaldecoder("utf-8")()
        state = decoder.getstate()
        try:
            return decoder.decode(text)
        except UnicodeDecodeError as error:
            decoder.setstate(state)
            raise ClientError(ErrorCode.BAD_VALUE, f"text is not UTF-8: {error.reason} at byte {error.start}") from None

    def _end(self, utterance: str) -> list[ClientEvent]:
        decoder = self._decoders.pop(utterance, None)
        if decoder is not None and decoder.getstate()[0]:
            # The rest of the character never came: what was received of it is one replacement character.
            return [TextFragment(utterance, "\ufffd"), EndText(utterance)]
        return [EndText(utterance)]

    # ---- send --------------------------------------------------------------------------------------------------------

    def send(self, event: ServerEvent) -> list[str | bytes]:
        if isinstance(event, Audio):
            return [self._audio(event)]
        message = _message(event)
        if not isinstance(event, Ready):
            message["seq"] = self._next_seq()
        return [self._encoded(message)]

    def _next_seq(self) -> int:
        self._seq = (self._seq + 1) % SEQ_MODULUS
        return self._seq

    def _audio(self, event: Audio) -> str | bytes:
        flags = (
            (FLAG_FIRST if event.is_first else 0)
            | (FLAG_LAST if event.is_last else 0)
            | (FLAG_SEGMENT_END if event.is_segment_end else 0)
        )
        seq = self._next_seq()
        start_sample = event.start_sample % (1 << 32)
        if self._wire == "json" and event.encoding == "binary":
            header = AUDIO_HEADER.pack(AUDIO_VERSION, AUDIO_KIND, event.number, seq, start_sample, flags, 0)
            return header + event.payload
        return self._encoded(
            {
                "type": "audio",
                "utterance": event.utterance,
                "seq": seq,
                "start_sample": start_sample,
                "flags": flags,
                "data": event.payload if self._wire == "msgpack" else base64.b64encode(event.payload).decode("ascii"),
            }
        )

    def _encoded(self, message: dict[str, Any]) -> str | bytes:
        if self._wire == "msgpack":
            packed: bytes = msgpack.packb(message, use_bin_type=True, unicode_errors="replace")
            return packed
        return json.dumps(message, separators=(",", ":"))


def _utf8_bytes(text: str, limit: int) -> int:
    """Bytes of `text` in UTF-8; its exact size only where that decides about the limit."""
    if len(text) * 4 <= limit or len(text) > limit:
        return len(text)
    return len(text.encode("utf-8", "surrogatepass"))


def _ms(samples: int, sample_rate_hz: int) -> float:
    return round(samples * 1000 / sample_rate_hz, 3)


def _without_none(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if value is not None}


def _message(event: ServerEvent) -> dict[str, Any]:
    """The map for every event but Audio, without its seq."""
    match event:
        case Ready():
            return {
                "type": "ready",
                "session": event.session,
                "resume_token": event.resume_token,
                "model": event.model.name,
                "voices": [voice.id for voice in event.model.voices],
                "default_voice": event.model.default_voice,
                "formats": list(event.formats),
                "sample_rate_hz": event.sample_rate_hz,
                "limits": {
                    "message_bytes": event.limits.message_bytes,
                    "utterance_chars": event.limits.utterance_chars,
                    "utterances": event.limits.utterances,
                    "idle_s": event.limits.idle_s,
                    "utterance_idle_s": event.limits.utterance_idle_s,
                    "resume_ms": round(event.limits.resume_s * 1000),
                },
                "version": event.version,
            }
        case Started():
            return _without_none(
                {
                    "type": "started",
                    "utterance": event.utterance,
                    "number": event.number,
                    "voice": event.voice,
                    "format": event.format,
                    "sample_rate_hz": event.sample_rate_hz,
                    "seed": event.seed,
                    "word_timing": event.word_timing,
                    "pre_skip_samples": event.pre_skip_samples,
                }
            )
        case Words():
            return {
                "type": "words",
                "utterance": event.utterance,
                "words": [
                    {
                        "text": word.text,
                        "start_char": word.start_char,
                        "end_char": word.end_char,
                        "start_ms": _ms(word.start_sample, event.sample_rate_hz),
                        "end_ms": _ms(word.end_sample, event.sample_rate_hz),
                    }
                    for word in event.words
                ],
            }
        case Flushed():
            return _without_none({"type": "flushed", "utterance": event.utterance, "id": event.id})
        case Done():
            return {
                "type": "done",
                "utterance": event.utterance,
                "reason": event.reason,
                "audio_ms": _ms(event.audio_samples, event.sample_rate_hz),
                "audio_samples": event.audio_samples,
                "chars": event.chars,
                "metrics": {
                    "queue_ms": round(event.metrics.queue_s * 1000, 3),
                    "first_audio_ms": None
                    if event.metrics.first_audio_s is None
                    else round(event.metrics.first_audio_s * 1000, 3),
                    "generation_ms": round(event.metrics.generation_s * 1000, 3),
                    "segments": event.metrics.segments,
                },
            }
        case Cancelled():
            return {
                "type": "cancelled",
                "utterance": event.utterance,
                "after_done": event.after_done,
                "sent_ms": _ms(event.sent_samples, event.sample_rate_hz),
                "played_ms": _ms(event.played_samples, event.sample_rate_hz),
                "played_source": event.played_source,
                "spoken_text": event.spoken_text,
                "spoken_chars": len(event.spoken_text),
                "remaining_text": event.remaining_text,
            }
        case Warned():
            return _without_none(
                {
                    "type": "warning",
                    "code": event.code.value,
                    "message": event.message,
                    "utterance": event.utterance,
                    "detail": event.detail,
                }
            )
        case Failed():
            return error_fields(event)
        case Resumed():
            return {
                "type": "resumed",
                "session": event.session,
                "utterances": [
                    {"utterance": kept.utterance, "received_chars": kept.received_chars, "ended": kept.is_ended}
                    for kept in event.utterances
                ],
            }
        case Pong():
            return _without_none({"type": "pong", "id": event.id})
        case Audio():  # carried by NativeDialect._audio, which numbers its header
            raise AssertionError("audio has its own encoding")


def error_fields(event: Failed) -> dict[str, Any]:
    return _without_none(
        {
            "type": "error",
            "code": event.code.value,
            "message": event.message,
            "utterance": event.utterance,
            "retryable": event.is_retryable,
            "retry_after_s": event.retry_after_s,
        }
    )


def error_body(event: Failed, status: int) -> dict[str, Any]:
    """A refused request's, which is the message of the socket."""
    return error_fields(event)
