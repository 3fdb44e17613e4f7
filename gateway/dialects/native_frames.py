"""What the native dialect's server says: every event but audio as the map that goes on the wire, without its seq."""

from __future__ import annotations

from typing import Any

from gateway.events import (
    Audio,
    Cancelled,
    Done,
    Failed,
    Flushed,
    Pong,
    Ready,
    Resumed,
    ServerEvent,
    Started,
    Warned,
    Words,
)


def message_of(event: ServerEvent) -> dict[str, Any]:
    match event:
        case Ready():
            return {
                "type": "ready",
                "session": event.session,
                "resume_token": event.resume_token,
                "model": event.model.name,
                "voices": [voice.id for voice in event.model.voices],
                "default_voice": event.model.default_voice,
                "formats": list(event.formats),
                "sample_rate_hz": event.sample_rate_hz,
                "limits": {
                    "message_bytes": event.limits.message_bytes,
                    "utterance_chars": event.limits.utterance_chars,
                    "utterances": event.limits.utterances,
                    "idle_s": event.limits.idle_s,
                    "utterance_idle_s": event.limits.utterance_idle_s,
                    "resume_ms": round(event.limits.resume_s * 1000),
                },
                "version": event.version,
            }
        case Started():
            return _without_none(
                {
                    "type": "started",
                    "utterance": event.utterance,
                    "number": event.number,
                    "voice": event.voice,
                    "format": event.format,
                    "sample_rate_hz": event.sample_rate_hz,
                    "seed": event.seed,
                    "word_timing": event.word_timing,
                    "pre_skip_samples": event.pre_skip_samples,
                }
            )
        case Words():
            return {
                "type": "words",
                "utterance": event.utterance,
                "words": [
                    {
                        "text": word.text,
                        "start_char": word.start_char,
                        "end_char": word.end_char,
                        "start_ms": _ms(word.start_sample, event.sample_rate_hz),
                        "end_ms": _ms(word.end_sample, event.sample_rate_hz),
                    }
                    for word in event.words
                ],
            }
        case Flushed():
            return _without_none({"type": "flushed", "utterance": event.utterance, "id": event.id})
        case Done():
            return {
                "type": "done",
                "utterance": event.utterance,
                "reason": event.reason,
                "audio_ms": _ms(event.audio_samples, event.sample_rate_hz),
                "audio_samples": event.audio_samples,
                "chars": event.chars,
                "metrics": {
                    "queue_ms": round(event.metrics.queue_s * 1000, 3),
                    "first_audio_ms": None
                    if event.metrics.first_audio_s is None
                    else round(event.metrics.first_audio_s * 1000, 3),
                    "generation_ms": round(event.metrics.generation_s * 1000, 3),
                    "segments": event.metrics.segments,
                },
            }
        case Cancelled():
            return {
                "type": "cancelled",
                "utterance": event.utterance,
                "after_done": event.after_done,
                "sent_ms": _ms(event.sent_samples, event.sample_rate_hz),
                "played_ms": _ms(event.played_samples, event.sample_rate_hz),
                "played_source": event.played_source,
                "spoken_text": event.spoken_text,
                "spoken_chars": len(event.spoken_text),
                "remaining_text": event.remaining_text,
            }
        case Warned():
            return _without_none(
                {
                    "type": "warning",
                    "code": event.code.value,
                    "message": event.message,
                    "utterance": event.utterance,
                    "detail": event.detail,
                }
            )
        case Failed():
            return error_fields(event)
        case Resumed():
            return {
                "type": "resumed",
                "session": event.session,
                "utterances": [
                    {"utterance": kept.utterance, "received_chars": kept.received_chars, "ended": kept.is_ended}
                    for kept in event.utterances
                ],
            }
        case Pong():
            return _without_none({"type": "pong", "id": event.id})
        case Audio():  # the dialect itself encodes it, and numbers its header
            raise AssertionError("audio has its own encoding")


def error_fields(event: Failed) -> dict[str, Any]:
    return _without_none(
        {
            "type": "error",
            "code": event.code.value,
            "message": event.message,
            "utterance": event.utterance,
            "retryable": event.is_retryable,
            "retry_after_s": event.retry_after_s,
        }
    )


def error_body(event: Failed, status: int) -> dict[str, Any]:
    """A refused request's, which is the message of the socket."""
    return error_fields(event)


def _ms(samples: int, sample_rate_hz: int) -> float:
    return round(samples * 1000 / sample_rate_hz, 3)


def _without_none(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if value is not None}
