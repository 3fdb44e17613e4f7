"""Chunker: words and gaps in, segments out. Decides when what has been said may be spoken.

A segment ends where a sentence or clause ends and nothing that may still come can change that. The first of an
utterance takes the first such place; later ones grow. Where no such place comes, a number of words, a length or a wait
forces a cut at the best safe place. Time comes in with `now_s` only.
"""

from __future__ import annotations

from typing import Final

from engine.speech import Boundary, Segment, Span, TextUnit
from gateway.events import Segmentation
from gateway.text.cuts import Break, best_cut, is_apart, is_safe
from gateway.text.endings import BreakKind, Ending, ending_of, settle
from gateway.text.nesting import Nesting
from gateway.text.scripts import DENSE, DENSE_CHARS, OPENING_TO_CLOSING, UNSPACED, script_of
from gateway.text.segments import SpokenWord, segment_of
from gateway.text.settings import TextSettings
from gateway.text.sink import Gap, TextNotice
from gateway.text.vocabulary import Effect

# What ends a heading or list item that has no mark of its own, by the script of its last letter; elsewhere "."
_ADDED_MARKS: Final[dict[str, str]] = {
    "Han": "。",
    "Kana": "。",
    "Devanagari": "।",
    "Myanmar": "။",
    "Khmer": "។",
    "Thai": "",
    "Lao": "",
    "Tibetan": "",
}
_SPACED_MARKS: Final = frozenset("—–-+=<>&*/%@×÷±≤≥≠≈")
"""Marks that stand between words; all others belong to the word before."""
_MAX_CONTROLS: Final = 64
"""More in one segment than any text needs."""
_MAX_MARKS: Final = 8
"""Marks of their own in a row that a word takes in, before or behind; more are not kept."""
_SPACE_IS_CLAUSE: Final = frozenset({"Thai", "Lao", "Khmer", "Myanmar"})
_PHRASE_SPACE: Final = Ending("clause", "letter", "number")
_NEEDS_NO_MARK: Final = frozenset(".!?…,;:—–-")


