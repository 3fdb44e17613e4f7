"""The `deepgram-sdk` package."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import KEY, Host

pytest.importorskip("deepgram", reason="vendors' clients are not installed: make test-clients")
from deepgram import DeepgramClient
from deepgram.environment import DeepgramClientEnvironment
from deepgram.speak.v1.types import SpeakV1Text
from deepgram.speak.v2.types import SpeakV2Interrupt, SpeakV2InterruptPlaybackOffset, SpeakV2Speak

CLIENT = "deepgram SDK 7.17.0"


def client(host: Host, key: str = KEY) -> DeepgramClient:
    environment = DeepgramClientEnvironment(base=host.http, production=host.ws, agent=host.ws, agent_rest=host.http)
    return DeepgramClient(api_key=key, environment=environment)


def until(connection: Any, kind: str) -> list[Any]:
    """What comes up to a message of this type."""
    got: list[Any] = []
    for message in connection:
        got.append(message)
        if getattr(message, "type", None) == kind:
            return got
    raise AssertionError(f"closed without {kind}: {got}")


def spoken(messages: list[Any]) -> bytes:
    return b"".join(message for message in messages if isinstance(message, bytes))


def say(connection: Any, *texts: str) -> None:
    for text in texts:
        connection.send_text(SpeakV1Text(text=text))


@pytest.mark.capability(CLIENT, "speech")
@pytest.mark.capability(CLIENT, "second turn")
@pytest.mark.capability(CLIENT, "empty turn ends")
def test_turns_are_spoken_and_flushed_once_each(host: Host) -> None:
    with client(host).speak.v1.connect(model="alto", encoding="linear16", sample_rate="24000") as connection:
        say(connection, "The total", " is 1", ".5", " dollars.")
        connection.send_flush()
        first = until(connection, "Flushed")
        connection.send_flush()
        assert spoken(until(connection, "Flushed")) == b""
        say(connection, "The total is 1.5 dollars.")
        connection.send_flush()
        assert spoken(until(connection, "Flushed")) == spoken(first)
        connection.send_close()
    assert len(spoken(first)) / 48000 > 0.8


@pytest.mark.capability(CLIENT, "interruption")
def test_nothing_of_a_cleared_turn_comes_behind_cleared(slow_host: Host) -> None:
    with client(slow_host).speak.v1.connect(model="alto", encoding="linear16", sample_rate="24000") as connection:
        say(connection, "A long story that nobody wants to hear.")
        connection.send_flush()
        until(connection, "Metadata")
        connection.send_clear()
        until(connection, "Cleared")
        say(connection, "Hi.")
        connection.send_flush()
        assert len(spoken(until(connection, "Flushed"))) / 48000 == pytest.approx(3 * 12 * 0.04)


@pytest.mark.capability(CLIENT, "spoken-so-far")
def test_flux_tells_what_had_been_heard(slow_host: Host) -> None:
    with client(slow_host).speak.v2.connect(model="alto", encoding="linear16", sample_rate="24000") as connection:
        connection.send_speak(SpeakV2Speak(text="One two three four five six. "))
        connection.send_flush()
        until(connection, "SpeechStarted")
        for _ in range(30):
            connection.recv()
        offset = SpeakV2InterruptPlaybackOffset(type="time_ms", value=1600)
        connection.send_interrupt(SpeakV2Interrupt(playback_offset=offset))
        answer = until(connection, "SpeechInterrupted")[-1]
    assert answer.text_spoken == "One "
    assert answer.text_remaining == "two three four five six. "


@pytest.mark.capability(CLIENT, "HTTP")
def test_http_gives_raw_audio(host: Host) -> None:
    audio = client(host).speak.v1.audio.generate(
        text="Hello there.", model="alto", encoding="linear16", container="none", sample_rate=24000
    )
    assert len(b"".join(audio)) == 12 * 960 * 2


@pytest.mark.capability(CLIENT, "bad key refused")
def test_a_bad_key_is_refused_at_the_handshake(host: Host) -> None:
    with (
        pytest.raises(Exception, match="401"),
        client(host, "wrong").speak.v1.connect(model="alto", encoding="linear16", sample_rate="24000"),
    ):
        pass
