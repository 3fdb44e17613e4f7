"""Files that others' decoders read whole, however the samples came."""

from __future__ import annotations

import gc
import io
import warnings
import wave

import av
import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio.containers import CONTAINERS, HELD, NOTE, Container, ContainerEncoder, check_container
from gateway.errors import ClientError, ErrorCode

RATE_HZ = 24000
SAMPLES = (np.sin(np.arange(RATE_HZ * 2 + 137) * 0.05) * 8000).astype("<i2")
"""2 s and a bit: no multiple of any codec's frame."""
CODEC_DELAY = 4096
"""Samples that a lossy codec may add at both ends, at most."""


def encoded(container: Container, samples: np.ndarray, cut: int = 2400) -> bytes:
    encoder = ContainerEncoder(container, RATE_HZ)
    pieces = [encoder.encode(samples[at : at + cut].tobytes()) for at in range(0, len(samples), cut)]
    return b"".join([*pieces, encoder.finish()])


def decoded(data: bytes) -> tuple[np.ndarray, int]:
    """Every sample that FFmpeg finds, as float, and the rate."""
    parts = []
    with av.open(io.BytesIO(data)) as file:
        rate = file.streams.audio[0].rate
        for frame in file.decode(audio=0):
            parts.append(frame.to_ndarray().astype(float).reshape(-1))
    return (np.concatenate(parts) if parts else np.zeros(0)), rate


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_sample_comes_out_of_another_decoder(container: Container) -> None:
    samples, rate = decoded(encoded(container, SAMPLES))
    wanted = len(SAMPLES) * rate // RATE_HZ
    assert wanted - 960 * 2 <= len(samples) <= wanted + CODEC_DELAY  # Ogg Opus: FFmpeg drops the pre-skip


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_last_tenth_of_a_second_is_heard(container: Container) -> None:
    """Encoders closed before they were drained have cost others their last words."""
    quiet_then_loud = np.concatenate((np.zeros(RATE_HZ, "<i2"), SAMPLES[: RATE_HZ // 10]))
    samples, rate = decoded(encoded(container, quiet_then_loud))
    tail = samples[-(rate // 5) :]
    loud = np.abs(tail) > 0.2 * np.abs(tail).max()
    assert np.abs(tail).max() > 0.1 * (32768 if np.abs(tail).max() > 2 else 1)
    assert np.count_nonzero(loud) > 0.07 * rate


@pytest.mark.parametrize("container", ["wav", "flac"])
@given(cut=st.integers(1, 9000))
@settings(max_examples=10, deadline=None)
def test_a_lossless_file_is_the_same_however_the_samples_came(container: Container, cut: int) -> None:
    data = encoded(container, SAMPLES[:9000], cut)
    read, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert rate == RATE_HZ
    assert np.array_equal(read, SAMPLES[:9000])


def test_the_sizes_in_a_wav_header_are_true() -> None:
    data = encoded("wav", SAMPLES)
    with wave.open(io.BytesIO(data)) as file:
        assert file.getnframes() == len(SAMPLES)
        assert file.getframerate() == RATE_HZ
    assert int.from_bytes(data[4:8], "little") == len(data) - 8


@pytest.mark.parametrize("container", sorted(set(CONTAINERS) - {"aac"}))
def test_a_file_says_that_it_was_generated(container: Container) -> None:
    assert NOTE.encode() in encoded(container, SAMPLES)


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_file_without_a_sample_is_no_error(container: Container) -> None:
    encoded(container, SAMPLES[:0])


@pytest.mark.parametrize("container", sorted(set(CONTAINERS) - HELD))
def test_what_streams_begins_to_leave_before_the_end(container: Container) -> None:
    encoder = ContainerEncoder(container, RATE_HZ)
    assert any(encoder.encode(SAMPLES[at : at + 2400].tobytes()) for at in range(0, len(SAMPLES), 2400))


def test_a_rate_that_a_container_cannot_have_is_refused_with_those_it_can() -> None:
    with pytest.raises(ClientError, match="22050 Hz; it can be 8000, 12000") as refused:
        check_container("ogg_opus", 22050)
    assert refused.value.code is ErrorCode.RATE_UNSUPPORTED


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_file_that_nobody_finishes_goes_quietly(container: Container) -> None:
    """Its client has left."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # what earlier tests left behind says nothing about this one
    encoder = ContainerEncoder(container, RATE_HZ)
    encoder.encode(SAMPLES.tobytes())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del encoder
        gc.collect()


def test_aac_without_its_library_is_refused_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ClientError, match=r"antiphon\[opus\].*wav, mp3, flac, ogg_opus") as refused:
        check_container("aac", RATE_HZ)
    assert refused.value.code is ErrorCode.FORMAT_UNSUPPORTED


@pytest.mark.parametrize("container", [name for name in CONTAINERS if name not in HELD])
def test_a_file_that_streams_keeps_nothing_of_what_has_left(container: Container) -> None:
    encoder = ContainerEncoder(container, RATE_HZ)
    for _ in range(20):
        encoder.encode(SAMPLES.tobytes())
        assert len(encoder._file._data) == 0
    assert encoder._file.tell() > 10_000
