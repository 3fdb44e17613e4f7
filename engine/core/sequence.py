"""One lane's speech: alternating text and audio blocks in one growing context, spoken for one utterance after another.

    IDLE ──▶ WAITING ──▶ FILLING ──▶ DECODING ──▶ IDLE | WAITING
                            ▲            │
                            └── PARKED ◀─┘          (its pages were wanted while its reader did not read)

A family without decode rows goes from FILLING back to IDLE or WAITING. Blocks that have all their rows but not all
their sound are `voicing`, beside whatever the sequence does next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Seq
from dataclasses import replace
from enum import Enum

from engine.core.context import Context, Unit, UnitKey
from engine.core.deadlines import PlayoutClock
from engine.core.delay import frames_of, rows_of
from engine.core.growing_text import GrowingText
from engine.core.step import ModelSpec, PreparedPrompt, PreparedText
from engine.speech import Control, Notice, Segment, SpeechRequest
from engine.timeline import Timeline


class SequenceStatus(Enum):
    IDLE = "nothing to speak"
    WAITING = "a block waits for its turn, its pages or its reader"
    FILLING = "pages held; prefill towards the block's next row (or its frames)"
    DECODING = "rows are coming"
    PARKED = "in mid-block without pages"
    CLOSED = "gone"


TRANSITIONS: dict[SequenceStatus, frozenset[SequenceStatus]] = {
    SequenceStatus.IDLE: frozenset({SequenceStatus.WAITING, SequenceStatus.CLOSED}),
    SequenceStatus.WAITING: frozenset({SequenceStatus.FILLING, SequenceStatus.IDLE, SequenceStatus.CLOSED}),
    SequenceStatus.FILLING: frozenset(
        {SequenceStatus.DECODING, SequenceStatus.WAITING, SequenceStatus.IDLE, SequenceStatus.CLOSED}
    ),
    SequenceStatus.DECODING: frozenset(
        {SequenceStatus.PARKED, SequenceStatus.WAITING, SequenceStatus.IDLE, SequenceStatus.CLOSED}
    ),
    SequenceStatus.PARKED: frozenset(
        {SequenceStatus.FILLING, SequenceStatus.WAITING, SequenceStatus.IDLE, SequenceStatus.CLOSED}
    ),
    SequenceStatus.CLOSED: frozenset(),
}


class BlockStatus(Enum):
    QUEUED = "its text waits"
    GENERATING = "prefill and rows"
    GENERATED = "all rows are there, not all samples"
    SPOKEN = "all samples were delivered, or it was cut where its listener stopped"
    GONE = "cancelled, failed, or out of every window"


BLOCK_TRANSITIONS: dict[BlockStatus, frozenset[BlockStatus]] = {
    BlockStatus.QUEUED: frozenset({BlockStatus.GENERATING, BlockStatus.GONE}),
    BlockStatus.GENERATING: frozenset({BlockStatus.GENERATED, BlockStatus.SPOKEN, BlockStatus.GONE}),
    BlockStatus.GENERATED: frozenset({BlockStatus.SPOKEN, BlockStatus.GONE}),
    BlockStatus.SPOKEN: frozenset({BlockStatus.SPOKEN, BlockStatus.GONE}),
    BlockStatus.GONE: frozenset(),
}


class Utterance:
    """One stretch of speech: what is still to be spoken of it, and what its reader has not read yet."""

    __slots__ = (
        "blocks",
        "delivered_samples",
        "growing",
        "id",
        "is_finished",
        "pending_blocks",
        "prompt",
        "queue",
        "request",
        "segments",
        "sequence",
        "tags",
        "timeline",
        "unread_samples",
    )

    def __init__(self, id: int, sequence: Sequence, request: SpeechRequest, prompt: PreparedPrompt) -> None:
        self.id = id
        self.sequence = sequence
        self.request = request
        self.prompt = prompt
        self.timeline = Timeline()
        self.queue: deque[Block] = deque()
        """Blocks not begun."""
        self.blocks: list[Block] = []
        """Blocks begun that a roll-back can still concern, in order."""
        self.pending_blocks = 0
        """Blocks whose last sample has not been delivered."""
        self.delivered_samples = 0
        self.unread_samples = 0
        self.is_finished = False
        """No more segments will come."""
        self.tags: tuple[Control, ...] | None = None
        """State tags in force after its last segment; None before its first."""
        self.growing: Block | None = None
        """The block that may take its next segment, where text grows."""
        self.segments: list[Segment] = []
        """All that were fed."""

    def close_text(self) -> None:
        """What comes next is no part of the block that was growing."""
        if self.growing is not None and self.growing.text is not None:
            self.growing.text.is_closed = True
        self.growing = None


class Block:
    """A segment, or all that one growing text has taken in, and the rows and frames that speak it."""

    __slots__ = (
        "audio_key",
        "audio_revision",
        "base_sample",
        "codebooks",
        "frames",
        "is_known",
        "is_poisoned",
        "notices",
        "number",
        "prepared",
        "queued_at_s",
        "rows",
        "segments",
        "status",
        "text",
        "text_key",
        "text_revision",
        "utterance",
        "voiced_frames",
        "window_due_s",
        "window_end",
    )

    def __init__(
        self,
        utterance: Utterance,
        segment: Segment,
        prepared: PreparedText,
        codebooks: int,
        now_s: float,
        text: GrowingText | None = None,
    ) -> None:
        self.number = 0
        """Within the sequence, in the order of speaking; settled when its turn comes."""
        self.utterance = utterance
        self.segments = [segment]
        self.prepared = prepared
        """Of a growing text: what all of it comes to."""
        self.queued_at_s = now_s
        self.text = text
        """Where its text may still grow, or grew."""
        self.status = BlockStatus.QUEUED
        self.codebooks = codebooks
        self.rows = 0
        self.frames = 0
        """Frames there are by now; all of them once GENERATED."""
        self.voiced_frames = 0
        self.window_end = 0
        """Frame up to which the next vocoder window should reach."""
        self.window_due_s = 0.0
        """From then on, a shorter window is better than a late one."""
        self.base_sample = 0
        """First sample, counted from the utterance's first; known once voicing has begun."""
        self.text_revision = 0
        self.audio_revision = 0
        self.text_key: UnitKey = ("text", 0, 0)
        self.audio_key: UnitKey = ("audio", 0, 0)
        self.notices: list[Notice] = list(prepared.notices)
        self.is_poisoned = False
        """It went astray and must not enter the history."""
        self.is_known = False
        """The family holds codes or frames of it."""

    def move(self, status: BlockStatus) -> None:
        if status not in BLOCK_TRANSITIONS[self.status]:
            raise AssertionError(f"block {self.number}: {self.status.name} → {status.name} is not a transition")
        self.status = status

    @property
    def segment(self) -> Segment:
        """Its only one, or the first of a growing text."""
        return self.segments[0]

    def grow(self, segment: Segment, prepared: PreparedText) -> None:
        """Take another segment into the growing text."""
        assert self.text is not None
        self.segments.append(segment)
        self.text.append(prepared)
        rows = min(self.text.max_rows, self.prepared.max_rows + prepared.max_rows)
        self.prepared = replace(self.prepared, tokens=self.text.tokens, max_rows=rows)

    def take_number(self, number: int) -> None:
        """Its turn has come, though it may still have to wait for pages."""
        self.number = number
        self._name()
        if self.text is not None:
            self.text.begin(number)

    def _name(self) -> None:
        self.text_key = ("text", self.number, self.text_revision)
        self.audio_key = ("audio", self.number, self.audio_revision)

    def count_rows(self, rows: int) -> int:
        """Rows more have come; answers how many frames they completed."""
        self.rows += rows
        frames = frames_of(self.rows, self.codebooks)
        gained = frames - self.frames
        self.frames = frames
        return gained

    def cut(self, segment: Segment, prepared: PreparedText, frames: int) -> None:
        """Keep what was heard: `frames` frames, ending as every block ends, and the words that go with them."""
        if segment is not self.segment:
            self.segments = [segment]
            self.prepared = prepared
            self.text_revision += 1
        self.audio_revision += 1
        self._name()
        self.frames = self.voiced_frames = frames
        self.rows = rows_of(frames, self.codebooks) if self.codebooks else 0
        self.move(BlockStatus.SPOKEN)


