from __future__ import annotations

from pathlib import Path

import pytest

from gateway.text.vocabulary import (
    ACTIONS,
    CUES,
    EMOTION_WORDS,
    EMOTIONS,
    LIMITS,
    PROSODY,
    SOUNDS,
    STYLE_WORDS,
    STYLES,
    VALUES,
    Effect,
    cue_effects,
    valued_effect,
)

DOCS = Path(__file__).parents[3] / "docs" / "tags.md"
CANONICAL = [(category, value) for category in VALUES for value in sorted(VALUES[category])]


def test_there_are_the_43_controls_of_higgs_v3() -> None:
    assert len(EMOTIONS) + len(STYLES) + len(SOUNDS) + len(PROSODY) == 43


@pytest.mark.parametrize(("category", "value"), CANONICAL)
def test_a_control_means_itself(category: str, value: str) -> None:
    assert valued_effect(category, value) == (Effect(category, value),)  # type: ignore[arg-type]


def test_every_effect_of_a_word_is_a_control_that_exists() -> None:
    for effects in (*CUES.values(), *ACTIONS.values()):
        for effect in effects:
            if effect.amount is None:
                assert effect.value in VALUES[effect.category]
            else:
                assert effect.value in LIMITS
    assert set(EMOTION_WORDS.values()) <= VALUES["emotion"]
    assert set(STYLE_WORDS.values()) <= VALUES["style"]


def test_every_word_is_written_as_it_is_looked_up() -> None:
    for word in (*CUES, *EMOTION_WORDS, *STYLE_WORDS):
        assert word == " ".join(word.lower().split())


def test_manner_and_circumstance_do_not_change_an_action() -> None:
    for phrase in ("laughs", "laughs softly", "nervously laughs", "laughs at the joke"):
        assert cue_effects(phrase, "stars") == (Effect("sfx", "laughter"),)


def test_what_follows_a_verb_in_parentheses_is_prose() -> None:
    assert cue_effects("turns out to be so", "parentheses") is None
    assert cue_effects("laughs nervously", "parentheses") == (Effect("sfx", "laughter"),)


def test_a_mood_is_no_stage_direction() -> None:
    assert cue_effects("sad", "stars") is None
    assert cue_effects("sad", "brackets") == (Effect("emotion", "sadness"),)


def test_sounds_and_pauses_set_no_state() -> None:
    assert [Effect("sfx", "cough").state, Effect("prosody", "pause").state, Effect("prosody", "break", 1.0).state] == [
        None
    ] * 3
    assert Effect("prosody", "speed_slow").state == Effect("prosody", "speed", 1.2).state == "speed"
    assert Effect("emotion", "awe").state == "emotion"


def test_the_page_on_tags_names_every_control_and_every_word() -> None:
    page = DOCS.read_text("utf-8")
    for category, value in CANONICAL:
        assert f"`{value}`" in page or f"`{category}:{value}`" in page
    for value in LIMITS:
        assert f"`prosody:{value}`" in page
    listed = {
        word.strip() for line in page.splitlines() if line.startswith("|") for word in line.split("|")[2].split(",")
    }
    assert {*CUES, *EMOTION_WORDS, *STYLE_WORDS} <= listed
