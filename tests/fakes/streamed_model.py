"""An autoregressive model without weights that is given text while it is being written (see step.TextCadence).

Every character is a token. It says when audio may begin by a rule of its own (`wants_tokens`), speaks each character
for `frames_per_char` frames at the least, and asserts at every row that the context is the one-shot prompt of the
cadence, put together here a second time from nothing but what has been fed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from engine.core.step import (
    AudioDecision,
    Forget,
    ModelSpec,
    PrefillItem,
    PreparedText,
    RowOutcome,
    SequenceFailure,
    StepPlan,
    StepResult,
    TextCadence,
    VocodeItem,
    Window,
)
from engine.speech import ModelInfo, Segment, SpeechRequest
from tests.fakes.fake_model import BEGIN, DELAYED_ROWS_SPEC, END, DelayedRowsModel, FakeText, code, segment_pcm

CADENCE = TextCadence(first_rows=11, rows_per_token=4, max_waits=5, max_rows=300, max_tokens=24, max_hold_s=2.0)
STREAMED_ROWS_SPEC = replace(DELAYED_ROWS_SPEC, history_blocks=0, text_cadence=CADENCE)


@dataclass(slots=True)
class _Streamed:
    """What the fake remembers of a block."""

    seed: int
    texts: list[FakeText] = field(default_factory=list)
    fed: list[str] = field(default_factory=list)
    opening: int | None = None
    """Tokens before its first row."""
    ended_at: int | None = None
    """The row before which text ended."""
    frames: int | None = None
    rows: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its sound is told by its first text."""
        return self.texts[0].text


