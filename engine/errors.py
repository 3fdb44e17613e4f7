"""Errors of the engine.

EngineError
├── ModelLoadError      the model cannot be loaded: what is missing, and what to do
├── CapacityError       no room now; carries retry_after_s
├── TooLongError        a segment that can never fit, whoever else is there
├── VoiceNotFoundError  no such voice; carries the ones there are
└── SpeechFailedError   an utterance failed in synthesis; the engine lives on
"""

from __future__ import annotations


class EngineError(Exception):
    """Root of everything the engine raises on purpose."""


class ModelLoadError(EngineError):
    """The model cannot be loaded."""


class CapacityError(EngineError):
    """No room for another sequence or its pages."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TooLongError(EngineError):
    """A segment needs more than there is while this model is loaded; the message names both figures."""


class VoiceNotFoundError(EngineError):
    """The model has no such voice."""

    def __init__(self, voice: str, known: tuple[str, ...]) -> None:
        super().__init__(f"voice {voice!r} is not known; known voices: {', '.join(known)}")
        self.voice = voice
        self.known = known


class SpeechFailedError(EngineError):
    """Synthesis of one utterance failed."""
