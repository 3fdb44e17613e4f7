"""How symbols, emoticons and typographic marks are read. Tables only."""

from __future__ import annotations

import re
from typing import Final

from gateway.text.listed import listed

TYPOGRAPHIC: Final = str.maketrans(
    {
        **dict.fromkeys("‟«〝", "“"),
        **dict.fromkeys("»〞", "”"),
        "＂": '"',
        **dict.fromkeys("‘’‚‛ʼ＇´`", "'"),
        **dict.fromkeys("‐‑﹣－−", "-"),
        **dict.fromkeys("‒﹘", "–"),
        **dict.fromkeys("―⸺⸻", "—"),
        **dict.fromkeys("⁄∕", "/"),
        **dict.fromkeys("\u00a0\u202f\u2007", " "),
        "․": ".",
        "∶": ":",
        "⋯": "…",
    }
)
"""One code point for one: the plain form of a mark."""

ENGLISH: Final[dict[str, str]] = {
    "&": "and", "@": "at", "+": "plus", "=": "equals", "<": "less than", ">": "greater than", "≤": "at most",
    "<=": "at most", "≥": "at least", ">=": "at least", "≠": "is not", "!=": "is not", "==": "equals", "≈": "about",
    "×": "times", "÷": "divided by", "±": "plus or minus", "%": "percent", "‰": "per mille", "°": "degrees",
    "℃": "degrees Celsius", "°C": "degrees Celsius", "°F": "degrees Fahrenheit", "²": "squared", "³": "cubed",
    "½": "one half",
    "¼": "one quarter", "¾": "three quarters", "№": "number", "€": "euros", "£": "pounds", "$": "dollars", "¥": "yen",
    "∞": "infinity", "√": "the square root of", "π": "pi", "§": "section",
}  # fmt: skip
"""For a family that has no front-end of its own to read them."""

ARROWS: Final = frozenset(listed("-> --> => ==> → ⇒ ⟶ ➔ ➜ ↦"))
"""Between two words: "to"."""

SILENT_ALONE: Final = frozenset(listed("<- <-- <= ← ⇐ ↔ <-> ↓ ↑"))

COMMA_ALONE: Final = frozenset("|/•·‣▪◦¦")
"""Alone between two words these are a pause."""

MATH: Final = frozenset("+-=<>*/^%&@×÷±≤≥≠≈°√∞π½¼¾")
"""Marks that mean something between words, where a family's own front-end reads them."""

EMOTICON: Final = re.compile(
    r"""(?:
    [>}]?[:;][-'’^o]?[)(DPpbOo3/\\|*@$}{]+ | [>}]?=[-'’^]?[)(DPp]+ | 8-[)D] | [xX]D+ | </?3+ | :['’]-?[()] | \(-?[:;]
    | \^[_.\-o]?\^ | [-–]_+[-–] | [TtQ;]_+[TtQ;] | [oO0][_.][oO0] | >[_.]< | [uU][wW][uU] | ¯?\\?_?\(?_?/?¯
    | \(\^?[_.]?\^?\) | :-?[xX\#&]
    )[!.,?]*""",
    re.VERBOSE,
)

TOP_LEVEL_DOMAINS: Final = frozenset(
    listed(
        """
    com org net edu gov mil int io ai dev app co uk us de fr es it nl be ch at pl se no fi dk pt ru
    cn jp kr in br au ca nz eu info biz xyz tech cloud online store shop blog site tv fm ly me to sh
    gg cc ac
    """
    )
)

DOUBTFUL_DOMAINS: Final = frozenset(listed("me to in no it at be us de se"))
"""Also words: "done.No" is a space forgotten, unless there is more of an address."""

TEXT_EMOTICONS: Final = frozenset(listed("xD XD xDD XDD xd uwu UwU owo OwO"))

FILE_ENDINGS: Final = frozenset(
    listed(
        """
    py js ts tsx jsx html htm css json yaml yml toml md txt csv tsv pdf doc docx xls xlsx ppt pptx
    png jpg jpeg gif svg webp mp3 wav mp4 mov avi zip tar gz tgz exe dll sh bat ini cfg conf log sql
    db c h cpp hpp cc cs java kt rs rb php pl swift lua vue xml env lock ipynb onnx pt bin
    """
    )
)

SPOKEN_NAMES: Final[dict[str, str]] = {"c#": "C sharp", "f#": "F sharp", "c++": "C plus plus", ".net": "dot net"}
