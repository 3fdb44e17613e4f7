"""Two ways to have text spoken for a command: by a gateway over its socket, or by an engine in this process.

Both give the same: encoded audio as it is made, and warnings. A speech that is not whole raises CommandError.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from engine.api import Engine, SpeechStream
from engine.errors import EngineError
from engine.speech import ModelInfo, Notice, SpeechRequest
from gateway.audio.encoder import StreamEncoder
from gateway.audio.formats import AudioFormat
from gateway.client import AudioFrame, Client, Config, Done, Options, SpeechClientError, Warned
from gateway.commands.outcome import CommandError
from gateway.text.front_end import Released, TextFrontEnd
from gateway.text.lexicon import Lexicon
from gateway.text.settings import TextSettings
from gateway.text.sink import TextNotice


@dataclass(frozen=True, slots=True)
class SayOptions:
    """What a command asks of a voice; None = the default."""

    voice: str | None = None
    speed: float | None = None
    seed: int | None = None
    language: str | None = None


Warn = Callable[[str], None]
"""Takes a sentence for the person at the terminal."""


class Speaker(Protocol):
    """Speaks one text."""

    @property
    def sample_rate_hz(self) -> int:
        """The rate that is sent if none is asked for."""
        ...

    def speak(
        self, text: AsyncIterator[str], audio_format: AudioFormat, options: SayOptions, warn: Warn
    ) -> AsyncGenerator[bytes, None]:
        """Audio as it is made, ending with the last sample. Raises CommandError where it cannot be whole."""
        ...


# ---- a gateway -------------------------------------------------------------------------------------------------------


class GatewaySpeaker:
    """Speaks through a client's connection."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def sample_rate_hz(self) -> int:
        return self._client.ready.sample_rate_hz

    async def speak(
        self, text: AsyncIterator[str], audio_format: AudioFormat, options: SayOptions, warn: Warn
    ) -> AsyncGenerator[bytes, None]:
        wanted: Options = {
            "format": audio_format.name,
            "sample_rate_hz": audio_format.sample_rate_hz,
            "words": False,
        }
        if options.voice is not None:
            wanted["voice"] = options.voice
        if options.speed is not None:
            wanted["speed"] = options.speed
        if options.seed is not None:
            wanted["seed"] = options.seed
        if options.language is not None:
            wanted["language"] = options.language
        try:
            utterance = await self._client.speak(text, **wanted)
            async for item in utterance:
                if isinstance(item, AudioFrame):
                    yield item.payload
                elif isinstance(item, Warned):
                    warn(item.message)
            done = utterance.done
        except SpeechClientError as error:
            raise CommandError(str(error)) from error
        if not isinstance(done, Done) or done.reason != "complete":
            raise CommandError(f"the speech is not whole: it ended with {done.reason if done else 'a cancel'}")


@asynccontextmanager
async def gateway_speaker(url: str, key: str | None, is_played: bool) -> AsyncIterator[Speaker]:
    """Raises CommandError where the gateway does not take the connection. Only for a listener, audio is held back to
    the listener's pace; a file takes all there is."""
    config: Config = {} if is_played else {"max_ahead_ms": None}
    try:
        async with Client.connect(url, key=key, **config) as client:
            yield GatewaySpeaker(client)
    except SpeechClientError as error:
        raise CommandError(str(error)) from error


# ---- an engine in this process ---------------------------------------------------------------------------------------


