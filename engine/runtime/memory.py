"""What a model is going to take of its device, declared part by part and checked before anything is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.errors import ModelLoadError

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One declared budget."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """All budgets of one model on one device."""

    device: str
    available_bytes: int
    parts: tuple[MemoryPart, ...]

    @property
    def total_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)

    def check(self) -> None:
        """Raises ModelLoadError where the parts do not fit what the device has free."""
        if self.total_bytes > self.available_bytes:
            raise ModelLoadError(
                f"the model needs {_mib(self.total_bytes)} of {self.device}; {_mib(self.available_bytes)} may be used "
                f"({'; '.join(self.lines())}): lower the number of sequences or the context"
            )

    def lines(self) -> tuple[str, ...]:
        """One line per part and the sum, for people."""
        sums = (*self.parts, MemoryPart("in all", self.total_bytes), MemoryPart("may be used", self.available_bytes))
        return tuple(f"{part.name}: {_mib(part.size_bytes)}" for part in sums)


def free_bytes(device: torch.device) -> int:
    """Bytes that an allocation on the device can have now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(
            line for line in lines if line.startswith("MemAvailable:")
        )  # counts what a cache would give up
        return int(available.split()[1]) << 10
    except (OSError, StopIteration):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:,.0f} MiB"
