"""Tags change the delivery that they name, until they are changed themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models.hibari.prosody import (
    EMOTIONS,
    FAMILIES,
    MAX_BREATH,
    MAX_FINAL_SEMITONES,
    MAX_PACE,
    MAX_PAUSE_RATIO,
    MIN_PACE,
    SOUND_EFFECTS,
    Delivery,
    TagState,
    pause_s,
    tag_support,
)
from engine.speech import Control, ControlCategory, Span
from gateway.text.vocabulary import VALUES


def tag(category: ControlCategory, value: str, amount: float | None = None) -> Control:
    return Control(category, value, 0, Span(0, 0), amount)


def after(*controls: Control) -> Delivery:
    return TagState.of(controls).delivery(1.0, has_effects=True)


def test_every_tag_there_is_has_an_answer() -> None:
    support = tag_support(has_effects=True)
    names = {f"{category}:{value}" for category, values in VALUES.items() for value in values}
    assert names | {f"prosody:{value}" for value in ("break", "speed", "pitch", "volume")} == set(support)


def test_each_of_the_21_emotions_belongs_to_a_family_and_each_family_is_used() -> None:
    assert len(EMOTIONS) == 21
    assert set(EMOTIONS.values()) == set(FAMILIES)


def test_styles_need_the_effects_and_singing_is_beyond_it() -> None:
    assert tag_support(has_effects=True)["style:whispering"] == "rendered"
    assert tag_support(has_effects=False)["style:whispering"] == "unsupported"
    assert tag_support(has_effects=True)["style:singing"] == "unsupported"
    assert after(tag("style", "singing")).effect is None


def test_a_later_tag_of_a_kind_replaces_the_earlier() -> None:
    assert after(tag("prosody", "speed_slow"), tag("prosody", "speed", 1.5)).pace == 1.5
    assert after(tag("prosody", "pitch_high"), tag("prosody", "pitch", 0.0)).pitch_semitones == 0.0
    assert after(tag("emotion", "anger"), tag("emotion", "sadness")) == after(tag("emotion", "sadness"))


def test_tags_of_different_kinds_add_up() -> None:
    both = after(tag("prosody", "speed_fast"), tag("emotion", "elation"))
    assert both.pace == pytest.approx(1.2 * FAMILIES["bright"].pace)


def test_no_two_families_are_the_same_and_each_is_within_what_the_synthesis_can_do() -> None:
    families = list(FAMILIES.values())
    assert len(set(families)) == len(families)
    assert all(family == family.bounded() for family in families)


def test_breath_and_bends_add_up_and_ratios_of_pauses_multiply_within_their_bounds() -> None:
    base = Delivery(breath=0.2, final_semitones=1.0, pause_ratio=1.5)
    both = base.coloured(base)
    assert (both.breath, both.final_semitones, both.pause_ratio) == (0.4, 2.0, 2.25)
    most = Delivery(breath=9.0, final_semitones=-9.0, pause_ratio=9.0).bounded()
    assert (most.breath, most.final_semitones, most.pause_ratio) == (MAX_BREATH, -MAX_FINAL_SEMITONES, MAX_PAUSE_RATIO)


def test_neutral_ends_an_emotion_and_a_style() -> None:
    assert after(tag("emotion", "anger"), tag("emotion", "neutral")) == Delivery()
    assert after(tag("style", "shouting"), tag("style", "neutral")) == Delivery()


def test_the_speed_of_the_request_multiplies_that_of_the_tags() -> None:
    state = TagState().after(tag("prosody", "speed_fast"))
    assert state.delivery(0.8, has_effects=False).pace == pytest.approx(0.96)


@given(st.sampled_from(["speed", "pitch", "volume", "break"]), st.floats(-100, 100))
def test_no_amount_leaves_what_the_synthesis_can_do(value: str, amount: float) -> None:
    delivery = after(tag("prosody", value, amount))
    assert MIN_PACE <= delivery.pace <= MAX_PACE
    assert abs(delivery.pitch_semitones) <= 12
    assert 0 <= delivery.gain <= 4


def test_pauses_last_as_long_as_they_say() -> None:
    assert pause_s(tag("prosody", "break", 0.7)) == 0.7
    assert pause_s(tag("prosody", "break", -1.0)) == 0.0
    assert 0.4 <= (pause_s(tag("prosody", "pause")) or 0) <= 0.7
    assert 0.7 <= (pause_s(tag("prosody", "long_pause")) or 0) <= 1.5
    assert pause_s(tag("prosody", "speed_fast")) is None
    assert pause_s(tag("sfx", "cough")) is None


IMITATIONS = (
    "cough ahem, laughter haha, laughter hehe, crying boohoo, crying sob, screaming aaah, burping burp, humming hmm, "
    "humming mmm, sigh uh, sigh ahh, sniff sff, sneeze achoo"
)


@pytest.mark.parametrize(("sound", "word"), [pair.split(" ") for pair in IMITATIONS.split(", ")])
def test_the_usual_words_imitate_their_sounds(sound: str, word: str) -> None:
    assert SOUND_EFFECTS[sound].words.fullmatch(word)


@pytest.mark.parametrize("sound", sorted(SOUND_EFFECTS))
def test_ordinary_words_imitate_nothing(sound: str) -> None:
    for word in ("the", "hello", "has", "him", "so", "that", "and", "no"):
        assert (sound == "screaming" and word == "no") or not SOUND_EFFECTS[sound].words.fullmatch(word)
