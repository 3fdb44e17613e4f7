"""What a code point is to a chunker: its script, whether the script has spaces, and which marks end what.

Ranges are from Unicode 15 Blocks.txt and Scripts.txt, coarse on purpose: whole blocks, letters only.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from typing import Final, Literal

from gateway.text.listed import listed

CharKind = Literal["space", "drop", "mark", "unspaced", "word"]
"""white space; nothing to speak; belongs to the character before; of a script without spaces; all other."""

SENTENCE_MARKS: Final = frozenset(
    "!?\uff01\uff1f\u3002\uff61\uff0e\u061f\u06d4\u0964\u0965\u203d\u2047\u2048\u2049\u0589\u1362\u1367\u1368\u104b\u17d4\u17d5\u0f0d\u0f0e\u1803\u1809"
)
"""End a sentence wherever they stand (the ASCII full stop is a matter of its own)."""
CLAUSE_MARKS: Final = frozenset(",;:，、；：،؛—–၊፣፤፥᠂᠈՝﹐﹑﹔﹕､")
ELLIPSES: Final = frozenset("…⋯")
CLOSERS: Final = frozenset("\"'”’»›)]}）］｝」』】〉》〗〙〛﹂﹄〞〟")
OPENING_TO_CLOSING: Final[dict[str, str]] = {
    "(": ")", "（": "）", "“": "”", "„": "“", "«": "»", "‹": "›", "「": "」", "『": "』", "【": "】", "《": "》",
    "〈": "〉", "〔": "〕",
}  # fmt: skip
"""Nesting a sentence may end in; straight quotes are told apart by where they stand."""
THAI_LEADING_VOWELS: Final = frozenset("เแโใไເແໂໃໄ")
"""Written before the consonant that they follow in speech."""

_SCRIPTS: Final[tuple[tuple[int, int, str], ...]] = (
    (0x41, 0x24F, "Latin"),
    (0x250, 0x2AF, "Latin"),
    (0x370, 0x3FF, "Greek"),
    (0x400, 0x52F, "Cyrillic"),
    (0x531, 0x58F, "Armenian"),
    (0x590, 0x5FF, "Hebrew"),
    (0x600, 0x6FF, "Arabic"),
    (0x750, 0x77F, "Arabic"),
    (0x8A0, 0x8FF, "Arabic"),
    (0x900, 0x97F, "Devanagari"),
    (0x980, 0x9FF, "Bengali"),
    (0xA00, 0xA7F, "Gurmukhi"),
    (0xA80, 0xAFF, "Gujarati"),
    (0xB00, 0xB7F, "Oriya"),
    (0xB80, 0xBFF, "Tamil"),
    (0xC00, 0xC7F, "Telugu"),
    (0xC80, 0xCFF, "Kannada"),
    (0xD00, 0xD7F, "Malayalam"),
    (0xD80, 0xDFF, "Sinhala"),
    (0xE00, 0xE7F, "Thai"),
    (0xE80, 0xEFF, "Lao"),
    (0xF00, 0xFFF, "Tibetan"),
    (0x1000, 0x109F, "Myanmar"),
    (0x10A0, 0x10FF, "Georgian"),
    (0x1100, 0x11FF, "Hangul"),
    (0x1200, 0x139F, "Ethiopic"),
    (0x1780, 0x17FF, "Khmer"),
    (0x1800, 0x18AF, "Mongolian"),
    (0x1C90, 0x1CBF, "Georgian"),
    (0x1E00, 0x1EFF, "Latin"),
    (0x1F00, 0x1FFF, "Greek"),
    (0x2C60, 0x2C7F, "Latin"),
    (0x2D00, 0x2D2F, "Georgian"),
    (0x3005, 0x3007, "Han"),
    (0x3040, 0x309F, "Kana"),
    (0x30A0, 0x30FF, "Kana"),
    (0x3100, 0x312F, "Bopomofo"),
    (0x3130, 0x318F, "Hangul"),
    (0x31F0, 0x31FF, "Kana"),
    (0x3400, 0x4DBF, "Han"),
    (0x4E00, 0x9FFF, "Han"),
    (0xA720, 0xA7FF, "Latin"),
    (0xA960, 0xA97F, "Hangul"),
    (0xAA60, 0xAA7F, "Myanmar"),
    (0xAC00, 0xD7FF, "Hangul"),
    (0xF900, 0xFAFF, "Han"),
    (0xFB50, 0xFDFF, "Arabic"),
    (0xFE70, 0xFEFC, "Arabic"),
    (0xFF66, 0xFF9F, "Kana"),
    (0x20000, 0x323AF, "Han"),
)
_SCRIPT_STARTS: Final = [first for first, _, _ in _SCRIPTS]

UNSPACED: Final = frozenset({"Han", "Kana", "Bopomofo", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"})
DENSE: Final = frozenset({"Han", "Kana", "Bopomofo", "Hangul"})
DENSE_CHARS: Final = 3
"""A Han character, kana or Hangul syllable is about as long in speech as three Latin letters."""

_HAN_PHRASE_ENDS: Final = frozenset("的了着過过嗎吗呢吧啊呀們们著")
_HAN_PHRASE_STARTS: Final = frozenset("但而因所如和與与或就也還还並并且在從从對对把被讓让")

_LANGUAGES: Final[dict[str, str]] = {
    "Greek": "el", "Armenian": "hy", "Hebrew": "he", "Bengali": "bn", "Gurmukhi": "pa", "Gujarati": "gu", "Oriya": "or",
    "Tamil": "ta", "Telugu": "te", "Kannada": "kn", "Malayalam": "ml", "Sinhala": "si", "Thai": "th", "Lao": "lo",
    "Tibetan": "bo", "Myanmar": "my", "Georgian": "ka", "Hangul": "ko", "Ethiopic": "am", "Khmer": "km",
    "Mongolian": "mn",
    "Kana": "ja", "Bopomofo": "zh", "Devanagari": "hi", "Cyrillic": "ru", "Han": "zh", "Arabic": "ar",
}  # fmt: skip
_SHARED_SCRIPTS: Final[dict[str, frozenset[str]]] = {
    "Latin": frozenset(),
    "Cyrillic": frozenset(listed("ru uk be bg sr mk kk ky mn tg tt ba")),
    "Arabic": frozenset(listed("ar fa ur ps sd ug ckb")),
    "Devanagari": frozenset(listed("hi mr ne sa kok mai")),
    "Han": frozenset(listed("zh yue ja wuu nan")),
    "Kana": frozenset(["ja"]),
    "Ethiopic": frozenset(listed("am ti")),
    "Hebrew": frozenset(listed("he yi")),
    "Bengali": frozenset(listed("bn as")),
}
"""Languages that are written in a script: an utterance's own language is believed where it fits."""
_NON_LATIN_LANGUAGES: Final = frozenset(_LANGUAGES.values()) | frozenset().union(*_SHARED_SCRIPTS.values())

