"""Band-limited resampling by a windowed sinc, on tensors: the definition that speech encoders were trained behind.

Each output sample is a sum over the input within 6 zero crossings of a sinc whose cut-off is 0.99 of the lower Nyquist
frequency, under a squared-cosine (Hann) window (J. O. Smith, "Digital audio resampling"). With a ratio in lowest terms
of p input to q output samples there are q phases, so it is one strided convolution with q filters.
"""

from __future__ import annotations

from math import ceil, gcd, pi

import torch
from torch import Tensor
from torch.nn import functional

ZERO_CROSSINGS = 6
ROLLOFF = 0.99


def resample(x: Tensor, from_hz: int, to_hz: int) -> Tensor:
    """x [..., S] at from_hz -> [..., ceil(S * to_hz / from_hz)], same dtype."""
    if from_hz == to_hz:
        return x
    divisor = gcd(from_hz, to_hz)
    step, phases = from_hz // divisor, to_hz // divisor
    cutoff = min(step, phases) * ROLLOFF
    reach = ceil(ZERO_CROSSINGS * step / cutoff)
    filters = _filters(step, phases, cutoff, reach).to(dtype=x.dtype, device=x.device)
    length = x.shape[-1]
    padded = functional.pad(x.reshape(-1, 1, length), (reach, reach + step))
    spread = functional.conv1d(padded, filters[:, None, :], stride=step)
    joined = spread.transpose(1, 2).reshape(*x.shape[:-1], -1)
    return joined[..., : ceil(phases * length / step)]


def _filters(step: int, phases: int, cutoff: float, reach: int) -> Tensor:
    """[phases, 2 * reach + step]: tap j of phase i weighs the input sample (j - reach) steps from its place."""
    taps = torch.arange(-reach, reach + step, dtype=torch.float64) / step
    places = torch.arange(phases, dtype=torch.float64)[:, None] / phases
    crossings = ((taps - places) * cutoff).clamp(-ZERO_CROSSINGS, ZERO_CROSSINGS)
    window = torch.cos(crossings * pi / ZERO_CROSSINGS / 2).square()
    return torch.sinc(crossings) * window * (cutoff / step)
