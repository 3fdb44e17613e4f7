"""English numbers in words, for a family that cannot read figures. One word at a time; other languages keep figures.

Cardinals, decimals, ordinals, years, amounts of money, percentages, times, dates in ISO form, fractions, ranges and
anything else digit by digit. Pure functions.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.text.listed import listed

_ONES: Final = listed(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
    """
)
_TENS: Final = listed("- - twenty thirty forty fifty sixty seventy eighty ninety")
_SCALES: Final = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred"))
_ORDINALS: Final = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
_MONTHS: Final = listed(
    "January February March April May June July August September October November December",
)
_CURRENCIES: Final[dict[str, tuple[str, str, str, str]]] = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "sen", "sen"),
}
_MAX_CARDINAL_DIGITS: Final = 15

_ISO_DATE: Final = re.compile(r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
_MONEY: Final = re.compile(r"([$€£¥])(\d+(?:,\d+)*)(?:\.(\d+))?([kKmMbB](?![A-Za-z]))?")
_TIME: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_ORDINAL: Final = re.compile(r"(\d+(?:,\d+)*)(?:st|nd|rd|th)", re.IGNORECASE)
_FRACTION: Final = re.compile(r"(\d{1,2})/(\d{1,2})")
_DOTTED: Final = re.compile(r"\d+(?:\.\d+){2,}")
_DECIMAL: Final = re.compile(r"(\d+(?:,\d+)*)\.(\d+)")
_GROUPED: Final = re.compile(r"\d{1,3}(?:,\d{3})+")
_PLURAL_YEAR: Final = re.compile(r"(1[1-9]\d0|20\d0)'?s")

NUMBER: Final = re.compile(
    r"(?<![A-Za-z\d])[+\-−](?=\d)"
    r"|\d{4}-\d{2}-\d{2}(?!\d)"
    r"|[$€£¥]\d+(?:,\d+)*(?:\.\d+)?(?:[kKmMbB](?![A-Za-z]))?"
    r"|\d{1,2}:\d{2}(?::\d{2})?(?!\d)"
    r"|(?:1[1-9]\d0|20\d0)'?s(?![A-Za-z])"
    r"|\d+(?:,\d+)*(?:st|nd|rd|th)(?![A-Za-z])"
    r"|(?<!/)[1-9]\d?/[1-9]\d?(?![\d/])"
    r"|\d+(?:\.\d+){2,}"
    r"|\d+(?:,\d+)*\.\d+"
    r"|\d{1,3}(?:,\d{3})+(?!\d)"
    r"|\d+"
)
"""A figure inside a word."""

_BETWEEN: Final = re.compile(r"(?<=\d)[–/-](?=\d)")


def cardinal(number: int) -> str:
    """Words for 0 … 10**15 - 1."""
    if number < 20:
        return _ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")
    for scale, name in _SCALES:
        if number >= scale:
            count, rest = divmod(number, scale)
            return f"{cardinal(count)} {name}" + (f" {cardinal(rest)}" if rest else "")
    raise AssertionError("unreachable: every number of at least 100 has a scale")


def ordinal(number: int) -> str:
    head, separator, last = re.fullmatch(r"(.*?)([ -]?)(\w+)", cardinal(number)).groups()  # type: ignore[union-attr]
    if last in _ORDINALS:
        last = _ORDINALS[last]
    elif last.endswith("y"):
        last = last[:-1] + "ieth"
    else:
        last += "th"
    return f"{head}{separator}{last}"


def digits(text: str) -> str:
    return " ".join(_ONES[int(char)] for char in text)


def whole(text: str) -> str:
    """An integer as it stands: with a leading zero or beyond words, digit by digit."""
    plain = text.replace(",", "")
    if len(plain) > _MAX_CARDINAL_DIGITS or (len(plain) > 1 and plain[0] == "0"):
        return digits(plain)
    return cardinal(int(plain))


def year(number: int) -> str:
    """1100 … 2099 as years are said."""
    century, rest = divmod(number, 100)
    if number % 1000 < 10:
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {cardinal(rest) if rest > 9 else 'oh ' + _ONES[rest]}"


def _money(sign: str, amount: str, minor: str | None, scale: str | None) -> str:
    one, many, cent, cents = _CURRENCIES[sign]
    if scale:
        name = {"k": "thousand", "m": "million", "b": "billion"}[scale.lower()]
        return f"{whole(amount)}{f' point {digits(minor)}' if minor else ''} {name} {many}"
    count = int(amount.replace(",", "") or "0") if len(amount) <= _MAX_CARDINAL_DIGITS else 2
    if minor is None or not minor.strip("0"):
        return f"{whole(amount)} {one if count == 1 else many}"
    if len(minor) != 2:
        return f"{whole(amount)} point {digits(minor)} {many}"
    small = f"{cardinal(int(minor))} {cent if int(minor) == 1 else cents}"
    return small if count == 0 else f"{whole(amount)} {one if count == 1 else many} and {small}"


def _time(hours: str, minutes: str, seconds: str | None) -> str:
    said = cardinal(int(hours))
    if minutes != "00":
        said += f" {'oh ' + _ONES[int(minutes)] if minutes[0] == '0' else cardinal(int(minutes))}"
    elif seconds is None:
        said += " o'clock" if 1 <= int(hours) <= 12 else " hundred"
    if seconds is not None:
        said += f" and {cardinal(int(seconds))} seconds"
    return said


def _fraction(top: int, bottom: int) -> str | None:
    if not 0 < top < bottom or bottom < 2 or bottom > 16:
        return None
    name = {2: "half", 4: "quarter"}.get(bottom, ordinal(bottom))
    plural = {"half": "halves"}.get(name, f"{name}s")
    return f"{cardinal(top)} {name if top == 1 else plural}"


def say_figure(text: str) -> str:
    """Words for one match of `NUMBER`."""
    if text in "+-−":
        return "plus " if text == "+" else "minus "
    if found := _ISO_DATE.fullmatch(text):
        return f"{_MONTHS[int(found[2]) - 1]} {ordinal(int(found[3]))}, {year(int(found[1]))}"
    if found := _MONEY.fullmatch(text):
        return _money(*found.groups())
    if found := _TIME.fullmatch(text):
        return _time(*found.groups())
    if found := _PLURAL_YEAR.fullmatch(text):
        said = year(int(found[1]))
        return f"{said[:-1]}ies" if said.endswith("y") else f"{said}s"
    if found := _ORDINAL.fullmatch(text):
        plain = found[1].replace(",", "")
        return ordinal(int(plain)) if len(plain) <= _MAX_CARDINAL_DIGITS else digits(plain)
    if found := _FRACTION.fullmatch(text):
        return _fraction(int(found[1]), int(found[2])) or f"{whole(found[1])} {whole(found[2])}"
    if _DOTTED.fullmatch(text):
        return " point ".join(whole(part) for part in text.split("."))
    if found := _DECIMAL.fullmatch(text):
        return f"{whole(found[1])} point {digits(found[2])}"
    if _GROUPED.fullmatch(text):
        return whole(text)
    if text.isdecimal() and len(text) == 4 and 1100 <= int(text) <= 2099:
        return year(int(text))
    if text.isdecimal():
        return whole(text)
    return " ".join(whole(part) if part.isdecimal() else part for part in re.split(r"[^\d]+", text) if part)


def say_numbers(text: str) -> list[tuple[int, int, str]]:
    """(start, end, words) for every figure and range mark in a word, ascending."""
    if not any(char.isdecimal() and char.isascii() for char in text):
        return []
    said = [(match.start(), match.end(), say_figure(match.group())) for match in NUMBER.finditer(text)]
    if "/" in text:  # a date: "03/04" has no nought to say
        said = [
            (start, end, cardinal(int(text[start:end])) if text[start:end].isdecimal() and end - start < 3 else words)
            for start, end, words in said
        ]
    taken = [False] * len(text)
    for start, end, _ in said:
        taken[start:end] = [True] * (end - start)
    is_telephone = ("/" not in text and len(re.findall(r"\d", text)) > 6) or text.count("-") > 1
    for match in _BETWEEN.finditer(text):
        if not taken[match.start()]:
            words = " slash " if match.group() == "/" else ", " if is_telephone else " to "
            said.append((match.start(), match.end(), words))
    if is_telephone and "-" in text:
        said = [
            (start, end, digits(text[start:end]) if text[start:end].isdecimal() else words)
            for start, end, words in said
        ]
    return sorted(said)