_URDU: Final = frozenset("ٹڈڑںھہےۓ")
_PERSIAN: Final = frozenset("پچژگکی")
_UKRAINIAN: Final = frozenset("іїєґІЇЄҐ")


def script_of(char: str) -> str | None:
    """The script of a letter; None for what belongs to no script (digits, marks, symbols)."""
    if not char.isalpha():
        return None
    code = ord(char)
    index = bisect_right(_SCRIPT_STARTS, code) - 1
    if index >= 0 and code <= _SCRIPTS[index][1]:
        return _SCRIPTS[index][2]
    return "Other"


def parts_phrases(left: str, right: str) -> bool:
    """Between two characters without a space: do they most likely belong to different phrases?

    Japanese: a phrase ends in hiragana, and the next begins in another script. Chinese: particles that end a phrase,
    and words that begin one. Thai, Lao, Khmer, Burmese and Tibetan only tell by their spaces.
    """
    before, after = script_of(left), script_of(right)
    if before == "Kana" and left <= "\u309f":
        return after in ("Han", "Latin") or (after == "Kana" and right > "\u309f")
    return before == "Han" and after == "Han" and (left in _HAN_PHRASE_ENDS or right in _HAN_PHRASE_STARTS)


def language_of(letters: dict[str, int], text: str, utterance_language: str | None) -> str | None:
    """The language of a text from its letters per script; None where nothing speaks against the utterance's own.

    Latin letters say nothing, unless the utterance's language is written otherwise: then they are taken for English.
    """
    if not letters:
        return None
    if letters.get("Kana"):
        letters = {script: count for script, count in letters.items() if script != "Han"} | {
            "Kana": letters["Kana"] + letters.get("Han", 0)
        }
    main = max(letters, key=lambda script: letters[script])
    return language_of_script(main, text, utterance_language)


