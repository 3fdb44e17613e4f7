"""Plans that are out, and what none of the others may touch until they have landed.

A family that can work on several plans at once (ModelSpec.max_plans) gets the prefill of one segment, or windows, in
each. Of one sequence at most one segment is being prefilled and one window made at a time; nothing of it is forgotten
meanwhile, and while it is being told to forget, nothing else concerns it.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.context import Context
from engine.core.sequence import Block, Sequence
from engine.core.step import StepPlan, VocodeItem


@dataclass(frozen=True, slots=True)
class Fill:
    """One PrefillItem, and what it is for."""

    sequence: Sequence
    block: Block
    context: Context | None
    position: int
    """Positions of the context once the plan has run."""
    is_complete: bool
    """The block's context is whole: its next row (or its frames) can come."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A plan, and whom its items are for."""

    plan: StepPlan
    fills: list[Fill]
    voicing: dict[tuple[int, int], tuple[Block, VocodeItem]]
    planned_at_s: float
    cost_s: float
    """What its prefill was declared to take, together; 0.0 where it can be cut."""


class Flight:
    """At most `most` plans at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._launched: dict[int, Launched] = {}
        self._filling: set[int] = set()
        self._voicing: set[int] = set()
        self._forgetting: set[int] = set()
        self.dismissing: set[int] = set()
        """Sequences that are being forgotten whole."""

    @property
    def count(self) -> int:
        return len(self._launched)

    @property
    def fill_count(self) -> int:
        """Plans out that prefill, where several may be out: a sequence in each."""
        return len(self._filling)

    @property
    def has_windows(self) -> bool:
        """One of several plans that are out makes windows."""
        return bool(self._voicing)

    def may_fill(self, sequence: int) -> bool:
        return sequence not in self._filling and sequence not in self._forgetting

    def may_voice(self, sequence: int) -> bool:
        return sequence not in self._voicing and sequence not in self._forgetting

    def is_voicing(self, sequence: int) -> bool:
        return sequence in self._voicing

    def concerns(self, sequence: int) -> bool:
        return sequence in self._filling or sequence in self._voicing or sequence in self._forgetting

    def check_room(self) -> None:
        if self.count >= self.most:
            (first, *_) = self._launched
            raise AssertionError(f"plan {first} has not been committed")

    def launch(self, launched: Launched) -> None:
        self.check_room()
        plan = launched.plan
        self._launched[plan.tick] = launched
        if self.most > 1:  # else nothing is planned while a plan is out, and nobody asks
            self._filling.update(item.sequence for item in plan.prefill)
            self._voicing.update(item.sequence for item in plan.vocode)
            self._forgetting.update(forget.sequence for forget in plan.forgets)
            self.dismissing.update(forget.sequence for forget in plan.forgets if forget.block is None)

    def land(self, plan: StepPlan) -> Launched:
        launched = self._launched.get(plan.tick)
        if launched is None or launched.plan is not plan:
            raise AssertionError(f"plan {plan.tick} is not out")
        del self._launched[plan.tick]
        self._filling.difference_update(item.sequence for item in plan.prefill)
        self._voicing.difference_update(item.sequence for item in plan.vocode)
        self._forgetting.difference_update(forget.sequence for forget in plan.forgets)
        self.dismissing.difference_update(forget.sequence for forget in plan.forgets)
        return launched
