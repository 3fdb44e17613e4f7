"""What a client of the native dialect reads and writes: the server's messages as data, and both encodings. Sans-IO.

Times are milliseconds and positions are output samples or code points, as on the wire (docs/protocol.md).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgpack

Wire = Literal["json", "msgpack"]

SUBPROTOCOLS: Final[Mapping[Wire, str]] = {"json": "antiphon.v1.json", "msgpack": "antiphon.v1.msgpack"}
AUDIO_HEADER: Final = struct.Struct("<BBHIIHH")
"""version, kind, number, seq, start_sample, flags, reserved."""
HEADER_VERSION_AND_KIND: Final = (1, 1)
FLAG_FIRST, FLAG_LAST, FLAG_SEGMENT_END = 1, 2, 4
MAX_BYTES_PER_CHAR: Final = 12
"""The most that one code point takes in a message: two JSON escapes."""


class ProtocolError(Exception):
    """The server sent something that the native protocol does not have."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The server's first message. `sample_rate_hz` is what is sent if none is asked for; `limits` as on the wire."""

    session: str
    resume_token: str
    model: str
    voices: tuple[str, ...]
    default_voice: str
    formats: tuple[str, ...]
    sample_rate_hz: int
    limits: Mapping[str, float]
    version: str


@dataclass(frozen=True, slots=True)
class Started:
    """What an utterance was granted; before its first audio."""

    utterance: str
    number: int
    voice: str
    format: str
    sample_rate_hz: int
    seed: int
    word_timing: Literal["exact", "estimated"]
    pre_skip_samples: int | None


@dataclass(frozen=True, slots=True)
class AudioFrame:
    """One frame of an utterance. `start_sample`: its place in the utterance, at the started rate."""

    start_sample: int
    payload: bytes
    is_first: bool
    is_last: bool
    is_segment_end: bool


@dataclass(frozen=True, slots=True)
class Word:
    """A spoken word: `text` is the input's [start_char, end_char), heard from start_ms to end_ms of the utterance."""

    text: str
    start_char: int
    end_char: int
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class Words:
    utterance: str
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Flushed:
    utterance: str
    id: str | int | None


@dataclass(frozen=True, slots=True)
class Done:
    """The utterance's last sample has been sent. `metrics` as on the wire."""

    utterance: str
    reason: Literal["complete", "timeout", "error"]
    audio_ms: float
    audio_samples: int
    chars: int
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What had been heard when the utterance was cut off; `spoken_text + remaining_text` is all text received."""

    utterance: str
    after_done: bool
    sent_ms: float
    played_ms: float
    played_source: Literal["client", "ack", "clock"]
    spoken_text: str
    spoken_chars: int
    remaining_text: str


@dataclass(frozen=True, slots=True)
class Warned:
    """A `warning`: nothing has failed, but something is not as asked for."""

    code: str
    message: str
    utterance: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Failed:
    """An `error`."""

    code: str
    message: str
    utterance: str | None
    is_retryable: bool
    retry_after_s: float | None


@dataclass(frozen=True, slots=True)
class Pong:
    id: str | int | None


@dataclass(frozen=True, slots=True)
class AudioMessage:
    """Audio, and which utterance it belongs to: by id, or by the number that `Started` gave it (binary header)."""

    owner: str | int
    frame: AudioFrame


@dataclass(frozen=True, slots=True)
class OtherMessage:
    """A type that this client does not know: from a newer server, to be skipped."""

    type: str


Message = Ready | Started | AudioMessage | Words | Flushed | Done | Cancelled | Warned | Failed | Pong | OtherMessage


class MessageCodec:
    """One connection's encoding. Also checks that no server message is missing: `seq` grows by one."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._last_seq: int | None = None

    def encode(self, message: Mapping[str, Any]) -> str | bytes:
        if self._wire == "json":
            return json.dumps(message, separators=(",", ":"))
        try:
            packed: bytes = msgpack.packb(message)
        except UnicodeEncodeError:
            # Halves of surrogate pairs, which JSON can carry and msgpack cannot: join those that meet, replace others.
            packed = msgpack.packb(
                {
                    key: value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
                    if isinstance(value, str)
                    else value
                    for key, value in message.items()
                }
            )
        return packed

    def decode(self, message: str | bytes) -> Message:
        """Raises ProtocolError where the message is none of the protocol's, or one before it is missing."""
        try:
            if isinstance(message, bytes) and self._wire == "json":
                return self._decode_binary(message)
            fields = json.loads(message) if isinstance(message, str) else msgpack.unpackb(message)
            decoded = _read(fields)
            if not isinstance(decoded, Ready):
                self._check_seq(fields["seq"])
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            RecursionError,
            struct.error,
            msgpack.UnpackException,
        ) as error:
            raise ProtocolError(f"cannot read the server's message: {type(error).__name__}: {error}") from error
        return decoded

    def _decode_binary(self, message: bytes) -> AudioMessage:
        version, kind, number, seq, start_sample, flags, _ = AUDIO_HEADER.unpack_from(message)
        if (version, kind) != HEADER_VERSION_AND_KIND:
            raise ProtocolError(f"binary message of version {version}, kind {kind}; known is version 1, kind 1")
        self._check_seq(seq)
        return AudioMessage(number, _frame(start_sample, message[AUDIO_HEADER.size :], flags))

    def _check_seq(self, seq: int) -> None:
        if self._last_seq is not None and seq != (self._last_seq + 1) % 2**32:
            raise ProtocolError(f"message {seq} follows message {self._last_seq}: something is missing")
        self._last_seq = seq


