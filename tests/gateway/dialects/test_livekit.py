"""LiveKit Inference's protocol, by a transcript of its client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.talk import SAMPLES_PER_WORD
from tests.fakes.vendor_talk import VendorTalk, joined

WORD_BYTES = SAMPLES_PER_WORD * 2
CREATE = {"type": "session.create", "sample_rate": "24000", "encoding": "pcm_s16le", "extra": {}, "voice": "bass"}
FLUSH = {"type": "session.flush"}


def text(transcript: str, **fields: Any) -> dict[str, Any]:
    return {"type": "input_transcript", "transcript": transcript, "generation_config": {}, "extra": {}, **fields}


def livekit(model: str = "cartesia/sonic-3") -> VendorTalk:
    return VendorTalk("livekit", {"model": model})


def test_a_turn_is_created_spoken_aligned_and_done() -> None:
    talk = livekit()
    talk.send(CREATE, text("Hello there. "), FLUSH)
    assert talk.kinds() == ["session.created", "output_alignment", "output_audio", "done"]
    assert len({frame["session_id"] for frame in talk.got}) == 1
    assert len(joined(talk.got, "audio")) == 2 * WORD_BYTES
    assert talk.opened[0].options.voice == "bass"
    assert talk.frames(type="output_alignment")[0]["words"][1] == {"word": "there.", "start": 0.5, "end": 1.0}


def test_later_turns_of_a_pooled_connection_need_no_create() -> None:
    talk = livekit()
    talk.send(CREATE, text("One. "), FLUSH, text("Two. "), FLUSH, FLUSH)
    assert len(talk.frames(type="done")) == 3
    assert {event.options.voice for event in talk.opened} == {"bass"}


def test_words_carry_a_space_where_the_client_adds_none() -> None:
    talk = livekit("inworld/max")
    talk.send(CREATE, text("Hello. "), FLUSH)
    assert talk.frames(type="output_alignment")[0]["words"][0]["word"] == "Hello. "


def test_a_text_with_nothing_to_speak_is_a_little_silence() -> None:
    talk = livekit()
    talk.send(CREATE, text("..."), FLUSH)
    assert talk.kinds() == ["session.created", "output_audio", "done"]
    assert joined(talk.got, "audio") == bytes(960)


@pytest.mark.parametrize("texts", [(), (" ",)])
def test_a_turn_with_nothing_to_say_is_done(texts: tuple[str, ...]) -> None:
    talk = livekit()
    talk.send(CREATE, *(text(one) for one in texts), FLUSH)
    assert talk.kinds() == ["session.created", "done"]


def test_speed_may_come_with_the_session_or_the_turn() -> None:
    talk = livekit()
    talk.send({**CREATE, "extra": {"speed": 1.1}}, text("One. "), FLUSH)
    talk.send(text("Two. ", generation_config={"speed": 0.9}), FLUSH, text("3. ", generation_config={"speed": "slow"}))
    assert [event.options.speed for event in talk.opened] == [1.1, 0.9, 1.1]


@pytest.mark.parametrize("message", [{"type": "session.create", "encoding": "mp3"}, {"type": "x"}, "nonsense", "[]"])
def test_an_error_names_the_session(message: object) -> None:
    (error,) = livekit().send(message)
    assert error["type"] == "error"
    assert error["session_id"]
    assert error["message"]
