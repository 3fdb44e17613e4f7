"""Only what does not fit alone fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

torch = pytest.importorskip("torch")
from engine.runtime.isolation import is_out_of_memory, isolated  # noqa: E402


def test_a_batch_that_fits_runs_once() -> None:
    assert list(isolated([1, 2, 3], sum)) == [([1, 2, 3], 6)]


def test_nothing_needs_no_run() -> None:
    assert list(isolated([], sum)) == []


def test_a_batch_that_does_not_fit_is_halved_until_it_does_and_order_is_kept() -> None:
    def scarce(items: Sequence[int]) -> int:
        if sum(items) > 5:
            raise torch.OutOfMemoryError("no room")
        return sum(items)

    assert list(isolated([1, 2, 9, 2, 3], scarce)) == [([1, 2], 3), ([9], None), ([2, 3], 5)]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("CUDA error: out of memory"),
    ],
)
def test_want_of_memory_in_a_library_beneath_torch_is_the_same(error: RuntimeError) -> None:
    def scarce(items: Sequence[int]) -> int:
        if sum(items) > 5:
            raise error
        return sum(items)

    assert list(isolated([3, 4], scarce)) == [([3], 3), ([4], 4)]


@pytest.mark.parametrize("error", [ValueError("broken"), RuntimeError("device-side assert"), KeyError("memory")])
def test_nothing_else_is_taken_for_it(error: Exception) -> None:
    assert not is_out_of_memory(error)


def test_other_errors_are_not_swallowed() -> None:
    def broken(items: Sequence[int]) -> int:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(isolated([1], broken))
