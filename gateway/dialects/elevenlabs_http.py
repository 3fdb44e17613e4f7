"""ElevenLabs over HTTP: text-to-speech whole, streamed, and with timestamps; the voices list."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from engine.speech import VoiceInfo
from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.elevenlabs_alignment import Alignment
from gateway.dialects.elevenlabs_options import read_options, read_output_format
from gateway.dialects.http_speech import AudioBody, AudioEncoder, Body, SpeechOrder, base64_text
from gateway.dialects.json_fields import Fields, wire
from gateway.errors import ErrorCode
from gateway.events import Audio, Done, Failed, Words

ERRORS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.BAD_MESSAGE: "invalid_request",
    ErrorCode.UNKNOWN_TYPE: "invalid_request",
    ErrorCode.UNKNOWN_FIELD: "invalid_request",
    ErrorCode.MISSING_FIELD: "invalid_request",
    ErrorCode.BAD_VALUE: "invalid_request",
    ErrorCode.UNKNOWN_UTTERANCE: "invalid_request",
    ErrorCode.UTTERANCE_EXISTS: "invalid_request",
    ErrorCode.UTTERANCE_ENDED: "invalid_request",
    ErrorCode.TEXT_TOO_LONG: "max_character_limit_exceeded",
    ErrorCode.MESSAGE_TOO_BIG: "max_character_limit_exceeded",
    ErrorCode.TOO_MANY_UTTERANCES: "too_many_concurrent_requests",
    ErrorCode.VOICE_NOT_FOUND: "voice_not_found",
    ErrorCode.FORMAT_UNSUPPORTED: "output_format_not_allowed",
    ErrorCode.RATE_UNSUPPORTED: "output_format_not_allowed",
    ErrorCode.CAPACITY: "system_busy",
    ErrorCode.QUOTA: "too_many_concurrent_requests",
    ErrorCode.IDLE_TIMEOUT: "internal_error",
    ErrorCode.RESUME_UNKNOWN: "invalid_request",
    ErrorCode.RESUME_GAP: "invalid_request",
    ErrorCode.DRAINING: "system_busy",
    ErrorCode.ENGINE_FAILED: "internal_error",
    ErrorCode.INTERNAL: "internal_error",
}
"""Our code -> the vendor's `detail.status`."""
BAD_KEY: Final = "invalid_api_key"
"""The same for any 401."""


def read_order(handshake: Handshake, server: ServerFacts, fields: Fields) -> SpeechOrder:
    """The body of all three endpoints; `with-timestamps` in the path asks for JSON lines."""
    text = fields.require("text")
    output = read_output_format(handshake.query.get("output_format"))
    named = server.names.voice(handshake.path_params.get("voice_id"), server.model)
    model = server.names.model(fields.text("model_id"), server.model)
    options, remark = read_options(
        output,
        named.value,
        fields.text("language_code"),
        fields.integer("seed"),
        fields.fields("voice_settings"),
        server,
    )
    encoder = AudioEncoder(output.format, output.sample_rate_hz, output.container)
    body: Body = AudioBody(encoder)
    if handshake.path.endswith("/with-timestamps"):
        body = _TimestampBody(encoder, handshake.path.endswith("/stream/with-timestamps"))
    return SpeechOrder(text, options, body, tuple(note for note in (named.remark, model, remark) if note is not None))


@dataclass(slots=True)
class _TimestampBody:
    """Lines of JSON with base64 audio and characters, or one such object for the endpoint that does not stream."""

    encoder: AudioEncoder
    is_streamed: bool
    alignment: Alignment = field(default_factory=lambda: Alignment(is_absolute=True))
    held: bytearray = field(default_factory=bytearray)
    """The one object's audio, in base64 as it will leave."""
    carry: bytes = b""
    """Bytes at its end that are no whole group of three yet."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("content-type", "application/json"),)

    def audio(self, event: Audio) -> bytes:
        payload = self.encoder.encode(event.payload)
        if not self.is_streamed:
            self._hold(payload)
            return b""
        return self._line(payload) if payload else b""

    def words(self, event: Words) -> bytes:
        self.alignment.add(event)
        return b""

    def done(self, event: Done) -> bytes:
        rest = self.encoder.finish()
        if self.is_streamed:
            return self._line(rest)
        self._hold(rest)
        self.held += base64.b64encode(self.carry)
        fields = wire(self._fields()).encode()
        return b"".join((b'{"audio_base64":"', self.held, b'",', fields[1:], b"\n"))

    def failed(self, event: Failed) -> bytes | None:
        return None

    def _hold(self, payload: bytes) -> None:
        data = self.carry + payload
        whole = len(data) - len(data) % 3
        self.held += base64.b64encode(data[:whole])
        self.carry = data[whole:]

    def _line(self, payload: bytes) -> bytes:
        fields = self._fields()
        if not payload and fields["alignment"] is None:
            return b""
        return wire({"audio_base64": base64_text(payload), **fields}).encode() + b"\n"

    def _fields(self) -> dict[str, Any]:
        taken = self.alignment.take()
        alignment: dict[str, Any] | None = None
        if taken is not None:
            characters, starts_ms, durations_ms = taken
            alignment = {
                "characters": characters,
                "character_start_times_seconds": [start / 1000 for start in starts_ms],
                "character_end_times_seconds": [
                    (start + duration) / 1000 for start, duration in zip(starts_ms, durations_ms, strict=True)
                ],
            }
        return {"alignment": alignment, "normalized_alignment": alignment}


def error_body(event: Failed, status: int) -> dict[str, Any]:
    return {"detail": {"status": BAD_KEY if status == 401 else ERRORS[event.code], "message": event.message}}


def voices(server: ServerFacts) -> dict[str, Any]:
    """`GET /v1/voices` and `/v2/voices`."""
    listed = [voice(known) for known in server.model.voices]
    return {"voices": listed, "has_more": False, "total_count": len(listed), "next_page_token": None}


def voice(info: VoiceInfo) -> dict[str, Any]:
    """`GET /v1/voices/{voice_id}`."""
    return {
        "voice_id": info.id,
        "name": info.name,
        "category": "premade",
        "labels": {"language": info.language},
        "description": info.description,
        "preview_url": None,
        "available_for_tiers": [],
        "settings": None,
        "high_quality_base_model_ids": [],
    }
