from __future__ import annotations

import pytest

from gateway.text.cuts import Break, best_cut, is_apart, is_safe
from gateway.text.endings import BreakKind
from gateway.text.segments import SpokenWord


def words_of(text: str) -> list[SpokenWord]:
    """Words parted by spaces; a "+" stands between two that no space parts."""
    words: list[SpokenWord] = []
    for spaced in text.split(" "):
        for place, part in enumerate(spaced.split("+")):
            gap = (0, 1) if words and place == 0 else None
            words.append(SpokenWord(part, [0] * len(part), [0] * len(part), len(part), part, gap))
    return words


def cut(text: str, *breaks: Break, minimum: int = 2, has_gap: bool = True) -> int | None:
    words = words_of(text)
    size = sum(word.size + 1 for word in words)
    return best_cut(words, list(breaks), size, len(words), minimum, has_gap=has_gap)


def behind(count: int, kind: BreakKind, size: int = 100) -> Break:
    return Break(count, kind, size, is_nested=False)


TEXT = "one two three four five six seven"


def test_a_sentence_is_better_than_a_clause_and_the_later_one_than_the_earlier() -> None:
    assert cut(TEXT, behind(2, "sentence"), behind(3, "sentence"), behind(5, "clause")) == 3
    assert cut(TEXT, behind(3, "clause"), behind(5, "clause")) == 5


def test_a_place_that_leaves_almost_all_of_it_is_only_taken_for_want_of_any_other() -> None:
    assert cut(TEXT, behind(2, "sentence", size=1)) == 7
    assert cut("the+a the+a the+a", behind(2, "sentence", size=1), has_gap=False) == 2


def test_a_place_in_front_of_a_phrase_in_the_second_half_is_better_than_the_last() -> None:
    assert cut("dogs bark at night and cats sleep") == 4
    assert cut("dogs and cats sleep whole days long") == 7


def test_nothing_is_cut_below_the_minimum() -> None:
    assert cut("one two", minimum=3) is None


@pytest.mark.parametrize(
    ("text", "count", "is_free"),
    [
        ("dogs bark", 1, True),
        ("Mrs. Smith", 1, False),
        ("5 dollars", 1, False),
        ("3+4", 1, False),
        ("dogs bark", 2, True),
    ],
)
def test_what_belongs_together_is_not_parted(text: str, count: int, is_free: bool) -> None:
    assert is_safe(words_of(text), count, has_gap=True) is is_free


def test_behind_the_last_word_only_white_space_makes_it_certain() -> None:
    assert not is_safe(words_of("we met"), 2, has_gap=False)
    assert not is_apart(words_of("we met"), 2, has_gap=False)
    assert is_apart(words_of("we met"), 2, has_gap=True)


@pytest.mark.parametrize(("text", "is_free"), [("the cat", True), ("10 000", False), ("a+b", False)])
def test_where_it_must_be_cut_at_least_words_and_numbers_stay_whole(text: str, is_free: bool) -> None:
    assert is_apart(words_of(text), 1, has_gap=True) is is_free
