from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.numbers import cardinal, digits, ordinal, say_figure, say_numbers, whole, year


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (20, "twenty"),
        (21, "twenty-one"),
        (100, "one hundred"),
        (999, "nine hundred ninety-nine"),
        (1000, "one thousand"),
        (1_000_001, "one million one"),
        (10**14 + 5, "one hundred trillion five"),
    ],
)  # fmt: skip
def test_cardinals(number: int, words: str) -> None:
    assert cardinal(number) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "first"),
        (2, "second"),
        (12, "twelfth"),
        (20, "twentieth"),
        (21, "twenty-first"),
        (100, "one hundredth"),
        (105, "one hundred fifth"),
    ],
)
def test_ordinals(number: int, words: str) -> None:
    assert ordinal(number) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1905, "nineteen oh five"),
        (1900, "nineteen hundred"),
        (1999, "nineteen ninety-nine"),
        (2000, "two thousand"),
        (2009, "two thousand nine"),
        (2026, "twenty twenty-six"),
    ],
)
def test_years(number: int, words: str) -> None:
    assert year(number) == words


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        ("$0.05", "five cents"),
        ("$1", "one dollar"),
        ("$2.00", "two dollars"),
        ("£2.01", "two pounds and one penny"),
        ("$3.4", "three point four dollars"),
        ("$12k", "twelve thousand dollars"),
        ("17:00", "seventeen hundred"),
        ("0:30", "zero thirty"),
        ("1/2", "one half"),
        ("3/4", "three quarters"),
        ("24/7", "twenty-four seven"),
        ("2024-02-29", "February twenty-ninth, twenty twenty-four"),
        ("1980s", "nineteen eighties"),
        ("2000s", "two thousands"),
        ("10.0.0.1", "ten point zero point zero point one"),
    ],
)
def test_figures(figure: str, words: str) -> None:
    assert say_figure(figure) == words


def test_a_leading_nought_or_too_many_digits_are_said_one_by_one() -> None:
    assert whole("007") == "zero zero seven"
    assert whole("1" * 16) == digits("1" * 16)


@given(st.text("0123456789.,:/-$€%+stndrhkMv' ", max_size=24))
def test_whatever_is_written_is_said_without_figures(text: str) -> None:
    said = say_numbers(text)
    at = 0
    for start, end, words in said:
        assert at <= start < end
        assert not any(char.isdigit() for char in words)
        at = end
    left = text
    for start, end, words in reversed(said):
        left = left[:start] + words + left[end:]
    assert not any(char.isdigit() for char in left)
