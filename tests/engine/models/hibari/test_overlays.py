"""Phrases through WORLD come in short blocks, cut where nothing is voiced, and sound as if made in one piece."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyworld", reason="extra [effects]")

from engine.models.hibari.effects import FADE_SAMPLES, Colouring, colour
from engine.models.hibari.network import AcousticNet, Acoustics, Floats
from engine.models.hibari.overlays import cuts, overlays
from engine.models.hibari.synthesis import (
    HOP,
    LEFT_FRAMES,
    RIGHT_FRAMES,
    FrameEdits,
    NoiseSource,
    PhraseSpectra,
    Placement,
    gathered,
    overlap_add,
)

LEVEL_TOLERANCE_DB = 1.0
WHOLE_TOLERANCE_DB = 0.5
"""Of 50 ms around a cut, and of all: noise is another draw, and at a cut two draws fade into each other."""


@pytest.fixture(scope="module")
def source() -> PhraseSpectra:
    symbols = "ðə kwˈɪk bɹˈWn fˈɑks, wˌɪʧ wʌz vˈɛɹi tˈIəɹd, ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ, ænd slˈips ʌntˈɪl ˈivnɪŋ."
    acoustics: Acoustics = AcousticNet.load()(symbols, 1.0)
    count = len(acoustics.f0)
    zeros = np.zeros(count, np.float32)
    return PhraseSpectra(acoustics, FrameEdits(acoustics.f0, zeros + 1, zeros, zeros), NoiseSource(), 3)


def mixed(source: PhraseSpectra, colouring: Colouring) -> Floats:
    pcm = np.zeros(source.count * HOP, np.float32)
    for overlay in overlays(0, source, 0, source.count, colouring):
        pcm[overlay.at : overlay.at + overlay.length] += overlay.pcm()
    return pcm


def in_one_piece(source: PhraseSpectra, colouring: Colouring) -> Floats:
    spectra = gathered((Placement(0, source.count, source, 0),), -LEFT_FRAMES, source.count + RIGHT_FRAMES)
    return colour(overlap_add(spectra), source.f0_hz, colouring)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 90)), max_size=20))
def test_cuts_are_unvoiced_far_apart_and_ascending(runs: list[tuple[bool, int]]) -> None:
    f0_hz = np.concatenate([np.zeros(0), *(np.full(count, 200.0 * is_voiced) for is_voiced, count in runs)])
    found = cuts(f0_hz.astype(np.float32))
    assert all(f0_hz[cut - 1] == f0_hz[cut] == 0.0 for cut in found)
    assert all(right - left >= 56 for left, right in pairwise([0, *found]))


def test_a_phrase_that_is_voiced_throughout_is_one_block() -> None:
    assert cuts(np.full(400, 180.0, np.float32)) == []


def test_blocks_cover_the_phrase_and_overlap_by_their_fade(source: PhraseSpectra) -> None:
    blocks = list(overlays(10, source, 5, source.count, Colouring("whisper")))
    assert len(blocks) >= 3
    assert blocks[0].at == 10 * HOP
    assert blocks[-1].at + blocks[-1].length == (10 + source.count - 5) * HOP
    assert all(left.at + left.length - right.at == FADE_SAMPLES for left, right in pairwise(blocks))
    assert max(block.length for block in blocks) <= 2.0 * 24_000


@pytest.mark.parametrize("colouring", [Colouring("whisper"), Colouring("shout"), Colouring(None, 0.6, 0.87)])
def test_blocks_sound_like_one_piece(source: PhraseSpectra, colouring: Colouring) -> None:
    ours, whole = mixed(source, colouring), in_one_piece(source, colouring)
    at_cuts = [overlay.at for overlay in overlays(0, source, 0, source.count, colouring)][1:]
    for cut in at_cuts:
        near = slice(cut - 600, cut + 600)
        if np.std(whole[near]) > 1e-3:
            assert 20 * np.log10(np.std(ours[near]) / np.std(whole[near])) == pytest.approx(0, abs=LEVEL_TOLERANCE_DB)
        bend = np.abs(np.diff(ours.astype(np.float64), 2))
        assert bend[cut - 130 : cut + 130].max() <= 1.5 * bend[cut - 2400 : cut + 2400].max()
    assert 20 * np.log10(np.std(ours) / np.std(whole)) == pytest.approx(0, abs=WHOLE_TOLERANCE_DB)


def test_the_same_phrase_gives_the_same_samples(source: PhraseSpectra) -> None:
    assert np.array_equal(mixed(source, Colouring("shout")), mixed(source, Colouring("shout")))
