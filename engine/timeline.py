"""Named moments of one utterance, for metrics. Pure data: whoever sees a moment notes it with its own clock reading."""

from __future__ import annotations

from typing import Literal

Mark = Literal[
    "text_received",  # first text of the utterance reached the gateway
    "queued",  # its first segment reached the engine
    "planned",  # the engine began to work on it
    "first_chunk",  # its first audio left the engine
    "generated",  # the model has produced all of it
    "first_sample_sent",  # its first audible sample was written to the peer
]


class Timeline:
    """First time each mark was reached, in monotonic seconds of one clock."""

    __slots__ = ("_at_s",)

    def __init__(self) -> None:
        self._at_s: dict[Mark, float] = {}

    def note(self, mark: Mark, now_s: float) -> None:
        """Only the first note of a mark counts."""
        self._at_s.setdefault(mark, now_s)

    def renote(self, mark: Mark, now_s: float) -> None:
        """The last note of a mark counts."""
        self._at_s[mark] = now_s

    def at_s(self, mark: Mark) -> float | None:
        return self._at_s.get(mark)

    def between_s(self, start: Mark, end: Mark) -> float | None:
        """Seconds from one mark to another; None where either was not reached."""
        start_s, end_s = self._at_s.get(start), self._at_s.get(end)
        return None if start_s is None or end_s is None else end_s - start_s
