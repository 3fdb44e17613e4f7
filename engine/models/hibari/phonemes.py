"""Text to phonemes that know where they came from: each spoken word keeps its place in the text.

The grapheme-to-phoneme rules are hibari's. They read numbers, dates and abbreviations as other words than were
written, so written and read words are aligned: one to one where the reader left a word alone, else as a group.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.speech import Pronunciation

PAUSING: Final = frozenset(",;:—…")
CLOSING: Final = frozenset(".!?")
"""Symbols of the net that pause, and that close a sentence."""
UNSPOKEN: Final = frozenset(';:,.!?—…"()“” ˈˌ')
_STRESS: Final = "ˈˌ"
VOWELS: Final = frozenset("AIOQWYaiuæɑɐɒəɛɜɪɔʊʌᵻᵊ")

_NEUTRAL: Final = str.maketrans({"[": "(", "]": ")", "{": "(", "}": ")", "’": "'", "\u00a0": " ", "\x00": " "})
"""One character for one: brackets would start the reader's own pronunciation syntax."""
_WRITTEN: Final = re.compile(r"(?P<dash>—|--+)|(?:(?!—|--)\S)+")
_WORD_BREAK: Final = re.compile(r"[—–…]|--+|\.\.\.+")
_LATIN_NAMES: Final = ("LATIN ", "MICRO ", "FEMININE ", "MASCULINE ", "MODIFIER LETTER ")
_SPOKEN_MARKS: Final = frozenset("%&@#*/+=<>$£€°")


@dataclass(frozen=True, slots=True)
class Mark:
    """One word for timing: text [start, end), symbols [first, last) of the phoneme word it belongs to."""

    start: int
    end: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class PhonemeWord:
    """A stretch of written text and the symbols that speak it, punctuation included; symbols may be empty."""

    start: int
    end: int
    symbols: str
    marks: tuple[Mark, ...]

    @property
    def is_spoken(self) -> bool:
        return any(symbol not in UNSPOKEN for symbol in self.symbols)

    @property
    def closing(self) -> str:
        """Its last symbol of punctuation, quotes and brackets passed over; "" where it ends in a sound."""
        bare = self.symbols.rstrip('"”“() ')
        return bare[-1] if bare and bare[-1] in PAUSING | CLOSING else ""


@dataclass(frozen=True, slots=True)
class _Read:
    """Written words [start, end) of the text that were read together, as `texts`."""

    spans: tuple[tuple[int, int], ...]
    read_count: int


