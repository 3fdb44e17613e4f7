"""Blocks: trimmed, paused and joined without a seam; any windows of one are its whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.models.hibari.blocks import FRESH, Block, Composer, Seam
from engine.models.hibari.config import (
    BASE_VOICE,
    DERIVED_VOICES,
    FINAL_BEND_FRAMES,
    FRAME_S,
    FRAME_SAMPLES,
    PAUSES,
    Voice,
)
from engine.models.hibari.network import AcousticNet, Floats
from engine.models.hibari.phonemes import Phonemizer
from engine.models.hibari.phrases import Break, Phrase, PhrasePlan, Script, plan_phrases
from engine.models.hibari.prosody import EMOTIONS, FAMILIES, Delivery, TagState
from engine.models.hibari.synthesis import PhraseSpectra
from engine.speech import Boundary, Control

NET = AcousticNet.load()
READER = Phonemizer(NET.symbols)
COMPOSER = Composer(NET)

WINDOW_TOLERANCE = 1e-6
"""Several transforms at once may round otherwise than one at a time."""


def composed(
    text: str,
    boundary: Boundary = "end",
    *,
    before: str = "",
    after: str = "",
    seam: Seam = FRESH,
    controls: tuple[Control, ...] = (),
    voice: Voice = BASE_VOICE,
    seed: int = 1,
) -> Block:
    """A block of `text`, spoken between `before` and `after`."""
    offset = len(before) + 1 if before else 0
    whole = " ".join(part for part in (before, text, after) if part)
    words = READER.words(whole)
    own = [index for index, word in enumerate(words) if offset <= word.start < offset + len(text)]
    script = Script(whole, words, range(own[0], own[-1] + 1) if own else range(0), offset, boundary, controls)
    return COMPOSER.compose(script, plan_phrases(script, TagState(), 1.0, has_effects=True), voice, seam, (seed, 0))


def whole(block: Block) -> Floats:
    return block.samples(0, block.frames)


def silence_s(pcm: Floats) -> tuple[float, float]:
    """At the head and at the end, 40 dB below the loudest 5 ms."""
    levels = np.sqrt(np.mean(pcm[: len(pcm) // 120 * 120].reshape(-1, 120).astype(np.float64) ** 2, axis=1))
    heard = np.flatnonzero(levels > levels.max() / 100)
    return float(heard[0] * 0.005), float((len(levels) - 1 - heard[-1]) * 0.005)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 150), max_size=10))
def test_windows_of_any_sizes_joined_are_the_whole(cuts: list[int]) -> None:
    block = BLOCK
    places = sorted({0, block.frames, *(cut for cut in cuts if cut < block.frames)})
    joined = np.concatenate([block.samples(*pair) for pair in pairwise(places)])
    assert np.abs(joined - whole(block)).max() <= WINDOW_TOLERANCE


BLOCK = composed("Well, this is it.")


def test_the_same_seed_gives_the_same_samples_and_another_gives_others() -> None:
    text = "A safe place."
    assert np.array_equal(whole(composed(text, seed=5)), whole(composed(text, seed=5)))
    assert not np.array_equal(whole(composed(text, seed=5)), whole(composed(text, seed=6)))


def test_speech_begins_at_once_and_ends_with_what_its_punctuation_needs() -> None:
    head_s, end_s = silence_s(whole(composed("This is it.")))
    assert head_s <= 0.06
    assert end_s == pytest.approx(PAUSES.sentence_s, abs=0.06)
    assert silence_s(whole(composed("This is it", "paragraph")))[1] == pytest.approx(PAUSES.paragraph_s, abs=0.06)


@pytest.mark.parametrize(
    "text",
    [
        "Thank you for your patience.",
        "Thanks for calling.",
        "Fifty ships passed.",
        "First, open it.",
        "He knew.",
        "Yes.",
    ],
)
def test_a_faint_first_consonant_keeps_no_listener_waiting(text: str) -> None:
    assert silence_s(whole(composed(text)))[0] <= 0.05


def test_the_sound_of_a_faint_first_consonant_is_kept() -> None:
    """ "Thank" begins with a friction that rises for 60 ms; what is heard of it stays."""
    pcm = whole(composed("Thank you."))
    friction = 20 * np.log10(np.std(pcm[: 4 * FRAME_SAMPLES].astype(np.float64)))
    assert friction > -70


def test_a_phrase_cut_where_nothing_is_known_to_follow_dies_away_without_a_pause() -> None:
    block = composed("I saw the", "forced")
    assert block.seam.spectra is None
    assert abs(float(whole(block)[-1])) < 1e-3
    assert silence_s(whole(block))[1] <= 0.06


def test_a_phrase_cut_before_known_words_ends_without_silence_and_leaves_a_seam() -> None:
    block = composed("I saw the", "forced", after="old house.")
    assert block.seam.spectra is not None
    assert silence_s(whole(block))[1] <= 0.03


@pytest.mark.parametrize(("left", "right"), [("We are", "all alone now."), ("They were really", "willing to go.")])
def test_a_join_in_mid_phrase_is_no_louder_and_no_rougher_than_speech(left: str, right: str) -> None:
    first = composed(left, "forced", after=right)
    second = composed(right, before=left, seam=first.seam)
    pcm = np.concatenate([whole(first), whole(second)]).astype(np.float64)
    join = first.frames * FRAME_SAMPLES
    bend = np.abs(np.diff(pcm, 2))
    assert bend[join - 3 : join + 3].max() <= np.percentile(bend[join - 2400 : join + 2400], 99.5) * 1.5


def delivered(monkeypatch: pytest.MonkeyPatch, text: str, **changes: float) -> Block:
    """One block of `text`, every word of it delivered with `changes`."""
    monkeypatch.setitem(FAMILIES, EMOTIONS["anger"], Delivery(**changes))  # type: ignore[arg-type]
    words = READER.words(text)
    script = Script(text, words, range(len(words)), 0, "end", ())
    plan = plan_phrases(script, TagState(emotion="anger"), 1.0, has_effects=True)
    return COMPOSER.compose(script, plan, BASE_VOICE, FRESH, (1, 0))


def inner_silence_s(pcm: Floats) -> float:
    levels = np.sqrt(np.mean(pcm[: len(pcm) // 120 * 120].reshape(-1, 120).astype(np.float64) ** 2, axis=1))
    heard = np.flatnonzero(levels > levels.max() / 100)
    return float(np.max(np.diff(heard)) - 1) * 0.005


@pytest.mark.parametrize("ratio", [0.5, 1.5, 2.0])
def test_pauses_of_punctuation_are_as_many_times_longer_as_the_delivery_says(
    monkeypatch: pytest.MonkeyPatch, ratio: float
) -> None:
    text = "The engine made a strange sound, and then the car stopped."
    usual = whole(delivered(monkeypatch, text, pause_ratio=1.0001))
    other = whole(delivered(monkeypatch, text, pause_ratio=ratio))
    assert inner_silence_s(usual) > 0.15
    assert inner_silence_s(other) == pytest.approx(ratio * inner_silence_s(usual), abs=0.04)
    assert silence_s(other)[1] == pytest.approx(ratio * silence_s(usual)[1], abs=0.06)


def test_words_keep_their_sound_where_pauses_are_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "He came, he saw, he left the old house, and then he slept."
    usual, longer = delivered(monkeypatch, text), delivered(monkeypatch, text, pause_ratio=2.0)
    assert len(usual.marks) == len(longer.marks)
    assert longer.frames > usual.frames
    plain, other = whole(usual), whole(longer)
    for left, right in zip(usual.marks, longer.marks, strict=True):
        width = min(left.end_sample - left.start_sample, right.end_sample - right.start_sample, 2400)
        before = plain[left.start_sample : left.start_sample + width]
        after = other[right.start_sample : right.start_sample + width]
        assert np.std(before - after) < 0.2 * np.std(before) + 1e-3


@pytest.mark.parametrize("ratio", [0.25, 0.6, 1.9, 3.0])
def test_windows_of_a_block_with_other_pauses_joined_are_the_whole(
    monkeypatch: pytest.MonkeyPatch, ratio: float
) -> None:
    block = delivered(monkeypatch, "He came, he saw; he left.", pause_ratio=ratio, breath=0.5, final_semitones=-2.0)
    joined = np.concatenate([block.samples(at, min(at + 7, block.frames)) for at in range(0, block.frames, 7)])
    assert np.abs(joined - whole(block)).max() <= WINDOW_TOLERANCE
    assert [mark.start_sample for mark in block.marks] == sorted(mark.start_sample for mark in block.marks)


@pytest.mark.parametrize("semitones", [-2.0, 1.5])
def test_the_end_of_a_sentence_is_bent_by_its_semitones_and_nothing_before_it(
    monkeypatch: pytest.MonkeyPatch, semitones: float
) -> None:
    text = "We are all alone now, in a low yellow room."
    plain, bent = delivered(monkeypatch, text), delivered(monkeypatch, text, final_semitones=semitones)
    assert plain.frames == bent.frames
    before, after = (pitches(block) for block in (plain, bent))
    moved = 12 * np.log2(after / np.maximum(before, 1.0), where=before > 40, out=np.zeros_like(before))
    voiced = np.flatnonzero(before > 40)
    assert moved[voiced[-1]] == pytest.approx(semitones, abs=0.01)
    assert np.all(np.abs(moved[: voiced[-1] - FINAL_BEND_FRAMES]) < 0.01)


def test_a_phrase_that_goes_on_is_not_bent() -> None:
    steps = plan_phrases(script_of("We are all alone"), TagState(emotion="anger"), 1.0, has_effects=True).steps
    (phrase,) = steps
    assert isinstance(phrase, Phrase)
    assert phrase.ending == "flow"
    script = script_of("We are all alone")
    bent = COMPOSER.compose(script, PhrasePlan((phrase,), ()), BASE_VOICE, FRESH, (1, 0))
    level = replace(phrase, deliveries=tuple(replace(given, final_semitones=0.0) for given in phrase.deliveries))
    plain = COMPOSER.compose(script, PhrasePlan((level,), ()), BASE_VOICE, FRESH, (1, 0))
    assert np.array_equal(pitches(bent), pitches(plain))


def script_of(text: str) -> Script:
    """A fragment cut where nothing is known to follow."""
    words = READER.words(text)
    return Script(text, words, range(len(words)), 0, "forced", ())


def pitches(block: Block) -> np.ndarray:
    """f0 of a block's frames as they were edited, 0 in pauses."""
    f0 = np.zeros(block.frames)
    for placement in block.placements:
        assert isinstance(placement.source, PhraseSpectra)
        count = min(placement.count, block.frames - placement.at)
        f0[placement.at : placement.at + count] = placement.source.f0_hz[
            placement.source_start : placement.source_start + count
        ]
    return f0


