"""Decides everything the model does in a tick: plan(now_s) → StepPlan, commit(plan, result, now_s) → what to deliver.

One plan is out at a time; the other methods may be called while it is. What they change is seen by the next plan, and
what the plan answers about blocks that have gone in the meantime is dropped in `commit`.

A block's result never depends on other sequences: they decide when it is planned, never what it is given.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from math import ceil

from engine.core.context import Context
from engine.core.deadlines import Pacing, window_frames
from engine.core.heard import cut_at_heard
from engine.core.residency import Residency
from engine.core.sequence import Block, BlockStatus, Sequence, SequenceStatus, Utterance, half_window
from engine.core.step import (
    BlockFrames,
    DecodeItem,
    Forget,
    ModelSpec,
    Opening,
    Piece,
    PrefillItem,
    PreparedPrompt,
    PreparedText,
    RowOutcome,
    StepPlan,
    StepResult,
    VocodeItem,
    Window,
)
from engine.errors import CapacityError
from engine.speech import AudioChunk, Notice, Pcm, Segment, SpeechRequest, WordTiming

CONTEXT_TEXTS = 2
"""Payloads given on either side of a block to families that keep no context of their own."""
NEVER_S = 86_400.0
"""retry_after_s of a segment that cannot fit while this model is loaded."""

Prepare = Callable[[Segment, SpeechRequest], PreparedText]


@dataclass(frozen=True, slots=True)
class Spoken:
    """A chunk for the utterance's reader."""

    utterance: int
    chunk: AudioChunk


@dataclass(frozen=True, slots=True)
class Failed:
    """The utterance ends here, unfinished."""

    utterance: int
    message: str


Delivery = Spoken | Failed


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
class _Heard:
    """What a roll-back keeps of a block."""

    frames: int
    segment: Segment
    prepared: PreparedText


@dataclass(frozen=True, slots=True)
class _Fill:
    sequence: Sequence
    block: Block
    context: Context | None
    position: int
    """Positions of the context once the plan has run."""
    is_complete: bool
    """The block's context is whole: its next row (or its frames) can come."""


@dataclass(frozen=True, slots=True)
class _Launched:
    plan: StepPlan
    fills: list[_Fill]
    decoding: list[tuple[Sequence, Block]]
    voicing: dict[tuple[int, int], tuple[Block, VocodeItem]]


