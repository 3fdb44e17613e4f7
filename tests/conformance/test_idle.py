"""Connections over which nothing is said for a minute speak on. All clients wait through the same minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from tests.conformance.conftest import Host

pytest.importorskip("livekit.agents", reason="vendors' clients are not installed: make test-clients")
pytest.importorskip("pipecat", reason="vendors' clients are not installed: make test-clients")
from pipecat.frames.frames import LLMFullResponseStartFrame
from pipecat.tests.utils import SleepFrame

from tests.conformance import test_cartesia_sdk, test_deepgram_sdk, test_livekit_plugins, test_pipecat_services

IDLE_S = 61.0
"""Past the minute after which proxies and services drop a silent connection, and the clients' own pings."""
BYTES_PER_S = 48000

Turns = tuple[float, float]
"""Seconds heard before the minute and after it."""


def _cartesia(host: Host) -> Turns:
    with test_cartesia_sdk.client(host).tts.websocket_connect() as connection:
        first = test_cartesia_sdk.turn(connection, "Hello there.")
        time.sleep(IDLE_S)
        second = test_cartesia_sdk.turn(connection, "Hello there.")
    return (
        len(test_cartesia_sdk.spoken(first)) / BYTES_PER_S,
        len(test_cartesia_sdk.spoken(second)) / BYTES_PER_S,
    )


def _deepgram(host: Host) -> Turns:
    heard_s = []
    speak = test_deepgram_sdk.client(host).speak.v1
    with speak.connect(model="alto", encoding="linear16", sample_rate="24000") as connection:
        for pause_s in (IDLE_S, 0.0):
            test_deepgram_sdk.say(connection, "Hello there.")
            connection.send_flush()
            heard_s.append(len(test_deepgram_sdk.spoken(test_deepgram_sdk.until(connection, "Flushed"))) / BYTES_PER_S)
            time.sleep(pause_s)
    return heard_s[0], heard_s[1]


def _livekit(name: str) -> Callable[[Host], Awaitable[Turns]]:
    async def speak(host: Host) -> Turns:
        async with test_livekit_plugins.speaker(name, host) as voice:
            first = await test_livekit_plugins.turn(voice, test_livekit_plugins.TOKENS)
            await asyncio.sleep(IDLE_S)
            second = await test_livekit_plugins.turn(voice, test_livekit_plugins.TOKENS)
        return first.audio_s, second.audio_s

    return speak


def _pipecat(name: str) -> Callable[[Host], Awaitable[Turns]]:
    async def speak(host: Host) -> Turns:
        turn = test_pipecat_services.turn
        tokens = test_pipecat_services.TOKENS
        frames = [*turn(tokens), SleepFrame(IDLE_S), *turn(tokens)]
        heard = await test_pipecat_services.heard(name, host, frames)
        assert not heard.errors
        _, again = [i for i, frame in enumerate(heard.frames) if isinstance(frame, LLMFullResponseStartFrame)]
        before, after = (test_pipecat_services.Heard(part, []) for part in (heard.frames[:again], heard.frames[again:]))
        assert before.stops == after.stops == 1
        return before.audio_s, after.audio_s

    return speak


CLIENTS: dict[str, Callable[[Host], Awaitable[Turns]]] = {
    test_cartesia_sdk.CLIENT: lambda host: asyncio.to_thread(_cartesia, host),
    test_deepgram_sdk.CLIENT: lambda host: asyncio.to_thread(_deepgram, host),
    **{test_livekit_plugins.NAME + name: _livekit(name) for name in test_livekit_plugins.CLIENTS},
    **{
        test_pipecat_services.NAME + name: _pipecat(name)
        for name in ("ElevenLabs", "Cartesia", "Deepgram", "Deepgram Flux")
    },
}
CASES = [pytest.param(name, id=name, marks=pytest.mark.capability(name, "60 s idle")) for name in CLIENTS]


@pytest.fixture(scope="module")
def turns(host: Host) -> dict[str, Turns | BaseException]:
    async def wait() -> list[Turns | BaseException]:
        return await asyncio.gather(*(speak(host) for speak in CLIENTS.values()), return_exceptions=True)

    return dict(zip(CLIENTS, asyncio.run(wait()), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_connection_idle_for_a_minute_speaks_on(name: str, turns: dict[str, Turns | BaseException]) -> None:
    heard = turns[name]
    if isinstance(heard, BaseException):
        raise heard
    before_s, after_s = heard
    assert before_s > 0.4
    assert after_s == pytest.approx(before_s, abs=0.1)
