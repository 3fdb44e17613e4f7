"""Paired comparison with bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 10_000
_SEED = 20_240


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def bootstrap_mean(values: NDArray[np.float64]) -> Interval:
    return bootstrap_ratio(values, np.ones_like(values))


def bootstrap_ratio(numerators: NDArray[np.float64], denominators: NDArray[np.float64]) -> Interval:
    """Of sum(numerators) / sum(denominators), texts drawn with replacement: so for a rate over words of texts."""
    random = np.random.default_rng(_SEED)
    drawn = random.integers(0, len(numerators), (_RESAMPLES, len(numerators)))
    ratios = numerators[drawn].sum(axis=1) / denominators[drawn].sum(axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return Interval(float(numerators.sum() / denominators.sum()), float(low), float(high))


def bootstrap_percentile_gap(left: NDArray[np.float64], right: NDArray[np.float64], percent: float) -> Interval:
    """Of percentile(left) - percentile(right), pairs drawn with replacement; `mean` is the gap of what was given."""
    random = np.random.default_rng(_SEED)
    drawn = random.integers(0, len(left), (_RESAMPLES, len(left)))
    gaps = np.percentile(left[drawn], percent, axis=1) - np.percentile(right[drawn], percent, axis=1)
    low, high = np.percentile(gaps, [2.5, 97.5])
    return Interval(float(np.percentile(left, percent) - np.percentile(right, percent)), float(low), float(high))