class EngineSpeaker:
    """Speaks with a started engine, through the same text front-end and encoder as a gateway's session."""

    def __init__(self, engine: Engine, settings: TextSettings, lexicon: Lexicon) -> None:
        self._engine = engine
        self._settings = settings
        self._lexicon = lexicon

    @property
    def sample_rate_hz(self) -> int:
        return self._engine.info.sample_rate_hz

    async def speak(
        self, text: AsyncIterator[str], audio_format: AudioFormat, options: SayOptions, warn: Warn
    ) -> AsyncGenerator[bytes, None]:
        info = self._engine.info
        session = self._engine.open_session("say")
        feeding: asyncio.Task[None] | None = None
        try:
            stream = session.open_stream(
                SpeechRequest(
                    voice=options.voice or info.default_voice,
                    seed=random.getrandbits(53) if options.seed is None else options.seed,
                    speed=1.0 if options.speed is None else options.speed,
                    language=options.language,
                )
            )
            say_once = _once(warn)
            feeding = asyncio.create_task(self._feed(stream, text, options, say_once), name="feed of say")
            encoder = StreamEncoder(audio_format, info.sample_rate_hz)
            async for chunk in stream:
                for notice in chunk.notices:
                    say_once(notice)
                for frame in encoder.encode(chunk.pcm, chunk.is_final, is_segment_end=chunk.is_segment_end):
                    yield frame.payload
            await feeding
        except EngineError as error:
            raise CommandError(str(error)) from error
        finally:
            if feeding is not None:
                feeding.cancel()
                with suppress(asyncio.CancelledError, CommandError, EngineError):
                    await feeding
            session.close()

    async def _feed(
        self,
        stream: SpeechStream,
        text: AsyncIterator[str],
        options: SayOptions,
        warn: Callable[[Notice | TextNotice], None],
    ) -> None:
        """The feeding task: text as it comes, and what only waits release. The stream is finished whatever happens."""
        info = self._engine.info
        front_end = TextFrontEnd(
            self._settings,
            lexicon=self._lexicon,
            segmentation="auto",
            language=options.language,
            spoken_languages=info.languages,
            has_text_normalizer=info.has_text_normalizer,
        )

        def feed(released: list[Released]) -> None:
            for item in released:
                if isinstance(item, TextNotice):
                    warn(item)
                    continue
                for control in item.controls:
                    support = info.tags.get(control.name, "unsupported")
                    if support in ("approximated", "unsupported"):
                        warn(_tag_notice(info, control.name, support))
                stream.feed(item)

        try:
            async with aclosing(_with_waits(text, front_end)) as pieces:
                async for piece in pieces:
                    now_s = time.monotonic()
                    feed(front_end.on_time(now_s) if piece is None else front_end.feed(piece, now_s))
            feed(front_end.finish(time.monotonic()))
        finally:
            stream.finish()


async def _with_waits(text: AsyncIterator[str], front_end: TextFrontEnd) -> AsyncGenerator[str | None, None]:
    """The pieces of `text`, and None at each time that the front-end wants to be woken at."""
    reading: asyncio.Task[str] | None = None
    try:
        while True:
            if reading is None:
                reading = asyncio.create_task(_next(text), name="next piece of say")
            wake_at_s = front_end.wake_at_s
            timeout_s = None if wake_at_s is None else max(0.0, wake_at_s - time.monotonic())
            await asyncio.wait({reading}, timeout=timeout_s)
            if not reading.done():
                yield None
                continue
            try:
                piece = reading.result()
            except StopAsyncIteration:
                return
            reading = None
            yield piece
    finally:
        if reading is not None:
            reading.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await reading


async def _next(text: AsyncIterator[str]) -> str:
    return await anext(text)


def _tag_notice(info: ModelInfo, name: str, support: str) -> Notice:
    if support == "approximated":
        return Notice("tag_approximated", name, f"{info.name} can only approximate the tag {name}")
    return Notice("tag_unsupported", name, f"{info.name} cannot render the tag {name}; it is left out")


def _once(warn: Warn) -> Callable[[Notice | TextNotice], None]:
    """Each notice of a kind and detail is said once."""
    said: set[tuple[str, str | None]] = set()

    def say(notice: Notice | TextNotice) -> None:
        if (notice.code, notice.detail) not in said:
            said.add((notice.code, notice.detail))
            warn(notice.message)

    return say


@asynccontextmanager
async def engine_speaker(
    load: Callable[[], Engine], settings: TextSettings, lexicon: Lexicon
) -> AsyncIterator[Speaker]:
    """`load` takes seconds and runs in a thread; where it or the start raises EngineError, this raises CommandError."""
    try:
        engine = await asyncio.to_thread(load)
        await engine.start()
    except EngineError as error:
        raise CommandError(str(error)) from error
    try:
        yield EngineSpeaker(engine, settings, lexicon)
    finally:
        await engine.close()
