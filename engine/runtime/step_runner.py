"""One step's rows through a backbone: all at once, or in batches of one fixed shape where the same bits are promised.

A matrix product may round a row otherwise in another batch size. In fixed batches every row, prefill or decode, is run
as a decode row in a batch of exactly so many rows, filled up with rows that write to a page nobody owns; contexts are
summed in fixed splits. A row's result then depends on its own context alone, however the step was put together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.runtime.attention import ContextBatch, Span, TableMemory, context_batch, single_rows


@dataclass(frozen=True, slots=True)
class FixedBatches:
    """The shape in which the same bits are promised."""

    rows: int
    split_tokens: int


class StepRunner:
    """`forward`: rows [T, channels] laid out as the batch says -> hidden states [T, channels]."""

    def __init__(
        self,
        forward: Callable[[Tensor, ContextBatch], Tensor],
        page_tokens: int,
        scrap_page: int,
        device: torch.device,
        fixed: FixedBatches | None,
    ) -> None:
        self._forward = forward
        self._page_tokens = page_tokens
        self._padding = Span(0, 1, (scrap_page,))
        self._device = device
        self._fixed = fixed
        self._memory = TableMemory()

    def run(self, x: Tensor, prefill: Sequence[Span], decode: Sequence[Span], wanted: Sequence[int]) -> Tensor:
        """Feed rows x [T, channels], those of the prefill spans first; answers the hidden states of rows `wanted`."""
        if self._fixed is None:
            batch = context_batch(prefill, decode, self._page_tokens, self._device, memory=self._memory)
            hidden = self._forward(x, batch)
        else:
            hidden = self._in_fixed_batches(x, [*single_rows(prefill), *decode], self._fixed)
        return hidden[torch.tensor(wanted, dtype=torch.int64).to(self._device, non_blocking=True)]

    def by_row(self, x: Tensor, work: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply what treats rows [B, …] one by one, in the promised shape."""
        if self._fixed is None:
            return work(x)
        size = self._fixed.rows
        batches = [x[start : start + size] for start in range(0, x.shape[0], size)]
        return torch.cat([work(_padded(batch, size))[: batch.shape[0]] for batch in batches])

    def _in_fixed_batches(self, x: Tensor, rows: Sequence[Span], fixed: FixedBatches) -> Tensor:
        out = []
        for start in range(0, len(rows), fixed.rows):
            spans = [*rows[start : start + fixed.rows]]
            spans += [self._padding] * (fixed.rows - len(spans))
            batch = context_batch([], spans, self._page_tokens, self._device, fixed.split_tokens)
            out.append(self._forward(_padded(x[start : start + fixed.rows], fixed.rows), batch))
        return torch.cat(out)


def _padded(x: Tensor, rows: int) -> Tensor:
    return functional.pad(x, (0, 0, 0, rows - x.shape[0]))
