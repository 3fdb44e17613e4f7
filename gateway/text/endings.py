"""Does a segment possibly end behind this word, and what must be known to say so? Pure functions on words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from gateway.text.abbreviations import (
    BEFORE_NAME,
    CALENDAR,
    COORDINATORS,
    EITHER,
    NEEDS_A_NOUN,
    NEVER_LAST,
    ORDINAL_DOT_LANGUAGES,
    PHRASE_STARTERS,
    SENTENCE_STARTERS,
    VOWELLESS_WORDS,
    WORD_DECIDES,
)
from gateway.text.scripts import CLAUSE_MARKS, CLOSERS, ELLIPSES, SENTENCE_MARKS, script_of

BreakKind = Literal["clause", "sentence"]
Needs = Literal["gap", "letter", "word"]
"""What settles it: white space behind; the first letter or digit of the next word; the whole next word."""

_LOOK_CHARS: Final = 64
"""How far back a word's end is looked at; no abbreviation is longer."""
_CLOSERS: Final = "".join(CLOSERS)
_OPENERS: Final = "\"'“‘«‹([{（【「『*_~"
_VOWELS: Final = frozenset("aeiouyáàâäãåæéèêëíìîïóòôöõøœúùûüýÿ")


@dataclass(frozen=True, slots=True)
class Ending:
    kind: BreakKind
    needs: Needs
    reason: Literal["mark", "closer", "ellipsis", "abbreviation", "initial", "number"] = "mark"


_SENTENCE: Final = Ending("sentence", "gap")
_CLAUSE: Final = Ending("clause", "gap")
_CLOSED_SENTENCE: Final = Ending("sentence", "letter", "closer")
_NUMBER_COMMA: Final = Ending("clause", "letter", "number")
_ORDINAL: Final = Ending("sentence", "letter", "number")  # "am 5. Mai": with a word behind it, never an end
_ELLIPSIS: Final = Ending("clause", "letter", "ellipsis")
_ABBREVIATION: Final = Ending("sentence", "letter", "abbreviation")
_NAME_ABBREVIATION: Final = Ending("sentence", "word", "abbreviation")
_INITIAL: Final = Ending("sentence", "word", "initial")


def ending_of(word: str, language: str | None) -> Ending | None:
    """None where no segment ends behind `word` (unless it is forced)."""
    if word[-1].isalnum():
        return None
    word = word[-_LOOK_CHARS:]
    core = word.rstrip(_CLOSERS)
    if not core:
        return None
    is_closed = len(core) < len(word)
    mark = core[-1]
    if mark in SENTENCE_MARKS:
        return _CLOSED_SENTENCE if is_closed and mark in "!?" else _SENTENCE
    if mark in ELLIPSES or core.endswith(".."):
        return _ELLIPSIS
    if mark == ".":
        ending = _full_stop(core[:-1].lstrip(_OPENERS), language)
        return _CLOSED_SENTENCE if is_closed and ending is _SENTENCE else ending
    if mark in CLAUSE_MARKS:
        if mark == ";" and (language == "el" or script_of(core[-2:-1] or " ") == "Greek"):
            return _SENTENCE
        body = core[:-1].lstrip(_OPENERS)
        if mark == "," and (body[-1:].isdigit() or body.lower().rstrip(".") in CALENDAR):
            return _NUMBER_COMMA
        return _CLAUSE
    return None


def _full_stop(body: str, language: str | None) -> Ending | None:
    if not body:
        return None
    if body[-1].isdigit():
        is_ordinal = language in ORDINAL_DOT_LANGUAGES and body.isdecimal() and len(body) <= 2
        return _ORDINAL if is_ordinal else _SENTENCE
    lower = body.lower()
    if lower in BEFORE_NAME:
        return None
    if lower in WORD_DECIDES:  # "Gen. Lee", "art. Then"
        return _NAME_ABBREVIATION if body[0].isupper() or "." in body else _ABBREVIATION
    if lower in EITHER:
        return _ABBREVIATION
    if len(body) == 1 and body.isalpha():
        return _INITIAL if body.isupper() else _ABBREVIATION
    if "." in body and all(len(part) <= 2 for part in body.split(".")):
        return _NAME_ABBREVIATION
    is_short_word = len(body) <= 4 and body.isascii() and body.isalpha() and not body.isupper()
    if is_short_word and not _VOWELS & set(lower) and lower not in VOWELLESS_WORDS:
        return _NAME_ABBREVIATION
    return _SENTENCE


def settle(ending: Ending, next_text: str | None) -> BreakKind | None:
    """The break behind the word, once `next_text` is known: the next word, or its first letter or digit, from there on.

    None for `next_text`: nothing came for so long that it is taken for the end.
    """
    if ending.needs == "gap" or next_text is None:
        return ending.kind
    first = next_text[0]
    if ending.reason == "number":
        if first.isdigit():
            return None
        return None if ending.kind == "sentence" else ending.kind
    if ending.reason == "ellipsis":
        return "clause" if first.islower() else "sentence"
    if first.islower():
        return "clause" if ending.reason == "closer" else None
    if ending.reason == "closer":
        return ending.kind
    if first.isdigit():
        return None
    if ending.needs == "word":
        starter = next_text.strip("\"'“”‘’«»()[]*_,.!?;:…—").lower().replace("’", "'")
        return ending.kind if starter in SENTENCE_STARTERS else None
    return ending.kind


def _bare(word: str) -> str:
    return word.strip("\"'“”‘’«»()[]{}*_,.!?;:…—").lower()


def may_cut_between(left: str, right: str) -> bool:
    """May a forced cut come here? Not where the two words may be one number, date, amount, name or abbreviation."""
    if any(char.isdigit() for char in left[-8:]) or any(char.isdigit() for char in right[:8]):
        return False
    if left[-1:].isalpha() and left[:1].isupper() and right[:1].isupper():
        return False  # a name
    bare = _bare(left)
    is_before_clause = _bare(right) in COORDINATORS and bare not in NEEDS_A_NOUN
    if (bare in NEVER_LAST and not is_before_clause) or bare in CALENDAR:
        return False
    return not (left.endswith(".") and ending_of(left, None) is not _SENTENCE)


def is_phrase_start(word: str) -> bool:
    return _bare(word) in PHRASE_STARTERS
