"""Running out of device memory is one item's trouble, not its batch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def isolated(
    items: Sequence[Item], run: Callable[[Sequence[Item]], Result]
) -> Iterator[tuple[Sequence[Item], Result | None]]:
    """Run all items together; where the device has no memory for that, in halves, down to single ones. Answers each
    group that ran with its result, and each item that does not fit alone with None. `run` must bear being repeated."""
    if not items:
        return
    try:
        result = run(items)
    except torch.OutOfMemoryError:
        if len(items) == 1:
            yield items, None
            return
        half = len(items) // 2
        yield from isolated(items[:half], run)
        yield from isolated(items[half:], run)
        return
    yield items, result
