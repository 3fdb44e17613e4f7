"""A listener to one utterance: what a person at the player would notice of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gateway.client import AudioFrame, ClientUtterance
from gateway.commands.player_clock import PlayerClock
from gateway.ledger import AUDIBLE_LEVEL

if TYPE_CHECKING:
    from engine.speech import Pcm


@dataclass(frozen=True, slots=True)
class Listening:
    """What a listener got of one utterance; times are seconds on one clock, None where it never came to that."""

    sent_s: float
    first_frame_s: float | None
    audible_s: float | None
    audio_s: float
    underruns: int
    underrun_s: float
    silent_at_s: float
    """When the player had played everything."""
    error: str | None
    """An error code, "connection_lost", "refused", or None where the speech was whole."""


class Listener:
    """Plays what comes of one utterance, and notes what a person would notice."""

    def __init__(self, buffer_s: float) -> None:
        self._buffer_s = buffer_s
        self._player: PlayerClock | None = None
        self._first_frame_s: float | None = None
        self._audible_sample: int | None = None
        self._audible_s: float | None = None

    async def hear(self, utterance: ClientUtterance) -> str | None:
        """All of an utterance of 16-bit samples. Returns why it is not whole, or None."""
        async for item in utterance:
            if isinstance(item, AudioFrame) and utterance.started is not None:
                samples = np.frombuffer(item.payload, dtype="<i2").astype(np.float32) / np.float32(32768)
                self.receive(samples, utterance.started.sample_rate_hz, time.monotonic())
        if utterance.done is None:
            return "cancelled"
        return None if utterance.done.reason == "complete" else utterance.done.reason

    def receive(self, samples: Pcm, sample_rate_hz: int, now_s: float) -> None:
        """The next samples, float32 [S], have come."""
        if self._player is None:
            self._player = PlayerClock(sample_rate_hz, self._buffer_s)
            self._first_frame_s = now_s
        if self._audible_sample is None:
            loud = np.flatnonzero(np.abs(samples) >= AUDIBLE_LEVEL)
            if len(loud):
                self._audible_sample = self._player.received_samples + int(loud[0])
        self._player.receive(len(samples), now_s)
        self._note_audible()

    def ahead_s(self, now_s: float) -> float:
        """How much audio is there that has not been played yet."""
        player = self._player
        if player is None or player.started_s is None:
            return 0.0 if player is None else player.received_samples / player.sample_rate_hz
        return player.heard_at_s(player.received_samples) - now_s

    def heard(self, sent_s: float, now_s: float, error: str | None) -> Listening:
        """What became of it, once nothing more will come. `sent_s`: when the text was."""
        player = self._player
        if player is None:
            return Listening(sent_s, None, None, 0.0, 0, 0.0, now_s, error)
        player.finish(now_s)
        self._note_audible()
        return Listening(
            sent_s=sent_s,
            first_frame_s=self._first_frame_s,
            audible_s=self._audible_s,
            audio_s=player.received_samples / player.sample_rate_hz,
            underruns=player.underruns,
            underrun_s=player.underrun_s,
            silent_at_s=player.heard_at_s(player.received_samples),
            error=error,
        )

    def _note_audible(self) -> None:
        """When the first audible sample sounds. That is fixed once the sample is there and the player runs: a player
        runs dry only behind what it has."""
        player = self._player
        if player is None or player.started_s is None or self._audible_sample is None:
            return
        if self._audible_s is None:
            self._audible_s = player.heard_at_s(self._audible_sample)
