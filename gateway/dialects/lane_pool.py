"""Lanes for contexts that live at once on one connection: each has its own, and the next turn takes the first free one,
so that turns in succession share one growing context."""

from __future__ import annotations

MAIN_LANE = "main"


class LanePool:
    def __init__(self) -> None:
        self._taken: dict[str, str] = {}

    def take(self, owner: str) -> str:
        """The first lane that no other owner has."""
        taken = set(self._taken.values())
        number = 0
        while (lane := MAIN_LANE if number == 0 else f"side {number}") in taken:
            number += 1
        self._taken[owner] = lane
        return lane

    def release(self, owner: str) -> None:
        self._taken.pop(owner, None)
