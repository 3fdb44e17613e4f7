"""Bootstrap intervals hold what they are of."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.meters.statistics import bootstrap_mean, bootstrap_ratio


def test_the_interval_of_a_mean_is_as_wide_as_theory_says() -> None:
    values = np.random.default_rng(1).normal(3.0, 1.0, 400)
    interval = bootstrap_mean(values)
    assert interval.mean == pytest.approx(values.mean())
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)


def test_a_rate_is_of_sums_and_not_a_mean_of_rates() -> None:
    assert bootstrap_ratio(np.asarray([1.0, 0.0]), np.asarray([1.0, 9.0])).mean == pytest.approx(0.1)


def test_equal_values_have_an_interval_of_no_width() -> None:
    interval = bootstrap_mean(np.full(20, 2.0))
    assert (interval.low, interval.high) == (2.0, 2.0)
