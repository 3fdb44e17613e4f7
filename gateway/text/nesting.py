"""Nesting: the quotes and brackets that are open, inside which a segment does not end."""

from __future__ import annotations

from typing import Final

from gateway.text.scripts import OPENING_TO_CLOSING

_MAX_OPEN: Final = 16
"""Inside one another; the outermost is forgotten."""


class Nesting:
    """Reads the marks of words as they come."""

    def __init__(self) -> None:
        self._closers: list[str] = []
        """What closes each that is open, the innermost last."""
        self.size = 0
        """Length in speech of what has been said inside, counted by the owner."""

    def __bool__(self) -> bool:
        return bool(self._closers)

    def clear(self) -> None:
        self._closers.clear()
        self.size = 0

    def opens(self, char: str) -> bool:
        """This mark would open something here."""
        return (char in OPENING_TO_CLOSING and char not in self._closers[-1:]) or (
            char == '"' and char not in self._closers
        )

    def read(self, text: str) -> None:
        """A word, or marks without one."""
        closers = self._closers
        has_begun = False
        for char in text:
            if closers and (char == closers[-1] or (char == "”" and closers[-1] == "“")):
                closers.pop()
            elif char in OPENING_TO_CLOSING:
                closers.append(OPENING_TO_CLOSING[char])
            elif char in closers:
                del closers[closers.index(char) :]
            elif char == '"' and not has_begun:
                closers.append(char)
            if len(closers) > _MAX_OPEN:
                del closers[0]
            has_begun = has_begun or char.isalnum()
        if not closers:
            self.size = 0
