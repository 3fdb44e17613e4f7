"""Whether renderings of a kind can be told from those of others: a linear classifier that never saw the sentence."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.meters.statistics import Interval, bootstrap_mean

Features = NDArray[np.float64]
"""float64 [sentences, kinds, values]: each sentence rendered once in each kind."""

_COMPONENTS: Final = 24
"""More values than these are first reduced to their principal components, found without the kinds."""
_SHRINKAGE: Final = 0.2
"""Of the covariance inside kinds towards its diagonal's mean: there are few renderings for many values."""
PERMUTATIONS: Final = 200
_SEED: Final = 20_240


@dataclass(frozen=True, slots=True)
class Separation:
    """How often held-out renderings are given their own kind."""

    accuracy: Interval
    """By a bootstrap over sentences."""
    chance: float
    chance_p95: float
    """The accuracy that kinds shuffled inside each sentence reach in one run of twenty."""
    p_value: float
    confusion: NDArray[np.int64]
    """int64 [true kind, given kind]."""
    pairs: dict[tuple[int, int], Interval]
    """Two kinds -> the accuracy of a classifier of those alone; chance is a half."""


def separate(features: Features) -> Separation:
    """Leave one sentence out, all its renderings at once. Values that are the same everywhere tell nothing."""
    features = _reduced(_standardised(features))
    sentences, kinds, _ = features.shape
    given = _given(features)
    hits = np.mean(given == np.arange(kinds), axis=1)
    confusion = np.zeros((kinds, kinds), np.int64)
    np.add.at(confusion, (np.tile(np.arange(kinds), (sentences, 1)), given), 1)
    random = np.random.default_rng(_SEED)
    shuffled = []
    for _ in range(PERMUTATIONS):
        order = np.argsort(random.random((sentences, kinds)), axis=1)
        mixed = np.take_along_axis(features, order[:, :, None], axis=1)
        shuffled.append(float(np.mean(_given(mixed) == np.arange(kinds))))
    reached = sum(accuracy >= hits.mean() for accuracy in shuffled)
    return Separation(
        bootstrap_mean(hits),
        1 / kinds,
        float(np.percentile(shuffled, 95)),
        (reached + 1) / (PERMUTATIONS + 1),
        confusion,
        {
            pair: bootstrap_mean(np.mean(_given(features[:, list(pair)]) == np.arange(2), axis=1))
            for pair in combinations(range(kinds), 2)
        },
    )


def beside(features: Features) -> Features:
    """Each rendering less the mean of its sentence's: what is left is what the kinds change, not what is said."""
    return features - features.mean(axis=1, keepdims=True)


def _standardised(features: Features) -> Features:
    flat = features.reshape(-1, features.shape[2])
    spread = flat.std(axis=0)
    return (features - flat.mean(axis=0))[:, :, spread > 1e-9] / spread[spread > 1e-9]


def _reduced(features: Features) -> Features:
    if features.shape[2] <= _COMPONENTS:
        return features
    flat = features.reshape(-1, features.shape[2])
    axes = np.linalg.svd(flat, full_matrices=False)[2][:_COMPONENTS]
    return features @ axes.T


def _given(features: Features) -> NDArray[np.int64]:
    """The kind given to each rendering by linear discriminants of the other sentences: int64 [sentences, kinds]."""
    sentences, kinds, values = features.shape
    sums = features.sum(axis=0)
    given = np.zeros((sentences, kinds), np.int64)
    moments = np.einsum("skv,skw->kvw", features, features)
    for held_out, own in enumerate(features):
        count = sentences - 1
        means = (sums - own) / count
        scatter = np.sum(moments - own[:, :, None] * own[:, None, :], axis=0) - count * means.T @ means
        within = scatter / (count * kinds)
        within = (1 - _SHRINKAGE) * within + _SHRINKAGE * np.trace(within) / values * np.eye(values)
        weights = np.linalg.solve(within + 1e-9 * np.eye(values), means.T)
        scores = own @ weights - 0.5 * np.sum(means * weights.T, axis=1)
        given[held_out] = np.argmax(scores, axis=1)
    return given
