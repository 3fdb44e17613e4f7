"""The native dialect, `antiphon.v1.json` and `antiphon.v1.msgpack`: docs/protocol.md is its page."""

from __future__ import annotations

import base64
import codecs
import json
import struct
from collections import OrderedDict
from typing import Any, Final, Literal, NoReturn

import msgpack

from engine.speech import Sampling
from gateway.dialects.base import Handshake
from gateway.dialects.native_fields import MAX_ID_CHARS, fields_of, read_fields
from gateway.dialects.native_frames import message_of
from gateway.errors import ClientError, ErrorCode
from gateway.events import (
    UNSET,
    Acknowledge,
    Audio,
    Cancel,
    ClientEvent,
    Configure,
    EndText,
    Flush,
    OpenUtterance,
    Ping,
    Ready,
    Resume,
    ServerEvent,
    TextFragment,
    UtteranceOptions,
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

MAX_OPEN_DECODERS: Final = 256
"""Utterances that may have half a UTF-8 character pending at once (msgpack bin text)."""

Wire = Literal["json", "msgpack"]


def choose_subprotocol(offered: tuple[str, ...]) -> str | None:
    """The first of ours that the client offers; None (JSON, no subprotocol header) where it offers none of them."""
    return next((name for name in offered if name in (JSON_SUBPROTOCOL, MSGPACK_SUBPROTOCOL)), None)


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
        known = fields_of(kind)
        utterance = fields.get("utterance")
        try:
            return self._event(kind, read_fields(fields, known))
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
        message = message_of(event)
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
