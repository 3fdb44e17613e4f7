"""The codec's decoder: frames of 8 codes into samples. Parameter names are the checkpoint's own.

Codes -> sum over codebooks of a 256-channel vector -> a convolutional decoder (DAC) that multiplies the rate by 960.
It looks about ten frames to either side and keeps no state.
"""

from __future__ import annotations

from math import ceil

import torch
from torch import Tensor, nn
from torch.nn import functional

import kernels
from engine.models.higgs.config import DILATIONS, EDGE_KERNEL, UNIT_KERNEL, CodecGeometry
from engine.runtime.layers import empty_parameter


class Snake(nn.Module):
    """x + sin²(αx)/α with α per channel."""

    def __init__(self, channels: int, device: torch.device) -> None:
        super().__init__()
        self.alpha = empty_parameter(1, channels, 1, dtype=torch.float32, device=device)

    def forward(self, x: Tensor) -> Tensor:
        return kernels.snake(x, self.alpha)


class ResidualUnit(nn.Module):
    """Snake, dilated convolution, snake, 1x1 convolution, added to the input."""

    def __init__(self, channels: int, dilation: int, device: torch.device) -> None:
        super().__init__()
        padding = (UNIT_KERNEL - 1) // 2 * dilation
        self.snake1 = Snake(channels, device)
        self.conv1 = nn.Conv1d(channels, channels, UNIT_KERNEL, dilation=dilation, padding=padding, device=device)
        self.snake2 = Snake(channels, device)
        self.conv2 = nn.Conv1d(channels, channels, 1, device=device)

    def forward(self, x: Tensor) -> Tensor:
        inner: Tensor = self.conv2(self.snake2(self.conv1(self.snake1(x))))
        return x + inner


class UpsamplingBlock(nn.Module):
    """Snake, transposed convolution by `stride`, three residual units."""

    def __init__(self, channels: int, stride: int, device: torch.device) -> None:
        super().__init__()
        half = channels // 2
        self.snake1 = Snake(channels, device)
        self.conv_t1 = nn.ConvTranspose1d(
            channels, half, 2 * stride, stride, padding=ceil(stride / 2), output_padding=stride % 2, device=device
        )
        self.res_unit1, self.res_unit2, self.res_unit3 = (ResidualUnit(half, d, device) for d in DILATIONS)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.res_unit3(self.res_unit2(self.res_unit1(self.conv_t1(self.snake1(x)))))
        return out


class AcousticDecoder(nn.Module):
    """[B, acoustic channels, T] -> [B, 1, T * product of the strides]. Its output is not bounded."""

    def __init__(self, geometry: CodecGeometry, device: torch.device) -> None:
        super().__init__()
        channels = geometry.decoder_channels
        self.conv1 = nn.Conv1d(
            geometry.acoustic_channels, channels, EDGE_KERNEL, padding=EDGE_KERNEL // 2, device=device
        )
        self.block = nn.ModuleList(
            UpsamplingBlock(channels >> index, stride, device) for index, stride in enumerate(geometry.decoder_strides)
        )
        last = channels >> len(geometry.decoder_strides)
        self.snake1 = Snake(last, device)
        self.conv2 = nn.Conv1d(last, 1, EDGE_KERNEL, padding=EDGE_KERNEL // 2, device=device)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for block in self.block:
            x = block(x)
        out: Tensor = self.conv2(self.snake1(x))
        return out


class Codebook(nn.Module):
    """The entries of one quantizer, float32 [entries, entry size]."""

    def __init__(self, geometry: CodecGeometry, device: torch.device) -> None:
        super().__init__()
        self.embed = empty_parameter(geometry.entries, geometry.entry_size, dtype=torch.float32, device=device)


class Quantizer(nn.Module):
    """One stage of the residual quantizer."""

    def __init__(self, geometry: CodecGeometry, device: torch.device) -> None:
        super().__init__()
        self.codebook = Codebook(geometry, device)
        self.project_in = nn.Linear(geometry.channels, geometry.entry_size, device=device)
        self.project_out = nn.Linear(geometry.entry_size, geometry.channels, device=device)

    def decode(self, codes: Tensor) -> Tensor:
        """int64 [...] -> [..., channels]."""
        out: Tensor = self.project_out(functional.embedding(codes, self.codebook.embed))
        return out


class ResidualQuantizer(nn.Module):
    """All stages; shared by the decoder and the reference encoder."""

    def __init__(self, geometry: CodecGeometry, device: torch.device) -> None:
        super().__init__()
        self.quantizers = nn.ModuleList(Quantizer(geometry, device) for _ in range(geometry.codebooks))

    def encode(self, vectors: Tensor) -> Tensor:
        """Vectors [B, T, channels] -> codes int64 [B, T, K]: each stage takes the entry nearest to what is left."""
        codes = []
        for stage in self.quantizers:
            assert isinstance(stage, Quantizer)
            projected = stage.project_in(vectors)
            entries = stage.codebook.embed
            distance = projected.square().sum(-1, keepdim=True) - 2 * projected @ entries.T + entries.square().sum(-1)
            codes.append(distance.argmin(dim=-1))
            vectors = vectors - stage.decode(codes[-1])
        return torch.stack(codes, dim=-1)


class CodecDecoder(nn.Module):
    """Frames into samples. Once the weights are in, `prepare` folds the codebooks' projections into one table."""

    def __init__(self, geometry: CodecGeometry, device: torch.device) -> None:
        super().__init__()
        self.samples_per_frame = geometry.samples_per_frame
        self.quantizer = ResidualQuantizer(geometry, device)
        self.fc2 = nn.Linear(geometry.channels, geometry.acoustic_channels, device=device)
        self.acoustic_decoder = AcousticDecoder(geometry, device)
        self._table: Tensor | None = None

    @torch.no_grad()
    def prepare(self, dtype: torch.dtype = torch.float32) -> None:
        """Fold entries, project_out and fc2 into [K * entries, acoustic channels], computed in float64."""
        rows = []
        for stage in self.quantizer.quantizers:
            assert isinstance(stage, Quantizer)
            vectors = (
                stage.codebook.embed.double() @ stage.project_out.weight.double().T + stage.project_out.bias.double()
            )
            rows.append(vectors @ self.fc2.weight.double().T + self.fc2.bias.double() / len(self.quantizer.quantizers))
        self._table = torch.cat(rows).to(dtype)

    def forward(self, codes: Tensor) -> Tensor:
        """Codes int64 [B, T, K], all below the number of entries -> float32 samples [B, T * samples_per_frame]."""
        assert self._table is not None, "prepare() comes first"
        summed = kernels.codebook_embed(codes, self._table)
        out: Tensor = self.acoustic_decoder(summed.transpose(1, 2))
        return out[:, 0]
