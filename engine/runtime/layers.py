"""Layers of a decoder-only transformer that every family can use: weights only, no biases, inference only."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import kernels


def empty_parameter(*shape: int, dtype: torch.dtype, device: torch.device) -> nn.Parameter:
    """An unfilled weight; `engine.runtime.weights` fills every one of them or refuses the checkpoint."""
    return nn.Parameter(torch.empty(shape, dtype=dtype, device=device), requires_grad=False)


def rotary_table(
    positions: int, head_size: int, theta: float, device: torch.device, is_rounded_to_bfloat16: bool = False
) -> Tensor:
    """float32 [positions, head_size]: cosines of the head_size / 2 angles position * theta^(-2i / head_size), then
    their sines. Rounding to bfloat16 reproduces a model that was trained with its rotary cache in that type."""
    exponents = torch.arange(0, head_size, 2, dtype=torch.float32) / head_size
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), 1.0 / theta**exponents)
    table = torch.cat((angles.cos(), angles.sin()), dim=-1)
    if is_rounded_to_bfloat16:
        table = table.bfloat16().float()
    return table.to(device)


class Projection(nn.Module):
    """A linear map without bias, x [..., C] -> [..., N]. Its weight lies as [C, N], input channels first: for the few
    rows of a decode step, a CPU then multiplies about 1.4 times as fast as with the usual layout."""

    def __init__(self, channels: int, outputs: int, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.weight = empty_parameter(channels, outputs, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight

    def rows(self, start: int, end: int) -> Tensor:
        """Outputs [start, end) as a checkpoint has them, [end - start, C]: a view to be filled."""
        return self.weight.t()[start:end]


class RmsNorm(nn.Module):
    """Root-mean-square norm with a weight per channel."""

    def __init__(self, channels: int, eps: float, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.weight = empty_parameter(channels, dtype=dtype, device=device)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return kernels.rms_norm(x, self.weight, self.eps)

    def add(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """(norm of the sum, the sum): one step of the residual stream."""
        return kernels.add_rms_norm(x, residual, self.weight, self.eps)


class GatedMlp(nn.Module):
    """down(silu(gate(x)) * up(x)), gate and up packed in one projection."""

    def __init__(self, channels: int, inner: int, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.inner = inner
        self.gate_up = Projection(channels, 2 * inner, dtype, device)
        self.down = Projection(inner, channels, dtype, device)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(kernels.silu_mul(self.gate_up(x)))
        return out