class Phonemizer:
    """hibari's reader for American English. Loads its lexicons when made (about 0.3 s); thread-safe afterwards."""

    def __init__(self, alphabet: frozenset[str]) -> None:
        from hibari.g2p import G2P
        from hibari.g2p.normalize import normalize
        from hibari.g2p.token import Tok

        self._g2p: Any = G2P(british=False)
        self._normalize: Any = normalize
        self._token: Any = Tok
        self._alphabet = alphabet

    def warm_up(self) -> None:
        """Load the net for unknown words."""
        self.words("Antiphonically, 3.5 km on Dr. Zyx's blorp.")

    def words(self, text: str, pronunciations: Iterable[Pronunciation] = ()) -> tuple[PhonemeWord, ...]:
        """All written words of `text` in order, with their symbols. Never raises on text."""
        tokens: list[Any] = []
        groups: list[_Read] = []
        cursor = 0
        for item in sorted(pronunciations, key=lambda item: item.start):
            symbols = self._given(item.phonemes)
            if item.start < cursor or item.end > len(text) or not text[item.start : item.end].strip() or not symbols:
                continue
            self._read(text, cursor, item.start, tokens, groups)
            self._append_given(text, item, symbols, tokens, groups)
            cursor = item.end
        self._read(text, cursor, len(text), tokens, groups)
        readings = self._phonemes(tokens)
        words: list[PhonemeWord] = []
        at = 0
        for group in groups:
            words.extend(_aligned(text, group.spans, readings[at : at + group.read_count]))
            at += group.read_count
        return tuple(words)

    def _given(self, phonemes: str) -> str:
        symbols = "".join(symbol for symbol in misaki(phonemes) if symbol in self._alphabet)
        return symbols if any(symbol not in UNSPOKEN for symbol in symbols) else ""

    def _append_given(
        self, text: str, item: Pronunciation, symbols: str, tokens: list[Any], groups: list[_Read]
    ) -> None:
        is_glued_left = (
            bool(tokens) and not tokens[-1].whitespace and item.start > 0 and not text[item.start - 1].isspace()
        )
        is_glued_right = item.end < len(text) and not text[item.end].isspace()
        tokens.append(
            self._token(text[item.start : item.end], "NN", "" if is_glued_right else " ", phonemes=symbols, rating=5)
        )
        if is_glued_left and groups:
            last = groups.pop()
            spans = (*last.spans[:-1], (last.spans[-1][0], item.end))
            groups.append(_Read(spans, last.read_count))
        else:
            groups.append(_Read(((item.start, item.end),), 1))

    def _read(self, text: str, start: int, end: int, tokens: list[Any], groups: list[_Read]) -> None:
        """Append the tokens of text[start:end] and its alignment groups; one token group a read word, in order."""
        plain = "".join(" " if is_foreign(char) else char for char in text[start:end].translate(_NEUTRAL))
        matches = list(_WRITTEN.finditer(plain))
        spans = [(start + match.start(), start + match.end()) for match in matches]
        if not spans:
            if plain and tokens:
                tokens[-1].whitespace = " "
            return
        is_glued = start > 0 and bool(groups) and not tokens[-1].whitespace and not plain[0].isspace()
        if not is_glued and tokens:
            tokens[-1].whitespace = " "
        written = ["—" if match["dash"] else match.group() for match in matches]
        normalized, new = self._tokens(" ".join(written))
        read = normalized.split()
        if not new:
            groups.append(_Read(tuple(spans), 0))
            return
        new[-1].whitespace = " " if plain[-1].isspace() else ""
        tokens.extend(new)
        pieces = _align(written, read)
        fresh = [_Read(tuple(spans[a:b]), d - c) for (a, b, c, d) in pieces]
        if is_glued and fresh and fresh[0].read_count:
            # The first read word is one with the last of what came before ("<given>'s").
            last, head = groups.pop(), fresh.pop(0)
            spans_ = (*last.spans[:-1], (last.spans[-1][0], head.spans[0][1]), *head.spans[1:])
            groups.append(_Read(spans_, last.read_count + head.read_count - 1))
        groups.extend(fresh)

    def _tokens(self, plain: str) -> tuple[str, list[Any]]:
        """The normalised text and its tokens, whose white space tells the words apart as split() does."""
        for candidate in (self._normalize(plain), plain):
            tokens = self._g2p.tokenize(candidate)
            if sum(1 for token in tokens if token.whitespace) + 1 == len(candidate.split()):
                return candidate, tokens
        return "", []

    def _phonemes(self, tokens: list[Any]) -> list[str]:
        """One string of symbols a read word."""
        if not tokens:
            return []
        try:
            merged = self._g2p.phonemize_tokens(tokens)
        except Exception:
            # The reader's rules meet text that no one foresaw; a word it cannot read is silent, the rest is spoken.
            merged = [self._alone(token) for token in tokens]
        readings = [""]
        for token in merged:
            readings[-1] += "".join(symbol for symbol in token.phonemes or "" if symbol in self._alphabet)
            if token.whitespace:
                readings.append("")
        wanted = sum(1 for token in tokens if token.whitespace) + (0 if tokens[-1].whitespace else 1)
        return readings[:wanted]

    def _alone(self, token: Any) -> Any:
        try:
            (merged,) = self._g2p.phonemize_tokens([token])
        except Exception:
            return token.copy(phonemes="")
        return merged


