"""Two models without weights, for tests of the engine and of whatever stands on it.

DelayedRowsModel is autoregressive: K codebooks with the delay pattern, a paged KV memory, windows, estimated word
times. It remembers what every KV position of every page holds and, whenever a row is sampled, asserts that the context
is exactly the one-shot prompt of the interleaved blocks.

WholeFramesModel gives all frames of a segment at once (codebooks == 0), with exact word times, and records the texts it
was given on either side.

Both speak each character of a segment for `frames_per_char` frames, and every frame is a constant level that names the
text and the frame (`frame_level`), so that a listener can tell what it hears.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from engine.core.step import (
    BlockFrames,
    Forget,
    ModelSpec,
    Piece,
    PrefillItem,
    PreparedPrompt,
    PreparedText,
    RowOutcome,
    SequenceFailure,
    StepPlan,
    StepResult,
    VocodeItem,
    Window,
)
from engine.errors import VoiceNotFoundError
from engine.speech import ModelInfo, Notice, Pcm, Segment, SpeechRequest, VoiceInfo, WordTiming, WordTimingKind

BEGIN, END = 1024, 1025
SAMPLE_RATE_HZ = 24000
SAMPLES_PER_FRAME = 960
VOICES = (
    VoiceInfo("alto", "Alto", "en", "a low constant"),
    VoiceInfo("tenor", "Tenor", "en", "a high constant"),
)
TAGS: Mapping[str, Literal["rendered", "approximated", "contextual", "unsupported"]] = {
    "prosody:pause": "rendered",
    "prosody:long_pause": "rendered",
    "prosody:break": "rendered",
    "prosody:speed": "rendered",
    "prosody:speed_slow": "rendered",
    "prosody:speed_fast": "rendered",
    "emotion:elation": "approximated",
    "sfx:cough": "unsupported",
}

Fault = Literal["fail_prefill", "fail_row", "fail_window", "no_answer", "raise", "runaway", "silent", "never_ends"]

DELAYED_ROWS_SPEC = ModelSpec(
    sample_rate_hz=SAMPLE_RATE_HZ,
    samples_per_frame=SAMPLES_PER_FRAME,
    codebooks=8,
    max_sequences=64,
    max_decode_batch=32,
    max_prefill_tokens=64,
    page_tokens=16,
    page_count=2048,
    left_context_frames=10,
    right_context_frames=10,
    first_window_frames=4,
    max_window_frames=32,
    max_windows_per_tick=16,
    history_blocks=4,
    history_s=30.0,
)

WHOLE_FRAMES_SPEC = ModelSpec(
    sample_rate_hz=SAMPLE_RATE_HZ,
    samples_per_frame=SAMPLES_PER_FRAME,
    codebooks=0,
    max_sequences=64,
    max_decode_batch=1,
    max_prefill_tokens=2,
    page_tokens=0,
    page_count=0,
    left_context_frames=0,
    right_context_frames=0,
    first_window_frames=4,
    max_window_frames=32,
    max_windows_per_tick=16,
    history_blocks=8,
    history_s=30.0,
)


def whole_segment(text: str, start: int = 0) -> Segment:
    """A sentence at input position `start`."""
    return Segment.verbatim(text, "sentence", start)


def frame_level(text: str, frame: int) -> float:
    """The constant level of one frame: between 0.1 and 0.9, exact in float32, telling text and frame apart."""
    digest = hashlib.blake2b(f"{text}\0{frame}".encode(), digest_size=2).digest()
    return 0.1 + int.from_bytes(digest, "little") % 1600 / 2000


def segment_pcm(text: str, frames: int, start_frame: int = 0) -> Pcm:
    """What frames [start_frame, start_frame + frames) of a segment with this text sound like."""
    levels = np.array([frame_level(text, start_frame + i) for i in range(frames)], np.float32)
    return np.repeat(levels, SAMPLES_PER_FRAME)


def code(seed: int, text: str, row: int, codebook: int) -> int:
    """Counter-based: the same whatever else is in the batch."""
    digest = hashlib.blake2b(f"{seed}\0{text}\0{row}\0{codebook}".encode(), digest_size=2).digest()
    return int.from_bytes(digest, "little") % BEGIN


def words_of(segment: Segment, frames_per_char: int) -> tuple[WordTiming, ...]:
    """Words by white space; samples from the block's first sample."""
    words: list[WordTiming] = []
    place = 0
    for word in segment.text.split():
        first = segment.text.index(word, place)
        place = first + len(word)
        samples = frames_per_char * SAMPLES_PER_FRAME
        start, end = segment.sources[first].start, segment.sources[place - 1].end
        start_sample = first * samples
        if words and start < words[-1].end_char:  # words of one replacement ("$5") are one word of the input
            previous = words.pop()
            start, end, start_sample = previous.start_char, max(end, previous.end_char), previous.start_sample
        words.append(WordTiming(start, end, start_sample, place * samples))
    return tuple(words)


