"""OpenAI's `POST /v1/audio/speech`, and the lists of models and voices that its clients ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gateway.audio.containers import Container, check_container
from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.http_speech import (
    AudioBody,
    AudioEncoder,
    Body,
    SpeechOrder,
    base64_text,
    server_sent_event,
)
from gateway.dialects.json_fields import Fields
from gateway.dialects.openai_errors import BAD_KEY, error_fields
from gateway.dialects.remarks import speed_within_reach
from gateway.errors import ClientError, ErrorCode, WarningCode
from gateway.events import Audio, Done, Failed, Remark, UtteranceOptions, Words

RATE_HZ: Final = 24000
"""What `pcm` means to this API's clients; the files use it too."""
AUDIO_TOKENS_PER_S: Final = 20
DELTA_BYTES: Final = 48 * 1024
"""Of audio in one event: a file that comes whole is many of them."""

FORMATS: Final[dict[str, Container | None]] = {
    "mp3": "mp3",
    "opus": "ogg_opus",
    "aac": "aac",
    "flac": "flac",
    "wav": "wav",
    "pcm": None,
}
DEFAULT_FORMAT: Final = "mp3"


def read_order(handshake: Handshake, server: ServerFacts, fields: Fields) -> SpeechOrder:
    text = fields.require("input")
    voice = fields.raw("voice")
    named = server.names.voice(
        fields.fields("voice").text("id") if isinstance(voice, dict) else fields.text("voice"), server.model
    )
    wanted = fields.text("response_format") or DEFAULT_FORMAT
    if wanted not in FORMATS:
        raise ClientError(
            ErrorCode.FORMAT_UNSUPPORTED,
            f"response_format {wanted!r:.40} is not supported; supported: {', '.join(FORMATS)}",
        )
    container = FORMATS[wanted]
    if container is not None:
        check_container(container, RATE_HZ)
    encoder = AudioEncoder("pcm_s16le", RATE_HZ, container)
    stream_format = fields.text("stream_format") or "audio"
    if stream_format not in ("audio", "sse"):
        raise ClientError(ErrorCode.BAD_VALUE, f"stream_format is {stream_format!r:.40}, must be 'audio' or 'sse'")
    body: Body = AudioBody(encoder) if stream_format == "audio" else _EventBody(encoder, len(text))
    speed = speed_within_reach(fields.number("speed"))
    remarks = [named.remark, server.names.model(fields.text("model"), server.model), speed.remark]
    if fields.text("instructions"):
        remarks.append(
            Remark(
                WarningCode.PARAMETER_IGNORED,
                "instructions in prose are not followed; put tags into the text (docs/tags.md)",
                detail="instructions",
            )
        )
    return SpeechOrder(
        text,
        UtteranceOptions(
            voice=named.value,
            format="pcm_s16le",
            sample_rate_hz=RATE_HZ,
            speed=speed.value,
        ),
        body,
        tuple(remark for remark in remarks if remark is not None),
    )


@dataclass(frozen=True, slots=True)
class _EventBody:
    """`stream_format: sse`: base64 deltas, then one `speech.audio.done`. Token counts are estimates: four characters
    are a token of text, 50 ms a token of audio."""

    encoder: AudioEncoder
    input_chars: int

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("content-type", "text/event-stream"), ("cache-control", "no-cache"))

    def audio(self, event: Audio) -> bytes:
        return self._delta(self.encoder.encode(event.payload))

    def words(self, event: Words) -> bytes:
        return b""

    def done(self, event: Done) -> bytes:
        input_tokens = -(-self.input_chars // 4)
        output_tokens = round(event.audio_samples * AUDIO_TOKENS_PER_S / event.sample_rate_hz)
        usage = {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        }
        return self._delta(self.encoder.finish()) + server_sent_event({"type": "speech.audio.done", "usage": usage})

    def failed(self, event: Failed) -> bytes | None:
        return server_sent_event({"type": "error", **error_body(event, 500)})

    @staticmethod
    def _delta(payload: bytes) -> bytes:
        pieces = (payload[start : start + DELTA_BYTES] for start in range(0, len(payload), DELTA_BYTES))
        return b"".join(
            server_sent_event({"type": "speech.audio.delta", "audio": base64_text(piece)}) for piece in pieces
        )


def error_body(event: Failed, status: int) -> dict[str, Any]:
    fields = error_fields(event.code, event.message)
    return {"error": {**fields, "code": BAD_KEY} if status == 401 else fields}


def models(server: ServerFacts) -> dict[str, Any]:
    """`GET /v1/models`: the loaded model, and the names that stand for it."""
    names = [server.model.name, *(name for name, ours in server.names.models.items() if ours == server.model.name)]
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": 0, "owned_by": "antiphon"} for name in names],
    }


def voices(server: ServerFacts) -> dict[str, Any]:
    """`GET /v1/audio/voices`, which self-hosted servers have made a custom."""
    return {
        "voices": [{"id": voice.id, "name": voice.name, "language": voice.language} for voice in server.model.voices]
    }
