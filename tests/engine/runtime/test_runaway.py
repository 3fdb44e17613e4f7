"""Silence and repetition that go on too long are noticed, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")  # engine.runtime is only ever loaded with it
from engine.runtime.runaway import RunawayGuard, RunawayLimits

LIMITS = RunawayLimits(max_silence_s=0.2, max_repeat_s=0.2, silence_level=0.01)


def guard() -> RunawayGuard:
    return RunawayGuard(LIMITS, frame_s=0.04, samples_per_frame=10)


def silence(frames: int) -> np.ndarray:
    return np.full(frames * 10, 0.001, np.float32)


def sound(frames: int) -> np.ndarray:
    return np.full(frames * 10, 0.1, np.float32)


def test_silence_counts_over_windows_until_sound_ends_it() -> None:
    watched = guard()
    watched.observe_pcm(silence(3))
    watched.observe_pcm(silence(2))
    assert not watched.is_runaway
    watched.observe_pcm(np.concatenate((sound(1), silence(4))))
    assert not watched.is_runaway
    watched.observe_pcm(silence(2))
    assert watched.is_runaway


def test_an_empty_window_changes_nothing() -> None:
    watched = guard()
    watched.observe_pcm(silence(5))
    watched.observe_pcm(silence(0))
    assert not watched.is_runaway


def test_the_same_row_again_and_again_is_a_runaway() -> None:
    watched = guard()
    for _ in range(5):
        watched.observe_row(is_repeat=True)
    assert not watched.is_runaway
    watched.observe_row(is_repeat=True)
    assert watched.is_runaway


def test_a_row_that_differs_ends_a_repetition() -> None:
    watched = guard()
    for row in range(100):
        watched.observe_row(is_repeat=row % 5 > 0)
    assert not watched.is_runaway


def test_pauses_that_were_asked_for_are_not_taken_for_a_decoder_gone_astray() -> None:
    watched = guard()
    watched.allow_silence(0.4)
    watched.allow_silence(0.2)
    watched.observe_pcm(np.zeros(10 * 20, np.float32))
    assert not watched.is_runaway
    watched.observe_pcm(np.zeros(10, np.float32))
    assert watched.is_runaway