class Chunker:
    """Takes words from the normaliser; `take` hands over the segments that are ready.

    With `segmentation` "manual" only the length limit makes one ready before `release_all` or `finish`: the owner keeps
    it until then. With `unit` "word" every word is one, with the space in front of it, as soon as white space has come
    behind it; where words are not parted by spaces, a clause is one, or what a wait or the length limit cuts off.
    """

    def __init__(
        self, settings: TextSettings, *, segmentation: Segmentation, language: str | None, unit: TextUnit = "clause"
    ) -> None:
        self._settings = settings
        self._is_manual = segmentation == "manual"
        self._is_by_word = unit == "word"
        self._goes_on = False
        """By the word: the last one went out before it was known to be the last. What comes is one text with it; an end
        without text says that nothing does."""
        self._language = language
        self.now_s = 0.0
        self._words: list[SpokenWord] = []
        self._controls: list[tuple[int, Effect, Span]] = []
        self._breaks: list[Break] = []
        self._size = 0
        self._gap: tuple[int, int] | None = None
        self._ending: Ending | None = None
        self._ending_since_s = 0.0
        self._sentence_since_s: float | None = None
        self._line: tuple[int, int] | None = None
        self._nesting = Nesting()
        self._start = 0
        self._end = 0
        self._count = 0
        self._tried = 0
        self._waiting_since_s = 0.0
        self._ready: list[Segment | TextNotice] = []

    # ---- what the normaliser says

    def begin(self, char: str) -> None:
        """A word begins; `char` is its first letter or digit."""
        if self._line is not None:
            self._begin_line(char)
            if self._is_by_word:
                self._release_words()
        ending = self._ending
        if ending is not None and ending.needs != "word":
            self._settle(char)

    def word(
        self,
        text: str,
        starts: list[int],
        ends: list[int],
        *,
        phonemes: str | None = None,
        written: str | None = None,
    ) -> None:
        """One word as it is to be spoken; `written` where its figures have been put in words."""
        written = written or text
        ending = self._ending
        if ending is not None:
            is_bare = phonemes is None and not any(char.isalnum() for char in text)
            if is_bare and self._gap is None and self._words and self._belongs_before(text):
                self._append(text, starts, ends, None, written)
                self._ending = ending_of(self._words[-1].written, self._language) or ending
                return
            self._settle(written.lstrip("\"'“‘«([{*_") or written)
        self._line = None
        self._append(text, starts, ends, phonemes, written)
        if self._words and not written[-1].isalpha():
            self._ending = ending_of(self._words[-1].written, self._language)
            self._ending_since_s = self.now_s
        if self._words:
            self._bound()

    def gap(self, kind: Gap, start: int, end: int) -> None:
        self._end = max(self._end, end)
        if kind in ("item", "paragraph"):
            self._close_line(start, end)
            if self._words:
                self._ending = None
                self._offer("sentence", is_paragraph=kind == "paragraph")
        elif self._ending is not None and self._ending.needs == "gap":
            self._settle(None)
        elif self._words and self._gap is None and self._ending is None:
            if kind == "line":
                self._line = (start, end)
            elif not self._words[-1].text.isascii() and script_of(self._words[-1].text[-1]) in _SPACE_IS_CLAUSE:
                self._ending = _PHRASE_SPACE
                self._ending_since_s = self.now_s
        if self._gap is None and (self._words or self._goes_on):
            self._gap = (start, end)
        if self._is_by_word and self._line is None:
            self._release_words()

    def control(self, effect: Effect, span: Span) -> None:
        """A state that another of its kind replaces before any word is forgotten."""
        self._end = max(self._end, span.end)
        count = len(self._words)
        if effect.state is not None:
            self._controls = [given for given in self._controls if given[0] < count or given[1].state != effect.state]
        self._controls.append((count, effect, span))
        if len(self._controls) > _MAX_CONTROLS:
            self._release(count, "forced", is_all=True)

    def notice(self, notice: TextNotice) -> None:
        self._ready.append(notice)

    def cover(self, end: int) -> None:
        """The input up to `end` has been read."""
        self._end = max(self._end, end)

    # ---- what the owner calls

    def take(self) -> list[Segment | TextNotice]:
        ready, self._ready = self._ready, []
        return ready

    @property
    def can_release(self) -> bool:
        """There is something that `release_all` would hand over."""
        return any(word.is_speakable for word in self._words) or any(
            effect.state is None for _, effect, _ in self._controls
        )

    def settle(self) -> None:
        """Nothing came behind the last mark for so long that nothing will."""
        if self._ending is not None:
            self._settle(None)

    @property
    def deadline_s(self) -> float | None:
        """When `on_time` has something to do."""
        if self._is_manual or not self._words:
            return None
        settings = self._settings
        deadlines: list[float] = []
        if self._ending is not None:
            deadlines.append(self._ending_since_s + self._ending_wait_s(self._ending))
        if self._sentence_since_s is not None:
            deadlines.append(self._sentence_since_s + settings.sentence_hold_s)
        if len(self._words) > self._tried:
            deadlines.append(self._waiting_since_s + (settings.max_wait_s if self._count else settings.first_wait_s))
        return min(deadlines, default=None)

    def _ending_wait_s(self, ending: Ending) -> float:
        return self._settings.number_wait_s if ending.reason == "number" else self._settings.terminator_wait_s

    def on_time(self, now_s: float) -> None:
        self.now_s = now_s
        if self._is_manual or not self._words:
            return
        settings = self._settings
        if self._ending is not None and now_s >= self._ending_since_s + self._ending_wait_s(self._ending):
            self._settle(None)
        if self._sentence_since_s is not None and now_s >= self._sentence_since_s + settings.sentence_hold_s:
            last = next(
                (place for place in reversed(self._breaks) if place.kind == "sentence" and not place.is_nested), None
            )
            self._sentence_since_s = None
            if last is not None:
                self._release(last.count, "sentence")
        wait_s = settings.max_wait_s if self._count else settings.first_wait_s
        if len(self._words) > self._tried and now_s >= self._waiting_since_s + wait_s:
            self._tried = len(self._words)
            self._force(len(self._words), minimum=2)

    def release_all(self, boundary: Boundary) -> None:
        """Everything that can be spoken, now. Lone controls stay for the text to come."""
        if self.can_release or (boundary == "end" and self._goes_on):
            self._release(len(self._words), boundary, is_all=True)
        self._ending = None

    def finish(self) -> None:
        """The text has ended: everything is covered by a segment."""
        if self._words or self._controls or self._end > self._start or self._goes_on:
            self._release(len(self._words), "end", is_all=True)

    # ---- places to cut

    def _append(self, text: str, starts: list[int], ends: list[int], phonemes: str | None, written: str) -> None:
        is_bare = phonemes is None and not any(char.isalnum() for char in text)
        self._end = max(self._end, ends[-1])
        if is_bare and self._belongs_before(text) and (self._words or not self._goes_on):
            if not self._words:
                return
            self._gap = None
            if self._can_attach():
                self._nesting.read(text)
                if self._words[-1].text[-1] != text:
                    self._attach(text, starts, ends)
                return
        elif is_bare and not self._words and text[0] in _SPACED_MARKS and not self._goes_on:
            return
        elif is_bare and self._words and self._can_attach() and not self._words[-1].is_speakable:
            self._nesting.read(text)
            self._gap = None
            self._attach(text, starts, ends)
            return
        size = len(text)
        if not text.isascii() and script_of(text[0]) in DENSE:
            size *= DENSE_CHARS
        if not self._words:
            self._waiting_since_s = self.now_s
        elif not self._words[-1].is_speakable and self._words[-1].text[-1] in OPENING_TO_CLOSING:
            self._gap = None  # « Oui »
        self._words.append(SpokenWord(text, starts, ends, size, written, self._gap, phonemes))
        self._size += size + (self._gap is not None)
        self._gap = None
        if not text.isalnum():
            self._nesting.read(text)
        if self._nesting:
            self._nesting.size += size + 1

    def _can_attach(self) -> bool:
        """No control has come behind the last word, and it is written in letters."""
        is_followed = bool(self._controls) and self._controls[-1][0] == len(self._words)
        return self._words[-1].phonemes is None and not is_followed

    def _attach(self, marks: str, starts: list[int], ends: list[int]) -> None:
        last = self._words[-1]
        if len(last.text) >= _MAX_MARKS and not any(char.isalnum() for char in last.text[-_MAX_MARKS:]):
            return
        last.text += marks
        last.written += marks
        last.starts += starts
        last.ends += ends

    def _belongs_before(self, marks: str) -> bool:
        """Marks without a word of their own belong to the word before, unless they open or stand between words."""
        if marks[0] in _SPACED_MARKS and self._gap is not None:
            return False
        return not any(self._nesting.opens(char) for char in marks)

    def _begin_line(self, char: str) -> None:
        """A new line that begins like a sentence: what was above is a verse or an item. Else it was wrapped text."""
        line, self._line = self._line, None
        if line is None or self._ending is not None or char.islower() or not self._words:
            return
        self._close_line(*line, mark=",")
        self._offer("clause")

    def _settle(self, next_text: str | None) -> None:
        ending, self._ending = self._ending, None
        assert ending is not None
        kind = settle(ending, next_text)
        if kind is not None:
            self._offer(kind)

    def _offer(self, kind: BreakKind, *, is_paragraph: bool = False) -> None:
        """A segment could end behind the last word."""
        settings = self._settings
        if is_paragraph:
            self._nesting.clear()
        is_nested = bool(self._nesting) and self._nesting.size <= settings.max_nested_chars
        count = len(self._words)
        if self._is_by_word:
            self._release_words("paragraph" if is_paragraph else kind)
            return
        if not self._breaks or self._breaks[-1].count != count:
            self._breaks.append(Break(count, kind, self._size, is_nested))
        if is_nested or self._is_manual:
            return
        if is_paragraph:
            wanted = 0.0
        elif self._count == 0:
            if (
                kind == "clause"
                and count < settings.first_clause_min_words
                and self._size < settings.first_clause_min_chars
            ):
                return
            wanted = 0.0
        elif kind == "sentence":
            wanted = self._wanted_size()
        else:
            wanted = settings.clause_min_chars
        if self._size >= wanted:
            self._release(count, "paragraph" if is_paragraph else kind)
        elif kind == "sentence" and self._sentence_since_s is None:
            self._sentence_since_s = self.now_s

    def _wanted_size(self) -> float:
        settings = self._settings
        grown = settings.second_min_chars * settings.growth ** min(self._count - 1, 32)
        return min(grown, settings.target_chars)

    def _bound(self) -> None:
        settings = self._settings
        if self._count == 0 and not self._is_manual:
            count, most = len(self._words) - 1, self._max_first_words()
            if count >= most and (count == most or is_safe(self._words, count, has_gap=self._gap is not None)):
                self._force(count, minimum=2)
        while self._size > settings.max_chars and len(self._words) > 1:
            before = len(self._words)
            self._force(before - 1, minimum=1, is_required=True)
            if len(self._words) == before:
                break

    def _max_first_words(self) -> int:
        """A "word" of a script without spaces is a character, which is about a third of one."""
        words = self._settings.first_max_words
        return words * 3 if script_of(self._words[0].text[0]) in UNSPACED else words

    def _force(self, limit: int, *, minimum: int, is_required: bool = False) -> None:
        """Cuts behind at most `limit` words, at least `minimum` and one that can be spoken, at the best place there is;
        at any if it must."""
        first = next((count for count, word in enumerate(self._words, 1) if word.is_speakable), limit + 1)
        minimum = max(minimum, first)
        if minimum > limit:
            return
        has_gap = self._gap is not None
        count = best_cut(self._words, self._breaks, self._size, limit, minimum, has_gap=has_gap)
        if count is None and is_required:
            apart = (count for count in range(limit, minimum, -1) if is_apart(self._words, count, has_gap=has_gap))
            count = next(apart, limit)
        if count is not None:
            place = next((place for place in self._breaks if place.count == count), None)
            self._release(count, place.kind if place is not None else "forced")

    # ---- letting go

    def _close_line(self, start: int, end: int, *, mark: str | None = None) -> None:
        """A heading or list item has no full stop of its own: it gets one, so that it does not run into the next."""
        if not self._words:
            return
        word = self._words[-1]
        last = word.text[-1]
        if not self._can_attach() or not (last.isalnum() or last in "\"')”’"):
            return
        script = script_of(last) or ""
        if mark is None or script in _ADDED_MARKS:
            mark = _ADDED_MARKS.get(script, ".")
        if mark and not any(char in _NEEDS_NO_MARK for char in word.text[-2:]):
            self._attach(mark, [start], [end])
            self._gap = (start, end)

    def _release_words(self, boundary: Boundary = "forced") -> None:
        """By the word: those that are whole. Marks alone wait for the word that they stand before."""
        if any(word.is_speakable for word in self._words):
            gap, self._ending = self._gap, None
            self._release(len(self._words), boundary)
            self._gap = gap

    def _release(self, count: int, boundary: Boundary, *, is_all: bool = False) -> None:
        words, self._words = self._words[:count], self._words[count:]
        controls = [entry for entry in self._controls if entry[0] < count or is_all]
        self._controls = [(index - count, effect, span) for index, effect, span in self._controls[len(controls) :]]
        end = self._end
        if self._is_by_word and words and not is_all:
            end = words[-1].ends[-1]  # the space behind it goes with the next
        elif self._words:
            end = self._words[0].starts[0]
        if self._controls:
            end = min(end, self._controls[0][2].start)
        span = Span(self._start, max(end, self._start))
        self._ready.append(segment_of(words, controls, span, boundary, self._goes_on))
        self._start = max(end, self._start)
        self._goes_on = self._is_by_word and boundary != "end"
        released_size = sum(word.size + (word.gap is not None) for word in words)
        self._size -= released_size
        self._breaks = [
            Break(place.count - count, place.kind, place.size - released_size, place.is_nested)
            for place in self._breaks
            if place.count > count
        ]
        if not self._words:
            self._gap = None
            if is_all:
                self._nesting.clear()
        if not any(place.kind == "sentence" for place in self._breaks):
            self._sentence_since_s = None
        self._tried = 0
        self._waiting_since_s = self.now_s
        if any(word.is_speakable for word in words):
            self._count += 1
