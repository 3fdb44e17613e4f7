"""Meters of the samples themselves: loudness, silence at the head, clicks, pitch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.meters.speech import Spoken

Samples = NDArray[np.float32]

AUDIBLE_BELOW_PEAK_DB = 40.0
"""Sound counts as audible from this far below the utterance's loudest 10 ms on."""
STEP_S = 0.010
_MIN_PERIODICITY = 0.5
_LOW_HZ, _HIGH_HZ = 70.0, 500.0


def level_dbfs(pcm: Samples) -> float:
    """RMS of the parts that are not silent."""
    levels = levels_dbfs(pcm, 24_000)
    audible = levels > levels.max() - AUDIBLE_BELOW_PEAK_DB
    return float(10 * np.log10(np.mean(10 ** (levels[audible] / 10))))


def head_silence_s(pcm: Samples, rate_hz: int) -> float:
    """Until the first audible sound."""
    levels = levels_dbfs(pcm, rate_hz)
    return float(np.argmax(levels > levels.max() - AUDIBLE_BELOW_PEAK_DB) * STEP_S)


def levels_dbfs(pcm: Samples, rate_hz: int) -> NDArray[np.float64]:
    """RMS of each 10 ms, float64 [S / STEP_S]."""
    step = round(STEP_S * rate_hz)
    frames = pcm[: len(pcm) // step * step].reshape(-1, step).astype(np.float64)
    levels: NDArray[np.float64] = 10 * np.log10(np.mean(frames**2, axis=1) + 1e-12)
    return levels


def clicks(spoken: Spoken, rate_hz: int) -> int:
    """Of the joins and the two ends, those within 10 ms of which the second difference stands out: more than 12 times
    the 95th percentile of the 60 ms around, and above -50 dBFS. (Elsewhere the bursts of stops do so too.)"""
    bend = np.abs(np.diff(np.pad(spoken.pcm.astype(np.float64), 2), 2))
    near, around = round(0.010 * rate_hz), round(0.030 * rate_hz)
    places = [0, len(spoken.pcm), *(start for _, start in spoken.segments[1:])]
    found = 0
    for place in places:
        peak = bend[max(place - near, 0) : place + near].max(initial=0.0)
        typical = np.percentile(bend[max(place - around, 0) : place + around], 95)
        found += bool(peak > max(12 * typical, 10 ** (-50 / 20)))
    return found


def power(pcm: Samples) -> float:
    """Mean square, never 0."""
    return float(np.mean(pcm.astype(np.float64) ** 2)) + 1e-10


def pitch_hz(pcm: Samples, rate_hz: int, low_hz: float = 90.0, high_hz: float = 450.0) -> float | None:
    """Of a short stretch, by autocorrelation; None where it is not voiced."""
    sound = pcm.astype(np.float64) - pcm.mean()
    size = 1 << (2 * len(sound) - 1).bit_length()
    correlation = np.fft.irfft(np.abs(np.fft.rfft(sound, size)) ** 2)[: len(sound)]
    if correlation[0] <= 1e-6:
        return None
    correlation = correlation / correlation[0] / (1 - np.arange(len(sound)) / len(sound)).clip(0.1)
    first, last = int(rate_hz / high_hz), min(int(rate_hz / low_hz), len(sound) - 2)
    if last <= first:
        return None
    best = first + int(np.argmax(correlation[first:last]))
    if correlation[best] <= _MIN_PERIODICITY:
        return None
    # Twice the period fits as well: the shortest lag that nearly does is the pitch.
    peaks = np.flatnonzero(correlation[first:last] > 0.9 * correlation[best])
    near = correlation[first + peaks[0] : first + peaks[0] + max(first // 2, 2)]
    lag = first + int(peaks[0]) + int(np.argmax(near))
    return rate_hz / lag if correlation[lag] > _MIN_PERIODICITY else None


def pitch_track(pcm: Samples, rate_hz: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pitch in Hz every 5 ms, 0 where unvoiced, and the instants in seconds (WORLD's Harvest, which follows creak)."""
    import pyworld

    pitch, at_s = pyworld.harvest(pcm.astype(np.float64), rate_hz, f0_floor=_LOW_HZ, f0_ceil=_HIGH_HZ)
    return pitch, at_s


def resampled(pcm: Samples, rate_hz: int, to_hz: int) -> Samples:
    import soxr

    result: Samples = soxr.resample(pcm, rate_hz, to_hz).astype(np.float32)
    return result