@dataclass(frozen=True, slots=True)
class FakeText:
    """Payload of a prepared segment."""

    segment: Segment

    @property
    def text(self) -> str:
        return self.segment.text


@dataclass(slots=True)
class _FakeBlock:
    """What a fake remembers of a block."""

    text: FakeText
    seed: int
    frames: int
    rows: list[tuple[int, ...]] = field(default_factory=list)


class FakeModel:
    """What both have in common. `faults`: text of a segment → what goes wrong in it. `spend`: called with the seconds a
    tick should cost (`tick_cost_s` and `cost_s_per_s` of audio); nothing is spent by default."""

    word_timing: WordTimingKind = "estimated"

    def __init__(
        self,
        spec: ModelSpec,
        *,
        frames_per_char: int = 2,
        faults: Mapping[str, Fault] | None = None,
        tick_cost_s: float = 0.0,
        cost_s_per_s: float = 0.0,
        spend: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spec = spec
        self.frames_per_char = frames_per_char
        self.faults = dict(faults or {})
        self.tick_cost_s = tick_cost_s
        self.cost_s_per_s = cost_s_per_s
        self._spend = spend
        self.plans: list[StepPlan] = []
        self.keeps_plans = True
        self.is_warm = False
        self.is_closed = False
        self.requests: dict[int, SpeechRequest] = {}
        self.blocks: dict[tuple[int, int], _FakeBlock] = {}
        self.prepared: list[Segment] = []

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            name="fake",
            sample_rate_hz=self._spec.sample_rate_hz,
            voices=VOICES,
            default_voice="alto",
            languages=frozenset({"en"}),
            word_timing=self.word_timing,
            tags=TAGS,
            parameters=frozenset({"speed", "seed"}),
        )

    def warm_up(self) -> None:
        self.is_warm = True

    def close(self) -> None:
        self.is_closed = True

    def execute(self, plan: StepPlan) -> StepResult:
        if self.keeps_plans:
            self.plans.append(plan)
        for opening in plan.openings:
            assert isinstance(opening.request, SpeechRequest)
            self.requests[opening.sequence] = opening.request
        for forget in plan.forgets:
            self.forget(forget)
        result = self.answer(plan)
        frames = sum(item.end_frame - item.start_frame for item in plan.vocode)
        cost_s = self.tick_cost_s + self.cost_s_per_s * frames * self._spec.frame_s
        if cost_s:
            self._spend(cost_s)
        return result

    def answer(self, plan: StepPlan) -> StepResult:
        raise NotImplementedError

    def forget(self, forget: Forget) -> None:
        if forget.block is None:
            self.requests.pop(forget.sequence, None)
            for key in [key for key in self.blocks if key[0] == forget.sequence]:
                del self.blocks[key]
        elif not forget.kept_frames:
            self.blocks.pop((forget.sequence, forget.block), None)

    def fault(self, payload: object) -> Fault | None:
        assert isinstance(payload, FakeText)
        fault = self.faults.get(payload.text)
        if fault == "raise":
            raise RuntimeError("the fake was told to raise")
        return fault

    def frames_of(self, text: FakeText) -> int:
        return 0 if self.faults.get(text.text) == "silent" else max(1, len(text.text) * self.frames_per_char)

    def window(self, item: VocodeItem) -> Window:
        block = self.blocks[(item.sequence, item.block)]
        pcm = segment_pcm(block.text.text, item.end_frame - item.start_frame, item.start_frame)
        samples = self._spec.samples_per_frame
        words = tuple(
            word
            for word in words_of(block.text.segment, self.frames_per_char)
            if item.start_frame * samples <= word.start_sample < item.end_frame * samples
        )
        return Window(item.sequence, item.block, pcm, len(pcm), words)


