"""What becomes a voice, what is refused, and in which words."""

from __future__ import annotations

import io
import tracemalloc
import zipfile

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from engine.voice_audio import Recording, VoiceRejectedError, read_recording

RATE_HZ = 24_000


def speech(
    seconds: float = 4.0, rate_hz: int = RATE_HZ, level: float = 0.3, noise: float = 1e-4
) -> NDArray[np.float32]:
    """A voiced tone in syllables with pauses, over faint noise."""
    time = np.arange(round(seconds * rate_hz)) / rate_hz
    envelope = np.clip(np.sin(2 * np.pi * 2 * time), 0, 1)
    tone = sum(np.sin(2 * np.pi * 130 * k * time) / k for k in range(1, 12))
    hiss = np.random.default_rng(0).standard_normal(len(time)) * noise
    return (level * envelope * tone / 2 + hiss).astype(np.float32)


def packed(
    samples: NDArray[np.float32], rate_hz: int = RATE_HZ, format: str = "WAV", subtype: str | None = None
) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format=format, subtype=subtype)
    return file.getvalue()


def read(data: bytes) -> Recording:
    return read_recording(data, RATE_HZ, min_s=2.0, max_s=30.0)


@pytest.mark.parametrize(
    ("format", "subtype", "rate_hz"),
    [
        ("WAV", "PCM_16", 24_000),
        ("WAV", "FLOAT", 8_000),
        ("FLAC", None, 44_100),
        ("OGG", "VORBIS", 48_000),
        ("MP3", None, 22_050),
    ],
)
def test_every_supported_container_and_rate_becomes_mono_at_the_wanted_rate(
    format: str, subtype: str | None, rate_hz: int
) -> None:
    recording = read(packed(speech(rate_hz=rate_hz), rate_hz, format, subtype))
    assert recording.rate_hz == RATE_HZ
    assert recording.samples.dtype == np.float32
    assert recording.duration_s == pytest.approx(4.0, abs=0.1)
    assert np.abs(recording.samples).max() <= 1.0
    assert recording.remarks == ()


def test_channels_are_mixed() -> None:
    mono = speech()
    recording = read(packed(np.stack((mono, np.zeros_like(mono)), axis=1)))
    middle = slice(RATE_HZ, 2 * RATE_HZ)
    np.testing.assert_allclose(recording.samples[middle], mono[middle] / 2, atol=1e-3)


def test_the_ends_are_faded() -> None:
    samples = read(packed(speech())).samples
    assert samples[0] == samples[-1] == 0.0


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (speech(1.0), r"is 1\.0 s long; at least 2 s"),
        (speech(31.0), "longer than 30 s"),
        (np.zeros(4 * RATE_HZ, np.float32), "silent: only 0.0 s"),
        (np.clip(speech(level=5.0), -1, 1), "clipped"),
        (np.random.default_rng(1).standard_normal(4 * RATE_HZ).astype(np.float32) * 0.1, "noise or music"),
    ],
)
def test_what_cannot_become_a_voice_is_refused_in_words(samples: NDArray[np.float32], message: str) -> None:
    with pytest.raises(VoiceRejectedError, match=message):
        read(packed(samples, subtype="FLOAT"))


@pytest.mark.parametrize(
    ("samples", "remark"),
    [(speech(noise=0.02), "noisy"), (speech(level=0.03, noise=1e-5), "quiet")],
)
def test_what_is_not_good_is_taken_with_a_remark(samples: NDArray[np.float32], remark: str) -> None:
    assert [text.split(":")[0] for text in read(packed(samples, subtype="FLOAT")).remarks] == [remark]


def test_a_few_clipped_samples_are_a_remark() -> None:
    samples = speech()
    samples[5000:5200] = 1.0
    assert read(packed(samples, subtype="FLOAT")).remarks[0].startswith("clipped")


def test_samples_that_are_no_numbers_are_refused() -> None:
    samples = speech()
    samples[100] = np.nan
    with pytest.raises(VoiceRejectedError, match="no numbers"):
        read(packed(samples, subtype="FLOAT"))


def test_a_wide_recording_is_mixed_and_its_clipping_seen_in_whatever_channel_it_is() -> None:
    wide = np.repeat(speech(5.0, rate_hz=96_000)[:, None], 8, axis=1)
    wide[96_000:105_000, 7] = 1.0
    recording = read(packed(wide, 96_000, "FLAC"))
    assert recording.duration_s == pytest.approx(5.0, abs=0.01)
    assert recording.remarks[0].startswith("clipped: 1.8")


def test_a_small_file_that_unfolds_to_hours_is_refused_after_the_allowed_part_of_it() -> None:
    bomb = packed(np.zeros((3600 * 48_000 // 4, 2), np.int16), 48_000, "FLAC")
    assert len(bomb) < 2**20
    tracemalloc.start()
    with pytest.raises(VoiceRejectedError, match="longer than 30 s"):
        read(bomb)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 3 * 30 * 48_000 * 4 + 2**22  # mono float32 of what is allowed, and a block


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\0\0\0\x20ftypM4A \0\0\0\0" + bytes(100), "M4A"),
        (b"\x1a\x45\xdf\xa3" + bytes(100), "WebM"),
        (b"#!AMR\n" + bytes(100), "AMR"),
    ],
)
def test_what_phones_and_browsers_record_is_refused_by_name_with_what_to_send(data: bytes, name: str) -> None:
    with pytest.raises(VoiceRejectedError, match=rf"{name}.* is not supported; send WAV"):
        read(data)


def test_stereo_of_24_bits_is_taken() -> None:
    recording = read(packed(np.repeat(speech()[:, None], 2, axis=1), 44_100, "WAV", "PCM_24"))
    assert recording.remarks == ()


def archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("voice.wav", b"\0" * 1_000_000)
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [b"", b"RIFF", b"/etc/passwd", b"https://example.org/a.wav", archive(), b"\xff" * 5000, packed(speech())[:30]],
)
def test_what_is_no_audio_is_refused(data: bytes) -> None:
    with pytest.raises(VoiceRejectedError):
        read(data)


def test_an_unlisted_format_is_refused_by_name() -> None:
    with pytest.raises(VoiceRejectedError, match="AIFF is not supported"):
        read(packed(speech(), format="AIFF"))


@pytest.mark.parametrize("claimed", [2**31 - 1, 2**32 - 1])
def test_a_header_that_claims_hours_allocates_nothing_for_them(claimed: int) -> None:
    data = bytearray(packed(speech(3.0), subtype="PCM_16"))
    data[40:44] = claimed.to_bytes(4, "little")
    assert read(bytes(data)).duration_s <= 3.1


def test_a_header_that_claims_next_to_nothing_is_believed() -> None:
    data = bytearray(packed(speech(3.0), subtype="PCM_16"))
    data[40:44] = (2).to_bytes(4, "little")
    with pytest.raises(VoiceRejectedError, match=r"is 0\.0 s long"):
        read(bytes(data))


@pytest.mark.parametrize(("rate_hz", "channels", "message"), [(4_000, 1, "4000 Hz"), (24_000, 9, "9 channels")])
def test_odd_geometry_is_refused(rate_hz: int, channels: int, message: str) -> None:
    samples = np.repeat(speech(rate_hz=rate_hz)[:, None], channels, axis=1)
    with pytest.raises(VoiceRejectedError, match=message):
        read(packed(samples, rate_hz))
