"""The Engine protocol: what the gateway sees of an engine, local or remote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from engine.speech import AudioChunk, ModelInfo, Segment, SpeechRequest
from engine.timeline import Timeline

if TYPE_CHECKING:
    from engine.voice_store import VoiceLibrary


class SpeechStream(Protocol):
    """One utterance being spoken. Iterate it for its chunks: the iterator ends after the final chunk or a cancel, and
    raises engine.errors.SpeechFailedError where synthesis failed. Not reading it is back-pressure: at most the engine's
    `max_unread_s` of audio is made ahead of the reader."""

    def feed(self, segment: Segment) -> None:
        """Append a segment. Raises TooLongError where it is more than this model can ever speak at once."""
        ...

    def finish(self) -> None:
        """No more segments: the chunk that ends the last one is final."""
        ...

    def cancel(self, heard_samples: int, heard_chars: int) -> None:
        """Stop at once. The context keeps what was heard: `heard_samples` engine samples of this utterance, whose text
        is its input before `heard_chars`. Valid also after the final chunk (the listener may have heard less)."""
        ...

    @property
    def timeline(self) -> Timeline:
        """Its marks: queued, planned, first_chunk, generated."""
        ...

    def __aiter__(self) -> AsyncIterator[AudioChunk]: ...


class EngineSession(Protocol):
    """One conversation: its lanes' growing contexts. Of lanes with nothing to speak only a few keep theirs."""

    def open_stream(self, request: SpeechRequest, lane: str = "main") -> SpeechStream:
        """Start an utterance behind those of the same lane; its audio comes after theirs.
        Raises VoiceNotFoundError or CapacityError."""
        ...

    def close(self) -> None:
        """Cancel everything and free the contexts. Idempotent."""
        ...


class Engine(Protocol):
    """A loaded model with its loop."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def is_healthy(self) -> bool:
        """False once the loop or the model thread has died; streams then fail with SpeechFailedError."""
        ...

    @property
    def voices(self) -> VoiceLibrary | None:
        """The cloned voices; None where the model cannot clone. Its methods may take seconds: call them on a thread."""
        ...

    def forget_voice(self, voice: str) -> None:
        """A voice has been deleted: drop what was kept of its prompt, now or with the utterances that speak with it."""
        ...

    async def start(self) -> None:
        """Warm the model up and start the loop."""
        ...

    def open_session(self, session_id: str) -> EngineSession: ...

    async def close(self) -> None:
        """Stop the loop, cancel all, release the model. Idempotent."""
        ...
