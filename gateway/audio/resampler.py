"""A streaming sample-rate converter that holds back only half its filter, and that no cut of the input can change.

Output sample m is the band-limited input at time m · in / out: a Kaiser-windowed sinc over `ZERO_CROSSINGS` zero
crossings on either side, at the lower of the two rates. The ratio in lowest terms is L outputs per M inputs, so the
taps repeat every L outputs: a block of L outputs (times a small whole number) is one product of a stretch of input
with a fixed matrix. Blocks lie on a fixed grid and every product has the same shape, so that each output is computed
by the same operations whatever the chunks were.

Why not libsoxr, whose streams are split-invariant and aligned too: it filters by FFT in blocks and so holds back up to
41 ms at quality LQ and 37 to 79 ms at HQ (soxr 1.1.0 from 24 kHz to the usual rates from 8 to 48 kHz), and what it
holds cannot be had at the end of a segment. This one holds back 40 samples of the lower rate, 1.7 ms for rates of
24 kHz and up and 5 ms at 8 kHz, and nothing at a boundary.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.audio.sample_map import SampleMap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pcm = NDArray[np.float32]

ZERO_CROSSINGS: Final = 40
STOP_BAND_DB: Final = 80.0
"""Below the rounding noise of speech in 16 bits, and far below that of G.711."""
KAISER_BETA: Final = 0.1102 * (STOP_BAND_DB - 8.7)
"""Kaiser's rule for this attenuation (Oppenheim & Schafer, Discrete-Time Signal Processing, 7.6.1)."""
TRANSITION: Final = (STOP_BAND_DB - 7.95) / (14.36 * 2 * ZERO_CROSSINGS)
"""Width of the transition band as a share of the lower rate, by the same rule."""
CUT_OFF: Final = 0.5 - TRANSITION / 2
"""Middle of the transition band, in cycles per sample of the lower rate; the stop band begins at its Nyquist."""
MIN_BLOCK_S: Final = 0.0025
"""Blocks shorter than this cost more in calls than in arithmetic."""


@dataclass(frozen=True, slots=True)
class _Filter:
    """The taps for one ratio: `matrix` float32 [C, L], C inputs of which the first lies `reach` before the block."""

    block_in: int
    block_out: int
    reach: int
    matrix: Pcm


@functools.lru_cache(maxsize=32)
def _filter_for(in_rate_hz: int, out_rate_hz: int) -> _Filter:
    divisor = math.gcd(in_rate_hz, out_rate_hz)
    repeats = max(1, math.ceil(MIN_BLOCK_S * divisor))
    block_in = in_rate_hz // divisor * repeats
    block_out = out_rate_hz // divisor * repeats
    scale = min(1.0, out_rate_hz / in_rate_hz)
    half_width = ZERO_CROSSINGS / scale
    reach = math.ceil(half_width)
    columns = block_in + 2 * reach + 1
    centres = np.arange(block_out) * (block_in / block_out) + reach
    distance = np.arange(columns)[:, None] - centres[None, :]
    position = distance / half_width
    is_inside = np.abs(position) < 1.0
    taps = np.zeros(distance.shape)
    taps[is_inside] = np.sinc(2 * CUT_OFF * scale * distance[is_inside]) * np.i0(
        KAISER_BETA * np.sqrt(1.0 - position[is_inside] ** 2)
    )
    taps /= taps.sum(axis=0, keepdims=True)  # each phase passes a constant unchanged
    return _Filter(block_in, block_out, reach, np.ascontiguousarray(taps, dtype=np.float32))


class Resampler:
    """One utterance's converter. After n samples in, drained, `SampleMap.to_output(n)` samples have come out."""

    def __init__(self, in_rate_hz: int, out_rate_hz: int) -> None:
        self._map = SampleMap(in_rate_hz, out_rate_hz)
        self._filter = _filter_for(in_rate_hz, out_rate_hz)
        self._received = 0
        self._emitted = 0
        self._kept: Pcm = np.zeros(self._filter.reach, dtype=np.float32)
        """Input from `reach` samples before the block that the next output lies in."""

    def resample(self, pcm: Pcm, is_drained: bool) -> Pcm:
        """The output that `pcm` (float32 [S]) completes; drained: all of it, with silence taken for what may follow.

        A drain is for boundaries of speech: samples that follow it still see the real input on both sides.
        """
        self._received += len(pcm)
        kept = np.concatenate((self._kept, pcm)) if len(pcm) else self._kept
        ready = self._ready(is_drained)
        if ready <= self._emitted:
            self._kept = kept
            return np.zeros(0, dtype=np.float32)
        block_in, block_out = self._filter.block_in, self._filter.block_out
        first = self._emitted // block_out
        count = -(-ready // block_out) - first
        columns, _ = self._filter.matrix.shape
        missing = (count - 1) * block_in + columns - len(kept)
        padded = np.concatenate((kept, np.zeros(missing, dtype=np.float32))) if missing > 0 else kept
        stretches = np.lib.stride_tricks.sliding_window_view(padded, columns)[: count * block_in : block_in]
        # [count, 1, C] @ [C, L]: one product of the same shape for every block, whatever `count` is.
        produced = np.matmul(np.ascontiguousarray(stretches)[:, None, :], self._filter.matrix).reshape(-1)
        offset = first * block_out
        output: Pcm = produced[self._emitted - offset : ready - offset]
        self._emitted = ready
        consumed = (ready // block_out - first) * block_in
        self._kept = kept[consumed:].copy() if consumed else kept
        return output

    def _ready(self, is_drained: bool) -> int:
        """How many outputs can have been emitted by now."""
        if is_drained:
            return self._map.to_output(self._received)
        last = self._received - 1 - self._filter.reach
        if last < 0:
            return self._emitted
        return last * self._map.output_rate_hz // self._map.engine_rate_hz + 1