def _align(written: Sequence[str], read: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Groups (a, b, c, d): written words [a, b) were read as words [c, d). Every word is in exactly one group."""
    if list(written) == list(read):
        return [(index, index + 1, index, index + 1) for index in range(len(written))]
    groups: list[tuple[int, int, int, int]] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, written, read, autojunk=False).get_opcodes():
        if kind == "equal" or (kind == "replace" and b - a == d - c):
            groups.extend((a + step, a + step + 1, c + step, c + step + 1) for step in range(b - a))
        elif kind == "insert" and groups:
            first, last, start, _ = groups.pop()
            groups.append((first, last, start, d))
        else:
            groups.append((a, b, c, d))
    if len(groups) > 1 and groups[0][0] == groups[0][1]:
        _, _, start, _ = groups.pop(0)
        first, last, _, end = groups.pop(0)
        groups.insert(0, (first, last, start, end))
    return groups


def _aligned(text: str, spans: Sequence[tuple[int, int]], readings: Sequence[str]) -> Iterable[PhonemeWord]:
    """Phoneme words of one group."""
    if not spans:
        return
    if len(spans) == 1 or len(readings) != len(spans):
        start, end = spans[0][0], spans[-1][1]
        symbols = " ".join(reading for reading in readings if reading)
        pieces = [piece for first, last in spans for piece in _timed_pieces(text, first, last)]
        yield PhonemeWord(start, end, symbols, _marks(pieces, symbols))
        return
    for (first, last), symbols in zip(spans, readings, strict=True):
        yield PhonemeWord(first, last, symbols, _marks(_timed_pieces(text, first, last), symbols))


def _timed_pieces(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The words in written text[start:end), without the punctuation around them: none where there is only that."""
    pieces: list[tuple[int, int]] = []
    cursor = start
    breaks = [(start + match.start(), start + match.end()) for match in _WORD_BREAK.finditer(text[start:end])]
    for first, last in [*breaks, (end, end)]:
        left, right = cursor, first
        while left < right and _is_edge(text[left]):
            left += 1
        while right > left and _is_edge(text[right - 1]):
            right -= 1
        if right > left:
            pieces.append((left, right))
        cursor = last
    return pieces


def _is_edge(character: str) -> bool:
    return character not in _SPOKEN_MARKS and unicodedata.category(character)[0] in "PZC"


def _marks(pieces: Sequence[tuple[int, int]], symbols: str) -> tuple[Mark, ...]:
    """Share the symbols among the written words: at dashes where the counts agree, else by length."""
    spoken = [index for index, symbol in enumerate(symbols) if symbol not in UNSPOKEN or symbol in _STRESS]
    if not pieces or not spoken:
        return ()
    first, last = spoken[0], spoken[-1] + 1
    if len(pieces) == 1:
        return (Mark(*pieces[0], first, last),)
    stretches = [(match.start(), match.end()) for match in re.finditer(r"[^—…\s]+", symbols[first:last])]
    if len(stretches) == len(pieces):
        return tuple(
            Mark(*piece, first + left, first + right) for piece, (left, right) in zip(pieces, stretches, strict=True)
        )
    lengths = [end - start for start, end in pieces]
    total = sum(lengths)
    cuts = [first]
    for index in range(len(pieces)):
        cuts.append(first + round((last - first) * sum(lengths[: index + 1]) / total))
    return tuple(
        Mark(*piece, left, right) for piece, left, right in zip(pieces, cuts, cuts[1:], strict=False) if right > left
    )


def is_foreign(character: str) -> bool:
    """A letter of another script than the one the reader knows."""
    if character.isascii() or not character.isalpha():
        return False
    return not unicodedata.name(character, "").startswith(_LATIN_NAMES)


# ---- pronunciations ------------------------------------------------------------------------------------------------

# International Phonetic Alphabet -> the net's alphabet (misaki, American English); longest first.
_FROM_IPA: Final = {
    "t͡ʃ": "ʧ", "d͡ʒ": "ʤ", "tʃ": "ʧ", "dʒ": "ʤ", "ts": "ts", "eɪ": "A", "aɪ": "I", "oʊ": "O", "əʊ": "O", "aʊ": "W",
    "ɔɪ": "Y", "ɔʏ": "Y", "ɑɪ": "I", "ɑʊ": "W", "ɛɪ": "A", "ej": "A", "aj": "I", "ow": "O", "aw": "W", "ɔj": "Y",
    "ɜːr": "ɜɹ", "ɜːɹ": "ɜɹ", "ɜr": "ɜɹ", "ɜɹ": "ɜɹ", "ɜː": "ɜɹ", "ɪə": "ɪɹ", "eə": "ɛɹ", "ɛə": "ɛɹ", "ʊə": "ʊɹ",
    "ɚ": "əɹ", "ɝ": "ɜɹ", "l̩": "ᵊl", "n̩": "ᵊn", "m̩": "ᵊm", "r": "ɹ", "ɻ": "ɹ", "ʁ": "ɹ", "ʀ": "ɹ", "g": "ɡ",
    "ɫ": "l", "ɬ": "l", "ʎ": "lj", "ɲ": "nj", "ɳ": "n", "ɱ": "m", "ʍ": "hw", "ɾ": "T", "ʔ": "t", "x": "k", "χ": "k",
    "ç": "h", "ɦ": "h", "ħ": "h", "ɣ": "ɡ", "β": "b", "ɸ": "f", "ʋ": "v", "ɕ": "ʃ", "ʑ": "ʒ", "ʂ": "ʃ", "ʐ": "ʒ",
    "ʈ": "t", "ɖ": "d", "c": "k", "q": "k", "ɟ": "ɡ", "ɒ": "ɑ", "a": "ɑ", "e": "ɛ", "o": "O", "ɤ": "ʌ", "ɵ": "ə",
    "ɘ": "ə", "ɞ": "ɜ", "ɨ": "ɪ", "ʉ": "u", "ɯ": "u", "y": "i", "ʏ": "ɪ", "ø": "ɜ", "œ": "ɜ", "'": "ˈ", "ː": "",
    "ˑ": "", ".": "", "‿": " ", "|": " ", "-": "",
}  # fmt: skip
_IPA: Final = re.compile("|".join(re.escape(key) for key in sorted(_FROM_IPA, key=len, reverse=True)))


def misaki(phonemes: str) -> str:
    """Phonemes in IPA (or already in misaki's letters), for the net: symbols that it lacks become their nearest."""
    text = unicodedata.normalize("NFC", phonemes.strip().strip("/[]"))
    symbols = _IPA.sub(lambda match: _FROM_IPA[match.group()], text)
    symbols = "".join(character for character in symbols if not unicodedata.combining(character))
    symbols = " ".join(symbols.split())
    if not any(stress in symbols for stress in _STRESS):
        vowel = next((index for index, symbol in enumerate(symbols) if symbol in VOWELS), None)
        if vowel is not None:
            symbols = f"{symbols[:vowel]}ˈ{symbols[vowel:]}"
    return symbols
