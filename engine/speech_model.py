"""SpeechModel: what a family provides to the engine. Everything but `prepare*` runs on the model thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from engine.core.step import ModelSpec, PreparedPrompt, PreparedText, StepPlan, StepResult
from engine.speech import ModelInfo, Segment, SpeechRequest

if TYPE_CHECKING:
    from engine.voice_store import VoiceLibrary


class SpeechModel(Protocol):
    """One loaded model. Construction loads it; nothing else may block for long but `execute` and `warm_up`."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def spec(self) -> ModelSpec: ...

    def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
        """Tokenise, on the event loop: at most about a millisecond. Costlier work belongs into `execute`."""
        ...

    def prepare_prompt(self, request: SpeechRequest) -> PreparedPrompt:
        """The voice's prompt; 0 tokens where the family has none. Raises VoiceNotFoundError where there is no such
        voice."""
        ...

    def warm_up(self) -> None:
        """Do everything slow that a first request would otherwise pay for."""
        ...

    def execute(self, plan: StepPlan) -> StepResult:
        """Carry the plan out. Raises only where nothing of it can be trusted; one sequence's trouble is a failure.
        Where ModelSpec.max_plans is more than 1, so many are carried out at once, each on a thread of its own."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class DozingModel(Protocol):
    """What a SpeechModel has besides whose first step after a rest is slow, because its weights have left the caches
    (or, on a virtual machine, the memory)."""

    def rouse(self) -> None:
        """Touch what a step needs, in a few milliseconds; on a model thread, beside `execute`."""
        ...


@runtime_checkable
class CloningModel(Protocol):
    """What a SpeechModel that can clone voices has besides."""

    @property
    def voices(self) -> VoiceLibrary | None:
        """None where it was loaded without a place to keep them."""
        ...
