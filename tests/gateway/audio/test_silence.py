"""Silence as bytes."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.audio.mulaw import decode
from gateway.audio.silence import short_silence

SIZES = [("pcm_s16le", 24000, 960), ("pcm_f32le", 44100, 3528), ("mulaw", 8000, 160), ("alaw", 8000, 160)]


@pytest.mark.parametrize(("name", "rate_hz", "size"), SIZES)
def test_it_lasts_20_ms(name: str, rate_hz: int, size: int) -> None:
    assert len(short_silence(name, rate_hz)) == size


def test_it_is_silent_in_g711_too() -> None:
    assert np.abs(decode("mulaw", np.frombuffer(short_silence("mulaw", 8000), np.uint8))).max() == 0
    assert np.abs(decode("alaw", np.frombuffer(short_silence("alaw", 8000), np.uint8))).max() <= 8  # A-law has no zero
