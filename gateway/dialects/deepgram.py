"""Deepgram's `/v1/speak` WebSocket: texts, Flush, Clear; raw binary audio without any id.

Since nothing on the wire names a turn, order is all: one `Flushed` for each Flush and behind its last sample, none for
what was cleared, and no byte of a cleared turn after `Cleared`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from gateway.audio.silence import short_silence
from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.deepgram_frames import error_message, handshake_error, warning
from gateway.dialects.deepgram_options import read_query
from gateway.dialects.json_fields import read_fields, wire
from gateway.dialects.remarks import RemarksMade
from gateway.dialects.turns import Turn, Turns
from gateway.errors import ClientError, ErrorCode, WarningCode
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
    Ping,
    Pong,
    Ready,
    ServerEvent,
    TextFragment,
    Warned,
)

CLEARED: Final = "cleared"

TAIL_CHARS: Final = 256
"""Of the text before, as much as shows whether a sentence ended: the expression below is quadratic in it."""

_SENTENCE: Final = re.compile(r"\s\S.*[.!?…][\"'”’)\]]*$", re.DOTALL)
"""More than one word, ended like a sentence: not a token such as "U." or "example."."""


class DeepgramDialect:
    """One connection. Raises HandshakeError where the URL asks for what cannot be done."""

    def __init__(self, handshake: Handshake, server: ServerFacts) -> None:
        self._server = server
        try:
            self._order = read_query(handshake.query, server, is_file_allowed=False)
        except ClientError as error:
            raise handshake_error(error) from None
        offered = {name.lower(): name for name in handshake.subprotocols}
        self.subprotocol = offered.get("token") or offered.get("bearer")
        self._turns = Turns()
        self._remarks = RemarksMade()
        self._sequence_id = 0

    def begin(self) -> list[ClientEvent]:
        return list(self._remarks.new(self._order.remarks))

    # ---- receive -----------------------------------------------------------------------------------------------------

    def receive(self, message: str | bytes) -> list[ClientEvent]:
        fields = read_fields(message, self._server.limits.message_bytes)
        kind = fields.text("type")
        match kind:
            case "Speak":
                return self._speak(fields.require("text"))
            case "Flush":
                return self._flush()
            case "Clear":
                self._turns.clear()
                return [Cancel(), Ping(CLEARED)]
            case "Close":
                turn = self._turns.current
                return [*([] if turn is None else [EndText(turn.utterance)]), Leave()]
            case "KeepAlive":
                return []
            case _:
                raise ClientError(
                    ErrorCode.UNKNOWN_TYPE, f"unknown type {kind!r:.80}; known: Speak, Flush, Clear, Close, KeepAlive"
                )

    def _speak(self, text: str) -> list[ClientEvent]:
        events: list[ClientEvent] = []
        turn = self._turns.current
        if turn is None:
            if not text:
                return []
            turn = self._turns.open()
            events += self._opened(turn)
        if text[:1].isalpha() and _SENTENCE.search(turn.last_text):
            text = f" {text}"
        turn.last_text = text[-TAIL_CHARS:] or turn.last_text
        turn.has_text |= not text.isspace() and bool(text)
        return [*events, TextFragment(turn.utterance, text)]

    def _flush(self) -> list[ClientEvent]:
        events: list[ClientEvent] = []
        turn = self._turns.current
        if turn is None:
            turn = self._turns.open()
            events += self._opened(turn)
        turn.is_flushed = True
        return [*events, EndText(turn.utterance)]

    def _opened(self, turn: Turn) -> list[ClientEvent]:
        named = self._server.names.voice_now(self._order.voice_name, self._server.model)
        options = replace(self._order.options, voice=named.value)
        return [OpenUtterance(turn.utterance, options=options, has_words=False), *self._remarks.new((named.remark,))]

    # ---- send --------------------------------------------------------------------------------------------------------

    def send(self, event: ServerEvent) -> list[str | bytes]:
        match event:
            case Audio():
                is_wanted = event.payload and self._turns.of(event.utterance) is not None
                return [event.payload] if is_wanted else []
            case Ready():
                return [self._metadata(event)]
            case Done():
                return self._told(self._turns.done(event))
            case Cancelled():
                return self._told(self._turns.ended(event.utterance))
            case Failed():
                ends = event.utterance if event.ends_utterance else None
                return [error_message(event), *([] if ends is None else self._told(self._turns.ended(ends)))]
            case Warned() if event.code is not WarningCode.NOTHING_TO_CANCEL:
                return [warning(event)]
            case Pong() if event.id == CLEARED:
                return [self._numbered("Cleared")]
            case _:
                return []

    def _told(self, turns: list[Turn]) -> list[str | bytes]:
        """A marker for each flushed turn that is over; a turn ended without a Flush (idle, refused) has none."""
        messages: list[str | bytes] = []
        for turn in turns:
            if turn.is_quiet:
                # Pipecat gives up on a service after three turns without audio.
                options = self._order.options
                messages.append(short_silence(options.format or "pcm_s16le", options.sample_rate_hz or 0))
            if turn.is_flushed:
                messages.append(self._numbered("Flushed"))
        return messages

    def _numbered(self, kind: str) -> str:
        message = wire({"type": kind, "sequence_id": self._sequence_id})
        self._sequence_id += 1
        return message

    @staticmethod
    def _metadata(event: Ready) -> str:
        return wire(
            {
                "type": "Metadata",
                "request_id": event.session,
                "model_name": event.model.name,
                "model_version": event.version,
                "model_uuid": event.model.name,
            }
        )
