"""Features of manner do not move with what a delivery sets: level, tilt, pitch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyworld", reason="extra [effects]")

from benchmarks.meters.manner import CEPSTRA, CONTOUR, FEATURES, MODULATION, manner
from benchmarks.meters.speech import Speaker, Spoken
from engine.models.hibari import HibariModel
from engine.speech import Control, Span, SpeechRequest

TEXT = "Our team has finished testing the bridge, so the road opens again on Tuesday."
RATE_HZ = 24_000


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    return Speaker(HibariModel.load())


@pytest.fixture(scope="module")
def plain(speaker: Speaker) -> Spoken:
    return speaker.whole(TEXT, SpeechRequest("heart", 1))


def values(spoken: Spoken, *groups: str) -> np.ndarray:
    found, at, parts = manner(spoken, RATE_HZ), 0, []
    for group, names in FEATURES.items():
        parts += [found[at : at + len(names)]] if group in groups else []
        at += len(names)
    assert at == len(found)
    return np.concatenate(parts)


def test_there_is_a_value_for_each_feature_and_all_are_numbers(plain: Spoken) -> None:
    assert len(manner(plain, RATE_HZ)) == sum(len(names) for names in FEATURES.values())
    assert np.all(np.isfinite(manner(plain, RATE_HZ)))


def test_the_level_changes_nothing(plain: Spoken) -> None:
    softer = replace(plain, pcm=(plain.pcm * 0.5).astype(np.float32))
    assert manner(softer, RATE_HZ) == pytest.approx(manner(plain, RATE_HZ), abs=0.05)


def test_a_tilted_spectrum_has_the_same_spread_of_cepstra(plain: Spoken) -> None:
    brighter = replace(plain, pcm=np.diff(plain.pcm, prepend=0.0).astype(np.float32) + 0.3 * plain.pcm)
    before, after = values(plain, "cepstra"), values(brighter, "cepstra")
    assert len(before) == len(CEPSTRA)
    assert np.median(np.abs(after / before - 1)) < 0.15


def test_another_pitch_has_the_same_contour(speaker: Speaker, plain: Spoken) -> None:
    tag = Control("prosody", "pitch", 0, Span(0, 0), 1.0)
    higher = speaker.whole(TEXT, SpeechRequest("heart", 1), (tag,))
    before, after = values(plain, "contour"), values(higher, "contour")
    assert len(before) == len(CONTOUR)
    assert np.median(np.abs(after - before)) < 0.1


def test_shares_of_the_envelopes_changes_sum_to_one(plain: Spoken) -> None:
    shares = np.exp(values(plain, "envelope"))
    assert len(shares) == len(MODULATION)
    assert shares.sum() == pytest.approx(1.0, abs=1e-3)
