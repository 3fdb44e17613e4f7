"""The `cartesia` package."""

from __future__ import annotations

import io
from typing import Any

import pytest
import soundfile

from tests.conformance.conftest import KEY, Host

pytest.importorskip("cartesia", reason="vendors' clients are not installed: make test-clients")
from cartesia import AsyncCartesia, Cartesia

CLIENT = "cartesia SDK 4.2.0"
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}
OPTIONS: dict[str, Any] = {
    "model_id": "sonic-3",
    "voice": {"mode": "id", "id": "alto"},
    "output_format": RAW,
    "add_timestamps": True,
}


def client(host: Host, key: str = KEY) -> Cartesia:
    return Cartesia(api_key=key, websocket_base_url=host.ws, base_url=host.http)


def turn(connection: Any, *texts: str, **options: Any) -> list[Any]:
    context = connection.context(**{**OPTIONS, **options}, timeout=10)
    for text in texts:
        context.push(text)
    context.no_more_inputs()
    return list(context.receive())


def spoken(events: list[Any]) -> bytes:
    return b"".join(event.audio for event in events if event.type == "chunk" and event.audio)


def words(events: list[Any]) -> list[str]:
    return [word for event in events if event.type == "timestamps" for word in event.word_timestamps.words]


@pytest.mark.capability(CLIENT, "speech")
@pytest.mark.capability(CLIENT, "words")
def test_fragments_are_spoken_with_words_in_order(host: Host) -> None:
    with client(host).tts.websocket_connect() as connection:
        events = turn(connection, "The total", " is $5", ", plus", " tax.")
    assert len(spoken(events)) / 48000 > 0.8
    assert words(events) == ["The", "total", "is", "$5,", "plus", "tax."]
    assert events[-1].type == "done"


@pytest.mark.capability(CLIENT, "second turn")
@pytest.mark.capability(CLIENT, "empty turn ends")
def test_turns_follow_each_other_on_one_socket_and_empty_ones_end(host: Host) -> None:
    with client(host).tts.websocket_connect() as connection:
        first = turn(connection, "Hello there.")
        for nothing in ((), (" ",), ("...",)):
            assert turn(connection, *nothing)[-1].type == "done"
        assert len(spoken(turn(connection, "Hello there."))) == len(spoken(first))


@pytest.mark.capability(CLIENT, "speech")
def test_its_default_is_float_at_44100(host: Host) -> None:
    output = {"container": "raw", "encoding": "pcm_f32le", "sample_rate": 44100}
    with client(host).tts.websocket_connect() as connection:
        assert len(spoken(turn(connection, "Hello there.", output_format=output))) / 4 / 44100 == pytest.approx(0.48)


@pytest.mark.capability(CLIENT, "interruption")
def test_nothing_of_a_cancelled_context_comes_any_more(slow_host: Host) -> None:
    with client(slow_host).tts.websocket_connect() as connection:
        context = connection.context(**OPTIONS, timeout=10)
        context.push("A long story that nobody wants to hear. ")
        events = context.receive()
        next(events)
        context.cancel()
        after = turn(connection, "Hi.")
    assert {event.context_id for event in after} == {after[-1].context_id}


@pytest.mark.capability(CLIENT, "bad key refused")
def test_a_bad_key_is_refused_at_the_handshake(host: Host) -> None:
    with pytest.raises(Exception, match="401"), client(host, "wrong").tts.websocket_connect():
        pass


@pytest.mark.capability(CLIENT, "speech")
async def test_the_async_client_hears_the_same(host: Host) -> None:
    sdk = AsyncCartesia(api_key=KEY, websocket_base_url=host.ws, base_url=host.http)
    async with sdk.tts.websocket_connect() as connection:
        context = connection.context(**OPTIONS, timeout=10)
        await context.push("Hello there.")
        await context.no_more_inputs()
        events = [event async for event in context.receive()]
    assert len(spoken(events)) / 48000 == pytest.approx(0.48)


@pytest.mark.capability(CLIENT, "HTTP")
def test_bytes_and_events_over_http(host: Host) -> None:
    sdk = client(host)
    common: dict[str, Any] = {
        "model_id": "sonic-3",
        "transcript": "Hello there.",
        "voice": {"mode": "id", "id": "alto"},
    }
    wav = {"container": "wav", "encoding": "pcm_s16le", "sample_rate": 24000}
    data = sdk.tts.generate(**common, output_format=wav).read()
    assert len(soundfile.read(io.BytesIO(data))[0]) == 12 * 960
    with sdk.tts.generate_sse(**common, output_format=RAW, add_timestamps=True) as events:
        heard = list(events)
    assert heard[-1].type == "done"
    assert words(heard) == ["Hello", "there."]
