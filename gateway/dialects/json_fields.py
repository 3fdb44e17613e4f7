"""One JSON message of a vendor, read leniently: unknown fields pass, null is absent, a wrong type is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from gateway.errors import ClientError, ErrorCode

MAX_ID_CHARS: Final = 256
MAX_DEPTH: Final = 32
"""Objects and lists inside one another. Python's own limit is met by what shows or writes a value, too late."""


class Fields:
    """Typed reading of a JSON object. Every method raises ClientError bad_value naming field and value."""

    def __init__(self, values: Mapping[str, Any], prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._values.get(name) is not None

    def text(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(name, value, "a string")

    def identifier(self, name: str) -> str | None:
        """A string that names something on this connection."""
        value = self.text(name)
        if value is not None and len(value) > MAX_ID_CHARS:
            raise ClientError(
                ErrorCode.BAD_VALUE, f"{self._prefix}{name} has {len(value):,} characters, at most {MAX_ID_CHARS}"
            )
        return value

    def flag(self, name: str) -> bool:
        """False where absent."""
        value = self._values.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self._wrong(name, value, "true or false")

    def number(self, name: str) -> float | None:
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            if math.isfinite(number):
                return number
        raise self._wrong(name, value, "a number")

    def integer(self, name: str) -> int | None:
        """An integer, also as a string of digits or a whole float, as some clients send it."""
        value = self._values.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 15:
            return int(value)
        number = self.number(name)
        if number is None:
            return None
        if number != int(number):
            raise self._wrong(name, value, "an integer")
        return int(number)

    def fields(self, name: str) -> Fields:
        """A nested object; an empty one where absent."""
        value = self._values.get(name)
        if value is None:
            return Fields({}, f"{self._prefix}{name}.")
        if isinstance(value, dict):
            return Fields(value, f"{self._prefix}{name}.")
        raise self._wrong(name, value, "an object")

    def items(self, name: str) -> list[Any]:
        """A list; empty where absent."""
        value = self._values.get(name)
        if value is None:
            return []
        if isinstance(value, list):
            return value
        raise self._wrong(name, value, "a list")

    def raw(self, name: str) -> Any:
        """The value as it came, for fields that may have several types."""
        return self._values.get(name)

    def require(self, name: str) -> str:
        """A string that must be there."""
        value = self.text(name)
        if value is None:
            raise ClientError(ErrorCode.MISSING_FIELD, f"field {self._prefix}{name} is missing")
        return value

    def _wrong(self, name: str, value: object, wanted: str) -> ClientError:
        return ClientError(ErrorCode.BAD_VALUE, f"{self._prefix}{name} is {value!r:.80}, must be {wanted}")


def read_fields(message: str | bytes, max_bytes: int) -> Fields:
    """The object of a text (or UTF-8 binary) message. Raises ClientError message_too_big or bad_message."""
    size = len(message)
    if isinstance(message, str) and size <= max_bytes < 4 * size:
        size = len(message.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise ClientError(ErrorCode.MESSAGE_TOO_BIG, f"message is {size:,} bytes, at most {max_bytes:,}")
    try:
        value = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise ClientError(ErrorCode.BAD_MESSAGE, f"not JSON: {str(error) or type(error).__name__:.200}") from None
    if not isinstance(value, dict):
        raise ClientError(ErrorCode.BAD_MESSAGE, f"a message is an object, this one is a {type(value).__name__}")
    if not _is_shallow(value):
        raise ClientError(ErrorCode.BAD_MESSAGE, f"a message nests its values at most {MAX_DEPTH} deep")
    return Fields(value)


def _is_shallow(value: dict[str, Any]) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return True
    return False


def wire(message: Mapping[str, Any]) -> str:
    """Compact JSON."""
    return json.dumps(message, separators=(",", ":"))
