"""Twice the text takes twice the work, whatever repeats in it.

Work is counted in calls of Python functions, generators' steps included: the same on every machine and at any load.
What a call does inside, comprehensions and slices, is bounded by what the stages hold, which is looked at too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from gateway.text.front_end import TextFrontEnd
from tests.gateway.text.driving import front_end

SIZE = 5000
MOST_RATIO = 2.5
MOST_CALLS_PER_CHARACTER = 400
MOST_FLUSH_CALLS = 20_000
"""For one last segment and one word of the longest that is looked at whole."""
MOST_HELD = 4200
"""Of one stage, in entries: a comment or a fence."""

OPENERS = [f"{opener}{letter}" for opener in "([{<“„«‹「『【《〈〔（［\"'‘*_`~|" for letter in ("", "a")]
CLOSERS = [f"a{closer}" for closer in ")]}>”»›」』】》〉〕）］'\"’*_"]
MARKS = [
    *(*"*_`~#|\\-=!?.,:;…—。、！।؟", "\u0301", "a\u0301", "\u093e", "\u200d", "😀", "\x1b[", "\t", "\n", "a\n", '\n”"'),
    *('\n"”', '"”', "”“", "“”", "»«a", ")(", "(a)", "'\"", "a.", "1,", "1.", "12/", "$1", "1-", "A.", "é", "①", "ｱ1"),
    *("<a ", "<!--", "<!-->", "<![CDATA[>", "<|a", "<|a|>", "<br>", "<sub alias=x>", "<spell>a", "</a>", "&a", "&amp;"),
    *("[a](", "[sad]a ", "<|sfx:cough|>", "“<break/>", "— <break/>a", "a - ", "a\n\n", "- a\n", "|a", "```\n", "\\n」"),
    *("« ", "a@", "a/", "https://a.b/", "word ", "Dr. A. ", "好", "ก", "한", "a, ", '"a. '),
]


class Work:
    calls = 0

    def count(self, frame: FrameType, event: str, argument: object) -> None:
        self.calls += event == "call"


@contextmanager
def counted() -> Iterator[Work]:
    work, before = Work(), sys.getprofile()
    sys.setprofile(work.count)
    try:
        yield work
    finally:
        sys.setprofile(before)


def work_of(pieces: Iterable[str], options: dict[str, Any]) -> tuple[int, TextFrontEnd]:
    end = front_end(**options)
    with counted() as work:
        for piece in pieces:
            end.feed(piece, 0.0)
    return work.calls, end


def held_by(end: TextFrontEnd) -> int:
    """The longest list that a stage keeps, of what is not yet released."""
    most = 0
    for stage in (end._lines, end._tags, end._words, end._chunker):
        most = max(most, *(len(value) for value in vars(stage).values() if isinstance(value, list)))
    return max([most, *(len(word.text) for word in end._chunker._words)])


@pytest.mark.parametrize("pattern", [*OPENERS, *CLOSERS, *MARKS], ids=ascii)
def test_work_grows_with_the_text_and_what_is_held_does_not(pattern: str) -> None:
    text = pattern * (SIZE // len(pattern))
    once, _ = work_of([text], {})
    twice, end = work_of([text * 2], {})
    assert twice <= MOST_RATIO * once + 1000
    assert twice <= MOST_CALLS_PER_CHARACTER * len(text) * 2
    assert held_by(end) <= MOST_HELD


@pytest.mark.parametrize("pattern", ["(a", "a“", '\n"”', "[sad]a ", "a. ", "word ", "\\n」", "1,", "好"], ids=ascii)
def test_manual_text_is_made_ready_as_it_comes_so_that_a_flush_is_no_work(pattern: str) -> None:
    options = {"segmentation": "manual", "has_text_normalizer": False}
    text = pattern * (SIZE // len(pattern))
    once, _ = work_of([text], options)
    twice, end = work_of([text * 2], options)
    assert twice <= MOST_RATIO * once + 1000
    with counted() as flushing:
        end.flush(0.0)
    assert flushing.calls <= MOST_FLUSH_CALLS


@pytest.mark.parametrize("pattern", ["(a", '\n"”', "a ", "\\n」", "<a ", "好"], ids=ascii)
def test_one_character_per_message_takes_as_much_work_each_however_many_came_before(pattern: str) -> None:
    text = pattern * (SIZE // len(pattern))
    once, _ = work_of(text, {})
    twice, _ = work_of(text * 2, {})
    assert twice <= MOST_RATIO * once + 1000
