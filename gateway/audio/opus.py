"""Opus packets of 20 ms from 48 kHz samples, through libopus as PyAV ships it (extra `opus`)."""

from __future__ import annotations

import importlib
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pcm = NDArray[np.float32]

RATE_HZ: Final = 48000
PACKET_SAMPLES: Final = 960
BIT_RATE: Final = 32000
"""Bits a second: the middle of what RFC 7587 section 3.1.1 recommends for full-band mono speech (28 to 40 kbit/s)."""
PRE_SKIP_OFFSET: Final = 10
"""Where the identification header carries the pre-skip, u16 little-endian (RFC 7845 section 5.1)."""


class OpusEncoder:
    """One utterance's encoder. Packet k, decoded, holds input samples 960·k − pre_skip to 960·(k+1) − pre_skip."""

    def __init__(self) -> None:
        av: Any = importlib.import_module("av")  # an extra: importing this module must not need it
        self._frame_of = av.AudioFrame.from_ndarray
        context = av.CodecContext.create("libopus", "w")
        context.sample_rate = RATE_HZ
        context.layout = "mono"
        context.format = "flt"
        context.bit_rate = BIT_RATE
        context.options = {"application": "voip", "frame_duration": "20"}
        context.open()
        self._context = context
        (self.pre_skip_samples,) = struct.unpack_from("<H", context.extradata or b"", PRE_SKIP_OFFSET)
        """Samples at 48 kHz that a decoder has to drop at the start."""
        self._waiting: Pcm = np.zeros(0, dtype=np.float32)
        self._received = 0
        self._encoded = 0

    def encode(self, pcm: Pcm, is_final: bool) -> list[bytes]:
        """The packets that `pcm` (float32 [S]) completes; the final call pads the last one with silence, far enough for
        every sample to come out of a decoder that drops the pre-skip."""
        self._received += len(pcm)
        waiting = np.concatenate((self._waiting, pcm))
        if is_final and self._received:
            wanted = -(-(self._received + self.pre_skip_samples) // PACKET_SAMPLES) * PACKET_SAMPLES
            waiting = np.concatenate((waiting, np.zeros(wanted - self._encoded - len(waiting), dtype=np.float32)))
        count = len(waiting) // PACKET_SAMPLES
        packets: list[bytes] = []
        for index in range(count):
            samples = np.clip(waiting[index * PACKET_SAMPLES : (index + 1) * PACKET_SAMPLES], -1.0, 1.0)
            frame = self._frame_of(samples[None, :], format="flt", layout="mono")
            frame.sample_rate = RATE_HZ
            frame.pts = self._encoded
            packets.extend(bytes(packet) for packet in self._context.encode(frame))
            self._encoded += PACKET_SAMPLES
        self._waiting = waiting[count * PACKET_SAMPLES :].copy()
        return packets
