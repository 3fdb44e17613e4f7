"""Pipecat: its services of ElevenLabs, Cartesia, Deepgram, Deepgram Flux and OpenAI in a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance.conftest import KEY, Host

pytest.importorskip("pipecat", reason="vendors' clients are not installed: make test-clients")
import aiohttp
from pipecat.frames.frames import (
    ErrorFrame,
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.worker import PipelineParams
from pipecat.services.cartesia.tts import CartesiaHttpTTSService, CartesiaTTSService
from pipecat.services.deepgram.flux.tts import DeepgramFluxTTSService
from pipecat.services.deepgram.tts import DeepgramHttpTTSService, DeepgramTTSService
from pipecat.services.elevenlabs.tts import ElevenLabsHttpTTSService, ElevenLabsTTSService
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.services.tts_service import TextAggregationMode, TTSService
from pipecat.tests.utils import SleepFrame, run_test

NAME = "Pipecat 1.14.0 "
TOKENS = ["Your", " total", " is", " $5", ".", " Thank", " you", " very", " much", "!"]
WORDS = ["Your", "total", "is", "$5.", "Thank", "you", "very", "much!"]
RATE_HZ = 24000
Make = Callable[[Host, str, TextAggregationMode], TTSService]


def _elevenlabs(host: Host, key: str, mode: TextAggregationMode) -> TTSService:
    settings = ElevenLabsTTSService.Settings(voice="alto")
    return ElevenLabsTTSService(
        api_key=key, url=host.ws, sample_rate=RATE_HZ, settings=settings, text_aggregation_mode=mode
    )


def _cartesia(host: Host, key: str, mode: TextAggregationMode) -> TTSService:
    settings = CartesiaTTSService.Settings(voice="alto")
    url = f"{host.ws}/tts/websocket"
    return CartesiaTTSService(api_key=key, url=url, sample_rate=RATE_HZ, settings=settings, text_aggregation_mode=mode)


def _deepgram(host: Host, key: str, mode: TextAggregationMode) -> TTSService:
    settings = DeepgramTTSService.Settings(voice="alto")
    return DeepgramTTSService(
        api_key=key, base_url=host.ws, sample_rate=RATE_HZ, settings=settings, text_aggregation_mode=mode
    )


def _flux(host: Host, key: str, mode: TextAggregationMode) -> TTSService:
    settings = DeepgramFluxTTSService.Settings(voice="alto")
    return DeepgramFluxTTSService(
        api_key=key, url=f"{host.ws}/v2/speak", sample_rate=RATE_HZ, settings=settings, text_aggregation_mode=mode
    )


def _openai(host: Host, key: str, mode: TextAggregationMode) -> TTSService:
    settings = OpenAITTSService.Settings(voice="alloy")
    return OpenAITTSService(api_key=key, base_url=f"{host.http}/v1", settings=settings, text_aggregation_mode=mode)


CLIENTS: dict[str, Make] = {
    "ElevenLabs": _elevenlabs,
    "Cartesia": _cartesia,
    "Deepgram": _deepgram,
    "Deepgram Flux": _flux,
    "OpenAI": _openai,
}


def clients(capability: str, *names: str) -> pytest.MarkDecorator:
    cases = [
        pytest.param(name, id=name, marks=pytest.mark.capability(NAME + name, capability)) for name in names or CLIENTS
    ]
    return pytest.mark.parametrize("name", cases)


@dataclass(frozen=True, slots=True)
class Heard:
    frames: Sequence[Frame]
    errors: Sequence[Frame]

    @property
    def audio_s(self) -> float:
        audio = [frame for frame in self.frames if isinstance(frame, TTSAudioRawFrame)]
        return sum(len(frame.audio) for frame in audio) / 2 / RATE_HZ

    @property
    def words(self) -> list[str]:
        return " ".join(frame.text for frame in self.frames if isinstance(frame, TTSTextFrame)).split()

    @property
    def stops(self) -> int:
        return sum(isinstance(frame, TTSStoppedFrame) for frame in self.frames)


def turn(tokens: list[str], pause_s: float = 1.5) -> list[Frame]:
    """What an LLM service sends, and a pause, else the pipeline's end cuts the audio off."""
    texts: list[Frame] = [LLMTextFrame(text=token) for token in tokens]
    return [LLMFullResponseStartFrame(), *texts, LLMFullResponseEndFrame(), SleepFrame(pause_s)]


async def heard(
    name: str,
    host: Host,
    frames: list[Frame],
    mode: TextAggregationMode = TextAggregationMode.SENTENCE,
    key: str = KEY,
) -> Heard:
    params: Any = PipelineParams(audio_out_sample_rate=RATE_HZ)
    down, up = await run_test(CLIENTS[name](host, key, mode), frames_to_send=frames, pipeline_params=params)
    return Heard(down, [frame for frame in up if isinstance(frame, ErrorFrame)])


