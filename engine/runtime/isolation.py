"""Running out of device memory is one item's trouble, not its batch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


OUT_OF_MEMORY = "the device ran out of memory"
_ALLOCATION_FAILURES = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "CUDA error: out of memory")
"""What libraries beneath torch say, in a RuntimeError of no kind of its own."""


def is_out_of_memory(error: Exception) -> bool:
    """Torch's own error, or one that says so of a library beneath it."""
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in _ALLOCATION_FAILURES)
    )


def isolated(
    items: Sequence[Item], run: Callable[[Sequence[Item]], Result]
) -> Iterator[tuple[Sequence[Item], Result | None]]:
    """Run all items together; where the device has no memory for that, in halves, down to single ones. Answers each
    group that ran with its result, and each item that does not fit alone with None. `run` must bear being repeated."""
    if not items:
        return
    try:
        result = run(items)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        if len(items) == 1:
            yield items, None
            return
        half = len(items) // 2
        yield from isolated(items[:half], run)
        yield from isolated(items[half:], run)
        return
    yield items, result
