"""The client against a server of the native dialect on loopback."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus

import numpy as np
import pytest

from gateway.client import (
    AudioFrame,
    Cancelled,
    Client,
    ClientUtterance,
    ConnectionLostError,
    Done,
    OverrunError,
    RefusedError,
    ServerError,
    Started,
    Warned,
    Words,
)
from gateway.client_wire import Wire
from gateway.events import Acknowledge, ClientEvent, Configure, EndText, OpenUtterance, ServerEvent, TextFragment
from tests.fakes.native_server import SAMPLES_PER_CHAR, RampSpeech, native_server, refusal

WIRES: list[Wire] = ["json", "msgpack"]


def ramp(chars: int) -> np.ndarray:
    return np.arange(chars * SAMPLES_PER_CHAR).astype("<i2")


async def read(utterance: ClientUtterance) -> tuple[np.ndarray, list[object]]:
    """All samples of an utterance, and its other items in order."""
    payload, others = bytearray(), []
    async for item in utterance:
        if isinstance(item, AudioFrame):
            assert item.start_sample * 2 == len(payload)
            payload += item.payload
        else:
            others.append(item)
    return np.frombuffer(bytes(payload), "<i2"), others


@pytest.mark.parametrize("wire", WIRES)
async def test_text_in_gives_started_words_audio_and_done(wire: Wire) -> None:
    async with native_server() as server, Client.connect(server.url, wire=wire) as client:
        utterance = await client.open(voice="bella", seed=3)
        await utterance.say("ab")
        await utterance.say("c")
        await utterance.end()
        samples, others = await read(utterance)
        assert np.array_equal(samples, ramp(3))
        assert isinstance(others[0], Started)
        assert [word.text for item in others if isinstance(item, Words) for word in item.words] == ["a", "b", "c"]
        assert isinstance(others[-1], Done)
        assert others[-1].audio_samples == 3 * SAMPLES_PER_CHAR
        assert utterance.done == others[-1]
        opened = server.connections[0].received[0]
        assert isinstance(opened, OpenUtterance)
        assert (opened.options.voice, opened.options.seed) == ("bella", 3)


async def test_audio_in_base64_is_the_same_audio() -> None:
    class Base64Speech(RampSpeech):
        def answer(self, event: ClientEvent) -> list[ServerEvent]:
            import dataclasses

            from gateway.events import Audio

            return [
                dataclasses.replace(answer, encoding="base64") if isinstance(answer, Audio) else answer
                for answer in super().answer(event)
            ]

    async with native_server(Base64Speech) as server, Client.connect(server.url, audio="base64") as client:
        samples, _ = await read(await client.speak("abcd"))
        assert np.array_equal(samples, ramp(4))


async def test_the_session_is_described_by_ready() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        assert client.ready.model == "ramp"
        assert client.ready.voices == ("heart", "bella")
        assert client.ready.sample_rate_hz == 24000


async def arriving(tokens: list[str]) -> AsyncIterator[str]:
    for token in tokens:
        await asyncio.sleep(0)
        yield token


def written(tokens: list[str]) -> Iterator[str]:
    yield from tokens


@pytest.mark.parametrize("kind", ["async generator", "generator", "list", "string"])
async def test_speak_sends_the_tokens_of_any_kind_of_iterable_and_ends(kind: str) -> None:
    tokens = ["He", "l", "lo"]
    given = {"async generator": arriving(tokens), "generator": written(tokens), "list": tokens, "string": "Hello"}[kind]
    async with native_server() as server, Client.connect(server.url) as client:
        samples, others = await read(await client.speak(given))
        assert np.array_equal(samples, ramp(5))
        assert isinstance(others[-1], Done)
        sent = [event.text for event in server.connections[0].received if isinstance(event, TextFragment)]
        assert "".join(sent) == "Hello"
        assert len(sent) == (1 if kind == "string" else len(tokens))


async def test_what_the_tokens_raise_is_raised_by_the_iteration_and_the_utterance_is_cancelled() -> None:
    async def failing() -> AsyncIterator[str]:
        yield "a"
        raise LookupError("the model is gone")

    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.speak(failing())
        with pytest.raises(LookupError, match="the model is gone"):
            await read(utterance)
        await client.ping()
        assert server.connections[0].utterances == {}


async def test_flush_returns_when_everything_so_far_was_sent() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.open()
        await utterance.say("ab")
        assert await utterance.flush()
        assert utterance.started is not None
        await utterance.say("c")
        await utterance.end()
        samples, _ = await read(utterance)
        assert np.array_equal(samples, ramp(3))
        assert not await utterance.flush()


async def test_cancel_reports_what_was_heard_and_no_audio_is_read_after_it() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.open()
        await utterance.say("abcd")
        await utterance.flush()
        report = await utterance.cancel(played_ms=100)
        assert report.spoken_text + report.remaining_text == "abcd"
        assert report.spoken_text == "ab"
        assert report.played_source == "client"
        items = [item async for item in utterance]
        assert isinstance(items[-1], Cancelled)
        assert not any(isinstance(item, AudioFrame | Words) for item in items)
        assert await utterance.cancel() == report


async def test_cancel_after_done_is_answered_too() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.speak("abcd")
        await read(utterance)
        report = await utterance.cancel(played_ms=50)
        assert report.after_done
        assert report.spoken_text == "a"


async def test_a_cancel_of_what_is_over_raises_nothing_to_cancel() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.speak("ab")
        await read(utterance)
        server.connections[0].utterances.clear()
        with pytest.raises(ServerError) as caught:
            await utterance.cancel()
        assert caught.value.code == "nothing_to_cancel"


async def test_a_flush_that_a_cancel_overtakes_returns_false() -> None:
    class Silent(RampSpeech):
        def answer(self, event: ClientEvent) -> list[ServerEvent]:
            answers = super().answer(event)
            return [] if type(event).__name__ == "Flush" else answers

    async with native_server(Silent) as server, Client.connect(server.url) as client:
        utterance = await client.open()
        flushing = asyncio.create_task(utterance.flush())
        await client.ping()
        await utterance.cancel()
        assert await flushing is False


async def test_cancel_all_reports_every_utterance_in_the_order_opened() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        utterances = [await client.open(lane=f"lane{index}") for index in range(3)]
        for utterance in utterances:
            await utterance.say("xyz")
        reports = await client.cancel_all()
        assert [report.utterance for report in reports] == [utterance.id for utterance in utterances]
        assert all(utterance.is_over for utterance in utterances)


async def test_a_feeding_task_ends_with_its_utterance() -> None:
    is_closed = asyncio.Event()

    async def endless() -> AsyncIterator[str]:
        try:
            yield "a"
            await asyncio.Event().wait()
        finally:
            is_closed.set()

    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.speak(endless())
        await client.ping()
        await utterance.cancel()
        await asyncio.wait_for(is_closed.wait(), 5)


@pytest.mark.parametrize("wire", WIRES)
async def test_many_utterances_at_once_get_their_own_audio(wire: Wire) -> None:
    async with native_server() as server, Client.connect(server.url, wire=wire) as client:
        utterances = [await client.speak(["x"] * (index + 1), lane=f"l{index}") for index in range(12)]
        results = await asyncio.gather(*(read(utterance) for utterance in utterances))
        for index, (samples, _) in enumerate(results):
            assert np.array_equal(samples, ramp(index + 1))


async def test_a_refused_open_is_raised_by_the_iteration_which_then_ends() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.open(voice="nobody")
        with pytest.raises(ServerError) as caught:
            await anext(utterance)
        assert caught.value.code == "voice_not_found"
        assert caught.value.utterance == utterance.id
        assert [item async for item in utterance] == []
        assert utterance.is_over


async def test_a_refused_text_is_raised_and_the_utterance_lives() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.open()
        await utterance.say("x" * 10_001)
        with pytest.raises(ServerError, match="text_too_long"):
            await anext(utterance)
        await utterance.say("ab")
        await utterance.end()
        samples, _ = await read(utterance)
        assert np.array_equal(samples, ramp(2))


async def test_text_larger_than_a_message_goes_in_several() -> None:
    text = "\U0001f600" * 40_000
    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.open()
        await utterance.say(text)
        await client.ping()
        sent = [event.text for event in server.connections[0].received if isinstance(event, TextFragment)]
        assert len(sent) > 1
        assert "".join(sent) == text


@pytest.mark.parametrize("wire", WIRES)
async def test_halves_of_a_surrogate_pair_do_not_break_the_connection(wire: Wire) -> None:
    async with native_server() as server, Client.connect(server.url, wire=wire) as client:
        utterance = await client.open()
        await utterance.say("\ud83d")
        await utterance.say("\ude00")
        await client.ping()
        assert sum(isinstance(event, TextFragment) for event in server.connections[0].received) == 2


async def test_config_in_connect_is_sent_and_a_refused_one_is_raised() -> None:
    async with native_server() as server:
        async with Client.connect(server.url, voice="bella", max_ahead_ms=None, sample_rate_hz=8000):
            (configured,) = [e for e in server.connections[0].received if isinstance(e, Configure)]
            assert (configured.voice, configured.max_ahead_s, configured.sample_rate_hz) == ("bella", None, 8000)
        with pytest.raises(ServerError, match="voice_not_found"):
            async with Client.connect(server.url, voice="nobody"):
                pass
        async with Client.connect(server.url) as client:
            with pytest.raises(ServerError, match="voice_not_found"):
                await client.configure(voice="nobody")
            await client.configure(voice="heart")


async def test_acks_are_sent() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.speak("a")
        await read(utterance)
        await utterance.ack(40)
        await client.ping()
        assert Acknowledge(utterance.id, 0.04) in server.connections[0].received


async def test_warnings_are_items_of_their_utterance_or_kept_by_the_client() -> None:
    from gateway.errors import WarningCode
    from gateway.events import Warned as ServerWarned

    class Warning(RampSpeech):
        def answer(self, event: ClientEvent) -> list[ServerEvent]:
            answers = super().answer(event)
            if isinstance(event, EndText):
                notes = [
                    ServerWarned(WarningCode.TAG_UNSUPPORTED, "no laughter", event.utterance, "sfx:laughter"),
                    ServerWarned(WarningCode.PARAMETER_IGNORED, "top_p"),
                ]
                return [*notes, *answers]
            return answers

    async with native_server(Warning) as server, Client.connect(server.url) as client:
        _, others = await read(await client.speak("a"))
        assert [item.detail for item in others if isinstance(item, Warned)] == ["sfx:laughter"]
        assert [warning.code for warning in client.warnings] == ["parameter_ignored"]


async def test_an_utterance_that_is_not_read_overruns_alone() -> None:
    async with native_server() as server, Client.connect(server.url, max_buffered_bytes=20_000) as client:
        unread = await client.speak("x" * 50)
        samples, _ = await read(await client.speak("abc"))
        assert np.array_equal(samples, ramp(3))
        with pytest.raises(OverrunError, match="20,000"):
            await read(unread)
        await client.ping()
        assert unread.id not in server.connections[0].utterances


async def test_an_utterance_nobody_holds_is_forgotten() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        await client.speak("abc")
        await client.ping()
        gc.collect()
        assert len(client._utterances) == 0


async def test_an_id_in_use_is_not_opened_twice_and_one_that_is_over_can_be() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        first = await client.speak("a", utterance="mine")
        with pytest.raises(ValueError, match="mine"):
            await client.open("mine")
        await read(first)
        samples, _ = await read(await client.speak("ab", utterance="mine"))
        assert np.array_equal(samples, ramp(2))


async def test_a_lost_connection_reaches_everyone_who_waits() -> None:
    class Mute(RampSpeech):
        def answer(self, event: ClientEvent) -> list[ServerEvent]:
            return []

    async with native_server(Mute) as server, Client.connect(server.url) as client:
        utterance = await client.open()
        waiting = [
            asyncio.create_task(read(utterance)),
            asyncio.create_task(client.ping()),
            asyncio.create_task(utterance.cancel()),
        ]
        await asyncio.sleep(0)
        await server.sockets[0].close(1013, "try later")
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(outcome, ConnectionLostError)
            assert outcome.code == 1013
        with pytest.raises(ConnectionLostError, match="try later"):
            await client.open()


async def test_a_server_that_breaks_the_protocol_is_left_and_everyone_is_told() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.open()
        await client.ping()
        await server.sockets[0].send('{"type": "pong", "seq": 77}')
        with pytest.raises(ConnectionLostError, match="something is missing") as caught:
            await read(utterance)
        assert caught.value.code == 1002


async def test_a_fault_of_the_client_itself_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.open()
        monkeypatch.setattr(client, "_dispatch", broken)
        await utterance.say("hello")
        await utterance.end()
        with pytest.raises(ConnectionLostError, match="a bug"):
            await read(utterance)


async def test_leaving_the_block_ends_everything_the_client_started() -> None:
    before = asyncio.all_tasks()

    async def endless() -> AsyncIterator[str]:
        while True:
            await asyncio.sleep(0)
            yield "a"

    async with native_server() as server:
        async with Client.connect(server.url) as client:
            utterance = await client.speak(endless())
            await client.ping()
        with pytest.raises(ConnectionLostError):
            await read(utterance)
        own = {task for task in asyncio.all_tasks() - before if "speech client" in task.get_name()}
        assert own == set()


async def test_a_refusal_carries_the_servers_own_words() -> None:
    refused = (HTTPStatus.SERVICE_UNAVAILABLE, refusal("capacity", "64 sessions, at most 64", 2.5))
    async with native_server(refuse_with=refused) as server:
        with pytest.raises(RefusedError, match="at most 64") as caught:
            async with Client.connect(server.url):
                pass
        assert (caught.value.status, caught.value.code, caught.value.retry_after_s) == (503, "capacity", 2.5)


async def test_a_refusal_without_words_still_names_the_status() -> None:
    async with native_server(refuse_with=(HTTPStatus.UNAUTHORIZED, "no")) as server:
        with pytest.raises(RefusedError, match="401"):
            async with Client.connect(server.url):
                pass


async def test_a_proxy_of_the_environment_does_not_stand_before_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    async with native_server() as server, Client.connect(server.url) as client:
        assert client.ready.model == "ramp"


@pytest.mark.parametrize("url", ["ws://127.0.0.1:9/antiphon/v1/speak", "http://127.0.0.1:9/", "nonsense"])
async def test_no_server_is_a_refusal_too(url: str) -> None:
    with pytest.raises(RefusedError, match=r"127\.0\.0\.1|nonsense"):
        async with Client.connect(url):
            pass
