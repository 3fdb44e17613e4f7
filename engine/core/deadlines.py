"""When a listener runs dry, and how large the next vocoder window may be. Monotonic seconds, given by the caller."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.step import ModelSpec


@dataclass(frozen=True, slots=True)
class Pacing:
    """What the scheduler aims at; the defaults live in engine.config.EngineSettings."""

    max_unread_s: float
    """Audio made ahead of a lane's reader; at most this, rounded up to a frame."""
    first_audio_target_s: float
    """A stream with nothing to play is due so long after its text came: behind those that run dry sooner."""
    urgent_lead_s: float
    """A stream with less audio than this ahead of its listener is urgent …"""
    ample_lead_s: float
    """… and while one is, streams with more than this ahead of theirs get no vocoder windows."""
    short_tick_s: float
    """… nor the others more of them than can be made in so long."""
    max_lead_s: float | None
    """A stream further ahead of its (assumed) listener than this waits; None = as far as its reader takes it."""


class PlayoutClock:
    """An assumed listener of one lane: hears what was delivered in real time and waits where there is nothing."""

    __slots__ = ("ends_at_s",)

    def __init__(self) -> None:
        self.ends_at_s = float("-inf")

    def deliver(self, duration_s: float, now_s: float) -> None:
        self.ends_at_s = max(self.ends_at_s, now_s) + duration_s

    def stop(self, now_s: float) -> None:
        """What was delivered and not heard has been thrown away."""
        self.ends_at_s = min(self.ends_at_s, now_s)

    def lead_s(self, now_s: float) -> float:
        """Audio the listener still has."""
        return max(0.0, self.ends_at_s - now_s)

    def deadline_s(self, queued_at_s: float, first_audio_target_s: float) -> float:
        """When work queued at `queued_at_s` should be heard: as the audio before it ends, or soon after it came."""
        return max(self.ends_at_s, queued_at_s + first_audio_target_s)


def window_frames(lead_s: float, spec: ModelSpec) -> int:
    """New frames of the next vocoder window: half of what the listener still has, within the family's bounds, so that
    the window is ready well before it is needed."""
    return min(spec.max_window_frames, max(spec.first_window_frames, int(lead_s / (2 * spec.frame_s))))