@pytest.mark.parametrize(
    ("left", "right"), [("once", "a minute."), ("We are", "all alone now."), ("They were really", "willing to go.")]
)
def test_speech_that_begins_in_the_midst_of_sound_begins_softly(left: str, right: str) -> None:
    """What was said before has died away: nothing is carried over."""
    pcm = whole(composed(right, before=left)).astype(np.float64)
    assert abs(pcm[0]) < 0.1 * np.abs(pcm[:2400]).max()
    bend = np.abs(np.diff(np.concatenate([np.zeros(2), pcm]), 2))
    assert bend[:4].max() <= max(np.percentile(bend[:2400], 99) * 1.5, 1e-3)


def test_the_samples_at_a_join_are_one_overlap_add() -> None:
    first = composed("We are", "forced", after="all alone now.")
    assert first.seam.spectra is not None
    second = composed("all alone now.", before="We are", seam=first.seam)
    cut = composed("all alone now.", before="We are", seam=replace(first.seam, spectra=None))
    join = whole(first)[-1] - whole(second)[0]
    assert abs(join) < 0.1
    assert second.frames != cut.frames or not np.array_equal(whole(second), whole(cut))


def test_a_phrase_that_nothing_continues_dies_away() -> None:
    first = composed("We are", "forced", after="all alone now.")
    rest = COMPOSER.compose(Script("", (), range(0), 0, "end", ()), PhrasePlan((), ()), BASE_VOICE, first.seam, (1, 1))
    assert 0 < rest.frames <= 4
    assert abs(float(whole(rest)[-1])) < 1e-3


