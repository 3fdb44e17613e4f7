"""What a dialect has to say about what it was asked for: a speed out of reach; and nothing twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.errors import WarningCode
from gateway.events import SPEED_RANGE, Remark

MAX_REMARKED: Final = 256
"""Different remarks that a connection makes; of a client that finds still more to be wrong about, no more is said."""


@dataclass(frozen=True, slots=True)
class Speed:
    """A vendor's speed as it can be spoken; None where none was asked for."""

    value: float | None = None
    remark: Remark | None = None


def speed_within_reach(asked: float | None, field: str = "speed") -> Speed:
    """`asked`, a ratio of the voice's own pace, brought into SPEED_RANGE; vendors allow more."""
    if asked is None:
        return Speed()
    low, high = SPEED_RANGE
    used = min(high, max(low, asked))
    if used == asked:
        return Speed(asked)
    message = f"{field} is {asked:g}, voices here can do {low:g} to {high:g}: {used:g} is used"
    return Speed(used, Remark(WarningCode.PARAMETER_IGNORED, message, detail=field))


def ignored_speed(asked: str, field: str = "speed") -> Speed:
    """A vendor's word for a speed that has no meaning here."""
    message = f"{field} is {asked!r:.40}, which says nothing here: the voice's own pace is used"
    return Speed(None, Remark(WarningCode.PARAMETER_IGNORED, message, detail=field))


class RemarksMade:
    """The remarks of one connection: clients repeat their settings with every message."""

    def __init__(self) -> None:
        self._made: set[tuple[WarningCode, str | None]] = set()

    def new(self, remarks: Iterable[Remark | None]) -> list[Remark]:
        """Those that have not been made; from now on they have."""
        fresh: list[Remark] = []
        for remark in remarks:
            if remark is None or (remark.code, remark.detail) in self._made or len(self._made) >= MAX_REMARKED:
                continue
            self._made.add((remark.code, remark.detail))
            fresh.append(remark)
        return fresh
