"""Torch on one thread, with fresh memory poisoned, for every kernel test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def poisoned_single_thread_torch() -> Iterator[None]:
    """Fresh `torch.empty` memory is NaN (or the largest integer), so that an unwritten cell cannot pass unseen."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)
