"""How a command has text spoken: by a client of a gateway, which runs elsewhere or, as `in_process.py` has it, here.

It gives encoded audio as it is made, and warnings. A speech that is not whole raises CommandError.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from gateway.audio.formats import AudioFormat
from gateway.client import AudioFrame, Client, Defaults, Done, Options, SpeechClientError, Warned
from gateway.commands.outcome import CommandError


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


def client_config(is_played: bool) -> Defaults:
    """Only for a listener, audio is held back to the listener's pace; a file takes all there is."""
    return {} if is_played else {"max_ahead_ms": None}


@asynccontextmanager
async def gateway_speaker(url: str, key: str | None, is_played: bool) -> AsyncIterator[Speaker]:
    """Raises CommandError where the gateway does not take the connection."""
    try:
        async with Client.connect(url, key=key, **client_config(is_played)) as client:
            yield ClientSpeaker(client)
    except SpeechClientError as error:
        raise CommandError(str(error)) from error
