"""Who is where: every sequence and utterance, and every way one of them changes. Decides nothing about time or budgets.

The planner moves sequences forward (a block begins, its prefill, its rows), the scheduler ends what the model has
answered or a caller has cancelled; both do it through these methods, so that a status, the set it belongs to, the pages
and what the family has to forget always change together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.core.deadlines import Pacing, window_frames
from engine.core.flight import Flight, Launched
from engine.core.residency import Residency
from engine.core.sequence import Block, BlockStatus, Sequence, SequenceStatus, Utterance, half_window
from engine.core.step import Forget, ModelSpec, PreparedText
from engine.speech import Segment


@dataclass(slots=True)
class Counters:
    """What has happened since the start."""

    ticks: int = 0
    rows: int = 0
    frames: int = 0
    blocks: int = 0
    truncated: int = 0
    runaway: int = 0
    failures: int = 0
    rollbacks: int = 0
    parked: int = 0
    """Blocks that lost their pages on the way because their reader did not read."""
    prefilled: int = 0
    """Positions (or segments, where the family has no decode rows)."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a roll-back keeps of a block."""

    frames: int
    segment: Segment
    prepared: PreparedText


class Roster:
    """All lanes of one model."""

    def __init__(self, spec: ModelSpec, pacing: Pacing) -> None:
        self.spec = spec
        self.pacing = pacing
        self.counters = Counters()
        self.residency = Residency(spec)
        self.flight = Flight(spec.max_plans)
        self.sequences: dict[int, Sequence] = {}
        self.utterances: dict[int, Utterance] = {}
        """Those that can still be read or cancelled."""
        self.waiting: dict[int, Sequence] = {}
        """WAITING, PARKED and FILLING: those that want prefill."""
        self.decoding: dict[int, Sequence] = {}
        self.voicing: dict[int, Sequence] = {}
        self.shadowing: dict[int, Sequence] = {}
        self.forgets: list[Forget] = []
        """What a coming plan makes the family forget …"""
        self.dismissed: set[int] = set()
        """… with these sequences whole: they may open again only in a plan after that."""

    # ---- sequences -----------------------------------------------------------------------------------------------

    def settle(self, sequence: Sequence) -> None:
        """Between blocks: wait for the next one's turn, or rest."""
        if sequence.current is not None:
            return
        status = SequenceStatus.IDLE if sequence.next_block() is None else SequenceStatus.WAITING
        if sequence.status is not status:
            sequence.move(status)
        if status is SequenceStatus.WAITING:
            self.waiting[sequence.id] = sequence
            return
        self.waiting.pop(sequence.id, None)
        if sequence.prompt is not None and sequence.prompt.is_transient:
            self.residency.drop_contexts(sequence)

    def begin_decoding(self, sequence: Sequence) -> None:
        sequence.move(SequenceStatus.DECODING)
        self.waiting.pop(sequence.id, None)
        self.decoding[sequence.id] = sequence

    def park(self, sequence: Sequence) -> None:
        """Its pages were taken in mid-block; it starts again when its reader reads."""
        sequence.move(SequenceStatus.PARKED)
        self.decoding.pop(sequence.id, None)
        self.shadowing.pop(sequence.id, None)
        self.residency.active.pop(sequence.id, None)
        self.waiting[sequence.id] = sequence
        self.counters.parked += 1

    def leave_block(self, sequence: Sequence) -> None:
        """The current block is over, one way or another; `settle` follows."""
        sequence.current = None
        sequence.shadow_at_rows = None
        for working in (self.waiting, self.decoding, self.shadowing):
            working.pop(sequence.id, None)
        for context in (sequence.context, sequence.shadow):
            if context is not None:
                context.resize(context.length)
                context.stop_filling()
        self.residency.rest(sequence)

    def begin_shadow(self, sequence: Sequence, block: Block) -> None:
        sequence.shadow_at_rows = None
        window = half_window([*sequence.history, block], self.spec)
        sequence.window_from = window[0].number if window else block.number + 1
        layout = sequence.layout(window[:-1], block, block.prepared.max_rows)
        if window and self.residency.begin_shadow(sequence, sum(unit.length for unit in layout)):
            self.shadowing[sequence.id] = sequence

    def change_voice(self, sequence: Sequence, utterance: Utterance) -> None:
        """Another voice begins a fresh context."""
        voice = (utterance.request.voice, utterance.prompt.key)
        if sequence.voice == voice:
            sequence.prompt = utterance.prompt
            return
        for block in list(sequence.history):
            self.leave_window(sequence, block)
        self.residency.drop_contexts(sequence)
        sequence.voice, sequence.prompt = voice, utterance.prompt

    def move_window(self, sequence: Sequence, block: Block) -> None:
        """Drop from the history what the block will not be spoken after."""
        window = sequence.window(self.spec)
        prompt = block.utterance.prompt
        if self.spec.codebooks:
            needed = prompt.tokens + block.prepared.tokens + block.prepared.max_rows
            needed += sum(past.prepared.tokens + past.rows for past in window)
            while window and not self.residency.positions_that_fit(prompt, needed):
                needed -= window[0].prepared.tokens + window[0].rows
                window = window[1:]
        for past in sequence.history[: len(sequence.history) - len(window)]:
            self.leave_window(sequence, past)
        sequence.window_from = None

    def take_place(self, sequence: Sequence) -> bool:
        leaving = len(self.flight.dismissing) + sum(self.flight.concerns(one) for one in self.dismissed)
        if not self.residency.take_place(sequence, leaving):
            idle = self.residency.idle_longest(self.flight.concerns)
            if idle is None:
                return False
            self.forget_sequence(idle)
            return self.residency.take_place(sequence, leaving)
        return True

    def launch(self, launched: Launched) -> None:
        """A plan goes out; it carries what it makes the family forget."""
        plan = launched.plan
        self.flight.launch(launched)
        if len(plan.forgets) == len(self.forgets):
            self.forgets.clear()
        else:
            carried = {id(forget) for forget in plan.forgets}
            self.forgets = [forget for forget in self.forgets if id(forget) not in carried]
        self.dismissed = {forget.sequence for forget in self.forgets if forget.block is None}
        self.residency.pool.launch(plan.tick)
        self.counters.ticks += 1

    def forget_again(self, forget: Forget) -> None:
        """The plan that carried it failed as a whole: nobody knows whether it was done."""
        self.forgets.append(forget)
        if forget.block is None:
            self.dismissed.add(forget.sequence)

    def forget_voice(self, voice: str) -> None:
        """A voice has been deleted: what holds its prompt goes as soon as its lane has nothing to speak. Prompts that
        nobody uses are known by their content alone, so all of them go."""
        for utterance in self.utterances.values():
            if utterance.request.voice == voice:
                utterance.prompt = replace(utterance.prompt, is_transient=True)
        for sequence in self.sequences.values():
            if sequence.voice is None or sequence.prompt is None or sequence.voice[0] != voice:
                continue
            sequence.prompt = replace(sequence.prompt, is_transient=True)
            for context in (sequence.context, sequence.shadow):
                if context is not None:
                    context.prompt.is_transient = True
            self.settle(sequence)
        while self.residency.prompts.drop_oldest_idle(keep=None):
            pass

    def forget_sequence(self, sequence: Sequence) -> None:
        """The family may drop all of it; the next block begins a fresh context."""
        if sequence.is_resident:
            self.forgets.append(Forget(sequence.id, None))
            self.dismissed.add(sequence.id)
        self.residency.remove(sequence)
        for block in list(sequence.history):
            sequence.history.remove(block)
            block.is_known = False
            self.discard(block)
        sequence.opened_utterance = None
        sequence.window_from = None

    # ---- blocks --------------------------------------------------------------------------------------------------

    def begin_voicing(self, sequence: Sequence, block: Block, now_s: float) -> None:
        sequence.voicing.append(block)
        if sequence.voicing[0] is block:
            self.aim_window(sequence, block, now_s)
            self.voicing[sequence.id] = sequence

    def aim_window(self, sequence: Sequence, block: Block, now_s: float) -> None:
        """Settle how far the block's next window should reach, and when a shorter one would be better."""
        if block.utterance.delivered_samples:
            size = window_frames(sequence.clock.lead_s(now_s), self.spec)
        else:
            size = self.spec.first_window_frames
        block.window_end = block.voiced_frames + size
        block.window_due_s = sequence.clock.ends_at_s - self.pacing.urgent_lead_s

    def pass_over(self, sequence: Sequence, block: Block, now_s: float) -> None:
        """The next block has nothing to be spoken: only its end is to be told, when its turn to be heard comes."""
        block.utterance.queue.popleft()
        block.utterance.blocks.append(block)
        block.take_number(sequence.next_number)
        sequence.next_number += 1
        block.move(BlockStatus.GENERATING)
        block.move(BlockStatus.GENERATED)
        self.begin_voicing(sequence, block, now_s)

    def roll_back(self, sequence: Sequence, block: Block, heard: Heard) -> None:
        """Keep the heard part of a block as history, wherever the block stands now."""
        self.take_from_work(sequence, block)
        old_audio, is_text_same = block.audio_key, heard.segment is block.segment
        block.cut(heard.segment, heard.prepared, heard.frames)
        self.forgets.append(Forget(sequence.id, block.number, heard.frames))
        if is_text_same:
            for context in (sequence.context, sequence.shadow):
                if context is not None:
                    context.rename_last(old_audio, block.audio_key, heard.frames)
        if block not in sequence.history:
            sequence.history.append(block)
        self.counters.rollbacks += 1

    def remove_block(self, sequence: Sequence, block: Block) -> None:
        """The block never was, as far as the history goes."""
        self.take_from_work(sequence, block)
        if block in sequence.history:
            sequence.history.remove(block)
        self.forget_codes(sequence, block)
        self.discard(block)

    def take_from_work(self, sequence: Sequence, block: Block) -> None:
        if block is sequence.current:
            self.leave_block(sequence)
        if block in sequence.voicing:
            sequence.voicing.remove(block)
            sequence.unvoiced_frames -= block.frames - block.voiced_frames

    def leave_window(self, sequence: Sequence, block: Block) -> None:
        """No later block will be spoken after this one."""
        sequence.history.remove(block)
        if block not in sequence.voicing:
            self.forget_codes(sequence, block)
            self.discard(block)

    def discard(self, block: Block) -> None:
        """Nothing can concern the block any more."""
        block.move(BlockStatus.GONE)
        if block in block.utterance.blocks:
            block.utterance.blocks.remove(block)
        self.retire(block.utterance)

    def forget_codes(self, sequence: Sequence, block: Block) -> None:
        if block.is_known:
            block.is_known = False
            self.forgets.append(Forget(sequence.id, block.number))

    def retire(self, utterance: Utterance) -> None:
        """Forget an utterance that is over, read, and in no window."""
        is_over = utterance.is_finished and not utterance.pending_blocks
        if is_over and not utterance.blocks and not utterance.unread_samples:
            self.utterances.pop(utterance.id, None)
