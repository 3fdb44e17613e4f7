"""Grouped-query attention over paged contexts, and the batch record that tells it where every row of a step stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor, nn

import kernels
from engine.runtime.layers import Projection, empty_parameter

WIDTH_STEP_PAGES = 8
"""Pages that remembered tables are wider than the step needs, so that a growing context does not renew them."""


@dataclass(frozen=True, slots=True)
class Span:
    """Rows at positions [first_position, first_position + length) of the context that `page_table` holds."""

    first_position: int
    length: int
    page_table: Sequence[int]

    @property
    def end_position(self) -> int:
        return self.first_position + self.length


MAX_PADDING = 2
"""Rows that a prefill may be padded to, as a multiple of those it has."""


@dataclass(frozen=True, slots=True)
class PrefillGroup:
    """Spans that one call of the kernel treats: so like in length that padding each to the longest makes at most
    MAX_PADDING times their rows. page_tables int64 [B, P]; query_starts int64 [B + 1]; lengths (of the contexts, the
    step's own rows included) int64 [B]."""

    rows: int
    max_query_tokens: int
    page_tables: Tensor
    query_starts: Tensor
    lengths: Tensor


@dataclass(frozen=True, slots=True)
class ContextBatch:
    """Where the rows of one step stand: first those of `prefill` spans, in order, then one per `decode` span.

    positions, slots int64 [T]; page tables int64 [B, P]; lengths (context, the step's own rows included) int64 [B].
    `split_tokens`: sum every context in splits of that size (see `kernels`).
    """

    positions: Tensor
    slots: Tensor
    prefill: tuple[PrefillGroup, ...]
    decode_tables: Tensor
    decode_lengths: Tensor
    split_tokens: int | None = None


class TableMemory:
    """The page tables of the step before, on the device: while the same sequences decode, they are the same tables."""

    __slots__ = ("_tables", "_tensor", "_width")

    def __init__(self) -> None:
        self._tables: list[Sequence[int]] = []
        self._width = 0
        self._tensor: Tensor | None = None

    def tables(self, spans: Sequence[Span], page_tokens: int, device: torch.device) -> Tensor:
        """int64 [B, P], P pages at least as many as the longest context uses; what is past a context's own pages
        names its first one."""
        width = max((-(-span.end_position // page_tokens) for span in spans), default=0)
        is_same = len(spans) == len(self._tables) and all(
            span.page_table is table for span, table in zip(spans, self._tables, strict=True)
        )
        if not is_same or self._tensor is None or width > self._width:
            self._width = width + WIDTH_STEP_PAGES
            self._tables = [span.page_table for span in spans]
            self._tensor = _tables(self._tables, self._width, device)
        return self._tensor[:, :width]


def context_batch(
    prefill: Sequence[Span],
    decode: Sequence[Span],
    page_tokens: int,
    device: torch.device,
    split_tokens: int | None = None,
    memory: TableMemory | None = None,
) -> ContextBatch:
    """Lay out one step; spans of `decode` have length 1. `memory`: keeps the decodes' page tables between steps. The
    more prefill spans of like length follow each other, the fewer groups."""
    spans = (*prefill, *decode)
    positions = [p for span in spans for p in range(span.first_position, span.end_position)]
    slots = [
        span.page_table[p // page_tokens] * page_tokens + p % page_tokens
        for span in spans
        for p in range(span.first_position, span.end_position)
    ]
    return ContextBatch(
        positions=_indices(positions, device),
        slots=_indices(slots, device),
        prefill=tuple(_prefill_group(spans, page_tokens, device) for spans in _alike(prefill)),
        decode_tables=(memory or TableMemory()).tables(decode, page_tokens, device),
        decode_lengths=_indices([span.end_position for span in decode], device),
        split_tokens=split_tokens,
    )


def _alike(spans: Sequence[Span]) -> Iterator[Sequence[Span]]:
    """The spans in order, parted wherever one would make its group's padding too large."""
    start, rows, longest = 0, 0, 0
    for index, span in enumerate(spans):
        rows, longest = rows + span.length, max(longest, span.length)
        if (index + 1 - start) * longest > MAX_PADDING * rows:
            yield spans[start:index]
            start, rows, longest = index, span.length, span.length
    if start < len(spans):
        yield spans[start:]


def _prefill_group(spans: Sequence[Span], page_tokens: int, device: torch.device) -> PrefillGroup:
    lengths = [span.length for span in spans]
    return PrefillGroup(
        rows=sum(lengths),
        max_query_tokens=max(lengths),
        page_tables=TableMemory().tables(spans, page_tokens, device),
        query_starts=_indices([0, *accumulate(lengths)], device),
        lengths=_indices([span.end_position for span in spans], device),
    )


def single_rows(spans: Sequence[Span]) -> Iterator[Span]:
    """Every row of the spans as a span of its own, so that a prefill can run as decode rows."""
    for span in spans:
        for position in range(span.first_position, span.end_position):
            yield Span(position, 1, span.page_table)


class PagedAttention(nn.Module):
    """Projections, per-head query and key norms, rotary positions, attention over pages."""

    def __init__(
        self,
        channels: int,
        heads: int,
        kv_heads: int,
        head_size: int,
        eps: float,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_size, self.eps = heads, kv_heads, head_size, eps
        self.qkv = Projection(channels, (heads + 2 * kv_heads) * head_size, dtype, device)
        self.out = Projection(heads * head_size, channels, dtype, device)
        self.q_norm = empty_parameter(head_size, dtype=dtype, device=device)
        self.k_norm = empty_parameter(head_size, dtype=dtype, device=device)

    def forward(self, x: Tensor, batch: ContextBatch, table: Tensor, key_pages: Tensor, value_pages: Tensor) -> Tensor:
        """x [T, channels] -> [T, channels]; writes the rows' keys and values into the pools."""
        rows = x.shape[0]
        qkv = self.qkv(x).view(rows, self.heads + 2 * self.kv_heads, self.head_size)
        q = kernels.rotary_kv(
            qkv, self.q_norm, self.k_norm, self.eps, table, batch.positions, key_pages, value_pages, batch.slots
        )
        scale = self.head_size**-0.5
        mixed = []
        start = 0
        for group in batch.prefill:
            mixed.append(
                kernels.paged_prefill_attention(
                    q[start : start + group.rows],
                    key_pages,
                    value_pages,
                    group.page_tables,
                    group.query_starts,
                    group.lengths,
                    group.max_query_tokens,
                    scale,
                )
            )
            start += group.rows
        if rows > start:
            mixed.append(
                kernels.paged_decode_attention(
                    q[start:],
                    key_pages,
                    value_pages,
                    batch.decode_tables,
                    batch.decode_lengths,
                    scale,
                    batch.split_tokens,
                )
            )
        joined = mixed[0] if len(mixed) == 1 else torch.cat(mixed)
        out: Tensor = self.out(joined.reshape(rows, self.heads * self.head_size))
        return out


def _indices(values: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.int64).to(device, non_blocking=True)


def _tables(tables: Sequence[Sequence[int]], width: int, device: torch.device) -> Tensor:
    """Page tables of one width: cut, or filled up with each one's first page."""
    rows = [[*table[:width], *([table[0]] * (width - len(table)))] for table in tables]
    return torch.tensor(rows, dtype=torch.int64).view(len(tables), width).to(device, non_blocking=True)
