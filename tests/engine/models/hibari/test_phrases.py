"""A segment is cut where its pace, its punctuation or a tag's silence asks for it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.models.hibari.config import MAX_CALL_SYMBOLS, PAUSES
from engine.models.hibari.network import AcousticNet
from engine.models.hibari.phonemes import Phonemizer
from engine.models.hibari.phrases import Break, Phrase, PhrasePlan, Script, plan_phrases
from engine.models.hibari.prosody import FAMILIES, TagState
from engine.speech import Boundary, Control, ControlCategory, Span

READER = Phonemizer(AcousticNet.load().symbols)


def script(text: str, *controls: Control, boundary: Boundary = "end") -> Script:
    words = READER.words(text)
    return Script(text, words, range(len(words)), 0, boundary, controls)


def tag(at: int, value: str, amount: float | None = None, category: ControlCategory = "prosody") -> Control:
    return Control(category, value, at, Span(at, at), amount)


def planned(text: str, *controls: Control, boundary: Boundary = "end", has_effects: bool = True) -> PhrasePlan:
    return plan_phrases(script(text, *controls, boundary=boundary), TagState(), 1.0, has_effects)


def shown(plan: PhrasePlan, text: str) -> list[object]:
    words = READER.words(text)
    return [
        step.duration_s
        if isinstance(step, Break)
        else (text[words[step.first].start : words[step.last - 1].end], step.ending)
        for step in plan.steps
    ]


def test_a_sentence_is_one_phrase() -> None:
    text = "He came, he saw, he left."
    assert shown(planned(text), text) == [(text, "sentence")]


def test_sentences_inside_a_segment_are_phrases_of_their_own() -> None:
    text = "Dr. Smith left. He was late.\n\nSo it goes"
    assert shown(planned(text), text) == [
        ("Dr. Smith left.", "sentence"),
        ("He was late.", "paragraph"),
        ("So it goes", "end"),
    ]


def test_how_a_phrase_ends_is_told_by_what_closed_the_segment() -> None:
    for boundary, ending in (
        ("clause", "flow"),
        ("forced", "flow"),
        ("sentence", "sentence"),
        ("paragraph", "paragraph"),
    ):
        (step,) = planned("all of it", boundary=boundary).steps  # type: ignore[arg-type]
        assert isinstance(step, Phrase)
        assert step.ending == ending


def test_a_pause_stands_before_the_word_that_follows_its_tag() -> None:
    text = "stop here now"
    assert shown(planned(text, tag(5, "pause")), text) == [("stop", "break"), PAUSES.tag_pause_s, ("here now", "end")]


def test_pauses_in_one_place_add_up_and_may_stand_alone() -> None:
    assert shown(planned("", tag(0, "break", 0.3), tag(0, "break", 0.4)), "") == [0.7]


def test_a_change_of_pace_makes_another_call_and_a_change_of_pitch_does_not() -> None:
    text = "one two three four"
    assert len(planned(text, tag(8, "speed_fast")).steps) == 2
    (step,) = planned(text, tag(8, "pitch_high")).steps
    assert isinstance(step, Phrase)
    assert [delivery.pitch_semitones for delivery in step.deliveries] == [0.0, 0.0, 2.0, 2.0]


def test_a_change_of_the_vowels_length_makes_another_call() -> None:
    text = "One two three four"
    changed = planned(text, tag(8, "affection", category="emotion"))
    assert [step.vowel_ratio for step in changed.steps if isinstance(step, Phrase)] == [
        1.0,
        FAMILIES["tender"].vowel_ratio,
    ]


def test_a_family_with_pauses_of_its_own_is_still_one_call_a_sentence() -> None:
    text = "He came, he saw, he left."
    assert shown(planned(text, tag(0, "contemplation", category="emotion")), text) == [(text, "sentence")]


def test_state_tags_in_force_before_the_segment_hold_in_it() -> None:
    plan = plan_phrases(script("one two", tag(4, "pitch", 1.0)), TagState(pitch_semitones=-2.0), 1.0, True)
    (step,) = plan.steps
    assert isinstance(step, Phrase)
    assert [delivery.pitch_semitones for delivery in step.deliveries] == [-2.0, 1.0]


def test_an_imitated_sound_is_spoken_in_its_preset_and_said_to_be_approximated() -> None:
    text = "Ha ha! That is funny."
    plan = planned(text, tag(0, "laughter", category="sfx"))
    phrases = [step for step in plan.steps if isinstance(step, Phrase)]
    assert phrases[0].deliveries[0].pitch_semitones > 1
    assert phrases[-1].deliveries[-1].pitch_semitones == 0
    assert [(notice.code, notice.detail) for notice in plan.notices] == [("tag_approximated", "sfx:laughter")]


def test_a_sound_without_words_is_a_short_pause_and_said_to_be_unsupported() -> None:
    text = "That is funny."
    plan = planned(text, tag(0, "cough", category="sfx"))
    assert plan.steps[0] == Break(PAUSES.sfx_pause_s)
    assert [notice.code for notice in plan.notices] == ["tag_unsupported"]


def test_emotions_are_answered_as_approximations_once() -> None:
    plan = planned("so it goes", tag(0, "anger", category="emotion"), tag(3, "anger", category="emotion"))
    assert [(notice.code, notice.detail) for notice in plan.notices] == [("tag_approximated", "emotion:anger")]


def test_a_speed_beyond_the_voice_is_answered_with_the_limits() -> None:
    (notice,) = planned("so it goes", tag(0, "speed", 3.0)).notices
    assert notice.code == "tag_approximated"
    assert "0.5 to 2" in notice.message
    assert not planned("so it goes", tag(0, "speed", 2.0)).notices


def test_a_style_without_the_extra_is_unsupported_with_what_to_install() -> None:
    plan = planned("so it goes", tag(0, "whispering", category="style"), has_effects=False)
    assert plan.notices[0].code == "tag_unsupported"
    assert "antiphon[effects]" in plan.notices[0].message


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(["word", "sentence,", "longer", "extraordinarily", "1984", "—", "日本", "end."]), max_size=120
    )
)
def test_every_spoken_word_is_in_exactly_one_phrase_and_no_phrase_is_too_long(pieces: list[str]) -> None:
    text = " ".join(pieces)
    plan = planned(text)
    words = READER.words(text)
    phrases = [step for step in plan.steps if isinstance(step, Phrase)]
    covered = [index for phrase in phrases for index in range(phrase.first, phrase.last) if words[index].is_spoken]
    assert covered == [index for index, word in enumerate(words) if word.is_spoken]
    for phrase in phrases:
        assert len(phrase.deliveries) == phrase.last - phrase.first
        symbols = sum(len(word.symbols) + 1 for word in words[phrase.first : phrase.last])
        assert phrase.last - phrase.first == 1 or symbols <= MAX_CALL_SYMBOLS + 60
