"""VoiceCatalog: which voices a key may ask for, kept in memory so that no session ever looks at a disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine.speech import ModelInfo, VoiceInfo


class VoiceCatalog:
    """The model's own voices, then those that a key has cloned, then those that the operator shares (owner None)."""

    def __init__(self, model: ModelInfo) -> None:
        self._model = model
        self._cloned: dict[str | None, tuple[VoiceInfo, ...]] = {}
        self._models: dict[str | None, ModelInfo] = {}

    def replace(self, owner: str | None, voices: Iterable[VoiceInfo]) -> None:
        """All that an owner has cloned, oldest first: of several with one name the newest is meant."""
        self._cloned[owner] = tuple(voices)[::-1]
        self._models.clear()

    def model_for(self, owner: str | None) -> ModelInfo:
        """The model as this key sees it. The same object until a voice comes or goes."""
        known = self._models.get(owner)
        if known is None:
            own = self._cloned.get(owner, ()) if owner is not None else ()
            voices = (*self._model.voices, *own, *self._cloned.get(None, ()))
            known = self._models[owner] = replace(self._model, voices=voices)
        return known


def find_voice(wanted: str, model: ModelInfo) -> VoiceInfo | None:
    """A voice by its id, or by its name: the first in the catalog's order."""
    for voice in model.voices:
        if voice.id == wanted:
            return voice
    return next((voice for voice in model.voices if voice.name == wanted), None)
