"""LiveKit Inference's gateway protocol, `/v1/tts`: one vendor-neutral set of messages for every voice.

Settings come once per connection, which is pooled: later turns are `input_transcript` … `session.flush` alone. There is
no cancel; a client that loses interest stops reading. `done` ends a turn; each audio frame names the session.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.audio.formats import resolve_format
from gateway.audio.silence import short_silence
from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.json_fields import Fields, read_fields, wire
from gateway.dialects.remarks import RemarksMade, Speed, ignored_speed, speed_within_reach
from gateway.dialects.turns import Turn, Turns
from gateway.errors import ClientError, ErrorCode
from gateway.events import (
    Audio,
    Cancelled,
    ClientEvent,
    Done,
    EndText,
    Failed,
    OpenUtterance,
    Ping,
    Pong,
    Ready,
    ServerEvent,
    TextFragment,
    UtteranceOptions,
    Words,
)

DEFAULT_RATE_HZ: Final = 24000

ERRORS: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.BAD_MESSAGE: 400,
    ErrorCode.UNKNOWN_TYPE: 400,
    ErrorCode.UNKNOWN_FIELD: 400,
    ErrorCode.MISSING_FIELD: 400,
    ErrorCode.BAD_VALUE: 400,
    ErrorCode.UNKNOWN_UTTERANCE: 400,
    ErrorCode.UTTERANCE_EXISTS: 400,
    ErrorCode.UTTERANCE_ENDED: 400,
    ErrorCode.TEXT_TOO_LONG: 413,
    ErrorCode.MESSAGE_TOO_BIG: 413,
    ErrorCode.TOO_MANY_UTTERANCES: 429,
    ErrorCode.VOICE_NOT_FOUND: 404,
    ErrorCode.FORMAT_UNSUPPORTED: 400,
    ErrorCode.RATE_UNSUPPORTED: 400,
    ErrorCode.CAPACITY: 503,
    ErrorCode.QUOTA: 429,
    ErrorCode.IDLE_TIMEOUT: 408,
    ErrorCode.RESUME_UNKNOWN: 400,
    ErrorCode.RESUME_GAP: 400,
    ErrorCode.DRAINING: 503,
    ErrorCode.ENGINE_FAILED: 500,
    ErrorCode.INTERNAL: 500,
}
"""Our code -> the `code` beside the message; the protocol itself only knows that it is an error."""


class LiveKitDialect:
    """One connection."""

    subprotocol = None

    def __init__(self, handshake: Handshake, server: ServerFacts) -> None:
        self._server = server
        self._model = handshake.query.get("model")
        self._voice_name: str | None = None
        self._options = UtteranceOptions(format="pcm_s16le", sample_rate_hz=DEFAULT_RATE_HZ)
        self._turns = Turns()
        self._remarks = RemarksMade()
        self._session_id = "session"

    def begin(self) -> list[ClientEvent]:
        remark = self._server.names.model(self._model, self._server.model)
        return [] if remark is None else [remark]

    # ---- receive -----------------------------------------------------------------------------------------------------

    def receive(self, message: str | bytes) -> list[ClientEvent]:
        fields = read_fields(message, self._server.limits.message_bytes)
        kind = fields.text("type")
        match kind:
            case "session.create":
                return self._create(fields)
            case "input_transcript":
                transcript, speed = fields.require("transcript"), _speed(fields.fields("generation_config"))
                turn, opened = self._turn(speed)
                turn.has_text |= bool(transcript.strip())
                return [*opened, TextFragment(turn.utterance, transcript)]
            case "session.flush":
                turn, opened = self._turn(Speed())
                turn.is_flushed = True
                return [*opened, EndText(turn.utterance)]
            case _:
                raise ClientError(
                    ErrorCode.UNKNOWN_TYPE,
                    f"unknown type {kind!r:.80}; known: session.create, input_transcript, session.flush",
                )

    def _create(self, fields: Fields) -> list[ClientEvent]:
        encoding = fields.text("encoding") or "pcm_s16le"
        if encoding != "pcm_s16le":
            raise ClientError(ErrorCode.FORMAT_UNSUPPORTED, f"encoding is {encoding!r:.40}, must be 'pcm_s16le'")
        audio_format = resolve_format(
            "pcm_s16le", fields.integer("sample_rate"), default_name="pcm_s16le", default_rate_hz=DEFAULT_RATE_HZ
        )
        voice_name = fields.text("voice")
        named = self._server.names.voice(voice_name, self._server.model)
        speed, model = _speed(fields.fields("extra")), fields.text("model")
        self._voice_name = voice_name
        self._options = UtteranceOptions(
            format=audio_format.name,
            sample_rate_hz=audio_format.sample_rate_hz,
            speed=speed.value,
            language=fields.text("language"),
        )
        self._model = model or self._model
        return [*self._remarks.new((named.remark, speed.remark)), Ping("created")]

    def _turn(self, speed: Speed) -> tuple[Turn, list[ClientEvent]]:
        """The turn that text goes to, opened where there is none."""
        turn = self._turns.current
        if turn is not None:
            return turn, []
        turn = self._turns.open()
        named = self._server.names.voice_now(self._voice_name, self._server.model)
        options = replace(self._options, voice=named.value)
        if speed.value is not None:
            options = replace(options, speed=speed.value)
        return turn, [OpenUtterance(turn.utterance, options=options), *self._remarks.new((named.remark, speed.remark))]

    # ---- send --------------------------------------------------------------------------------------------------------

    def send(self, event: ServerEvent) -> list[str | bytes]:
        match event:
            case Ready():
                self._session_id = event.session
                return []
            case Pong():
                return [self._named("session.created")]
            case Audio() if event.payload:
                return [self._named("output_audio", audio=base64.b64encode(event.payload).decode("ascii"))]
            case Words():
                return [self._alignment(event)]
            case Done():
                return self._told(self._turns.done(event))
            case Cancelled():
                return self._told(self._turns.ended(event.utterance))
            case Failed():
                error = self._named("error", message=event.message, code=ERRORS[event.code])
                ends = event.utterance if event.ends_utterance else None
                return [error, *([] if ends is None else self._told(self._turns.ended(ends)))]
            case _:
                return []

    def _told(self, turns: list[Turn]) -> list[str | bytes]:
        messages: list[str | bytes] = []
        for turn in turns:
            if turn.is_quiet:  # the client takes a turn without audio for a failure
                silence = short_silence("pcm_s16le", self._options.sample_rate_hz or DEFAULT_RATE_HZ)
                messages.append(self._named("output_audio", audio=base64.b64encode(silence).decode("ascii")))
            if turn.is_flushed:
                messages.append(self._named("done"))
        return messages

    def _alignment(self, event: Words) -> str:
        """Seconds from the turn's start. For `cartesia/…` models alone the client puts spaces behind words."""
        space = "" if (self._model or "").startswith("cartesia/") else " "
        words = [
            {
                "word": word.text + word.closing + space,
                "start": round(word.start_sample / event.sample_rate_hz, 4),
                "end": round(word.end_sample / event.sample_rate_hz, 4),
            }
            for word in event.words
        ]
        return self._named("output_alignment", words=words)

    def _named(self, kind: str, **fields: Any) -> str:
        return wire({"type": kind, "session_id": self._session_id, **fields})


def _speed(fields: Fields) -> Speed:
    """A number; vendors' words for speeds have no common meaning."""
    value = fields.raw("speed")
    return ignored_speed(value) if isinstance(value, str) else speed_within_reach(fields.number("speed"))


def error_body(event: Failed, status: int) -> dict[str, Any]:
    """A refused upgrade's, in the form of the protocol's errors."""
    return {"type": "error", "message": event.message, "code": status}
