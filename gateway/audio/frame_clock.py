"""Exact pacing of 20 ms frames for peers that want real time: pure arithmetic on a given start, so it cannot drift."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

FRAME_MS: Final = 20


@dataclass(frozen=True, slots=True)
class FrameClock:
    """Frame n is due at `start_s` + n · 20 ms. Frames are counted; intervals are never added up."""

    start_s: float

    def due_s(self, frame: int) -> float:
        return self.start_s + frame * FRAME_MS / 1000

    def frames_due(self, now_s: float) -> int:
        """How many frames should have been sent by `now_s`: 0 before the start, 1 at it."""
        if now_s < self.start_s:
            return 0
        estimate = math.floor((now_s - self.start_s) * 1000 / FRAME_MS)
        # The quotient may round across a frame's due time; `due_s` decides.
        while self.due_s(estimate + 1) <= now_s:
            estimate += 1
        while estimate > 0 and self.due_s(estimate) > now_s:
            estimate -= 1
        return estimate + 1
