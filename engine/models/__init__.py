"""`load_model` is the only dispatch by a family's name; a family is imported when it is asked for, never before."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from engine.errors import ModelLoadError
from engine.speech_model import SpeechModel

MODEL_NAMES: Final[tuple[str, ...]] = ("hibari",)


def load_model(name: str, *, checkpoint: Path | None = None) -> SpeechModel:
    """Load the family `name` (seconds; blocks). `checkpoint` is a family's folder of weights, where it takes one.

    Raises engine.errors.ModelLoadError where the name is unknown or the model cannot be loaded.
    """
    if name == "hibari":
        from engine.models.hibari import HibariModel

        return HibariModel.load(checkpoint=checkpoint)
    raise ModelLoadError(f"no model family is called {name!r}; there are: {', '.join(MODEL_NAMES)}")