def language_of_script(script: str, text: str, utterance_language: str | None) -> str | None:
    if script == "Latin":
        return "en" if utterance_language in _NON_LATIN_LANGUAGES else None
    if utterance_language is not None and utterance_language in _SHARED_SCRIPTS.get(script, ()):
        return None
    if script not in _LANGUAGES or _LANGUAGES[script] == utterance_language:
        return None if script in _LANGUAGES else "und"
    found = set(text)
    if script == "Arabic":
        return "ur" if found & _URDU else "fa" if found & _PERSIAN else "ar"
    if script == "Cyrillic" and found & _UKRAINIAN:
        return "uk"
    return _LANGUAGES[script]


_KEPT_JOINERS: Final = frozenset("\u200c\u200d")
_JOINING_SCRIPTS: Final = frozenset(listed(
    """
    Arabic Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam Sinhala
    """
))  # fmt: skip
_GLUE: Final = frozenset("\u00a0\u202f\u2007")
"""Spaces at which no line breaks, so no segment either."""


def joins(char: str, before: str) -> bool:
    """A zero-width joiner or non-joiner that shapes letters (Persian, Indic), unlike one between emoji."""
    return char in _KEPT_JOINERS and script_of(before) in _JOINING_SCRIPTS


def _kind(char: str) -> CharKind:
    code = ord(char)
    if char in _GLUE:
        return "word"
    if char.isspace() or code in (0x200B, 0x2060):
        return "drop" if code in (0x1C, 0x1D, 0x1E, 0x1F, 0x2060) else "space"
    if char in _KEPT_JOINERS or code in (0x0F0B, 0x0F0C, 0xFF9E, 0xFF9F):
        return "mark"
    if code == 0x034F:
        return "drop"
    if 0x2460 <= code <= 0x24FF or 0x3200 <= code <= 0x33FF:
        return "word"
    category = unicodedata.category(char)
    if 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF or code in (0x20E3, 0x20DD, 0x20DE, 0x20E0):
        return "drop"
    if category in ("Mn", "Mc", "Me"):
        return "mark"
    if category in ("Cc", "Cf", "Cs", "Co", "Cn") or code == 0xFFFD:
        return "drop"
    if category == "So" or 0x1F000 <= code <= 0x1FAFF or (category == "Sk" and code >= 0x1F3FB):
        return "word" if char in "°№℃℉" else "drop" if char in "™®©℗℠" else "space"
    if script_of(char) in UNSPACED or (0x3001 <= code <= 0x303F) or (0xFF01 <= code <= 0xFF0F) or code in (
        0xFF1A, 0xFF1B, 0xFF1F, 0xFF61, 0xFF64, 0x104A, 0x104B, 0x17D4, 0x17D5, 0xFF5E, 0x0F0D, 0x0F0E,
    ):  # fmt: skip
        return "unspaced"
    return "word"


_MAX_REMEMBERED: Final = 20_000


class _Kinds(dict[str, CharKind]):
    """Remembers the kind of the code points it has met, up to a limit."""

    def __missing__(self, char: str) -> CharKind:
        kind = _kind(char)
        if len(self) < _MAX_REMEMBERED:
            self[char] = kind
        return kind


KINDS: Final = _Kinds()
