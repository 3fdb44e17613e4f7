"""Speech for one HTTP request, sans-IO."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.http_speech import (
    AudioBody,
    AudioEncoder,
    HttpSpeechDialect,
    SpeechOrder,
    base64_text,
    server_sent_event,
)
from gateway.dialects.json_fields import Fields
from gateway.errors import ErrorCode
from gateway.events import (
    Audio,
    Configure,
    Done,
    EndText,
    Failed,
    Leave,
    OpenUtterance,
    TextFragment,
    UtteranceMetrics,
    UtteranceOptions,
)
from gateway.held_audio import HeldAudio, HeldFile
from tests.fakes.vendor_talk import facts

SOUND = Audio("speech", 0, 0, 2400, b"\1\0" * 2400, 24000)


def done(samples: int = 2400) -> Done:
    return Done("speech", "complete", samples, 24000, 3, UtteranceMetrics(0.0, None, 0.0, 1))


def read(handshake: Handshake, server: ServerFacts, fields: Fields) -> SpeechOrder:
    encoder = AudioEncoder("pcm_s16le", 24000, "wav" if fields.flag("wav") else None)
    options = UtteranceOptions(format="pcm_s16le", sample_rate_hz=24000)
    return SpeechOrder(fields.require("text"), options, AudioBody(encoder))


def dialect() -> HttpSpeechDialect:
    return HttpSpeechDialect(
        Handshake("/", {}, {}, {}, ()), facts(), read, lambda event, status: {"why": event.message, "status": status}
    )


def test_a_body_becomes_an_utterance_and_its_end_lets_the_connection_go() -> None:
    speech = dialect()
    assert speech.begin() == [Configure(max_ahead_s=None)]
    events = speech.receive(b'{"text": "Hi."}')
    assert [type(event) for event in events] == [OpenUtterance, TextFragment, EndText]
    assert speech.receive(b"") == [Leave()]


def test_the_status_stands_with_the_first_sound() -> None:
    speech = dialect()
    speech.receive(b'{"text": "Hi."}')
    assert speech.head is None
    assert speech.send(SOUND) == [SOUND.payload]
    assert speech.head is not None
    assert speech.head.status == 200
    assert speech.send(done()) == []
    assert speech.is_over
    assert not speech.is_cut_off


def test_an_error_before_the_first_sound_is_a_status() -> None:
    speech = dialect()
    speech.receive(b'{"text": "Hi."}')
    (body,) = speech.send(Failed(ErrorCode.CAPACITY, "full", retry_after_s=1.6))
    assert json.loads(body) == {"why": "full", "status": 503}
    assert speech.head is not None
    assert ("retry-after", "2") in speech.head.headers
    assert speech.send(SOUND) == []


def test_an_error_behind_the_first_sound_cuts_a_stream_off() -> None:
    speech = dialect()
    speech.receive(b'{"text": "Hi."}')
    speech.send(SOUND)
    assert speech.send(Failed(ErrorCode.ENGINE_FAILED, "it broke")) == []
    assert (speech.is_over, speech.is_cut_off) == (True, True)


def test_a_file_that_is_held_has_no_status_before_it_is_whole() -> None:
    speech = dialect()
    speech.receive(b'{"text": "Hi.", "wav": true}')
    assert speech.send(SOUND) == []
    assert speech.head is None
    (file,) = speech.send(done())
    assert isinstance(file, bytes)
    assert file.startswith(b"RIFF")


@pytest.mark.parametrize(("text", "size"), [("...", 960), ("", 0), (" ", 0)])
def test_a_text_with_nothing_to_speak_is_a_little_silence_and_a_blank_one_is_empty(text: str, size: int) -> None:
    speech = dialect()
    speech.receive(json.dumps({"text": text}))
    assert b"".join(piece for piece in speech.send(done(0)) if isinstance(piece, bytes)) == bytes(size)
    assert speech.head is not None
    assert speech.head.status == 200


def test_a_server_sent_event_is_one_line_of_data() -> None:
    assert server_sent_event({"a": "\n"}, "x") == b'event: x\ndata: {"a":"\\n"}\n\n'
    assert server_sent_event({}) == b"data: {}\n\n"
    assert base64_text(b"\0\1") == "AAE="


def test_what_a_file_holds_is_counted_until_something_of_it_leaves() -> None:
    account = HeldAudio()
    for is_wav, held in ((True, 2 * len(SOUND.payload)), (False, 0)):
        file = HeldFile(account)
        speech = HttpSpeechDialect(Handshake("/", {}, {}, {}, ()), facts(), read, error_body, file)
        speech.receive(json.dumps({"text": "Hi.", "wav": is_wav}))
        speech.send(SOUND)
        speech.send(SOUND)
        assert account.held_bytes == held
        file.release()


@pytest.mark.parametrize(
    ("account", "file_bytes", "status"),
    [(HeldAudio(7000), 1_000_000, 503), (HeldAudio(), 7000, 413)],
)
def test_a_file_that_grows_too_large_is_refused_with_a_status(account: HeldAudio, file_bytes: int, status: int) -> None:
    file = HeldFile(account, file_bytes)
    speech = HttpSpeechDialect(Handshake("/", {}, {}, {}, ()), facts(), read, error_body, file)
    speech.receive(b'{"text": "Hi.", "wav": true}')
    assert speech.send(SOUND) == []
    (refusal,) = speech.send(SOUND)
    assert json.loads(refusal)["status"] == status
    assert speech.is_over


def error_body(event: Failed, status: int) -> dict[str, object]:
    return {"why": event.message, "status": status}
