"""What stands between `<` and `>`: SSML, Cartesia's elements, HTML remnants. Reading only, no state.

SSML 1.1 (W3C), Cartesia's `<emotion value>`, `<speed ratio>`, `<volume ratio>`, `<break time>`, `<spell>`, Azure's
`mstts:express-as`, Polly's `amazon:effect`; bare cues such as `<laugh>`.
"""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from gateway.text.listed import listed
from gateway.text.vocabulary import (
    ACTIONS,
    BREAK_STRENGTHS_S,
    CUES,
    EMOTION_WORDS,
    EMPHASIS_VOLUMES,
    LIMITS,
    PITCHES_SEMITONES,
    RATES,
    STYLE_WORDS,
    VOLUMES,
    Effect,
)

Capture = Literal["substitute", "phonemes", "spell", "hidden"]
ElementBreak = Literal["space", "line", "item", "paragraph"]

_ELEMENT: Final = re.compile(
    r"\s*(/?)\s*([A-Za-z][\w:.-]*)((?:\s+[\w:.-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'=<>`]+))?)*)\s*(/?)\s*"
)
_ATTRIBUTE: Final = re.compile(r"([\w:.-]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'=<>`]+)))?")

_BLOCKS: Final = frozenset(
    listed(
        """
    p div section article header footer main nav aside h1 h2 h3 h4 h5 h6 ul ol dl table thead tbody tfoot
    blockquote pre details summary figure figcaption form fieldset html body head title hr center speak
    paragraph
    """
    )
)
_ITEMS: Final = frozenset(listed("li tr dt dd option caption summary s sentence"))
_CELLS: Final = frozenset(listed("td th"))
_INLINE: Final = frozenset(
    listed(
        """
    a abbr acronym b bdi bdo big button cite code data del dfn em font i img input ins kbd label link mark
    meta meter output picture progress q rp rt ruby samp select small source span strike strong sup tt u var
    video wbr audio nobr iframe svg path canvas object param track area map base embed col colgroup template
    slot time w token lexicon lookup metadata desc token
    """
    )
)
_WITH_FLAGS: Final = frozenset(
    listed("input button option video audio details script ol iframe track form select textarea img style dialog")
)
"""HTML that may have attributes without a value; "a <b and c> d" has none."""
_HIDDEN: Final = frozenset(listed("script style"))
_THOUGHTS: Final = frozenset(listed("think thinking thought thoughts reasoning scratchpad analysis reflection"))
"""What a reasoning model writes for itself; nobody wants to hear it."""
_SILENT_SSML: Final = frozenset(listed("lang voice mstts:silence mstts:viseme mark seq par media"))

ARPABET: Final[dict[str, str]] = {
    "AA": "ɑ", "AE": "æ", "AH": "ʌ", "AO": "ɔ", "AW": "aʊ", "AX": "ə", "AY": "aɪ", "B": "b", "CH": "tʃ", "D": "d",
    "DH": "ð", "EH": "ɛ", "ER": "ɝ", "EY": "eɪ", "F": "f", "G": "ɡ", "HH": "h", "IH": "ɪ", "IY": "i", "JH": "dʒ",
    "K": "k",
    "L": "l", "M": "m", "N": "n", "NG": "ŋ", "OW": "oʊ", "OY": "ɔɪ", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t",
    "TH": "θ", "UH": "ʊ", "UW": "u", "V": "v", "W": "w", "Y": "j", "Z": "z", "ZH": "ʒ",
}  # fmt: skip
"""CMU symbols, which ElevenLabs' phoneme element takes, to IPA."""


@dataclass(frozen=True, slots=True)
class Element:
    """What an element does where it stands."""

    name: str
    is_closing: bool = False
    is_empty: bool = False
    """`<x/>`: it has no content, so nothing to put back behind it."""
    effects: tuple[Effect, ...] = ()
    capture: Capture | None = None
    """Its content is taken whole, up to its closing tag."""
    replacement: str = ""
    """The alias of `sub`, the IPA of `phoneme`."""
    gap: ElementBreak | None = None
    unknown: tuple[str, ...] = ()
    """What of it is not understood, as it is to be reported."""


@dataclass(frozen=True, slots=True)
class _Tag:
    name: str
    attributes: dict[str, str] = field(default_factory=dict)


def read_element(body: str, *, is_after_word: bool) -> Element | None:
    """The element that `<body>` is; None where it is text that only looks like one ("5<6>2", "<your name>")."""
    if body.startswith("!") or (body.startswith("?") and body.endswith("?")):
        is_declaration = body.startswith(("!--", "!DOCTYPE", "!doctype", "![CDATA[", "?xml"))
        return Element(name=body[:3]) if is_declaration else None
    match = _ELEMENT.fullmatch(body)
    if match is None:
        return None
    slash, name, attribute_text, is_empty = match.group(1), match.group(2).lower(), match.group(3), bool(match.group(4))
    attributes: dict[str, str] = {}
    is_bare = False
    for found in _ATTRIBUTE.finditer(attribute_text):
        value = next((group for group in found.groups()[1:] if group is not None), None)
        is_bare = is_bare or value is None
        attributes[found.group(1).lower()] = html.unescape(value or "")
    tag = _Tag(name, attributes)
    if slash:
        if attributes:
            return None
        return _closing(name, is_after_word=is_after_word)
    known = _known(tag, is_empty=is_empty)
    if known is not None:
        if is_bare and name not in _WITH_FLAGS:
            return None
        return known
    if is_bare or is_after_word:
        return None
    return Element(name, is_empty=is_empty, unknown=(name,))


