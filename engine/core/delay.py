"""The delay pattern of K codebooks: how many frames some rows hold, and where the end of codes falls.

Codebook c of frame t stands on row t + c. A block of T frames therefore has T + K - 1 rows: K - 1 rows of ramp (cells
above the diagonal hold begin-of-codes) and, from row T on, K - 1 rows of wind-down in which one codebook more ends on
each row (the staircase). The end is seen on codebook 0 of row T; it is not looked for in the first K rows.

DelayCursor is that machine for one sequence: the oracle that a batched implementation is tested against, and the
scheduler's counter.
"""

from __future__ import annotations


def rows_of(frames: int, codebooks: int) -> int:
    """Rows that a finished block of `frames` frames has."""
    return frames + codebooks - 1


class DelayCursor:
    """Where one block stands. `step` follows the codes; `count` only counts rows whose codes nobody here reads."""

    __slots__ = ("_countdown", "codebooks", "is_done", "rows")

    def __init__(self, codebooks: int) -> None:
        if codebooks < 2:
            raise ValueError(f"a delay pattern has at least 2 codebooks, not {codebooks}")
        self.codebooks = codebooks
        self.rows = 0
        self.is_done = False
        self._countdown: int | None = None

    @property
    def frames(self) -> int:
        """Frames whose every code has been emitted."""
        return max(0, self.rows - self.codebooks + 1)

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

    def count(self, rows: int) -> None:
        """`rows` rows more have been emitted; the end is told by somebody else."""
        self.rows += rows
