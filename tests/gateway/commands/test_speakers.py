"""Speaking by a gateway and by an engine in the process give the same audio, or a CommandError."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import numpy as np
import pytest

from engine.config import EngineSettings
from engine.engine import LocalEngine
from gateway.app import make_service
from gateway.audio.formats import AudioFormat
from gateway.commands.in_process import engine_speaker
from gateway.commands.outcome import CommandError
from gateway.commands.speakers import SayOptions, Speaker, gateway_speaker
from gateway.config import load_config
from tests.fakes.fake_model import WholeFramesModel
from tests.fakes.gateway import running_gateway

TEXT = "Good morning. The shop opens at nine, and it closes at five."
PCM = AudioFormat("pcm_s16le", 24000)
SEEDED = SayOptions(seed=1)
PLACES = ["engine", "gateway"]


def local(model: WholeFramesModel | None = None) -> AbstractAsyncContextManager[Speaker]:
    engine = LocalEngine(model or WholeFramesModel(), EngineSettings())
    return engine_speaker(lambda: make_service(load_config(None, {}), engine), is_played=False)


async def arriving(text: str, size: int = 3) -> AsyncIterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


async def spoken(
    speaker: Speaker,
    text: AsyncIterator[str],
    audio_format: AudioFormat = PCM,
    options: SayOptions = SEEDED,
) -> tuple[bytes, list[str]]:
    warnings: list[str] = []
    audio = b"".join([payload async for payload in speaker.speak(text, audio_format, options, warnings.append)])
    return audio, warnings


@pytest.mark.parametrize("audio_format", [AudioFormat("pcm_s16le", 24000), AudioFormat("mulaw", 8000)], ids=str)
async def test_engine_and_gateway_give_the_same_bytes(audio_format: AudioFormat) -> None:
    async with local() as here:
        by_engine, _ = await spoken(here, arriving(TEXT), audio_format)
    async with running_gateway() as gateway, gateway_speaker(gateway.url, None, is_played=False) as there:
        by_gateway, _ = await spoken(there, arriving(TEXT), audio_format)
    assert len(by_engine) > 10_000
    assert by_engine == by_gateway


async def test_the_default_rate_is_the_models() -> None:
    async with local() as here:
        assert here.sample_rate_hz == 24000
    async with running_gateway() as gateway, gateway_speaker(gateway.url, None, is_played=True) as there:
        assert there.sample_rate_hz == 24000


@asynccontextmanager
async def speaker_of(place: str, model: WholeFramesModel | None = None) -> AsyncIterator[Speaker]:
    if place == "engine":
        async with local(model) as here:
            yield here
    else:
        async with running_gateway(model) as gateway, gateway_speaker(gateway.url, None, is_played=False) as there:
            yield there


@pytest.mark.parametrize("place", PLACES)
async def test_what_has_been_written_is_spoken_while_the_text_goes_on(place: str) -> None:
    is_heard = asyncio.Event()

    async def waits_to_be_heard() -> AsyncIterator[str]:
        yield "The first sentence is complete. And "
        await is_heard.wait()
        yield "here is the rest."

    async with speaker_of(place) as speaker:
        async for _ in speaker.speak(waits_to_be_heard(), PCM, SayOptions(), lambda _: None):
            is_heard.set()
    assert is_heard.is_set()


@pytest.mark.parametrize("place", PLACES)
async def test_text_that_only_waiting_releases_is_spoken_too(place: str) -> None:
    is_heard = asyncio.Event()

    async def stops_in_mid_sentence() -> AsyncIterator[str]:
        yield "Let me have a look at that "
        await is_heard.wait()

    async with speaker_of(place) as speaker:
        async for _ in speaker.speak(stops_in_mid_sentence(), PCM, SayOptions(), lambda _: None):
            is_heard.set()


@pytest.mark.parametrize("place", PLACES)
async def test_a_tag_that_cannot_be_rendered_is_said_once(place: str) -> None:
    async with speaker_of(place) as speaker:
        _, warnings = await spoken(speaker, arriving("<|sfx:cough|>Well. <|sfx:cough|>Well then."))
    assert len([warning for warning in warnings if "sfx:cough" in warning]) == 1


@pytest.mark.parametrize("place", PLACES)
async def test_nothing_to_say_gives_no_audio_and_no_error(place: str) -> None:
    async with speaker_of(place) as speaker:
        assert (await spoken(speaker, arriving("")))[0] == b""


@pytest.mark.parametrize("place", PLACES)
async def test_a_text_without_a_word_gives_no_audio_and_no_error(place: str) -> None:
    async with speaker_of(place) as speaker:
        assert (await spoken(speaker, arriving("… --- !")))[0] == b""


@pytest.mark.parametrize("place", PLACES)
async def test_a_speed_out_of_range_is_an_error_that_names_the_range(place: str) -> None:
    async with speaker_of(place) as speaker:
        with pytest.raises(CommandError, match=r"speed is 3, must be 0\.5 to 2"):
            await spoken(speaker, arriving(TEXT), options=SayOptions(speed=3.0))


@pytest.mark.parametrize("place", PLACES)
async def test_options_that_a_model_does_not_have_are_remarked_on(place: str) -> None:
    async with speaker_of(place) as speaker:
        _, warnings = await spoken(speaker, arriving(TEXT), options=SayOptions(language="fr"))
    assert any("fr" in warning for warning in warnings)


@pytest.mark.parametrize("place", PLACES)
async def test_an_unknown_voice_is_an_error_that_names_it(place: str) -> None:
    async with speaker_of(place) as speaker:
        with pytest.raises(CommandError, match="nobody"):
            await spoken(speaker, arriving(TEXT), options=SayOptions(voice="nobody"))


@pytest.mark.parametrize("place", PLACES)
async def test_a_failed_synthesis_is_an_error(place: str) -> None:
    async with speaker_of(place, WholeFramesModel(faults={"Good morning.": "fail_prefill"})) as speaker:
        with pytest.raises(CommandError):
            await spoken(speaker, arriving(TEXT))


@pytest.mark.parametrize("place", PLACES)
async def test_a_text_that_breaks_off_with_an_error_is_spoken_so_far_and_raises(place: str) -> None:
    async def breaks() -> AsyncIterator[str]:
        yield "This much is good. "
        raise CommandError("the input is not UTF-8")

    audio: list[bytes] = []

    async def listen(speaker: Speaker) -> None:
        async for payload in speaker.speak(breaks(), PCM, SEEDED, lambda _: None):
            audio.append(payload)

    async with speaker_of(place) as speaker:
        with pytest.raises(CommandError, match="UTF-8"):
            await listen(speaker)
    assert np.frombuffer(b"".join(audio), "<i2").any()


async def test_no_gateway_is_a_command_error() -> None:
    with pytest.raises(CommandError, match=r"127\.0\.0\.1:9"):
        async with gateway_speaker("ws://127.0.0.1:9/antiphon/v1/speak", None, is_played=False):
            pass
