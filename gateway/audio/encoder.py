"""StreamEncoder: one utterance's engine samples in, frames of its output format out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.audio import mulaw
from gateway.audio.formats import AudioFormat, available_formats, rates_of
from gateway.audio.opus import PACKET_SAMPLES, OpusEncoder
from gateway.audio.resampler import Resampler
from gateway.audio.sample_map import SampleMap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pcm = NDArray[np.float32]

MAX_FRAMES_PER_S: Final = 5
"""The inverse of the longest frame, 200 ms (native protocol, audio header)."""
FULL_SCALE: Final = 32768.0
"""Float 1.0 in 16-bit steps. +1.0 itself is one step too loud and is clipped."""


@dataclass(frozen=True, slots=True)
class EncodedFrame:
    """One frame as it goes on a wire: `sample_count` output samples from `start_sample` on, contiguous in an utterance.

    For Opus these are the samples that a decoder gives back from the packet once it has dropped the pre-skip at the
    start and what lies past the end.
    """

    payload: bytes
    sample_count: int
    start_sample: int


def warm_up(engine_rate_hz: int) -> None:
    """Pay for what the first utterance of each format would otherwise wait for: filters, tables, the codec's import."""
    moment = np.zeros(1, dtype=np.float32)
    for name in available_formats():
        for rate_hz in rates_of(name):
            StreamEncoder(AudioFormat(name, rate_hz), engine_rate_hz).encode(moment, is_final=True)


class StreamEncoder:
    """The resampler and codec state of one utterance; make a fresh one for each.

    However the input is cut, the bytes joined are the same, and after n engine samples and a final call the frames hold
    exactly `SampleMap.to_output(n)` samples. Samples of 16 bits are rounded to nearest, without dither: the step lies
    below the noise of any voice served here, and bytes stay reproducible.
    """

    def __init__(self, audio_format: AudioFormat, engine_rate_hz: int) -> None:
        self._format = audio_format
        self._max_samples = audio_format.sample_rate_hz // MAX_FRAMES_PER_S
        is_same_rate = audio_format.sample_rate_hz == engine_rate_hz
        self._resampler = None if is_same_rate else Resampler(engine_rate_hz, audio_format.sample_rate_hz)
        self._opus = OpusEncoder() if audio_format.name == "opus" else None
        self._map = SampleMap(engine_rate_hz, audio_format.sample_rate_hz)
        self._received = 0
        self._next_sample = 0

    @property
    def pre_skip_samples(self) -> int | None:
        """Opus only: what a decoder has to drop at the start."""
        return None if self._opus is None else self._opus.pre_skip_samples

    def encode(self, pcm: Pcm, is_final: bool, is_segment_end: bool = False) -> list[EncodedFrame]:
        """The frames that `pcm` (float32 [S], may be empty) completes.

        Between calls at most half the resampler's filter is held back (1.7 to 5 ms), and nothing after a segment's
        end or the final call; Opus also holds what does not fill a packet of 20 ms, until the final call pads it.
        """
        self._received += len(pcm)
        if self._resampler is not None:
            pcm = self._resampler.resample(pcm, is_drained=is_final or is_segment_end)
        if self._opus is not None:
            return self._number_packets(self._opus.encode(pcm, is_final), self._opus.pre_skip_samples)
        frames: list[EncodedFrame] = []
        for start in range(0, len(pcm), self._max_samples):
            piece = pcm[start : start + self._max_samples]
            frames.append(EncodedFrame(self._to_bytes(piece), len(piece), self._next_sample))
            self._next_sample += len(piece)
        return frames

    def _to_bytes(self, pcm: Pcm) -> bytes:
        if self._format.name == "pcm_f32le":
            return pcm.astype("<f4", copy=False).tobytes()
        scaled = pcm * np.float32(FULL_SCALE)
        np.rint(scaled, out=scaled)
        np.clip(scaled, -FULL_SCALE, FULL_SCALE - 1, out=scaled)
        samples = scaled.astype(np.int16)
        if self._format.name == "mulaw" or self._format.name == "alaw":
            return mulaw.encode(self._format.name, samples).tobytes()
        return samples.astype("<i2", copy=False).tobytes()

    def _number_packets(self, packets: list[bytes], pre_skip_samples: int) -> list[EncodedFrame]:
        """Give each packet the output samples that it lets a decoder hear."""
        end_sample = self._map.to_output(self._received)
        frames: list[EncodedFrame] = []
        for packet in packets:
            skipped = pre_skip_samples if self._next_sample == 0 else 0
            count = min(PACKET_SAMPLES - skipped, end_sample - self._next_sample)
            frames.append(EncodedFrame(packet, count, self._next_sample))
            self._next_sample += count
        return frames
