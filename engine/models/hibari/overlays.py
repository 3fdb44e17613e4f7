"""Phrases through WORLD, in blocks short enough that no other stream waits long for one.

WORLD takes a stretch of sound as a whole. A phrase is cut where it is unvoiced, so that no pulse train is broken; each
block is made with the sound around it, trimmed, and faded into the next over 5 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from engine.models.hibari.effects import FADE_SAMPLES, Colouring, colour, faded
from engine.models.hibari.network import Floats
from engine.models.hibari.synthesis import (
    HOP,
    LEFT_FRAMES,
    RIGHT_FRAMES,
    VOICING_HZ,
    PhraseSpectra,
    Placement,
    gathered,
    overlap_add,
)

_SHORTEST_FRAMES: Final = 56
"""0.7 s: a block takes about a twentieth of its duration on one core."""
_UNVOICED_FRAMES: Final = 4
"""A cut falls in the middle of so many unvoiced frames or more."""
_CONTEXT_FRAMES: Final = 8
"""Sound on either side that WORLD sees too: 100 ms, several periods of any pitch."""


class Overlay:
    """Samples of one block of a phrase, to be mixed in from block sample `at` on; made when first asked for."""

    def __init__(self, at: int, phrase: Placement, f0_hz: Floats, start: int, end: int, colouring: Colouring) -> None:
        """Frames [start, end) of the phrase, whose frames are `f0_hz`'s; all but the last block go on for the fade."""
        self.at = at
        self.length = (end - start) * HOP + (FADE_SAMPLES if end < phrase.count else 0)
        self._phrase = phrase
        self._f0_hz = f0_hz
        self._start = start
        self._end = end
        self._colouring = colouring
        self._pcm: Floats | None = None

    def pcm(self) -> Floats:
        """float32 [length]."""
        if self._pcm is None:
            first = max(self._start - _CONTEXT_FRAMES, 0)
            last = min(self._end + _CONTEXT_FRAMES, self._phrase.count)
            spectra = gathered((self._phrase,), first - LEFT_FRAMES, last + RIGHT_FRAMES)
            made = colour(overlap_add(spectra), self._f0_hz[first:last], self._colouring)
            skipped = (self._start - first) * HOP
            self._pcm = faded(made[skipped : skipped + self.length])
        return self._pcm


def overlays(at_frame: int, source: PhraseSpectra, begin: int, end: int, colouring: Colouring) -> Iterator[Overlay]:
    """Frames [begin, end) of `source`, coloured, to lie at block frame `at_frame` and on."""
    phrase = Placement(0, end - begin, source, begin)
    f0_hz = source.f0_hz[begin:end]
    for start, stop in pairwise([0, *cuts(f0_hz), end - begin]):
        yield Overlay((at_frame + start) * HOP, phrase, f0_hz, start, stop, colouring)


def cuts(f0_hz: Floats) -> list[int]:
    """Frames between which a phrase may be made piece by piece, ascending; none where it is voiced throughout."""
    is_unvoiced = np.concatenate(([False], f0_hz <= VOICING_HZ, [False]))
    edges = np.flatnonzero(np.diff(is_unvoiced.astype(np.int8)))
    found: list[int] = []
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        cut = (start + end) // 2
        reach = cut - (found[-1] if found else 0)
        is_far = reach >= _SHORTEST_FRAMES and len(f0_hz) - cut >= _SHORTEST_FRAMES // 2
        if end - start >= _UNVOICED_FRAMES and is_far:
            found.append(cut)
    return found
