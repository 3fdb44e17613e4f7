"""The codebooks on the model's side: one matrix that embeds rows and scores them, and the store of rows made."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

import kernels
from engine.runtime.delay_rows import NOT_ENDED, DelayPattern
from engine.runtime.layers import empty_parameter


class CodebookHead(nn.Module):
    """`embedding` [K * V, channels], codebook-major. A row's embedding is the sum over its codes; a row's logits are
    one linear map with the same matrix (or with `head`, where the checkpoint does not tie them)."""

    head: nn.Parameter | None

    def __init__(
        self, codebooks: int, codes: int, channels: int, is_tied: bool, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        self.codebooks, self.codes = codebooks, codes
        self.embedding = empty_parameter(codebooks * codes, channels, dtype=dtype, device=device)
        self.head = None if is_tied else empty_parameter(codebooks * codes, channels, dtype=dtype, device=device)

    def embed(self, rows: Tensor) -> Tensor:
        """Codes int64 [T, K] -> [T, channels]."""
        return kernels.codebook_embed(rows, self.embedding)

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states [B, channels] -> float32 [B, K, V]."""
        scores = functional.linear(hidden, self.embedding if self.head is None else self.head)
        return scores.float().view(hidden.shape[0], self.codebooks, self.codes)


class RowStore:
    """Rows of every living block, on the device: int16 [slots, rows, K], and the row on which each block's codebook 0
    ended. A block's slot is freed when the scheduler forgets it; the store grows by half where none is free."""

    def __init__(self, pattern: DelayPattern, block_rows: int, slots: int, device: torch.device) -> None:
        self._pattern = pattern
        self._codes = torch.zeros(slots, block_rows, pattern.codebooks, dtype=torch.int16, device=device)
        self._end_rows = torch.full((slots,), NOT_ENDED, dtype=torch.int64, device=device)
        self._slots: dict[tuple[int, int], int] = {}
        self._row_counts: dict[tuple[int, int], int] = {}
        self._free = list(range(slots - 1, -1, -1))

    def __contains__(self, block: tuple[int, int]) -> bool:
        return block in self._slots

    @property
    def block_rows(self) -> int:
        """Rows that one block may have."""
        return self._codes.shape[1]

    def open(self, block: tuple[int, int]) -> None:
        """Begin a block (sequence, number) afresh, before its row 0 is sampled."""
        if block not in self._slots:
            if not self._free:
                self._grow()
            self._slots[block] = self._free.pop()
        self._row_counts[block] = 0
        self._end_rows[self._slots[block]] = NOT_ENDED

    def close(self, block: tuple[int, int]) -> None:
        """Forget a block; unknown ones are ignored."""
        slot = self._slots.pop(block, None)
        if slot is not None:
            del self._row_counts[block]
            self._free.append(slot)

    def close_sequence(self, sequence: int) -> None:
        for block in [block for block in self._slots if block[0] == sequence]:
            self.close(block)

    def row_count(self, block: tuple[int, int]) -> int:
        return self._row_counts[block]

    def rows(self, block: tuple[int, int], start: int, end: int) -> Tensor:
        """Rows [start, end) of a block, int64 [end - start, K]."""
        if not 0 <= start <= end <= self._row_counts[block]:
            raise IndexError(f"rows {start} … {end} of a block with {self._row_counts[block]} rows")
        return self._codes[self._slots[block], start:end].long()

    def frames(self, block: tuple[int, int], start: int, end: int) -> Tensor:
        """De-staggered frames [start, end) of a block, int64 [end - start, K]."""
        return self._pattern.frames(self.rows(block, start, end + self._pattern.codebooks - 1))

    def slots(self, blocks: Sequence[tuple[int, int]]) -> Tensor:
        """Where blocks are kept, int64 [B], for the methods that treat many at once."""
        return torch.tensor([self._slots[block] for block in blocks], dtype=torch.int64).to(
            self._codes.device, non_blocking=True
        )

    def at(self, slots: Tensor, rows: Tensor) -> Tensor:
        """Row rows[i] of the block at slots[i]: int64 [B, K]."""
        return self._codes[slots, rows].long()

    def end_rows(self, slots: Tensor) -> Tensor:
        """int64 [B]: the row on which each block's codebook 0 ended."""
        return self._end_rows[slots]

    def append(self, slots: Tensor, rows: Tensor, codes: Tensor, end_rows: Tensor) -> Tensor:
        """Write row rows[i] of the block at slots[i]: codes int64 [B, K]; rows, end_rows int64 [B]. Look-ahead past an
        end and rows made again after a roll-back overwrite. Answers which rows repeat the one before: bool [B]."""
        new = codes.short()
        is_repeat = (self._codes[slots, (rows - 1).clamp(min=0)] == new).all(dim=-1) & (rows > 0)
        self._codes[slots, rows] = new
        self._end_rows[slots] = end_rows
        return is_repeat

    def note_rows(self, block: tuple[int, int], count: int) -> None:
        """The block now has `count` rows (the host's count of what `append` wrote)."""
        self._row_counts[block] = count

    def cut(self, block: tuple[int, int], frames: int) -> None:
        """Keep a block's first `frames` frames and give it the end that a block of that length has."""
        kept = self._pattern.staggered(self.frames(block, 0, frames))
        self._codes[self._slots[block], : len(kept)] = kept.short()
        self._end_rows[self._slots[block]] = frames
        self._row_counts[block] = len(kept)

    def _grow(self) -> None:
        slots = self._codes.shape[0]
        more = max(1, slots // 2)
        self._codes = torch.cat((self._codes, self._codes.new_zeros(more, *self._codes.shape[1:])))
        self._end_rows = torch.cat((self._end_rows, self._end_rows.new_full((more,), NOT_ENDED)))
        self._free.extend(range(slots + more - 1, slots - 1, -1))