def _is_structure(name: str) -> bool:
    return (
        name in _BLOCKS or name in _ITEMS or name == "br" or name in _CELLS or name in _INLINE or name in _SILENT_SSML
    )


def _gap(name: str) -> ElementBreak | None:
    if name in _BLOCKS:
        return "paragraph"
    if name in _ITEMS:
        return "item"
    if name == "br":
        return "line"
    return "space" if name in _CELLS else None


_STATEFUL: Final = frozenset(
    listed(
        """
    emotion speed volume pitch style prosody emphasis mstts:express-as amazon:effect amazon:emotion sub
    phoneme say-as spell spelling break pause whisper whispers sing shout script style
    """
    )
)


def _closing(name: str, *, is_after_word: bool) -> Element | None:
    if name in _STATEFUL or name in _THOUGHTS or _is_structure(name) or name in ACTIONS or name in CUES:
        return Element(name, is_closing=True, gap=_gap(name))
    del is_after_word  # a closing tag of an unknown element is markup wherever it stands
    return Element(name, is_closing=True, unknown=(name,))


def _known(tag: _Tag, *, is_empty: bool) -> Element | None:
    name, attributes = tag.name, tag.attributes
    if name in _THOUGHTS:
        return Element(name, capture=None if is_empty else "hidden", is_empty=is_empty)
    if name in _HIDDEN and not (name == "style" and {"value", "name"} & attributes.keys()):
        return Element(name, capture=None if is_empty else "hidden", is_empty=is_empty)
    if name in ("break", "pause"):
        return _break(name, attributes)
    if name == "prosody":
        return _prosody(attributes, is_empty=is_empty)
    if name in ("emotion", "amazon:emotion", "style", "mstts:express-as", "amazon:effect"):
        return _manner(tag, is_empty=is_empty)
    if name in ("speed", "volume", "pitch"):
        return _ratio(tag, is_empty=is_empty)
    if name == "emphasis":
        level = attributes.get("level", "moderate").lower()
        if level not in EMPHASIS_VOLUMES:
            return Element(name, is_empty=is_empty, unknown=(f"emphasis level={level}",))
        return Element(name, is_empty=is_empty, effects=(Effect("prosody", "volume", EMPHASIS_VOLUMES[level]),))
    if name == "sub":
        alias = attributes.get("alias", "").strip()
        return Element(
            name, is_empty=is_empty, capture="substitute" if alias and not is_empty else None, replacement=alias
        )
    if name == "phoneme":
        return _phoneme(attributes, is_empty=is_empty)
    if name in ("spell", "spelling"):
        return Element(name, is_empty=is_empty, capture=None if is_empty else "spell")
    if name == "say-as":
        how = attributes.get("interpret-as", "").lower()
        is_spelled = how in ("characters", "spell-out", "spell", "digits", "telephone", "verbatim", "letters")
        return Element(name, is_empty=is_empty, capture="spell" if is_spelled and not is_empty else None)
    if _is_structure(name):
        return Element(name, is_empty=is_empty, gap=_gap(name))
    cue = name.replace("_", " ").replace("-", " ")
    if not attributes and cue in CUES:
        return Element(name, is_empty=is_empty, effects=CUES[cue])
    return None


def _clamped(value: str, amount: float) -> Effect:
    low, high = LIMITS[value]
    return Effect("prosody", value, min(max(amount, low), high))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def duration_s(text: str) -> float | None:
    """Seconds of "1s", "500ms", "0.5"; None where it is none."""
    text = text.strip().lower()
    for unit, scale in (("ms", 0.001), ("s", 1.0), ("", 1.0)):
        if text.endswith(unit):
            number = _number(text[: len(text) - len(unit)])
            return None if number is None or number < 0 else number * scale
    return None


def _break(name: str, attributes: dict[str, str]) -> Element:
    if "time" in attributes or "duration" in attributes:
        written = attributes.get("time", attributes.get("duration", ""))
        seconds = duration_s(written)
        if seconds is None:
            return Element(name, is_empty=True, unknown=(f"{name} time={written}",))
        return Element(name, is_empty=True, effects=(_clamped("break", seconds),))
    strength = attributes.get("strength", "medium").lower()
    if strength not in BREAK_STRENGTHS_S:
        return Element(name, is_empty=True, unknown=(f"{name} strength={strength}",))
    seconds = BREAK_STRENGTHS_S[strength]
    return Element(name, is_empty=True, effects=(_clamped("break", seconds),) if seconds else ())


