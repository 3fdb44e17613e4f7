"""Code units and bytes into Unicode scalar values, however a transport cut them."""

from __future__ import annotations

import codecs

from gateway.errors import ClientError, ErrorCode

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


class Utf8Decoder:
    """UTF-8 in pieces (stdin, msgpack bin): a character's bytes may arrive in separate pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._received_bytes = 0

    def feed(self, data: bytes) -> str:
        """The characters that are complete. Raises ClientError BAD_VALUE at the first byte that is not UTF-8."""
        return self._decode(data, is_final=False)

    def finish(self) -> str:
        """Ends the stream. Raises ClientError BAD_VALUE where a character was left unfinished."""
        return self._decode(b"", is_final=True)

    def _decode(self, data: bytes, *, is_final: bool) -> str:
        pending = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(data, is_final)
        except UnicodeDecodeError as error:
            position = self._received_bytes - pending + error.start
            self._decoder.reset()
            self._received_bytes += len(data)
            what = "ends inside a character" if is_final else f"has the byte 0x{error.object[error.start]:02x}"
            raise ClientError(ErrorCode.BAD_VALUE, f"text is not UTF-8: it {what} at byte {position}") from error
        self._received_bytes += len(data)
        return text
