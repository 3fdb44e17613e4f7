"""jambonz's streaming TTS for a custom vendor."""

from __future__ import annotations

import pytest

from gateway.errors import HandshakeError
from tests.fakes.vendor_talk import VendorTalk, entry_named, facts, handshake


def jambonz() -> VendorTalk:
    return VendorTalk("jambonz", {"voice": "bass", "language": "en-US", "sampleRate": "16000"})


def test_connect_comes_first_then_raw_audio_at_the_rate_asked_for() -> None:
    talk = jambonz()
    talk.send({"type": "stream", "text": "Hello "}, {"type": "stream", "text": "there."}, {"type": "flush"})
    assert talk.got[0] == {"type": "connect", "data": {"sample_rate": 16000, "base64_encoding": False}}
    assert talk.kinds() == ["connect", "binary"]
    assert len(talk.binary()) == 2 * 16000
    assert (talk.opened[0].options.voice, talk.opened[0].options.language) == ("bass", "en-US")


def test_stop_ends_what_is_spoken_and_the_connection() -> None:
    talk = jambonz()
    talk.is_engine_held = True
    talk.send({"type": "stream", "text": "A long story."}, {"type": "stop"})
    assert talk.speak() == []
    assert talk.close_code == 1000


def test_text_after_a_flush_is_spoken_too() -> None:
    talk = jambonz()
    for _ in range(2):
        talk.send({"type": "stream", "text": "Hello."}, {"type": "flush"}, {"type": "flush"}, {"type": "keepalive"})
    assert len(talk.binary()) == 2 * 16000


def test_an_error_is_a_sentence() -> None:
    (error,) = jambonz().send({"type": "dance"})
    assert error["type"] == "error"
    assert "dance" in error["error"]


def test_a_rate_that_cannot_be_had_is_refused_before_the_upgrade() -> None:
    with pytest.raises(HandshakeError):
        entry_named("jambonz").make(handshake(query={"sampleRate": "12345"}), facts())
