"""Hostile inputs and their right readings, each whole, cut at every place, and one character at a time."""

from __future__ import annotations

import tomllib
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.text.driving import check_spans, reading_of, release

CORPUS = Path(__file__).parent / "corpus"
MAX_TWICE_CUT_CHARS = 16
"""Texts up to here are cut at every two places as well; the number of pairs grows with the square."""
MIN_CASES = 300
"""What the corpus was asked to hold at least."""


def _cases() -> list[Any]:
    found = []
    for path in sorted(CORPUS.glob("*.toml")):
        data = tomllib.loads(path.read_text("utf-8"))
        for number, case in enumerate(data["case"]):
            found.append(pytest.param(case, data.get("options", {}), id=f"{path.stem}-{number}"))
    return found


CASES = _cases()


def test_the_corpus_is_large() -> None:
    assert len(CASES) >= MIN_CASES


@pytest.mark.parametrize(("case", "options"), CASES)
def test_a_hostile_text_is_read_right(case: dict[str, Any], options: dict[str, Any]) -> None:
    reading = reading_of(release([case["text"]], **options))
    assert reading.segments == case["segments"]
    assert reading.controls == case.get("controls", [])
    assert reading.pronunciations == case.get("pronunciations", [])
    assert reading.notices == case.get("notices", [])
    assert reading.languages == case.get("languages", [""] * len(reading.segments))


@pytest.mark.parametrize(("case", "options"), CASES)
def test_no_cut_changes_a_hostile_text(case: dict[str, Any], options: dict[str, Any]) -> None:
    text = case["text"]
    whole = release([text], **options)
    check_spans(whole, text)
    assert release(list(text), **options) == whole
    for cut in range(len(text) + 1):
        assert release([text[:cut], text[cut:]], **options) == whole
    if len(text) <= MAX_TWICE_CUT_CHARS:
        for first, second in combinations(range(1, len(text)), 2):
            assert release([text[:first], text[first:second], text[second:]], **options) == whole


@pytest.mark.parametrize(("case", "options"), CASES)
def test_by_the_word_a_hostile_text_is_read_the_same(case: dict[str, Any], options: dict[str, Any]) -> None:
    """Segments are others; what is spoken of the text, and the tags in it, are not. (A mark that is added at the end of
    a line may be missing where the line's last word had gone.)"""
    released = release([case["text"]], **options, unit="word")
    check_spans(released, case["text"])
    assert release(list(case["text"]), **options, unit="word") == released
    reading = reading_of(released)
    assert _letters(reading.segments) == _letters(case["segments"])
    assert [control.split("@")[0] for control in reading.controls] == [
        control.split("@")[0] for control in case.get("controls", [])
    ]


def _letters(segments: list[str]) -> str:
    return "".join(char for segment in segments for char in segment if char.isalnum())
