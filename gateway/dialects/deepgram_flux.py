"""Deepgram's `/v2/speak` (Flux): turns with ids, and an Interrupt that is answered with what had been heard.

`SpeechMetadata` is what its clients take for a turn's end, so `Flushed` goes before it; an interrupted turn ends with
`SpeechInterrupted` alone. Playback offsets count from the connection's start; an interrupt moves that count to its own
offset, since what was not played no longer counts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.deepgram_frames import error_message, handshake_error, warning, warning_message
from gateway.dialects.deepgram_options import read_query
from gateway.dialects.json_fields import Fields, read_fields, wire
from gateway.dialects.remarks import RemarksMade
from gateway.dialects.replies import Replies
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
    Started,
    TextFragment,
    UtteranceOptions,
    Warned,
)

CONFIGURED_SPEED_RANGE: Final = (0.5, 1.5)
"""What this protocol's Configure allows; narrower than the voices."""
SPEED_NOT_SUPPORTED: Final = "SPEED_NOT_SUPPORTED"
SPEED_OUT_OF_RANGE: Final = "SPEED_OUT_OF_RANGE"
SPEED_INCREMENT_INVALID: Final = "SPEED_INCREMENT_INVALID"
"""A ConfigureFailure's codes."""
NO_ACTIVE_SPEECH: Final = "NO_ACTIVE_SPEECH"
INTERRUPT_IN_PROGRESS: Final = "INTERRUPT_IN_PROGRESS"
INVALID_INTERRUPT_OFFSET: Final = "INVALID_INTERRUPT_OFFSET"
"""Warnings about an Interrupt."""
SPEED_STEPS_PER_UNIT: Final = 20
"""Steps of 0.05."""
KEPT_TURNS: Final = 8
"""Turns told as over that a late Interrupt may still fall into."""


@dataclass(slots=True)
class _Interrupt:
    """An Interrupt being carried out: one answer for all the turns it stops."""

    offset_ms: int | None
    waiting: set[str]
    answers: list[Cancelled] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A turn that was told as over: where its audio lies in the connection's."""

    utterance: str
    start_ms: float
    end_ms: float


