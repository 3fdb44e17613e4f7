from __future__ import annotations

import pytest

from gateway.text.endings import ending_of, is_phrase_start, may_cut_between, settle


def broken(word: str, next_text: str | None, language: str | None = None) -> str | None:
    ending = ending_of(word, language)
    return None if ending is None else settle(ending, next_text)


@pytest.mark.parametrize(
    ("word", "next_text", "kind"),
    [
        ("there.", "H", "sentence"),
        ("there.", "h", "sentence"),
        ("there", "H", None),
        ("Dr.", "R", None),
        ("p.m.", "He", "sentence"),
        ("p.m.", "Bob", None),
        ("a.m.", "Monday", None),
        ("p.m.", "a", None),
        ("etc.", "5", None),
        ("U.S.", "Army", None),
        ("U.S.", "It", "sentence"),
        ("J.", "Ray", None),
        ("J.", "He", "sentence"),
        ("No.", "7", None),
        ("No.", "I", "sentence"),
        ('now."', "T", "sentence"),
        ('now?"', "s", "clause"),
        ("(p. 4.)", "T", "sentence"),
        ("12345.", "L", "sentence"),
        ("5,", "2", None),
        ("5,", "t", "clause"),
        ("Monday,", "M", "clause"),
        ("Monday,", "5", None),
        ("well…", "I", "sentence"),
        ("well…", "i", "clause"),
        ("well...", "i", "clause"),
        ("好。", "我", "sentence"),
        ("好，", "我", "clause"),
        ("بخير۔", "ا", "sentence"),
        ("είναι;", "Κ", "sentence"),
        ("done;", "t", "clause"),
        ("...", "t", "clause"),
        (".", "t", None),
        ('"', "t", None),
    ],
)
def test_where_a_segment_may_end(word: str, next_text: str, kind: str | None) -> None:
    assert broken(word, next_text) == kind


def test_an_ordinal_with_a_full_stop_is_no_end_in_a_language_that_writes_them() -> None:
    assert broken("5.", "Mai", "de") is None
    assert broken("5.", "tag", "de") is None
    assert broken("5.", None, "de") == "sentence"
    assert broken("5.", "Mai", "en") == "sentence"


def test_what_is_waited_for_in_vain_is_an_end() -> None:
    assert broken("p.m.", None) == "sentence"
    assert broken("5,", None) == "clause"


@pytest.mark.parametrize(
    ("left", "right", "may"),
    [
        ("brown", "fox", True),
        ("the", "fox", False),
        ("5", "apples", False),
        ("page", "5", False),
        ("Dr.", "Ray", False),
        ("May", "fifth", False),
        ("over", "the", False),
        ("done.", "Then", True),
        ("be", "and", True),
        ("Roman", "Empire", False),
        ("the", "and", False),
    ],
)
def test_where_a_forced_cut_may_come(left: str, right: str, may: bool) -> None:
    assert may_cut_between(left, right) is may


def test_a_conjunction_begins_a_phrase() -> None:
    assert is_phrase_start("and")
    assert not is_phrase_start("dog")