class StreamedRowsModel(DelayedRowsModel):
    """See the head of the file."""

    def __init__(
        self, spec: ModelSpec = STREAMED_ROWS_SPEC, *, prompt_tokens: int = 37, frames_per_char: int = 2
    ) -> None:
        super().__init__(spec, prompt_tokens=prompt_tokens, frames_per_char=frames_per_char)
        assert spec.text_cadence is not None
        self.cadence = spec.text_cadence
        self.streamed: dict[tuple[int, int], _Streamed] = {}
        self.finished: dict[tuple[int, int], _Streamed] = {}

    @property
    def info(self) -> ModelInfo:
        return replace(super().info, text_unit="word")

    def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
        self.prepared.append(segment)
        tokens = len(segment.text)
        rows = tokens * max(self.cadence.rows_per_token, 2 * self.frames_per_char)
        if not segment.is_continuation:
            rows += self.cadence.first_rows + 2 * self._spec.codebooks
        return PreparedText(tokens, rows, 0.0, FakeText(segment))

    def wants_tokens(self, seed: int) -> int:
        """How many tokens it wants to see before it speaks."""
        return 1 + seed % 3

    def forget(self, forget: Forget) -> None:
        sequence, block = forget.sequence, forget.block
        assert not forget.kept_frames
        if block is None:
            self.requests.pop(sequence, None)
            for key in [key for key in self.streamed if key[0] == sequence]:
                del self.streamed[key]
        else:
            self.streamed.pop((sequence, block), None)

    def answer(self, plan: StepPlan) -> StepResult:
        rows: list[RowOutcome] = []
        decisions: list[AudioDecision] = []
        windows: list[Window] = []
        failures: list[SequenceFailure] = []
        for item in plan.prefill:
            self._feed(item, rows, decisions, failures)
        for step in plan.decode:
            key = (step.sequence, step.block)
            block = self.streamed[key]
            fault = self.faults.get(block.name)
            if fault == "fail_row" and step.row == 12:
                failures.append(SequenceFailure(*key, "out of memory"))
                continue
            if fault == "no_answer":
                continue
            assert step.row == len(block.rows)
            self._write(step.page_table, step.position, ("row", *key, step.row - 1, block.rows[-1]))
            rows.append(self._row(key, step.page_table, step.position + 1))
        for window in plan.vocode:
            block = self.streamed[window.sequence, window.block]
            if self.faults.get(block.name) == "fail_window":
                failures.append(SequenceFailure(window.sequence, window.block, "the vocoder failed"))
                continue
            windows.append(self._sound(window, block))
        return StepResult(plan.tick, (), tuple(rows), tuple(windows), tuple(failures), tuple(decisions))

    def _feed(
        self,
        item: PrefillItem,
        rows: list[RowOutcome],
        decisions: list[AudioDecision],
        failures: list[SequenceFailure],
    ) -> None:
        number = item.samples_block if item.samples_block is not None else item.asks_block
        position = item.first_position
        for piece in item.pieces:
            cells: list[object]
            if piece.kind == "prompt":
                cells = [("prompt", piece.payload, place) for place in range(piece.start, piece.end)]
            elif piece.kind == "audio":
                held = self.streamed[item.sequence, piece.block].rows
                cells = [("row", item.sequence, piece.block, row, held[row]) for row in range(piece.start, piece.end)]
            elif piece.kind == "text":
                assert isinstance(piece.payload, FakeText)
                if number is not None:
                    self._take(item.sequence, number, piece.payload, piece.start, piece.end)
                cells = [
                    ("text", item.sequence, piece.block, one) for one in piece.payload.text[piece.start : piece.end]
                ]
            else:
                assert piece.end - piece.start == 1
                cells = [(piece.kind, item.sequence, piece.block)]
                if number is not None and piece.kind == "end_text":
                    block = self.streamed[item.sequence, number]
                    assert block.ended_at is None, "text ended twice"
                    block.ended_at = len(block.rows)
            for place, cell in enumerate(cells):
                self._write(item.page_table, position + place, cell)
            position += piece.end - piece.start
        self.prefilled_positions += position - item.first_position
        if number is None:
            return
        key = (item.sequence, number)
        block = self.streamed[key]
        fault = self.faults.get(block.name)
        if fault == "raise":
            raise RuntimeError("the fake was told to raise")
        if fault == "fail_prefill":
            failures.append(SequenceFailure(*key, "out of memory"))
        elif fault == "no_answer":
            return
        elif item.asks_block is not None:
            assert not block.rows
            assert block.opening is None, "it has said that audio may begin"
            may_begin = len(block.fed) >= self.wants_tokens(block.seed)
            decisions.append(AudioDecision(*key, may_begin))
        else:
            assert item.row == len(block.rows), f"row {item.row} planned, {len(block.rows)} rows there"
            if not block.rows:
                block.opening = len(block.fed)
                enough = self.wants_tokens(block.seed)
                assert block.opening in (enough, self.cadence.max_waits) or block.ended_at == 0
            rows.append(self._row(key, item.page_table, position))

    def _take(self, sequence: int, number: int, text: FakeText, start: int, end: int) -> None:
        block = self.streamed.setdefault((sequence, number), _Streamed(self.requests[sequence].seed))
        assert block.ended_at is None, "text after its end"
        if not block.texts or block.texts[-1] is not text:
            assert sum(len(one.text) for one in block.texts) == len(block.fed), "a text was left before its end"
            assert text.segment.is_continuation == bool(block.texts)
            block.texts.append(text)
        before = sum(len(one.text) for one in block.texts[:-1])
        assert len(block.fed) == before + start, "a token was left out, or fed twice"
        block.fed.extend(text.text[start:end])

    def _row(self, key: tuple[int, int], page_table: tuple[int, ...], length: int) -> RowOutcome:
        block = self.streamed[key]
        self._check_context(key, block, page_table, length)
        codebooks, row = self._spec.codebooks, len(block.rows)
        fault = self.faults.get(block.name)
        if block.ended_at is not None and block.frames is None and fault not in ("runaway", "never_ends"):
            block.frames = max(len(block.fed) * self.frames_per_char, row + 1)
        frames = block.frames if block.frames is not None else 10**9
        block.rows.append(
            tuple(
                BEGIN if row < c else code(block.seed, block.name, row - c, c) if row < frames + c else END
                for c in range(codebooks)
            )
        )
        is_finished = len(block.rows) == frames + codebooks - 1
        if is_finished:
            assert block.texts
            self.finished[key] = block
        is_runaway = fault == "runaway" and len(block.rows) == 20
        return RowOutcome(*key, 1, is_finished, is_runaway)

    def _check_context(self, key: tuple[int, int], block: _Streamed, page_table: tuple[int, ...], length: int) -> None:
        cells = []
        for position in range(length):
            page, offset = divmod(position, self._spec.page_tokens)
            cells.append(self._kv[(page_table[page], offset)])
        voice = self.requests[key[0]].voice
        expected: list[object] = [("prompt", voice, place) for place in range(self.prompt_tokens)]
        expected += one_shot(key, block, self.cadence)
        assert cells == expected, f"sequence {key[0]}, block {key[1]}: KV differs from the one-shot prompt"

    def _sound(self, item: VocodeItem, block: _Streamed) -> Window:
        emitted = len(block.rows) - self._spec.codebooks + 1
        assert item.end_frame + item.right_context_frames <= emitted
        if self.faults.get(block.name) not in ("runaway", "never_ends"):
            is_whole = block.frames is not None and emitted == block.frames
            assert item.is_block_end == (is_whole and item.end_frame == block.frames)
        pcm = segment_pcm(block.name, item.end_frame - item.start_frame, item.start_frame)
        return Window(item.sequence, item.block, pcm, len(pcm))


def one_shot(key: tuple[int, int], block: _Streamed, cadence: TextCadence) -> list[object]:
    """Everything that stands before the row that comes next, from the rule alone."""
    assert block.opening is not None
    begin_audio: object = ("begin_audio", *key)
    cells: list[object] = [("begin_text", *key), *(("text", *key, one) for one in block.fed[: block.opening])]
    if block.ended_at == 0:
        cells.append(("end_text", *key))
    cells.append(begin_audio)
    left = list(block.fed[block.opening :])
    stop = cadence.first_rows
    for row, codes in enumerate([*block.rows, None]):
        is_stop = row == stop and (block.ended_at is None or row <= block.ended_at)
        if is_stop:
            if left:
                cells.append(("text", *key, left.pop(0)))
            else:
                assert row == block.ended_at, f"nothing was fed before row {row}"
                cells.append(("end_text", *key))
            cells.append(begin_audio)
            stop += cadence.rows_per_token
        if codes is not None:
            cells.append(("row", *key, row, codes))
    assert not left, "tokens that no stop accounts for"
    return cells
