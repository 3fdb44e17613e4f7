"""Opus packets: every sample comes back out of an independent decoder, in its place."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.audio.opus import PACKET_SAMPLES, RATE_HZ, OpusEncoder

av = pytest.importorskip("av")

SAME_WAVE = 0.9
"""Correlation of a pure tone with itself after a lossy codec at 32 kbit/s; a shift by 5 samples would give 0.55."""


def decode(packets: list[bytes]) -> np.ndarray:
    decoder = av.CodecContext.create("libopus", "r")
    decoder.sample_rate, decoder.layout = RATE_HZ, "mono"
    pieces = [frame.to_ndarray()[0] for packet in packets for frame in decoder.decode(av.Packet(packet))]
    return np.concatenate(pieces).astype(np.float32) / 32768


def bursts(samples: int) -> np.ndarray:
    """A tone with a slow swell, so that a shift can be seen, above what the high-pass filter for voice turns."""
    times = np.arange(samples) / RATE_HZ
    return (0.4 * np.sin(2 * np.pi * 1500 * times) * np.sin(2 * np.pi * 3 * times) ** 2).astype(np.float32)


@pytest.mark.parametrize("samples", [1, 648, 649, 960, 48000, 48001])
def test_packets_of_20_ms_reach_past_the_last_sample(samples: int) -> None:
    encoder = OpusEncoder()
    packets = encoder.encode(bursts(samples), is_final=True)
    decoded = len(decode(packets))
    assert decoded == len(packets) * PACKET_SAMPLES
    assert 0 <= decoded - encoder.pre_skip_samples - samples < PACKET_SAMPLES


def test_what_is_decoded_lies_where_it_was_once_the_pre_skip_is_dropped() -> None:
    signal = bursts(RATE_HZ)
    encoder = OpusEncoder()
    decoded = decode(encoder.encode(signal, is_final=True))[encoder.pre_skip_samples :][: len(signal)]
    shifts = range(-100, 101)
    best = max(
        shifts, key=lambda shift: float(np.dot(signal[1000:-1000], decoded[1000 + shift : len(signal) - 1000 + shift]))
    )
    assert abs(best) <= 2
    assert np.corrcoef(signal, decoded)[0, 1] > SAME_WAVE


def test_any_cut_of_the_input_gives_the_same_packets() -> None:
    signal = bursts(20000)
    whole = OpusEncoder().encode(signal, is_final=True)
    encoder = OpusEncoder()
    packets: list[bytes] = []
    for start in range(0, len(signal), 777):
        packets += encoder.encode(signal[start : start + 777], is_final=False)
    packets += encoder.encode(signal[:0], is_final=True)
    assert packets == whole


def test_no_sound_gives_no_packet() -> None:
    assert OpusEncoder().encode(np.zeros(0, dtype=np.float32), is_final=True) == []
