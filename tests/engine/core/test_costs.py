"""What plans are expected to take."""

from __future__ import annotations

import pytest

from engine.core.costs import MAX_RATIO, MIN_RATIO, Costs


def test_what_is_declared_is_believed_until_a_plan_has_landed() -> None:
    costs = Costs()
    assert costs.expected_s(0.03) == 0.03
    assert costs.frames_in(0.01) is None


def test_a_prefill_that_takes_three_times_as_long_is_soon_expected_to() -> None:
    costs = Costs()
    for _ in range(30):
        costs.note_prefill(0.02, 0, 0.06)
    assert costs.expected_s(0.02) == pytest.approx(0.06, rel=0.01)
    for _ in range(30):
        costs.note_prefill(0.02, 0, 0.02)
    assert costs.expected_s(0.02) == pytest.approx(0.02, rel=0.01)


def test_windows_made_in_the_same_plan_are_not_counted_as_prefill() -> None:
    costs = Costs()
    costs.note_windows(100, 0.01)
    for _ in range(40):
        costs.note_prefill(0.02, 200, 0.04)
    assert costs.ratio == pytest.approx(1.0, rel=0.01)


def test_one_stray_figure_moves_little_and_none_leaves_the_bounds() -> None:
    costs = Costs()
    costs.note_prefill(0.02, 0, 3600.0)
    assert costs.ratio <= 1 + 0.2 * MAX_RATIO
    for took_s in (3600.0, 0.0):
        for _ in range(100):
            costs.note_prefill(0.02, 0, took_s)
            costs.note_windows(10, took_s)
            assert MIN_RATIO <= costs.ratio <= MAX_RATIO


def test_a_budget_is_so_many_frames_and_at_least_one() -> None:
    costs = Costs()
    costs.note_windows(50, 0.005)
    assert costs.frames_in(0.01) == 100
    assert costs.frames_in(0.0) == 1


def test_what_a_small_plan_takes_for_itself_is_not_held_against_large_ones() -> None:
    costs = Costs()
    for _ in range(20):
        costs.note_windows(400, 0.010)
        costs.note_windows(4, 0.002)
    assert costs.frames_in(0.01) == pytest.approx(333, rel=0.1)
