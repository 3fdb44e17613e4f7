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
    zeros = np.zeros(count, np.float32)
    values = {"f0_hz": acoustics.f0.copy(), "gain": zeros + 1, "tilt_db": zeros, "breath": zeros}
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
@given(cuts=st.lists(st.integers(1, 200), max_size=12), moves_harmonics=st.booleans(), breath=st.sampled_from([0, 0.5]))
def test_spectra_of_any_windows_joined_are_those_of_the_whole(
    cuts: list[int], moves_harmonics: bool, breath: float
) -> None:
    acoustics = ACOUSTICS
    breaths = np.full(len(acoustics.f0), breath, np.float32)
    edits = plain(acoustics, moves_harmonics=moves_harmonics, breath=breaths)
    source = PhraseSpectra(acoustics, edits, NOISE, 7)
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


@pytest.mark.parametrize("breath", [0.25, 0.5, 1.0])
def test_breath_is_noise_as_strong_as_it_says_above_4_khz_and_none_below_1500_hz(breath: float) -> None:
    # A steady vowel: harmonics of 200 Hz, all of the same size, and none of the net's own noise.
    count, silent = 60, np.full((BINS, 60), -60.0, np.float32)
    zeros = np.zeros((BINS, count), np.float32)
    steady = Acoustics(
        zeros - 3, zeros, silent, silent, zeros, np.full(count, 200.0, np.float32), np.zeros(1, np.int64)
    )
    quiet = rendered(PhraseSpectra(steady, plain(steady), NOISE, 5))[3000:-3000]
    breathy = plain(steady, breath=np.full(count, breath, np.float32))
    added = rendered(PhraseSpectra(steady, breathy, NOISE, 5))[3000:-3000] - quiet

    def power(samples: np.ndarray, low_hz: float, high_hz: float) -> float:
        hz = np.fft.rfftfreq(len(samples), 1 / 24_000)
        return float(
            np.sum(np.abs(np.fft.rfft(samples * np.hanning(len(samples))))[(hz >= low_hz) & (hz < high_hz)] ** 2)
        )

    ratio = np.sqrt(power(added, 4500, 10_000) / power(quiet, 4500, 10_000))
    assert ratio == pytest.approx(breath, rel=0.15)
    assert power(added, 0, 1200) < 1e-3 * power(quiet, 0, 1200)


def test_breath_leaves_unvoiced_frames_alone() -> None:
    acoustics = ACOUSTICS
    unvoiced = np.flatnonzero(acoustics.f0 <= 40)
    breathy = plain(acoustics, breath=np.ones(len(acoustics.f0), np.float32))
    before = PhraseSpectra(acoustics, plain(acoustics), NOISE, 7).spectra(0, len(acoustics.f0))
    after = PhraseSpectra(acoustics, breathy, NOISE, 7).spectra(0, len(acoustics.f0))
    assert np.array_equal(before[unvoiced], after[unvoiced])
    assert not np.array_equal(before, after)


def test_the_envelope_keeps_the_level_where_the_pitch_is_moved(acoustics: Acoustics) -> None:
    def level(edits: FrameEdits) -> float:
        return 10 * float(np.log10(np.mean(rendered(PhraseSpectra(acoustics, edits, NOISE, 1)) ** 2)))

    base = level(plain(acoustics))
    for semitones in (-4, 4):
        f0 = (acoustics.f0 * 2 ** (semitones / 12)).astype(np.float32)
        assert abs(level(plain(acoustics, f0_hz=f0, moves_harmonics=True)) - base) < 2.5
