"""From engine samples to frames: exact length, frame size, rounding, clipping, and indifference to the cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio import mulaw
from gateway.audio.encoder import EncodedFrame, StreamEncoder, warm_up
from gateway.audio.formats import PCM_RATES_HZ, AudioFormat
from gateway.audio.resampler import _filter_for
from gateway.audio.sample_map import SampleMap

ENGINE_HZ = 24000
FORMATS = [
    *(AudioFormat("pcm_s16le", rate) for rate in PCM_RATES_HZ),
    AudioFormat("pcm_f32le", 24000),
    AudioFormat("pcm_f32le", 44100),
    AudioFormat("mulaw", 8000),
    AudioFormat("alaw", 8000),
]


def tone(samples: int) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * 440 * np.arange(samples) / ENGINE_HZ)).astype(np.float32)


def encode_whole(audio_format: AudioFormat, pcm: np.ndarray) -> list[EncodedFrame]:
    return StreamEncoder(audio_format, ENGINE_HZ).encode(pcm, is_final=True)


def joined(frames: list[EncodedFrame]) -> bytes:
    return b"".join(frame.payload for frame in frames)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(FORMATS), st.lists(st.integers(0, 6000), min_size=1, max_size=10))
def test_any_cut_of_the_input_gives_the_same_bytes(audio_format: AudioFormat, pieces: list[int]) -> None:
    pcm = np.random.default_rng(3).uniform(-1.2, 1.2, sum(pieces)).astype(np.float32)
    encoder = StreamEncoder(audio_format, ENGINE_HZ)
    frames: list[EncodedFrame] = []
    for index, end in enumerate(np.cumsum(pieces)):
        frames += encoder.encode(pcm[end - pieces[index] : end], is_final=index == len(pieces) - 1)
    assert joined(frames) == joined(encode_whole(audio_format, pcm))


@pytest.mark.parametrize("audio_format", FORMATS, ids=str)
@pytest.mark.parametrize("samples", [0, 1, 299, 300, 24000, 24001, 71993])
def test_frames_are_contiguous_at_most_200_ms_whole_and_exact_in_all(audio_format: AudioFormat, samples: int) -> None:
    frames = encode_whole(audio_format, tone(samples))
    position = 0
    for frame in frames:
        assert frame.start_sample == position
        assert 0 < frame.sample_count <= audio_format.sample_rate_hz // 5
        assert len(frame.payload) == frame.sample_count * (audio_format.bytes_per_sample or 0)
        position += frame.sample_count
    assert position == SampleMap(ENGINE_HZ, audio_format.sample_rate_hz).to_output(samples)


@pytest.mark.parametrize("audio_format", FORMATS, ids=str)
def test_nothing_is_held_back_at_the_end_of_a_segment(audio_format: AudioFormat) -> None:
    frames = StreamEncoder(audio_format, ENGINE_HZ).encode(tone(5003), is_final=False, is_segment_end=True)
    total = sum(frame.sample_count for frame in frames)
    assert total == SampleMap(ENGINE_HZ, audio_format.sample_rate_hz).to_output(5003)


def test_sixteen_bits_are_rounded_to_nearest_and_clipped() -> None:
    pcm = np.array([0, 0.4, 0.6, -0.6, 32767, 32768, 1e6, -32768, -1e6], dtype=np.float32) / np.float32(32768)
    (frame,) = encode_whole(AudioFormat("pcm_s16le", ENGINE_HZ), pcm)
    assert np.frombuffer(frame.payload, "<i2").tolist() == [0, 0, 1, -1, 32767, 32767, 32767, -32768, -32768]


def test_float_passes_through_at_the_engine_rate_untouched() -> None:
    pcm = tone(777) * 3
    assert joined(encode_whole(AudioFormat("pcm_f32le", ENGINE_HZ), pcm)) == pcm.tobytes()


@pytest.mark.parametrize("law", ["mulaw", "alaw"])
def test_g711_is_the_16_bit_stream_at_8000_hz_companded_once(law: mulaw.Law) -> None:
    linear = np.frombuffer(joined(encode_whole(AudioFormat("pcm_s16le", 8000), tone(24000))), "<i2")
    coded = joined(encode_whole(AudioFormat(law, 8000), tone(24000)))
    assert coded == mulaw.encode(law, linear).tobytes()


def test_after_a_warm_up_no_filter_is_left_to_be_made() -> None:
    warm_up(ENGINE_HZ)
    made = _filter_for.cache_info().misses
    for audio_format in FORMATS:
        encode_whole(audio_format, tone(10))
    assert _filter_for.cache_info().misses == made


def test_the_input_is_left_as_it_was() -> None:
    pcm = tone(2400)
    before = pcm.copy()
    for audio_format in FORMATS:
        encode_whole(audio_format, pcm)
    assert np.array_equal(pcm, before)


def test_only_opus_has_a_pre_skip() -> None:
    assert StreamEncoder(AudioFormat("pcm_s16le", 24000), ENGINE_HZ).pre_skip_samples is None
    pytest.importorskip("av")
    assert StreamEncoder(AudioFormat("opus", 48000), ENGINE_HZ).pre_skip_samples == 312


@pytest.mark.parametrize("samples", [1, 300, 324, 325, 480, 24000, 24001])
def test_opus_frames_count_exactly_the_samples_a_decoder_gives(samples: int) -> None:
    pytest.importorskip("av")
    frames = encode_whole(AudioFormat("opus", 48000), tone(samples))
    assert [frame.start_sample for frame in frames] == np.cumsum(
        [0, *(frame.sample_count for frame in frames[:-1])]
    ).tolist()
    assert all(frame.sample_count > 0 for frame in frames)
    assert sum(frame.sample_count for frame in frames) == 2 * samples
