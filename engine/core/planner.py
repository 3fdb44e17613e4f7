"""What the model should do next: which sequences get pages, prefill, rows and vocoder windows in the coming tick.

Earliest deadline first everywhere. A stream's deadline is the moment its listener runs dry; a stream with nothing to
play is due a moment after its text came. Who is far enough ahead of its reader is not served at all.

A family that takes several plans at once (ModelSpec.max_plans) gets one segment to prefill in each, and in one of them
windows: nobody's sound waits for another's net. One place for a prefill is kept for those whose listeners wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import islice
from math import ceil

from engine.core.context import Context
from engine.core.costs import Costs
from engine.core.flight import Fill, Launched
from engine.core.growing_text import GrowingText
from engine.core.roster import Roster
from engine.core.sequence import Block, BlockStatus, Sequence, SequenceStatus
from engine.core.step import DecodeItem, Forget, Opening, Piece, PrefillItem, StepPlan, VocodeItem

CONTEXT_TEXTS = 2
"""Payloads given on either side of a block to families that keep no context of their own."""

ReadyWindow = tuple[float, int, Sequence, Block, int]
"""(deadline, sequence id, sequence, block, end frame) of a vocoder window that could be made now."""


class Planner:
    """Makes one plan after another; `wake_at_s` after each: when time alone will make something runnable that it left
    out."""

    def __init__(self, roster: Roster, costs: Costs) -> None:
        self.spec = roster.spec
        self.wake_at_s: float | None = None
        self._roster = roster
        self._costs = costs
        self._pacing = roster.pacing
        self._max_unread_samples = max(1, ceil(roster.pacing.max_unread_s * self.spec.sample_rate_hz))
        self._max_unvoiced_frames = self.spec.max_window_frames + self.spec.right_context_frames
        self._openings: list[Opening] = []
        self._held: set[int] = set()
        """Sequences that have to forget something first, and cannot yet."""
        self._tick = 0

    def plan(self, now_s: float) -> Launched | None:
        """What the model should do next; None where there is nothing until a call, or a plan that lands, changes that
        or `wake_at_s` comes."""
        self.wake_at_s = None
        return self._plan_whole(now_s) if self.spec.max_plans == 1 else self._plan_part(now_s)

    def open_again(self, openings: Iterable[Opening]) -> None:
        """The plan that told the family of them failed as a whole: nobody knows whether it heard."""
        self._openings[:0] = openings

    def _plan_whole(self, now_s: float) -> Launched | None:
        """Everything in one plan: the only one that is out."""
        windows = self._ready_windows(now_s)
        fills, prefill = self._plan_prefill(now_s, windows, self.spec.max_prefill_tokens)
        decode, insertions = self._plan_decode(now_s)
        prefill += insertions
        is_urgent = self._is_urgent(windows, now_s)
        is_urgent = is_urgent or any(fill.sequence.clock.lead_s(now_s) < self._pacing.urgent_lead_s for fill in fills)
        voicing = self._plan_vocode(now_s, windows, is_urgent)
        forgets = list(self._roster.forgets)
        if not (prefill or decode or voicing or forgets):
            return None
        return self._launch(now_s, fills, prefill, decode, voicing, forgets)

    def _plan_part(self, now_s: float) -> Launched | None:
        """One segment's prefill, or windows, beside the plans that are out."""
        flight = self._roster.flight
        if flight.count == flight.most:
            return None
        self._held = {forget.sequence for forget in self._roster.forgets if flight.concerns(forget.sequence)}
        if flight.fill_count < flight.most - 1:
            fills, prefill = self._plan_prefill(now_s, [], 1)
            if fills:
                sequence = fills[0].sequence
                forgets = [one for one in self._free_forgets() if one.block is None or one.sequence == sequence.id]
                return self._launch(now_s, fills, prefill, [], {}, forgets)
        forgets = self._free_forgets()
        voicing: dict[tuple[int, int], tuple[Block, VocodeItem]] = {}
        if not flight.has_windows:
            windows = self._ready_windows(now_s)
            # Streams well ahead wait while others are served: that leaves the cores to those, and more for one plan.
            voicing = self._plan_vocode(now_s, windows, flight.count > 0 or self._is_urgent(windows, now_s))
        if not (voicing or forgets):
            return None
        return self._launch(now_s, [], [], [], voicing, forgets)

    def _free_forgets(self) -> list[Forget]:
        return [forget for forget in self._roster.forgets if not self._roster.flight.concerns(forget.sequence)]

    def _launch(
        self,
        now_s: float,
        fills: list[Fill],
        prefill: list[PrefillItem],
        decode: list[DecodeItem],
        voicing: dict[tuple[int, int], tuple[Block, VocodeItem]],
        forgets: list[Forget],
    ) -> Launched:
        self._tick += 1
        vocode = tuple(item for _, item in voicing.values())
        plan = StepPlan(self._tick, tuple(self._openings), tuple(forgets), tuple(prefill), tuple(decode), vocode)
        self._openings.clear()
        cost_s = sum(fill.block.prepared.cost_s for fill in fills)
        launched = Launched(plan, fills, voicing, now_s, cost_s)
        self._roster.launch(launched)
        return launched

    def _is_urgent(self, windows: list[ReadyWindow], now_s: float) -> bool:
        return bool(windows) and windows[0][0] < now_s + self._pacing.urgent_lead_s

    def _ready_windows(self, now_s: float) -> list[ReadyWindow]:
        """Every vocoder window that could be made now, the most pressing first."""
        ready = []
        for sequence in self._roster.voicing.values():
            window = self._ready_window(sequence, now_s)
            if window is not None:
                ready.append(window)
        ready.sort()
        return ready

    def _ready_window(self, sequence: Sequence, now_s: float) -> ReadyWindow | None:
        """A sequence's next window, where there are blocks to voice and it can be made now."""
        spec = self.spec
        block = sequence.voicing[0]
        is_whole = block.status is BlockStatus.GENERATED
        end = block.frames if is_whole else block.frames - self._right_context(block)
        if not is_whole and end < block.window_end:
            if now_s < block.window_due_s or end - block.voiced_frames < spec.first_window_frames:
                return None
        elif end > block.window_end and not (
            is_whole
            and end - block.window_end < spec.first_window_frames
            and end - block.voiced_frames <= spec.max_window_frames
        ):
            end = block.window_end
        room = self._max_unread_samples - sequence.unread_samples
        if room <= 0 or end <= block.voiced_frames or not self._may_voice(sequence):
            return None
        end = min(end, block.voiced_frames + -(-room // spec.samples_per_frame))
        if self._is_held(sequence, now_s):
            return None
        return (sequence.deadline_s(block, self._pacing.first_audio_target_s), sequence.id, sequence, block, end)

    def _right_context(self, block: Block) -> int:
        """Frames beyond a block's next window that are decoded with it."""
        first = self.spec.first_right_context_frames
        is_first = not block.voiced_frames and not block.utterance.delivered_samples
        return first if first is not None and is_first else self.spec.right_context_frames

    def _plan_vocode(
        self, now_s: float, windows: list[ReadyWindow], is_urgent: bool
    ) -> dict[tuple[int, int], tuple[Block, VocodeItem]]:
        """The most pressing windows; where somebody waits for this plan's end, not those of streams well ahead, and no
        more than can be made in a short time."""
        planned: dict[tuple[int, int], tuple[Block, VocodeItem]] = {}
        spec = self.spec
        frames_left = self._costs.frames_in(self._pacing.short_tick_s) if is_urgent else None
        for deadline_s, sequence_id, _, block, end in windows[: spec.max_windows_per_tick]:
            if is_urgent and deadline_s > now_s + self._pacing.ample_lead_s:
                break
            start = block.voiced_frames
            if frames_left is not None:
                if planned and end - start > frames_left:
                    break
                frames_left -= end - start
            item = VocodeItem(
                sequence_id,
                block.number,
                start,
                end,
                min(start, spec.left_context_frames),
                min(block.frames - end, self._right_context(block)),
                block.status is BlockStatus.GENERATED and end == block.frames,
            )
            planned[(sequence_id, block.number)] = (block, item)
        return planned

    def _plan_decode(self, now_s: float) -> tuple[list[DecodeItem], list[PrefillItem]]:
        """The next row of every sequence that may have it; where text goes in before it, as a prefill."""
        may_go_on = self._may_go_on
        runnable = [sequence for sequence in self._roster.decoding.values() if may_go_on(sequence, now_s)]
        if len(runnable) > self.spec.max_decode_batch:
            runnable = heapq.nsmallest(self.spec.max_decode_batch, runnable, key=self._row_deadline_s)
        items: list[DecodeItem] = []
        insertions: list[PrefillItem] = []
        for sequence in runnable:
            block, context = sequence.current, sequence.context
            assert block is not None
            assert context is not None
            if block.text is not None and block.text.is_stop(block.rows):
                insertions.append(self._insertion(sequence, block, block.text, context))
                continue
            items.append(DecodeItem(sequence.id, block.number, block.rows, context.length, context.page_table))
            context.append(block.audio_key if block.text is None else block.text.audio_unit.key, 1)
        return items, insertions

    def _insertion(self, sequence: Sequence, block: Block, text: GrowingText, context: Context) -> PrefillItem:
        """Text between a block's rows: the row before, and what is spoken next."""
        first, pieces = context.length, text.next_pieces(block.rows)
        for unit, piece in pieces:
            context.append(unit.key, piece.end - piece.start)
        self._roster.counters.prefilled += len(pieces) - 1
        return PrefillItem(
            sequence.id, tuple(piece for _, piece in pieces), first, context.page_table, block.number, row=block.rows
        )

    def _plan_prefill(
        self, now_s: float, windows: list[ReadyWindow], budget: int
    ) -> tuple[list[Fill], list[PrefillItem]]:
        fills: list[Fill] = []
        items: list[PrefillItem] = []
        cost_s = 0.0
        can_start = True
        candidates = [
            (self._row_deadline_s(sequence), sequence.id, sequence) for sequence in self._roster.waiting.values()
        ]
        candidates.sort()
        for deadline_s, _, sequence in candidates:
            if budget <= 0:
                break
            if not self._may_fill(sequence):
                continue
            if sequence.status is not SequenceStatus.FILLING:
                if not can_start or not self._may_start(sequence, now_s):
                    continue
                block = sequence.current or sequence.next_block()
                assert block is not None
                block_cost_s = self._costs.expected_s(block.prepared.cost_s)
                ends_at_s = now_s + cost_s + block_cost_s
                if block_cost_s and not self._is_slack(sequence, deadline_s, now_s, ends_at_s, windows):
                    continue
                if not self._roster.take_place(sequence):
                    continue
                if not self._start(sequence, block, now_s):
                    can_start = False  # its pages come when blocks end; nobody may overtake it for them
                    continue
                cost_s += block_cost_s
            used = 0 if self._lacks_text(sequence, now_s) else self._fill(sequence, budget, fills, items)
            budget -= used
        for sequence in list(self._roster.shadowing.values()):
            if budget <= 0:
                break
            budget -= self._fill_shadow(sequence, budget, fills, items)
        return fills, items

    def _may_start(self, sequence: Sequence, now_s: float) -> bool:
        if sequence.id in self._roster.dismissed:
            return False
        if sequence.status is SequenceStatus.PARKED:
            return self._may_go_on(sequence, now_s)
        ahead = sequence.unread_samples + sequence.unvoiced_frames * self.spec.samples_per_frame
        return ahead < self._max_unread_samples and not self._is_held(sequence, now_s)

    def _may_go_on(self, sequence: Sequence, now_s: float) -> bool:
        """May a block that has begun have its next row? Frames that wait for the vocoder are no reason against it until
        the vocoder has all that it can want: it may be this row that it waits for."""
        if self._lacks_text(sequence, now_s):
            return False
        return (
            sequence.unread_samples < self._max_unread_samples
            and sequence.unvoiced_frames <= self._max_unvoiced_frames
            and (self._pacing.max_lead_s is None or not self._is_held(sequence, now_s))
        )

    def _lacks_text(self, sequence: Sequence, now_s: float) -> bool:
        """Does its block wait for text that is still to be written? Once it has done so for long, it waits no more."""
        block = sequence.current
        if block is None or block.text is None:
            return False
        text = block.text
        if not text.waits_for_text(block.rows):
            text.waiting_since_s = None
            return False
        if text.waiting_since_s is None:
            text.waiting_since_s = now_s
        held_until_s = text.waiting_since_s + text.cadence.max_hold_s
        if now_s < held_until_s:
            self._wake(held_until_s)
            return True
        block.utterance.close_text()
        return False

    def _wake(self, at_s: float) -> None:
        self.wake_at_s = at_s if self.wake_at_s is None else min(self.wake_at_s, at_s)

    def _may_fill(self, sequence: Sequence) -> bool:
        return self._roster.flight.may_fill(sequence.id) and sequence.id not in self._held

    def _may_voice(self, sequence: Sequence) -> bool:
        return self._roster.flight.may_voice(sequence.id) and sequence.id not in self._held

    def _is_slack(
        self, sequence: Sequence, deadline_s: float, now_s: float, ends_at_s: float, windows: list[ReadyWindow]
    ) -> bool:
        """May work of this sequence that cannot be interrupted run until `ends_at_s`? Not while it has little to play
        and could be given a window first; nor, where it would be alone, while a stream with nothing to play could, or
        where another that could be served now would run dry in it, unless the work is due even sooner."""
        flight = self._roster.flight
        if flight.most > 1 and flight.fill_count >= self._places(deadline_s - ends_at_s):
            return False
        has_little = bool(sequence.voicing) and sequence.clock.lead_s(now_s) < self._pacing.ample_lead_s
        if has_little and (flight.is_voicing(sequence.id) or self._ready_window(sequence, now_s) is not None):
            return False
        for window_deadline_s, _, other, _, _ in windows:
            if other.clock.lead_s(now_s) <= 0.0:
                return False
            if other is not sequence and window_deadline_s < min(ends_at_s, deadline_s):
                return False
        return True

    def _places(self, slack_s: float) -> int:
        """How many of the places for prefills beside each other are for work with that much time to spare. The last is
        kept for what is urgent, the last but one for what is not ample."""
        most = self._roster.flight.most - 1
        if slack_s < self._pacing.urgent_lead_s:
            return most
        return max(1, most - 1 if slack_s < self._pacing.ample_lead_s else most - 2)

    def _start(self, sequence: Sequence, block: Block, now_s: float) -> bool:
        """Give a waiting sequence the pages for the whole of its next block."""
        utterance = block.utterance
        is_resumed = sequence.status is SequenceStatus.PARKED
        if not is_resumed:
            self._roster.change_voice(sequence, utterance)
            self._roster.move_window(sequence, block)
            block.take_number(sequence.next_number)
        layout = sequence.layout(sequence.history, block, block.rows - 1)
        if block.text is None:
            positions = sum(unit.length for unit in layout) + block.prepared.max_rows - max(0, block.rows - 1)
        else:
            positions = utterance.prompt.tokens + block.text.max_positions
        sequence.choose_context(layout)
        stalled = [s for s in self._roster.decoding.values() if s.unread_samples >= self._max_unread_samples]
        parked = self._roster.residency.reserve(sequence, positions, stalled)
        if parked is None:
            return False
        for other in parked:
            self._roster.park(other)
        self._roster.residency.engage(sequence)
        sequence.move(SequenceStatus.FILLING)
        if is_resumed:
            return True
        sequence.next_number += 1
        utterance.queue.popleft()
        utterance.blocks.append(block)
        utterance.timeline.note("planned", now_s)
        block.move(BlockStatus.GENERATING)
        block.is_known = True
        sequence.current = block
        sequence.plan_shadow(self.spec)
        self._roster.begin_voicing(sequence, block, now_s)
        if sequence.opened_utterance != utterance.id:
            self._openings.append(Opening(sequence.id, block.number, utterance.request))
            sequence.opened_utterance = utterance.id
        return True

    def _fill(self, sequence: Sequence, budget: int, fills: list[Fill], items: list[PrefillItem]) -> int:
        """The next stretch of prefill of a FILLING sequence; answers how much of the budget it took."""
        block, context = sequence.current, sequence.context
        assert block is not None
        assert context is not None
        spec = self.spec
        if not spec.codebooks:
            piece = Piece("text", block.number, 0, block.prepared.tokens, block.prepared.payload)
            left = tuple(past.prepared.payload for past in sequence.history[-CONTEXT_TEXTS:])
            right = tuple(later.prepared.payload for later in islice(block.utterance.queue, CONTEXT_TEXTS))
            items.append(PrefillItem(sequence.id, (piece,), 0, (), block.number, left, right))
            fills.append(Fill(sequence, block, None, 0, True))
            self._roster.counters.prefilled += 1
            return 1
        if block.text is not None and block.rows == 0:
            block.text.lengthen_opening()
        layout = sequence.layout(sequence.history, block, block.rows - 1)
        pieces = context.fill(layout, budget)
        if not pieces:
            return 0
        filled = sum(piece.end - piece.start for piece in pieces)
        is_complete = context.length == sum(unit.length for unit in layout)
        is_start = is_complete and block.rows == 0
        has_question = is_start and block.text is not None and not block.text.has_begun
        samples_block = block.number if is_start and not has_question else None
        asks_block = block.number if has_question else None
        first = context.length - filled
        items.append(PrefillItem(sequence.id, pieces, first, context.page_table, samples_block, asks_block=asks_block))
        fills.append(Fill(sequence, block, context, context.length, is_complete))
        self._roster.counters.prefilled += filled
        return filled

    def _fill_shadow(self, sequence: Sequence, budget: int, fills: list[Fill], items: list[PrefillItem]) -> int:
        """Go on building the next window beside the block that is decoding."""
        block = sequence.current
        assert block is not None
        window = [past for past in sequence.history if past.number >= (sequence.window_from or 0)]
        layout = sequence.layout(window, block, block.rows)
        shadow = sequence.shadow
        if shadow is None or sum(unit.length for unit in layout) - shadow.length < self.spec.page_tokens:
            return 0
        pieces = shadow.fill(layout, budget)
        if not pieces:
            return 0
        filled = sum(piece.end - piece.start for piece in pieces)
        items.append(PrefillItem(sequence.id, pieces, shadow.length - filled, shadow.page_table, None))
        fills.append(Fill(sequence, block, shadow, shadow.length, False))
        self._roster.counters.prefilled += filled
        return filled

    def _row_deadline_s(self, sequence: Sequence) -> float:
        """When the next thing this sequence generates should be heard: after what is generated already."""
        block = sequence.current or sequence.next_block()
        assert block is not None
        ends_at_s = sequence.clock.ends_at_s + sequence.unvoiced_frames * self.spec.frame_s
        return max(ends_at_s, block.queued_at_s + self._pacing.first_audio_target_s)

    def _is_held(self, sequence: Sequence, now_s: float) -> bool:
        """Is it further ahead of its listener than it may be? Notes when it will not be."""
        max_lead_s = self._pacing.max_lead_s
        if max_lead_s is None or sequence.clock.ends_at_s - now_s <= max_lead_s:
            return False
        self._wake(sequence.clock.ends_at_s - max_lead_s)
        return True
