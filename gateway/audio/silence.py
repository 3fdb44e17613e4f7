"""Silence as bytes, for turns that have nothing to speak: some frameworks take a turn without audio for a failure."""

from __future__ import annotations

from typing import Final

from gateway.audio.formats import BYTES_PER_SAMPLE

SILENCE_S: Final = 0.02
ZERO: Final = {"pcm_s16le": b"\0", "pcm_f32le": b"\0", "mulaw": b"\xff", "alaw": b"\xd5"}
"""A byte of silence (G.711: the code of the smallest positive value)."""


def short_silence(format_name: str, sample_rate_hz: int) -> bytes:
    """20 ms in a format whose frames are samples."""
    return ZERO[format_name] * (round(SILENCE_S * sample_rate_hz) * BYTES_PER_SAMPLE[format_name])
