"""Lanes for contexts that live at once."""

from __future__ import annotations

from gateway.dialects.lane_pool import MAIN_LANE, LanePool


def test_the_first_free_lane_is_taken_so_that_turns_in_succession_share_one() -> None:
    lanes = LanePool()
    assert (lanes.take("a"), lanes.take("b"), lanes.take("c")) == (MAIN_LANE, "side 1", "side 2")
    lanes.release("b")
    lanes.release("a")
    assert (lanes.take("d"), lanes.take("e")) == (MAIN_LANE, "side 1")


def test_releasing_what_has_none_does_nothing() -> None:
    lanes = LanePool()
    lanes.release("a")
    assert lanes.take("a") == MAIN_LANE
