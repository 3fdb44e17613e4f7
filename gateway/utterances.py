"""Utterances: those of one session by their ids, live, kept for a late cancel, or only remembered as over. Sans-IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from gateway.utterance import Utterance

KEPT_AFTER_PLAYED_S: Final = 30.0
"""How long a finished utterance stays cancellable after it has been played (native protocol, rule 5)."""
MAX_REMEMBERED_IDS: Final = 10_000
"""Ids of utterances that are over, so that late messages for them are ignored; the oldest are forgotten."""
MAX_NUMBER: Final = 0xFFFF


class Utterances:
    """Iterates over those that are live or kept, in the order opened. `most_kept`: finished ones; the oldest go."""

    def __init__(self, most_kept: int) -> None:
        self._most_kept = most_kept
        self._known: OrderedDict[str, Utterance] = OrderedDict()
        self._over: OrderedDict[str, None] = OrderedDict()
        self._last_number = -1

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self._known.values())

    def get(self, utterance_id: str) -> Utterance | None:
        """It, live or kept."""
        return self._known.get(utterance_id)

    def live(self, utterance_id: str) -> Utterance | None:
        """It, where it takes text or still has something to say."""
        utterance = self._known.get(utterance_id)
        return utterance if utterance is not None and utterance.state in ("open", "ended") else None

    def was_used(self, utterance_id: str) -> bool:
        """This id stands, or once stood, for an utterance of this session."""
        return utterance_id in self._over or utterance_id in self._known

    def free_number(self) -> int:
        """The next number that none of them has: with fewer than 65,536 kept there is one."""
        taken = {utterance.settings.number for utterance in self._known.values()}
        number = self._last_number
        while True:
            number = (number + 1) & MAX_NUMBER
            if number not in taken:
                return number

    def add(self, utterance: Utterance) -> None:
        """A new one, the last opened; an earlier one of its id has been forgotten."""
        self._over.pop(utterance.id, None)
        self._last_number = utterance.settings.number
        self._known[utterance.id] = utterance

    def forget(self, utterance_id: str) -> bool:
        """No more than its id is kept. False where there was no more."""
        if self._known.pop(utterance_id, None) is None:
            return False
        self.mark_over(utterance_id)
        return True

    def mark_over(self, utterance_id: str) -> None:
        """Late messages for this id are to be ignored."""
        self._over[utterance_id] = None
        self._over.move_to_end(utterance_id)
        if len(self._over) > MAX_REMEMBERED_IDS:
            self._over.popitem(last=False)

    def surplus(self) -> list[str]:
        """The oldest finished ones, of which there are too many."""
        finished = [utterance.id for utterance in self._known.values() if utterance.done_at_s is not None]
        return finished[: max(0, len(finished) - self._most_kept)]

    def expired(self, now_s: float) -> list[str]:
        """Finished ones that need not be kept any longer."""
        return [utterance.id for utterance, until_s in self._kept_until_s(now_s) if until_s <= now_s]

    def expiries_s(self, now_s: float) -> list[float]:
        """When each of the finished ones expires."""
        return [until_s for _, until_s in self._kept_until_s(now_s)]

    def _kept_until_s(self, now_s: float) -> Iterator[tuple[Utterance, float]]:
        for utterance in self._known.values():
            if utterance.state == "cancelled":
                yield utterance, now_s
            elif utterance.done_at_s is not None:
                yield utterance, utterance.ledger.playout_end_s(utterance.done_at_s) + KEPT_AFTER_PLAYED_S

    def clear(self) -> None:
        self._known.clear()
