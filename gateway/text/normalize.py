"""One word as it is to be spoken. Pure functions from a word to its reading; each code point keeps its place.

A word is what stands between white space (or a single character of a script without spaces). What a word must not do is
reach a voice as marks: markdown, emoticons, ASCII art, URLs, paths. Numbers are left alone here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from gateway.text.numbers import say_numbers
from gateway.text.scripts import CLAUSE_MARKS, CLOSERS, ELLIPSES, SENTENCE_MARKS, script_of
from gateway.text.symbols import (
    ARROWS,
    COMMA_ALONE,
    DOUBTFUL_DOMAINS,
    EMOTICON,
    ENGLISH,
    FILE_ENDINGS,
    MATH,
    SILENT_ALONE,
    SPOKEN_NAMES,
    TEXT_EMOTICONS,
    TOP_LEVEL_DOMAINS,
    TYPOGRAPHIC,
)

_PLAIN: Final = re.compile(r"[\"'(]?[A-Za-z]+(?:['-][A-Za-z]+)*[\"')]?[.,!?;:]?[\"')]?")
_SIMPLE_NUMBER: Final = re.compile(r"[$€£]?\d+(?:[.,:]\d+)*%?[.,!?;:]?")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://|(?:mailto|tel):(?=\S)", re.IGNORECASE)
_DOMAIN: Final = re.compile(r"(?:[\w-]+\.)+([A-Za-z]{2,})(?::\d+)?(?=[/?#]|$)")
_EMAIL: Final = re.compile(r"[\w.+%-]+@(?:[\w-]+\.)+[A-Za-z]{2,}")
_FILE: Final = re.compile(r"[\w.-]*\w\.([A-Za-z0-9]{1,5})")
_ROOTED: Final = re.compile(r"(?:~|\.{1,2})?/\.?\w|[A-Za-z]:\\|\\\\\w")
_RUN_OF_LETTERS: Final = re.compile(r"([^\W\d_])\1{5,}")
_RUN_OF_MARKS: Final = re.compile(r"[!?]{2,}|([！？.。,，;；:…—–~])\1+")
_PLAIN_NUMBER: Final = re.compile(r"[\d.,]*\d")
_SHORTCODE: Final = re.compile(r":[a-z][a-z0-9_+-]*:[.,!?]*")
_LEADING_MARKS: Final = re.compile(r"^[!?,;:]+(?=\w)")
_ESCAPED_SPACE: Final = re.compile(r"(?<=[^\s\\{}$])\\[nrt]")
"""A line end that somebody escaped twice."""
_DOLLARS: Final = re.compile(r"\$")
_LATEX: Final = re.compile(r"\\(?:[A-Za-z]+|.)")
_COMPATIBLE: Final = re.compile(
    "[\uff01-\uff5e\uff66-\uff9f\U0001d400-\U0001d7ff\ufb00-\ufb06\u2460-\u24ff\u2160-\u217f\u2103\u2109\u2102-\u2102\u210a-\u2115"
    "\u2119-\u211d\u2124-\u2134\ufb50-\ufefc\u3200-\u33ff]"
)
_WIDE_MARKS: Final = frozenset("，！？：；（）")


@dataclass(slots=True)
class Reading:
    """`starts[i]`, `ends[i]`: the input span of `text[i]`. Code points of one replacement share their span."""

    text: str
    starts: list[int]
    ends: list[int]

    def say(self, start: int, end: int, spoken: str) -> None:
        """`text[start:end]`, which is not empty, becomes `spoken`, all of it from the same place."""
        self.rewrite([(start, end, spoken)])

    def rewrite(self, edits: Iterable[tuple[int, int, str]]) -> None:
        """Several of these at once, ascending and apart from each other."""
        text: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        at = 0
        for start, end, spoken in edits:
            text += (self.text[at:start], spoken)
            starts += self.starts[at:start] + [self.starts[start]] * len(spoken)
            ends += self.ends[at:start] + [self.ends[end - 1]] * len(spoken)
            at = end
        if at:
            text.append(self.text[at:])
            self.starts, self.ends = starts + self.starts[at:], ends + self.ends[at:]
            self.text = "".join(text)

    def replace(self, pattern: re.Pattern[str], spoken: Callable[[re.Match[str]], str]) -> None:
        self.rewrite(
            [
                (match.start(), match.end(), meant)
                for match in pattern.finditer(self.text)
                if (meant := spoken(match)) != match.group()
            ]
        )

    def trim(self) -> None:
        """Single spaces inside, none at the ends."""
        if " " in self.text:
            text = self.text
            begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
            self.keep(index for index in range(begin, end) if text[index] != " " or text[index - 1] != " ")

    def keep(self, wanted: Iterable[int]) -> None:
        """Only the code points at `wanted`, ascending."""
        indices = list(wanted)
        self.text = "".join(self.text[index] for index in indices)
        self.starts = [self.starts[index] for index in indices]
        self.ends = [self.ends[index] for index in indices]


def is_plain(text: str, *, has_text_normalizer: bool) -> bool:
    """It can be spoken as it is: no look is needed at what it might be."""
    if text.isascii() and text.isalpha():
        return text not in TEXT_EMOTICONS and (
            len(text) < 6 or (len(text) < 24 and _RUN_OF_LETTERS.search(text) is None)
        )
    if len(text) > 23:
        return False
    return bool(_PLAIN.fullmatch(text) or (has_text_normalizer and _SIMPLE_NUMBER.fullmatch(text)))


def read_word(reading: Reading, *, before: str, is_english: bool, has_text_normalizer: bool) -> None:
    """Changes `reading` into what is to be spoken; empty where that is nothing.

    `before` is the last code point spoken before the word ("" at a beginning).
    """
    _compose(reading)
    text = reading.text
    if _SHORTCODE.fullmatch(text) or EMOTICON.fullmatch(text) or text.rstrip("!.,?") in TEXT_EMOTICONS:
        reading.keep([])
        return
    if not any(char.isalnum() for char in text):
        _read_marks(reading, before, is_english=is_english, has_text_normalizer=has_text_normalizer)
        return
    start, end = _core(text)
    core = text[start:end]
    if _read_address(reading, start, end, is_english=is_english):
        return
    if is_english and core.lower() in SPOKEN_NAMES:
        reading.say(start, end, SPOKEN_NAMES[core.lower()])
        return
    _strip_markup(reading, is_english=is_english)
    if not reading.text:
        return
    if is_english:
        _read_inner_marks(reading, has_text_normalizer=has_text_normalizer)
    reading.replace(_LEADING_MARKS, lambda match: "")
    reading.replace(_RUN_OF_LETTERS, lambda match: match.group(1) * 3)
    reading.replace(_RUN_OF_MARKS, _one_mark)
    reading.trim()


def _one_mark(match: re.Match[str]) -> str:
    char = match.group()[0]
    if char in "!?":
        return "?" if "?" in match.group() else "!"
    if char == ".":
        return "…"
    if char in "—–~":
        return "—"
    return char


def _compose(reading: Reading) -> None:
    """Plain forms of typographic marks, compatibility letters and composed accents, one cluster at a time."""
    text = reading.text
    if text.isascii():
        return
    reading.text = text = text.translate(TYPOGRAPHIC)
    if _COMPATIBLE.search(text):
        reading.replace(
            _COMPATIBLE,
            lambda match: _compatible(match.group()),
        )
        text = reading.text
    if not unicodedata.is_normalized("NFC", text) or any(map(unicodedata.combining, text)):
        bases = [index for index, char in enumerate(text) if index == 0 or not unicodedata.combining(char)]
        edits: list[tuple[int, int, str]] = []
        for start, end in pairwise([*bases, len(text)]):
            cluster = text[start:end]
            composed = _without_scribble(unicodedata.normalize("NFC", cluster))
            if composed != cluster:
                edits.append((start, end, composed))
        reading.rewrite(edits)


def _compatible(char: str) -> str:
    if char in _WIDE_MARKS:
        return char
    plain = unicodedata.normalize("NFKC", char)
    return f" {plain} " if "\u2460" <= char <= "\u24ff" or "\u3200" <= char <= "\u33ff" else plain


_ACCENTS: Final = frozenset(
    "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0323\u0327\u0328\u0331"
)


def _without_scribble(cluster: str) -> str:
    """A letter with what languages put on it; marks piled up for looks go."""
    base = cluster[0]
    if script_of(base) not in (None, "Latin"):
        return cluster
    kept = [mark for mark in cluster[1:] if mark in _ACCENTS or not unicodedata.combining(mark)]
    return base + "".join(kept[:2]) if base.isalpha() else base


def _core(text: str) -> tuple[int, int]:
    """Where the word itself begins and ends between quotes, brackets and punctuation."""
    start, end = 0, len(text)
    while start < end and not (text[start].isalnum() or text[start] in "/~.\\@#$€£+-<_¯"):
        start += 1
    while end > start and not (text[end - 1].isalnum() or text[end - 1] in "/+#%°_"):
        end -= 1
    return start, end


# ---- marks alone


def _read_marks(reading: Reading, before: str, *, is_english: bool, has_text_normalizer: bool) -> None:
    text = reading.text
    is_between = before.isalnum() or (bool(before) and before in CLOSERS) or before in ("%", "°")
    if text in ("$", "€", "£", "¥", "#") and not before.isdigit():
        reading.keep([])
    elif text in ("№", "§"):
        if is_english:
            reading.say(0, 1, ENGLISH[text])
    elif text in ARROWS:
        reading.say(0, len(text), ("to" if is_english else ",") if is_between else "")
    elif text in COMMA_ALONE or set(text) <= set("|"):
        reading.say(0, len(text), "," if is_between else "")
    elif text.strip("-–—") == "":
        if len(text) == 1 and text == "-" and before.isdigit():
            return
        reading.say(0, len(text), "—" if is_between else "")
    elif text in ("*", "∗", "·", "⋅") and before.isdigit() and is_english:
        reading.say(0, len(text), "times")
    elif text in SILENT_ALONE and not is_between:
        reading.keep([])
    elif (text in MATH or text in ENGLISH) and text not in ("*", "/"):
        if not is_between:
            reading.keep([])
        elif is_english and text in ENGLISH and not (has_text_normalizer and len(text) == 1):
            reading.say(0, len(text), ENGLISH[text])
    else:
        _keep_punctuation(reading)


def _keep_punctuation(reading: Reading) -> None:
    """Of a word of marks, its punctuation: nothing else can be heard."""
    marks = SENTENCE_MARKS | CLAUSE_MARKS | ELLIPSES | CLOSERS | frozenset('."(（「『《〈【“«')
    text = reading.text
    heard = [index for index, char in enumerate(text) if char in marks and char not in "{}[]>"]
    if len(heard) < len(text) or len(text) > 3:
        odd = [char for char in text if char not in marks]
        if odd and len(odd) * 2 >= len(text):
            reading.keep([])
            return
    reading.keep(heard)
    reading.replace(_RUN_OF_MARKS, _one_mark)


# ---- addresses


def _read_address(reading: Reading, start: int, end: int, *, is_english: bool) -> bool:
    core = reading.text[start:end]
    if len(core) < 3:
        return False
    spoken: str | None = None
    scheme = _SCHEME.match(core)
    if scheme is not None:
        rest = core[scheme.end() :]
        spoken = _email(rest, is_english) if _EMAIL.fullmatch(rest) else _url(rest, is_english)
    elif "@" in core and _EMAIL.fullmatch(core):
        spoken = _email(core, is_english)
    elif "." in core and _is_domain(core):
        spoken = _url(core, is_english)
    elif is_english and ("/" in core or "\\" in core) and _is_path(core):
        spoken = _path(core)
    elif is_english and "." in core and _is_file(core):
        spoken = _dotted(core.replace("_", " "))
    if spoken is None:
        return False
    reading.say(start, end, spoken)
    marks = [
        index
        for index, char in enumerate(reading.text)
        if start <= index < start + len(spoken) or char not in "*_~`<>{}\\"
    ]
    reading.keep(marks)
    return True


def _is_domain(core: str) -> bool:
    match = _DOMAIN.match(core)
    if match is None:
        return False
    ending = match.group(1)
    if core.lower().startswith("www."):
        return True
    if ending.lower() not in TOP_LEVEL_DOMAINS or not (ending.islower() or core.isupper()):
        return False
    return match.end() < len(core) or ending not in DOUBTFUL_DOMAINS


def _dotted(text: str) -> str:
    return " ".join(text.replace(".", " dot ").split())


def _url(address: str, is_english: bool) -> str:
    """The host, and a short plain path; nobody listens to a query."""
    head = re.split(r"[?#]", address, maxsplit=1)[0]
    host, _, path = head.partition("/")
    host = host.rpartition("@")[2]
    if host.lower().startswith("www."):
        host = host[4:]
    host = re.sub(r":\d+$", "", host)
    if not is_english:
        return host
    parts = [part for part in path.split("/") if part]
    if len(path) > 24 or len(parts) > 2 or not re.fullmatch(r"[A-Za-z0-9_./-]*", path):
        parts = []
    spoken = _dotted(host)
    for part in parts:
        spoken += " slash " + _dotted(part.replace("_", " ").replace("-", " "))
    return spoken.strip()


def _email(address: str, is_english: bool) -> str:
    if not is_english:
        return address
    local, _, host = address.partition("@")
    named = local.replace("_", " underscore ").replace("-", " dash ").replace("+", " plus ").replace(".", " dot ")
    return " ".join(f"{named} at {host.replace('.', ' dot ')}".split())


def _is_file(core: str) -> bool:
    match = _FILE.fullmatch(core)
    if match is None or match.group(1).lower() not in FILE_ENDINGS or core[0].isdigit():
        return False
    return any(len(part) > 1 for part in core.split("."))


def _is_path(core: str) -> bool:
    if _ROOTED.match(core):
        return True
    parts = re.split(r"[/\\]", core)
    if any(not re.fullmatch(r"[\w.@+-]*", part) for part in parts):
        return False
    if "\\" in core and len(parts) < 3 and not _is_file(parts[-1]):
        return False
    return "\\" in core or _is_file(parts[-1]) or (len(parts) > 3 and any("_" in part or "." in part for part in parts))


def _path(core: str) -> str:
    spoken = core.replace("\\", " backslash ").replace("/", " slash ").replace("~", " home ").replace("_", " ")
    spoken = re.sub(r"\.{2}(?=\s)", " dot dot ", spoken)
    return " ".join(re.sub(r":(?=\s)", " ", spoken).replace(".", " dot ").split())


# ---- marks inside a word


def _strip_markup(reading: Reading, *, is_english: bool) -> None:
    """Emphasis, strike-through, code ticks, escapes, braces, a hash or at-sign in front."""
    if _MARKUP.isdisjoint(reading.text):
        return
    reading.replace(_ESCAPED_SPACE, lambda match: " ")
    reading.replace(_LATEX, lambda match: match.group()[1:] if match.group()[1:].isalnum() else " ")
    if len(reading.text) > 2 and reading.text[0] == "$" == reading.text.rstrip(".,;:!?")[-1:]:
        reading.replace(_DOLLARS, lambda match: "")
    text = reading.text
    reading.rewrite(
        [
            (index, index + 1, spoken)
            for index, char in enumerate(text)
            if char in _MARKUP and (spoken := _instead_of(text, index, is_english=is_english)) != char
        ]
    )
    reading.trim()


_LOOK_CHARS: Final = 32
"""How far a mark's neighbourhood reaches."""
_MARKUP: Final = frozenset("*_~`\\{}#@|$=")


