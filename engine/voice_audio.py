"""A reference recording, as somebody uploaded it: decoded, examined, and told in words what is wrong with it.

Only bytes are taken, never a path or a URL, and only what the audio library itself knows: WAV, FLAC, MP3, OGG.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from math import ceil

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

FORMATS = frozenset({"WAV", "WAVEX", "FLAC", "MP3", "OGG"})
FOREIGN_FORMATS = ((4, b"ftyp", "MP4 (M4A, AAC)"), (0, b"\x1a\x45\xdf\xa3", "WebM"), (0, b"#!AMR", "AMR"))
"""What phones and browsers record besides, by the bytes at a place near its beginning: refused by name."""
BLOCK_S = 1.0
"""Decoded at a time: many channels at a high rate are never in memory whole."""
MAX_CHANNELS = 8
MIN_RATE_HZ, MAX_RATE_HZ = 8_000, 192_000
FRAME_S = 0.02
SPEECH_LEVEL_DB = -45.0
"""A frame above it counts as sound."""
MIN_SPEECH_S = 1.0
CLIPPED_LEVEL = 0.999
CLIPPED_RUN_SAMPLES = 3
CLIPPED_WARN_SHARE, CLIPPED_REFUSE_SHARE = 0.0005, 0.02
QUIET_LEVEL_DB = -35.0
NOISE_WARN_DB, NOISE_REFUSE_DB = 20.0, 8.0
"""Distance between speech and background below which a recording is noisy, and useless."""
EDGE_FADE_S = 0.02
"""The ends are faded: what the reference ends in, the voice ends in."""


class VoiceRejectedError(Exception):
    """The recording cannot become a voice; the message says why, and what would help."""


@dataclass(frozen=True, slots=True)
class Recording:
    """An accepted recording: mono float32 [S] at `rate_hz`, and remarks for its owner."""

    samples: NDArray[np.float32]
    rate_hz: int
    remarks: tuple[str, ...]

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.rate_hz


def read_recording(data: bytes, rate_hz: int, min_s: float, max_s: float) -> Recording:
    """Decode, mix to mono, examine and resample. Raises VoiceRejectedError."""
    mono, source_hz, clipped_share = _decode(data, max_s)
    duration_s = len(mono) / source_hz
    if duration_s < min_s:
        raise VoiceRejectedError(f"the recording is {duration_s:.1f} s long; at least {min_s:g} s are needed")
    remarks = _examine(mono, clipped_share, source_hz)
    if source_hz != rate_hz:
        mono = np.asarray(soxr.resample(mono, source_hz, rate_hz, quality="VHQ"), dtype=np.float32)
    return Recording(_faded(np.clip(mono, -1.0, 1.0), rate_hz), rate_hz, remarks)


def _decode(data: bytes, max_s: float) -> tuple[NDArray[np.float32], int, float]:
    """Mono float32 [S], its rate, and the share of samples that are clipped, of the channel that has most; never more
    than max_s of it is decoded, whatever a header claims or a packed file unfolds to."""
    for place, signature, name in FOREIGN_FORMATS:
        if data[place : place + len(signature)] == signature:
            raise VoiceRejectedError(f"{name} is not supported; send WAV, FLAC, MP3 or OGG")
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if file.format not in FORMATS:
                raise VoiceRejectedError(f"{file.format} is not supported; send WAV, FLAC, MP3 or OGG")
            if not MIN_RATE_HZ <= file.samplerate <= MAX_RATE_HZ:
                raise VoiceRejectedError(
                    f"the sample rate is {file.samplerate} Hz; {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz are supported"
                )
            if file.channels > MAX_CHANNELS:
                raise VoiceRejectedError(f"the recording has {file.channels} channels, at most {MAX_CHANNELS}")
            return _mixed(file, max_s)
    except (soundfile.LibsndfileError, RuntimeError, ValueError, EOFError) as error:
        raise VoiceRejectedError("the file is not audio that can be read; send WAV, FLAC, MP3 or OGG") from error


def _mixed(file: soundfile.SoundFile, max_s: float) -> tuple[NDArray[np.float32], int, float]:
    """See `_decode`."""
    rate_hz = int(file.samplerate)
    limit, size = ceil(max_s * rate_hz), ceil(BLOCK_S * rate_hz)
    mono: list[NDArray[np.float32]] = []
    count = 0
    clipped = np.zeros(file.channels, np.int64)
    while True:
        block = np.asarray(file.read(size, dtype="float32", always_2d=True), dtype=np.float32)
        if not len(block):
            break
        count += len(block)
        if count > limit:
            raise VoiceRejectedError(f"the recording is longer than {max_s:g} s; send a clean stretch of 5 to 15 s")
        if not np.isfinite(block).all():
            raise VoiceRejectedError("the recording holds samples that are no numbers")
        clipped += [_clipped_samples(block[:, channel]) for channel in range(file.channels)]
        mono.append(block.mean(axis=1, dtype=np.float64).astype(np.float32))
    whole = np.concatenate(mono) if mono else np.zeros(0, np.float32)
    return whole, rate_hz, float(clipped.max()) / max(1, count)


def _examine(mono: NDArray[np.float32], clipped: float, rate_hz: int) -> tuple[str, ...]:
    remarks: list[str] = []
    size = max(1, round(FRAME_S * rate_hz))
    frames = mono[: len(mono) - len(mono) % size].reshape(-1, size).astype(np.float64)
    levels = 10 * np.log10(np.maximum(np.square(frames).mean(axis=1), 1e-12))
    sounding = levels[levels > SPEECH_LEVEL_DB]
    speech_s = len(sounding) * FRAME_S
    if speech_s < MIN_SPEECH_S:
        raise VoiceRejectedError(
            f"the recording is silent: only {speech_s:.1f} s of it are above {SPEECH_LEVEL_DB:g} dB, "
            f"at least {MIN_SPEECH_S:g} s of speech are needed"
        )
    if clipped > CLIPPED_REFUSE_SHARE:
        raise VoiceRejectedError(
            f"the recording is clipped: {clipped:.1%} of its samples are at full scale; record it quieter"
        )
    if clipped > CLIPPED_WARN_SHARE:
        remarks.append(f"clipped: {clipped:.2%} of the samples are at full scale")
    speech_db, background_db = float(np.percentile(levels, 90)), float(np.percentile(levels, 5))
    distance = speech_db - background_db
    if distance < NOISE_REFUSE_DB:
        raise VoiceRejectedError(
            f"the recording is noise or music: it never falls more than {distance:.0f} dB below its loudest; speech "
            f"with pauses and a quiet background falls at least {NOISE_REFUSE_DB:g} dB"
        )
    if distance < NOISE_WARN_DB:
        remarks.append(f"noisy: the background is only {distance:.0f} dB below the speech; the voice will keep it")
    if speech_db < QUIET_LEVEL_DB:
        remarks.append(f"quiet: speech is at {speech_db:.0f} dB; around -20 dB is better")
    return tuple(remarks)


def _clipped_samples(samples: NDArray[np.float32]) -> int:
    """Samples in runs at full scale (single peaks are no clipping)."""
    is_full = np.abs(samples) >= CLIPPED_LEVEL
    edges = np.flatnonzero(np.diff(np.concatenate(([False], is_full, [False])).astype(np.int8)))
    runs = edges[1::2] - edges[::2]
    return int(runs[runs >= CLIPPED_RUN_SAMPLES].sum())


def _faded(samples: NDArray[np.float32], rate_hz: int) -> NDArray[np.float32]:
    count = min(round(EDGE_FADE_S * rate_hz), len(samples) // 2)
    ramp = np.linspace(0.0, 1.0, count, dtype=np.float32)
    faded = samples.copy()
    faded[:count] *= ramp
    faded[len(faded) - count :] *= ramp[::-1]
    return faded
