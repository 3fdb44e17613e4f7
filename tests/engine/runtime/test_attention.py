"""A step's layout: where every row stands, and what of a page table is read."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from engine.runtime.attention import MAX_PADDING, Span, TableMemory, context_batch, single_rows  # noqa: E402

CPU = torch.device("cpu")


def test_rows_are_laid_out_prefill_first_at_their_positions_and_slots() -> None:
    batch = context_batch([Span(3, 3, (7, 2)), Span(0, 1, (4,))], [Span(5, 1, (9, 1, 8))], page_tokens=4, device=CPU)
    assert batch.positions.tolist() == [3, 4, 5, 0, 5]
    assert batch.slots.tolist() == [31, 8, 9, 16, 5]
    (group,) = batch.prefill
    assert (group.rows, group.max_query_tokens) == (4, 3)
    assert group.query_starts.tolist() == [0, 3, 4]
    assert group.lengths.tolist() == [6, 1]
    assert batch.decode_lengths.tolist() == [6]


def test_page_tables_are_cut_to_what_is_read_and_filled_with_an_own_page() -> None:
    batch = context_batch([], [Span(9, 1, (3, 1, 2, 6)), Span(0, 1, (5, 4))], page_tokens=4, device=CPU)
    assert batch.decode_tables.tolist() == [[3, 1, 2], [5, 4, 5]]
    assert batch.prefill == ()


@pytest.mark.parametrize(
    ("lengths", "groups"),
    [
        ([5], [1]),
        ([1, 1, 1, 1], [4]),
        ([1, 2, 3, 4], [4]),
        ([3, 3, 90], [2, 1]),
        ([1] * 20 + [400], [20, 1]),
        ([1, 1, 2, 4, 8, 16, 32, 64], [4, 3, 1]),
        ([64, 1, 1, 1], [2, 2]),
    ],
)
def test_spans_share_a_call_only_while_padding_them_costs_little(lengths: list[int], groups: list[int]) -> None:
    spans = [Span(0, length, tuple(range(100))) for length in lengths]
    batch = context_batch(spans, [], page_tokens=4, device=CPU)
    assert [len(group.lengths) for group in batch.prefill] == groups
    assert sum(group.rows for group in batch.prefill) == sum(lengths)
    for group in batch.prefill:
        assert group.max_query_tokens * len(group.lengths) <= MAX_PADDING * group.rows


def test_single_rows_are_the_rows_of_the_spans() -> None:
    assert list(single_rows([Span(2, 2, (1,)), Span(0, 1, (3,))])) == [
        Span(2, 1, (1,)),
        Span(3, 1, (1,)),
        Span(0, 1, (3,)),
    ]


def test_remembered_tables_are_renewed_when_a_sequence_its_pages_or_the_width_changes() -> None:
    memory = TableMemory()
    a, b, grown = (3, 1, *range(20, 60)), (5,), (5, 4)

    def tables(*spans: Span) -> list[list[int]]:
        return memory.tables(spans, 4, CPU).tolist()

    assert tables(Span(6, 1, a), Span(2, 1, b)) == [[3, 1], [5, 5]]
    assert tables(Span(7, 1, a), Span(3, 1, b)) == [[3, 1], [5, 5]]
    assert tables(Span(8, 1, a), Span(4, 1, grown)) == [[3, 1, 20], [5, 4, 5]]
    assert tables(Span(4, 1, grown)) == [[5, 4]]
    assert tables(Span(80, 1, a)) == [[3, 1, *range(20, 39)]]
    assert memory.tables([], 4, CPU).shape == (0, 0)
