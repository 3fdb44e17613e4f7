"""LiveKit Agents: its plugins of ElevenLabs, Cartesia, Deepgram, OpenAI, and its Inference protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.conformance.conftest import KEY, Host

pytest.importorskip("livekit.agents", reason="vendors' clients are not installed: make test-clients")
import aiohttp
from livekit.agents import APIConnectOptions, APIStatusError, inference, tokenize, tts
from livekit.plugins import cartesia, deepgram, elevenlabs, openai

NAME = "LiveKit 1.8.9 "
ONCE = APIConnectOptions(max_retry=0, timeout=10)
TOKENS = ["Your", " total", " is", " $5", ".", " Thank", " you", " very", " much", "!"]
WORDS = ["Your", "total", "is", "$5.", "Thank", "you", "very", "much!"]
Make = Callable[[Host, aiohttp.ClientSession, str], "tts.TTS[Any]"]


def _elevenlabs(host: Host, session: aiohttp.ClientSession, key: str) -> tts.TTS[Any]:
    return elevenlabs.TTS(api_key=key, base_url=f"{host.http}/v1", encoding="pcm_24000", http_session=session)


def _elevenlabs_mp3(host: Host, session: aiohttp.ClientSession, key: str) -> tts.TTS[Any]:
    return elevenlabs.TTS(api_key=key, base_url=f"{host.http}/v1", http_session=session)


def _elevenlabs_words(host: Host, session: aiohttp.ClientSession, key: str) -> tts.TTS[Any]:
    words = tokenize.basic.WordTokenizer(ignore_punctuation=False)
    return elevenlabs.TTS(
        api_key=key,
        base_url=f"{host.http}/v1",
        encoding="pcm_24000",
        http_session=session,
        auto_mode=False,
        word_tokenizer=words,
    )


def _cartesia(host: Host, session: aiohttp.ClientSession, key: str) -> tts.TTS[Any]:
    return cartesia.TTS(api_key=key, base_url=host.http, http_session=session)


def _deepgram(host: Host, session: aiohttp.ClientSession, key: str) -> tts.TTS[Any]:
    return deepgram.TTS(api_key=key, base_url=f"{host.http}/v1/speak", http_session=session)


def _flux(host: Host, session: aiohttp.ClientSession, key: str) -> tts.TTS[Any]:
    return deepgram.TTSv2(api_key=key, base_url=f"{host.http}/v2/speak", http_session=session)


def _inference(host: Host, session: aiohttp.ClientSession, key: str) -> tts.TTS[Any]:
    return inference.TTS(
        "cartesia/sonic-3",
        voice="alto",
        base_url=f"{host.http}/v1",
        api_key="client",
        api_secret=key,
        http_session=session,
        extra_kwargs={"add_timestamps": True},
    )


def _openai(host: Host, session: aiohttp.ClientSession, key: str) -> tts.TTS[Any]:
    return tts.StreamAdapter(tts=openai.TTS(base_url=f"{host.http}/v1", api_key=key, response_format="pcm"))


CLIENTS: dict[str, Make] = {
    "ElevenLabs": _elevenlabs,
    "ElevenLabs (mp3)": _elevenlabs_mp3,
    "ElevenLabs (words)": _elevenlabs_words,
    "Cartesia": _cartesia,
    "Deepgram": _deepgram,
    "Deepgram Flux": _flux,
    "Inference": _inference,
    "OpenAI": _openai,
}
WITH_WORDS = ("ElevenLabs", "ElevenLabs (mp3)", "ElevenLabs (words)", "Cartesia", "Inference")


def clients(capability: str, *names: str) -> pytest.MarkDecorator:
    cases = [
        pytest.param(name, id=name, marks=pytest.mark.capability(NAME + name, capability)) for name in names or CLIENTS
    ]
    return pytest.mark.parametrize("name", cases)


@dataclass
class Heard:
    audio_s: float = 0.0
    words: list[tuple[str, float]] = field(default_factory=list)


@asynccontextmanager
async def speaker(name: str, host: Host, key: str = KEY) -> AsyncIterator[tts.TTS[Any]]:
    async with aiohttp.ClientSession() as session:
        voice = CLIENTS[name](host, session, key)
        try:
            yield voice
        finally:
            await voice.aclose()


async def turn(voice: tts.TTS[Any], tokens: list[str]) -> Heard:
    """One turn, fed token by token as an agent does it."""
    heard = Heard()
    async with asyncio.timeout(20), voice.stream(conn_options=ONCE) as stream:

        async def feed() -> None:
            for token in tokens:
                stream.push_text(token)
                await asyncio.sleep(0)
            stream.end_input()

        feeding = asyncio.create_task(feed())
        async for event in stream:
            heard.audio_s += event.frame.duration
            for timed in event.frame.userdata.get("lk.timed_transcripts", []):
                heard.words.append((str(timed), float(timed.start_time)))
        await feeding
    return heard


@clients("speech")
async def test_tokens_are_spoken(name: str, host: Host) -> None:
    async with speaker(name, host) as voice:
        heard = await turn(voice, TOKENS)
    assert 1.0 < heard.audio_s < 3.0


@clients("words", *WITH_WORDS)
async def test_words_are_in_order_and_inside_the_audio(name: str, host: Host) -> None:
    async with speaker(name, host) as voice:
        heard = await turn(voice, TOKENS)
    assert "".join(text for text, _ in heard.words).split() == WORDS
    starts = [start for _, start in heard.words]
    assert starts == sorted(starts)
    assert starts[-1] < heard.audio_s


@clients("second turn")
async def test_a_second_turn_on_the_same_connection_sounds_like_the_first(name: str, host: Host) -> None:
    async with speaker(name, host) as voice:
        first = await turn(voice, TOKENS)
        second = await turn(voice, TOKENS)
    assert second.audio_s == pytest.approx(first.audio_s, abs=0.03)


@clients("empty turn ends")
@pytest.mark.parametrize("tokens", [[], [" "], ["\n"]])
async def test_a_turn_with_nothing_to_say_ends(name: str, tokens: list[str], host: Host) -> None:
    async with speaker(name, host) as voice:
        assert (await turn(voice, tokens)).audio_s == 0.0
        assert (await turn(voice, TOKENS)).audio_s > 1.0


@clients("interruption")
async def test_after_an_interruption_the_next_turn_is_only_itself(name: str, slow_host: Host) -> None:
    async with speaker(name, slow_host) as voice:
        whole = await turn(voice, ["Hi", "."])
        async with asyncio.timeout(20):
            stream = voice.stream(conn_options=ONCE)
            stream.push_text("A long story that nobody wants to hear, with many words. And a second sentence of it. ")
            stream.push_text("And more")
            await anext(aiter(stream))
            await stream.aclose()
        again = await turn(voice, ["Hi", "."])
    assert again.audio_s == pytest.approx(whole.audio_s, abs=0.03)


@clients("bad key refused")
async def test_a_bad_key_is_a_status_error_that_is_not_retried(name: str, host: Host) -> None:
    async with speaker(name, host, "a wrong key that is long enough") as voice:
        with pytest.raises(APIStatusError) as refused:
            await turn(voice, TOKENS)
    assert refused.value.status_code == 401
    assert not refused.value.retryable


@pytest.mark.capability(NAME + "ElevenLabs", "HTTP")
@pytest.mark.capability(NAME + "ElevenLabs", "voices")
async def test_elevenlabs_synthesizes_over_http_and_lists_voices(host: Host) -> None:
    async with speaker("ElevenLabs", host) as voice:
        assert isinstance(voice, elevenlabs.TTS)
        frame = await voice.synthesize("Hello there.", conn_options=ONCE).collect()
        assert frame.duration == pytest.approx(0.48, abs=0.03)
        assert [known.id for known in await voice.list_voices()] == ["alto", "tenor"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, id=name, marks=pytest.mark.capability(NAME + name, "HTTP"))
        for name in ("Cartesia", "Deepgram", "Deepgram Flux")
    ],
)
async def test_a_plugin_synthesizes_over_http(name: str, host: Host) -> None:
    async with speaker(name, host) as voice:
        frame = await voice.synthesize("Hello there.", conn_options=ONCE).collect()
    assert frame.duration == pytest.approx(0.48, abs=0.03)
