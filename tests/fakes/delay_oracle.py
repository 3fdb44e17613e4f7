"""The machine of the delay pattern for one block, row by row: the oracle of the batched one on tensors.

The end is seen on codebook 0 of row T; it is not looked for in the first K rows.
"""

from __future__ import annotations

from engine.core.delay import frames_of


class DelayCursor:
    """Where one block stands; `step` follows its codes."""

    def __init__(self, codebooks: int) -> None:
        self.codebooks = codebooks
        self.rows = 0
        self.is_done = False
        self._countdown: int | None = None

    @property
    def frames(self) -> int:
        """Frames whose every code has been emitted."""
        return frames_of(self.rows, self.codebooks)

    @property
    def active_codebooks(self) -> int:
        """On the next row, codebooks [0, active) hold codes and the rest begin-of-codes."""
        return min(self.rows + 1, self.codebooks)

    @property
    def ended_codebooks(self) -> int:
        """On the next row, codebooks [0, ended) are due to hold end-of-codes (the staircase of the wind-down)."""
        return 0 if self._countdown is None else self.codebooks - self._countdown

    def step(self, has_end: bool) -> None:
        """One row more has been emitted; `has_end`: its codebook 0 holds end-of-codes."""
        if self.is_done:
            raise ValueError(f"the block ended at row {self.rows - 1}")
        if self.rows >= self.codebooks:
            if self._countdown is not None:
                self._countdown -= 1
                self.is_done = self._countdown <= 0
            elif has_end:
                self._countdown = self.codebooks - 2
                self.is_done = self._countdown <= 0
        self.rows += 1
