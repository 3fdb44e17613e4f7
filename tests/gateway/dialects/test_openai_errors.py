"""OpenAI's error object."""

from __future__ import annotations

from gateway.dialects.openai_errors import ERRORS, error_fields
from gateway.errors import ErrorCode


def test_every_code_has_a_type_and_goes_along_itself() -> None:
    assert set(ERRORS) == set(ErrorCode)
    assert error_fields(ErrorCode.QUOTA, "too many") == {
        "message": "too many",
        "type": "rate_limit_error",
        "code": "quota",
        "param": None,
    }
