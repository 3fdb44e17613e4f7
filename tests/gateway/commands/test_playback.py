"""Playing aloud, with a player of the test's own on the path."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gateway.audio.formats import AudioFormat
from gateway.commands import playback
from gateway.commands.outcome import CommandError
from gateway.commands.playback import describe_player, open_player

FORMAT = AudioFormat("pcm_s16le", 24000)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a sound card, no sound package, and the players that the test puts into this folder."""
    monkeypatch.setattr(playback, "_sounddevice", lambda: None)
    monkeypatch.setattr(playback, "_has_alsa_card", lambda: True)
    monkeypatch.setattr(playback, "_has_pulse_server", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put_player(path: Path, name: str, script: str) -> None:
    player = path / name
    player.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n", encoding="utf-8")
    player.chmod(player.stat().st_mode | stat.S_IEXEC)


async def test_the_player_gets_every_sample_and_the_format(path: Path) -> None:
    put_player(path, "aplay", f'echo "$@" > {path}/arguments; cat > {path}/heard')
    player = await open_player(FORMAT)
    sound = os.urandom(200_000)
    for start in range(0, len(sound), 9_600):
        await player.write(sound[start : start + 9_600])
    await player.finish()
    player.stop()
    assert (path / "heard").read_bytes() == sound
    assert "24000" in (path / "arguments").read_text(encoding="utf-8")
    assert describe_player() == "the player aplay"


async def test_a_player_that_fails_is_an_error(path: Path) -> None:
    put_player(path, "aplay", "cat > /dev/null; exit 3")
    player = await open_player(FORMAT)
    await player.write(b"\0\0")
    with pytest.raises(CommandError, match="exit status 3"):
        await player.finish()


async def test_a_player_that_leaves_early_is_an_error(path: Path) -> None:
    put_player(path, "aplay", "exit 0")
    player = await open_player(FORMAT)

    async def play_on() -> None:
        while True:
            await player.write(b"\0" * 65536)

    with pytest.raises(CommandError, match="ended before"):
        await play_on()
    player.stop()


async def test_stop_silences_a_player_that_would_go_on(path: Path) -> None:
    put_player(path, "aplay", "exec sleep 1000")
    player = await open_player(FORMAT)
    await player.write(b"\0\0")
    player.stop()
    with pytest.raises(CommandError):
        await player.finish()
    player.stop()


async def test_without_a_player_or_a_device_nothing_is_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_player() is None
    with pytest.raises(CommandError, match="--out"):
        await open_player(FORMAT)
    put_player(path, "aplay", "exit 0")
    monkeypatch.setattr(playback, "_has_alsa_card", lambda: False)
    assert describe_player() is None
