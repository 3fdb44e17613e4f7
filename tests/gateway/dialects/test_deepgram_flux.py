"""Deepgram's `/v2/speak`: turns with ids, interrupts that tell what had been heard."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.fakes.talk import SAMPLES_PER_WORD
from tests.fakes.vendor_talk import VendorTalk

WORD_BYTES = SAMPLES_PER_WORD * 2
FLUSH, CLOSE = {"type": "Flush"}, {"type": "Close"}


def say(text: str) -> dict[str, str]:
    return {"type": "Speak", "text": text}


def interrupt(offset_ms: int | None = None) -> dict[str, Any]:
    offset = {} if offset_ms is None else {"playback_offset": {"type": "time_ms", "value": offset_ms}}
    return {"type": "Interrupt", **offset}


def flux(*, is_engine_held: bool = False) -> VendorTalk:
    return VendorTalk("deepgram flux", {"model": "alto", "sample_rate": "24000"}, is_engine_held=is_engine_held)


def test_a_turn_runs_from_connected_to_speech_metadata() -> None:
    talk = flux()
    talk.send(say("Hello"), say(" there."), FLUSH)
    assert talk.kinds() == ["Connected", "SpeechStarted", "binary", "Flushed", "SpeechMetadata"]
    metadata = talk.got[-1]
    assert re.fullmatch(r"dg_sp_[0-9a-z]{12}", metadata["speech_id"])
    assert metadata["audio_duration_ms"] == 1000
    assert metadata["input_character_count"] == len("Hello there.")
    assert {frame["speech_id"] for frame in talk.got if isinstance(frame, dict) and "speech_id" in frame} == {
        metadata["speech_id"]
    }


def test_turns_have_ids_of_their_own() -> None:
    talk = flux()
    talk.send(say("One."), FLUSH, say("Two."), FLUSH)
    first, second = (frame["speech_id"] for frame in talk.frames(type="SpeechMetadata"))
    assert first != second


@pytest.mark.parametrize("texts", [(), ("",), ("  ",), ("...",)])
def test_a_turn_with_nothing_to_say_is_warned_about_and_ends_with_zero_length(texts: tuple[str, ...]) -> None:
    talk = flux()
    talk.send(*(say(text) for text in texts), FLUSH)
    assert talk.kinds() == ["Connected", "SpeechStarted", "Warning", "Flushed", "SpeechMetadata"]
    assert talk.frames(type="Warning")[0]["code"] == "NO_SYNTHESIZABLE_TEXT"
    assert talk.got[-1]["audio_duration_ms"] == 0


def test_an_interrupt_with_an_offset_tells_what_was_spoken() -> None:
    talk = flux()
    talk.send(say("One two three four. "), {"type": "KeepAlive"})
    talk.send(say("Never heard."), interrupt(1000))
    answer = talk.frames(type="SpeechInterrupted")[0]
    assert answer["text_spoken"] + answer["text_remaining"] == "One two three four. Never heard."
    assert answer["text_spoken"] == "One two "
    assert answer["audio_played_ms"] == 1000
    assert not talk.frames(type="SpeechMetadata")


def test_offsets_count_from_the_sessions_start() -> None:
    talk = flux()
    talk.send(say("One two."), FLUSH, say("Three four five. "))
    talk.send(interrupt(1500))
    assert talk.frames(type="SpeechInterrupted")[0]["text_spoken"] == "Three "


def test_an_offset_may_fall_into_a_turn_that_is_already_told_as_over() -> None:
    talk = flux()
    talk.send(say("One two three four."), FLUSH)
    talk.send(interrupt(500))
    answer = talk.frames(type="SpeechInterrupted")[0]
    assert (answer["text_spoken"], answer["text_remaining"]) == ("One ", "two three four.")


def test_an_interrupt_without_an_offset_says_nothing_about_the_text() -> None:
    talk = flux(is_engine_held=True)
    talk.send(say("A long story."))
    (answer,) = talk.send(interrupt())
    assert answer["type"] == "SpeechInterrupted"
    assert "text_spoken" not in answer
    assert talk.speak() == []


def test_an_interrupt_before_the_first_audio_is_not_ignored() -> None:
    talk = flux(is_engine_held=True)
    talk.send(say("A long story."), FLUSH)
    (answer,) = talk.send(interrupt(0))
    assert answer["text_remaining"] == "A long story."
    assert talk.speak() == []


def test_an_offset_has_to_advance_past_the_last_one() -> None:
    talk = flux()
    talk.send(say("One two three four. "), interrupt(1000), say("More of it. "))
    (warning,) = talk.send(interrupt(900))
    assert (warning["type"], warning["code"]) == ("Warning", "INVALID_INTERRUPT_OFFSET")


def test_one_interrupt_is_carried_out_at_a_time() -> None:
    talk = flux(is_engine_held=True)
    talk.send(say("A long story."))
    events = talk.dialect.receive('{"type": "Interrupt"}')
    talk.send(interrupt())
    assert talk.got[-1]["code"] == "INTERRUPT_IN_PROGRESS"
    talk._handle(events)
    talk.pump()
    assert talk.got[-1]["type"] == "SpeechInterrupted"


def test_an_interrupt_of_nothing_is_a_warning() -> None:
    (warning,) = flux().send(interrupt(100))
    assert (warning["type"], warning["code"]) == ("Warning", "NO_ACTIVE_SPEECH")


def test_a_turn_after_an_interrupt_counts_from_what_was_played() -> None:
    talk = flux()
    talk.send(say("One two three four. "), interrupt(1000), say("Five six seven. "), interrupt(1500))
    assert talk.frames(type="SpeechInterrupted")[1]["text_spoken"] == "Five "


@pytest.mark.parametrize(
    ("speed", "code"), [(0.4, "SPEED_OUT_OF_RANGE"), (1.6, "SPEED_OUT_OF_RANGE"), (1.03, "SPEED_INCREMENT_INVALID")]
)
def test_a_speed_that_cannot_be_is_a_failure_with_its_code(speed: float, code: str) -> None:
    (failure,) = flux().send({"type": "Configure", "speed": speed})
    assert (failure["type"], failure["code"], failure["value"]) == ("ConfigureFailure", code, speed)


def test_a_configured_speed_holds_for_later_turns() -> None:
    talk = flux()
    (success,) = talk.send({"type": "Configure", "speed": 1.25})
    assert success == {"type": "ConfigureSuccess", "applied": {"speed": 1.25}}
    talk.send(say("Hello."))
    assert talk.opened[0].options.speed == 1.25


def test_close_finishes_the_turn_tells_the_totals_and_closes() -> None:
    talk = flux()
    talk.send(say("One two."), FLUSH, say("Three."), CLOSE)
    assert talk.kinds()[-2:] == ["SpeechMetadata", "SessionMetadata"]
    assert talk.got[-1]["total_audio_duration_ms"] == 1500
    assert talk.got[-1]["total_input_character_count"] == len("One two.Three.")
    assert talk.close_code == 1000


def test_close_of_an_idle_connection_tells_the_totals_too() -> None:
    talk = flux()
    assert [frame["type"] for frame in talk.send(CLOSE)] == ["SessionMetadata"]
    assert talk.close_code == 1000