@clients("speech")
@pytest.mark.parametrize("mode", [TextAggregationMode.SENTENCE, TextAggregationMode.TOKEN])
async def test_tokens_are_spoken_and_the_turn_stops_once(name: str, mode: TextAggregationMode, host: Host) -> None:
    if name == "OpenAI" and mode is TextAggregationMode.TOKEN:
        mode = TextAggregationMode.SENTENCE  # a request a token is no use to anyone
    spoken = await heard(name, host, turn(TOKENS), mode)
    assert 1.0 < spoken.audio_s < 3.0
    assert spoken.stops == 1
    assert not spoken.errors


@clients("words", "ElevenLabs", "Cartesia")
@pytest.mark.parametrize("mode", [TextAggregationMode.SENTENCE, TextAggregationMode.TOKEN])
async def test_words_come_in_order_with_their_marks(name: str, mode: TextAggregationMode, host: Host) -> None:
    spoken = await heard(name, host, turn(TOKENS), mode)
    assert spoken.words == WORDS
    times = [frame.pts for frame in spoken.frames if isinstance(frame, TTSTextFrame)]
    assert all(time is not None for time in times)
    assert times == sorted(times, key=lambda time: time or 0)


@clients("second turn")
async def test_a_second_turn_sounds_like_the_first(name: str, host: Host) -> None:
    one = await heard(name, host, turn(TOKENS))
    two = await heard(name, host, [*turn(TOKENS), *turn(TOKENS)])
    assert two.audio_s == pytest.approx(2 * one.audio_s, abs=0.1)
    assert two.stops == 2


@clients("empty turn ends")
@pytest.mark.parametrize("tokens", [[], [" "], ["...", "!"]])
async def test_a_turn_with_nothing_to_say_does_no_harm(name: str, tokens: list[str], host: Host) -> None:
    spoken = await heard(name, host, [*turn(tokens, 0.5), *turn(TOKENS)])
    assert 1.0 < spoken.audio_s < 3.0
    if name != "Deepgram Flux":  # its own protocol answers with zero-length speech, which Pipecat reports
        assert not spoken.errors


@clients("interruption")
async def test_after_an_interruption_the_next_turn_is_only_itself(name: str, slow_host: Host) -> None:
    story = ["A long story that nobody wants to hear, with many words. ", "And a second sentence of it. ", "More"]
    start: list[Frame] = [LLMFullResponseStartFrame(), *(LLMTextFrame(text=text) for text in story), SleepFrame(0.5)]
    spoken = await heard(name, slow_host, [*start, InterruptionFrame(), SleepFrame(0.3), *turn(["Hi", "."])])
    place = next(i for i, frame in enumerate(spoken.frames) if isinstance(frame, InterruptionFrame))
    after = Heard(spoken.frames[place:], [])
    whole = await heard(name, slow_host, turn(["Hi", "."]))
    assert after.audio_s == pytest.approx(whole.audio_s, abs=0.05)
    assert not spoken.errors


@clients("bad key refused")
async def test_a_bad_key_is_an_error(name: str, host: Host) -> None:
    spoken = await heard(name, host, turn(TOKENS, 0.5), key="a wrong key that is long enough")
    assert spoken.audio_s == 0.0
    assert spoken.errors


def _over_http(name: str, host: Host, session: aiohttp.ClientSession) -> TTSService:
    if name == "ElevenLabs":
        settings = ElevenLabsHttpTTSService.Settings(voice="alto")
        return ElevenLabsHttpTTSService(
            api_key=KEY, aiohttp_session=session, base_url=host.http, sample_rate=RATE_HZ, settings=settings
        )
    if name == "Cartesia":
        return CartesiaHttpTTSService(
            api_key=KEY,
            aiohttp_session=session,
            base_url=host.http,
            sample_rate=RATE_HZ,
            settings=CartesiaHttpTTSService.Settings(voice="alto"),
        )
    return DeepgramHttpTTSService(
        api_key=KEY,
        aiohttp_session=session,
        base_url=host.http,
        sample_rate=RATE_HZ,
        settings=DeepgramHttpTTSService.Settings(voice="alto"),
    )


@clients("HTTP", "ElevenLabs", "Cartesia", "Deepgram")
async def test_its_services_over_http_speak_too(name: str, host: Host) -> None:
    params: Any = PipelineParams(audio_out_sample_rate=RATE_HZ)
    async with aiohttp.ClientSession() as session:
        service = _over_http(name, host, session)
        down, up = await run_test(service, frames_to_send=turn(TOKENS), pipeline_params=params)
    spoken = Heard(down, [frame for frame in up if isinstance(frame, ErrorFrame)])
    assert 1.0 < spoken.audio_s < 3.0
    assert " ".join(spoken.words) == " ".join(WORDS)
    assert not spoken.errors
