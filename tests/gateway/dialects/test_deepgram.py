"""Deepgram's `/v1/speak`, by transcripts of what the SDK, Pipecat and LiveKit really send."""

from __future__ import annotations

import pytest

from gateway.dialects.deepgram import TAIL_CHARS, DeepgramDialect
from gateway.errors import HandshakeError
from tests.fakes.talk import SAMPLES_PER_WORD
from tests.fakes.vendor_talk import VendorTalk, entry_named, facts, handshake

WORD_BYTES = SAMPLES_PER_WORD * 2
FLUSH, CLEAR, CLOSE = {"type": "Flush"}, {"type": "Clear"}, {"type": "Close"}


def say(text: str) -> dict[str, str]:
    return {"type": "Speak", "text": text}


def deepgram(**query: str) -> VendorTalk:
    return VendorTalk("deepgram", {"model": "alto", "encoding": "linear16", "sample_rate": "24000", **query})


def test_a_turn_is_metadata_then_raw_audio_then_one_flushed() -> None:
    talk = deepgram()
    talk.send(say("Hello "), say("big "), say("world. "), FLUSH)
    assert talk.kinds() == ["Metadata", "binary", "Flushed"]
    assert len(talk.binary()) == 3 * WORD_BYTES
    assert talk.got[-1] == {"type": "Flushed", "sequence_id": 0}


def test_every_flush_is_answered_once_and_in_order_even_with_nothing_to_say() -> None:
    talk = deepgram()
    talk.send(FLUSH, say("One."), FLUSH, FLUSH, say("  "), FLUSH)
    assert talk.kinds() == ["Metadata", "Flushed", "binary", "Flushed"]
    assert [frame["sequence_id"] for frame in talk.frames(type="Flushed")] == [0, 1, 2, 3]


def test_a_turn_with_nothing_to_speak_is_a_little_silence() -> None:
    talk = deepgram()
    talk.send(say("..."), FLUSH)
    assert talk.binary() == bytes(960)
    assert talk.got[-1]["type"] == "Flushed"


def test_an_empty_turn_does_not_overtake_the_one_before() -> None:
    talk = deepgram()
    talk.is_engine_held = True
    talk.send(say("One."), FLUSH, FLUSH)
    talk.talk.speak("turn-2")
    talk.pump()
    assert not talk.frames(type="Flushed")
    talk.speak()
    assert talk.kinds() == ["Metadata", "binary", "Flushed"]
    assert len(talk.frames(type="Flushed")) == 2


def test_after_clear_nothing_of_the_turn_comes_any_more() -> None:
    talk = deepgram()
    talk.is_engine_held = True
    talk.send(say("A long story."), FLUSH)
    assert talk.send(CLEAR) == [{"type": "Cleared", "sequence_id": 0}]
    assert talk.speak() == []
    talk.is_engine_held = False
    talk.send(say("Next."), FLUSH)
    assert len(talk.binary()) == WORD_BYTES
    assert len(talk.frames(type="Flushed")) == 1


def test_clear_with_nothing_to_clear_is_answered_without_a_warning() -> None:
    assert deepgram().send(CLEAR, CLEAR) == [
        {"type": "Cleared", "sequence_id": 0},
        {"type": "Cleared", "sequence_id": 1},
    ]


def test_close_speaks_what_was_sent_and_closes_with_1000() -> None:
    talk = deepgram()
    talk.send(say("Hello there."), CLOSE)
    assert len(talk.binary()) == 2 * WORD_BYTES
    assert talk.close_code == 1000


def test_livekits_end_of_flush_and_close_is_one_flushed() -> None:
    talk = deepgram()
    talk.send(say("Hello "), FLUSH, CLOSE)
    assert len(talk.frames(type="Flushed")) == 1
    assert talk.close_code == 1000


def test_sentences_without_a_space_between_them_do_not_run_together() -> None:
    talk = deepgram()
    talk.send(say("Your total is $5."), say("Thank you."), FLUSH)
    assert len(talk.binary()) == 6 * WORD_BYTES


def test_tokens_are_joined_verbatim() -> None:
    tokens = ("Visit", " example", ".", "com", " for", " 3", ".", "14", ".")
    whole, cut = deepgram(), deepgram()
    whole.send(say("".join(tokens)), FLUSH)
    cut.send(*(say(token) for token in tokens), FLUSH)
    assert cut.binary() == whole.binary()


def test_a_turn_that_idles_away_has_no_flushed_of_its_own() -> None:
    talk = deepgram()
    talk.send(say("Hello. "))
    talk.wait(15.0)
    assert not talk.frames(type="Flushed")
    talk.send(FLUSH)
    assert len(talk.frames(type="Flushed")) == 1


def test_keep_alive_is_accepted_silently() -> None:
    assert deepgram().send({"type": "KeepAlive"}) == []


@pytest.mark.parametrize("message", ["{", "[]", {"type": "Dance"}, {"type": "Speak"}, {"type": "Speak", "text": 3}, {}])
def test_a_message_that_cannot_be_read_is_an_error_with_the_vendors_code(message: object) -> None:
    talk = deepgram()
    (error,) = talk.send(message)
    assert error["type"] == "Error"
    assert error["description"] == error["message"]
    assert error["code"] in ("DATA-0000", "MESSAGE-0000")
    talk.send(say("Hello."), FLUSH)
    assert talk.got[-1]["type"] == "Flushed"


@pytest.mark.parametrize(("encoding", "size"), [("mulaw", 4000), ("alaw", 4000)])
def test_telephone_formats(encoding: str, size: int) -> None:
    talk = deepgram(encoding=encoding, sample_rate="8000", container="none", bit_rate="1", tag="x")
    talk.send(say("Hello."), FLUSH)
    assert len(talk.binary()) == size


@pytest.mark.parametrize(
    "query", [{"encoding": "mp3"}, {"sample_rate": "12345"}, {"speed": "fast"}, {"sample_rate": "x"}]
)
def test_an_url_that_cannot_be_served_is_refused_before_the_upgrade(query: dict[str, str]) -> None:
    with pytest.raises(HandshakeError) as refused:
        entry_named("deepgram").make(handshake(query=query), facts())
    assert refused.value.status == 400


def test_the_subprotocol_that_carries_a_browsers_key_is_accepted() -> None:
    assert VendorTalk("deepgram", subprotocols=("token", "secret")).dialect.subprotocol == "token"


def test_an_unknown_model_is_a_warning() -> None:
    talk = deepgram(model="aura-2-thalia-en")
    warning = talk.frames(type="Warning")[0]
    assert warning["code"] == "VOICE_SUBSTITUTED"
    assert warning["warn_msg"] == warning["description"]


def test_of_a_long_text_only_the_end_is_looked_at_for_a_sentence() -> None:
    talk = VendorTalk("deepgram")
    talk.send({"type": "Speak", "text": "one two " * 30_000}, {"type": "Speak", "text": "Next."})
    assert isinstance(talk.dialect, DeepgramDialect)
    turn = talk.dialect._turns.current
    assert turn is not None
    assert len(turn.last_text) <= TAIL_CHARS
