"""What the client of the native dialect raises.

SpeechClientError
├── RefusedError          no connection: the HTTP status, and the server's code and message
├── ConnectionLostError   the connection ended: the close code
├── ServerError           an `error` message: code, message, utterance
└── OverrunError          an utterance's audio was not read for so long that its buffer is full
"""

from __future__ import annotations


class SpeechClientError(Exception):
    """Root of what this client raises."""


class RefusedError(SpeechClientError):
    """The server refused the connection, or there was none; `status`: the HTTP status, None where nothing answered."""

    def __init__(
        self, message: str, *, status: int | None = None, code: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s


class ConnectionLostError(SpeechClientError):
    """The connection ended; `code` is the WebSocket close code, None where there was no close frame."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class ServerError(SpeechClientError):
    """The server answered `error` (or, to a cancel, that there was nothing to cancel)."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        utterance: str | None = None,
        is_retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.utterance = utterance
        self.is_retryable = is_retryable
        self.retry_after_s = retry_after_s


class OverrunError(SpeechClientError):
    """An utterance's audio was not read and its buffer is full."""
