"""A plan that does not fit says what it wanted, part by part."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from engine.errors import ModelLoadError  # noqa: E402
from engine.runtime.memory import MemoryPart, MemoryPlan, free_bytes  # noqa: E402

MIB = 1 << 20


def plan(available: int) -> MemoryPlan:
    return MemoryPlan("cpu", available * MIB, (MemoryPart("weights", 3 * MIB), MemoryPart("pages", 2 * MIB)))


def test_a_plan_that_fits_exactly_passes() -> None:
    plan(5).check()


def test_a_plan_that_does_not_fit_names_every_part() -> None:
    with pytest.raises(ModelLoadError, match=r"needs 5 MiB of cpu; 4 MiB may be used \(weights: 3 MiB; pages: 2 MiB"):
        plan(4).check()


def test_this_machine_has_some_memory_free() -> None:
    assert free_bytes(torch.device("cpu")) > MIB
