"""`say`: where the audio goes, and that nothing is lost on the way."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import soundfile

from gateway.audio.formats import AudioFormat
from gateway.commands import playback
from gateway.commands.outcome import CommandError
from gateway.commands.say import SayRequest, say
from gateway.commands.speakers import SayOptions, Speaker, Warn

PIECE = bytes(range(250)) * 2


class PieceSpeaker:
    """Speaks one `PIECE` of 16-bit samples for every piece of text, and a note at its end."""

    sample_rate_hz = 24000

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.formats: list[AudioFormat] = []

    async def speak(
        self, text: AsyncIterator[str], audio_format: AudioFormat, options: SayOptions, warn: Warn
    ) -> AsyncGenerator[bytes, None]:
        self.formats.append(audio_format)
        async for _ in text:
            yield PIECE
        if self._error is not None:
            raise self._error
        warn("that was all")


@asynccontextmanager
async def opened(speaker: Speaker) -> AsyncIterator[Speaker]:
    yield speaker


async def text(pieces: int = 4) -> AsyncIterator[str]:
    for _ in range(pieces):
        yield "x"


def request(out: str | None, *, is_played: bool = False, rate: int | None = None, progress: bool = False) -> SayRequest:
    return SayRequest(out, is_played, "pcm_s16le", rate, SayOptions(), progress)


async def test_the_file_holds_all_of_the_speech(tmp_path: Path) -> None:
    out = tmp_path / "a.wav"
    await say(request(str(out)), opened(PieceSpeaker()), text(4))
    assert soundfile.info(out).frames == 4 * len(PIECE) // 2
    assert PIECE * 4 in out.read_bytes()


async def test_the_asked_for_rate_is_asked_of_the_speaker_and_written(tmp_path: Path) -> None:
    out, speaker = tmp_path / "a.wav", PieceSpeaker()
    await say(request(str(out), rate=16000), opened(speaker), text())
    assert speaker.formats == [AudioFormat("pcm_s16le", 16000)]
    assert soundfile.info(out).samplerate == 16000


async def test_a_rate_that_there_is_not_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "a.wav"
    with pytest.raises(CommandError, match="12345"):
        await say(request(str(out), rate=12345), opened(PieceSpeaker()), text())
    assert not out.exists()


async def test_a_speech_that_fails_leaves_a_valid_file_of_what_was_spoken(tmp_path: Path) -> None:
    out = tmp_path / "a.wav"
    with pytest.raises(CommandError, match="engine"):
        await say(request(str(out)), opened(PieceSpeaker(CommandError("the engine failed"))), text(3))
    assert soundfile.info(out).frames == 3 * len(PIECE) // 2


async def test_an_interrupted_speech_leaves_a_valid_file_of_what_was_spoken(tmp_path: Path) -> None:
    out = tmp_path / "a.wav"
    is_going = asyncio.Event()

    async def endless() -> AsyncIterator[str]:
        yield "x"
        yield "x"
        is_going.set()
        await asyncio.Event().wait()

    saying = asyncio.create_task(say(request(str(out)), opened(PieceSpeaker()), endless()))
    await is_going.wait()
    saying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saying
    assert soundfile.info(out).frames == 2 * len(PIECE) // 2


async def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="nowhere"):
        await say(request(str(tmp_path / "nowhere" / "a.wav")), opened(PieceSpeaker()), text())


async def test_it_is_played_and_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playback, "_sounddevice", lambda: None)
    monkeypatch.setattr(playback, "_has_alsa_card", lambda: True)
    monkeypatch.setattr(playback, "_has_pulse_server", lambda: False)
    player = tmp_path / "aplay"
    player.write_text(f"#!/bin/sh\n/bin/cat > {tmp_path}/heard\n", encoding="utf-8")
    player.chmod(player.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(tmp_path))
    out = tmp_path / "a.wav"
    await say(request(str(out), is_played=True), opened(PieceSpeaker()), text(5))
    assert (tmp_path / "heard").read_bytes() == PIECE * 5
    assert out.read_bytes().endswith(PIECE * 5)


async def test_notes_and_progress_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await say(request(str(tmp_path / "a.wav"), progress=True), opened(PieceSpeaker()), text())
    shown = capsys.readouterr()
    assert "that was all" in shown.err
    assert "s of speech" in shown.err
    assert shown.out == ""


async def test_raw_samples_go_to_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    await say(request("-"), opened(PieceSpeaker()), text(2))
    assert capfdbinary.readouterr().out == PIECE * 2