class Scheduler:
    """`prepare` makes a segment ready (SpeechModel.prepare); it is called when a segment is fed, and once more with the
    part that was heard when a roll-back cuts one. `empty_pcm` is what a chunk without samples carries."""

    def __init__(self, spec: ModelSpec, pacing: Pacing, prepare: Prepare, empty_pcm: Pcm) -> None:
        self.spec = spec
        self.counters = Counters()
        self.wake_at_s: float | None = None
        """Set by `plan`: when time alone will make something runnable that it left out."""
        self._pacing = pacing
        self._prepare = prepare
        self._empty_pcm = empty_pcm
        self._max_unread_samples = max(1, ceil(pacing.max_unread_s * spec.sample_rate_hz))
        self._max_unvoiced_frames = spec.max_window_frames + spec.right_context_frames
        self._residency = Residency(spec)
        self._sequences: dict[int, Sequence] = {}
        self._utterances: dict[int, Utterance] = {}
        self._waiting: dict[int, Sequence] = {}
        """WAITING, PARKED and FILLING: those that want prefill."""
        self._decoding: dict[int, Sequence] = {}
        self._voicing: dict[int, Sequence] = {}
        self._shadowing: dict[int, Sequence] = {}
        self._forgets: list[Forget] = []
        self._openings: list[Opening] = []
        self._dismissed: set[int] = set()
        """Sequences that the next plan makes the family forget; they may open again only in the one after."""
        self._launched: _Launched | None = None
        self._next_id = 0
        self._tick = 0

    # ---- what callers ask for ------------------------------------------------------------------------------------

    @property
    def sequence_count(self) -> int:
        return len(self._sequences)

    @property
    def active_count(self) -> int:
        """Sequences with something to speak."""
        return len(self._waiting.keys() | self._decoding.keys() | self._voicing.keys())

    @property
    def free_pages(self) -> int:
        return self._residency.pool.free_count

    def open_sequence(self) -> int:
        """A lane; it costs nothing until it speaks."""
        sequence = Sequence(self._new_id())
        self._sequences[sequence.id] = sequence
        return sequence.id

    def close_sequence(self, sequence_id: int) -> None:
        """Drop all of a lane, its context and its utterances. Idempotent."""
        sequence = self._sequences.pop(sequence_id, None)
        if sequence is None:
            return
        for utterance in [u for u in self._utterances.values() if u.sequence is sequence]:
            del self._utterances[utterance.id]
        for waiting in (self._waiting, self._decoding, self._voicing, self._shadowing):
            waiting.pop(sequence_id, None)
        self._forget_sequence(sequence)
        sequence.utterances.clear()
        sequence.voicing.clear()
        sequence.current = None
        sequence.move(SequenceStatus.CLOSED)

    def open_utterance(self, sequence_id: int, request: SpeechRequest, prompt: PreparedPrompt) -> int:
        """One utterance more in the lane, heard after those before it."""
        sequence = self._sequences[sequence_id]
        utterance = Utterance(self._new_id(), sequence, request, prompt)
        self._utterances[utterance.id] = utterance
        sequence.utterances.append(utterance)
        return utterance.id

    def utterance(self, utterance_id: int) -> Utterance | None:
        """Its state, to be read only; None once it cannot be cancelled any more."""
        return self._utterances.get(utterance_id)

    def extend(self, utterance_id: int, segment: Segment, now_s: float) -> None:
        """Append a segment. Raises CapacityError where its pages could not be had with nobody else there."""
        utterance = self._utterances[utterance_id]
        prepared = self._prepare(segment, utterance.request)
        most = utterance.prompt.tokens + prepared.tokens + prepared.max_rows
        if not self._residency.positions_that_fit(utterance.prompt, most):
            raise CapacityError(
                f"the segment needs {most} positions with its voice prompt; "
                f"there are {self.spec.page_count * self.spec.page_tokens}",
                NEVER_S,
            )
        sequence = utterance.sequence
        block = Block(utterance, segment, prepared, self.spec.codebooks, now_s)
        utterance.queue.append(block)
        utterance.pending_blocks += 1
        utterance.timeline.note("queued", now_s)
        self._settle(sequence)

    def finish(self, utterance_id: int, now_s: float) -> list[Delivery]:
        """No more segments. Answers the final chunk where everything has been delivered before."""
        utterance = self._utterances.get(utterance_id)
        if utterance is None or utterance.is_finished:
            return []
        utterance.is_finished = True
        self._settle(utterance.sequence)
        if utterance.pending_blocks:
            return []
        utterance.timeline.renote("generated", now_s)
        self._retire(utterance)
        return [Spoken(utterance_id, AudioChunk(self._empty_pcm, utterance.delivered_samples, is_final=True))]

    def read(self, utterance_id: int, samples: int) -> None:
        """The utterance's reader has taken a chunk of so many samples."""
        utterance = self._utterances.get(utterance_id)
        if utterance is not None:
            utterance.unread_samples -= samples
            utterance.sequence.unread_samples -= samples
            self._retire(utterance)

    def cancel(self, utterance_id: int, heard_samples: int, heard_chars: int, now_s: float) -> list[Delivery]:
        """Stop an utterance and keep of it what was heard: the blocks that were, the frames of the block in which the
        listener stopped, with its text cut there. Without effect once none of its blocks is in a window any more.
        Answers what later utterances of the lane may now be told."""
        out: list[Delivery] = []
        utterance = self._utterances.get(utterance_id)
        if utterance is None:
            return out
        sequence = utterance.sequence
        parts = [self._heard_part(block, heard_samples, heard_chars) for block in utterance.blocks]
        for block, part in zip(list(utterance.blocks), parts, strict=True):
            if part is None:
                self._remove_block(sequence, block)
            elif part.frames < block.frames or block.status is not BlockStatus.SPOKEN:
                self._roll_back(sequence, block, part)
        sequence.clock.stop(now_s)
        self._drop_utterance(utterance, now_s, out)
        return out

    # ---- plan ----------------------------------------------------------------------------------------------------

    def plan(self, now_s: float) -> StepPlan | None:
        """What the model should do next; None where there is nothing until a call changes that or `wake_at_s` comes."""
        if self._launched is not None:
            raise AssertionError(f"plan {self._tick} has not been committed")
        self.wake_at_s = None
        windows = self._ready_windows(now_s)
        fills, prefill = self._plan_prefill(now_s, windows)
        decoding, decode = self._plan_decode(now_s)
        voicing = self._plan_vocode(now_s, windows)
        if not (prefill or decode or voicing or self._forgets):
            return None
        self._tick += 1
        plan = StepPlan(
            self._tick,
            tuple(self._openings),
            tuple(self._forgets),
            tuple(prefill),
            tuple(decode),
            tuple(item for _, item in voicing.values()),
        )
        self._openings.clear()
        self._forgets.clear()
        self._dismissed.clear()
        self._launched = _Launched(plan, fills, decoding, voicing)
        self._residency.pool.launch(plan.tick)
        self.counters.ticks += 1
        return plan

    def _ready_windows(self, now_s: float) -> list[tuple[float, int, Sequence, Block, int]]:
        """(deadline, sequence id, sequence, block, end frame) of each vocoder window that could be made now."""
        ready = []
        spec = self.spec
        for sequence in self._voicing.values():
            block = sequence.voicing[0]
            is_whole = block.status is BlockStatus.GENERATED
            end = block.frames if is_whole else block.frames - spec.right_context_frames
            if not is_whole and end < block.window_end:
                if now_s < block.window_due_s or end - block.voiced_frames < spec.first_window_frames:
                    continue
            elif end > block.window_end and not (
                is_whole
                and end - block.window_end < spec.first_window_frames
                and end - block.voiced_frames <= spec.max_window_frames
            ):
                end = block.window_end
            room = self._max_unread_samples - sequence.unread_samples
            if room <= 0 or end <= block.voiced_frames:
                continue
            end = min(end, block.voiced_frames + -(-room // spec.samples_per_frame))
            if self._is_held(sequence, now_s):
                continue
            deadline_s = sequence.deadline_s(block, self._pacing.first_audio_target_s)
            ready.append((deadline_s, sequence.id, sequence, block, end))
        ready.sort()
        return ready

    def _plan_vocode(
        self, now_s: float, windows: list[tuple[float, int, Sequence, Block, int]]
    ) -> dict[tuple[int, int], tuple[Block, VocodeItem]]:
        planned: dict[tuple[int, int], tuple[Block, VocodeItem]] = {}
        spec = self.spec
        is_urgent = bool(windows) and windows[0][0] < now_s + self._pacing.urgent_lead_s
        for deadline_s, sequence_id, _, block, end in windows[: spec.max_windows_per_tick]:
            if is_urgent and deadline_s > now_s + self._pacing.ample_lead_s:
                break
            start = block.voiced_frames
            item = VocodeItem(
                sequence_id,
                block.number,
                start,
                end,
                min(start, spec.left_context_frames),
                min(block.frames - end, spec.right_context_frames),
                block.status is BlockStatus.GENERATED and end == block.frames,
            )
            planned[(sequence_id, block.number)] = (block, item)
        return planned

    def _plan_decode(self, now_s: float) -> tuple[list[tuple[Sequence, Block]], list[DecodeItem]]:
        max_unread, max_unvoiced = self._max_unread_samples, self._max_unvoiced_frames
        has_lead_limit = self._pacing.max_lead_s is not None
        runnable = [
            sequence
            for sequence in self._decoding.values()
            if sequence.unread_samples < max_unread
            and sequence.unvoiced_frames <= max_unvoiced
            and not (has_lead_limit and self._is_held(sequence, now_s))
        ]
        if len(runnable) > self.spec.max_decode_batch:
            runnable = heapq.nsmallest(self.spec.max_decode_batch, runnable, key=self._row_deadline_s)
        planned = []
        items = []
        for sequence in runnable:
            block, context = sequence.current, sequence.context
            assert block is not None
            assert context is not None
            planned.append((sequence, block))
            items.append(DecodeItem(sequence.id, block.number, block.rows, context.length, context.page_table))
            context.append(block.audio_key, 1)
        return planned, items

    def _plan_prefill(
        self, now_s: float, windows: list[tuple[float, int, Sequence, Block, int]]
    ) -> tuple[list[_Fill], list[PrefillItem]]:
        budget = self.spec.max_prefill_tokens
        fills: list[_Fill] = []
        items: list[PrefillItem] = []
        cost_s = 0.0
        can_start = True
        candidates = [(self._row_deadline_s(sequence), sequence.id, sequence) for sequence in self._waiting.values()]
        candidates.sort()
        for deadline_s, _, sequence in candidates:
            if budget <= 0:
                break
            if sequence.status is not SequenceStatus.FILLING:
                if not can_start or not self._may_start(sequence, now_s):
                    continue
                block = sequence.current or sequence.next_block()
                assert block is not None
                block_cost_s = block.prepared.cost_s
                if block_cost_s and not self._is_slack(sequence, deadline_s, now_s + cost_s + block_cost_s, windows):
                    continue
                if not self._take_place(sequence):
                    continue
                if not self._start(sequence, block, now_s):
                    can_start = False  # its pages come when blocks end; nobody may overtake it for them
                    continue
                cost_s += block_cost_s
            used = self._fill(sequence, budget, fills, items)
            budget -= used
        for sequence in list(self._shadowing.values()):
            if budget <= 0:
                break
            budget -= self._fill_shadow(sequence, budget, fills, items)
        return fills, items

    def _may_start(self, sequence: Sequence, now_s: float) -> bool:
        if sequence.id in self._dismissed:
            return False
        ahead = sequence.unread_samples + sequence.unvoiced_frames * self.spec.samples_per_frame
        return ahead < self._max_unread_samples and not self._is_held(sequence, now_s)

    @staticmethod
    def _is_slack(
        sequence: Sequence,
        deadline_s: float,
        ends_at_s: float,
        windows: list[tuple[float, int, Sequence, Block, int]],
    ) -> bool:
        """May work that cannot be interrupted run until `ends_at_s`? Not while another stream that could be served now
        would run dry in it, unless the work is due even sooner."""
        for window_deadline_s, _, other, _, _ in windows:
            if window_deadline_s >= min(ends_at_s, deadline_s):
                return True
            if other is not sequence:
                return False
        return True

    def _start(self, sequence: Sequence, block: Block, now_s: float) -> bool:
        """Give a waiting sequence the pages for the whole of its next block."""
        utterance = block.utterance
        is_resumed = sequence.status is SequenceStatus.PARKED
        if not is_resumed:
            self._change_voice(sequence, utterance)
            self._move_window(sequence, block)
            block.number = sequence.next_number
        layout = sequence.layout(sequence.history, block, block.rows - 1)
        positions = sum(unit.length for unit in layout)
        rows_left = block.prepared.max_rows - max(0, block.rows - 1)
        sequence.choose_context(layout)
        stalled = [s for s in self._decoding.values() if s.unread_samples >= self._max_unread_samples]
        parked = self._residency.reserve(sequence, positions + rows_left, stalled)
        if parked is None:
            return False
        for other in parked:
            self._park(other)
        self._residency.engage(sequence)
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
        self._begin_voicing(sequence, block, now_s)
        if sequence.opened_utterance != utterance.id:
            self._openings.append(Opening(sequence.id, block.number, utterance.request))
            sequence.opened_utterance = utterance.id
        return True

    def _fill(self, sequence: Sequence, budget: int, fills: list[_Fill], items: list[PrefillItem]) -> int:
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
            fills.append(_Fill(sequence, block, None, 0, True))
            self.counters.prefilled += 1
            return 1
        layout = sequence.layout(sequence.history, block, block.rows - 1)
        pieces = context.fill(layout, budget)
        if not pieces:
            return 0
        filled = sum(piece.end - piece.start for piece in pieces)
        is_complete = context.length == sum(unit.length for unit in layout)
        starts_block = block.number if is_complete and block.rows == 0 else None
        first = context.length - filled
        items.append(PrefillItem(sequence.id, pieces, first, context.page_table, starts_block))
        fills.append(_Fill(sequence, block, context, context.length, is_complete))
        self.counters.prefilled += filled
        return filled

    def _fill_shadow(self, sequence: Sequence, budget: int, fills: list[_Fill], items: list[PrefillItem]) -> int:
        """Go on building the next window beside the block that is decoding."""
        block = sequence.current
        assert block is not None
        window = [past for past in sequence.history if past.number >= (sequence.shadow_from or 0)]
        layout = sequence.layout(window, block, block.rows)
        shadow = sequence.shadow
        if shadow is None or sum(unit.length for unit in layout) - shadow.length < self.spec.page_tokens:
            return 0
        pieces = shadow.fill(layout, budget)
        if not pieces:
            return 0
        filled = sum(piece.end - piece.start for piece in pieces)
        items.append(PrefillItem(sequence.id, pieces, shadow.length - filled, shadow.page_table, None))
        fills.append(_Fill(sequence, block, shadow, shadow.length, False))
        self.counters.prefilled += filled
        return filled

    # ---- commit --------------------------------------------------------------------------------------------------

    def commit(self, plan: StepPlan, result: StepResult, now_s: float) -> list[Delivery]:
        """Take the model's answer to the plan; answers what each utterance's reader gets, in order."""
        launched = self._take_launched(plan)
        out: list[Delivery] = []
        for failure in result.failures:
            self._fail_block(failure.sequence, failure.block, failure.message, now_s, out)
        for fill in launched.fills:
            self._commit_fill(fill)
        for outcome in result.rows:
            self._commit_rows(outcome, now_s, out)
        for frames in result.frames:
            self._commit_frames(frames, now_s, out)
        for window in result.windows:
            self._commit_window(window, launched, now_s, out)
        self._fail_unanswered(launched, result, now_s, out)
        self._residency.pool.settle(plan.tick)
        return out

    def abort(self, plan: StepPlan, message: str, now_s: float) -> list[Delivery]:
        """The plan failed as a whole: its sequences start afresh, their utterances fail."""
        launched = self._take_launched(plan)
        out: list[Delivery] = []
        touched = {fill.sequence.id for fill in launched.fills}
        touched.update(sequence.id for sequence, _ in launched.decoding)
        touched.update(sequence_id for sequence_id, _ in launched.voicing)
        for sequence_id in sorted(touched):
            sequence = self._sequences.get(sequence_id)
            if sequence is None:
                continue
            blocks = [*sequence.voicing] or ([sequence.current] if sequence.current else [])
            for utterance in dict.fromkeys(block.utterance for block in blocks):
                self._fail_utterance(utterance, message, now_s, out)
            self._forget_sequence(sequence)
            self._settle(sequence)
        self._forgets.extend(plan.forgets)
        self._residency.pool.settle(plan.tick)
        return out

    def fail_all(self, message: str, now_s: float) -> list[Delivery]:
        """Every utterance that still has something to say fails (the loop is going to stop)."""
        out: list[Delivery] = []
        for utterance in list(self._utterances.values()):
            if utterance.pending_blocks or not utterance.is_finished:
                self._fail_utterance(utterance, message, now_s, out)
        return out

    def _commit_fill(self, fill: _Fill) -> None:
        if fill.context is not None:
            fill.context.note_committed(fill.position)
        sequence = fill.sequence
        is_resumed = fill.is_complete and fill.block.rows > 0
        if is_resumed and sequence.current is fill.block and sequence.status is SequenceStatus.FILLING:
            self._begin_decoding(sequence)

    def _commit_rows(self, outcome: RowOutcome, now_s: float, out: list[Delivery]) -> None:
        sequence = self._sequences.get(outcome.sequence)
        block = sequence.current if sequence is not None else None
        if sequence is None or block is None or block.number != outcome.block:
            return
        sequence.unvoiced_frames += block.count_rows(outcome.rows)
        self.counters.rows += outcome.rows
        if sequence.status is SequenceStatus.FILLING:
            self._begin_decoding(sequence)
        if sequence.shadow_at_rows is not None and block.rows >= sequence.shadow_at_rows:
            self._begin_shadow(sequence, block)
        is_capped = block.rows >= block.prepared.max_rows and not outcome.is_block_finished
        if outcome.is_runaway:
            self.counters.runaway += 1
        if is_capped or outcome.is_runaway:
            self.counters.truncated += 1
            block.is_poisoned = True
            why = "the model went astray" if outcome.is_runaway else f"the limit of {block.prepared.max_rows} rows"
            message = f"speech of this segment was ended after {block.frames} frames: {why}"
            block.notices.append(Notice("speech_truncated", "segment", message))
        if outcome.is_block_finished or is_capped or outcome.is_runaway:
            self._end_block(sequence, block, now_s, out)

    def _commit_frames(self, frames: BlockFrames, now_s: float, out: list[Delivery]) -> None:
        sequence = self._sequences.get(frames.sequence)
        block = sequence.current if sequence is not None else None
        if sequence is None or block is None or block.number != frames.block:
            return
        block.frames = frames.frames
        block.notices.extend(frames.notices)
        sequence.unvoiced_frames += frames.frames
        self._end_block(sequence, block, now_s, out)

    def _commit_window(self, window: Window, launched: _Launched, now_s: float, out: list[Delivery]) -> None:
        planned = launched.voicing.get((window.sequence, window.block))
        sequence = self._sequences.get(window.sequence)
        if planned is None or sequence is None or not sequence.voicing or sequence.voicing[0] is not planned[0]:
            return
        block, item = planned
        utterance = block.utterance
        if block.voiced_frames == 0:
            block.base_sample = utterance.delivered_samples
        sequence.unvoiced_frames -= item.end_frame - item.start_frame
        self.counters.frames += item.end_frame - item.start_frame
        block.voiced_frames = item.end_frame
        base = block.base_sample
        words = tuple(
            WordTiming(w.start_char, w.end_char, w.start_sample + base, w.end_sample + base) for w in window.words
        )
        utterance.timeline.note("first_chunk", now_s)
        sequence.clock.deliver(window.sample_count / self.spec.sample_rate_hz, now_s)
        block.notices.extend(window.notices)
        self._deliver(block, window.pcm, window.sample_count, words, item.is_block_end, now_s, out)
        if item.is_block_end:
            self._end_voicing(sequence, now_s, out)
        else:
            self._aim_window(sequence, block, now_s)

    def _deliver(
        self,
        block: Block,
        pcm: object,
        sample_count: int,
        words: tuple[WordTiming, ...],
        is_block_end: bool,
        now_s: float,
        out: list[Delivery],
    ) -> None:
        utterance = block.utterance
        if is_block_end:
            utterance.pending_blocks -= 1
        is_final = is_block_end and utterance.is_finished and utterance.pending_blocks == 0
        chunk = AudioChunk(
            pcm,  # type: ignore[arg-type]  # passes through unread
            utterance.delivered_samples,
            words,
            tuple(block.notices),
            is_block_end,
            is_final,
        )
        block.notices.clear()
        utterance.delivered_samples += sample_count
        utterance.unread_samples += sample_count
        utterance.sequence.unread_samples += sample_count
        out.append(Spoken(utterance.id, chunk))

    def _end_block(self, sequence: Sequence, block: Block, now_s: float, out: list[Delivery]) -> None:
        """All rows (or frames) of the current block are there."""
        block.move(BlockStatus.GENERATED)
        block.utterance.timeline.renote("generated", now_s)
        self.counters.blocks += 1
        if self.spec.history_blocks and not block.is_poisoned:
            sequence.history.append(block)
        self._leave_block(sequence)
        self._settle(sequence)
        if sequence.voicing[0] is block:
            self._flush_silent(sequence, now_s, out)

    def _end_voicing(self, sequence: Sequence, now_s: float, out: list[Delivery]) -> None:
        """The first block of `voicing` has been delivered whole."""
        block = sequence.voicing.popleft()
        block.move(BlockStatus.SPOKEN)
        if block not in sequence.history:
            self._forget_codes(sequence, block)
            self._discard(block)
        if not sequence.voicing:
            self._voicing.pop(sequence.id, None)
            return
        self._aim_window(sequence, sequence.voicing[0], now_s)
        self._flush_silent(sequence, now_s, out)

    def _flush_silent(self, sequence: Sequence, now_s: float, out: list[Delivery]) -> None:
        """Where the next block to be voiced has no frames at all, there is only its end to be told."""
        block = sequence.voicing[0]
        if block.status is BlockStatus.GENERATED and not block.frames:
            self._deliver(block, self._empty_pcm, 0, (), True, now_s, out)
            self._end_voicing(sequence, now_s, out)

    def _attend_voicing(self, sequence: Sequence, now_s: float, out: list[Delivery]) -> None:
        """Blocks were taken out of `voicing`: see to the one that is first now."""
        if not sequence.voicing:
            self._voicing.pop(sequence.id, None)
            return
        if not sequence.voicing[0].voiced_frames:
            self._aim_window(sequence, sequence.voicing[0], now_s)
        self._flush_silent(sequence, now_s, out)

    def _begin_voicing(self, sequence: Sequence, block: Block, now_s: float) -> None:
        sequence.voicing.append(block)
        if sequence.voicing[0] is block:
            self._aim_window(sequence, block, now_s)
            self._voicing[sequence.id] = sequence

    def _aim_window(self, sequence: Sequence, block: Block, now_s: float) -> None:
        """Settle how far the block's next window should reach, and when a shorter one would be better."""
        if block.utterance.delivered_samples:
            size = window_frames(sequence.clock.lead_s(now_s), self.spec)
        else:
            size = self.spec.first_window_frames
        block.window_end = block.voiced_frames + size
        block.window_due_s = sequence.clock.ends_at_s - self._pacing.urgent_lead_s

    # ---- the ways of a sequence ----------------------------------------------------------------------------------

    def _settle(self, sequence: Sequence) -> None:
        """Between blocks: wait for the next one's turn, or rest."""
        if sequence.current is not None:
            return
        status = SequenceStatus.IDLE if sequence.next_block() is None else SequenceStatus.WAITING
        if sequence.status is not status:
            sequence.move(status)
        if status is SequenceStatus.WAITING:
            self._waiting[sequence.id] = sequence
        else:
            self._waiting.pop(sequence.id, None)

    def _begin_decoding(self, sequence: Sequence) -> None:
        sequence.move(SequenceStatus.DECODING)
        self._waiting.pop(sequence.id, None)
        self._decoding[sequence.id] = sequence

    def _park(self, sequence: Sequence) -> None:
        """Its pages were taken in mid-block; it starts again when its reader reads."""
        sequence.move(SequenceStatus.PARKED)
        self._decoding.pop(sequence.id, None)
        self._shadowing.pop(sequence.id, None)
        self._residency.active.pop(sequence.id, None)
        self._waiting[sequence.id] = sequence
        self.counters.parked += 1

    def _leave_block(self, sequence: Sequence) -> None:
        """The current block is over, one way or another; `_settle` follows."""
        sequence.current = None
        sequence.shadow_at_rows = None
        for working in (self._waiting, self._decoding, self._shadowing):
            working.pop(sequence.id, None)
        for context in (sequence.context, sequence.shadow):
            if context is not None:
                context.resize(context.length)
                context.stop_filling()
        self._residency.rest(sequence)

    def _begin_shadow(self, sequence: Sequence, block: Block) -> None:
        sequence.shadow_at_rows = None
        window = half_window([*sequence.history, block], self.spec)
        layout = sequence.layout(window[:-1], block, block.prepared.max_rows)
        if self._residency.begin_shadow(sequence, sum(unit.length for unit in layout)):
            sequence.shadow_from = window[0].number if window else block.number
            self._shadowing[sequence.id] = sequence

    def _change_voice(self, sequence: Sequence, utterance: Utterance) -> None:
        """Another voice begins a fresh context."""
        voice = (utterance.request.voice, utterance.prompt.key)
        if sequence.voice == voice:
            return
        for block in list(sequence.history):
            self._leave_window(sequence, block)
        self._residency.drop_contexts(sequence)
        sequence.voice, sequence.prompt = voice, utterance.prompt

    def _move_window(self, sequence: Sequence, block: Block) -> None:
        """Drop from the history what the block will not be spoken after."""
        window = sequence.window(self.spec)
        prompt = block.utterance.prompt
        if self.spec.codebooks:
            needed = prompt.tokens + block.prepared.tokens + block.prepared.max_rows
            needed += sum(past.prepared.tokens + past.rows for past in window)
            while window and not self._residency.positions_that_fit(prompt, needed):
                needed -= window[0].prepared.tokens + window[0].rows
                window = window[1:]
        for past in sequence.history[: len(sequence.history) - len(window)]:
            self._leave_window(sequence, past)

    def _take_place(self, sequence: Sequence) -> bool:
        if not self._residency.take_place(sequence):
            idle = self._residency.idle_longest()
            if idle is None:
                return False
            self._forget_sequence(idle)
            return self._residency.take_place(sequence)
        return True

    # ---- the ways of a block -------------------------------------------------------------------------------------

    def _heard_part(self, block: Block, heard_samples: int, heard_chars: int) -> _Heard | None:
        """What its listener heard of a block; None = nothing, or nothing that may be kept."""
        if block.is_poisoned or not block.voiced_frames or not self.spec.history_blocks:
            return None
        frames = min(block.voiced_frames, (heard_samples - block.base_sample) // self.spec.samples_per_frame)
        if frames <= 0:
            return None
        if block.status is BlockStatus.SPOKEN and frames == block.frames:
            return _Heard(frames, block.segment, block.prepared)
        segment = cut_at_heard(block.segment, heard_chars)
        if segment is None:
            return None
        if segment is block.segment:
            return _Heard(frames, segment, block.prepared)
        return _Heard(frames, segment, self._prepare(segment, block.utterance.request))

    def _roll_back(self, sequence: Sequence, block: Block, heard: _Heard) -> None:
        """Keep the heard part of a block as history, wherever the block stands now."""
        self._take_from_work(sequence, block)
        old_audio, is_text_same = block.audio_key, heard.segment is block.segment
        block.cut(heard.segment, heard.prepared, heard.frames, self.spec.codebooks)
        self._forgets.append(Forget(sequence.id, block.number, heard.frames))
        if is_text_same:
            for context in (sequence.context, sequence.shadow):
                if context is not None:
                    context.rename_last(old_audio, block.audio_key, heard.frames)
        if block not in sequence.history:
            sequence.history.append(block)
        self.counters.rollbacks += 1

    def _remove_block(self, sequence: Sequence, block: Block) -> None:
        """The block never was, as far as the history goes."""
        self._take_from_work(sequence, block)
        if block in sequence.history:
            sequence.history.remove(block)
        self._forget_codes(sequence, block)
        self._discard(block)

    def _take_from_work(self, sequence: Sequence, block: Block) -> None:
        if block is sequence.current:
            self._leave_block(sequence)
        if block in sequence.voicing:
            sequence.voicing.remove(block)
            sequence.unvoiced_frames -= block.frames - block.voiced_frames

    def _leave_window(self, sequence: Sequence, block: Block) -> None:
        """No later block will be spoken after this one."""
        sequence.history.remove(block)
        if block not in sequence.voicing:
            self._forget_codes(sequence, block)
            self._discard(block)

    def _discard(self, block: Block) -> None:
        """Nothing can concern the block any more."""
        block.move(BlockStatus.GONE)
        if block in block.utterance.blocks:
            block.utterance.blocks.remove(block)
        self._retire(block.utterance)

    def _forget_codes(self, sequence: Sequence, block: Block) -> None:
        if block.is_known:
            block.is_known = False
            self._forgets.append(Forget(sequence.id, block.number))

    # ---- the ways of an utterance --------------------------------------------------------------------------------

    def _retire(self, utterance: Utterance) -> None:
        """Forget an utterance that is over, read, and in no window."""
        is_over = utterance.is_finished and not utterance.pending_blocks
        if is_over and not utterance.blocks and not utterance.unread_samples:
            self._utterances.pop(utterance.id, None)

    def _drop_utterance(self, utterance: Utterance, now_s: float, out: list[Delivery]) -> None:
        """Whatever was not begun goes, and its reader reads no more."""
        sequence = utterance.sequence
        self._utterances.pop(utterance.id, None)
        utterance.queue.clear()
        utterance.is_finished = True
        utterance.pending_blocks = 0
        sequence.unread_samples -= utterance.unread_samples
        utterance.unread_samples = 0
        if utterance in sequence.utterances:
            sequence.utterances.remove(utterance)
        self._settle(sequence)
        self._attend_voicing(sequence, now_s, out)

    def _fail_utterance(self, utterance: Utterance, message: str, now_s: float, out: list[Delivery]) -> None:
        """What was delivered whole stays in the history; everything else of it goes."""
        if utterance.id not in self._utterances:
            return
        for block in [block for block in utterance.blocks if block.status is not BlockStatus.SPOKEN]:
            self._remove_block(utterance.sequence, block)
        self.counters.failures += 1
        out.append(Failed(utterance.id, message))
        self._drop_utterance(utterance, now_s, out)

    def _fail_block(self, sequence_id: int, number: int, message: str, now_s: float, out: list[Delivery]) -> None:
        sequence = self._sequences.get(sequence_id)
        if sequence is None:
            return
        block = next((block for block in sequence.voicing if block.number == number), None)
        if block is None and any(past.number == number for past in sequence.history):
            block = sequence.current
        if block is not None:
            self._fail_utterance(block.utterance, message, now_s, out)
        if sequence.current is None:
            self._residency.drop_contexts(sequence)

    def _fail_unanswered(self, launched: _Launched, result: StepResult, now_s: float, out: list[Delivery]) -> None:
        """A model that leaves an item out would leave its listener waiting for ever."""
        answered = {(outcome.sequence, outcome.block) for outcome in result.rows}
        answered.update((frames.sequence, frames.block) for frames in result.frames)
        asked = [(item.sequence, item.block) for item in launched.plan.decode]
        asked.extend(
            (item.sequence, item.starts_block) for item in launched.plan.prefill if item.starts_block is not None
        )
        voiced = {(window.sequence, window.block) for window in result.windows}
        failed = {failure.sequence for failure in result.failures}
        missing = [key for key in asked if key not in answered]
        missing.extend(key for key in launched.voicing if key not in voiced)
        for sequence_id, number in missing:
            if sequence_id not in failed:
                self._fail_block(sequence_id, number, "the model gave no answer for this segment", now_s, out)

    def _forget_sequence(self, sequence: Sequence) -> None:
        """The family may drop all of it; the next block begins a fresh context."""
        if sequence.is_resident:
            self._forgets.append(Forget(sequence.id, None))
            self._dismissed.add(sequence.id)
        self._residency.remove(sequence)
        for block in list(sequence.history):
            sequence.history.remove(block)
            block.is_known = False
            self._discard(block)
        sequence.opened_utterance = None

    # ---- small things --------------------------------------------------------------------------------------------

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
        free_at_s = sequence.clock.ends_at_s - max_lead_s
        self.wake_at_s = free_at_s if self.wake_at_s is None else min(self.wake_at_s, free_at_s)
        return True

    def _take_launched(self, plan: StepPlan) -> _Launched:
        launched = self._launched
        if launched is None or launched.plan is not plan:
            raise AssertionError(f"plan {plan.tick} is not out")
        self._launched = None
        return launched

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id