def test_a_text_with_nothing_to_say_has_no_frames_and_passes_the_seam_on() -> None:
    first = composed("We are", "forced", after="all alone now.")
    script = Script("— now", READER.words("— now"), range(1), 0, "clause", ())
    block = COMPOSER.compose(script, plan_phrases(script, TagState(), 1.0, True), BASE_VOICE, first.seam, (1, 1))
    assert block.frames == 0
    assert block.seam.spectra is not None


def test_silence_already_given_counts_towards_a_break() -> None:
    plan = PhrasePlan((Break(1.0),), ())
    script = Script("", (), range(0), 0, "clause", ())
    fresh = COMPOSER.compose(script, plan, BASE_VOICE, FRESH, (1, 0)).frames
    later = COMPOSER.compose(script, plan, BASE_VOICE, Seam(silence_frames=24), (1, 0)).frames
    assert fresh - later == 24
    assert fresh * FRAME_S == pytest.approx(1.0, abs=0.04)


def test_marks_ascend_inside_the_block_and_name_every_word() -> None:
    text = "Dr. Smith paid $3.50—really—for 5 km."
    block = composed(text)
    assert [text[mark.start : mark.end] for mark in block.marks] == [
        "Dr", "Smith", "paid", "$3.50", "really", "for", "5", "km"
    ]  # fmt: skip
    assert all(mark.start_sample < mark.end_sample <= block.frames * FRAME_SAMPLES for mark in block.marks)
    starts = [mark.start_sample for mark in block.marks]
    assert starts == sorted(starts)


def test_a_long_text_is_spoken_whole() -> None:
    text = "and then we walked over the hill and down to the river " * 12
    block = composed(text.strip())
    assert len(block.marks) == 12 * 12
    assert block.frames * FRAME_S > 25


def test_a_derived_voice_is_as_long_and_speaks_at_its_own_pitch() -> None:
    pyworld = pytest.importorskip("pyworld", reason="extra [effects]")

    def pitch(voice: Voice) -> np.ndarray:
        f0, _ = pyworld.harvest(whole(composed("We are all alone now.", voice=voice)).astype(np.float64), 24_000)
        return np.asarray(f0)

    base = pitch(BASE_VOICE)
    for voice in DERIVED_VOICES:
        own = pitch(voice)
        both = (base > 0) & (own > 0)
        assert np.median(own[both] / base[both]) == pytest.approx(voice.pitch_ratio, rel=0.06)
        assert composed("We are all alone now.", voice=voice).frames == composed("We are all alone now.").frames
