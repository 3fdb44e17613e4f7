"""The modules that only hold tables or shapes: what is in them can be reached and contradicts nothing."""

from __future__ import annotations

import dataclasses

from engine.speech import Span
from gateway.text import abbreviations, symbols
from gateway.text.listed import listed
from gateway.text.sink import TextNotice


def test_words_are_listed_in_order() -> None:
    assert listed(" b\n  a ") == ("b", "a")


def test_no_abbreviation_is_in_two_minds() -> None:
    assert not abbreviations.BEFORE_NAME & (abbreviations.EITHER | abbreviations.WORD_DECIDES)


def test_tables_are_in_lower_case() -> None:
    for table in (
        abbreviations.BEFORE_NAME,
        abbreviations.EITHER,
        abbreviations.WORD_DECIDES,
        abbreviations.SENTENCE_STARTERS,
        abbreviations.NEVER_LAST,
        symbols.TOP_LEVEL_DOMAINS,
        symbols.FILE_ENDINGS,
    ):
        assert all(word == word.lower() for word in table)


def test_typographic_marks_become_one_code_point_each() -> None:
    assert all(len(plain) == 1 for plain in symbols.TYPOGRAPHIC.values())


def test_a_notice_is_frozen() -> None:
    assert dataclasses.is_dataclass(TextNotice)
    assert TextNotice("unknown_tag", "x", "m", Span(0, 1)) == TextNotice("unknown_tag", "x", "m", Span(0, 1))
