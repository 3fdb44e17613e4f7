"""The assumed listener, and the windows its lead allows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.core.deadlines import PlayoutClock, window_frames
from tests.fakes.fake_model import DELAYED_ROWS_SPEC as SPEC


def test_a_listener_hears_in_real_time_from_the_first_delivery_on() -> None:
    clock = PlayoutClock()
    assert clock.lead_s(5.0) == 0.0
    clock.deliver(1.0, 5.0)
    clock.deliver(0.5, 5.2)
    assert clock.lead_s(5.5) == 1.0
    assert clock.lead_s(9.0) == 0.0


def test_a_listener_waits_where_there_is_nothing_to_hear() -> None:
    clock = PlayoutClock()
    clock.deliver(1.0, 5.0)
    clock.deliver(1.0, 8.0)
    assert clock.ends_at_s == 9.0


def test_what_is_thrown_away_is_no_lead() -> None:
    clock = PlayoutClock()
    clock.deliver(4.0, 5.0)
    clock.stop(6.0)
    assert clock.lead_s(6.0) == 0.0


def test_work_is_due_when_the_audio_before_it_ends_or_soon_after_it_came() -> None:
    clock = PlayoutClock()
    assert clock.deadline_s(7.0, 0.25) == 7.25
    clock.deliver(3.0, 6.0)
    assert clock.deadline_s(7.0, 0.25) == 9.0
    assert clock.deadline_s(20.0, 0.25) == 20.25


@given(lead_s=st.floats(0, 100), more_s=st.floats(0, 100))
def test_windows_grow_with_the_lead_within_the_familys_bounds(lead_s: float, more_s: float) -> None:
    small, large = window_frames(lead_s, SPEC), window_frames(lead_s + more_s, SPEC)
    assert SPEC.first_window_frames <= small <= large <= SPEC.max_window_frames
    assert small * SPEC.frame_s <= max(SPEC.first_window_frames * SPEC.frame_s, lead_s / 2 + 1e-9)
