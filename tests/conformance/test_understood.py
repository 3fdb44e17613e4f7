"""The embedded voice through every client, transcribed by an offline recogniser.

Needs the recogniser of benchmarks/meters beside the clients; skipped where it is not installed.
"""

from __future__ import annotations

import asyncio
import base64
import io
import re
from collections.abc import Callable, Iterator
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
MAX_WRONG_WORDS = 1
"""Of 23: the recogniser's own slips, not the clients'."""


@dataclass(frozen=True, slots=True)
class Route:
    client: str
    speak: Callable[[Host], tuple[bytes, int]]


@pytest.fixture(scope="module")
def voice() -> Iterator[Host]:
    yield from hosted(load_model("hibari"))


@pytest.fixture(scope="module")
def recogniser() -> Recogniser:
    return Recogniser("base")


def _elevenlabs(host: Host) -> tuple[bytes, int]:
    return test_elevenlabs_sdk.realtime(test_elevenlabs_sdk.client(host), TOKENS, "heart"), RATE_HZ


def _cartesia(host: Host) -> tuple[bytes, int]:
    with test_cartesia_sdk.client(host).tts.websocket_connect() as connection:
        return test_cartesia_sdk.spoken(test_cartesia_sdk.turn(connection, *TOKENS)), RATE_HZ


def _deepgram(host: Host) -> tuple[bytes, int]:
    sdk = test_deepgram_sdk.client(host)
    with sdk.speak.v1.connect(model="heart", encoding="linear16", sample_rate="24000") as connection:
        test_deepgram_sdk.say(connection, *TOKENS)
        connection.send_flush()
        return test_deepgram_sdk.spoken(test_deepgram_sdk.until(connection, "Flushed")), RATE_HZ


def _openai(host: Host) -> tuple[bytes, int]:
    with test_openai_sdk.client(host).audio.speech.with_streaming_response.create(
        model="tts-1", voice="heart", input=TEXT, response_format="mp3"
    ) as response:
        samples, rate_hz = soundfile.read(io.BytesIO(b"".join(response.iter_bytes())), dtype="int16")
    return samples.tobytes(), rate_hz


def _realtime(host: Host) -> tuple[bytes, int]:
    with test_openai_sdk.client(host).realtime.connect(model="gpt-realtime") as connection:
        events = test_openai_sdk.conversation(connection, TEXT)
    deltas = [event.delta for event in events if event.type == "response.output_audio.delta"]
    return b"".join(base64.b64decode(delta) for delta in deltas), RATE_HZ


def _livekit(name: str) -> Callable[[Host], tuple[bytes, int]]:
    async def speak(host: Host) -> tuple[bytes, int]:
        heard, rate_hz = bytearray(), RATE_HZ
        async with (
            test_livekit_plugins.speaker(name, host) as tts,
            tts.stream(conn_options=test_livekit_plugins.ONCE) as stream,
        ):
            for token in TOKENS:
                stream.push_text(token)
            stream.end_input()
            async for event in stream:
                heard += event.frame.data
                rate_hz = event.frame.sample_rate
        return bytes(heard), rate_hz

    return lambda host: asyncio.run(speak(host))


def _pipecat(name: str) -> Callable[[Host], tuple[bytes, int]]:
    async def speak(host: Host) -> tuple[bytes, int]:
        frames = test_pipecat_services.turn(TOKENS, 10.0)
        heard = await test_pipecat_services.heard(name, host, frames)
        audio = [frame for frame in heard.frames if isinstance(frame, test_pipecat_services.TTSAudioRawFrame)]
        return b"".join(frame.audio for frame in audio), RATE_HZ

    return lambda host: asyncio.run(speak(host))


ROUTES = [
    Route(test_elevenlabs_sdk.CLIENT, _elevenlabs),
    Route(test_cartesia_sdk.CLIENT, _cartesia),
    Route(test_deepgram_sdk.CLIENT, _deepgram),
    Route(test_openai_sdk.CLIENT, _openai),
    Route(test_openai_sdk.CLIENT, _realtime),
    *(Route(test_livekit_plugins.NAME + name, _livekit(name)) for name in test_livekit_plugins.CLIENTS),
    *(Route(test_pipecat_services.NAME + name, _pipecat(name)) for name in test_pipecat_services.CLIENTS),
]


CASES = [
    pytest.param(route, id=route.client, marks=pytest.mark.capability(route.client, "understood")) for route in ROUTES
]


@pytest.mark.slow
@pytest.mark.parametrize("route", CASES)
def test_what_arrives_is_understood(route: Route, voice: Host, recogniser: Recogniser) -> None:
    data, rate_hz = route.speak(voice)
    samples = np.frombuffer(data, "<i2").astype(np.float32) / 32768
    errors = recogniser.errors(TEXT, soxr.resample(samples, rate_hz, RECOGNISER_RATE_HZ))
    assert errors.wrong <= MAX_WRONG_WORDS, errors.heard
