"""Playing aloud: through the sounddevice package (extra `play`) or a player of the system, whichever there is."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from gateway.audio.formats import AudioFormat
from gateway.commands.outcome import CommandError

PLAYERS: Final[dict[str, Callable[[int], list[str]]]] = {
    "paplay": lambda rate_hz: ["paplay", "--raw", "--format=s16le", f"--rate={rate_hz}", "--channels=1"],
    "aplay": lambda rate_hz: ["aplay", "-q", "-t", "raw", "-f", "S16_LE", "-r", str(rate_hz), "-c", "1", "-"],
    "ffplay": lambda rate_hz: [
        *("ffplay", "-loglevel", "error", "-nodisp", "-autoexit"),
        *("-f", "s16le", "-ar", str(rate_hz), "-i", "pipe:0"),
    ],
}
"""Command lines that play raw 16-bit mono samples from standard input."""


class Player(Protocol):
    """Plays samples of one format as they come."""

    async def write(self, payload: bytes) -> None:
        """Play behind what was written before; waits while the device has enough."""
        ...

    async def finish(self) -> None:
        """Wait until everything has been heard. Raises CommandError where the device failed."""
        ...

    def stop(self) -> None:
        """Be silent at once. Idempotent; also to be called after `finish`."""
        ...


def describe_player() -> str | None:
    """What would play, in words; None where there is no sound device, or nothing to reach it with."""
    if _sounddevice() is not None:
        return "the sounddevice package"
    name = _system_player()
    return None if name is None else f"the player {name}"


async def open_player(audio_format: AudioFormat) -> Player:
    """Raises CommandError where nothing can play."""
    sounddevice = _sounddevice()
    if sounddevice is not None:
        return _DevicePlayer(sounddevice, audio_format)
    name = _system_player()
    if name is None:
        raise CommandError(
            "no sound device was found, or nothing to play on it with; write to a file with --out FILE.wav, "
            "or install the extra: pip install 'antiphon[play]'"
        )
    process = await asyncio.create_subprocess_exec(
        *PLAYERS[name](audio_format.sample_rate_hz), stdin=asyncio.subprocess.PIPE
    )
    return _ProcessPlayer(name, process)


class _ProcessPlayer:
    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        self._name = name
        self._process = process
        self._input = process.stdin

    async def write(self, payload: bytes) -> None:
        try:
            self._input.write(payload)
            await self._input.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise CommandError(f"the player {self._name} ended before the speech did") from error

    async def finish(self) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self._input.close()
            await self._input.wait_closed()
        status = await self._process.wait()
        if status != 0:
            raise CommandError(f"the player {self._name} failed with exit status {status}")

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()


class _DevicePlayer:
    def __init__(self, sounddevice: Any, audio_format: AudioFormat) -> None:
        try:
            self._stream = sounddevice.RawOutputStream(
                samplerate=audio_format.sample_rate_hz, channels=1, dtype="int16"
            )
            self._stream.start()
        except sounddevice.PortAudioError as error:
            raise CommandError(f"the sound device cannot be opened: {error}") from error

    async def write(self, payload: bytes) -> None:
        await asyncio.to_thread(self._stream.write, payload)

    async def finish(self) -> None:
        await asyncio.to_thread(self._stream.stop)

    def stop(self) -> None:
        self._stream.abort()
        self._stream.close()


def _sounddevice() -> Any | None:
    """The package, where it is installed and finds an output device."""
    if importlib.util.find_spec("sounddevice") is None:
        return None
    try:
        sounddevice: Any = importlib.import_module("sounddevice")
        sounddevice.query_devices(kind="output")
    except Exception:  # no PortAudio library (OSError), no device (ValueError, its own errors): all mean "cannot play"
        return None
    return sounddevice


def _system_player() -> str | None:
    """A player on the path, where the system shows a device that it can play on."""
    has_device = {
        "paplay": _has_pulse_server(),
        "aplay": _has_alsa_card(),
        "ffplay": sys.platform == "darwin" or _has_pulse_server() or _has_alsa_card(),
    }
    return next((name for name in PLAYERS if has_device[name] and shutil.which(name) is not None), None)


def _has_pulse_server() -> bool:
    if os.environ.get("PULSE_SERVER"):
        return True
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return runtime is not None and Path(runtime, "pulse", "native").exists()


def _has_alsa_card() -> bool:
    try:
        cards = Path("/proc/asound/cards").read_text(encoding="utf-8")
    except OSError:
        return False
    return any(line.strip()[:1].isdigit() for line in cards.splitlines())
