"""Meters that need torch: naturalness by DistilMOS, likeness of speakers by Resemblyzer. Both want 16 kHz."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Naturalness:
    """Mean opinion score from 1 to 5, predicted (DistilMOS)."""

    def __init__(self) -> None:
        # Its command line alone needs torchaudio.
        sys.modules.setdefault("torchaudio", types.ModuleType("torchaudio"))
        import distillmos
        import torch

        self._torch: Any = torch
        self._model: Any = distillmos.ConvTransformerSQAModel()
        self._model.eval()

    def __call__(self, pcm_16k: NDArray[np.float32]) -> float:
        with self._torch.no_grad():
            return float(self._model(self._torch.from_numpy(pcm_16k[None]))[0, 0])


class Speakers:
    """Embeddings of voices, 256 values of unit length; their product is the cosine."""

    def __init__(self) -> None:
        from resemblyzer import VoiceEncoder, preprocess_wav

        self._encoder: Any = VoiceEncoder("cpu", verbose=False)
        self._prepare: Any = preprocess_wav

    def __call__(self, pcm_16k: NDArray[np.float32]) -> NDArray[np.float32]:
        embedding: NDArray[np.float32] = self._encoder.embed_utterance(self._prepare(pcm_16k, source_sr=16_000))
        return embedding