def _frame(start_sample: int, payload: bytes, flags: int) -> AudioFrame:
    return AudioFrame(
        start_sample, payload, bool(flags & FLAG_FIRST), bool(flags & FLAG_LAST), bool(flags & FLAG_SEGMENT_END)
    )


def _read(fields: Mapping[str, Any]) -> Message:
    match fields["type"]:
        case "audio":
            data = fields["data"]
            payload = data if isinstance(data, bytes) else base64.b64decode(data, validate=True)
            return AudioMessage(fields["utterance"], _frame(fields["start_sample"], payload, fields["flags"]))
        case "words":
            return Words(
                fields["utterance"],
                tuple(
                    Word(word["text"], word["start_char"], word["end_char"], word["start_ms"], word["end_ms"])
                    for word in fields["words"]
                ),
            )
        case "started":
            return Started(
                utterance=fields["utterance"],
                number=fields["number"],
                voice=fields["voice"],
                format=fields["format"],
                sample_rate_hz=fields["sample_rate_hz"],
                seed=fields["seed"],
                word_timing=fields["word_timing"],
                pre_skip_samples=fields.get("pre_skip_samples"),
            )
        case "done":
            return Done(
                utterance=fields["utterance"],
                reason=fields["reason"],
                audio_ms=fields["audio_ms"],
                audio_samples=fields["audio_samples"],
                chars=fields["chars"],
                metrics=dict(fields["metrics"]),
            )
        case "cancelled":
            return Cancelled(
                utterance=fields["utterance"],
                after_done=fields["after_done"],
                sent_ms=fields["sent_ms"],
                played_ms=fields["played_ms"],
                played_source=fields["played_source"],
                spoken_text=fields["spoken_text"],
                spoken_chars=fields["spoken_chars"],
                remaining_text=fields["remaining_text"],
            )
        case "flushed":
            return Flushed(fields["utterance"], fields.get("id"))
        case "warning":
            return Warned(fields["code"], fields["message"], fields.get("utterance"), fields.get("detail"))
        case "error":
            return Failed(
                code=fields["code"],
                message=fields["message"],
                utterance=fields.get("utterance"),
                is_retryable=bool(fields.get("retryable", False)),
                retry_after_s=fields.get("retry_after_s"),
            )
        case "pong":
            return Pong(fields.get("id"))
        case "ready":
            return Ready(
                session=fields["session"],
                resume_token=fields["resume_token"],
                model=fields["model"],
                voices=tuple(fields["voices"]),
                default_voice=fields["default_voice"],
                formats=tuple(fields["formats"]),
                sample_rate_hz=fields["sample_rate_hz"],
                limits=dict(fields["limits"]),
                version=fields["version"],
            )
        case other:
            return OtherMessage(str(other))
