"""Meters of the samples themselves: loudness, silence at the head, clicks, and what happens at the joins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.meters.speech import Spoken

Samples = NDArray[np.float32]

AUDIBLE_BELOW_PEAK_DB = 40.0
"""Sound counts as audible from this far below the utterance's loudest 10 ms on."""
_STEP_S = 0.010


def level_dbfs(pcm: Samples) -> float:
    """RMS of the parts that are not silent."""
    levels = _levels(pcm, 24_000)
    audible = levels > levels.max() - AUDIBLE_BELOW_PEAK_DB
    return float(10 * np.log10(np.mean(10 ** (levels[audible] / 10))))


def head_silence_s(pcm: Samples, rate_hz: int) -> float:
    """Until the first audible sound."""
    levels = _levels(pcm, rate_hz)
    return float(np.argmax(levels > levels.max() - AUDIBLE_BELOW_PEAK_DB) * _STEP_S)


def _levels(pcm: Samples, rate_hz: int) -> NDArray[np.float64]:
    step = round(_STEP_S * rate_hz)
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


@dataclass(frozen=True, slots=True)
class Steps:
    """Differences between the sound just before and just after places: level in dB and pitch in semitones."""

    level_db: NDArray[np.float64]
    pitch_semitones: NDArray[np.float64]


def join_steps(spoken: Spoken, rate_hz: int) -> tuple[Steps, Steps]:
    """At the joins of segments inside a sentence, and at the other boundaries between words."""
    joins = {start for segment, start in spoken.segments[1:]}
    inner: list[tuple[int, int]] = []
    at_joins: list[tuple[int, int]] = []
    for left, right in zip(spoken.words, spoken.words[1:], strict=False):
        is_join = any(left.start_sample < join <= right.start_sample + round(0.06 * rate_hz) for join in joins)
        (at_joins if is_join else inner).append((left.end_sample, right.start_sample))
    return _steps(spoken.pcm, at_joins, rate_hz), _steps(spoken.pcm, inner, rate_hz)


def _steps(pcm: Samples, places: list[tuple[int, int]], rate_hz: int) -> Steps:
    width = round(0.15 * rate_hz)
    levels, pitches = [], []
    for end, start in places:
        before, after = pcm[max(end - width, 0) : end], pcm[start : start + width]
        if min(len(before), len(after)) < width // 2:
            continue
        levels.append(10 * np.log10(_power(after) / _power(before)))
        left, right = pitch_hz(before, rate_hz), pitch_hz(after, rate_hz)
        if left and right:
            pitches.append(12 * np.log2(right / left))
    return Steps(np.asarray(levels), np.asarray(pitches))


def _power(pcm: Samples) -> float:
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
    # Twice the period fits as well: the shortest lag that nearly does is the pitch.
    peaks = np.flatnonzero(correlation[first:last] > 0.9 * correlation[best])
    near = correlation[first + peaks[0] : first + peaks[0] + max(first // 2, 2)]
    lag = first + int(peaks[0]) + int(np.argmax(near))
    return rate_hz / lag if correlation[lag] > 0.5 else None


def resampled(pcm: Samples, rate_hz: int, to_hz: int) -> Samples:
    import soxr

    result: Samples = soxr.resample(pcm, rate_hz, to_hz).astype(np.float32)
    return result
