"""The `openai` package."""

from __future__ import annotations

import base64
import io
import json
from typing import Any, Literal

import pytest
import soundfile

from tests.conformance.conftest import KEY, Host

openai = pytest.importorskip("openai", reason="vendors' clients are not installed: make test-clients")
from openai import OpenAI  # noqa: E402

CLIENT = "openai SDK 3.57.0"
TEXT = "Hello there. How are you today?"
SAMPLES = len(TEXT.replace(". ", ".")) * 960
Format = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]


def client(host: Host, key: str = KEY) -> OpenAI:
    return OpenAI(api_key=key, base_url=f"{host.http}/v1", max_retries=0)


def speech(host: Host, response_format: Format, **options: Any) -> bytes:
    with client(host).audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=TEXT, response_format=response_format, **options
    ) as response:
        return b"".join(response.iter_bytes())


@pytest.mark.capability(CLIENT, "speech")
def test_pcm_is_24_khz_without_a_header(host: Host) -> None:
    assert len(speech(host, "pcm")) >= SAMPLES * 2


@pytest.mark.capability(CLIENT, "HTTP")
@pytest.mark.parametrize("response_format", ["mp3", "opus", "flac", "wav"])
def test_every_file_holds_all_samples(host: Host, response_format: Format) -> None:
    samples, rate_hz = soundfile.read(io.BytesIO(speech(host, response_format)))
    assert len(samples) / rate_hz >= len(speech(host, "pcm")) / 48000


@pytest.mark.capability(CLIENT, "HTTP")
def test_events_carry_the_same_audio(host: Host) -> None:
    lines = speech(host, "pcm", stream_format="sse").decode().split("\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line]
    audio = b"".join(base64.b64decode(event["audio"]) for event in events if event["type"] == "speech.audio.delta")
    assert audio == speech(host, "pcm")
    assert events[-1]["type"] == "speech.audio.done"
    assert events[-1]["usage"]["total_tokens"] > 0


@pytest.mark.capability(CLIENT, "bad key refused")
def test_a_bad_key_and_a_bad_format_are_its_own_errors(host: Host) -> None:
    with pytest.raises(openai.AuthenticationError):
        client(host, "wrong").models.list()
    with pytest.raises(openai.BadRequestError, match="response_format"):
        speech(host, "midi")  # type: ignore[arg-type]


@pytest.mark.capability(CLIENT, "voices")
def test_models_are_listed(host: Host) -> None:
    assert [model.id for model in client(host).models.list()] == ["fake"]


def conversation(connection: Any, text: str) -> list[Any]:
    message: Any = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    connection.conversation.item.create(item=message)
    connection.response.create()
    events = []
    for event in connection:
        events.append(event)
        if event.type == "response.done":
            return events
    raise AssertionError("closed")


def transcript(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "response.output_audio_transcript.delta")


@pytest.mark.capability(CLIENT, "realtime")
@pytest.mark.capability(CLIENT, "second turn")
def test_realtime_speaks_one_response_after_the_other(host: Host) -> None:
    with client(host).realtime.connect(model="gpt-realtime") as connection:
        assert connection.recv().type == "session.created"
        connection.session.update(session={"type": "realtime", "audio": {"output": {"voice": "alto"}}})
        for text in (TEXT, "And again."):
            events = conversation(connection, text)
            assert transcript(events) == text
            assert events[-1].response.status == "completed"


@pytest.mark.capability(CLIENT, "interruption")
def test_realtime_can_be_cancelled(slow_host: Host) -> None:
    with client(slow_host).realtime.connect(model="gpt-realtime") as connection:
        connection.response.create(response={"instructions": "A long story that nobody wants to hear."})
        while connection.recv().type != "response.output_audio.delta":
            pass
        connection.response.cancel()
        while (event := connection.recv()).type != "response.done":
            pass
        assert event.response.status == "cancelled"
