"""The delay pattern: rows, frames and the oracle's cursor against an independent build, in every phase."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.delay import frames_of, rows_of
from tests.fakes.delay_oracle import DelayCursor

BEGIN, END = -1, -2


def build(frames: int, codebooks: int) -> list[list[tuple[int, int] | int]]:
    """Rows of a whole block, cell by cell from the definition: codebook c of frame t stands on row t + c."""
    rows: list[list[tuple[int, int] | int]] = []
    for row in range(frames + codebooks - 1):
        cells: list[tuple[int, int] | int] = []
        for c in range(codebooks):
            cells.append(BEGIN if row < c else (row - c, c) if row < c + frames else END)
        rows.append(cells)
    return rows


def test_the_worked_example_of_three_codebooks_and_four_frames() -> None:
    cursor = DelayCursor(3)
    seen = []
    for row in range(6):
        active, ended = cursor.active_codebooks, cursor.ended_codebooks
        cursor.step(has_end=row == 4)
        seen.append((active, ended, cursor.frames, cursor.is_done))
    assert seen == [
        (1, 0, 0, False),
        (2, 0, 0, False),
        (3, 0, 1, False),
        (3, 0, 2, False),
        (3, 0, 3, False),
        (3, 2, 4, True),
    ]


@given(frames=st.integers(1, 40), codebooks=st.integers(2, 9))
def test_the_cursor_walks_every_block_as_it_is_built(frames: int, codebooks: int) -> None:
    # The end cannot be seen in the first K rows, so a block is at least K frames long or ends by its later rows.
    frames = max(frames, codebooks)
    cursor = DelayCursor(codebooks)
    rows = build(frames, codebooks)
    for row, cells in enumerate(rows):
        assert not cursor.is_done
        assert cells[cursor.active_codebooks :] == [BEGIN] * (codebooks - cursor.active_codebooks)
        assert cells[: cursor.ended_codebooks] == [END] * cursor.ended_codebooks
        cursor.step(has_end=cells[0] == END)
        whole = [t for t in range(frames) if all(t + c <= row for c in range(codebooks))]
        assert cursor.frames == len(whole)
    assert cursor.is_done
    assert cursor.rows == rows_of(frames, codebooks)
    assert cursor.frames == frames


@given(codebooks=st.integers(2, 9), codes=st.lists(st.booleans(), min_size=0, max_size=30))
def test_an_end_in_the_ramp_or_after_the_first_is_not_looked_at(codebooks: int, codes: list[bool]) -> None:
    cursor = DelayCursor(codebooks)
    ends = [row for row, has_end in enumerate(codes) if has_end and row >= codebooks]
    expected = ends[0] + codebooks - 1 if ends else None
    for row, has_end in enumerate(codes):
        cursor.step(has_end)
        if cursor.is_done:
            assert expected == row + 1
            return
    assert expected is None or len(codes) < expected


def test_the_first_frame_is_whole_with_the_last_row_of_the_ramp() -> None:
    assert [frames_of(rows, 8) for rows in (0, 7, 8, 27)] == [0, 0, 1, 20]
    assert rows_of(frames_of(27, 8), 8) == 27


def test_a_block_that_is_done_takes_no_more_rows() -> None:
    cursor = DelayCursor(2)
    for row in range(3):
        cursor.step(has_end=row == 2)
    assert cursor.is_done
    with pytest.raises(ValueError, match="ended at row 2"):
        cursor.step(has_end=False)
