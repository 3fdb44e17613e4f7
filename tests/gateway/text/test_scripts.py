from __future__ import annotations

import sys

import pytest

from gateway.text.scripts import KINDS, joins, language_of, language_of_script, parts_phrases, script_of


def test_every_code_point_has_a_kind() -> None:
    for code in [*range(0, 0x3400), *range(0xA000, 0x11000), 0x1F600, 0x20000, 0xE0041, sys.maxunicode]:
        assert KINDS[chr(code)] in ("space", "drop", "mark", "unspaced", "word")


@pytest.mark.parametrize(
    ("char", "kind"),
    [
        *(
            ("a", "word"),
            ("\u00a0", "word"),
            ("한", "word"),
            ("°", "word"),
            (" ", "space"),
            ("\u200b", "space"),
            ("😀", "space"),
        ),
        *(("\u202e", "drop"), ("\x00", "drop"), ("\u00ad", "drop"), ("\ue000", "drop"), ("\u0301", "mark")),
        *(("好", "unspaced"), ("。", "unspaced"), ("ก", "unspaced")),
    ],
)
def test_kinds(char: str, kind: str) -> None:
    assert KINDS[char] == kind


@pytest.mark.parametrize(
    ("char", "script"),
    [
        ("a", "Latin"),
        ("é", "Latin"),
        ("я", "Cyrillic"),
        ("好", "Han"),
        ("の", "Kana"),
        ("5", None),
        (".", None),
        ("ᚠ", "Other"),
    ],
)
def test_scripts(char: str, script: str | None) -> None:
    assert script_of(char) == script


@pytest.mark.parametrize(
    ("script", "text", "given", "language"),
    [
        ("Latin", "hello", None, None),
        ("Latin", "hello", "fr", None),
        ("Latin", "hello", "zh", "en"),
        ("Han", "你好", None, "zh"),
        ("Han", "你好", "ja", None),
        ("Cyrillic", "привет", None, "ru"),
        ("Cyrillic", "привіт", None, "uk"),
        ("Cyrillic", "привет", "bg", None),
        ("Arabic", "كيف", None, "ar"),
        ("Arabic", "ٹھیک", None, "ur"),
        ("Arabic", "خوبی", None, "fa"),
        ("Devanagari", "नमस्ते", "mr", None),
        ("Other", "ᚠ", None, "und"),
    ],
)
def test_languages(script: str, text: str, given: str | None, language: str | None) -> None:
    assert language_of_script(script, text, given) == language


@pytest.mark.parametrize(
    ("left", "right", "parts"),
    [
        ("は", "東", True),
        ("た", "カ", True),
        ("東", "京", False),
        ("的", "人", True),
        ("人", "在", True),
        ("น", "ก", False),
        ("a", "b", False),
    ],
)
def test_where_scripts_without_spaces_may_be_parted(left: str, right: str, parts: bool) -> None:
    assert parts_phrases(left, right) is parts


def test_kanji_beside_kana_are_japanese() -> None:
    assert language_of({"Han": 9, "Kana": 1}, "日本語の", None) == "ja"


def test_no_letters_say_nothing() -> None:
    assert language_of({}, "42", None) is None


def test_a_joiner_counts_between_letters_that_it_shapes_only() -> None:
    assert joins("\u200c", "ی")
    assert not joins("\u200d", "a")
    assert not joins("x", "ی")
