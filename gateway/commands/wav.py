"""WAV files that are valid after every write, so that an interrupted recording can be played."""

from __future__ import annotations

import struct
from pathlib import Path
from types import TracebackType
from typing import Final

from gateway.audio.formats import AudioFormat

FORMAT_TAGS: Final = {"pcm_s16le": 1, "pcm_f32le": 3, "alaw": 6, "mulaw": 7}
"""WAVE_FORMAT_PCM, _IEEE_FLOAT, _ALAW, _MULAW (RFC 2361)."""
MAX_DATA_BYTES: Final = 0xFFFFFFFF - 64
"""A RIFF size is 32 bits and counts the header too."""


class WavFile:
    """A mono WAV file in one of the native formats but Opus. Its header holds the true sizes at any time."""

    def __init__(self, path: Path, audio_format: AudioFormat) -> None:
        """Raises OSError where the file cannot be written or has no place to go back to (a pipe)."""
        self._format = audio_format
        self._data_bytes = 0
        self._file = path.open("wb")
        try:
            self._write_header()
        except BaseException:
            self._file.close()
            raise

    def write(self, payload: bytes) -> None:
        """Append whole samples. Raises ValueError past the 4 GiB that the format can count."""
        if self._data_bytes + len(payload) > MAX_DATA_BYTES:
            raise ValueError(f"a WAV file holds at most {MAX_DATA_BYTES:,} bytes of audio")
        self._file.write(payload)
        self._data_bytes += len(payload)
        self._write_header()

    def close(self) -> None:
        if not self._file.closed and self._data_bytes % 2:
            self._file.write(b"\0")  # chunks are padded to an even length
        self._file.close()

    def __enter__(self) -> WavFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write_header(self) -> None:
        self._file.seek(0)
        self._file.write(header(self._format, self._data_bytes))
        self._file.seek(0, 2)
        self._file.flush()


def header(audio_format: AudioFormat, data_bytes: int) -> bytes:
    """RIFF header for `data_bytes` of audio; formats other than PCM have the longer `fmt ` chunk and a `fact` chunk."""
    width = audio_format.bytes_per_sample
    assert width is not None, "packets do not go into a WAV file"
    tag, rate_hz = FORMAT_TAGS[audio_format.name], audio_format.sample_rate_hz
    description = struct.pack("<HHIIHH", tag, 1, rate_hz, rate_hz * width, width, width * 8)
    fact = b""
    if tag != FORMAT_TAGS["pcm_s16le"]:
        description += struct.pack("<H", 0)
        fact = b"fact" + struct.pack("<II", 4, data_bytes // width)
    chunks = (
        b"fmt " + struct.pack("<I", len(description)) + description + fact + b"data" + struct.pack("<I", data_bytes)
    )
    padding = data_bytes % 2
    return b"RIFF" + struct.pack("<I", 4 + len(chunks) + data_bytes + padding) + b"WAVE" + chunks
