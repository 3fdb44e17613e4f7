"""How a command ends: its exit status, and the one error that stands for "say this and stop"."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1
"""What was asked for was not done, or not all of it."""
USAGE: Final = 2
"""Arguments or settings cannot be used; argparse ends with the same."""
INTERRUPTED: Final = 130
"""128 + SIGINT, as shells report it."""


class CommandError(Exception):
    """A sentence for a person, without a traceback, and the exit status."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status