def _instead_of(text: str, index: int, *, is_english: bool) -> str:
    """What the mark `text[index]` becomes."""
    mark = text[index]
    before, after = text[max(0, index - _LOOK_CHARS) : index], text[index + 1 : index + 1 + _LOOK_CHARS]
    is_between_words = before[-1:].isalnum() and after[:1].isalnum()
    is_between_digits = before[-1:].isdigit() and after[:1].isdigit()
    if mark == "*":
        return (" times " if is_english else "×") if is_between_digits else ""
    if mark in "_|`":
        return " " if is_between_words else ""
    if mark in "{}":
        return " " if before and after else ""
    if mark == "~":
        if is_between_words:
            return "-" if is_between_digits else " "
        return "about " if is_english and after[:1].isdigit() and not before.strip("\"'(") else ""
    if mark == "@":
        return "at " if is_english and after and not before else mark
    if mark == "#":
        return mark if after[:1].isdigit() or before[-1:].isalnum() else ""
    if mark == "$":
        return mark if after[:1].isdigit() or _PLAIN_NUMBER.fullmatch(before) else ""
    if mark == "=":
        return "" if not before.strip("=") or not after.strip("=.,;:!?") else mark
    return ""


_INNER: Final = re.compile(r"(?<=\w)(?:->|=>|→)(?=\w)|\^[23](?!\w)|(?<=\w)\^(?=\w)")
_UNREAD: Final = re.compile(r"(?<=\w)[&+=<>×÷](?=\w)|°[CF]|[%°²³½¼¾±€£]")


def _read_inner_marks(reading: Reading, *, has_text_normalizer: bool) -> None:
    powers = {"^2": "²", "^3": "³", "^": " to the "}
    if not has_text_normalizer:
        powers |= {"^2": " squared", "^3": " cubed"}
    reading.replace(_INNER, lambda match: powers.get(match.group(), " to "))
    if not has_text_normalizer:
        text = reading.text
        reading.rewrite((start, end, _apart(text, start, end, words)) for start, end, words in say_numbers(text))
        text = reading.text
        reading.replace(_UNREAD, lambda match: _apart(text, match.start(), match.end(), ENGLISH[match.group()]))


def _apart(text: str, start: int, end: int, words: str) -> str:
    """`words` in the place of `text[start:end]`, with space towards letters and digits."""
    lead = text[start - 1 : start].isalnum() and words[:1].isalnum()
    trail = text[end : end + 1].isalnum() and words[-1:].isalnum()
    return f"{' ' * lead}{words}{' ' * trail}"
