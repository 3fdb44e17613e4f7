"""How a command has text spoken: by a client of a gateway that runs elsewhere, or of one in this process.

Both give encoded audio as it is made, and warnings. A speech that is not whole raises CommandError.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol

from engine.errors import EngineError
from engine.voice_store import VoiceStoreError
from gateway.audio.formats import AudioFormat
from gateway.client import AudioFrame, Client, Config, Done, Options, SpeechClientError, Warned
from gateway.commands.outcome import CommandError
from gateway.dialects.base import Handshake
from gateway.dialects.native import MSGPACK_SUBPROTOCOL, NativeDialect
from gateway.routes import run_peer
from gateway.service import Service
from gateway.transports.in_process import in_process_pair
from gateway.voice_routes import refresh

OPERATOR: Final = "operator"
"""Who is counted as speaking in this process."""


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


class ClientSpeaker:
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
        given = _GivenText(text)
        try:
            utterance = await self._client.speak(given, **wanted)
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
        if given.error is not None:
            raise given.error


class _GivenText:
    """A text that ends where reading it fails, so that what was read before is spoken; `error` says why it ended."""

    def __init__(self, text: AsyncIterator[str]) -> None:
        self._text = text
        self.error: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[str]:
        try:
            async for piece in self._text:
                yield piece
        except Exception as error:  # of whatever kind: it is raised again by whoever asked for the speech
            self.error = error


def _config(is_played: bool) -> Config:
    """Only for a listener, audio is held back to the listener's pace; a file takes all there is."""
    return {} if is_played else {"max_ahead_ms": None}


@asynccontextmanager
async def gateway_speaker(url: str, key: str | None, is_played: bool) -> AsyncIterator[Speaker]:
    """Raises CommandError where the gateway does not take the connection."""
    try:
        async with Client.connect(url, key=key, **_config(is_played)) as client:
            yield ClientSpeaker(client)
    except SpeechClientError as error:
        raise CommandError(str(error)) from error


# ---- an engine in this process ---------------------------------------------------------------------------------------


@asynccontextmanager
async def engine_speaker(load: Callable[[], Service], is_played: bool) -> AsyncIterator[Speaker]:
    """Speaks as `gateway_speaker` does, through a connection to a gateway that is in this process and has no network.

    `load` takes seconds and runs in a thread; where it or the start raises EngineError, this raises CommandError."""
    try:
        service = _for_one(await asyncio.to_thread(load))
        await service.engine.start()
    except EngineError as error:
        raise CommandError(str(error)) from error
    try:
        await _load_voices(service)
        transport, socket = in_process_pair()
        handshake = Handshake("", {}, {}, {}, (MSGPACK_SUBPROTOCOL,))
        dialect = NativeDialect(handshake, service.sessions.limits.message_bytes)
        serving = asyncio.create_task(run_peer(service, "native", OPERATOR, transport, dialect), name="gateway of say")
        serving.add_done_callback(lambda _: transport.abort())
        try:
            async with Client.over(socket, wire="msgpack", **_config(is_played)) as client:
                yield ClientSpeaker(client)
        except SpeechClientError as error:
            raise CommandError(str(error)) from error
        finally:
            await serving
    finally:
        await service.engine.close()


def _for_one(service: Service) -> Service:
    """Without what keeps the clients of a server from each other: a text may be a book, and pause for hours."""
    limits = replace(service.sessions.limits, utterance_chars=sys.maxsize, idle_s=math.inf, utterance_idle_s=math.inf)
    return replace(service, sessions=replace(service.sessions, limits=limits), stalled_s=math.inf)


async def _load_voices(service: Service) -> None:
    """Those that were cloned on this machine for its operator."""
    library = service.engine.voices
    if library is not None:
        try:
            await refresh(service, library, None)
        except VoiceStoreError as error:
            raise CommandError(str(error)) from error
