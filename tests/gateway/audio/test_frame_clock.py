"""The 20 ms clock does not drift."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.audio.frame_clock import FrameClock

STARTS = st.floats(0, 1e7)


def test_a_day_of_frames_ends_on_the_second() -> None:
    assert FrameClock(0.0).due_s(24 * 3600 * 50) == 86400.0


def test_no_frame_is_due_before_the_start_and_one_at_it() -> None:
    clock = FrameClock(10.0)
    assert clock.frames_due(9.999) == 0
    assert clock.frames_due(10.0) == 1


@given(STARTS, st.integers(0, 10**7))
def test_a_frame_is_due_exactly_at_its_time(start_s: float, frame: int) -> None:
    clock = FrameClock(start_s)
    assert clock.frames_due(clock.due_s(frame)) == frame + 1


@given(STARTS, st.floats(0, 1e5))
def test_what_is_due_lies_behind_and_the_next_ahead(start_s: float, elapsed_s: float) -> None:
    clock = FrameClock(start_s)
    now_s = start_s + elapsed_s
    due = clock.frames_due(now_s)
    assert clock.due_s(due - 1) <= now_s < clock.due_s(due)
