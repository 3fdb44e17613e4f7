"""Windows joined equal the whole; the same numbers draw the same noise; the limiter bends and never breaks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.models.hibari import config
from engine.models.hibari.network import AcousticNet, Acoustics
from engine.models.hibari.synthesis import (
    BINS,
    HOP,
    LEFT_FRAMES,
    RIGHT_FRAMES,
    FrameEdits,
    NoiseSource,
    PhraseSpectra,
    frame_levels_dbfs,
    limit,
    noise_key,
    overlap_add,
)

WINDOW_TOLERANCE = 1e-6
"""Transforms of several rows at once may round otherwise than one at a time; a 24-bit sample is 1.2e-7."""
REFERENCE_TOLERANCE = 2e-5
"""Against the package's own synthesis, which sums the pulse phase over the whole utterance."""

NOISE = NoiseSource()


@pytest.fixture(scope="module")
def acoustics() -> Acoustics:
    return AcousticNet.load()("hˌW ɑɹ ju tədˈA?", 1.0)


def plain(acoustics: Acoustics, **changes: object) -> FrameEdits:
    count = len(acoustics.f0)
    values = {"f0_hz": acoustics.f0.copy(), "gain": np.ones(count, np.float32), "tilt_db": np.zeros(count, np.float32)}
    return FrameEdits(**{**values, **changes})  # type: ignore[arg-type]


def rendered(source: PhraseSpectra) -> np.ndarray:
    left, right = np.zeros((LEFT_FRAMES, BINS), np.complex64), np.zeros((RIGHT_FRAMES, BINS), np.complex64)
    return overlap_add(np.concatenate([left, source.spectra(0, source.count), right]))


def test_the_waveform_is_the_packages_own_but_for_the_noise(acoustics: Acoustics) -> None:
    from dataclasses import replace

    from hibari import dsp

    quiet = replace(acoustics, ln=np.full_like(acoustics.ln, -60.0))
    wanted = dsp.synth(*(part.copy() for part in (quiet.lh, quiet.theta, quiet.ln, quiet.lr, quiet.phi, quiet.f0)),
                       np.random.default_rng(0))  # fmt: skip
    ours = rendered(PhraseSpectra(quiet, plain(quiet), NOISE, 0))
    assert np.abs(ours - wanted)[2 * HOP : -2 * HOP].max() < REFERENCE_TOLERANCE


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(1, 200), max_size=12), moves_harmonics=st.booleans())
def test_spectra_of_any_windows_joined_are_those_of_the_whole(cuts: list[int], moves_harmonics: bool) -> None:
    acoustics = ACOUSTICS
    source = PhraseSpectra(acoustics, plain(acoustics, moves_harmonics=moves_harmonics), NOISE, 7)
    whole = source.spectra(0, source.count)
    places = sorted({0, source.count, *(cut for cut in cuts if cut < source.count)})
    joined = np.concatenate([source.spectra(left, right) for left, right in pairwise(places)])
    assert np.abs(joined - whole).max() <= WINDOW_TOLERANCE * max(1.0, float(np.abs(whole).max()))


ACOUSTICS = AcousticNet.load()("ðə ɹˈIt θˈɪŋ.", 1.0)


@given(start=st.integers(0, 5000), length=st.integers(1, 40), inner=st.integers(0, 39), key=st.integers(0, 2**64 - 1))
def test_noise_of_a_frame_depends_on_its_number_and_key_only(start: int, length: int, inner: int, key: int) -> None:
    inner = min(inner, length - 1)
    assert np.array_equal(
        NOISE(key, start, start + length)[:, inner], NOISE(key, start + inner, start + inner + 1)[:, 0]
    )


def test_noise_is_white_and_of_unit_variance() -> None:
    noise = NOISE(noise_key(3, 0), 0, 400)
    assert noise.real.std() == pytest.approx(1.0, abs=0.02)
    assert noise.imag.std() == pytest.approx(1.0, abs=0.02)
    assert abs(np.corrcoef(noise[:, 0].real, noise[:, 1].real)[0, 1]) < 0.2


@given(seed=st.integers(0, 2**53 - 1), place=st.integers(0, 10_000))
def test_neighbouring_seeds_and_places_have_streams_of_their_own(seed: int, place: int) -> None:
    keys = {noise_key(seed, place), noise_key(seed + 1, place), noise_key(seed, place + 1), noise_key(seed, place, 0)}
    assert len(keys) == 4


@given(st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=50))
def test_the_limiter_is_odd_rising_and_below_its_ceiling(values: list[float]) -> None:
    samples = np.sort(np.asarray(values, np.float32))
    limited = limit(samples)
    assert np.all(np.abs(limited) <= config.LIMITER_CEILING)
    assert np.all(np.diff(limited) >= 0)
    assert np.allclose(limit(-samples), -limited)
    straight = np.abs(samples) <= config.LIMITER_KNEE
    assert np.array_equal(limited[straight], samples[straight])


def test_estimated_levels_tell_speech_from_silence(acoustics: Acoustics) -> None:
    samples = rendered(PhraseSpectra(acoustics, plain(acoustics), NOISE, 1)).reshape(-1, HOP)
    true = 10 * np.log10(np.mean(samples.astype(np.float64) ** 2, axis=1) + 1e-12)
    estimated = frame_levels_dbfs(acoustics)
    assert np.all(estimated[true > -35] > config.AUDIBLE_DBFS)
    assert np.all(true[: np.argmax(estimated > config.AUDIBLE_DBFS) - 2] < config.AUDIBLE_DBFS)


def test_the_envelope_keeps_the_level_where_the_pitch_is_moved(acoustics: Acoustics) -> None:
    def level(edits: FrameEdits) -> float:
        return 10 * float(np.log10(np.mean(rendered(PhraseSpectra(acoustics, edits, NOISE, 1)) ** 2)))

    base = level(plain(acoustics))
    for semitones in (-4, 4):
        f0 = (acoustics.f0 * 2 ** (semitones / 12)).astype(np.float32)
        assert abs(level(plain(acoustics, f0_hz=f0, moves_harmonics=True)) - base) < 2.5
