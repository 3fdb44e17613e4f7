"""G.711: mu-law and A-law, from and to 16-bit samples, by table."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Law = Literal["mulaw", "alaw"]

MULAW_BIAS: Final = 33
"""In 14-bit units (G.711 table 2a): it makes the segment of a magnitude the place of its highest set bit."""
MULAW_CLIP: Final = 8158
"""Largest 14-bit magnitude; what is louder is coded as this."""
MULAW_INVERT: Final = 0xFF
ALAW_INVERT: Final = 0x55
"""A-law inverts every even bit on the line (G.711 section 3.2)."""


def encode(law: Law, samples: NDArray[np.int16]) -> NDArray[np.uint8]:
    """One byte a sample: int16 [S] → uint8 [S]."""
    codes: NDArray[np.uint8] = _encode_table(law)[samples.view(np.uint16)]
    return codes


def decode(law: Law, codes: NDArray[np.uint8]) -> NDArray[np.int16]:
    """The sample each byte stands for: uint8 [S] → int16 [S]."""
    samples: NDArray[np.int16] = _decode_table(law)[codes]
    return samples


@functools.cache
def _encode_table(law: Law) -> NDArray[np.uint8]:
    """uint8 [65536], indexed by the sample's bits read as unsigned."""
    samples = np.arange(65536, dtype=np.uint16).view(np.int16).astype(np.int32)
    magnitudes = np.abs(samples)
    if law == "mulaw":
        biased = np.minimum(magnitudes >> 2, MULAW_CLIP) + MULAW_BIAS  # 33 … 8191
        segment = np.floor(np.log2(biased)).astype(np.int32) - 5
        mantissa = (biased >> (segment + 1)) & 0x0F
        code = (np.where(samples < 0, 0x80, 0) | segment << 4 | mantissa) ^ MULAW_INVERT
    else:
        steps = np.minimum(magnitudes >> 4, 2047)
        segment = np.maximum(np.floor(np.log2(np.maximum(steps, 1))).astype(np.int32) - 3, 0)
        mantissa = (steps >> np.maximum(segment - 1, 0)) & 0x0F
        code = (np.where(samples < 0, 0, 0x80) | segment << 4 | mantissa) ^ ALAW_INVERT
    table: NDArray[np.uint8] = code.astype(np.uint8)
    return table


@functools.cache
def _decode_table(law: Law) -> NDArray[np.int16]:
    """int16 [256]: the middle of each code's interval."""
    codes = np.arange(256, dtype=np.int32)
    if law == "mulaw":
        bits = codes ^ MULAW_INVERT
        is_negative = bits & 0x80 != 0
        segment, mantissa = bits >> 4 & 0x07, bits & 0x0F
        magnitude = (((2 * mantissa + MULAW_BIAS) << segment) - MULAW_BIAS) << 2
    else:
        bits = codes ^ ALAW_INVERT
        is_negative = bits & 0x80 == 0
        segment, mantissa = bits >> 4 & 0x07, bits & 0x0F
        magnitude = np.where(segment == 0, 2 * mantissa + 1, (2 * mantissa + 33) << np.maximum(segment - 1, 0)) << 3
    return np.where(is_negative, -magnitude, magnitude).astype(np.int16)
