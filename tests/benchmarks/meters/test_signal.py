"""The meters of samples see what they are meant to see."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.meters.signal import clicks, head_silence_s, level_dbfs, pitch_hz
from benchmarks.meters.speech import Spoken
from engine.speech import Segment

RATE_HZ = 24_000


def tone(duration_s: float, hz: float = 200.0, level: float = 0.1) -> np.ndarray:
    """Harmonics of `hz`, falling as speech's do."""
    time_s = np.arange(round(duration_s * RATE_HZ)) / RATE_HZ
    wave = sum(np.sin(2 * np.pi * hz * harmonic * time_s) / harmonic**2 for harmonic in range(1, 20))
    return (level * np.asarray(wave)).astype(np.float32)


def spoken(pcm: np.ndarray, joins: tuple[int, ...] = ()) -> Spoken:
    return Spoken("x", pcm, (), tuple((Segment.verbatim("x"), start) for start in (0, *joins)))


def faded(pcm: np.ndarray) -> np.ndarray:
    ramp = np.linspace(0, 1, 1200, dtype=np.float32)
    pcm = pcm.copy()
    pcm[:1200] *= ramp
    pcm[-1200:] *= ramp[::-1]
    return pcm


def test_a_smooth_join_is_no_click_and_a_jump_is_one() -> None:
    smooth = faded(tone(1.0))
    assert clicks(spoken(smooth, (12_000,)), RATE_HZ) == 0
    jumping = smooth.copy()
    jumping[12_000:18_000] += 0.05
    assert clicks(spoken(jumping, (12_000,)), RATE_HZ) == 1


def test_speech_cut_off_at_its_end_is_a_click() -> None:
    assert clicks(spoken(faded(tone(1.0))[:11_973]), RATE_HZ) == 1


def test_silence_at_the_head_is_counted_to_the_first_sound() -> None:
    pcm = np.concatenate([np.zeros(2400, np.float32), tone(0.5)])
    assert head_silence_s(pcm, RATE_HZ) == pytest.approx(0.1)


def test_the_level_is_that_of_the_sound_without_the_silence() -> None:
    pcm = tone(0.5)
    assert level_dbfs(np.concatenate([pcm, np.zeros(24_000, np.float32)])) == pytest.approx(level_dbfs(pcm), abs=0.1)


@pytest.mark.parametrize("hz", [110.0, 200.0, 350.0])
def test_pitch_is_found_in_a_voiced_stretch(hz: float) -> None:
    assert pitch_hz(tone(0.1, hz), RATE_HZ) == pytest.approx(hz, rel=0.02)


def test_noise_has_no_pitch() -> None:
    assert pitch_hz(np.random.default_rng(1).normal(0, 0.1, 2400).astype(np.float32), RATE_HZ) is None
