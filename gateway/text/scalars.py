"""Code units into Unicode scalar values, however a transport cut them."""

from __future__ import annotations

REPLACEMENT = "\ufffd"


def _is_high(char: str) -> bool:
    return "\ud800" <= char <= "\udbff"


def _is_low(char: str) -> bool:
    return "\udc00" <= char <= "\udfff"


class ScalarJoiner:
    """Joins surrogate halves that JSON strings of successive messages cut apart.

    A pair becomes its code point, in one string or over two; a lone half becomes U+FFFD. Text positions of an
    utterance count what comes out of here.
    """

    def __init__(self) -> None:
        self._high: str | None = None

    def feed(self, text: str) -> str:
        """Everything that is certain; a trailing high half waits for its partner."""
        if self._high is None and text.isascii():
            return text
        joined: list[str] = []
        for char in text:
            if self._high is not None:
                if _is_low(char):
                    code = 0x10000 + ((ord(self._high) - 0xD800) << 10) + (ord(char) - 0xDC00)
                    joined.append(chr(code))
                    self._high = None
                    continue
                joined.append(REPLACEMENT)
                self._high = None
            if _is_high(char):
                self._high = char
            elif _is_low(char):
                joined.append(REPLACEMENT)
            else:
                joined.append(char)
        return "".join(joined)

    def finish(self) -> str:
        """What a half that never met its partner becomes; the joiner may be fed on."""
        if self._high is None:
            return ""
        self._high = None
        return REPLACEMENT
