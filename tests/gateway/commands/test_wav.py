"""WAV files that other programs read, whole or cut off."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from gateway.audio.formats import AudioFormat
from gateway.commands import wav
from gateway.commands.wav import WavFile

FORMATS = [
    AudioFormat("pcm_s16le", 24000),
    AudioFormat("pcm_s16le", 11025),
    AudioFormat("pcm_f32le", 48000),
    AudioFormat("mulaw", 8000),
    AudioFormat("alaw", 8000),
]


def written(path: Path, audio_format: AudioFormat, samples: int, pieces: int = 3) -> bytes:
    data = os.urandom(samples * (audio_format.bytes_per_sample or 0))
    if audio_format.name == "pcm_f32le":
        data = np.linspace(-1, 1, samples, dtype="<f4").tobytes()
    with WavFile(path, audio_format) as file:
        for piece in np.array_split(np.frombuffer(data, f"V{audio_format.bytes_per_sample}"), pieces):
            file.write(piece.tobytes())
    return data


@pytest.mark.parametrize("audio_format", FORMATS, ids=str)
@pytest.mark.parametrize("samples", [0, 1, 7, 24001])
def test_another_library_reads_back_rate_channels_and_samples(
    tmp_path: Path, audio_format: AudioFormat, samples: int
) -> None:
    path = tmp_path / "a.wav"
    data = written(path, audio_format, samples)
    with soundfile.SoundFile(path) as read:
        assert (read.samplerate, read.channels, read.frames) == (audio_format.sample_rate_hz, 1, samples)
    assert data in path.read_bytes()


@pytest.mark.parametrize("audio_format", FORMATS, ids=str)
@pytest.mark.parametrize("samples", [0, 3, 1000])
def test_the_sizes_in_the_header_are_exact(tmp_path: Path, audio_format: AudioFormat, samples: int) -> None:
    path = tmp_path / "a.wav"
    written(path, audio_format, samples)
    raw = path.read_bytes()
    (riff_bytes,) = struct.unpack_from("<I", raw, 4)
    assert riff_bytes == len(raw) - 8
    assert len(raw) % 2 == 0
    at = raw.index(b"data")
    assert struct.unpack_from("<I", raw, at + 4)[0] == samples * (audio_format.bytes_per_sample or 0)


def test_the_file_is_valid_after_every_write_without_a_close(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    file = WavFile(path, AudioFormat("pcm_s16le", 24000))
    for count in range(1, 5):
        file.write(b"\x01\x00" * 100)
        assert soundfile.info(path).frames == 100 * count
    file.close()
    file.close()


def test_what_does_not_fit_into_32_bits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wav, "MAX_DATA_BYTES", 10)
    with WavFile(tmp_path / "a.wav", AudioFormat("pcm_s16le", 24000)) as file:
        file.write(b"\0" * 10)
        with pytest.raises(ValueError, match="at most 10"):
            file.write(b"\0\0")
    assert soundfile.info(tmp_path / "a.wav").frames == 5


def test_a_place_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        WavFile(tmp_path / "nowhere" / "a.wav", AudioFormat("pcm_s16le", 24000))
