"""A session's utterances by their ids."""

from __future__ import annotations

import pytest

from gateway.events import Done, OpenUtterance, UtteranceMetrics
from gateway.ledger import Played
from gateway.utterance import Utterance
from gateway.utterances import KEPT_AFTER_PLAYED_S, MAX_NUMBER, MAX_REMEMBERED_IDS, Utterances
from tests.fakes.talk import utterance_of


def opened(name: str, number: int = 0) -> Utterance:
    return utterance_of(OpenUtterance(name), number=number)


def finished(name: str, now_s: float) -> Utterance:
    utterance = opened(name)
    utterance.end(now_s)
    utterance.written(Done(name, "complete", 0, 24000, 0, UtteranceMetrics(0.0, None, 0.0, 0)), now_s, now_s)
    return utterance


def test_they_come_in_the_order_opened_and_are_known_by_their_ids() -> None:
    known = Utterances(3)
    a, b = opened("a"), opened("b")
    known.add(a)
    known.add(b)
    assert list(known) == [a, b]
    assert known.get("a") is known.live("a") is a
    assert known.get("c") is None
    assert (known.was_used("b"), known.was_used("c")) == (True, False)


def test_a_finished_one_is_kept_but_not_live_and_once_forgotten_only_its_id_is_known() -> None:
    known = Utterances(3)
    known.add(finished("a", 1.0))
    assert known.get("a") is not None
    assert known.live("a") is None
    assert known.forget("a")
    assert not known.forget("a")
    assert known.get("a") is None
    assert known.was_used("a")


def test_an_id_that_is_opened_again_is_live_again() -> None:
    known = Utterances(3)
    known.mark_over("a")
    again = opened("a")
    known.add(again)
    assert known.live("a") is again


def test_the_oldest_ids_are_forgotten_where_there_are_too_many() -> None:
    known = Utterances(3)
    for number in range(MAX_REMEMBERED_IDS + 1):
        known.mark_over(f"u{number}")
    assert not known.was_used("u0")
    assert known.was_used("u1")


@pytest.mark.parametrize(("last", "free"), [(6, 8), (MAX_NUMBER, 0)])
def test_a_free_number_is_the_next_that_none_of_them_has(last: int, free: int) -> None:
    known = Utterances(3)
    known.add(opened("seven", 7))
    known.add(opened("last", last))
    assert known.free_number() == free


def test_the_oldest_finished_ones_are_surplus() -> None:
    known = Utterances(1)
    known.add(finished("a", 1.0))
    known.add(opened("b"))
    known.add(finished("c", 2.0))
    assert known.surplus() == ["a"]


def test_a_finished_one_expires_some_time_after_it_was_played_and_a_cancelled_one_at_once() -> None:
    known = Utterances(3)
    known.add(finished("a", 1.0))
    assert known.expiries_s(2.0) == [1.0 + KEPT_AFTER_PLAYED_S]
    assert known.expired(1.0 + KEPT_AFTER_PLAYED_S - 0.1) == []
    assert known.expired(1.0 + KEPT_AFTER_PLAYED_S) == ["a"]
    cancelled = opened("b")
    cancelled.cancel(Played(0, "client"), 2.0)
    known.add(cancelled)
    assert known.expired(2.0) == ["b"]


def test_cleared_it_keeps_none() -> None:
    known = Utterances(3)
    known.add(opened("a"))
    known.clear()
    assert list(known) == []
