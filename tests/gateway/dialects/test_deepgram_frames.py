"""Deepgram's errors and warnings."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.deepgram_frames import error_message, handshake_error, warning, warning_message
from gateway.errors import ClientError, ErrorCode, WarningCode
from gateway.events import Failed, Warned


def test_an_error_has_the_vendors_code_and_both_spellings_of_the_sentence() -> None:
    error = json.loads(error_message(Failed(ErrorCode.BAD_MESSAGE, "why")))
    assert error == {"type": "Error", "description": "why", "message": "why", "code": "DATA-0000"}


def test_a_warning_fills_what_the_frameworks_log() -> None:
    told = json.loads(warning(Warned(WarningCode.UNKNOWN_TAG, "why")))
    assert told == {"type": "Warning", "description": "why", "code": "UNKNOWN_TAG", "warn_msg": "why"}
    assert json.loads(warning_message("NO_ACTIVE_SPEECH", "why"))["code"] == "NO_ACTIVE_SPEECH"


@pytest.mark.parametrize(("code", "status"), [(ErrorCode.VOICE_NOT_FOUND, 404), (ErrorCode.BAD_VALUE, 400)])
def test_an_url_is_refused_with_a_status(code: ErrorCode, status: int) -> None:
    assert handshake_error(ClientError(code, "why")).status == status
