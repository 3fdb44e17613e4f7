"""WordNormalizer: characters in, words to be spoken out, each code point with its place in the input."""

from __future__ import annotations

import unicodedata
from typing import Final

from engine.speech import Span
from gateway.text.chunker import Chunker
from gateway.text.normalize import Reading, is_plain, read_word
from gateway.text.scripts import KINDS, THAI_LEADING_VOWELS, joins
from gateway.text.sink import Gap, TextNotice
from gateway.text.vocabulary import Effect

_BRACKETS: Final = frozenset("[]［］")
"""Never spoken, and never handed on: to a model they may mean something (an inline pronunciation)."""
_UNSPOKEN: Final = dict.fromkeys(map(ord, "[]［］<>|"))

MAX_RAW_CHARS: Final = 2048
"""What has no space in it for so long is looked at in pieces; a URL is shorter."""
MAX_MARKS: Final = 16
"""Combining marks on one letter; more are scribble."""
MAX_WORD_CHARS: Final = 100
"""A longer word (a hash, a run of letters) is handed on in pieces."""


class WordNormalizer:
    """Collects characters into words and says them as they are to be spoken. A `TextSink` for the tag scanner."""

    def __init__(self, chunker: Chunker, *, language: str | None, has_text_normalizer: bool) -> None:
        self._chunker = chunker
        self._is_english = language in (None, "en")
        self._has_text_normalizer = has_text_normalizer
        self._before = ""
        self._chars: list[str] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._is_unspaced = False
        self._has_begun = False
        self._marks = 0

    def character(self, char: str, start: int, end: int) -> None:
        kind = KINDS[char]
        if kind == "word" and char not in _BRACKETS:
            if self._is_unspaced:
                self.finish_word()
            elif char == "—" and self._has_begun:
                self._add(char, start, end)
                self.finish_word()
                return
        elif kind == "space" or char in _BRACKETS:
            if char in "[［" and self._chars and not self._has_begun:
                return
            self.finish_word()
            self._chunker.gap("space", start, end)
            return
        elif kind == "unspaced":
            if self._chars[-1:] == ["("] and self._chars[-2:-1] == ["_"]:
                return  # the face of ¯\_(ツ)_/¯
            if self._chars and not (self._is_unspaced and self._chars[-1] in THAI_LEADING_VOWELS):
                self.finish_word()
            self._is_unspaced = True
        elif (
            kind == "drop"
            or not self._chars
            or self._marks >= MAX_MARKS
            or (char in "\u200c\u200d" and not joins(char, self._chars[-1]))
        ):
            return
        if len(self._chars) >= MAX_RAW_CHARS and kind != "mark":
            is_unspaced = self._is_unspaced
            self.finish_word()
            self._is_unspaced = is_unspaced
        self._marks = self._marks + 1 if kind == "mark" else 0
        self._add(char, start, end)
        if not self._has_begun and char.isalnum():
            self._has_begun = True
            self._chunker.begin(char)

    def _add(self, char: str, start: int, end: int) -> None:
        self._chars.append(char)
        self._starts.append(start)
        self._ends.append(end)

    def gap(self, kind: Gap, start: int, end: int) -> None:
        self.finish_word()
        self._chunker.gap(kind, start, end)

    def control(self, effect: Effect, span: Span) -> None:
        self.finish_word()
        self._chunker.control(effect, span)

    def whole(self, text: str, span: Span, phonemes: str | None) -> None:
        self.finish_word()
        text = text.translate(_UNSPOKEN).strip()
        if text:
            self._before = text[-1]
            self._chunker.word(text, [span.start] * len(text), [span.end] * len(text), phonemes=phonemes)

    def notice(self, notice: TextNotice) -> None:
        self._chunker.notice(notice)

    @property
    def ends_in_number(self) -> bool:
        """The word so far is a number and a mark that may go on as a number."""
        return len(self._chars) > 1 and self._chars[-1] in ".,:" and self._chars[-2].isdigit()

    @property
    def is_empty(self) -> bool:
        return not self._chars

    @property
    def last_char(self) -> str:
        return self._chars[-1] if self._chars else ""

    def finish_word(self) -> None:
        """The word is whole: what follows is not part of it."""
        if not self._chars:
            return
        text, starts, ends = "".join(self._chars), self._starts, self._ends
        self._chars, self._starts, self._ends = [], [], []
        written: str | None = None
        is_unspaced, self._is_unspaced, self._has_begun = self._is_unspaced, False, False
        if is_unspaced and "\uff66" <= text[0] <= "\uff9d":
            plain = unicodedata.normalize("NFKC", text)
            text, starts, ends = plain, [starts[0]] * len(plain), [ends[-1]] * len(plain)
        elif not is_unspaced and not is_plain(text, has_text_normalizer=self._has_text_normalizer):
            if not self._has_text_normalizer and any(char.isdigit() for char in text):
                written = text.strip("*_~`")
            reading = Reading(text, starts, ends)
            read_word(
                reading,
                before=self._before,
                is_english=self._is_english,
                has_text_normalizer=self._has_text_normalizer,
            )
            text, starts, ends = reading.text, reading.starts, reading.ends
            if not text:
                return
            if len(text) > MAX_WORD_CHARS:
                self._in_parts(text, starts, ends)
                return
        self._before = text[-1]
        self._chunker.word(text, starts, ends, written=written)

    def _in_parts(self, text: str, starts: list[int], ends: list[int]) -> None:
        """Longer than a segment may be: cut between graphemes, at a space of its reading where there is one."""
        at = 0
        while at < len(text):
            end = min(at + MAX_WORD_CHARS, len(text))
            if end < len(text):
                space = text.rfind(" ", at + MAX_WORD_CHARS // 2, end)
                end = space + 1 if space > 0 else end
                while end > at + 1 and KINDS[text[end]] == "mark":
                    end -= 1
            self._chunker.word(text[at:end], starts[at:end], ends[at:end])
            at = end
        self._before = text[-1]
