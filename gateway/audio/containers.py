"""ContainerEncoder: one utterance's 16-bit samples in, the bytes of an audio file out, as far as they are settled.

WAV and FLAC are given whole at the end, since their headers tell the length, and one that is not true makes players
show hours or refuse the file; the others stream. A file says that it was generated, where its format has a place.
"""

from __future__ import annotations

import importlib.util
import io
import struct
from typing import Final, Literal, Protocol, get_args

import numpy as np

from gateway.errors import ClientError, ErrorCode

Container = Literal["wav", "mp3", "flac", "ogg_opus", "aac"]

CONTAINERS: Final[tuple[Container, ...]] = get_args(Container)
MEDIA_TYPES: Final[dict[Container, str]] = {
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "ogg_opus": "audio/ogg",
    "aac": "audio/aac",
}
NOTE: Final = "AI-generated speech (Antiphon)"
RATES_HZ: Final[dict[Container, tuple[int, ...]]] = {
    "wav": (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000),
    "mp3": (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000),
    "flac": (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000),
    "ogg_opus": (8000, 12000, 16000, 24000, 48000),
    "aac": (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000),
}
HELD: Final = frozenset({"wav", "flac"})
"""Files whose header tells their length: they leave whole."""
AAC_BIT_RATE: Final = 64_000
MP3_COMPRESSION: Final = 0.5
"""The middle of libsndfile's range: 80 kbit/s at 24 kHz, 160 at 44.1 kHz."""
SOUNDFILE_FORMATS: Final[dict[Container, tuple[str, str]]] = {
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "flac": ("FLAC", "PCM_16"),
    "ogg_opus": ("OGG", "OPUS"),
}


def check_container(container: Container, sample_rate_hz: int) -> None:
    """Raises ClientError where this installation cannot make such a file."""
    if container == "aac" and importlib.util.find_spec("av") is None:
        raise ClientError(
            ErrorCode.FORMAT_UNSUPPORTED,
            "aac needs the server's optional extra: pip install 'antiphon[opus]'; "
            f"supported now: {', '.join(name for name in CONTAINERS if name != 'aac')}",
        )
    if sample_rate_hz not in RATES_HZ[container]:
        allowed = ", ".join(str(rate) for rate in RATES_HZ[container])
        raise ClientError(ErrorCode.RATE_UNSUPPORTED, f"{container} is {sample_rate_hz} Hz; it can be {allowed} Hz")


class _Tail:
    """A file of which `take` gives what was appended since, and forgets it: what is rewritten after it left stays as it
    left. It is none of io's files, which close themselves before a writer that nobody finished can."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._place = 0
        self._taken = 0
        """Bytes that have left: where `_data` begins."""

    def write(self, data: bytes | bytearray) -> int:
        kept = memoryview(data)[max(0, self._taken - self._place) :]
        start = max(self._place, self._taken) - self._taken
        if kept and start > len(self._data):
            self._data.extend(bytes(start - len(self._data)))
        self._data[start : start + len(kept)] = kept
        self._place += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        end = self._taken + len(self._data)
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: end}[whence]
        self._place = max(0, base + offset)
        return self._place

    def tell(self) -> int:
        return self._place

    def take(self) -> bytes:
        data = bytes(self._data)
        self._taken += len(data)
        self._data.clear()
        return data


class ContainerEncoder:
    """One file. The same samples give the same sound, however they are cut; nothing may follow `finish`."""

    def __init__(self, container: Container, sample_rate_hz: int) -> None:
        check_container(container, sample_rate_hz)
        self._file = _Tail()
        self._is_held = container in HELD
        if container == "wav":
            self._writer: _Writer = _WavWriter(self._file, sample_rate_hz)
        elif container == "aac":
            self._writer = _AacWriter(self._file, sample_rate_hz)
        else:
            self._writer = _SoundFileWriter(self._file, container, sample_rate_hz)

    def encode(self, samples: bytes) -> bytes:
        """The bytes that `samples` (pcm_s16le, whole samples) complete; often none."""
        self._writer.write(samples)
        return b"" if self._is_held else self._file.take()

    def finish(self) -> bytes:
        """The rest of the file, to its last sample."""
        self._writer.close()
        return self._file.take()


class _Writer(Protocol):
    """What the encoder needs of a format."""

    def write(self, samples: bytes) -> None: ...

    def close(self) -> None: ...


class _WavWriter:
    """RIFF WAVE, 16 bits, mono, with a LIST INFO comment before the data."""

    def __init__(self, file: _Tail, sample_rate_hz: int) -> None:
        self._file = file
        self._sample_rate_hz = sample_rate_hz
        self._data = bytearray()

    def write(self, samples: bytes) -> None:
        self._data += samples

    def close(self) -> None:
        comment = NOTE.encode() + b"\0" * (2 - len(NOTE) % 2)
        info = b"INFO" + b"ICMT" + struct.pack("<I", len(comment)) + comment
        rate = self._sample_rate_hz
        chunks = (
            b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16),
            b"LIST" + struct.pack("<I", len(info)) + info,
            b"data" + struct.pack("<I", len(self._data)),
        )
        size = 4 + sum(len(chunk) for chunk in chunks) + len(self._data)
        self._file.write(b"RIFF" + struct.pack("<I", size) + b"WAVE" + b"".join(chunks))
        self._file.write(self._data)
        self._data.clear()


class _SoundFileWriter:
    """libsndfile: MP3 (LAME), FLAC, Opus in Ogg."""

    def __init__(self, file: _Tail, container: Container, sample_rate_hz: int) -> None:
        import soundfile

        kind, subtype = SOUNDFILE_FORMATS[container]
        self._sound = soundfile.SoundFile(
            file,
            "w",
            samplerate=sample_rate_hz,
            channels=1,
            format=kind,
            subtype=subtype,
            # readers judge the length of a streamed MP3, which has no index, by its first frame's bit rate
            compression_level=MP3_COMPRESSION if container == "mp3" else None,
            bitrate_mode="CONSTANT" if container == "mp3" else None,
        )
        self._sound.comment = NOTE

    def write(self, samples: bytes) -> None:
        self._sound.write(np.frombuffer(samples, dtype="<i2"))

    def close(self) -> None:
        self._sound.close()


class _AacWriter:
    """AAC-LC in ADTS frames, through PyAV. ADTS has no place for a note."""

    def __init__(self, file: _Tail, sample_rate_hz: int) -> None:
        import av

        self._frame_of = av.AudioFrame.from_ndarray
        self._sample_rate_hz = sample_rate_hz
        self._output = av.open(file, "w", format="adts")
        self._stream = self._output.add_stream("aac", rate=sample_rate_hz, layout="mono")
        self._stream.bit_rate = AAC_BIT_RATE
        self._written = 0

    def write(self, samples: bytes) -> None:
        pcm = np.frombuffer(samples, dtype="<i2")
        if not len(pcm):
            return
        frame = self._frame_of(pcm[None, :], format="s16", layout="mono")
        frame.sample_rate = self._sample_rate_hz
        frame.pts = self._written
        self._written += len(pcm)
        self._output.mux(self._stream.encode(frame))

    def close(self) -> None:
        if self._written:
            self._output.mux(self._stream.encode(None))
        self._output.close()
