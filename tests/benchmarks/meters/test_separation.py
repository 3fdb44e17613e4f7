"""Kinds that differ are told apart, kinds that do not are not, and what is said is no help."""

from __future__ import annotations

import numpy as np

from benchmarks.meters.separation import beside, separate


def renderings(shift: float, sentences: int = 30, kinds: int = 3, values: int = 5) -> np.ndarray:
    """Noise, sentence by sentence, of which each kind has a value of its own moved by `shift`."""
    random = np.random.default_rng(1)
    features = random.normal(size=(sentences, kinds, values)) + 5 * random.normal(size=(sentences, 1, values))
    for kind in range(kinds):
        features[:, kind, kind] += shift
    return features


def test_kinds_that_differ_are_told_apart_beside_each_other() -> None:
    found = separate(beside(renderings(4.0)))
    assert found.accuracy.mean > 0.9
    assert found.p_value < 0.01
    assert found.confusion.sum() == 90
    assert np.all(np.diag(found.confusion) > 25)
    assert set(found.pairs) == {(0, 1), (0, 2), (1, 2)}
    assert all(pair.mean > 0.9 for pair in found.pairs.values())


def test_kinds_that_are_the_same_are_found_by_chance_only() -> None:
    found = separate(beside(renderings(0.0)))
    assert found.accuracy.mean <= found.chance_p95 + 0.05
    assert found.p_value > 0.05
    assert abs(found.chance_p95 - found.chance) < 0.2


def test_many_values_of_noise_do_not_look_like_a_difference() -> None:
    found = separate(beside(renderings(0.0, values=200)))
    assert found.p_value > 0.05


def test_a_value_that_never_changes_tells_nothing() -> None:
    features = renderings(4.0)
    constant = np.concatenate([features, np.ones((30, 3, 1))], axis=2)
    assert separate(beside(constant)).accuracy == separate(beside(features)).accuracy
