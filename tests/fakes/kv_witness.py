"""Stands between scheduler and a Higgs model, keeps a symbolic twin of the KV memory, and can replay any block.

Every cell that a plan fills is noted by what was put there (a text token, or an audio row), by physical page. When a
block ends, what its context then held is read back through its page table. Replaying it is one forward pass of
transformers' Qwen3 over the whole interleaved prompt at once, and one draw per row under the block's own key: rows that
come out otherwise were made from a wrong context. Every answer to whether audio may begin is replayed as well.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import torch

from engine.core.step import ModelSpec, PreparedPrompt, PreparedText, StepPlan, StepResult
from engine.models.higgs.model import HiggsModel
from engine.models.higgs.prompt import MARKS, TextBlock
from engine.runtime.delay_rows import NOT_ENDED
from engine.runtime.sampling import DrawKey, SamplingParameters, sample_rows
from engine.speech import ModelInfo, Segment, SpeechRequest

Unit = tuple[int, ...]
"""(id,) of a text token, or the K codes of an audio row."""


@dataclass
class WitnessedBlock:
    """A block as it was generated: the units of its context up to the last fed row, and its rows."""

    sequence: int
    block: int
    texts: list[TextBlock]
    draw_block: int
    parameters: SamplingParameters
    context: list[Unit] = field(default_factory=list)
    rows: list[Unit] = field(default_factory=list)
    is_finished: bool = False

    @property
    def text(self) -> tuple[int, ...]:
        """Of all that it was given."""
        return tuple(number for text in self.texts for number in text.ids)


@dataclass(frozen=True)
class WitnessedDecision:
    """What was fed before the model was asked whether audio may begin, and its answer."""

    context: list[Unit]
    may_begin: bool


class KvWitness:
    """A SpeechModel; the model's own answers pass through unchanged."""

    def __init__(self, model: HiggsModel) -> None:
        self.model = model
        self.blocks: dict[tuple[int, int], WitnessedBlock] = {}
        self.decisions: list[WitnessedDecision] = []
        self.max_rows_in_a_tick = 0
        self.prefilled: dict[int, int] = defaultdict(int)
        """Positions prefilled, by sequence."""
        self._cells: dict[tuple[int, int], Unit] = {}

    @property
    def info(self) -> ModelInfo:
        return self.model.info

    @property
    def spec(self) -> ModelSpec:
        return self.model.spec

    def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
        return self.model.prepare(segment, request)

    def prepare_prompt(self, request: SpeechRequest) -> PreparedPrompt:
        return self.model.prepare_prompt(request)

    def warm_up(self) -> None:
        self.model.warm_up()

    def close(self) -> None:
        self.model.close()

    def execute(self, plan: StepPlan) -> StepResult:
        store = self.model._rows
        result = self.model.execute(plan)
        answers = {(decision.sequence, decision.block): decision.may_begin for decision in result.decisions}
        for item in plan.prefill:
            at = item.first_position
            for piece in item.pieces:
                units: list[Unit]
                payload: Any = piece.payload
                if piece.kind == "audio":
                    rows = store._codes[store._slots[item.sequence, piece.block], piece.start : piece.end]
                    units = [tuple(row) for row in rows.tolist()]
                elif piece.kind == "text":
                    units = [(number,) for number in payload.ids[piece.start : piece.end]]
                elif piece.kind in MARKS:
                    units = [(self.model._writer.mark(piece.kind),)]
                else:
                    whole = [(number,) for number in payload.ids] + [tuple(row) for row in payload.rows.tolist()]
                    units = whole[piece.start : piece.end]
                self._put(item.page_table, at, units)
                at += len(units)
                self.prefilled[item.sequence] += len(units)
            if item.asks_block is not None:
                may_begin = answers[item.sequence, item.asks_block]
                self.decisions.append(WitnessedDecision(self._read(item.page_table, at), may_begin))
            if item.samples_block is not None:
                key = (item.sequence, item.samples_block)
                if item.row == 0:
                    state = self.model._sequences[item.sequence].blocks[item.samples_block]
                    self.blocks[key] = WitnessedBlock(*key, state.texts, state.draw_block, state.parameters)
                self.blocks[key].context = self._read(item.page_table, at)
        for decode in plan.decode:
            key = (decode.sequence, decode.block)
            fed = tuple(store._codes[store._slots[key], decode.row - 1].tolist())
            self._put(decode.page_table, decode.position, [fed])
            self.blocks[key].context = self._read(decode.page_table, decode.position + 1)
        for outcome in result.rows:
            block = self.blocks[outcome.sequence, outcome.block]
            index = len(block.rows)
            block.rows.append(tuple(store._codes[store._slots[outcome.sequence, outcome.block], index].tolist()))
            block.is_finished = outcome.is_block_finished
        self.max_rows_in_a_tick = max(self.max_rows_in_a_tick, len(result.rows))
        return result

    def check(self, qwen3: Any) -> int:
        """Replay every block; answers how many rows were checked."""
        for decision in self.decisions:
            self._check_decision(decision, qwen3)
        return sum(self._check(block, qwen3) for block in self.blocks.values())

    def _check_decision(self, decision: WitnessedDecision, qwen3: Any) -> None:
        hidden = self._replay(decision.context, qwen3)[-1]
        text, audio = (self.model._writer.mark(kind) for kind in ("begin_text", "begin_audio"))
        scores = hidden @ self.model._parts.backbone.text_embedding.T
        assert bool(scores[audio] > scores[text]) == decision.may_begin

    def _replay(self, units: list[Unit], qwen3: Any) -> torch.Tensor:
        """Hidden states [T, channels] of one pass over everything."""
        parts = self.model._parts
        x = torch.stack(
            [
                parts.backbone.text_embedding[unit[0]] if len(unit) == 1 else parts.codebooks.embed(torch.tensor(unit))
                for unit in units
            ]
        )
        with torch.inference_mode():
            hidden: torch.Tensor = qwen3(inputs_embeds=x[None]).last_hidden_state[0]
        return hidden

    def _check(self, block: WitnessedBlock, qwen3: Any) -> int:
        parts, pattern, cadence = self.model._parts, self.model._pattern, self.spec.text_cadence
        count = len(block.rows)
        fed = count - 1
        places = [place for place, unit in enumerate(block.context) if len(unit) > 1][-fed:] if fed else []
        assert [block.context[place] for place in places] == block.rows[:fed], "the context ends in the block's rows"
        head = block.context[: places[0] if places else None]
        may_end = torch.ones(count, dtype=torch.bool)
        if cadence is None:
            assert places == list(range(len(head), len(block.context))), "with nothing between them"
            assert tuple(unit[0] for unit in head[-len(block.text) :]) == block.text, "and before them its text"
        else:
            mark = (self.model._writer.mark("end_text"),)
            end = block.context.index(mark) if mark in block.context else len(block.context)
            may_end = torch.tensor([place > end for place in [*places, len(block.context)]])
        hidden = self._replay(block.context, qwen3)[[place - 1 for place in [*places, len(block.context)]]]
        logits = (hidden @ parts.codebooks.embedding.T).view(count, pattern.codebooks, -1)
        rows = torch.arange(count)
        codes = torch.tensor(block.rows)
        ended = ((codes[:, 0] == pattern.end) & (rows >= pattern.codebooks)).nonzero()
        end_row = int(ended[0]) if len(ended) else NOT_ENDED
        end_rows = torch.where(rows > end_row, end_row, NOT_ENDED)
        keys = [DrawKey(block.parameters, block.draw_block, row) for row in range(count)]
        drawn = sample_rows(pattern.restrict(logits, rows, end_rows, may_end), keys)
        wanted, _, finished = pattern.complete(drawn, rows, end_rows)
        assert torch.equal(wanted, codes), f"block {block.block} of sequence {block.sequence} has other rows"
        assert bool(finished[-1]) == block.is_finished
        return count

    def _put(self, table: tuple[int, ...], at: int, units: list[Unit]) -> None:
        size = self.spec.page_tokens
        for position, unit in enumerate(units, start=at):
            self._cells[table[position // size], position % size] = unit

    def _read(self, table: tuple[int, ...], end: int) -> list[Unit]:
        size = self.spec.page_tokens
        return [self._cells[table[position // size], position % size] for position in range(end)]