class DeepgramFluxDialect:
    """One connection. Raises HandshakeError where the URL asks for what cannot be done."""

    def __init__(self, handshake: Handshake, server: ServerFacts) -> None:
        self._server = server
        try:
            order = read_query(handshake.query, server, is_file_allowed=False)
        except ClientError as error:
            raise handshake_error(error) from None
        offered = {name.lower(): name for name in handshake.subprotocols}
        self.subprotocol = offered.get("token") or offered.get("bearer")
        self._options = order.options
        self._voice_name = order.voice_name
        self._remarks_made = RemarksMade()
        self._remarks = self._remarks_made.new(order.remarks)
        self._prefix = "0" * 12
        self._turns = Turns()
        self._ends: dict[str, Done] = {}
        self._spoken: deque[_Spoken] = deque(maxlen=KEPT_TURNS)
        self._interrupt: _Interrupt | None = None
        self._last_offset_ms = 0
        self._total_ms = 0.0
        self._total_chars = 0
        self._replies: Replies[str] = Replies()
        self._is_closing = False

    def begin(self) -> list[ClientEvent]:
        return list(self._remarks)

    # ---- receive -----------------------------------------------------------------------------------------------------

    def receive(self, message: str | bytes) -> list[ClientEvent]:
        fields = read_fields(message, self._server.limits.message_bytes)
        kind = fields.text("type")
        match kind:
            case "Speak":
                return self._speak(fields.require("text"))
            case "Flush":
                return self._flush()
            case "Interrupt":
                return self._interrupted(fields.fields("playback_offset"))
            case "Configure":
                answer, options = self._configured(fields.number("speed"))
                reply = self._reply(answer)
                self._options = options
                return [reply]
            case "Close":
                return self._close()
            case "KeepAlive":
                return []
            case _:
                raise ClientError(
                    ErrorCode.UNKNOWN_TYPE,
                    f"unknown type {kind!r:.80}; known: Speak, Flush, Interrupt, Configure, Close",
                )

    def _speak(self, text: str) -> list[ClientEvent]:
        turn, events = self._turn()
        return [*events, TextFragment(turn.utterance, text)]

    def _flush(self) -> list[ClientEvent]:
        turn, events = self._turn()
        turn.is_flushed = True
        return [*events, EndText(turn.utterance)]

    def _turn(self) -> tuple[Turn, list[ClientEvent]]:
        """The turn that text goes to, opened where there is none."""
        turn = self._turns.current
        if turn is not None:
            return turn, []
        turn = self._turns.open()
        named = self._server.names.voice_now(self._voice_name, self._server.model)
        options = replace(self._options, voice=named.value)
        opened = OpenUtterance(turn.utterance, options=options, has_words=False)
        return turn, [opened, *self._remarks_made.new((named.remark,))]

    def _interrupted(self, offset: Fields) -> list[ClientEvent]:
        offset_ms = offset.integer("value")
        if self._interrupt is not None:
            return [self._warning(INTERRUPT_IN_PROGRESS, "the interrupt before has not been answered yet")]
        if offset_ms is not None and offset_ms <= self._last_offset_ms and self._last_offset_ms:
            return [
                self._warning(
                    INVALID_INTERRUPT_OFFSET,
                    f"playback_offset is {offset_ms} ms, must be above the last interrupt's, {self._last_offset_ms} ms",
                )
            ]
        cancels: list[ClientEvent] = []
        if offset_ms is not None:
            cancels += [
                Cancel(spoken.utterance, max(0.0, offset_ms - spoken.start_ms) / 1000)
                for spoken in self._spoken
                if spoken.end_ms > offset_ms
            ]
        played_s = None if offset_ms is None else max(0.0, offset_ms - self._total_ms) / 1000
        for turn in self._turns.live():
            cancels.append(Cancel(turn.utterance, played_s))
            played_s = None if offset_ms is None else 0.0
        if not cancels:
            return [self._warning(NO_ACTIVE_SPEECH, "there is no speech to interrupt")]
        stopped = {cancel.utterance for cancel in cancels if isinstance(cancel, Cancel) and cancel.utterance}
        self._interrupt = _Interrupt(offset_ms, stopped)
        self._turns.clear()
        self._spoken.clear()
        return cancels

    def _configured(self, speed: float | None) -> tuple[str, UtteranceOptions]:
        """The answer, and what holds from now on."""
        options = self._options
        failure: dict[str, Any] = {"type": "ConfigureFailure", "field": "speed"}
        if speed is None:
            return _applied(options), options
        low, high = CONFIGURED_SPEED_RANGE
        if "speed" not in self._server.model.parameters:
            text = f"{self._server.model.name} has no speed control"
            return wire({**failure, "code": SPEED_NOT_SUPPORTED, "description": text}), options
        if not low <= speed <= high:
            text = f"speed is {speed:g}, must be {low:g} to {high:g}"
            return wire({**failure, "code": SPEED_OUT_OF_RANGE, "value": speed, "description": text}), options
        steps = speed * SPEED_STEPS_PER_UNIT
        if abs(steps - round(steps)) > 1e-6:
            text = f"speed is {speed:g}, must be a multiple of 0.05"
            return wire({**failure, "code": SPEED_INCREMENT_INVALID, "value": speed, "description": text}), options
        options = replace(options, speed=speed)
        return _applied(options), options

    def _close(self) -> list[ClientEvent]:
        last_words = [] if self._turns.live() else [self._reply(self._session_metadata())]
        self._is_closing = True
        turn = self._turns.current
        if turn is None:
            return [*last_words, Leave()]
        turn.is_flushed = True
        return [EndText(turn.utterance), Leave()]

    def _reply(self, message: str) -> Ping:
        """The connection's own answers take their turn behind what was asked before."""
        return self._replies.put(message, len(message))

    def _warning(self, code: str, text: str) -> Ping:
        return self._reply(warning_message(code, text))

    # ---- send --------------------------------------------------------------------------------------------------------

    def send(self, event: ServerEvent) -> list[str | bytes]:
        match event:
            case Audio():
                is_wanted = event.payload and self._turns.of(event.utterance) is not None
                return [event.payload] if is_wanted else []
            case Started():
                return self._started(event.utterance)
            case Ready():
                return [self._connected(event)]
            case Done():
                if self._turns.of(event.utterance) is not None:
                    self._ends[event.utterance] = event
                return self._ended(event.utterance)
            case Cancelled():
                return self._stopped(event.utterance, event)
            case Failed():
                ends = event.utterance if event.ends_utterance else None
                return [error_message(event), *([] if ends is None else self._ended(ends))]
            case Pong():
                reply = self._replies.take()
                return [] if reply is None else [reply]
            case Warned() if event.code is WarningCode.NOTHING_TO_CANCEL:
                return self._stopped(event.utterance, None)
            case Warned():
                return [warning(event)]
            case _:
                return []

    def _connected(self, event: Ready) -> str:
        self._prefix = "".join(character for character in event.session if character.isalnum())[-8:]
        return wire(
            {
                "type": "Connected",
                "request_id": event.session,
                "model_name": event.model.name,
                "model_version": event.version,
                "model_uuids": [event.model.name],
            }
        )

    def _speech_id(self, utterance: str) -> str:
        """`dg_sp_` and twelve characters: the connection's and the turn's."""
        return f"dg_sp_{self._prefix:0>8}{int(utterance.rpartition('-')[2]) % 0x10000:04x}"

    def _started(self, utterance: str) -> list[str | bytes]:
        turn = self._turns.of(utterance)
        if turn is None or turn.has_started:
            return []
        turn.has_started = True
        return [wire({"type": "SpeechStarted", "speech_id": self._speech_id(utterance)})]

    def _ended(self, utterance: str) -> list[str | bytes]:
        messages: list[str | bytes] = []
        for turn in self._turns.ended(utterance):
            messages += self._told(turn, self._ends.pop(turn.utterance, None))
        if messages and self._is_closing and not self._turns.live():
            messages.append(self._session_metadata())
        return messages

    def _told(self, turn: Turn, done: Done | None) -> list[str | bytes]:
        """The end of a turn. One that was refused when it was opened has no figures."""
        messages: list[str | bytes] = []
        if not turn.has_started:
            messages.append(wire({"type": "SpeechStarted", "speech_id": self._speech_id(turn.utterance)}))
            messages.append(warning_message("NO_SYNTHESIZABLE_TEXT", "the turn's text has nothing to speak"))
        audio_ms = 0.0 if done is None else done.audio_samples * 1000 / done.sample_rate_hz
        chars = 0 if done is None else done.chars
        self._spoken.append(_Spoken(turn.utterance, self._total_ms, self._total_ms + audio_ms))
        self._total_ms += audio_ms
        self._total_chars += chars
        if turn.is_flushed:
            messages.append(wire({"type": "Flushed", "speech_id": self._speech_id(turn.utterance)}))
        messages.append(wire({"type": "SpeechMetadata", **self._figures(turn.utterance, audio_ms, chars)}))
        return messages

    def _figures(self, utterance: str, audio_ms: float, chars: int) -> dict[str, Any]:
        return {
            "speech_id": self._speech_id(utterance),
            "audio_duration_ms": round(audio_ms),
            "input_character_count": chars,
            "billable_character_count": chars,
            "controls_applied": {"pronunciations_applied": 0, "breaks_applied": 0, "pronunciation_warnings": 0},
        }

    def _stopped(self, utterance: str | None, answer: Cancelled | None) -> list[str | bytes]:
        """A turn of the running Interrupt has been stopped, or (None) was over; the last one brings the answer."""
        interrupt = self._interrupt
        if interrupt is None or utterance not in interrupt.waiting:
            return []
        interrupt.waiting.discard(utterance)
        if answer is not None:
            interrupt.answers.append(answer)
        if interrupt.waiting:
            return []
        self._interrupt = None
        if not interrupt.answers:
            return [warning_message(NO_ACTIVE_SPEECH, "there is no speech to interrupt")]
        return self._interruption(interrupt)

    def _interruption(self, interrupt: _Interrupt) -> list[str | bytes]:
        spoken = "".join(answer.spoken_text for answer in interrupt.answers)
        remaining = "".join(answer.remaining_text for answer in interrupt.answers)
        sent_ms = sum(
            answer.sent_samples * 1000 / answer.sample_rate_hz for answer in interrupt.answers if not answer.after_done
        )
        self._total_ms = self._total_ms + sent_ms if interrupt.offset_ms is None else float(interrupt.offset_ms)
        self._last_offset_ms = round(self._total_ms)
        self._total_chars += sum(
            len(answer.spoken_text) + len(answer.remaining_text)
            for answer in interrupt.answers
            if not answer.after_done
        )
        last = interrupt.answers[-1]
        texts = {} if interrupt.offset_ms is None else {"text_spoken": spoken, "text_remaining": remaining}
        figures = self._figures(
            last.utterance, last.sent_samples * 1000 / last.sample_rate_hz, len(spoken) + len(remaining)
        )
        message = {
            "type": "SpeechInterrupted",
            "audio_played_ms": round(self._total_ms),
            **texts,
            "metadata": figures,
        }
        metadata = [self._session_metadata()] if self._is_closing else []
        return [wire(message), *metadata]

    def _session_metadata(self) -> str:
        return wire(
            {
                "type": "SessionMetadata",
                "total_audio_duration_ms": round(self._total_ms),
                "total_input_character_count": self._total_chars,
                "total_billable_character_count": self._total_chars,
            }
        )


def _applied(options: UtteranceOptions) -> str:
    applied = {} if options.speed is None else {"speed": options.speed}
    return wire({"type": "ConfigureSuccess", "applied": applied})
