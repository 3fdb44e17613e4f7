"""ElevenLabs over HTTP."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects import elevenlabs_http
from gateway.dialects.base import Handshake
from gateway.dialects.http_speech import HttpSpeechDialect
from gateway.errors import ClientError
from gateway.events import Audio, Done, OpenUtterance, UtteranceMetrics, Word, Words
from tests.fakes.talk import MODEL
from tests.fakes.vendor_talk import facts

SOUND = Audio("speech", 0, 0, 240, b"\1\0" * 240, 24000)
DONE = Done("speech", "complete", 240, 24000, 3, UtteranceMetrics(0.0, None, 0.0, 1))
WORDS = Words("speech", (Word("Hi", 0, 2, 0, 240, "."),), 24000)


def ask(path: str, body: dict[str, Any]) -> tuple[HttpSpeechDialect, list[Any]]:
    handshake = Handshake(path, {"voice_id": "bass"}, {"output_format": "pcm_24000"}, {}, ())
    dialect = HttpSpeechDialect(handshake, facts(), elevenlabs_http.read_order, elevenlabs_http.error_body)
    return dialect, dialect.receive(json.dumps(body))


def answer(dialect: HttpSpeechDialect) -> bytes:
    return b"".join(
        piece if isinstance(piece, bytes) else piece.encode()
        for event in (WORDS, SOUND, DONE)
        for piece in dialect.send(event)
    )


def test_a_stream_is_raw_audio() -> None:
    dialect, events = ask("/v1/text-to-speech/bass/stream", {"text": "Hi.", "voice_settings": {"speed": 1.2}})
    (opened,) = [event for event in events if isinstance(event, OpenUtterance)]
    assert (opened.options.voice, opened.options.speed) == ("bass", 1.2)
    assert answer(dialect) == SOUND.payload
    assert dialect.head is not None
    assert dialect.head.headers == (("content-type", "audio/pcm"),)


def test_a_stream_with_timestamps_is_lines_of_json() -> None:
    dialect, _ = ask("/v1/text-to-speech/bass/stream/with-timestamps", {"text": "Hi."})
    (line,) = (json.loads(line) for line in answer(dialect).splitlines())
    assert base64.b64decode(line["audio_base64"]) == SOUND.payload
    assert line["alignment"] == line["normalized_alignment"]
    assert line["alignment"]["characters"] == ["H", "i", ".", " "]
    assert line["alignment"]["character_end_times_seconds"][1] == 0.01


def test_with_timestamps_alone_is_one_object() -> None:
    dialect, _ = ask("/v1/text-to-speech/bass/with-timestamps", {"text": "Hi."})
    whole = json.loads(answer(dialect))
    assert base64.b64decode(whole["audio_base64"], validate=True) == SOUND.payload
    assert whole["alignment"]["characters"] == ["H", "i", ".", " "]


@pytest.mark.parametrize("sizes", [[], [2], [2, 2], [4, 2, 6, 8]])
def test_the_one_objects_audio_is_whole_however_it_came(sizes: list[int]) -> None:
    dialect, _ = ask("/v1/text-to-speech/bass/with-timestamps", {"text": "Hi."})
    sounds = [bytes([size]) * size for size in sizes]
    for sound in sounds:
        assert dialect.send(replace(SOUND, payload=sound, sample_count=len(sound) // 2)) == []
    (whole,) = dialect.send(DONE)
    assert base64.b64decode(json.loads(whole)["audio_base64"], validate=True) == b"".join(sounds)


def test_a_body_without_text_is_refused() -> None:
    with pytest.raises(ClientError, match="field text is missing"):
        ask("/v1/text-to-speech/bass/stream", {})


def test_voices_are_told_with_what_clients_read() -> None:
    listed = elevenlabs_http.voices(facts())
    assert [voice["voice_id"] for voice in listed["voices"]] == ["alto", "bass"]
    assert elevenlabs_http.voice(MODEL.voices[1])["name"] == "Bass"
