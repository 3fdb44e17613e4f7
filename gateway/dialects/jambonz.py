"""jambonz's streaming TTS for a custom vendor: it connects, and hears raw L16 until it stops.

The protocol has no end marker: jambonz watches its own play queue. A flush ends what was sent so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.audio.formats import resolve_format
from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.json_fields import Fields, read_fields, wire
from gateway.dialects.remarks import RemarksMade
from gateway.dialects.turns import Turn, Turns
from gateway.errors import ClientError, ErrorCode, HandshakeError
from gateway.events import (
    Audio,
    Cancel,
    Cancelled,
    ClientEvent,
    Done,
    EndText,
    Failed,
    Leave,
    OpenUtterance,
    Ready,
    ServerEvent,
    TextFragment,
    UtteranceOptions,
)

DEFAULT_RATE_HZ: Final = 8000

ERRORS: Final[Mapping[ErrorCode, str]] = {code: code.value for code in ErrorCode}
"""The vendor has no codes: ours go along with the sentence."""


class JambonzDialect:
    """One connection. Raises HandshakeError where the URL asks for what cannot be done."""

    subprotocol = None

    def __init__(self, handshake: Handshake, server: ServerFacts) -> None:
        self._server = server
        query = Fields(handshake.query)
        try:
            self._voice_name = handshake.query.get("voice")
            named = server.names.voice(self._voice_name, server.model)
            audio_format = resolve_format(
                "pcm_s16le",
                query.integer("sampleRate") if handshake.query.get("sampleRate") else None,
                default_name="pcm_s16le",
                default_rate_hz=DEFAULT_RATE_HZ,
            )
        except ClientError as error:
            status = 404 if error.code is ErrorCode.VOICE_NOT_FOUND else 400
            raise HandshakeError(status, error.code, error.message) from None
        self._remarks_made = RemarksMade()
        self._remarks = self._remarks_made.new((named.remark,))
        self._options = UtteranceOptions(
            format=audio_format.name,
            sample_rate_hz=audio_format.sample_rate_hz,
            language=handshake.query.get("language") or None,
        )
        self._sample_rate_hz = audio_format.sample_rate_hz
        self._turns = Turns()

    def begin(self) -> list[ClientEvent]:
        return list(self._remarks)

    def receive(self, message: str | bytes) -> list[ClientEvent]:
        fields = read_fields(message, self._server.limits.message_bytes)
        kind = fields.text("type")
        turn = self._turns.current
        match kind:
            case "stream":
                text = fields.require("text")
                opened: list[ClientEvent] = []
                if turn is None:
                    turn = self._turns.open()
                    opened += self._opened(turn)
                return [*opened, TextFragment(turn.utterance, text)]
            case "flush":
                if turn is None:
                    return []
                turn.is_flushed = True
                return [EndText(turn.utterance)]
            case "stop":
                self._turns.clear()
                return [Cancel(), Leave()]
            case "keepalive":
                return []
            case _:
                raise ClientError(
                    ErrorCode.UNKNOWN_TYPE, f"unknown type {kind!r:.80}; known: stream, flush, stop, keepalive"
                )

    def _opened(self, turn: Turn) -> list[ClientEvent]:
        named = self._server.names.voice_now(self._voice_name, self._server.model)
        options = replace(self._options, voice=named.value)
        return [
            OpenUtterance(turn.utterance, options=options, has_words=False),
            *self._remarks_made.new((named.remark,)),
        ]

    def send(self, event: ServerEvent) -> list[str | bytes]:
        match event:
            case Ready():
                data = {"sample_rate": self._sample_rate_hz, "base64_encoding": False}
                return [wire({"type": "connect", "data": data})]
            case Audio():
                is_wanted = event.payload and self._turns.of(event.utterance) is not None
                return [event.payload] if is_wanted else []
            case Done() | Cancelled():
                self._turns.ended(event.utterance)
                return []
            case Failed():
                if event.utterance is not None and event.ends_utterance:
                    self._turns.ended(event.utterance)
                return [wire(error_body(event, 500))]
            case _:
                return []


def error_body(event: Failed, status: int) -> dict[str, Any]:
    """The same in a message and in a refused upgrade."""
    return {"type": "error", "error": event.message, "code": ERRORS[event.code]}
