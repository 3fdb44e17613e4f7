"""OpenAI's errors, the same in its speech endpoint and its realtime socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.errors import ErrorCode

ERRORS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.BAD_MESSAGE: "invalid_request_error",
    ErrorCode.UNKNOWN_TYPE: "invalid_request_error",
    ErrorCode.UNKNOWN_FIELD: "invalid_request_error",
    ErrorCode.MISSING_FIELD: "invalid_request_error",
    ErrorCode.BAD_VALUE: "invalid_request_error",
    ErrorCode.UNKNOWN_UTTERANCE: "invalid_request_error",
    ErrorCode.UTTERANCE_EXISTS: "invalid_request_error",
    ErrorCode.UTTERANCE_ENDED: "invalid_request_error",
    ErrorCode.TEXT_TOO_LONG: "invalid_request_error",
    ErrorCode.MESSAGE_TOO_BIG: "invalid_request_error",
    ErrorCode.TOO_MANY_UTTERANCES: "rate_limit_error",
    ErrorCode.VOICE_NOT_FOUND: "invalid_request_error",
    ErrorCode.FORMAT_UNSUPPORTED: "invalid_request_error",
    ErrorCode.RATE_UNSUPPORTED: "invalid_request_error",
    ErrorCode.CAPACITY: "server_error",
    ErrorCode.QUOTA: "rate_limit_error",
    ErrorCode.IDLE_TIMEOUT: "server_error",
    ErrorCode.RESUME_UNKNOWN: "invalid_request_error",
    ErrorCode.RESUME_GAP: "invalid_request_error",
    ErrorCode.DRAINING: "server_error",
    ErrorCode.ENGINE_FAILED: "server_error",
    ErrorCode.INTERNAL: "server_error",
}
"""Our code -> the API's error type; the code itself goes along as `code`."""
BAD_KEY: Final = "invalid_api_key"
"""The `code` of any 401."""


def error_fields(code: ErrorCode, message: str) -> dict[str, Any]:
    """The API's error object."""
    return {"message": message, "type": ERRORS[code], "code": code.value, "param": None}