class DelayedRowsModel(FakeModel):
    """See the head of the file. `prompt_tokens`: length of each voice's prompt."""

    def __init__(
        self,
        spec: ModelSpec = DELAYED_ROWS_SPEC,
        *,
        prompt_tokens: int = 37,
        max_rows_per_char: int = 4,
        has_checks: bool = True,
        frames_per_char: int = 2,
        faults: Mapping[str, Fault] | None = None,
        tick_cost_s: float = 0.0,
        cost_s_per_s: float = 0.0,
        spend: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(
            spec,
            frames_per_char=frames_per_char,
            faults=faults,
            tick_cost_s=tick_cost_s,
            cost_s_per_s=cost_s_per_s,
            spend=spend,
        )
        self.prompt_tokens = prompt_tokens
        self.max_rows_per_char = max_rows_per_char
        self.has_checks = has_checks
        self.prefilled_positions = 0
        self.contexts: dict[tuple[int, int], tuple[object, ...]] = {}
        """(sequence, block) → what the context held when its row 0 was sampled, without sequence and block numbers."""
        self._kv: dict[tuple[int, int], object] = {}
        """(page, offset) → what the position holds."""

    def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
        self.prepared.append(segment)
        if not segment.text:
            return PreparedText(0, 0, 0.0, FakeText(segment))
        rows = len(segment.text) * self.max_rows_per_char + 2 * self._spec.codebooks
        return PreparedText(len(segment.text) + 2, rows, 0.0, FakeText(segment))

    def prepare_prompt(self, request: SpeechRequest) -> PreparedPrompt:
        if request.voice not in {voice.id for voice in VOICES}:
            raise VoiceNotFoundError(request.voice, tuple(voice.id for voice in VOICES))
        return PreparedPrompt(self.prompt_tokens, request.voice.encode(), request.voice)

    def forget(self, forget: Forget) -> None:
        super().forget(forget)
        if forget.block is not None and forget.kept_frames:
            block = self.blocks[(forget.sequence, forget.block)]
            frames = [[block.rows[t + c][c] for c in range(self._spec.codebooks)] for t in range(forget.kept_frames)]
            block.rows = delay(frames, self._spec.codebooks)
            block.frames = forget.kept_frames

    def answer(self, plan: StepPlan) -> StepResult:
        rows: list[RowOutcome] = []
        windows: list[Window] = []
        failures: list[SequenceFailure] = []
        for item in plan.prefill:
            self._prefill(item, rows, failures)
        for step in plan.decode:
            block = self.blocks[(step.sequence, step.block)]
            fault = self.fault(block.text)
            if fault == "fail_row" and step.row == 12:
                failures.append(SequenceFailure(step.sequence, step.block, "out of memory"))
                continue
            if fault == "no_answer":
                continue
            assert step.row == len(block.rows), f"row {step.row} planned, {len(block.rows)} rows there"
            self._write(
                step.page_table, step.position, ("row", step.sequence, step.block, step.row - 1, block.rows[-1])
            )
            self._check(step.sequence, step.block, step.page_table, step.position + 1)
            rows.append(self._sample(step.sequence, step.block))
        for window in plan.vocode:
            block = self.blocks[(window.sequence, window.block)]
            if self.fault(block.text) == "fail_window":
                failures.append(SequenceFailure(window.sequence, window.block, "the vocoder failed"))
                continue
            self._check_window(window, block)
            windows.append(self.window(window))
        return StepResult(plan.tick, (), tuple(rows), tuple(windows), tuple(failures))

    def _prefill(self, item: PrefillItem, rows: list[RowOutcome], failures: list[SequenceFailure]) -> None:
        position = item.first_position
        for piece in item.pieces:
            for place, cell in enumerate(self._cells(item.sequence, piece)):
                self._write(item.page_table, position + place, cell)
            position += piece.end - piece.start
        self.prefilled_positions += position - item.first_position
        if item.samples_block is None:
            return
        text = item.pieces[-1].payload
        assert isinstance(text, FakeText)
        if self.fault(text) == "fail_prefill":
            failures.append(SequenceFailure(item.sequence, item.samples_block, "out of memory"))
            return
        seed = self.requests[item.sequence].seed
        self.blocks[(item.sequence, item.samples_block)] = _FakeBlock(text, seed, self.frames_of(text))
        self._check(item.sequence, item.samples_block, item.page_table, position)
        rows.append(self._sample(item.sequence, item.samples_block))

    def _cells(self, sequence: int, piece: Piece) -> list[object]:
        if piece.kind == "prompt":
            return [("prompt", piece.payload, place) for place in range(piece.start, piece.end)]
        if piece.kind == "text":
            assert isinstance(piece.payload, FakeText)
            return [("text", sequence, piece.block, piece.payload.text, n) for n in range(piece.start, piece.end)]
        held = self.blocks[(sequence, piece.block)].rows
        assert piece.end <= len(held), f"rows up to {piece.end} wanted of block {piece.block}, {len(held)} there"
        return [("row", sequence, piece.block, row, held[row]) for row in range(piece.start, piece.end)]

    def _write(self, page_table: tuple[int, ...], position: int, cell: object) -> None:
        if self._spec.page_tokens:
            page, offset = divmod(position, self._spec.page_tokens)
            self._kv[(page_table[page], offset)] = cell

    def _sample(self, sequence: int, number: int) -> RowOutcome:
        """The next row of a block: codes of real frames, the ramp, the staircase."""
        block = self.blocks[(sequence, number)]
        text, row, codebooks = block.text.text, len(block.rows), self._spec.codebooks
        fault = self.faults.get(text)
        frames = 10**9 if fault in ("runaway", "never_ends") else block.frames
        block.rows.append(
            tuple(
                BEGIN if row < c else code(block.seed, text, row - c, c) if row < frames + c else END
                for c in range(codebooks)
            )
        )
        is_runaway = fault == "runaway" and len(block.rows) == 20
        return RowOutcome(sequence, number, 1, len(block.rows) == frames + codebooks - 1, is_runaway)

    def _check(self, sequence: int, number: int, page_table: tuple[int, ...], length: int) -> None:
        """The first `length` positions are the one-shot prompt: voice, whole earlier blocks, this block so far."""
        if not self.has_checks or not self._spec.page_tokens:
            return
        cells = []
        for position in range(length):
            page, offset = divmod(position, self._spec.page_tokens)
            cells.append(self._kv[(page_table[page], offset)])
        voice = self.requests[sequence].voice
        expected: list[object] = [("prompt", voice, place) for place in range(self.prompt_tokens)]
        numbers = list(dict.fromkeys(cell[2] for cell in cells if cell[0] != "prompt"))  # type: ignore[index]
        assert numbers == sorted(numbers), f"blocks out of order: {numbers}"
        assert numbers[-1] == number, f"block {number} is sampled in a context that ends with {numbers}"
        assert len(numbers) - 1 <= self._spec.history_blocks, f"history of {len(numbers) - 1} blocks"
        is_start = len(self.blocks[(sequence, number)].rows) == 0
        for past in numbers:
            block = self.blocks.get((sequence, past))
            if block is None or (past != number and not is_start):
                # An earlier block may have been cut or dropped while this one decodes: it stays as it was.
                expected.extend(cell for cell in cells if cell[0] != "prompt" and cell[2] == past)  # type: ignore[index]
                continue
            tokens = len(block.text.text) + 2
            if past != number:
                texts = {cell[3] for cell in cells if cell[0] == "text" and cell[2] == past}  # type: ignore[index]
                (text,) = texts
                assert block.text.text.startswith(text), f"block {past} has a text it never had"
                tokens = len(text) + 2
                assert len(block.rows) == block.frames + self._spec.codebooks - 1, f"block {past} is not whole"
            else:
                text = block.text.text
            expected.extend(("text", sequence, past, text, n) for n in range(tokens))
            expected.extend(("row", sequence, past, row, codes) for row, codes in enumerate(block.rows))
        if is_start:
            self.contexts[(sequence, number)] = tuple((cell[0], *cell[3:]) for cell in cells)  # type: ignore[index]
        assert cells == expected, f"sequence {sequence}, block {number}: KV differs from the one-shot prompt"

    def _check_window(self, item: VocodeItem, block: _FakeBlock) -> None:
        emitted = len(block.rows) - self._spec.codebooks + 1
        right = item.end_frame + item.right_context_frames
        assert right <= emitted, f"frames up to {right} wanted, {emitted} there"
        assert item.left_context_frames == min(item.start_frame, self._spec.left_context_frames)
        if self.faults.get(block.text.text) in ("runaway", "never_ends"):
            return
        wanted = {self._spec.right_context_frames}
        if item.start_frame == 0 and self._spec.first_right_context_frames is not None:
            wanted.add(self._spec.first_right_context_frames)
        assert right == block.frames or item.right_context_frames in wanted
        assert item.is_block_end == (item.end_frame == block.frames)


class WholeFramesModel(FakeModel):
    """See the head of the file. `net_cost_s`: what each prepared segment declares its acoustic net to cost."""

    word_timing: WordTimingKind = "exact"

    def __init__(
        self,
        spec: ModelSpec = WHOLE_FRAMES_SPEC,
        *,
        net_cost_s: float = 0.01,
        frames_per_char: int = 2,
        faults: Mapping[str, Fault] | None = None,
        tick_cost_s: float = 0.0,
        cost_s_per_s: float = 0.0,
        spend: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(
            spec,
            frames_per_char=frames_per_char,
            faults=faults,
            tick_cost_s=tick_cost_s,
            cost_s_per_s=cost_s_per_s,
            spend=spend,
        )
        self.net_cost_s = net_cost_s
        self.neighbours: list[tuple[tuple[str, ...], str, tuple[str, ...]]] = []
        """(texts to the left, text, texts to the right) of each segment, in the order they were made."""

    def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
        self.prepared.append(segment)
        return PreparedText(1 if segment.text else 0, 0, self.net_cost_s, FakeText(segment))

    def prepare_prompt(self, request: SpeechRequest) -> PreparedPrompt:
        if request.voice not in {voice.id for voice in VOICES}:
            raise VoiceNotFoundError(request.voice, tuple(voice.id for voice in VOICES))
        return PreparedPrompt(0, b"", None)

    def answer(self, plan: StepPlan) -> StepResult:
        frames: list[BlockFrames] = []
        windows: list[Window] = []
        failures: list[SequenceFailure] = []
        for item in plan.prefill:
            (piece,) = item.pieces
            text, number = piece.payload, item.samples_block
            assert isinstance(text, FakeText)
            assert number is not None
            fault = self.fault(text)
            if fault in ("fail_prefill", "no_answer"):
                if fault == "fail_prefill":
                    failures.append(SequenceFailure(item.sequence, number, "out of memory"))
                continue
            block = _FakeBlock(text, self.requests[item.sequence].seed, self.frames_of(text))
            self.blocks[(item.sequence, number)] = block
            left = tuple(past.text for past in item.left if isinstance(past, FakeText))
            right = tuple(later.text for later in item.right if isinstance(later, FakeText))
            self.neighbours.append((left, text.text, right))
            notices = tuple(
                Notice("tag_unsupported", control.name, f"the fake cannot render {control.name}")
                for control in text.segment.controls
                if TAGS.get(control.name, "unsupported") == "unsupported"
            )
            frames.append(BlockFrames(item.sequence, number, block.frames, notices))
        for window in plan.vocode:
            if self.fault(self.blocks[(window.sequence, window.block)].text) == "fail_window":
                failures.append(SequenceFailure(window.sequence, window.block, "the vocoder failed"))
                continue
            windows.append(self.window(window))
        return StepResult(plan.tick, tuple(frames), (), tuple(windows), tuple(failures))


def delay(frames: list[list[int]], codebooks: int) -> list[tuple[int, ...]]:
    """Rows of a whole block of frames: ramp, frames, staircase."""
    count = len(frames)
    return [
        tuple(BEGIN if row < c else frames[row - c][c] if row - c < count else END for c in range(codebooks))
        for row in range(count + codebooks - 1)
    ]


def small_spec(spec: ModelSpec = DELAYED_ROWS_SPEC, **changes: int | float) -> ModelSpec:
    """A spec with some fields changed."""
    return replace(spec, **changes)  # type: ignore[arg-type]
