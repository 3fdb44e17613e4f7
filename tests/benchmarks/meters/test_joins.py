"""Joins are compared with the same two words of the whole; a pause between them is not taken for a step."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.meters.joins import boundaries, fall_before, gates, gather_joins, join_report
from benchmarks.meters.speech import Spoken
from engine.speech import Segment, WordTiming

RATE_HZ = 24_000
TEXT = "one, two three"
PLACES = ((0, 3), (5, 8), (9, 14))


def tone(duration_s: float, hz: float = 200.0, level: float = 0.1, to_hz: float | None = None) -> np.ndarray:
    """Harmonics of a pitch that may glide, falling as speech's do."""
    glide = np.linspace(0, 1, round(duration_s * RATE_HZ))
    pitch = hz * ((to_hz or hz) / hz) ** glide
    phase = 2 * np.pi * np.cumsum(pitch) / RATE_HZ
    wave = sum(np.sin(phase * harmonic) / harmonic**2 for harmonic in range(1, 20))
    return (level * np.asarray(wave)).astype(np.float32)


def silence(duration_s: float) -> np.ndarray:
    return np.zeros(round(duration_s * RATE_HZ), np.float32)


def spoken(sounds: list[np.ndarray], pause_s: float, join_after: int | None = None) -> Spoken:
    """Three words, a pause after the first; where there is a join, the second segment begins after that word."""
    pieces = [sounds[0], silence(pause_s), sounds[1], sounds[2]]
    starts = np.cumsum([0, *(len(piece) for piece in pieces)])
    # As by the net, the pause belongs to the word before it.
    spans = ((0, starts[2]), (starts[2], starts[3]), (starts[3], starts[4]))
    words = tuple(WordTiming(*place, int(a), int(b)) for place, (a, b) in zip(PLACES, spans, strict=True))
    segments = ((Segment.verbatim(TEXT), 0),)
    if join_after is not None:
        segments = (*segments, (Segment.verbatim(TEXT), words[join_after + 1].start_sample))
    return Spoken(TEXT, np.concatenate(pieces), words, segments)


def test_a_pause_makes_a_step_of_level_but_none_of_sound() -> None:
    first, second = boundaries(spoken([tone(0.5), tone(0.5), tone(0.5, level=0.2)], 0.3), RATE_HZ)
    assert first.level_db > 40
    assert first.sound_level_db == pytest.approx(0.0, abs=0.2)
    assert first.pause_s == pytest.approx(0.3, abs=0.011)
    assert second.level_db == second.sound_level_db == pytest.approx(6.0, abs=0.2)
    assert second.pause_s == 0.0


def test_steps_of_pitch_are_heard_across_a_pause() -> None:
    first, _ = boundaries(spoken([tone(0.5), tone(0.5, 400.0), tone(0.5)], 0.3), RATE_HZ)
    assert first.pitch_semitones is None
    assert first.sound_pitch_semitones == pytest.approx(12.0, abs=0.3)


def test_places_are_told_apart_by_what_is_written_there_and_by_who_joins_there() -> None:
    found = boundaries(spoken([tone(0.5)] * 3, 0.3, join_after=0), RATE_HZ)
    assert [(boundary.mark, boundary.is_join) for boundary in found] == [("comma", True), ("none", False)]


@pytest.mark.parametrize("octaves_per_s", [-1.0, 0.5])
def test_the_fall_before_a_place_is_its_slope(octaves_per_s: float) -> None:
    pytest.importorskip("pyworld", reason="extra [effects]")
    fall = fall_before(tone(0.6, 200.0, to_hz=200.0 * 2 ** (0.6 * octaves_per_s)), round(0.6 * RATE_HZ), RATE_HZ)
    assert fall is not None
    assert fall.slope_semitones_per_s == pytest.approx(12 * octaves_per_s, abs=1.0)
    assert fall.end_hz == pytest.approx(200.0 * 2 ** (0.6 * octaves_per_s), rel=0.03)


def test_nothing_voiced_has_no_fall() -> None:
    pytest.importorskip("pyworld", reason="extra [effects]")
    assert fall_before(silence(1.0), RATE_HZ, RATE_HZ) is None


def test_a_join_that_only_pauses_as_the_whole_does_holds_and_a_louder_one_is_missed() -> None:
    pytest.importorskip("pyworld", reason="extra [effects]")
    plain = [tone(0.5), tone(0.5), tone(0.5)]
    whole = spoken(plain, 0.3)
    same = gather_joins([(whole, spoken(plain, 0.3, join_after=0))] * 2, lambda text: whole, RATE_HZ)
    assert len(same.pairs) == 2
    assert len(same.inner) == 2
    held = gates(join_report(same)[0])
    assert len(held) == 3  # a pause of 300 ms has no pitch
    assert all(held.values())
    louder = [plain[0], tone(0.5, level=0.2), plain[2]]
    worse = gather_joins([(whole, spoken(louder, 0.3, join_after=0))] * 2, lambda text: whole, RATE_HZ)
    missed = [name for name, holds in gates(join_report(worse)[0]).items() if not holds]
    assert any(name.startswith("level step without the pause") for name in missed)
