"""Which sequences have pages and a place in the model, and who gives theirs up when another needs them.

Order of giving up: contexts of idle or waiting sequences (unused for longest first), prompts that nobody uses, shadow
windows, and last the contexts of sequences in mid-block whose reader has stopped reading. All of them come back by
prefilling what they held.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from engine.core.context import Context
from engine.core.pages import PagePool, PromptStore
from engine.core.sequence import Sequence, SequenceStatus
from engine.core.step import ModelSpec, PreparedPrompt


class Residency:
    """Pages and places of one model. `active`: sequences in mid-block, by id."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self.pool = PagePool(spec.page_count if spec.page_tokens else 0)
        self.prompts = PromptStore(self.pool, spec.page_tokens)
        self._resting: OrderedDict[int, Sequence] = OrderedDict()
        self.active: dict[int, Sequence] = {}
        self.resident_count = 0

    def rest(self, sequence: Sequence) -> None:
        """It is in mid-block no more: others may have its pages, and its place, if they need them."""
        self.active.pop(sequence.id, None)
        self._resting[sequence.id] = sequence
        self._resting.move_to_end(sequence.id)

    def engage(self, sequence: Sequence) -> None:
        self._resting.pop(sequence.id, None)
        self.active[sequence.id] = sequence

    def remove(self, sequence: Sequence) -> None:
        self.drop_contexts(sequence)
        self._resting.pop(sequence.id, None)
        self.active.pop(sequence.id, None)
        if sequence.is_resident:
            sequence.is_resident = False
            self.resident_count -= 1

    def drop_contexts(self, sequence: Sequence) -> None:
        for context in (sequence.context, sequence.shadow):
            if context is not None:
                context.release()
        sequence.context = sequence.shadow = None

    @property
    def most_positions(self) -> int | None:
        """Of one context, if there were no other; None where contexts take no pages."""
        spec = self._spec
        if not spec.page_tokens:
            return None
        return min(spec.max_positions or spec.page_count * spec.page_tokens, spec.page_count * spec.page_tokens)

    def positions_that_fit(self, prompt: PreparedPrompt, positions: int) -> bool:
        """Could a context of so many positions be had if there were no other?"""
        most = self.most_positions
        return most is None or max(positions, prompt.tokens) <= most

    def take_place(self, sequence: Sequence, leaving: int = 0) -> bool:
        """A place in the model; False where there is none just now. `leaving`: places given up, which the family does
        not know yet."""
        if not sequence.is_resident and self.resident_count + leaving < self._spec.max_sequences:
            sequence.is_resident = True
            self.resident_count += 1
        return sequence.is_resident

    def idle_longest(self, is_busy: Callable[[int], bool]) -> Sequence | None:
        """The sequence to be forgotten when a place is wanted; none of those that a plan is about."""
        for other in self._resting.values():
            is_idle = not other.voicing and other.status is SequenceStatus.IDLE
            if other.is_resident and is_idle and not is_busy(other.id):
                return other
        return None

    def reserve(self, sequence: Sequence, positions: int, stalled: Iterable[Sequence]) -> list[Sequence] | None:
        """Make the sequence's context hold pages for so many positions. Answers the stalled sequences that lost theirs
        for it; None, with nothing changed, where the pages cannot be had now."""
        prompt = sequence.prompt
        assert prompt is not None
        if not self._spec.page_tokens:
            if sequence.context is None:
                sequence.context = self._new_context(prompt)
            return []
        parked: list[Sequence] = []
        if self._missing(sequence, prompt, positions) > self.pool.free_count:
            stalled_ones = list(stalled)
            if not self._is_feasible(sequence, prompt, positions, stalled_ones):
                return None
            self._evict(sequence, prompt, positions, stalled_ones, parked)
        if self._missing(sequence, prompt, positions) > self.pool.free_count:
            return None
        if sequence.context is None:
            sequence.context = self._new_context(prompt)
        sequence.context.resize(positions)
        return parked

    def begin_shadow(self, sequence: Sequence, positions: int) -> bool:
        """A second context for the sequence, from free pages only."""
        prompt = sequence.prompt
        assert prompt is not None
        if self.prompts.missing_pages(prompt) + self._pages(positions) > self.pool.free_count:
            return False
        sequence.shadow = self._new_context(prompt)
        sequence.shadow.resize(positions)
        return True

    def _new_context(self, prompt: PreparedPrompt) -> Context:
        return Context(self.pool, self.prompts, self._spec.page_tokens, prompt)

    def _pages(self, positions: int) -> int:
        return -(-positions // self._spec.page_tokens)

    def _missing(self, sequence: Sequence, prompt: PreparedPrompt, positions: int) -> int:
        if sequence.context is not None:
            return sequence.context.own_pages_for(positions) - sequence.context.page_count
        shared = prompt.tokens // self._spec.page_tokens
        return self.prompts.missing_pages(prompt) + max(0, self._pages(positions) - shared)

    def _is_feasible(self, sequence: Sequence, prompt: PreparedPrompt, positions: int, stalled: list[Sequence]) -> bool:
        """Whether it could be had if everyone who may be evicted were."""
        held = self._pages(positions)
        kept_prompts = {prompt.key}
        leaving = {other.id for other in stalled}
        for other in self.active.values():
            if other is sequence or other.id in leaving or other.context is None:
                continue
            held += other.context.page_count
            shared = other.context.prompt
            if shared.key not in kept_prompts:
                kept_prompts.add(shared.key)
                held += len(shared.pages)
        return held + self.pool.resting_count <= self.pool.page_count

    def _evict(
        self,
        sequence: Sequence,
        prompt: PreparedPrompt,
        positions: int,
        stalled: list[Sequence],
        parked: list[Sequence],
    ) -> None:
        def is_enough() -> bool:
            return self._missing(sequence, prompt, positions) <= self.pool.free_count

        def drop_idle_prompts() -> bool:
            while not is_enough() and self.prompts.drop_oldest_idle(keep=prompt.key):
                pass
            return is_enough()

        for other in self._resting.values():
            if other is not sequence and other.context is not None:
                self.drop_contexts(other)
                if is_enough():
                    return
        if drop_idle_prompts():
            return
        for other in [sequence, *self.active.values()]:
            if other.shadow is not None:
                other.shadow.release()
                other.shadow = None
                if is_enough():
                    return
        for other in stalled:
            if other is not sequence and other.context is not None:
                self.drop_contexts(other)
                parked.append(other)
                if is_enough():
                    return
        drop_idle_prompts()