def _rate(text: str) -> float | None:
    text = text.strip().lower()
    if text in RATES:
        return RATES[text]
    if text.endswith("%"):
        percent = _number(text[:-1])
        if percent is None:
            return None
        return 1 + percent / 100 if text[0] in "+-" else percent / 100
    return _number(text)


def _pitch(text: str) -> float | None:
    text = text.strip().lower()
    if text in PITCHES_SEMITONES:
        return PITCHES_SEMITONES[text]
    if text.endswith("st"):
        return _number(text[:-2])
    if text.endswith("%"):
        percent = _number(text[:-1])
        if percent is None or percent <= -100:
            return None
        return 12 * math.log2(1 + percent / 100 if text[0] in "+-" else max(percent, 1) / 100)
    return None


def _volume(text: str) -> float | None:
    text = text.strip().lower()
    if text in VOLUMES:
        return VOLUMES[text]
    if text.endswith("db"):
        decibels = _number(text[:-2])
        return None if decibels is None or decibels > 40 else float(10 ** (decibels / 20))
    if text.endswith("%"):
        percent = _number(text[:-1])
        if percent is None:
            return None
        return 1 + percent / 100 if text[0] in "+-" else percent / 100
    number = _number(text)
    return None if number is None else number / 100


def _prosody(attributes: dict[str, str], *, is_empty: bool) -> Element:
    effects: list[Effect] = []
    unknown: list[str] = []
    for key, value, read in (("rate", "speed", _rate), ("pitch", "pitch", _pitch), ("volume", "volume", _volume)):
        if key in attributes:
            amount = read(attributes[key])
            if amount is None or (value == "speed" and amount <= 0):
                unknown.append(f"prosody {key}={attributes[key]}")
            else:
                effects.append(_clamped(value, amount))
    return Element("prosody", is_empty=is_empty, effects=tuple(effects), unknown=tuple(unknown))


def _manner(tag: _Tag, *, is_empty: bool) -> Element:
    written = next((tag.attributes[key] for key in ("value", "name", "style", "type") if key in tag.attributes), "")
    word = written.strip().lower()
    if word in STYLE_WORDS and tag.name != "emotion":
        return Element(tag.name, is_empty=is_empty, effects=(Effect("style", STYLE_WORDS[word]),))
    if word in EMOTION_WORDS:
        return Element(tag.name, is_empty=is_empty, effects=(Effect("emotion", EMOTION_WORDS[word]),))
    if word in STYLE_WORDS:
        return Element(tag.name, is_empty=is_empty, effects=(Effect("style", STYLE_WORDS[word]),))
    return Element(tag.name, is_empty=is_empty, unknown=(f"{tag.name}:{word}" if word else tag.name,))


def _ratio(tag: _Tag, *, is_empty: bool) -> Element:
    written = next((tag.attributes[key] for key in ("ratio", "value", "level") if key in tag.attributes), "")
    if tag.name == "pitch":
        amount = _pitch(written)
        if amount is None:
            amount = _number(written)
    elif tag.name == "speed":
        amount = _rate(written)
    else:
        amount = VOLUMES.get(written.strip().lower(), _number(written))
    if amount is None or (tag.name == "speed" and amount <= 0):
        return Element(tag.name, is_empty=is_empty, unknown=(f"{tag.name}:{written}" if written else tag.name,))
    return Element(tag.name, is_empty=is_empty, effects=(_clamped(tag.name, amount),))


def arpabet_to_ipa(text: str) -> str | None:
    """CMU symbols with stress digits to IPA; None where a symbol is not known."""
    phones: list[str] = []
    for symbol in text.split():
        stress = symbol[-1] if symbol[-1].isdigit() else ""
        base = symbol[: len(symbol) - len(stress)].upper()
        if base not in ARPABET:
            return None
        ipa = "ə" if (base, stress) == ("AH", "0") else "ɚ" if (base, stress) == ("ER", "0") else ARPABET[base]
        phones.append({"1": "ˈ", "2": "ˌ"}.get(stress, "") + ipa)
    return "".join(phones) or None


def _phoneme(attributes: dict[str, str], *, is_empty: bool) -> Element:
    alphabet, written = attributes.get("alphabet", "ipa").lower(), attributes.get("ph", "").strip()
    phonemes: str | None = written
    if alphabet in ("cmu-arpabet", "cmu", "arpabet", "x-arpabet"):
        phonemes = arpabet_to_ipa(written)
    elif alphabet != "ipa":
        phonemes = None
    if not phonemes:
        return Element(
            "phoneme", is_empty=is_empty, unknown=(f"phoneme alphabet={alphabet}" if written else "phoneme",)
        )
    return Element("phoneme", is_empty=is_empty, capture=None if is_empty else "phonemes", replacement=phonemes)
