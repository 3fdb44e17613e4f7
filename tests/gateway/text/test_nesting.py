from __future__ import annotations

import pytest

from gateway.text.nesting import Nesting


def after(*texts: str) -> Nesting:
    nesting = Nesting()
    for text in texts:
        nesting.read(text)
    return nesting


@pytest.mark.parametrize("text", ["(one", "“one", "«", '"one'])
def test_what_opens_is_open(text: str) -> None:
    assert after(text)


@pytest.mark.parametrize(
    "texts", [("(one", "two)"), ("“one", "two”"), ('"one', 'two"'), ("((one))",), ("one)",), ("it's",)]
)
def test_what_is_closed_or_never_was_opened_is_not(texts: tuple[str, ...]) -> None:
    assert not after(*texts)


def test_a_straight_quote_opens_only_in_front_of_a_word() -> None:
    assert not after('one"')
    assert after('"')


def test_a_mark_opens_unless_it_closes_what_is_open() -> None:
    assert after().opens("(")
    assert after().opens('"')
    assert not after('"one').opens('"')
    assert not after("(one").opens(")")
    assert not after().opens(",")


def test_the_size_of_what_is_inside_starts_again_when_all_is_closed() -> None:
    nesting = after("(one")
    nesting.size = 10
    nesting.read("two)")
    assert nesting.size == 0
    nesting.read("(three")
    nesting.size = 5
    nesting.clear()
    assert (bool(nesting), nesting.size) == (False, 0)


def test_how_much_can_be_open_is_bounded() -> None:
    assert not after("(" * 1000, ")" * 16)
