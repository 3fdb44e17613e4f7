"""Decides everything the model does in a tick: plan(now_s) → StepPlan, commit(plan, result, now_s) → what to deliver.

At most ModelSpec.max_plans plans are out at a time; the other methods may be called while they are. What they change is
seen by the next plan, and what a plan answers about blocks that have gone in the meantime is dropped in `commit`.

A block's result never depends on other sequences: they decide when it is planned, never what it is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.core.costs import Costs
from engine.core.deadlines import Pacing
from engine.core.flight import Fill, Launched
from engine.core.heard import cut_at_heard
from engine.core.intake import Intake, Prepare
from engine.core.planner import Planner
from engine.core.roster import Counters, Heard, Roster
from engine.core.sequence import Block, BlockStatus, Sequence, SequenceStatus, Utterance
from engine.core.step import (
    AudioDecision,
    BlockFrames,
    ModelSpec,
    PreparedPrompt,
    RowOutcome,
    StepPlan,
    StepResult,
    Window,
)
from engine.core.tags_in_force import tags_in_force
from engine.speech import AudioChunk, Control, Notice, Pcm, Segment, SpeechRequest, WordTiming


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


class Scheduler:
    """`prepare` makes a segment ready (SpeechModel.prepare); it is called when a segment is fed, and once more with the
    part that was heard when a roll-back cuts one. `empty_pcm` is what a chunk without samples carries."""

    def __init__(self, spec: ModelSpec, pacing: Pacing, prepare: Prepare, empty_pcm: Pcm) -> None:
        self.spec = spec
        self._roster = Roster(spec, pacing)
        self._costs = Costs()
        self._planner = Planner(self._roster, self._costs)
        self._prepare = prepare
        self._intake = Intake(spec, self._roster.residency, prepare)
        self._empty_pcm = empty_pcm
        self._next_id = 0

    # ---- what callers ask for ------------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        return self._roster.counters

    @property
    def sequence_count(self) -> int:
        return len(self._roster.sequences)

    @property
    def active_count(self) -> int:
        """Sequences with something to speak."""
        return len(self._roster.waiting.keys() | self._roster.decoding.keys() | self._roster.voicing.keys())

    def forget_voice(self, voice: str) -> None:
        """A voice has been deleted: nothing of it is kept beyond the utterances that speak with it."""
        self._roster.forget_voice(voice)

    @property
    def free_pages(self) -> int:
        return self._roster.residency.pool.free_count

    def open_sequence(self) -> int:
        """A lane; it costs nothing until it speaks."""
        sequence = Sequence(self._new_id())
        self._roster.sequences[sequence.id] = sequence
        return sequence.id

    def close_sequence(self, sequence_id: int) -> None:
        """Drop all of a lane, its context and its utterances. Idempotent."""
        sequence = self._roster.sequences.pop(sequence_id, None)
        if sequence is None:
            return
        for utterance in [u for u in self._roster.utterances.values() if u.sequence is sequence]:
            del self._roster.utterances[utterance.id]
        for waiting in (self._roster.waiting, self._roster.decoding, self._roster.voicing, self._roster.shadowing):
            waiting.pop(sequence_id, None)
        self._roster.forget_sequence(sequence)
        sequence.utterances.clear()
        sequence.voicing.clear()
        sequence.current = None
        sequence.move(SequenceStatus.CLOSED)

    def open_utterance(self, sequence_id: int, request: SpeechRequest, prompt: PreparedPrompt) -> int:
        """One utterance more in the lane, heard after those before it."""
        sequence = self._roster.sequences[sequence_id]
        utterance = Utterance(self._new_id(), sequence, request, prompt)
        self._roster.utterances[utterance.id] = utterance
        sequence.utterances.append(utterance)
        return utterance.id

    def utterance(self, utterance_id: int) -> Utterance | None:
        """Its state, to be read only; None once it cannot be cancelled any more."""
        return self._roster.utterances.get(utterance_id)

    def extend(self, utterance_id: int, segment: Segment, now_s: float) -> list[Delivery]:
        """Append a segment; answers what may be told at once where there is nothing in it to be spoken. Raises
        TooLongError where its pages could not be had with nobody else there, and SpeechFailedError where the model made
        nothing of it that could be spoken."""
        utterance = self._roster.utterances[utterance_id]
        sequence = utterance.sequence
        carried = utterance.tags
        if carried is None:
            carried = sequence.tags if utterance.request.tag_scope == "session" else ()
        segment = replace(segment, carried=carried)
        self._intake.take(utterance, segment, now_s)
        sequence.tags = utterance.tags = tags_in_force(segment)
        utterance.segments.append(segment)
        utterance.timeline.note("queued", now_s)
        out: list[Delivery] = []
        self._settle(sequence, now_s, out)
        return out

    def finish(self, utterance_id: int, now_s: float) -> list[Delivery]:
        """No more segments. Answers the final chunk where everything has been delivered before."""
        utterance = self._roster.utterances.get(utterance_id)
        if utterance is None or utterance.is_finished:
            return []
        utterance.is_finished = True
        utterance.close_text()
        out: list[Delivery] = []
        if not utterance.pending_blocks:
            utterance.timeline.renote("generated", now_s)
            self._roster.retire(utterance)
            out.append(Spoken(utterance_id, AudioChunk(self._empty_pcm, utterance.delivered_samples, is_final=True)))
        self._settle(utterance.sequence, now_s, out)
        return out

    def read(self, utterance_id: int, samples: int) -> None:
        """The utterance's reader has taken a chunk of so many samples."""
        utterance = self._roster.utterances.get(utterance_id)
        if utterance is not None:
            utterance.unread_samples -= samples
            utterance.sequence.unread_samples -= samples
            self._roster.retire(utterance)

    def cancel(self, utterance_id: int, heard_samples: int, heard_chars: int, now_s: float) -> list[Delivery]:
        """Stop an utterance and keep of it what was heard: the blocks that were, the frames of the block in which the
        listener stopped, with its text cut there. Without effect once none of its blocks is in a window any more.
        Answers what later utterances of the lane may now be told."""
        out: list[Delivery] = []
        utterance = self._roster.utterances.get(utterance_id)
        if utterance is None:
            return out
        sequence = utterance.sequence
        parts = [self._heard_part(block, heard_samples, heard_chars) for block in utterance.blocks]
        if utterance.tags is not None and utterance.tags is sequence.tags:
            sequence.tags = self._heard_tags(utterance, heard_chars)
        for block, part in zip(list(utterance.blocks), parts, strict=True):
            if part is None:
                self._roster.remove_block(sequence, block)
            elif part.frames < block.frames or block.status is not BlockStatus.SPOKEN:
                self._roster.roll_back(sequence, block, part)
        sequence.clock.stop(now_s)
        self._drop_utterance(utterance, now_s, out)
        return out

    # ---- plan ----------------------------------------------------------------------------------------------------

    def plan(self, now_s: float) -> StepPlan | None:
        """What the model should do next; None where there is nothing until a call, or the commit of another plan,
        changes that or `wake_at_s` comes. Not while `max_plans` are out."""
        self._roster.flight.check_room()
        launched = self._planner.plan(now_s)
        return None if launched is None else launched.plan

    @property
    def wake_at_s(self) -> float | None:
        """When time alone will make something runnable that the last plan left out."""
        return self._planner.wake_at_s

    # ---- commit --------------------------------------------------------------------------------------------------

    def commit(self, plan: StepPlan, result: StepResult, now_s: float) -> list[Delivery]:
        """Take the model's answer to the plan; answers what each utterance's reader gets, in order."""
        launched = self._roster.flight.land(plan)
        self._note_cost(launched, now_s)
        out: list[Delivery] = []
        for failure in result.failures:
            self._fail_block(failure.sequence, failure.block, failure.message, now_s, out)
        for fill in launched.fills:
            self._commit_fill(fill)
        for decision in result.decisions:
            self._commit_decision(decision)
        for outcome in result.rows:
            self._commit_rows(outcome, now_s, out)
        for frames in result.frames:
            self._commit_frames(frames, now_s, out)
        for window in result.windows:
            self._commit_window(window, launched, now_s, out)
        self._fail_unanswered(launched, result, now_s, out)
        self._roster.residency.pool.settle(plan.tick)
        return out

    def abort(self, plan: StepPlan, message: str, now_s: float) -> list[Delivery]:
        """The plan failed as a whole: its sequences start afresh, their utterances fail."""
        launched = self._roster.flight.land(plan)
        out: list[Delivery] = []
        touched = {item.sequence for item in plan.prefill}
        touched.update(item.sequence for item in plan.decode)
        touched.update(sequence_id for sequence_id, _ in launched.voicing)
        for sequence_id in sorted(touched):
            sequence = self._roster.sequences.get(sequence_id)
            if sequence is None:
                continue
            blocks = [*sequence.voicing] or ([sequence.current] if sequence.current else [])
            for utterance in dict.fromkeys(block.utterance for block in blocks):
                self._fail_utterance(utterance, message, now_s, out)
            self._roster.forget_sequence(sequence)
            self._settle(sequence, now_s, out)
        self._planner.open_again(opening for opening in plan.openings if opening.sequence not in touched)
        for forget in plan.forgets:
            if forget.sequence not in touched:
                self._roster.forget_again(forget)
        self._roster.residency.pool.settle(plan.tick)
        return out

    def fail_all(self, message: str, now_s: float) -> list[Delivery]:
        """Every utterance that still has something to say fails (the loop is going to stop)."""
        out: list[Delivery] = []
        for utterance in list(self._roster.utterances.values()):
            if utterance.pending_blocks or not utterance.is_finished:
                self._fail_utterance(utterance, message, now_s, out)
        return out

    def _commit_fill(self, fill: Fill) -> None:
        if fill.context is not None:
            fill.context.note_committed(fill.position)
        sequence = fill.sequence
        is_resumed = fill.is_complete and fill.block.rows > 0
        if is_resumed and sequence.current is fill.block and sequence.status is SequenceStatus.FILLING:
            self._roster.begin_decoding(sequence)

    def _commit_decision(self, decision: AudioDecision) -> None:
        sequence = self._roster.sequences.get(decision.sequence)
        block = sequence.current if sequence is not None else None
        if block is not None and block.number == decision.block and block.text is not None:
            block.text.answer(decision.may_begin)

    def _commit_rows(self, outcome: RowOutcome, now_s: float, out: list[Delivery]) -> None:
        sequence = self._roster.sequences.get(outcome.sequence)
        block = sequence.current if sequence is not None else None
        if sequence is None or block is None or block.number != outcome.block:
            return
        sequence.unvoiced_frames += block.count_rows(outcome.rows)
        self._roster.counters.rows += outcome.rows
        if block.rows == 1:
            self._roster.begin_decoding(sequence)
        if sequence.shadow_at_rows is not None and block.rows >= sequence.shadow_at_rows:
            self._roster.begin_shadow(sequence, block)
        is_capped = block.rows >= block.prepared.max_rows and not outcome.is_block_finished
        if not (outcome.is_block_finished or is_capped or outcome.is_runaway):
            return
        if outcome.is_runaway:
            self._roster.counters.runaway += 1
        if is_capped or outcome.is_runaway:
            self._roster.counters.truncated += 1
            block.is_poisoned = True
            why = "the model went astray" if outcome.is_runaway else f"the limit of {block.prepared.max_rows} rows"
            message = f"speech of this segment was ended after {block.frames} frames: {why}"
            block.notices.append(Notice("speech_truncated", "segment", message))
        self._end_block(sequence, block, now_s, out)

    def _commit_frames(self, frames: BlockFrames, now_s: float, out: list[Delivery]) -> None:
        sequence = self._roster.sequences.get(frames.sequence)
        block = sequence.current if sequence is not None else None
        if sequence is None or block is None or block.number != frames.block:
            return
        block.frames = frames.frames
        block.notices.extend(frames.notices)
        sequence.unvoiced_frames += frames.frames
        self._end_block(sequence, block, now_s, out)

    def _commit_window(self, window: Window, launched: Launched, now_s: float, out: list[Delivery]) -> None:
        planned = launched.voicing.get((window.sequence, window.block))
        sequence = self._roster.sequences.get(window.sequence)
        if planned is None or sequence is None or not sequence.voicing or sequence.voicing[0] is not planned[0]:
            return
        block, item = planned
        utterance = block.utterance
        if block.voiced_frames == 0:
            block.base_sample = utterance.delivered_samples
        sequence.unvoiced_frames -= item.end_frame - item.start_frame
        self._roster.counters.frames += item.end_frame - item.start_frame
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
            self._roster.aim_window(sequence, block, now_s)

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
        start_sample, notices = utterance.delivered_samples, tuple(block.notices)
        block.notices.clear()
        utterance.delivered_samples += sample_count
        utterance.unread_samples += sample_count
        utterance.sequence.unread_samples += sample_count
        if not is_block_end:
            out.append(Spoken(utterance.id, AudioChunk(pcm, start_sample, words, notices)))  # type: ignore[arg-type]
            return
        utterance.pending_blocks -= 1
        is_last = utterance.is_finished and utterance.pending_blocks == 0
        more = len(block.segments) - 1  # each segment of a growing text has an end of its own
        ends = [AudioChunk(pcm, start_sample, words, notices, True, is_last and not more)]  # type: ignore[arg-type]
        for left in range(more, 0, -1):
            is_final = is_last and left == 1
            ends.append(AudioChunk(self._empty_pcm, utterance.delivered_samples, (), (), True, is_final))
        out.extend(Spoken(utterance.id, chunk) for chunk in ends)

    def _end_block(self, sequence: Sequence, block: Block, now_s: float, out: list[Delivery]) -> None:
        """All rows (or frames) of the current block are there."""
        block.move(BlockStatus.GENERATED)
        block.utterance.timeline.renote("generated", now_s)
        self._roster.counters.blocks += 1
        if self.spec.history_blocks and not block.is_poisoned:
            sequence.history.append(block)
        if block.utterance.growing is block:  # cut short: what is still to come is another block
            block.utterance.close_text()
        self._roster.leave_block(sequence)
        self._settle(sequence, now_s, out)
        if sequence.voicing[0] is block:
            self._flush_silent(sequence, now_s, out)

    def _end_voicing(self, sequence: Sequence, now_s: float, out: list[Delivery]) -> None:
        """The first block of `voicing` has been delivered whole."""
        block = sequence.voicing.popleft()
        block.move(BlockStatus.SPOKEN)
        if block not in sequence.history:
            self._roster.forget_codes(sequence, block)
            self._roster.discard(block)
        if not sequence.voicing:
            self._roster.voicing.pop(sequence.id, None)
            return
        self._roster.aim_window(sequence, sequence.voicing[0], now_s)
        self._flush_silent(sequence, now_s, out)

    def _flush_silent(self, sequence: Sequence, now_s: float, out: list[Delivery]) -> None:
        """Where the next block to be voiced has no frames at all, there is only its end to be told."""
        block = sequence.voicing[0]
        if block.status is BlockStatus.GENERATED and not block.frames:
            self._deliver(block, self._empty_pcm, 0, (), True, now_s, out)
            self._end_voicing(sequence, now_s, out)

    def _settle(self, sequence: Sequence, now_s: float, out: list[Delivery]) -> None:
        """Between blocks: pass over those in which nothing is to be spoken; wait for the next one's turn, or rest."""
        while sequence.current is None:
            block = sequence.next_block()
            if block is None or block.prepared.tokens:
                break
            self._roster.pass_over(sequence, block, now_s)
            if sequence.voicing[0] is block:
                self._flush_silent(sequence, now_s, out)
        self._roster.settle(sequence)

    def _attend_voicing(self, sequence: Sequence, now_s: float, out: list[Delivery]) -> None:
        """Blocks were taken out of `voicing`: see to the one that is first now."""
        if not sequence.voicing:
            self._roster.voicing.pop(sequence.id, None)
            return
        if not sequence.voicing[0].voiced_frames:
            self._roster.aim_window(sequence, sequence.voicing[0], now_s)
        self._flush_silent(sequence, now_s, out)

    # ---- the ways of a block -------------------------------------------------------------------------------------

    def _heard_part(self, block: Block, heard_samples: int, heard_chars: int) -> Heard | None:
        """What its listener heard of a block; None = nothing, or nothing that may be kept."""
        if block.is_poisoned or not block.voiced_frames or not self.spec.history_blocks:
            return None
        frames = min(block.voiced_frames, (heard_samples - block.base_sample) // self.spec.samples_per_frame)
        if frames <= 0:
            return None
        if block.status is BlockStatus.SPOKEN and frames == block.frames:
            return Heard(frames, block.segment, block.prepared)
        segment = cut_at_heard(block.segment, heard_chars)
        if segment is None:
            return None
        if segment is block.segment:
            return Heard(frames, segment, block.prepared)
        return Heard(frames, segment, self._prepare(segment, block.utterance.request))

    def _heard_tags(self, utterance: Utterance, heard_chars: int) -> tuple[Control, ...]:
        """State tags in force where its listener stopped."""
        tags = utterance.segments[0].carried if utterance.segments else ()
        for segment in utterance.segments:
            if segment.span.start >= heard_chars:
                break
            heard = cut_at_heard(segment, heard_chars)
            if heard is not None:
                tags = tags_in_force(replace(heard, carried=tags))
        return tags

    # ---- the ways of an utterance --------------------------------------------------------------------------------

    def _drop_utterance(self, utterance: Utterance, now_s: float, out: list[Delivery]) -> None:
        """Whatever was not begun goes, and its reader reads no more."""
        sequence = utterance.sequence
        self._roster.utterances.pop(utterance.id, None)
        utterance.queue.clear()
        utterance.is_finished = True
        utterance.pending_blocks = 0
        sequence.unread_samples -= utterance.unread_samples
        utterance.unread_samples = 0
        if utterance in sequence.utterances:
            sequence.utterances.remove(utterance)
        self._settle(sequence, now_s, out)
        self._attend_voicing(sequence, now_s, out)

    def _fail_utterance(self, utterance: Utterance, message: str, now_s: float, out: list[Delivery]) -> None:
        """What was delivered whole stays in the history; everything else of it goes."""
        if utterance.id not in self._roster.utterances:
            return
        for block in [block for block in utterance.blocks if block.status is not BlockStatus.SPOKEN]:
            self._roster.remove_block(utterance.sequence, block)
        self._roster.counters.failures += 1
        out.append(Failed(utterance.id, message))
        self._drop_utterance(utterance, now_s, out)

    def _fail_block(self, sequence_id: int, number: int, message: str, now_s: float, out: list[Delivery]) -> None:
        sequence = self._roster.sequences.get(sequence_id)
        if sequence is None:
            return
        block = next((block for block in sequence.voicing if block.number == number), None)
        if block is None and any(past.number == number for past in sequence.history):
            block = sequence.current
        if block is not None:
            self._fail_utterance(block.utterance, message, now_s, out)
            if not block.rows and self.spec.codebooks:  # it may be what stands before it that cannot be had
                for past in list(sequence.history):
                    self._roster.leave_window(sequence, past)
        if sequence.current is None:
            self._roster.residency.drop_contexts(sequence)

    def _fail_unanswered(self, launched: Launched, result: StepResult, now_s: float, out: list[Delivery]) -> None:
        """A model that leaves an item out would leave its listener waiting for ever."""
        starts = sum(item.samples_block is not None or item.asks_block is not None for item in launched.plan.prefill)
        answers = len(result.rows) + len(result.frames) + len(result.decisions)
        is_row_each = answers == len(launched.plan.decode) + starts
        if is_row_each and len(result.windows) == len(launched.voicing):
            return
        answered = {(outcome.sequence, outcome.block) for outcome in result.rows}
        answered.update((frames.sequence, frames.block) for frames in result.frames)
        asked = [(item.sequence, item.block) for item in launched.plan.decode]
        asked.extend(
            (item.sequence, item.samples_block) for item in launched.plan.prefill if item.samples_block is not None
        )
        answered.update((decision.sequence, decision.block) for decision in result.decisions)
        asked.extend((item.sequence, item.asks_block) for item in launched.plan.prefill if item.asks_block is not None)
        voiced = {(window.sequence, window.block) for window in result.windows}
        failed = {failure.sequence for failure in result.failures}
        missing = [key for key in asked if key not in answered]
        missing.extend(key for key in launched.voicing if key not in voiced)
        for sequence_id, number in missing:
            if sequence_id not in failed:
                self._fail_block(sequence_id, number, "the model gave no answer for this segment", now_s, out)

    def _note_cost(self, launched: Launched, now_s: float) -> None:
        """Learn from how long the plan took."""
        plan, took_s = launched.plan, now_s - launched.planned_at_s
        frames = sum(item.end_frame - item.start_frame for item in plan.vocode)
        if launched.cost_s:
            self._costs.note_prefill(launched.cost_s, frames, took_s)
        elif frames and not (plan.prefill or plan.decode):
            self._costs.note_windows(frames, took_s)

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id
