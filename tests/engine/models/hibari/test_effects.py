"""WORLD's colours: whisper has no pitch, a shout is higher and brighter, other voices move pitch and formants."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyworld", reason="extra [effects]")

from engine.models.hibari.effects import FADE_SAMPLES, Colouring, colour, faded, has_world
from engine.models.hibari.network import Floats

RATE_HZ = 24_000


def buzz(f0_hz: float = 180.0, duration_s: float = 0.6) -> Floats:
    """A vowel-like sound: harmonics under a formant at 700 Hz."""
    time_s = np.arange(round(duration_s * RATE_HZ)) / RATE_HZ
    harmonics = np.arange(1, 40)[:, None] * f0_hz
    weights = 1 / (1 + ((harmonics - 700) / 200) ** 2)
    sound: Floats = (0.05 * np.sum(weights * np.cos(2 * np.pi * harmonics * time_s), axis=0)).astype(np.float32)
    return sound


def coloured(colouring: Colouring) -> Floats:
    return colour(buzz(), np.full(len(buzz()) // 300, 180.0, np.float32), colouring)


def pitch_hz(samples: Floats) -> float:
    import pyworld

    f0, _ = pyworld.harvest(samples.astype(np.float64), RATE_HZ)
    return float(np.median(f0[f0 > 0])) if np.count_nonzero(f0) > len(f0) // 4 else 0.0


def centroid_hz(samples: Floats) -> float:
    spectrum = np.abs(np.fft.rfft(samples)) ** 2
    return float(np.sum(spectrum * np.fft.rfftfreq(len(samples), 1 / RATE_HZ)) / np.sum(spectrum))


def brightness(samples: Floats) -> float:
    """Energy above 2 kHz to that below."""
    spectrum = np.abs(np.fft.rfft(samples)) ** 2
    is_high = np.fft.rfftfreq(len(samples), 1 / RATE_HZ) > 2000
    return float(np.sum(spectrum[is_high]) / np.sum(spectrum[~is_high]))


def test_the_extra_is_noticed() -> None:
    assert has_world()
    assert Colouring().is_plain
    assert not Colouring("whisper").is_plain


def test_the_length_is_kept() -> None:
    made = coloured(Colouring("whisper"))
    assert made.shape == buzz().shape
    assert made.dtype == np.float32


def test_what_fades_out_and_what_fades_in_add_up() -> None:
    steady = np.ones(1000, np.float32)
    made = faded(steady)
    assert made[0] == made[-1] == 0.0
    assert np.allclose(made[:FADE_SAMPLES] + made[-FADE_SAMPLES:], 1.0)
    assert len(faded(np.ones(3, np.float32))) == 3


def test_a_whisper_has_no_pitch_and_is_softer() -> None:
    made = coloured(Colouring("whisper"))
    assert pitch_hz(made) == 0.0
    assert np.std(made) < 0.8 * np.std(buzz())


def test_a_shout_is_higher_and_brighter() -> None:
    made = coloured(Colouring("shout"))
    assert 12 * np.log2(pitch_hz(made) / 180.0) == pytest.approx(2.0, abs=0.3)
    assert brightness(made) > 2 * brightness(buzz())


@pytest.mark.parametrize("ratio", [0.6, 1.35])
def test_another_voice_has_its_pitch(ratio: float) -> None:
    assert pitch_hz(coloured(Colouring(None, ratio, 1.0))) == pytest.approx(180.0 * ratio, rel=0.02)


def test_formants_move_by_their_ratio_and_the_pitch_stays() -> None:
    made = coloured(Colouring(None, 1.0, 1.3))
    assert pitch_hz(made) == pytest.approx(180.0, rel=0.02)
    assert centroid_hz(made) > 1.1 * centroid_hz(buzz())


def test_the_same_samples_give_the_same_colour() -> None:
    assert np.array_equal(coloured(Colouring("shout")), coloured(Colouring("shout")))


def test_unvoiced_speech_stays_unvoiced() -> None:
    noise = np.random.default_rng(1).normal(0, 0.05, 9000).astype(np.float32)
    assert pitch_hz(colour(noise, np.zeros(30, np.float32), Colouring(None, 0.6, 0.87))) == 0.0
