"""Turns without names."""

from __future__ import annotations

from gateway.dialects.turns import Turns
from gateway.events import Done, UtteranceMetrics


def done(utterance: str, samples: int = 0) -> Done:
    return Done(utterance, "complete", samples, 24000, 3, UtteranceMetrics(0.0, None, 0.0, 0))


def test_text_goes_to_the_last_turn_until_it_is_flushed() -> None:
    turns = Turns()
    assert turns.current is None
    first = turns.open()
    assert turns.current is first
    first.is_flushed = True
    assert turns.current is None
    assert turns.open() is turns.current is not first


def test_ends_are_told_in_the_order_of_the_turns() -> None:
    turns = Turns()
    one, two = turns.open(), turns.open()
    assert turns.ended(two.utterance) == []
    assert turns.ended(one.utterance) == [one, two]
    assert turns.live() == []


def test_a_turn_that_ended_by_itself_takes_no_more_text() -> None:
    turns = Turns()
    one = turns.open()
    turns.ended(one.utterance)
    assert turns.current is None


def test_a_turn_is_quiet_where_its_text_gave_no_sample() -> None:
    turns = Turns()
    blank, quiet, loud = turns.open(), turns.open(), turns.open()
    quiet.has_text = loud.has_text = True
    turns.done(done(blank.utterance))
    turns.done(done(quiet.utterance))
    turns.done(done(loud.utterance, 5))
    assert (blank.is_quiet, quiet.is_quiet, loud.is_quiet) == (False, True, False)


def test_what_was_cleared_is_forgotten() -> None:
    turns = Turns()
    one = turns.open()
    turns.clear()
    assert turns.of(one.utterance) is None
    assert turns.ended(one.utterance) == []
    assert turns.open().utterance != one.utterance
