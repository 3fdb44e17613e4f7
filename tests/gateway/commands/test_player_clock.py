"""The listener's player as arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.commands.player_clock import PlayerClock

RATE_HZ = 1000


def player(buffer_s: float = 0.0) -> PlayerClock:
    return PlayerClock(RATE_HZ, buffer_s)


def test_a_player_without_buffer_starts_with_the_first_samples() -> None:
    clock = player()
    clock.receive(0, 4.0)
    assert clock.started_s is None
    clock.receive(1, 5.0)
    assert clock.started_s == 5.0
    assert clock.heard_at_s(0) == 5.0


def test_a_player_with_a_buffer_starts_once_that_is_full_or_nothing_more_comes() -> None:
    clock = player(buffer_s=0.1)
    clock.receive(60, 1.0)
    assert clock.started_s is None
    clock.receive(60, 2.0)
    assert clock.started_s == 2.0
    short = player(buffer_s=0.1)
    short.receive(60, 1.0)
    short.finish(1.5)
    assert short.started_s == 1.5


def test_audio_in_time_is_no_underrun() -> None:
    clock = player()
    clock.receive(100, 0.0)
    clock.receive(100, 0.1)
    clock.receive(100, 0.15)
    assert (clock.underruns, clock.underrun_s) == (0, 0.0)
    assert clock.heard_at_s(299) == pytest.approx(0.299)


def test_a_late_piece_is_an_underrun_as_long_as_the_silence_and_shifts_what_follows() -> None:
    clock = player()
    clock.receive(100, 0.0)
    clock.receive(100, 0.25)
    assert clock.underruns == 1
    assert clock.underrun_s == pytest.approx(0.15)
    assert clock.heard_at_s(100) == pytest.approx(0.25)


def test_the_end_of_the_audio_is_no_underrun() -> None:
    clock = player()
    clock.receive(100, 0.0)
    clock.finish(9.0)
    assert clock.underruns == 0


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0, 2)), min_size=1, max_size=30), st.floats(0, 0.5))
def test_what_is_heard_takes_its_own_time_and_the_underruns(pieces: list[tuple[int, float]], buffer_s: float) -> None:
    clock = player(buffer_s)
    now_s = 0.0
    for samples, wait_s in pieces:
        now_s += wait_s
        clock.receive(samples, now_s)
    clock.finish(now_s)
    assert clock.started_s is not None
    end_s = clock.heard_at_s(clock.received_samples)
    assert end_s - clock.started_s == pytest.approx(clock.received_samples / RATE_HZ + clock.underrun_s)
    assert end_s >= now_s
