"""A fake model that can clone: its library encodes a recording to how long it is; a cloned voice then speaks."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.core.step import PreparedPrompt, PreparedText
from engine.speech import ModelInfo, Segment, SpeechRequest
from engine.voice_store import CodeFormat, VoiceLibrary, VoiceStore
from tests.fakes.fake_model import WholeFramesModel


class CloningFakeModel(WholeFramesModel):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.encoded_on: list[str] = []
        """Names of the threads of its encodings."""
        self.spoken_with: list[str] = []
        """The voice of each segment, in the order they were made."""
        self.voices: VoiceLibrary | None = VoiceLibrary(
            VoiceStore(folder), self._encode, 24_000, CodeFormat("fake", 2, 1024), 30.0, lambda frames, transcript: None
        )

    @property
    def encoded(self) -> int:
        return len(self.encoded_on)

    def _encode(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        self.encoded_on.append(threading.current_thread().name)
        return np.full((len(samples) // 960, 2), 7, np.int16)

    def warm_up(self) -> None:
        super().warm_up()
        assert self.voices is not None
        self.voices.load()

    @property
    def info(self) -> ModelInfo:
        return replace(super().info, can_clone=True)

    def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
        self.spoken_with.append(request.voice)
        return super().prepare(segment, request)

    def prepare_prompt(self, request: SpeechRequest) -> PreparedPrompt:
        assert self.voices is not None
        if self.voices.reference(request.voice) is not None:
            return PreparedPrompt(0, request.voice.encode(), None)
        return super().prepare_prompt(request)
