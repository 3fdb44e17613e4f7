"""Deepgram's errors and warnings, the same in its WebSockets and its HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.dialects.json_fields import wire
from gateway.errors import ClientError, ErrorCode, HandshakeError
from gateway.events import Failed, Warned

ERRORS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.BAD_MESSAGE: "DATA-0000",
    ErrorCode.UNKNOWN_TYPE: "MESSAGE-0000",
    ErrorCode.UNKNOWN_FIELD: "MESSAGE-0000",
    ErrorCode.MISSING_FIELD: "MESSAGE-0000",
    ErrorCode.BAD_VALUE: "MESSAGE-0000",
    ErrorCode.UNKNOWN_UTTERANCE: "MESSAGE-0000",
    ErrorCode.UTTERANCE_EXISTS: "MESSAGE-0000",
    ErrorCode.UTTERANCE_ENDED: "MESSAGE-0000",
    ErrorCode.TEXT_TOO_LONG: "BIG-0000",
    ErrorCode.MESSAGE_TOO_BIG: "BIG-0000",
    ErrorCode.TOO_MANY_UTTERANCES: "NET-0002",
    ErrorCode.VOICE_NOT_FOUND: "DATA-0002",
    ErrorCode.FORMAT_UNSUPPORTED: "DATA-0002",
    ErrorCode.RATE_UNSUPPORTED: "DATA-0002",
    ErrorCode.CAPACITY: "NET-0002",
    ErrorCode.QUOTA: "NET-0002",
    ErrorCode.IDLE_TIMEOUT: "NET-0001",
    ErrorCode.RESUME_UNKNOWN: "MESSAGE-0000",
    ErrorCode.RESUME_GAP: "MESSAGE-0000",
    ErrorCode.DRAINING: "NET-0003",
    ErrorCode.ENGINE_FAILED: "NET-0004",
    ErrorCode.INTERNAL: "NET-0000",
}
"""Our code -> the vendor's."""


def handshake_error(error: ClientError) -> HandshakeError:
    """A URL that asks for what cannot be done."""
    return HandshakeError(404 if error.code is ErrorCode.VOICE_NOT_FOUND else 400, error.code, error.message)


def error_message(event: Failed) -> str:
    fields: dict[str, Any] = {"type": "Error", "description": event.message, "message": event.message}
    return wire({**fields, "code": ERRORS[event.code]})


def warning(event: Warned) -> str:
    return warning_message(event.code.value.upper(), event.message)


def warning_message(code: str, text: str) -> str:
    return wire({"type": "Warning", "description": text, "code": code, "warn_msg": text})
