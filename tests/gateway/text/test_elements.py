from __future__ import annotations

import pytest

from gateway.text.elements import arpabet_to_ipa, duration_s, read_element
from gateway.text.vocabulary import Effect


def effects(body: str) -> list[tuple[str, float | None]]:
    element = read_element(body, is_after_word=False)
    assert element is not None
    return [(effect.name, None if effect.amount is None else round(effect.amount, 2)) for effect in element.effects]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1.0), ("500ms", 0.5), ("0.25", 0.25), (" 2 S ", 2.0), ("-1s", None), ("soon", None), ("nan", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("break", [("prosody:break", 0.5)]),
        ('break time="99s"/', [("prosody:break", 10.0)]),
        ('break strength="none"', []),
        ("prosody rate='x-slow' pitch='-12%'", [("prosody:speed", 0.65), ("prosody:pitch", -2.21)]),
        ("prosody volume='+6dB'", [("prosody:volume", 2.0)]),
        ("prosody rate='900%'", [("prosody:speed", 4.0)]),
        ("speed ratio=0.5", [("prosody:speed", 0.5)]),
        ("volume ratio='1.5'", [("prosody:volume", 1.5)]),
        ("emotion value='ANGRY'", [("emotion:anger", None)]),
        ("emotion name='neutral'", [("emotion:neutral", None)]),
        ("mstts:express-as style='whispering'", [("style:whispering", None)]),
        ("laugh", [("sfx:laughter", None)]),
        ("b", []),
    ],
)
def test_elements_mean_controls(body: str, expected: list[tuple[str, float | None]]) -> None:
    assert effects(body) == expected


@pytest.mark.parametrize(
    "body", ["", " ", "6", "your name", "a and c", "-", "=", "3x", "a b c", "/", "/3", "b=", '"x"', "a 'b'"]
)
def test_what_is_no_element_is_text(body: str) -> None:
    assert read_element(body, is_after_word=False) is None


@pytest.mark.parametrize("body", ["String", "int", "T", "Foo bar='1'"])
def test_an_unknown_element_behind_a_word_is_text(body: str) -> None:
    assert read_element(body, is_after_word=True) is None
    unknown = read_element(body, is_after_word=False)
    assert unknown is not None
    assert unknown.unknown


@pytest.mark.parametrize(
    "body",
    [
        "prosody rate='0'",
        "speed ratio='-1'",
        "speed ratio='inf'",
        "prosody pitch='-200%'",
        "break time='x'",
        "emphasis level='huge'",
    ],
)
def test_a_value_that_means_nothing_is_reported_and_does_nothing(body: str) -> None:
    element = read_element(body, is_after_word=False)
    assert element is not None
    assert element.effects == ()
    assert element.unknown


def test_attributes_may_hold_entities() -> None:
    element = read_element("sub alias='Q &amp; A'", is_after_word=False)
    assert element is not None
    assert element.replacement == "Q & A"


def test_arpabet_becomes_ipa_with_its_stress() -> None:
    assert arpabet_to_ipa("HH AH0 L OW1") == "həlˈoʊ"
    assert arpabet_to_ipa("QQ1") is None
    assert arpabet_to_ipa("1") is None
    assert arpabet_to_ipa("") is None


def test_a_phoneme_without_phonemes_is_reported() -> None:
    element = read_element("phoneme alphabet='ipa'", is_after_word=False)
    assert element is not None
    assert element.unknown == ("phoneme",)


def test_emphasis_is_louder() -> None:
    element = read_element("emphasis", is_after_word=False)
    assert element is not None
    assert element.effects == (Effect("prosody", "volume", 1.15),)
