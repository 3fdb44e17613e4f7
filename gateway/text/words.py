"""WordNormalizer: characters in, words to be spoken out, each code point with its place in the input."""

from __future__ import annotations

from engine.speech import Span
from gateway.text.chunker import Chunker
from gateway.text.scripts import KINDS, THAI_LEADING_VOWELS, joins
from gateway.text.settings import TextSettings
from gateway.text.sink import Gap, TextNotice
from gateway.text.vocabulary import Effect


class WordNormalizer:
    """Collects characters into words and says them as they are to be spoken. A `TextSink` for the tag scanner."""

    def __init__(self, settings: TextSettings, chunker: Chunker) -> None:
        self._settings = settings
        self._chunker = chunker
        self._chars: list[str] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._is_unspaced = False
        self._has_begun = False
        self._notices: list[TextNotice] = []

    def character(self, char: str, start: int, end: int) -> None:
        kind = KINDS[char]
        if kind == "word" and char not in "[]":
            if self._is_unspaced:
                self.finish_word()
        elif kind == "space" or char in "[]":
            self.finish_word()
            self._chunker.gap("space", start, end)
            return
        elif kind == "unspaced":
            if self._chars and not (self._is_unspaced and self._chars[-1] in THAI_LEADING_VOWELS):
                self.finish_word()
            self._is_unspaced = True
        elif kind == "drop" or not self._chars or (char in "\u200c\u200d" and not joins(char, self._chars[-1])):
            return
        self._chars.append(char)
        self._starts.append(start)
        self._ends.append(end)
        if not self._has_begun and char.isalnum():
            self._has_begun = True
            self._chunker.begin(char)

    def gap(self, kind: Gap, start: int, end: int) -> None:
        self.finish_word()
        self._chunker.gap(kind, start, end)

    def control(self, effect: Effect, span: Span) -> None:
        self.finish_word()
        self._chunker.control(effect, span)

    def whole(self, text: str, span: Span, phonemes: str | None) -> None:
        self.finish_word()
        self._chunker.word(text, [span.start] * len(text), [span.end] * len(text), phonemes)

    def notice(self, notice: TextNotice) -> None:
        self._notices.append(notice)

    def take_notices(self) -> list[TextNotice]:
        notices, self._notices = self._notices, []
        return notices

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
        self._is_unspaced = self._has_begun = False
        self._chunker.word(text, starts, ends)
