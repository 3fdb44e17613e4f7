"""TextFrontEnd: an utterance's text as it comes, out of it segments ready for synthesis.

LineScanner → TagScanner → WordNormalizer → Chunker → Lexicon, one code point at a time, so that no cut of the input can
change anything; every wait is a matter of `now_s`.
"""

from __future__ import annotations

from dataclasses import replace

from engine.speech import Segment, Span, TextUnit
from gateway.events import Segmentation
from gateway.text.chunker import Chunker
from gateway.text.lexicon import Lexicon
from gateway.text.markdown import LineScanner
from gateway.text.scripts import language_of, language_of_script, script_of
from gateway.text.settings import TextSettings
from gateway.text.sink import TextNotice
from gateway.text.tags import TagScanner
from gateway.text.words import WordNormalizer

__all__ = ["Lexicon", "Released", "TextFrontEnd", "TextNotice", "TextSettings"]

Released = Segment | TextNotice


class TextFrontEnd:
    """One per utterance. It takes Unicode scalar values (see `scalars.py`); half a surrogate pair is not spoken.
    `now_s` must not go backwards; call `on_time` at `wake_at_s` (late costs time only).

    The spans of the segments tile the input from 0; after `finish` up to its end. A segment without text covers input
    in which nothing is to be spoken, or carries controls; it comes only where no segment with text could take them in.

    With `segmentation` "manual" no segment comes before `flush` or `finish`; then all come at once, each within
    `max_chars`. They are made as the text comes, so that letting them go is no work. With `unit` "word" segments are
    single words, for families that speak text while it is being written.
    """

    def __init__(
        self,
        settings: TextSettings,
        *,
        lexicon: Lexicon,
        segmentation: Segmentation,
        language: str | None,
        spoken_languages: frozenset[str],
        has_text_normalizer: bool,
        unit: TextUnit = "clause",
    ) -> None:
        self._settings = settings
        self._lexicon = lexicon
        self._language = language.split("-")[0].lower() if language else None
        self._spoken_languages = spoken_languages
        self._chunker = Chunker(settings, segmentation=segmentation, language=self._language, unit=unit)
        self._words = WordNormalizer(self._chunker, language=self._language, has_text_normalizer=has_text_normalizer)
        self._tags = TagScanner(settings, self._words)
        self._lines = LineScanner(settings, self._tags, self._words)
        self._is_manual = segmentation == "manual"
        self._position = 0
        self._last_input_s = 0.0
        self._wake_at_s: float | None = None
        self._reported_languages: set[str] = set()
        self._made: list[Released] = []
        """Of manual segmentation: what the next flush lets go."""

    @property
    def wake_at_s(self) -> float | None:
        """When to call `on_time` if no text comes before."""
        return self._wake_at_s

    def feed(self, text: str, now_s: float) -> list[Released]:
        released = self.on_time(now_s) if self._wake_at_s is not None and now_s >= self._wake_at_s else []
        if not text:
            return released
        self._read(text, now_s)
        return released + self._take()

    def flush(self, now_s: float) -> list[Released]:
        """Releases all that was fed; parsing goes on afterwards."""
        self._release(now_s)
        self._chunker.release_all("end")
        return self._take(is_all=True)

    def finish(self, now_s: float) -> list[Released]:
        """The text has ended; nothing may be fed afterwards."""
        self._release(now_s)
        self._chunker.cover(self._position)
        self._chunker.finish()
        released = self._take(is_all=True)
        self._wake_at_s = None
        return released

    def on_time(self, now_s: float) -> list[Released]:
        """What waits alone release by `now_s`."""
        if self._is_manual:
            return []
        self._set_time(now_s)
        for scanner in (self._lines, self._tags):
            deadline_s = scanner.deadline_s
            if deadline_s is not None and now_s >= deadline_s:
                scanner.release()
        word_deadline_s = self._word_deadline_s()
        if word_deadline_s is not None and now_s >= word_deadline_s:
            self._words.finish_word()
            self._chunker.settle()
        self._chunker.on_time(now_s)
        stall_s = self._stall_deadline_s()
        if stall_s is not None and now_s >= stall_s:
            self._chunker.release_all("forced")
        return self._take()

    def _read(self, text: str, now_s: float) -> None:
        self._set_time(now_s)
        self._last_input_s = now_s
        push = self._lines.push
        position = self._position
        for char in text:
            push(char, position)
            position += 1
        self._position = position

    def _release(self, now_s: float) -> None:
        self._set_time(now_s)
        self._lines.release()
        self._tags.release()
        self._words.finish_word()

    def _set_time(self, now_s: float) -> None:
        self._lines.now_s = self._tags.now_s = self._chunker.now_s = now_s

    def _word_deadline_s(self) -> float | None:
        """When the last word, with nothing behind it, is taken to be whole."""
        if self._words.is_empty or self._tags.is_holding or self._lines.is_holding:
            return None
        wait_s = self._settings.word_wait_s
        last = self._words.last_char
        if not last.isalnum():
            wait_s = self._settings.number_wait_s if self._words.ends_in_number else self._settings.terminator_wait_s
        return self._last_input_s + wait_s

    def _stall_deadline_s(self) -> float | None:
        """When everything goes out, since no more text has come for so long."""
        if not self._chunker.can_release:
            return None
        return self._last_input_s + self._settings.word_wait_s

    def _take(self, *, is_all: bool = False) -> list[Released]:
        released: list[Released] = []
        for ready in self._chunker.take():
            if isinstance(ready, TextNotice):
                released.append(ready)
            else:
                (self._made if self._is_manual else released).extend(self._languages(ready))
        if self._is_manual:
            if is_all:
                released += self._made
                self._made = []
            return released
        deadlines = (
            self._lines.deadline_s,
            self._tags.deadline_s,
            self._word_deadline_s(),
            self._chunker.deadline_s,
            self._stall_deadline_s(),
        )
        self._wake_at_s = min((deadline for deadline in deadlines if deadline is not None), default=None)
        return released

    def _languages(self, segment: Segment) -> list[Released]:
        """The segment with its language, after a notice for each language in it that the family does not speak."""
        letters: dict[str, int] = {}
        if segment.text.isascii():
            if any(char.isalpha() for char in segment.text):
                letters["Latin"] = 1
        else:
            for char in segment.text:
                script = script_of(char)
                if script is not None:
                    letters[script] = letters.get(script, 0) + 1
        language = language_of(letters, segment.text, self._language)
        segment = self._lexicon.apply(replace(segment, language=language) if language else segment)
        notices: list[Released] = []
        if self._spoken_languages:
            found = {self._language_of(script, segment.text) for script in letters}
            if "Kana" in letters:
                found.discard("zh")
            for name in sorted(name for name in found if name is not None):
                if name not in self._spoken_languages and name not in self._reported_languages:
                    self._reported_languages.add(name)
                    notices.append(self._unsupported(name, segment.span))
        return [*notices, segment]

    def _language_of(self, script: str, text: str) -> str | None:
        """Latin letters in the text of a language with letters of its own are names and loans: they say nothing."""
        guess = language_of_script(script, text, self._language)
        return None if script == "Latin" and guess is not None else guess or self._language

    def _unsupported(self, name: str, span: Span) -> TextNotice:
        spoken = ", ".join(sorted(self._spoken_languages))
        written = "text in an unknown script" if name == "und" else f"text in {name!r}"
        return TextNotice(
            "unsupported_language", name, f"{written} cannot be spoken by this model, only {spoken}", span
        )
