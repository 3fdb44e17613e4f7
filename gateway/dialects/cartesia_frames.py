"""Cartesia's frames that its WebSocket and its event stream share, without the context's id."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from gateway.errors import ErrorCode
from gateway.events import Audio, Failed, Words

ERRORS: Final[Mapping[ErrorCode, tuple[int, str]]] = {
    ErrorCode.BAD_MESSAGE: (400, "invalid_request"),
    ErrorCode.UNKNOWN_TYPE: (400, "invalid_request"),
    ErrorCode.UNKNOWN_FIELD: (400, "invalid_request"),
    ErrorCode.MISSING_FIELD: (400, "invalid_request"),
    ErrorCode.BAD_VALUE: (400, "invalid_request"),
    ErrorCode.UNKNOWN_UTTERANCE: (404, "context_not_found"),
    ErrorCode.UTTERANCE_EXISTS: (409, "context_exists"),
    ErrorCode.UTTERANCE_ENDED: (409, "context_ended"),
    ErrorCode.TEXT_TOO_LONG: (413, "transcript_too_long"),
    ErrorCode.MESSAGE_TOO_BIG: (413, "message_too_big"),
    ErrorCode.TOO_MANY_UTTERANCES: (429, "concurrency_limited"),
    ErrorCode.VOICE_NOT_FOUND: (404, "voice_not_found"),
    ErrorCode.FORMAT_UNSUPPORTED: (400, "output_format_unsupported"),
    ErrorCode.RATE_UNSUPPORTED: (400, "output_format_unsupported"),
    ErrorCode.CAPACITY: (503, "service_unavailable"),
    ErrorCode.QUOTA: (429, "quota_exceeded"),
    ErrorCode.IDLE_TIMEOUT: (408, "idle_timeout"),
    ErrorCode.RESUME_UNKNOWN: (400, "invalid_request"),
    ErrorCode.RESUME_GAP: (400, "invalid_request"),
    ErrorCode.DRAINING: (503, "service_unavailable"),
    ErrorCode.ENGINE_FAILED: (500, "internal_error"),
    ErrorCode.INTERNAL: (500, "internal_error"),
}
"""Our code -> the vendor's `status_code` and `error_code`."""


def chunk_fields(event: Audio) -> dict[str, Any]:
    return {
        "type": "chunk",
        "data": base64.b64encode(event.payload).decode("ascii"),
        "done": False,
        "status_code": 206,
        "step_time": 0.0,
    }


def words_fields(event: Words) -> dict[str, Any]:
    """Words as they were received, with the marks that close them; seconds from the context's start."""
    return {
        "type": "timestamps",
        "word_timestamps": {
            "words": [word.text + word.closing for word in event.words],
            "start": [round(word.start_sample / event.sample_rate_hz, 4) for word in event.words],
            "end": [round(word.end_sample / event.sample_rate_hz, 4) for word in event.words],
        },
        "done": False,
        "status_code": 206,
    }


def error_fields(event: Failed) -> dict[str, Any]:
    status, code = ERRORS[event.code]
    return {
        "type": "error",
        "title": code.replace("_", " ").capitalize(),
        "message": event.message,
        "error": event.message,
        "error_code": code,
        "status_code": status,
        "done": False,
    }
