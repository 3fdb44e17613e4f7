"""In fixed batches a row's bits depend on its own context alone."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from engine.runtime.attention import ContextBatch, Span  # noqa: E402
from engine.runtime.step_runner import FixedBatches, StepRunner  # noqa: E402

CPU = torch.device("cpu")


def runner(batches: list[tuple[int, ContextBatch]], fixed: FixedBatches | None) -> StepRunner:
    def forward(x: Any, batch: ContextBatch) -> Any:
        batches.append((x.shape[0], batch))
        return x + batch.positions[:, None]

    return StepRunner(forward, page_tokens=4, scrap_page=99, device=CPU, fixed=fixed)


SPANS = ([Span(0, 5, (0, 1)), Span(2, 1, (2,))], [Span(7, 1, (3, 4))])
X = torch.zeros(7, 2)


def test_without_a_promise_all_rows_run_at_once() -> None:
    batches: list[tuple[int, ContextBatch]] = []
    out = runner(batches, None).run(X, *SPANS, wanted=[4, 5, 6])
    assert [rows for rows, _ in batches] == [7]
    assert out[:, 0].tolist() == [4.0, 2.0, 7.0]


def test_fixed_batches_all_have_the_promised_shape_and_pad_into_the_scrap_page() -> None:
    batches: list[tuple[int, ContextBatch]] = []
    out = runner(batches, FixedBatches(rows=3, split_tokens=16)).run(X, *SPANS, wanted=[4, 5, 6])
    assert [rows for rows, _ in batches] == [3, 3, 3]
    assert out[:, 0].tolist() == [4.0, 2.0, 7.0]
    last = batches[-1][1]
    assert last.decode_lengths.tolist() == [8, 1, 1]
    assert last.slots.tolist()[1:] == [99 * 4] * 2
    assert all(batch.prefill == () and batch.split_tokens == 16 for _, batch in batches)


def test_work_by_row_is_done_in_the_promised_shape_too() -> None:
    shapes: list[int] = []

    def work(x: Any) -> Any:
        shapes.append(x.shape[0])
        return x * 2

    x = torch.arange(10.0).view(5, 2)
    assert torch.equal(runner([], FixedBatches(2, 16)).by_row(x, work), x * 2)
    assert shapes == [2, 2, 2]
