"""One utterance: its states, and what it waits with."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import get_args

import pytest

from engine.speech import ModelInfo
from gateway.events import Done, OpenUtterance, Started
from gateway.utterance import TRANSITIONS, State, Utterance
from tests.fakes.talk import MODEL, chunk_of, utterance_of


def utterance(model: ModelInfo = MODEL) -> Utterance:
    return utterance_of(OpenUtterance("u"), model=model)


@pytest.mark.parametrize(("before", "after"), [*itertools.product(get_args(State), repeat=2)])
def test_what_is_not_in_the_table_cannot_happen(before: State, after: State) -> None:
    spoken = utterance()
    spoken.state = before
    if after in TRANSITIONS[before]:
        spoken.move_to(after)
        assert spoken.state == after
    else:
        with pytest.raises(AssertionError):
            spoken.move_to(after)


def test_segments_without_speech_wait_for_the_first_speakable_one() -> None:
    spoken = utterance()
    assert spoken.feed("... ", 0.0) == []
    assert spoken.flush(None, 0.0) == []
    segments = [*spoken.feed("Hello.", 0.0), *spoken.end(0.0)]
    assert "".join(segment.text for segment in segments).endswith("Hello.")
    assert segments[0].span.start == 0
    assert segments[-1].span.end == len("... Hello.")


def test_a_sound_that_the_model_makes_by_itself_is_speech() -> None:
    for support, fed in (("rendered", 1), ("contextual", 0)):
        spoken = utterance(replace(MODEL, tags={"sfx:laughter": support}))
        assert len([*spoken.feed("<|sfx:laughter|>", 0.0), *spoken.end(0.0)]) == fed


def test_nothing_but_silence_is_never_fed() -> None:
    spoken = utterance()
    assert [*spoken.feed(" ... ", 0.0), *spoken.end(0.0)] == []


def test_started_comes_once_before_the_first_speech_and_done_last() -> None:
    spoken = utterance()
    (segment,) = [*spoken.feed("Hello there.", 0.0), *spoken.end(0.0)]
    spoken.take_chunk(chunk_of(segment, 0, is_final=True))
    events = []
    while spoken.head() != "nothing":
        events.append(spoken.next_event())
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Done)
    assert sum(isinstance(event, Started) for event in events) == 1
