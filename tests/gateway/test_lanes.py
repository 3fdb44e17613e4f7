"""Whose turn it is in which lane, and how far ahead of the listener."""

from __future__ import annotations

import pytest

from gateway.errors import WarningCode
from gateway.events import Audio, Done, OpenUtterance, ServerEvent, Warned
from gateway.lanes import MIN_PACE_S, Lanes
from gateway.utterance import Utterance
from tests.fakes.talk import chunk_of, utterance_of


def speaking(name: str, lane: str = "main", *, words: int = 8, max_ahead_s: float | None = None) -> Utterance:
    """Half a second a word waits to be sent."""
    utterance = utterance_of(OpenUtterance(name, lane=lane), max_ahead_s=max_ahead_s)
    segments = [*utterance.feed("Hello " * words, 0.0), *utterance.end(0.0)]
    place = 0
    for segment in segments:
        chunk = chunk_of(segment, place, is_final=segment is segments[-1])
        place += len(chunk.pcm)
        utterance.take_chunk(chunk)
    return utterance


def lanes_of(*utterances: Utterance) -> Lanes:
    lanes = Lanes(utterances)
    for utterance in utterances:
        lanes.join(utterance)
    return lanes


def taken(lanes: Lanes, utterances: dict[str, Utterance], now_s: float, most: int = 1000) -> list[ServerEvent]:
    """What may go at this time, written as it is taken."""
    events: list[ServerEvent] = []
    while len(events) < most and (event := lanes.take(now_s)) is not None:
        events.append(event)
        utterance = utterances[getattr(event, "utterance", "")]
        utterance.written(event, now_s, lanes.player_free_at_s(utterance, now_s))
        if isinstance(event, Done):
            lanes.leave(utterance, now_s)
    return events


def audio_s(events: list[ServerEvent]) -> float:
    return sum(event.sample_count / event.sample_rate_hz for event in events if isinstance(event, Audio))


def test_a_lane_is_heard_in_order_and_its_next_one_begins_when_the_last_message_is_out() -> None:
    utterances = {name: speaking(name) for name in "ab"}
    lanes = lanes_of(*utterances.values())
    assert len(lanes) == 2
    assert [tuple(one.id for one in lane) for lane in lanes] == [("a", "b")]
    names = [getattr(event, "utterance", "") for event in taken(lanes, utterances, 3.0)]
    assert names == sorted(names)
    assert set(names) == {"a", "b"}
    assert utterances["b"].head_since_s == 3.0
    assert len(lanes) == 0
    assert list(lanes) == []


def test_lanes_take_turns() -> None:
    utterances = {"a": speaking("a", "one"), "b": speaking("b", "two")}
    events = taken(lanes_of(*utterances.values()), utterances, 0.0)
    heads = [event.utterance for event in events if isinstance(event, Audio)][:6]
    assert heads in (["a", "b"] * 3, ["b", "a"] * 3)


def test_a_message_at_the_head_of_its_own_queue_overtakes_the_audio_of_others() -> None:
    utterances = {"a": speaking("a"), "b": utterance_of(OpenUtterance("b"))}
    lanes = lanes_of(*utterances.values())
    utterances["b"].warn(WarningCode.UNKNOWN_TAG, "m")
    assert isinstance(lanes.take(0.0), Warned)


def test_audio_goes_no_further_ahead_of_the_player_than_allowed_and_the_clock_says_when_it_goes_on() -> None:
    utterances = {"a": speaking("a", max_ahead_s=1.0)}
    lanes = lanes_of(*utterances.values())
    assert audio_s(taken(lanes, utterances, 0.0)) == pytest.approx(1.0, abs=0.1)
    (lane,) = lanes
    at_s = lanes.audio_at_s(lane[0], 0.0)
    assert at_s is not None
    assert MIN_PACE_S <= at_s <= 0.1
    assert audio_s(taken(lanes, utterances, 0.5)) == pytest.approx(0.5, abs=0.1)


def test_acks_decide_and_no_clock_where_the_client_gives_them() -> None:
    utterances = {"a": speaking("a", max_ahead_s=1.0)}
    lanes = lanes_of(*utterances.values())
    taken(lanes, utterances, 0.0)
    utterances["a"].ledger.acknowledged(0.5)
    (lane,) = lanes
    taken(lanes, utterances, 0.0)
    assert lanes.audio_at_s(lane[0], 60.0) is None
    assert lanes.take(60.0) is None


def test_what_a_finished_one_still_has_to_play_counts_as_ahead_and_delays_the_next_ones_player() -> None:
    first, second = speaking("a", words=4), speaking("b", max_ahead_s=1.0)
    utterances = {"a": first, "b": second}
    lanes = lanes_of(first, second)
    while len(lanes) == 2:
        taken(lanes, utterances, 0.0, most=1)
    assert lanes.player_free_at_s(second, 0.0) == pytest.approx(2.0)
    assert lanes.player_free_at_s(first, 0.0) == 0.0
    assert audio_s(taken(lanes, utterances, 0.0)) == 0.0
    assert audio_s(taken(lanes, utterances, 1.5)) > 0.0


def test_nothing_waits_for_the_clock_where_nothing_is_to_be_sent_or_nothing_bounds_it() -> None:
    quiet, free = utterance_of(OpenUtterance("a"), max_ahead_s=1.0), speaking("b")
    assert lanes_of(quiet).audio_at_s(quiet, 0.0) is None
    assert lanes_of(free).audio_at_s(free, 0.0) is None


def test_cleared_there_is_nobody() -> None:
    lanes = lanes_of(speaking("a"))
    lanes.clear()
    assert len(lanes) == 0
    assert lanes.take(0.0) is None
