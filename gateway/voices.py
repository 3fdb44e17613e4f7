"""VoiceCatalog: which voices a key may ask for, kept in memory so that no session ever looks at a disk. VoiceUploads:
how many may come at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from engine.speech import ModelInfo, VoiceInfo
from gateway.admission import CAPACITY_RETRY_S
from gateway.errors import ErrorCode, HandshakeError


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


class VoiceUploads:
    """Room for uploads: each holds a recording in memory, and a place in the queue for the model's encoder.
    `voices_per_key`: what an owner may keep."""

    def __init__(self, places: int, voices_per_key: int) -> None:
        self.voices_per_key = voices_per_key
        self._places = places
        self._running = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """One upload, from its first byte until it is stored. Raises HandshakeError where all places are taken."""
        if self._running >= self._places:
            message = f"{self._running} voices are being uploaded, at most {self._places}"
            raise HandshakeError(503, ErrorCode.CAPACITY, message, retry_after_s=CAPACITY_RETRY_S)
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1


def find_voice(wanted: str, model: ModelInfo) -> VoiceInfo | None:
    """A voice by its id, or, for vendors' dialects, by its name: the first in the catalog's order."""
    for voice in model.voices:
        if voice.id == wanted:
            return voice
    return next((voice for voice in model.voices if voice.name == wanted), None)