class Sequence:
    """The engine's state for one lane's speech."""

    __slots__ = (
        "clock",
        "context",
        "current",
        "history",
        "id",
        "is_resident",
        "next_number",
        "opened_utterance",
        "prompt",
        "shadow",
        "shadow_at_rows",
        "status",
        "tags",
        "unread_samples",
        "unvoiced_frames",
        "utterances",
        "voice",
        "voicing",
        "window_from",
    )

    def __init__(self, id: int) -> None:
        self.id = id
        self.status = SequenceStatus.IDLE
        self.clock = PlayoutClock()
        self.utterances: deque[Utterance] = deque()
        """Utterances with something still to be generated, in the order they will be heard."""
        self.current: Block | None = None
        self.voicing: deque[Block] = deque()
        """Blocks begun whose last sample has not been delivered, in order; the current one may be the last."""
        self.history: list[Block] = []
        """Blocks that the next one is spoken after, oldest first."""
        self.prompt: PreparedPrompt | None = None
        self.voice: tuple[str, bytes] | None = None
        self.context: Context | None = None
        self.shadow: Context | None = None
        """The next window, built while the current block decodes."""
        self.window_from: int | None = None
        """First block of the window that the next block gets if all of the history is too much. Settled by the
        sequence's own rows, whether or not there are pages for a shadow, so that nobody else has a say in it."""
        self.shadow_at_rows: int | None = None
        """Rows of the current block from which it is sure that the window must move after it."""
        self.next_number = 0
        self.unread_samples = 0
        self.unvoiced_frames = 0
        self.is_resident = False
        """The family has been told of it."""
        self.tags: tuple[Control, ...] = ()
        """State tags in force after the segment fed last, or after what was heard of it."""
        self.opened_utterance: int | None = None
        """Whose request the family was told last; it is told once for every utterance."""

    def move(self, status: SequenceStatus) -> None:
        if status not in TRANSITIONS[self.status]:
            raise AssertionError(f"sequence {self.id}: {self.status.name} → {status.name} is not a transition")
        self.status = status

    def next_block(self) -> Block | None:
        """The block to be spoken next: utterances in order, one only when nothing more can come of the one before."""
        while self.utterances:
            utterance = self.utterances[0]
            if utterance.queue:
                return utterance.queue[0]
            if not utterance.is_finished or (self.current is not None and self.current.utterance is utterance):
                return None
            self.utterances.popleft()
        return None

    def deadline_s(self, block: Block, first_audio_target_s: float) -> float:
        return self.clock.deadline_s(block.queued_at_s, first_audio_target_s)

    # ---- the context that a block needs --------------------------------------------------------------------------

    def window(self, spec: ModelSpec) -> list[Block]:
        """The blocks that may stand before the next one. Where they are too many or too long, about half of what is
        allowed, so that the blocks after that append without moving the window again."""
        if spec.history_blocks == 0:
            return []
        if fits_window(self.history, spec):
            return self.history
        if self.window_from is not None:
            begun = [block for block in self.history if block.number >= self.window_from]
            if fits_window(begun, spec):
                return begun
        return half_window(self.history, spec)

    def layout(self, history: Seq[Block], block: Block, rows: int) -> list[Unit]:
        """Prompt, history, the block's text and its first `rows` rows."""
        units = []
        if self.prompt is not None and self.prompt.tokens:
            units.append(Unit("prompt", 0, 0, self.prompt.tokens, self.prompt.payload))
        for past in history:
            units.append(Unit(*past.text_key, past.prepared.tokens, past.prepared.payload))
            units.append(Unit(*past.audio_key, past.rows, None))
        if block.text is not None:
            return [*units, *block.text.units(max(0, rows))]
        units.append(Unit(*block.text_key, block.prepared.tokens, block.prepared.payload))
        if rows > 0:
            units.append(Unit(*block.audio_key, rows, None))
        return units

    def choose_context(self, layout: Seq[Unit]) -> None:
        """At a block boundary: go on in the context, or the shadow window, that holds more of what is wanted, and let
        what the layout does not want be overwritten."""
        if self.shadow is not None:
            if self.context is None or self.shadow.matching(layout) > self.context.matching(layout):
                self.context, self.shadow = self.shadow, self.context
            if self.shadow is not None:
                self.shadow.release()
            self.shadow = None
        if self.context is not None:
            self.context.cut(self.context.matching(layout))

    def plan_shadow(self, spec: ModelSpec) -> None:
        """Settle from which row of the current block on the next window may be built beside it."""
        self.shadow_at_rows = None
        block = self.current
        if block is None or not spec.history_blocks or not self.history:
            return
        if len(self.history) + 1 > spec.history_blocks:
            self.shadow_at_rows = 1
            return
        room_frames = int((spec.history_s - seconds(self.history, spec)) / spec.frame_s) + 1
        if room_frames <= block.prepared.max_rows:
            self.shadow_at_rows = rows_of(max(1, room_frames), spec.codebooks)


def seconds(blocks: Seq[Block], spec: ModelSpec) -> float:
    return sum(block.frames for block in blocks) * spec.frame_s


def fits_window(blocks: Seq[Block], spec: ModelSpec) -> bool:
    return len(blocks) <= spec.history_blocks and seconds(blocks, spec) <= spec.history_s


def half_window(blocks: Seq[Block], spec: ModelSpec) -> list[Block]:
    """The newest blocks, up to half the window's count and seconds; one block may take all of the seconds."""
    most = (spec.history_blocks + 1) // 2
    kept: list[Block] = []
    for block in reversed(blocks):
        longest_s = spec.history_s / 2 if kept else spec.history_s
        if len(kept) == most or seconds([*kept, block], spec) > longest_s:
            break
        kept.append(block)
    kept.reverse()
    return kept
