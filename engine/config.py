"""Settings of the local engine. Each default is written here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.deadlines import Pacing


@dataclass(frozen=True, slots=True)
class EngineSettings:
    max_unread_s: float = 3.0
    """Audio made ahead of a lane's reader."""
    first_audio_target_s: float = 0.15
    """A stream with nothing to play is due so long after its text came; those that run dry sooner go first."""
    urgent_lead_s: float = 0.2
    """While a stream has less audio than this ahead of its listener …"""
    ample_lead_s: float = 1.0
    """… streams with more than this get no vocoder windows …"""
    short_tick_s: float = 0.02
    """… and the others no more of them at once than can be made in so long."""
    max_lead_s: float | None = None
    """A stream further ahead of real time than this waits; None = as far as its reader takes it."""
    max_failed_ticks: int = 3
    """After so many ticks in a row that failed as a whole, the engine gives up and reports itself unhealthy."""

    @property
    def pacing(self) -> Pacing:
        return Pacing(
            max_unread_s=self.max_unread_s,
            first_audio_target_s=self.first_audio_target_s,
            urgent_lead_s=self.urgent_lead_s,
            ample_lead_s=self.ample_lead_s,
            short_tick_s=self.short_tick_s,
            max_lead_s=self.max_lead_s,
        )
