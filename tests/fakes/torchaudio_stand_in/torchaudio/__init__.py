"""Stands in for torchaudio in oracle tests: transformers' codec needs only its resampler.

One output sample at a time from the definition (windowed sinc, 6 zero crossings, roll-off 0.99, Hann), in numpy and
float64, so that it shares nothing with engine.runtime.resample.
"""

from __future__ import annotations

from math import ceil, gcd
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch


def _resample(waveform: Any, orig_freq: int, new_freq: int) -> Any:
    divisor = gcd(orig_freq, new_freq)
    before, after = orig_freq // divisor, new_freq // divisor
    cutoff = min(before, after) * 0.99
    x = waveform.double().numpy()
    length = x.shape[-1]
    out = np.zeros((*x.shape[:-1], ceil(after * length / before)))
    for m in range(out.shape[-1]):
        centre, reach = m * before / after, 6 * before / cutoff
        n = np.arange(max(0, ceil(centre - reach)), min(length, int(centre + reach) + 1))
        u = (n / before - m / after) * cutoff
        out[..., m] = (x[..., n] * np.sinc(u) * np.cos(u * np.pi / 12) ** 2).sum(-1) * cutoff / before
    return torch.from_numpy(out).to(waveform.dtype)


functional = SimpleNamespace(resample=_resample)
