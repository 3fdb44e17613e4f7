"""The converter: exact length, alignment, quality, hold-back, and indifference to how its input is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio.formats import PCM_RATES_HZ
from gateway.audio.resampler import Resampler
from gateway.audio.sample_map import SampleMap

ENGINE_HZ = 24000
OTHER_RATES = [rate for rate in PCM_RATES_HZ if rate != ENGINE_HZ]
SINE_ERROR = 2e-4
"""-74 dB of full scale: the design's 80 dB of stop band, with every image and the pass-band ripple added up."""
STOP_BAND_LEVEL = 2e-4
EDGE_S = 0.01
"""Where a filter of at most 5 ms sees the start or the end of the signal."""


def whole(pcm: np.ndarray, out_hz: int) -> np.ndarray:
    return Resampler(ENGINE_HZ, out_hz).resample(pcm, is_drained=True)


def noise(samples: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(-1, 1, samples).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(OTHER_RATES), st.lists(st.integers(0, 3000), max_size=12), st.integers(0, 200))
def test_any_cut_of_the_input_gives_the_same_samples_bit_for_bit(out_hz: int, pieces: list[int], small: int) -> None:
    pieces = [*pieces, *[1] * small]
    signal = noise(sum(pieces))
    resampler = Resampler(ENGINE_HZ, out_hz)
    joined, position = [], 0
    for piece in pieces:
        joined.append(resampler.resample(signal[position : position + piece], is_drained=False))
        position += piece
    joined.append(resampler.resample(signal[:0], is_drained=True))
    assert np.array_equal(np.concatenate(joined), whole(signal, out_hz))


@pytest.mark.parametrize("out_hz", OTHER_RATES)
@pytest.mark.parametrize("samples", [0, 1, 2, 3, 7, 100, 2399, 2400, 2401, 24007])
def test_the_length_is_exact(out_hz: int, samples: int) -> None:
    assert len(whole(noise(samples), out_hz)) == SampleMap(ENGINE_HZ, out_hz).to_output(samples)


@pytest.mark.parametrize("out_hz", OTHER_RATES)
def test_an_impulse_comes_out_where_it_went_in(out_hz: int) -> None:
    signal = np.zeros(4801, dtype=np.float32)
    signal[2400] = 1.0  # 0.1 s: a whole output sample at every listed rate but 11025 and 22050
    peak = int(np.argmax(np.abs(whole(signal, out_hz))))
    assert abs(peak - 0.1 * out_hz) <= 0.5


@pytest.mark.parametrize("out_hz", OTHER_RATES)
@pytest.mark.parametrize("tone_hz", [100.0, 1000.0, 3300.0])
def test_a_tone_in_the_pass_band_keeps_its_level_and_phase(out_hz: int, tone_hz: float) -> None:
    signal = np.sin(2 * np.pi * tone_hz * np.arange(ENGINE_HZ // 2) / ENGINE_HZ).astype(np.float32)
    produced = whole(signal, out_hz)
    expected = np.sin(2 * np.pi * tone_hz * np.arange(len(produced)) / out_hz)
    edge = int(EDGE_S * out_hz)
    assert np.max(np.abs(produced - expected)[edge:-edge]) < SINE_ERROR


@pytest.mark.parametrize("out_hz", [8000, 11025, 12000, 16000, 22050])
def test_what_lies_above_the_new_nyquist_frequency_does_not_fold_back(out_hz: int) -> None:
    tone_hz = min(out_hz / 2 * 1.02, ENGINE_HZ / 2 * 0.99)
    signal = np.sin(2 * np.pi * tone_hz * np.arange(ENGINE_HZ // 2) / ENGINE_HZ).astype(np.float32)
    edge = int(EDGE_S * out_hz)
    assert np.max(np.abs(whole(signal, out_hz)[edge:-edge])) < STOP_BAND_LEVEL


@pytest.mark.parametrize("out_hz", OTHER_RATES)
def test_a_constant_passes_unchanged(out_hz: int) -> None:
    edge = int(EDGE_S * out_hz)
    produced = whole(np.full(ENGINE_HZ // 4, 0.5, dtype=np.float32), out_hz)[edge:-edge]
    assert np.allclose(produced, 0.5, atol=1e-5)


@pytest.mark.parametrize("out_hz", OTHER_RATES)
def test_at_most_half_the_filter_is_held_back(out_hz: int) -> None:
    samples = 4800
    produced = Resampler(ENGINE_HZ, out_hz).resample(noise(samples), is_drained=False)
    held_back_s = samples / ENGINE_HZ - len(produced) / out_hz
    assert held_back_s <= 40 / min(ENGINE_HZ, out_hz) + 2 / ENGINE_HZ


@pytest.mark.parametrize("out_hz", OTHER_RATES)
def test_a_drain_gives_everything_and_what_follows_goes_on_in_step(out_hz: int) -> None:
    """Speech that falls silent at a boundary and begins again after it: the drain cannot be told from no drain."""
    silence = np.zeros(300, dtype=np.float32)
    first, second = np.concatenate((noise(5001), silence)), np.concatenate((silence, noise(4003)))
    resampler = Resampler(ENGINE_HZ, out_hz)
    sample_map = SampleMap(ENGINE_HZ, out_hz)
    head = resampler.resample(first, is_drained=True)
    assert len(head) == sample_map.to_output(len(first))
    tail = resampler.resample(second, is_drained=True)
    assert np.array_equal(np.concatenate((head, tail)), whole(np.concatenate((first, second)), out_hz))
