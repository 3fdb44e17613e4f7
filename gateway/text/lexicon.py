"""Lexicon: how an operator or a session wants words to be said, and its application to a released segment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from engine.speech import Pronunciation, Segment, Span
from gateway.errors import ClientError, ErrorCode
from gateway.text.scripts import UNSPACED, script_of

MAX_ENTRIES: Final = 10_000
MAX_WORD_CHARS: Final = 100
MAX_SPOKEN_CHARS: Final = 200


def _refuse(message: str) -> ClientError:
    return ClientError(ErrorCode.BAD_VALUE, message)


def _shown(word: str) -> str:
    return repr(word if len(word) <= 40 else word[:39] + "…")


class Lexicon:
    """Words or phrases -> a respelling, or phonemes written "/fəˈniːmz/". Immutable.

    An entry with a capital in it matches that spelling only; one without matches any. The longest entry wins; it must
    stand alone, except in scripts without spaces between words.
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._entries = dict(entries)
        lengths: dict[str, set[int]] = {}
        for word in self._entries:
            lengths.setdefault(_folded(word[0]), set()).add(len(word))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        """First letter, folded -> the lengths of its words, longest first: so many look-ups a place, at most."""
        self._any_spelling = {_folded(word): word for word in self._entries if word.islower()}

    @classmethod
    def empty(cls) -> Lexicon:
        return cls({})

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, str]) -> Lexicon:
        """Raises ClientError BAD_VALUE with the value and the limit."""
        if len(mapping) > MAX_ENTRIES:
            raise _refuse(f"lexicon has {len(mapping):,} entries, at most {MAX_ENTRIES:,}")
        entries: dict[str, str] = {}
        for word, spoken in mapping.items():
            if not isinstance(word, str) or not isinstance(spoken, str):
                raise _refuse(f"lexicon entry {_shown(str(word))} is not text to text")
            key, value = " ".join(word.split()), " ".join(spoken.split())
            if not key or not any(char.isalnum() for char in key):
                raise _refuse(f"lexicon word {_shown(word)} has no letter or digit")
            if len(key) > MAX_WORD_CHARS:
                raise _refuse(f"lexicon word {_shown(key)} has {len(key)} characters, at most {MAX_WORD_CHARS}")
            if not value or value in ("/", "//") or (value[0] == "/" == value[-1] and not value[1:-1].strip()):
                raise _refuse(f"lexicon entry for {_shown(key)} is empty")
            if value[0] != "/" and any(char in "[]<>|" for char in value):
                raise _refuse(f"lexicon entry for {_shown(key)} has one of the marks [ ] < > |, which cannot be spoken")
            if len(value) > MAX_SPOKEN_CHARS:
                raise _refuse(
                    f"lexicon entry for {_shown(key)} has {len(value)} characters, at most {MAX_SPOKEN_CHARS}"
                )
            entries[key] = value
        return cls(entries)

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        """The server's own file: JSON, one object of word -> respelling or /phonemes/. Raises ClientError BAD_VALUE."""
        try:
            data = json.loads(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise _refuse(f"lexicon file {path} cannot be read: {error}") from error
        if not isinstance(data, dict):
            raise _refuse(f"lexicon file {path} holds a {type(data).__name__}, not an object of word to text")
        return cls.from_mapping(data)

    def merge(self, other: Lexicon) -> Lexicon:
        """Both; where both have a word, `other` has it."""
        return Lexicon({**self._entries, **other._entries}) if other._entries else self

    def __len__(self) -> int:
        return len(self._entries)

    def _match(self, text: str, folded: str, at: int) -> str | None:
        """The longest entry that stands at `at`; of two spellings of it, the one that is written so."""
        lengths = self._lengths.get(folded[at])
        if lengths is None or (at > 0 and _joins(text[at], text[at - 1])):
            return None
        for length in lengths:
            end = at + length
            if end > len(text):
                continue
            found = text[at:end]
            word = found if found in self._entries else self._any_spelling.get(folded[at:end])
            if word is not None and not (end < len(text) and _joins(text[end - 1], text[end])):
                return word
        return None

    def apply(self, segment: Segment) -> Segment:
        """The segment with its words respelt or given phonemes; sources and controls keep pointing at the input."""
        text = segment.text
        if not self._entries or not text:
            return segment
        folded = _folded(text)
        taken = [False] * len(text)
        for given in segment.pronunciations:
            taken[given.start : given.end] = [True] * (given.end - given.start)
        out: list[str] = []
        sources: list[Span] = []
        moved: list[int] = []
        added: list[Pronunciation] = []
        at = 0
        while at < len(text):
            word = None if taken[at] else self._match(text, folded, at)
            if word is None:
                moved.append(len(out))
                out.append(text[at])
                sources.append(segment.sources[at])
                at += 1
                continue
            end = at + len(word)
            spoken = self._entries[word]
            moved += [len(out)] * (end - at)
            if spoken[0] == "/" == spoken[-1] and len(spoken) > 2:
                added.append(Pronunciation(len(out), len(out) + end - at, spoken[1:-1].strip()))
                out += text[at:end]
                sources += segment.sources[at:end]
            else:
                span = Span(segment.sources[at].start, segment.sources[end - 1].end)
                out += spoken
                sources += [span] * len(spoken)
            at = end
        moved.append(len(out))
        kept = [
            Pronunciation(moved[given.start], moved[given.start] + given.end - given.start, given.phonemes)
            for given in segment.pronunciations
        ]
        return replace(
            segment,
            text="".join(out),
            sources=tuple(sources),
            controls=tuple(replace(control, at=moved[control.at]) for control in segment.controls),
            pronunciations=tuple(sorted(kept + added, key=lambda given: given.start)),
        )


def _folded(text: str) -> str:
    """Case folded, each code point in its place."""
    return "".join(low if len(low := char.casefold()) == 1 else char for char in text)


def _joins(inside: str, outside: str) -> bool:
    """The two are of one word: an entry does not begin or end between them."""
    if not (inside.isalnum() and outside.isalnum()):
        return False
    return script_of(inside) not in UNSPACED and script_of(outside) not in UNSPACED
