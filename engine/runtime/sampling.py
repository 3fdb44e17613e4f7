"""Random draws keyed by what is drawn, never by when or beside what: (seed, block, row, codebook) decides each one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import kernels


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """One request's sampling, complete. top_k None = off."""

    temperature: float
    top_p: float
    top_k: int | None
    seed: int


@dataclass(frozen=True, slots=True)
class DrawKey:
    """Which row is drawn: `block` counts from the start of the request, so that a request's draws do not depend on
    what was said before it."""

    parameters: SamplingParameters
    block: int
    row: int


def sample_rows(logits: Tensor, keys: Sequence[DrawKey]) -> Tensor:
    """Codes int64 [B, K] for float32 logits [B, K, V] (-inf = forbidden), row i drawn under keys[i]."""
    codebooks, vocabulary = logits.shape[1:]
    device = logits.device
    top_k = [vocabulary if key.parameters.top_k is None else key.parameters.top_k for key in keys]
    shape = [[key.parameters.temperature, key.parameters.top_p] for key in keys]
    counts = [
        [k, _signed_64(key.parameters.seed), key.row * codebooks, key.block] for k, key in zip(top_k, keys, strict=True)
    ]
    real = torch.tensor(shape, dtype=torch.float32).to(device, non_blocking=True)
    whole = torch.tensor(counts, dtype=torch.int64).to(device, non_blocking=True)
    draw = whole[:, 2, None] + torch.arange(codebooks, device=device)
    counters = torch.stack((draw, whole[:, 3, None].expand_as(draw)), dim=-1)
    uniforms = kernels.counter_uniform(whole[:, 1, None].expand_as(draw), counters)
    return kernels.sample_codebooks(logits, real[:, 0], whole[:, 0], real[:, 1], uniforms, max(top_k, default=1))


def _signed_64(seed: int) -> int:
    """A seed's low 64 bits as torch's int64 holds them."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)
