"""OpenAI's speech endpoint and lists."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from gateway.dialects import openai_speech
from gateway.dialects.base import Handshake
from gateway.dialects.http_speech import HttpSpeechDialect
from gateway.dialects.openai_speech import DELTA_BYTES
from gateway.errors import ClientError, WarningCode
from gateway.events import Audio, Done, OpenUtterance, Remark, UtteranceMetrics
from tests.fakes.vendor_talk import facts

SOUND = Audio("speech", 0, 0, 2400, b"\1\0" * 2400, 24000)
DONE = Done("speech", "complete", 2400, 24000, 3, UtteranceMetrics(0.0, None, 0.0, 1))


def ask(**body: Any) -> tuple[HttpSpeechDialect, list[Any]]:
    handshake = Handshake("/v1/audio/speech", {}, {}, {}, ())
    dialect = HttpSpeechDialect(handshake, facts(), openai_speech.read_order, openai_speech.error_body)
    return dialect, dialect.receive(json.dumps({"input": "Hi.", "model": "tts-1", **body}))


def opened(events: list[Any]) -> OpenUtterance:
    return next(event for event in events if isinstance(event, OpenUtterance))


@pytest.mark.parametrize(
    ("response_format", "media_type"),
    [
        ("pcm", "audio/pcm"), ("mp3", "audio/mpeg"), ("opus", "audio/ogg"), ("aac", "audio/aac"),
        ("flac", "audio/flac"), ("wav", "audio/wav"), (None, "audio/mpeg"),
    ],
)  # fmt: skip
def test_each_format_has_its_media_type(response_format: str | None, media_type: str) -> None:
    pytest.importorskip("av", reason="aac needs the extra `opus`")
    dialect, events = ask(response_format=response_format)
    assert opened(events).options.sample_rate_hz == 24000
    for event in (SOUND, DONE):
        dialect.send(event)
    assert dialect.head is not None
    assert ("content-type", media_type) in dialect.head.headers


def test_events_carry_the_audio_and_then_the_usage() -> None:
    dialect, _ = ask(response_format="pcm", stream_format="sse")
    lines = b"".join(piece for event in (SOUND, DONE) for piece in dialect.send(event) if isinstance(piece, bytes))
    delta, done = (json.loads(line.removeprefix(b"data: ")) for line in lines.split(b"\n\n") if line)
    assert base64.b64decode(delta["audio"]) == SOUND.payload
    assert done == {
        "type": "speech.audio.done",
        "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    }


def test_a_file_that_comes_whole_is_many_events() -> None:
    dialect, _ = ask(response_format="wav", stream_format="sse")
    for _ in range(40):
        dialect.send(SOUND)
    (body,) = dialect.send(DONE)
    assert isinstance(body, bytes)
    events = [json.loads(line.removeprefix(b"data: ")) for line in body.split(b"\n\n") if line]
    pieces = [base64.b64decode(event["audio"]) for event in events[:-1]]
    assert len(pieces) > 1
    assert max(map(len, pieces)) == DELTA_BYTES
    assert b"".join(pieces).startswith(b"RIFF")


@pytest.mark.parametrize("voice", ["bass", {"id": "bass"}])
def test_a_voice_is_a_name_or_an_object(voice: Any) -> None:
    assert opened(ask(voice=voice)[1]).options.voice == "bass"


@pytest.mark.parametrize(("asked", "used"), [(0.25, 0.5), (1.5, 1.5), (4, 2.0), (None, None)])
def test_speed_is_brought_into_what_a_voice_can_do(asked: float | None, used: float | None) -> None:
    assert opened(ask(speed=asked)[1]).options.speed == used


def test_instructions_and_an_unknown_model_are_warned_about() -> None:
    codes = [event.code for event in ask(instructions="Be cheerful.")[1] if isinstance(event, Remark)]
    assert codes == [WarningCode.MODEL_SUBSTITUTED, WarningCode.PARAMETER_IGNORED]


@pytest.mark.parametrize("body", [{"input": None}, {"response_format": "midi"}, {"stream_format": "x"}, {"voice": 3}])
def test_what_cannot_be_done_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ClientError):
        ask(**body)


def test_the_lists_name_what_is_loaded() -> None:
    server = facts(models={"tts-1": "stand-in", "other": "elsewhere"})
    assert [model["id"] for model in openai_speech.models(server)["data"]] == ["stand-in", "tts-1"]
    assert openai_speech.voices(server)["voices"][0] == {"id": "alto", "name": "Alto", "language": "en"}
