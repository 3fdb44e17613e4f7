"""Where words fall in a block whose model tells no alignment: by syllable weight, at the rate the voice has shown.

A block's two ends are exact; inside, a word is placed by the weight of the text before it. Nothing here assumes spaces,
Latin letters or English: a script that writes without spaces is counted by character or by cluster.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from engine.speech import Segment, WordTiming

SECONDS_PER_WEIGHT = 0.19
"""One syllable at an ordinary pace."""
RATE_LEARNING = 0.5
"""How far one finished block moves the rate."""

_VOWELS = frozenset("aeiouyаеёиоуыэюяіїєαεηιουω")
_LETTER_WEIGHT = 0.42
"""Scripts whose vowels are not counted here (Arabic, Hebrew, Devanagari, Thai, the letters of a Hangul syllable ...):
about 2.4 letters a syllable."""
_DIGIT_WEIGHT = 1.4
_CLAUSE_PAUSE = 1.0
_SENTENCE_PAUSE = 2.0
_UNSPACED_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "BOPOMOFO", "TIBETAN")
_LIGHT_SCRIPTS = ("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


@dataclass(frozen=True, slots=True)
class WordWeight:
    """A word's place in the input, what it weighs, and the pause after it, in syllables."""

    start_char: int
    end_char: int
    weight: float
    pause: float


def word_weights(segment: Segment) -> tuple[WordWeight, ...]:
    """The segment's words in order; words that came from one replaced stretch of input are one."""
    words: list[WordWeight] = []
    for start, end, pause in _words(segment.text):
        source_start, source_end = segment.sources[start].start, segment.sources[end - 1].end
        weight = _weight(segment.text[start:end])
        if words and source_start < words[-1].end_char:
            last = words.pop()
            source_start, source_end = last.start_char, max(last.end_char, source_end)
            weight += last.weight + last.pause
        words.append(WordWeight(source_start, source_end, weight, pause))
    return tuple(words)


def total_weight(words: Sequence[WordWeight]) -> float:
    """Syllables of the words and the pauses after all but the last."""
    return sum(word.weight + word.pause for word in words) - (words[-1].pause if words else 0.0)


class WordEstimator:
    """Places the words of one block as its audio grows."""

    __slots__ = ("_next", "_position", "_rate", "_total", "_words")

    def __init__(self, words: Sequence[WordWeight], samples_per_weight: float) -> None:
        self._words = words
        self._total = total_weight(words)
        self._rate = samples_per_weight
        self._next = 0
        self._position = 0.0

    def extend(self, words: Sequence[WordWeight]) -> None:
        """More words follow."""
        self._words = (*self._words, *words)
        self._total = total_weight(self._words)

    def advance(self, samples: int, is_block_end: bool) -> tuple[WordTiming, ...]:
        """The words that have ended by `samples` of the block; at its end all that are left, fitted into it."""
        rate = self._rate
        if is_block_end:
            remaining = total_weight(self._words[self._next :])
            rate = max(0.0, samples - self._position) / remaining if remaining > 0 else 0.0
        timings = []
        while self._next < len(self._words):
            word = self._words[self._next]
            end = self._position + word.weight * rate
            if not is_block_end and end > samples:
                break
            start_sample, end_sample = (min(samples, round(place)) for place in (self._position, end))
            timings.append(WordTiming(word.start_char, word.end_char, start_sample, end_sample))
            self._position = end + word.pause * rate
            self._next += 1
        return tuple(timings)

    def learned_rate(self, samples: int) -> float:
        """Samples per syllable of weight, moved towards what this finished block took."""
        if self._total <= 0 or samples <= 0:
            return self._rate
        return self._rate + RATE_LEARNING * (samples / self._total - self._rate)


def _words(text: str) -> list[tuple[int, int, float]]:
    """(start, end, pause after) of each spoken word: runs of letters, marks, digits and what joins them."""
    words: list[tuple[int, int, float]] = []
    start: int | None = None
    for index, char in enumerate(text):
        category = unicodedata.category(char)
        if category[0] == "M" and (start is not None or (words and words[-1][1] == index)):
            if start is None:
                words[-1] = (words[-1][0], index + 1, words[-1][2])
            continue
        if category[0] in "LNS" or (start is not None and char in "'’-" and index + 1 < len(text)):
            is_own_word = _script_in(char, _UNSPACED_SCRIPTS)
            if start is not None and is_own_word:
                words.append((start, index, 0.0))
                start = None
            if is_own_word:
                words.append((index, index + 1, 0.0))
            elif start is None:
                start = index
            continue
        if start is not None:
            words.append((start, index, 0.0))
            start = None
        if words and category[0] == "P":
            words[-1] = (words[-1][0], words[-1][1], max(words[-1][2], _pause(char)))
    if start is not None:
        words.append((start, len(text), 0.0))
    return words


def _pause(mark: str) -> float:
    if mark in ".!?…。！？؟۔।॥":
        return _SENTENCE_PAUSE
    return _CLAUSE_PAUSE if mark in ",;:–—、，；：،؛" else 0.0


def _weight(word: str) -> float:
    plain = unicodedata.normalize("NFD", word.lower())
    weight, was_vowel = 0.0, False
    for char in plain:
        is_vowel = char in _VOWELS
        if is_vowel and not was_vowel:
            weight += 1.0
        elif char.isdigit():
            weight += _DIGIT_WEIGHT
        elif not char.isalpha() or is_vowel or _script_in(char, ("LATIN", "CYRILLIC", "GREEK")):
            pass
        elif _script_in(char, _UNSPACED_SCRIPTS) and not _script_in(char, _LIGHT_SCRIPTS):
            weight += 1.0
        else:
            weight += _LETTER_WEIGHT
        was_vowel = is_vowel
    return max(1.0, weight) if not _script_in(word[0], _LIGHT_SCRIPTS) else max(_LETTER_WEIGHT, weight)


def _script_in(char: str, scripts: tuple[str, ...]) -> bool:
    return unicodedata.name(char, "").startswith(scripts)
