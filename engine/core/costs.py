"""How long plans take, learned from those that have landed: on a busy machine, several times what was declared."""

from __future__ import annotations

WEIGHT = 0.2
"""Of the newest plan in a running figure."""
MIN_RATIO = 0.25
MAX_RATIO = 16.0
"""One stray figure (a suspended machine, a clock set) moves the ratio no further."""


class Costs:
    """Running figures; seconds."""

    __slots__ = ("_frames", "_windows_s", "ratio")

    def __init__(self) -> None:
        self.ratio = 1.0
        """Measured to declared time of prefills that cannot be cut."""
        self._frames = 0.0
        self._windows_s = 0.0
        """Of the newest plans, weighted: sums, so that a plan's fixed part counts for little beside large plans."""

    def expected_s(self, declared_s: float) -> float:
        """What a prefill declared to take so long will take as things are."""
        return declared_s * self.ratio

    def frames_in(self, budget_s: float) -> int | None:
        """Frames of windows that a plan makes in this time; None as long as nothing is known of it."""
        return max(1, int(budget_s * self._frames / self._windows_s)) if self._windows_s else None

    def note_prefill(self, declared_s: float, frames: int, took_s: float) -> None:
        """A plan of prefills declared to take `declared_s`, and `frames` of windows beside them, has landed."""
        windows_s = frames * self._windows_s / self._frames if self._frames else 0.0
        measured = (took_s - windows_s) / declared_s
        self.ratio += WEIGHT * (min(max(measured, MIN_RATIO), MAX_RATIO) - self.ratio)

    def note_windows(self, frames: int, took_s: float) -> None:
        """A plan of nothing but `frames` frames of windows has landed."""
        self._frames += frames - WEIGHT * self._frames
        self._windows_s += max(took_s, 1e-6) - WEIGHT * self._windows_s
