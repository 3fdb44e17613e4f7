"""The embedded voice through every client, transcribed by an offline recogniser.

Needs the recogniser of benchmarks/meters beside the clients; skipped where it is not installed.
"""

from __future__ import annotations

import asyncio
import base64
import io
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import soundfile
import soxr

from tests.conformance.conftest import Host, hosted

pytest.importorskip("elevenlabs", reason="vendors' clients are not installed: make test-clients")
pytest.importorskip("faster_whisper", reason="the recogniser is not installed: see benchmarks/meters")
from benchmarks.meters.recognition import RECOGNISER_RATE_HZ, Recogniser
from engine.models import load_model
from tests.conformance import (
    test_cartesia_sdk,
    test_deepgram_sdk,
    test_elevenlabs_sdk,
    test_livekit_plugins,
    test_openai_sdk,
    test_pipecat_services,
)

TEXT = (
    "The quick brown fox jumps over the lazy dog. Your total is five dollars and twenty cents, thank you very much. "
    "See you tomorrow morning at nine."
)
TOKENS = re.findall(r"\s*\S{1,4}", TEXT)
RATE_HZ = 24000
LISTENERS = 6
"""Routes that are heard at a time."""
MAX_WRONG_WORDS = 1
"""Of 23: the recogniser's own slips, not the clients'."""


Heard = tuple[bytes, int]
"""16-bit samples and their rate."""


@dataclass(frozen=True, slots=True)
class Route:
    name: str
    client: str
    speak: Callable[[Host], Awaitable[Heard]]


@pytest.fixture(scope="module")
def voice() -> Iterator[Host]:
    yield from hosted(load_model("hibari"))


@pytest.fixture(scope="module")
def heard(voice: Host) -> dict[str, Heard | BaseException]:
    """What each route hears: in real time, so several listen beside each other."""
    places = asyncio.Semaphore(LISTENERS)

    async def hear(route: Route) -> Heard:
        async with places:
            return await route.speak(voice)

    async def all_of_them() -> list[Heard | BaseException]:
        return await asyncio.gather(*(hear(route) for route in ROUTES), return_exceptions=True)

    return dict(zip((route.name for route in ROUTES), asyncio.run(all_of_them()), strict=True))


@pytest.fixture(scope="module")
def recogniser() -> Recogniser:
    return Recogniser("base")


def _elevenlabs(host: Host) -> Heard:
    return test_elevenlabs_sdk.realtime(test_elevenlabs_sdk.client(host), TOKENS, "heart"), RATE_HZ


def _cartesia(host: Host) -> Heard:
    with test_cartesia_sdk.client(host).tts.websocket_connect() as connection:
        return test_cartesia_sdk.spoken(test_cartesia_sdk.turn(connection, *TOKENS)), RATE_HZ


def _deepgram(host: Host) -> Heard:
    sdk = test_deepgram_sdk.client(host)
    with sdk.speak.v1.connect(model="heart", encoding="linear16", sample_rate="24000") as connection:
        test_deepgram_sdk.say(connection, *TOKENS)
        connection.send_flush()
        return test_deepgram_sdk.spoken(test_deepgram_sdk.until(connection, "Flushed")), RATE_HZ


def _openai(host: Host) -> Heard:
    with test_openai_sdk.client(host).audio.speech.with_streaming_response.create(
        model="tts-1", voice="heart", input=TEXT, response_format="mp3"
    ) as response:
        samples, rate_hz = soundfile.read(io.BytesIO(b"".join(response.iter_bytes())), dtype="int16")
    return samples.tobytes(), rate_hz


def _realtime(host: Host) -> Heard:
    with test_openai_sdk.client(host).realtime.connect(model="gpt-realtime") as connection:
        events = test_openai_sdk.conversation(connection, TEXT)
    deltas = [event.delta for event in events if event.type == "response.output_audio.delta"]
    return b"".join(base64.b64decode(delta) for delta in deltas), RATE_HZ


def _livekit(name: str) -> Callable[[Host], Awaitable[Heard]]:
    async def speak(host: Host) -> Heard:
        samples, rate_hz = bytearray(), RATE_HZ
        async with (
            test_livekit_plugins.speaker(name, host) as tts,
            tts.stream(conn_options=test_livekit_plugins.ONCE) as stream,
        ):
            for token in TOKENS:
                stream.push_text(token)
            stream.end_input()
            async for event in stream:
                samples += event.frame.data
                rate_hz = event.frame.sample_rate
        return bytes(samples), rate_hz

    return speak


def _pipecat(name: str) -> Callable[[Host], Awaitable[Heard]]:
    async def speak(host: Host) -> Heard:
        frames = test_pipecat_services.turn(TOKENS, 10.0)
        heard = await test_pipecat_services.heard(name, host, frames)
        audio = [frame for frame in heard.frames if isinstance(frame, test_pipecat_services.TTSAudioRawFrame)]
        return b"".join(frame.audio for frame in audio), RATE_HZ

    return speak


def _in_a_thread(speak: Callable[[Host], Heard]) -> Callable[[Host], Awaitable[Heard]]:
    return lambda host: asyncio.to_thread(speak, host)


ROUTES = [
    Route("elevenlabs", test_elevenlabs_sdk.CLIENT, _in_a_thread(_elevenlabs)),
    Route("cartesia", test_cartesia_sdk.CLIENT, _in_a_thread(_cartesia)),
    Route("deepgram", test_deepgram_sdk.CLIENT, _in_a_thread(_deepgram)),
    Route("openai", test_openai_sdk.CLIENT, _in_a_thread(_openai)),
    Route("openai realtime", test_openai_sdk.CLIENT, _in_a_thread(_realtime)),
    *(
        Route(f"livekit {name}", test_livekit_plugins.NAME + name, _livekit(name))
        for name in test_livekit_plugins.CLIENTS
    ),
    *(
        Route(f"pipecat {name}", test_pipecat_services.NAME + name, _pipecat(name))
        for name in test_pipecat_services.CLIENTS
    ),
]
CASES = [
    pytest.param(route, id=route.name, marks=pytest.mark.capability(route.client, "understood")) for route in ROUTES
]


@pytest.mark.slow
@pytest.mark.parametrize("route", CASES)
def test_what_arrives_is_understood(
    route: Route, heard: dict[str, Heard | BaseException], recogniser: Recogniser
) -> None:
    result = heard[route.name]
    if isinstance(result, BaseException):
        raise result
    data, rate_hz = result
    samples = np.frombuffer(data, "<i2").astype(np.float32) / 32768
    errors = recogniser.errors(TEXT, soxr.resample(samples, rate_hz, RECOGNISER_RATE_HZ))
    assert errors.wrong <= MAX_WRONG_WORDS, errors.heard
