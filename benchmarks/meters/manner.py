"""How something is said, in features that no prosody family of the voice sets.

What a family does set (prosody.FAMILIES: pace, pitch, range, level, tilt, the length of vowels, breath, the bend of a
sentence's end, pauses) is taken out before anything is measured: time is counted in letters, pauses are cut out, the
contour of the pitch has neither mean nor spread nor end, the envelope and the cepstra have no mean. Aperiodicity is
left out, breath being that, and so are the lengths of sounds inside words.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.meters.signal import AUDIBLE_BELOW_PEAK_DB, STEP_S, Samples, levels_dbfs, pitch_track
from benchmarks.meters.speech import Spoken

CONTOUR: Final = ("skewness", "kurtosis", "first tenth", "decline", "accents a word", "size of accents", "jitter")
"""Of the pitch's logarithm less its mean, over its spread, without the sentence's end."""
RHYTHM: Final = ("variability of neighbouring words", "of all words")
MODULATION: Final = ("to 0.02 cycles a letter", "to 0.05", "to 0.1", "to 0.2", "to 0.5")
"""Shares of the envelope's changes, a letter being as long as this speech's are on the mean."""
CEPSTRA: Final = tuple(f"spread of cepstrum {number}" for number in range(1, 13))
FEATURES: Final = {"contour": CONTOUR, "rhythm": RHYTHM, "envelope": MODULATION, "cepstra": CEPSTRA}
"""Group -> its features, in the order of `manner`'s values."""

_MODULATION_EDGES: Final = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5)
_END_S: Final = 0.350
"""Left out of the contour: a family bends the last 300 ms."""
_GRID_PER_LETTER: Final = 8
"""Points of the contour a letter, so that a slower pace is not taken for a smoother contour."""
_ACCENT: Final = 0.7
"""A peak of the contour counts as an accent from so many spreads above the valleys around."""


def manner(spoken: Spoken, rate_hz: int) -> NDArray[np.float64]:
    """float64 [values], as FEATURES lists them."""
    pitch, at_s = pitch_track(spoken.pcm, rate_hz)
    levels = levels_dbfs(spoken.pcm, rate_hz)
    audible = levels[levels > levels.max() - AUDIBLE_BELOW_PEAK_DB]
    letter_s = len(audible) * STEP_S / sum(character.isalnum() for character in spoken.text)
    return np.concatenate(
        [
            _contour(pitch, at_s, letter_s, len(spoken.words)),
            _rhythm(spoken),
            _modulation(audible, letter_s),
            _cepstra(spoken.pcm, rate_hz),
        ]
    )


def _contour(pitch: NDArray[np.float64], at_s: NDArray[np.float64], letter_s: float, words: int) -> NDArray[np.float64]:
    voiced = np.flatnonzero(pitch)
    voiced = voiced[at_s[voiced] < at_s[voiced[-1]] - _END_S]
    # Voiced stretches are joined: what is left is as many points as there are voiced letters, whatever the pace.
    count = max(round(len(voiced) * (at_s[1] - at_s[0]) / letter_s * _GRID_PER_LETTER), 30)
    shape = np.interp(np.linspace(0, len(voiced) - 1, count), np.arange(len(voiced)), np.log(pitch[voiced]))
    shape = (shape - shape.mean()) / shape.std()
    accents = _prominences(np.convolve(shape, np.ones(9) / 9, "valid"))
    accents = accents[accents > _ACCENT]
    return np.asarray(
        [
            np.mean(shape**3),
            np.mean(shape**4),
            shape[: count // 10].mean(),
            shape[-count // 3 :].mean() - shape[: count // 3].mean(),
            len(accents) / words,
            accents.mean() if len(accents) else 0.0,
            np.sqrt(np.median(np.diff(shape, 2) ** 2)),
        ]
    )


def _prominences(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """Height of each local maximum above the higher of the valleys that part it from what is higher."""
    peaks = np.flatnonzero((curve[1:-1] > curve[:-2]) & (curve[1:-1] >= curve[2:])) + 1
    found = []
    for peak in peaks:
        above = np.flatnonzero(curve > curve[peak])
        left = above[above < peak].max(initial=-1)
        right = above[above > peak].min(initial=len(curve))
        found.append(curve[peak] - max(curve[left + 1 : peak + 1].min(), curve[peak:right].min()))
    return np.asarray(found)


def _rhythm(spoken: Spoken) -> NDArray[np.float64]:
    """Of the length of a letter, word by word; words before a mark are left out, for their pauses are set."""
    closed = [following.start_char - word.end_char > 1 for word, following in pairwise(spoken.words)]
    a_letter = np.asarray(
        [
            (word.end_sample - word.start_sample) / max(word.end_char - word.start_char, 1)
            for word, is_closed in zip(spoken.words, [*closed, True], strict=True)
            if not is_closed
        ]
    )
    neighbours = [abs(left - right) / ((left + right) / 2) for left, right in pairwise(a_letter)]
    return np.asarray([np.mean(neighbours), a_letter.std() / a_letter.mean()])


def _modulation(levels_db: NDArray[np.float64], letter_s: float) -> NDArray[np.float64]:
    """Logarithm of each band's share."""
    envelope = 10 ** (levels_db / 20)
    changes = np.abs(np.fft.rfft((envelope / envelope.mean() - 1) * np.hanning(len(envelope)), 2048)) ** 2
    cycles = np.fft.rfftfreq(2048, STEP_S) * letter_s
    bands = [changes[(cycles >= low) & (cycles < high)].sum() for low, high in pairwise(_MODULATION_EDGES)]
    shares: NDArray[np.float64] = np.log(np.asarray(bands) / np.sum(bands) + 1e-6)
    return shares


def _cepstra(pcm: Samples, rate_hz: int) -> NDArray[np.float64]:
    """Spread over audible frames of 25 ms; level (number 0) is left out."""
    width, hop, size = round(0.025 * rate_hz), round(STEP_S * rate_hz), 1024
    frames = np.lib.stride_tricks.sliding_window_view(pcm.astype(np.float64), width)[::hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(width), size)) ** 2
    level = power.sum(axis=1)
    bands = np.log(power[level > level.max() * 10 ** (-AUDIBLE_BELOW_PEAK_DB / 10)] @ _mel_bands(size, rate_hz) + 1e-9)
    count = bands.shape[1]
    places = (np.arange(count) + 0.5) * np.pi / count
    cosines = np.cos(np.arange(1, len(CEPSTRA) + 1)[:, None] * places)
    spread: NDArray[np.float64] = (bands @ cosines.T / count).std(axis=0)
    return spread


def _mel_bands(
    size: int, rate_hz: int, bands: int = 26, low_hz: float = 80.0, high_hz: float = 8000.0
) -> NDArray[np.float64]:
    """Triangles, evenly spread in mel: float64 [size / 2 + 1, bands]."""
    mel = np.linspace(2595 * np.log10(1 + low_hz / 700), 2595 * np.log10(1 + high_hz / 700), bands + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    hz = np.fft.rfftfreq(size, 1 / rate_hz)[:, None]
    rise = (hz - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - hz) / (edges[2:] - edges[1:-1])
    return np.clip(np.minimum(rise, fall), 0, None)
