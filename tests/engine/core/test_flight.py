"""Plans that are out, and what they forbid."""

from __future__ import annotations

import pytest

from engine.core.flight import Flight, Launched
from engine.core.step import Forget, PrefillItem, StepPlan, VocodeItem


def filling(tick: int, sequence: int) -> Launched:
    return launched(StepPlan(tick, prefill=(PrefillItem(sequence, (), 0, (), 0),)))


def voicing(tick: int, sequence: int) -> Launched:
    return launched(StepPlan(tick, vocode=(VocodeItem(sequence, 0, 0, 4, 0, 0, False),)))


def launched(plan: StepPlan) -> Launched:
    return Launched(plan, [], {}, 0.0, 0.0)


def test_of_a_sequence_a_prefill_and_a_window_may_be_out_but_not_two_of_a_kind() -> None:
    flight = Flight(3)
    flight.launch(filling(1, sequence=7))
    assert not flight.may_fill(7)
    assert flight.may_voice(7)
    assert flight.may_fill(8)
    flight.launch(voicing(2, sequence=7))
    assert flight.is_voicing(7)
    assert not flight.may_voice(7)


def test_a_sequence_that_is_being_told_to_forget_is_left_alone_until_that_has_landed() -> None:
    flight = Flight(2)
    plan = StepPlan(1, forgets=(Forget(7, 2), Forget(9, None)))
    flight.launch(launched(plan))
    assert flight.concerns(7)
    assert not flight.may_fill(7)
    assert not flight.may_voice(7)
    assert flight.dismissing == {9}
    flight.land(plan)
    assert not flight.concerns(7)
    assert flight.may_fill(7)
    assert not flight.dismissing


def test_what_has_landed_forbids_nothing_and_leaves_room() -> None:
    flight = Flight(1)
    first = filling(1, sequence=7)
    flight.launch(first)
    with pytest.raises(AssertionError, match="plan 1 has not been committed"):
        flight.check_room()
    assert flight.land(first.plan) is first
    flight.check_room()
    with pytest.raises(AssertionError, match="plan 1 is not out"):
        flight.land(first.plan)
