"""How much memory torch has allocated at most during a call: counted from its own record, no resident size read."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def peak_bytes(call: Callable[[], object]) -> int:
    """The most that lived at once of what `call` allocated on the CPU. What it returns is dropped at its end."""
    torch.zeros(1)  # so that the allocator has begun
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        call()
    assert record.profiler is not None
    events = record.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    living = most = 0
    for _, change in changes:
        living += change
        most = max(most, living)
    return most
