"""The delay pattern on tensors: many blocks, each in its own phase, in one step without a branch.

State per block is one number, the row on which codebook 0 ended; the row that is being made comes with the plan. The
end is not looked for in the first K rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

NOT_ENDED = 2**31 - 1
"""`end_rows` of a block whose codebook 0 has not ended: no row ever reaches it."""


@dataclass(frozen=True, slots=True)
class DelayPattern:
    """K codebooks of codes 0 … begin - 1; `begin` fills the ramp, `end` the wind-down.

    `has_staircase`: the end-of-codes staircase is forced and nothing else may hold `begin` or `end`, as in the layout
    of finished blocks; else codes are taken as they were drawn."""

    codebooks: int
    begin: int
    end: int
    has_staircase: bool

    def restrict(self, logits: Tensor, rows: Tensor, end_rows: Tensor, may_end: Tensor | None = None) -> Tensor:
        """Forbid what cannot stand on these rows: logits float32 [B, K, V] -> the same, rows and end_rows int64 [B].
        `may_end` bool [B]: whether the block may end by now, staircase or not; None = all may."""
        if not self.has_staircase:
            return logits if may_end is None else self._without_end(logits, may_end)
        logits = logits.clone()
        logits[..., self.begin] = -torch.inf
        codebook = torch.arange(self.codebooks, device=logits.device)
        is_in_time = rows >= self.codebooks if may_end is None else may_end & (rows >= self.codebooks)
        is_due = (codebook == 0) & is_in_time[:, None] & (end_rows == NOT_ENDED)[:, None]
        logits[..., self.end].masked_fill_(~is_due, -torch.inf)
        return logits

    def _without_end(self, logits: Tensor, may_end: Tensor) -> Tensor:
        """Codebook 0, on which a block ends, does not where it may not."""
        logits = logits.clone()
        logits[:, 0, self.end].masked_fill_(~may_end, -torch.inf)
        return logits

    def complete(self, drawn: Tensor, rows: Tensor, end_rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Turn drawn codes into the rows to emit: drawn int64 [B, K] -> (codes [B, K], end_rows [B], is_finished [B]).

        A finished row is still to be emitted; it is the block's last."""
        codebook = torch.arange(self.codebooks, device=drawn.device)
        codes = torch.where(codebook > rows[:, None], self.begin, drawn)
        if self.has_staircase:
            codes = torch.where(codebook <= (rows - end_rows)[:, None], self.end, codes)
        is_first_end = (codes[:, 0] == self.end) & (rows >= self.codebooks) & (end_rows == NOT_ENDED)
        end_rows = torch.where(is_first_end, rows, end_rows)
        return codes, end_rows, rows >= end_rows + (self.codebooks - 2)

    def staggered(self, frames: Tensor) -> Tensor:
        """The rows [T + K - 1, K] of a finished block of frames int64 [T, K]."""
        count = frames.shape[0]
        codebook = torch.arange(self.codebooks, device=frames.device)
        frame = torch.arange(count + self.codebooks - 1, device=frames.device)[:, None] - codebook
        if count == 0:
            return torch.where(frame < 0, self.begin, self.end)
        codes = frames.gather(0, frame.clamp(0, count - 1))
        return torch.where(frame < 0, self.begin, torch.where(frame >= count, self.end, codes))

    def frames(self, rows: Tensor) -> Tensor:
        """The frames [L - K + 1, K] of rows [L, K]; what is no code of the codec becomes code 0 (never the nearest
        one, which would be heard)."""
        count = rows.shape[0] - self.codebooks + 1
        codebook = torch.arange(self.codebooks, device=rows.device)
        codes = rows[torch.arange(count, device=rows.device)[:, None] + codebook, codebook]
        return torch.where(codes >= self.begin, 0, codes)
