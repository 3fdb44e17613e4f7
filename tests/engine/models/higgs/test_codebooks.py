"""The store of rows: slots are reused and grow, rows and frames come back, a cut block ends like any block."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from engine.models.higgs.codebooks import RowStore  # noqa: E402
from engine.runtime.delay_rows import NOT_ENDED, DelayPattern  # noqa: E402

PATTERN = DelayPattern(codebooks=3, begin=16, end=17, has_staircase=True)


def store(slots: int = 2) -> RowStore:
    return RowStore(PATTERN, block_rows=20, slots=slots, device=torch.device("cpu"))


def fill(rows: RowStore, block: tuple[int, int], codes: Any) -> None:
    rows.open(block)
    slots = rows.slots([block])
    for index, row in enumerate(codes):
        rows.append(slots, torch.tensor([index]), row[None], torch.tensor([NOT_ENDED]))
        rows.note_rows(block, index + 1)


def some_frames(count: int, seed: int = 0) -> Any:
    return torch.randint(0, 16, (count, 3), generator=torch.Generator().manual_seed(seed))


def test_rows_and_frames_come_back_as_written() -> None:
    rows, frames = store(), some_frames(6)
    fill(rows, (1, 0), PATTERN.staggered(frames))
    assert rows.row_count((1, 0)) == 8
    assert torch.equal(rows.rows((1, 0), 2, 5), PATTERN.staggered(frames)[2:5])
    assert torch.equal(rows.frames((1, 0), 1, 6), frames[1:])


def test_rows_that_are_not_there_cannot_be_read() -> None:
    rows = store()
    fill(rows, (1, 0), PATTERN.staggered(some_frames(2)))
    with pytest.raises(IndexError, match="rows 0 … 5 of a block with 4 rows"):
        rows.rows((1, 0), 0, 5)
    with pytest.raises(LookupError):
        rows.rows((1, 1), 0, 1)


def test_blocks_of_many_sequences_are_written_and_read_at_once() -> None:
    rows = store()
    for block in ((1, 0), (2, 5)):
        rows.open(block)
    slots = rows.slots([(2, 5), (1, 0)])
    rows.append(slots, torch.tensor([0, 3]), torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([NOT_ENDED, 3]))
    assert rows.at(rows.slots([(1, 0), (2, 5)]), torch.tensor([3, 0])).tolist() == [[4, 5, 6], [1, 2, 3]]
    assert rows.end_rows(slots).tolist() == [NOT_ENDED, 3]


def test_a_row_that_repeats_the_one_before_is_told_but_never_row_zero() -> None:
    rows = store(1)
    fill(rows, (1, 0), torch.tensor([[0, 0, 0]]))
    rows.close((1, 0))
    rows.open((2, 0))
    slots, ended = rows.slots([(2, 0)]), torch.tensor([NOT_ENDED])
    told = [
        rows.append(slots, torch.tensor([index]), torch.tensor([row]), ended).item()
        for index, row in enumerate(([0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 1]))
    ]
    assert told == [False, True, False, True]


@pytest.mark.parametrize("kept", [0, 1, 4, 6])
def test_a_cut_block_is_a_whole_block_of_what_was_kept(kept: int) -> None:
    rows, frames = store(), some_frames(6)
    fill(rows, (1, 0), PATTERN.staggered(frames))
    rows.cut((1, 0), kept)
    assert torch.equal(rows.rows((1, 0), 0, kept + 2), PATTERN.staggered(frames[:kept]))
    assert rows.row_count((1, 0)) == kept + 2
    assert rows.end_rows(rows.slots([(1, 0)])).tolist() == [kept]


def test_a_block_in_the_middle_of_its_rows_can_be_cut_too() -> None:
    rows, frames = store(), some_frames(9)
    fill(rows, (1, 0), PATTERN.staggered(frames)[:7])  # no end yet
    rows.cut((1, 0), 3)
    assert torch.equal(rows.rows((1, 0), 0, 5), PATTERN.staggered(frames[:3]))


def test_slots_are_reused_and_the_store_grows_without_losing_rows() -> None:
    rows = store(2)
    for number in range(5):
        fill(rows, (1, number), PATTERN.staggered(some_frames(3, number)))
    for number in range(5):
        assert torch.equal(rows.frames((1, number), 0, 3), some_frames(3, number))
    rows.close((1, 2))
    rows.close((1, 2))
    assert (1, 2) not in rows
    fill(rows, (2, 0), PATTERN.staggered(some_frames(3, 9)))
    rows.close_sequence(1)
    assert torch.equal(rows.frames((2, 0), 0, 3), some_frames(3, 9))
    assert len({int(rows.slots([(2, 0)])[0])}) == 1


def test_a_block_opened_again_has_not_ended() -> None:
    rows = store()
    fill(rows, (1, 0), PATTERN.staggered(some_frames(4)))
    rows.cut((1, 0), 2)
    rows.open((1, 0))
    assert rows.row_count((1, 0)) == 0
    assert rows.end_rows(rows.slots([(1, 0)])).tolist() == [NOT_ENDED]
