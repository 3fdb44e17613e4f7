"""What a peer can be told went wrong.

ClientError             the peer's fault: a code of the wire and a sentence with the value and the limit
└── HandshakeError      refused before the upgrade: carries the HTTP status
"""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    """Every error a client can see. Each dialect has a wire form for each (a test holds them to it)."""

    BAD_MESSAGE = "bad_message"
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_FIELD = "unknown_field"
    MISSING_FIELD = "missing_field"
    BAD_VALUE = "bad_value"
    UNKNOWN_UTTERANCE = "unknown_utterance"
    UTTERANCE_EXISTS = "utterance_exists"
    UTTERANCE_ENDED = "utterance_ended"
    TEXT_TOO_LONG = "text_too_long"
    MESSAGE_TOO_BIG = "message_too_big"
    TOO_MANY_UTTERANCES = "too_many_utterances"
    VOICE_NOT_FOUND = "voice_not_found"
    FORMAT_UNSUPPORTED = "format_unsupported"
    RATE_UNSUPPORTED = "rate_unsupported"
    CAPACITY = "capacity"
    QUOTA = "quota"
    IDLE_TIMEOUT = "idle_timeout"
    RESUME_UNKNOWN = "resume_unknown"
    RESUME_GAP = "resume_gap"
    DRAINING = "draining"
    ENGINE_FAILED = "engine_failed"
    INTERNAL = "internal"


class WarningCode(StrEnum):
    """What a client is told without anything having failed."""

    UNKNOWN_TAG = "unknown_tag"
    TAG_APPROXIMATED = "tag_approximated"
    TAG_UNSUPPORTED = "tag_unsupported"
    UNSUPPORTED_LANGUAGE = "unsupported_language"
    PARAMETER_IGNORED = "parameter_ignored"
    NOTHING_TO_CANCEL = "nothing_to_cancel"
    PLAYED_CLAMPED = "played_clamped"
    SPEECH_TRUNCATED = "speech_truncated"
    VOICE_SUBSTITUTED = "voice_substituted"
    """A vendor's voice name that is not known here: the default voice speaks."""
    MODEL_SUBSTITUTED = "model_substituted"
    """A vendor's model name that is not known here: the loaded model speaks."""


RETRYABLE = frozenset({ErrorCode.CAPACITY, ErrorCode.QUOTA, ErrorCode.DRAINING, ErrorCode.ENGINE_FAILED})
"""Codes after which the same request may succeed later."""


SUBSTITUTIONS = frozenset({WarningCode.VOICE_SUBSTITUTED, WarningCode.MODEL_SUBSTITUTED})
"""Warnings that concern the operator too: a name to add to the settings' table."""


class ClientError(Exception):
    """The peer did something that cannot be done. One message fails; the session lives on."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        utterance: str | None = None,
        retry_after_s: float | None = None,
        is_refused_open: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.utterance = utterance
        self.retry_after_s = retry_after_s
        self.is_refused_open = is_refused_open
        """`utterance` was to be opened by this message: its id stays closed until it is opened again."""

    @property
    def is_retryable(self) -> bool:
        return self.code in RETRYABLE


class HandshakeError(ClientError):
    """A connection refused before its upgrade was accepted."""

    def __init__(
        self,
        status: int,
        code: ErrorCode,
        message: str,
        *,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(code, message, retry_after_s=retry_after_s)
        self.status = status
