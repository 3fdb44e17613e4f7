"""The client's errors carry their facts as attributes."""

from __future__ import annotations

import pytest

from gateway.client_errors import (
    ConnectionLostError,
    OverrunError,
    RefusedError,
    ServerError,
    SpeechClientError,
)


@pytest.mark.parametrize("kind", [RefusedError, ConnectionLostError, OverrunError])
def test_every_error_is_a_speech_client_error(kind: type[Exception]) -> None:
    assert issubclass(kind, SpeechClientError)


def test_a_server_error_shows_its_code_and_message_and_keeps_both_apart() -> None:
    error = ServerError("text_too_long", "text is 12,041 characters, at most 10,000", utterance="u1")
    assert isinstance(error, SpeechClientError)
    assert str(error) == "text_too_long: text is 12,041 characters, at most 10,000"
    assert (error.code, error.utterance, error.is_retryable) == ("text_too_long", "u1", False)
