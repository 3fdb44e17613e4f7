"""A listener's player as arithmetic: when each sample is heard, and when the player runs dry. Sans-IO."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PlayerClock:
    """Plays at `sample_rate_hz` in real time. It starts once `buffer_s` of audio is there, or all of it; when it is
    dry it waits and goes on with the next sample that comes, and the wait is an underrun."""

    sample_rate_hz: int
    buffer_s: float
    started_s: float | None = None
    """When the first sample was heard."""
    underruns: int = 0
    underrun_s: float = 0.0
    received_samples: int = 0
    _origin_s: float = 0.0
    """When sample 0 would have been heard, had the player always run as now."""

    def receive(self, samples: int, now_s: float) -> None:
        """`samples` more have come at `now_s`."""
        if samples == 0:
            return
        if self.started_s is not None:
            dry_s = self._origin_s + self.received_samples / self.sample_rate_hz
            if now_s > dry_s:
                self.underruns += 1
                self.underrun_s += now_s - dry_s
                self._origin_s += now_s - dry_s
        self.received_samples += samples
        if self.started_s is None and self.received_samples >= self.buffer_s * self.sample_rate_hz:
            self._start(now_s)

    def finish(self, now_s: float) -> None:
        """Nothing more will come: what is there is played."""
        if self.started_s is None and self.received_samples:
            self._start(now_s)

    def heard_at_s(self, sample: int) -> float:
        """When `sample` is heard, as things are now. Only after the start, for a sample that was received."""
        return self._origin_s + sample / self.sample_rate_hz

    def _start(self, now_s: float) -> None:
        self.started_s = self._origin_s = now_s
