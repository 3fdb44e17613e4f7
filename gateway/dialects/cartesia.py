"""Cartesia's `/tts/websocket`: contexts named by the client, every option repeated in every message.

What its clients need: the context's id in every frame, `done` once and never beside data, errors with `done: false`
(one takes an error with `done: true` for a normal end), words exactly as received, times from the context's start.
A message with `max_buffer_delay_ms: 0` is a whole segment; others are appended verbatim.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from gateway.audio.silence import short_silence
from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.cartesia_frames import chunk_fields, error_fields, words_fields
from gateway.dialects.cartesia_options import read_generation
from gateway.dialects.json_fields import Fields, read_fields, wire
from gateway.dialects.lane_pool import LanePool
from gateway.dialects.remarks import RemarksMade
from gateway.errors import ClientError, ErrorCode
from gateway.events import (
    Audio,
    Cancel,
    Cancelled,
    ClientEvent,
    Done,
    EndText,
    Failed,
    Flush,
    Flushed,
    OpenUtterance,
    ServerEvent,
    TextFragment,
    Words,
)

MAX_CANCELLED: Final = 1024
MAX_CONTEXTS: Final = 1024
"""Contexts whose end has not been written; a client that does not read gets no more of them."""


@dataclass(slots=True)
class _Context:
    """What the dialect remembers of a live context."""

    last_character: str = " "
    flush_id: int = 0
    has_ended: bool = False
    silence: bytes = b""
    """What stands for a transcript with nothing to speak; empty while there is no transcript."""
    format: tuple[str, int] = ("pcm_s16le", 24000)


class CartesiaDialect:
    """One connection."""

    subprotocol = None

    def __init__(self, handshake: Handshake, server: ServerFacts) -> None:
        self._server = server
        self._contexts: dict[str, _Context] = {}
        self._cancelled: OrderedDict[str, None] = OrderedDict()
        """Ids of which late text is not to be spoken any more; a finished id may be used again."""
        self._lanes = LanePool()
        self._remarks = RemarksMade()

    def begin(self) -> list[ClientEvent]:
        return []

    # ---- receive -----------------------------------------------------------------------------------------------------

    def receive(self, message: str | bytes) -> list[ClientEvent]:
        fields = read_fields(message, self._server.limits.message_bytes)
        context_id = fields.identifier("context_id")
        if context_id is None:
            raise ClientError(ErrorCode.MISSING_FIELD, "field context_id is missing")
        try:
            return self._receive(context_id, fields)
        except ClientError as error:
            error.utterance = context_id
            raise

    def _receive(self, context_id: str, fields: Fields) -> list[ClientEvent]:
        if fields.flag("cancel"):
            return self._cancel(context_id)
        transcript, goes_on, is_flush = fields.text("transcript") or "", fields.flag("continue"), fields.flag("flush")
        is_segment, has_flush_id = fields.number("max_buffer_delay_ms") == 0, is_flush
        context = self._contexts.get(context_id)
        events: list[ClientEvent] = []
        if context is None:
            if context_id in self._cancelled:
                return []
            events += self._open(context_id, fields)
            context = self._contexts[context_id]
        if context.has_ended:
            raise ClientError(ErrorCode.UTTERANCE_ENDED, f"context {context_id!r} takes no transcript after its end")
        if transcript.strip():
            if is_segment and not context.last_character.isspace() and not transcript[0].isspace():
                transcript = f" {transcript}"
            context.last_character = transcript[-1]
            context.silence = short_silence(*context.format)
            events.append(TextFragment(context_id, transcript))
            is_flush = is_flush or is_segment
        elif transcript:
            context.last_character = transcript[-1]
            events.append(TextFragment(context_id, transcript))
        if is_flush and goes_on:
            context.flush_id += 1
            events.append(Flush(context_id, context.flush_id if has_flush_id else None))
        if not goes_on:
            context.has_ended = True
            events.append(EndText(context_id))
        return events

    def _open(self, context_id: str, fields: Fields) -> list[ClientEvent]:
        if len(self._contexts) >= MAX_CONTEXTS:
            raise ClientError(
                ErrorCode.TOO_MANY_UTTERANCES, f"the ends of {MAX_CONTEXTS:,} contexts wait to be read, the most"
            )
        order = read_generation(fields, self._server, is_raw_only=True)
        options = order.options
        audio_format = (options.format or "pcm_s16le", options.sample_rate_hz or 24000)
        self._contexts[context_id] = _Context(format=audio_format)
        events: list[ClientEvent] = [
            OpenUtterance(context_id, self._lanes.take(context_id), order.options, has_words=order.has_words)
        ]
        events += self._remarks.new(order.remarks)
        if order.opening_tags:
            events.append(TextFragment(context_id, order.opening_tags))
        return events

    def _cancel(self, context_id: str) -> list[ClientEvent]:
        if context_id not in self._contexts:
            return []  # over already, or never heard of: there is nothing to stop
        self._cancelled[context_id] = None
        if len(self._cancelled) > MAX_CANCELLED:
            self._cancelled.popitem(last=False)
        return [Cancel(context_id)]

    # ---- send --------------------------------------------------------------------------------------------------------

    def send(self, event: ServerEvent) -> list[str | bytes]:
        match event:
            case Audio() if event.payload:
                return [wire({**chunk_fields(event), "context_id": event.utterance})]
            case Words():
                return [wire({**words_fields(event), "context_id": event.utterance})]
            case Flushed() if event.id is not None:
                return [
                    _frame(event.utterance, "flush_done", done=False, status=206, flush_done=True, flush_id=event.id)
                ]
            case Done():
                return [*self._quiet(event), *self._end(event.utterance)]
            case Cancelled() if not event.after_done:
                return self._end(event.utterance)
            case Failed():
                return self._failed(event)
            case _:
                return []

    def _quiet(self, event: Done) -> list[str | bytes]:
        """A little silence for a transcript with nothing to speak: Pipecat gives up on a service after three such."""
        context = self._contexts.get(event.utterance)
        if context is None or not context.silence or event.audio_samples or event.reason == "error":
            return []
        audio = Audio(event.utterance, 0, 0, 0, context.silence, event.sample_rate_hz)
        return [wire({**chunk_fields(audio), "context_id": event.utterance})]

    def _end(self, context_id: str) -> list[str | bytes]:
        if self._contexts.pop(context_id, None) is None:
            return []
        self._lanes.release(context_id)
        return [_frame(context_id, "done", done=True, status=200)]

    def _failed(self, event: Failed) -> list[str | bytes]:
        frame = wire({**error_fields(event), "context_id": event.utterance or ""})
        if event.utterance is None or not event.ends_utterance:
            return [frame]
        return [frame, *self._end(event.utterance)]


def _frame(context_id: str, kind: str, *, done: bool, status: int, **fields: Any) -> str:
    return wire({"type": kind, "done": done, "status_code": status, **fields, "context_id": context_id})
