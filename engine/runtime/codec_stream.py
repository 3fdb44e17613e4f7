"""A block's frames into samples, window by window, so that the joined windows are the block's one decode.

A decoder with a reach of R frames gives a frame its final samples once R frames on either side are in the window. A
window whose right context is shorter ends in samples that are only nearly final; the few it has beyond its own frames
are kept and faded into the next window, so that the join has no step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Pcm = NDArray[np.float32]
Decode = Callable[[Tensor], Tensor]
"""Codes int64 [B, T, K] -> samples float [B, T * samples_per_frame]."""


@dataclass(frozen=True, slots=True)
class CodecWindow:
    """Frames to decode, context included: codes int64 [T, K]."""

    codes: Tensor
    left_context_frames: int
    right_context_frames: int


@dataclass(frozen=True, slots=True)
class DecodedWindow:
    """`pcm`: the samples of the window's own frames; `beyond`: those of its right context, not final."""

    pcm: Pcm
    beyond: Pcm


def decode_windows(
    decode: Decode, windows: Sequence[CodecWindow], samples_per_frame: int, max_batch_frames: int
) -> list[DecodedWindow]:
    """Decode many windows, those of exactly equal length together (padding would change the samples), in batches of at
    most so many frames (and at least one window)."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for index, window in enumerate(windows):
        by_length[window.codes.shape[0]].append(index)
    samples: list[Tensor | None] = [None] * len(windows)
    for length, indices in by_length.items():
        count = max(1, max_batch_frames // max(1, length))
        for first in range(0, len(indices), count):
            members = indices[first : first + count]
            batch = decode(torch.stack([windows[index].codes for index in members])).float()
            for row, index in enumerate(members):
                samples[index] = batch[row]
    decoded = []
    for window, pcm in zip(windows, samples, strict=True):
        assert pcm is not None
        host = pcm.cpu().numpy()
        start = window.left_context_frames * samples_per_frame
        end = len(host) - window.right_context_frames * samples_per_frame
        decoded.append(DecodedWindow(host[start:end], host[end:]))
    return decoded


class BlockJoin:
    """Puts the windows of one block together, in order: fades its two edges, hides a join that was not final."""

    __slots__ = ("_beyond", "_edge_samples", "_is_started", "_overlap_samples", "_reach_frames")

    def __init__(self, edge_samples: int, overlap_samples: int, reach_frames: int) -> None:
        self._edge_samples = edge_samples
        self._overlap_samples = overlap_samples
        self._reach_frames = reach_frames
        self._beyond: Pcm | None = None
        self._is_started = False

    def join(self, window: DecodedWindow, right_context_frames: int, is_block_end: bool) -> Pcm:
        """The window's samples as they are to be heard."""
        pcm = window.pcm.copy()
        if self._beyond is not None:
            count = min(len(self._beyond), len(pcm), self._overlap_samples)
            rise = _rise(count)
            pcm[:count] = pcm[:count] * rise + self._beyond[:count] * (1 - rise)
        is_final = is_block_end or right_context_frames >= self._reach_frames
        self._beyond = None if is_final else window.beyond[: self._overlap_samples].copy()
        if not self._is_started:
            count = min(self._edge_samples, len(pcm))
            pcm[:count] *= _rise(count)
            self._is_started = True
        if is_block_end:
            count = min(self._edge_samples, len(pcm))
            pcm[len(pcm) - count :] *= _rise(count)[::-1]
        return pcm


def _rise(count: int) -> Pcm:
    """Half a cosine from just above 0 to just below 1."""
    phase = (np.arange(count, dtype=np.float32) + 0.5) / max(count, 1)
    return (0.5 - 0.5 * np.cos(np.pi * phase)).astype(np.float32)
