"""`antiphon say`: text, or standard input as it comes, spoken into a file or aloud."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from gateway.audio.formats import AudioFormat, resolve_format
from gateway.commands.outcome import CommandError
from gateway.commands.playback import Player, open_player
from gateway.commands.speakers import SayOptions, Speaker
from gateway.commands.wav import WavFile
from gateway.errors import ClientError

STANDARD_OUTPUT = "-"
PROGRESS_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class SayRequest:
    """What was asked for on the command line."""

    out: str | None
    """A path; "-" = raw samples to standard output; None = none."""
    is_played: bool
    format: str
    sample_rate_hz: int | None
    options: SayOptions
    has_progress: bool


class _Writer(Protocol):
    """Where audio goes."""

    async def write(self, payload: bytes) -> None: ...

    async def finish(self) -> None: ...


class _FileWriter:
    def __init__(self, file: WavFile | BinaryIO) -> None:
        self._file = file

    async def write(self, payload: bytes) -> None:
        try:
            self._file.write(payload)
        except (OSError, ValueError) as error:
            raise CommandError(f"the audio cannot be written: {error}") from error

    async def finish(self) -> None:
        if not isinstance(self._file, WavFile):
            self._file.flush()


async def say(request: SayRequest, speaker: AbstractAsyncContextManager[Speaker], text: AsyncIterator[str]) -> None:
    """Speak `text`. Returns when all of it has been written, and heard where it is played; raises CommandError else."""
    async with speaker as voice, AsyncExitStack() as opened:
        audio_format = _format(request, voice.sample_rate_hz)
        writers = await _open_writers(request, audio_format, opened)
        progress = _Progress(audio_format) if request.has_progress else None
        audio = voice.speak(text, audio_format, request.options, _warn)
        async with aclosing(audio) as pieces:
            async for payload in pieces:
                for writer in writers:
                    await writer.write(payload)
                if progress is not None:
                    progress.add(len(payload))
        for writer in writers:
            await writer.finish()
        if progress is not None:
            progress.finish()


def _format(request: SayRequest, default_rate_hz: int) -> AudioFormat:
    try:
        return resolve_format(
            request.format, request.sample_rate_hz, default_name="pcm_s16le", default_rate_hz=default_rate_hz
        )
    except ClientError as error:
        raise CommandError(error.message) from error


async def _open_writers(request: SayRequest, audio_format: AudioFormat, opened: AsyncExitStack) -> list[_Writer]:
    writers: list[_Writer] = []
    if request.out == STANDARD_OUTPUT:
        writers.append(_FileWriter(sys.stdout.buffer))
    elif request.out is not None:
        try:
            writers.append(_FileWriter(opened.enter_context(WavFile(Path(request.out), audio_format))))
        except OSError as error:
            raise CommandError(
                f"{request.out} cannot be written as a WAV file: {error.strerror or error}; "
                f"raw samples go to a pipe with --out {STANDARD_OUTPUT}"
            ) from error
    if request.is_played:
        player: Player = await open_player(audio_format)
        opened.callback(player.stop)
        writers.append(player)
    return writers


def _warn(message: str) -> None:
    print(f"antiphon say: note: {message}", file=sys.stderr)


class _Progress:
    """One line on standard error, rewritten: how much has been spoken so far, and how fast."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self._bytes_per_s = audio_format.sample_rate_hz * (audio_format.bytes_per_sample or 1)
        self._bytes = 0
        self._started_s = self._shown_s = time.monotonic()

    def add(self, count: int) -> None:
        self._bytes += count
        now_s = time.monotonic()
        if now_s - self._shown_s >= PROGRESS_EVERY_S:
            self._shown_s = now_s
            self._show(end="")

    def finish(self) -> None:
        self._show(end="\n")

    def _show(self, end: str) -> None:
        audio_s = self._bytes / self._bytes_per_s
        elapsed_s = max(1e-3, time.monotonic() - self._started_s)
        print(f"\r{audio_s:.1f} s of speech in {elapsed_s:.1f} s", end=end, file=sys.stderr, flush=True)
