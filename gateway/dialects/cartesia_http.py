"""Cartesia over HTTP: `/tts/bytes` and `/tts/sse`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.cartesia_frames import chunk_fields, error_fields, words_fields
from gateway.dialects.cartesia_options import read_generation
from gateway.dialects.http_speech import AudioBody, AudioEncoder, Body, SpeechOrder, server_sent_event
from gateway.dialects.json_fields import Fields
from gateway.events import Audio, Done, Failed, Words


def read_order(handshake: Handshake, server: ServerFacts, fields: Fields) -> SpeechOrder:
    """The body of both endpoints, which differ in how they answer."""
    is_event_stream = handshake.path.endswith("/sse")
    order = read_generation(fields, server, is_raw_only=is_event_stream)
    options = order.options
    body: Body
    if is_event_stream:
        body = _EventBody(fields.identifier("context_id"), order.has_words)
    else:
        body = AudioBody(AudioEncoder(options.format or "pcm_s16le", options.sample_rate_hz or 0, order.container))
    return SpeechOrder(order.opening_tags + fields.require("transcript"), options, body, order.remarks)


@dataclass(frozen=True, slots=True)
class _EventBody:
    """The WebSocket's frames as an event stream."""

    context_id: str | None
    has_words: bool

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("content-type", "text/event-stream"), ("cache-control", "no-cache"))

    def audio(self, event: Audio) -> bytes:
        return self._event(chunk_fields(event)) if event.payload else b""

    def words(self, event: Words) -> bytes:
        return self._event(words_fields(event)) if self.has_words else b""

    def done(self, event: Done) -> bytes:
        return self._event({"type": "done", "done": True, "status_code": 200})

    def failed(self, event: Failed) -> bytes | None:
        return self._event(error_fields(event))

    def _event(self, data: dict[str, Any]) -> bytes:
        named = {} if self.context_id is None else {"context_id": self.context_id}
        return server_sent_event({**data, **named}, str(data["type"]))


def error_body(event: Failed, status: int) -> dict[str, Any]:
    fields = {**error_fields(event), "status_code": status}
    return {**fields, "error_code": "unauthorized", "title": "Unauthorized"} if status == 401 else fields
