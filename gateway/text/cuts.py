"""Where words that wait may be parted: behind a sentence or clause, in front of a phrase, else between two words that
do not belong together. `has_gap`: white space has come behind the last of them."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.text.endings import BreakKind, is_phrase_start, may_cut_between
from gateway.text.scripts import parts_phrases
from gateway.text.segments import SpokenWord


@dataclass(frozen=True, slots=True)
class Break:
    """A place where a sentence or a clause has ended."""

    count: int
    """It lies behind this many of the waiting words."""
    kind: BreakKind
    size: int
    """Length in speech of the words before it, in Latin letters."""
    is_nested: bool
    """Inside of quotes or brackets that are still open."""


def best_cut(
    words: list[SpokenWord], breaks: list[Break], size: int, limit: int, minimum: int, *, has_gap: bool
) -> int | None:
    """Behind a sentence, else a clause, else in front of a phrase, else between two words that can be parted."""
    allowed = [place for place in breaks if minimum <= place.count <= limit]
    for kind in ("sentence", "clause"):
        found = [place for place in allowed if place.kind == kind and place.size * 3 >= size]
        if found:
            return found[-1].count
    safe = [count for count in range(minimum, limit + 1) if is_safe(words, count, has_gap=has_gap)]
    if not safe:
        return allowed[-1].count if allowed else None
    for count in reversed(safe):
        if count * 2 >= limit and count < len(words) and is_phrase_start(words[count].written):
            return count
    return safe[-1]


def is_safe(words: list[SpokenWord], count: int, *, has_gap: bool) -> bool:
    """Nothing that belongs together is parted behind `count` words."""
    left = words[count - 1].written
    if count == len(words):
        return has_gap and may_cut_between(left, "")
    right = words[count]
    if right.gap is None:
        return parts_phrases(left[-1], right.written[0])
    return may_cut_between(left, right.written)


def is_apart(words: list[SpokenWord], count: int, *, has_gap: bool) -> bool:
    """At least no word or number is cut in two."""
    if count == len(words):
        return has_gap
    left, right = words[count - 1].written[-1], words[count]
    return right.gap is not None and not (left.isdigit() and right.written[0].isdigit())
