"""`load_model` is the only dispatch by a family's name; a family is imported when it is asked for, never before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from engine.errors import ModelLoadError
from engine.speech_model import SpeechModel

MODEL_NAMES: Final[tuple[str, ...]] = ("hibari", "higgs")


def load_model(
    name: str,
    *,
    checkpoint: str | None = None,
    device: str | None = None,
    voices: Path | None = None,
    options: Mapping[str, object] | None = None,
) -> SpeechModel:
    """Load the family `name` (seconds; blocks). `checkpoint` is a family's folder or repository of weights and `device`
    where it runs ("cpu", "cuda:0" ...), where the family takes them; None = its default. `voices`: folder of cloned
    voices, for a family that can clone; None = no cloning. `options`: the family's own settings by name.

    Raises engine.errors.ModelLoadError where the name is unknown or the model cannot be loaded.
    """
    if name == "hibari":
        from engine.models.hibari import HibariModel

        if device not in (None, "cpu"):
            raise ModelLoadError(f"model 'hibari' runs on 'cpu' only, not on {device!r}")
        if options:
            raise ModelLoadError(f"model 'hibari' has no options; given: {', '.join(options)}")
        return HibariModel.load(checkpoint=None if checkpoint is None else Path(checkpoint))
    if name == "higgs":
        try:
            from engine.models.higgs.model import HiggsModel
            from engine.models.higgs.options import read_settings
        except ImportError as error:
            raise ModelLoadError(
                f"model 'higgs' needs a package that is not installed ({error}): antiphon[higgs]"
            ) from error
        model: SpeechModel = HiggsModel.load(checkpoint, read_settings(device or "cpu", voices, options or {}))
        return model
    raise ModelLoadError(f"no model family is called {name!r}; there are: {', '.join(MODEL_NAMES)}")
