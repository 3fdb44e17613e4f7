"""Notices a block that has gone astray: a decoder that no longer finds its end falls silent, or repeats itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RunawayLimits:
    """`max_silence_s`: beside the pauses that were asked for."""

    max_silence_s: float
    max_repeat_s: float
    silence_level: float
    """Root mean square of a frame at or below which it is silent (full scale = 1)."""


class RunawayGuard:
    """Watches one block."""

    __slots__ = ("_asked_s", "_frame_s", "_limits", "_repeated_rows", "_samples_per_frame", "_silent_frames")

    def __init__(self, limits: RunawayLimits, frame_s: float, samples_per_frame: int) -> None:
        self._limits = limits
        self._frame_s = frame_s
        self._samples_per_frame = samples_per_frame
        self._asked_s = 0.0
        self._repeated_rows = 0
        self._silent_frames = 0

    def allow_silence(self, seconds: float) -> None:
        """So much silence has been asked for, beside what may come by itself."""
        self._asked_s += seconds

    @property
    def is_runaway(self) -> bool:
        return (
            self._silent_frames * self._frame_s > self._limits.max_silence_s + self._asked_s
            or self._repeated_rows * self._frame_s > self._limits.max_repeat_s
        )

    def observe_row(self, is_repeat: bool) -> None:
        """The next row is there; `is_repeat`: all its codes are those of the row before."""
        self._repeated_rows = self._repeated_rows + 1 if is_repeat else 0

    def observe_pcm(self, pcm: NDArray[np.float32]) -> None:
        """The samples of the next frames, whole frames of them."""
        frames = pcm[: len(pcm) - len(pcm) % self._samples_per_frame].reshape(-1, self._samples_per_frame)
        loud = np.flatnonzero(np.sqrt(np.mean(np.square(frames), axis=1)) > self._limits.silence_level)
        if len(loud):
            self._silent_frames = len(frames) - 1 - int(loud[-1])
        else:
            self._silent_frames += len(frames)
