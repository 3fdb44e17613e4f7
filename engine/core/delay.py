"""The delay pattern of K codebooks: how many rows some frames have, and how many frames some rows hold.

Codebook c of frame t stands on row t + c. A block of T frames therefore has T + K - 1 rows: K - 1 rows of ramp (cells
above the diagonal hold begin-of-codes) and, from row T on, K - 1 rows of wind-down in which one codebook more ends on
each row (the staircase).
"""

from __future__ import annotations


def rows_of(frames: int, codebooks: int) -> int:
    """Rows that a finished block of `frames` frames has."""
    return frames + codebooks - 1


def frames_of(rows: int, codebooks: int) -> int:
    """Frames whose every code stands on the first `rows` rows of a block."""
    return max(0, rows - codebooks + 1)
