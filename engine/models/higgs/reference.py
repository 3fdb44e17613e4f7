"""The codec's encoder: a reference recording into codes, once per voice. Parameter names are the checkpoint's own.

Two readings of the same sound are laid side by side and quantised: what it sounds like (a DAC encoder at 24 kHz) and
what is said in it (HuBERT at 16 kHz, all its hidden states averaged).
"""

from __future__ import annotations

from math import ceil

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.models.higgs.codec import ResidualQuantizer, ResidualUnit, Snake
from engine.models.higgs.config import DILATIONS, EDGE_KERNEL, CodecGeometry, SemanticGeometry
from engine.runtime.layers import empty_parameter
from engine.runtime.resample import resample

SEMANTIC_PADDING_SAMPLES = 160
SEMANTIC_BLOCKS = 2
SEMANTIC_UNITS = 2
SEMANTIC_KERNEL = 3
LAST_KERNEL = 3


class DownsamplingBlock(nn.Module):
    """Three residual units, snake, strided convolution that doubles the channels."""

    def __init__(self, channels: int, stride: int, device: torch.device) -> None:
        super().__init__()
        self.res_unit1, self.res_unit2, self.res_unit3 = (ResidualUnit(channels, d, device) for d in DILATIONS)
        self.snake1 = Snake(channels, device)
        self.conv1 = nn.Conv1d(channels, 2 * channels, 2 * stride, stride, padding=ceil(stride / 2), device=device)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv1(self.snake1(self.res_unit3(self.res_unit2(self.res_unit1(x)))))
        return out


class AcousticEncoder(nn.Module):
    """[B, 1, S] -> [B, acoustic channels, about S / 960]."""

    def __init__(self, geometry: CodecGeometry, device: torch.device) -> None:
        super().__init__()
        channels, strides = geometry.encoder_channels, geometry.encoder_strides
        self.strides = strides
        self.conv1 = nn.Conv1d(1, channels, EDGE_KERNEL, padding=EDGE_KERNEL // 2, device=device)
        self.block = nn.ModuleList(
            DownsamplingBlock(channels << index, stride, device) for index, stride in enumerate(strides)
        )
        last = channels << len(strides)
        self.snake1 = Snake(last, device)
        self.conv2 = nn.Conv1d(last, geometry.acoustic_channels, LAST_KERNEL, padding=LAST_KERNEL // 2, device=device)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for block in self.block:
            x = block(x)
        out: Tensor = self.conv2(self.snake1(x))
        return out

    def output_length(self, samples: int) -> int:
        """Frames that so many samples give."""
        length = samples
        for stride in self.strides:
            length = (length + 2 * ceil(stride / 2) - 2 * stride) // stride + 1
        return length


class SemanticUnit(nn.Module):
    """ELU, convolution, ELU, 1x1 convolution, added to the input."""

    def __init__(self, channels: int, device: torch.device) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(
            channels, channels, SEMANTIC_KERNEL, padding=SEMANTIC_KERNEL // 2, bias=False, device=device
        )
        self.conv2 = nn.Conv1d(channels, channels, 1, bias=False, device=device)

    def forward(self, x: Tensor) -> Tensor:
        inner: Tensor = self.conv2(functional.elu(self.conv1(functional.elu(x))))
        return x + inner


class SemanticBlock(nn.Module):
    """Two units and a convolution."""

    def __init__(self, channels: int, device: torch.device) -> None:
        super().__init__()
        self.res_units = nn.ModuleList(SemanticUnit(channels, device) for _ in range(SEMANTIC_UNITS))
        self.conv = nn.Conv1d(channels, channels, SEMANTIC_KERNEL, padding=SEMANTIC_KERNEL // 2, device=device)

    def forward(self, x: Tensor) -> Tensor:
        for unit in self.res_units:
            x = unit(x)
        out: Tensor = self.conv(x)
        return out


class SemanticEncoder(nn.Module):
    """[B, channels, T] -> the same shape."""

    def __init__(self, channels: int, device: torch.device) -> None:
        super().__init__()
        self.conv = nn.Conv1d(
            channels, channels, SEMANTIC_KERNEL, padding=SEMANTIC_KERNEL // 2, bias=False, device=device
        )
        self.conv_blocks = nn.ModuleList(SemanticBlock(channels, device) for _ in range(SEMANTIC_BLOCKS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        for block in self.conv_blocks:
            x = block(x)
        return x


class WaveConvolution(nn.Module):
    """One strided convolution over the waveform; the first is group-normalised, channel by channel."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, has_norm: bool, device: torch.device) -> None:
        super().__init__()
        self.conv = nn.Conv1d(before, after, kernel, stride, bias=False, device=device)
        self.layer_norm = nn.GroupNorm(after, after, device=device) if has_norm else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return functional.gelu(x if self.layer_norm is None else self.layer_norm(x))


class WaveEncoder(nn.Module):
    """Waveform [B, S] -> features [B, T, channels]."""

    def __init__(self, geometry: SemanticGeometry, device: torch.device) -> None:
        super().__init__()
        widths = (1, *geometry.conv_channels)
        self.conv_layers = nn.ModuleList(
            WaveConvolution(widths[i], widths[i + 1], kernel, stride, i == 0, device)
            for i, (kernel, stride) in enumerate(zip(geometry.conv_kernels, geometry.conv_strides, strict=True))
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, None]
        for layer in self.conv_layers:
            x = layer(x)
        return x.transpose(1, 2)


class FeatureProjection(nn.Module):
    """Norm and linear map to the transformer's width."""

    def __init__(self, geometry: SemanticGeometry, device: torch.device) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(geometry.conv_channels[-1], geometry.norm_eps, device=device)
        self.projection = nn.Linear(geometry.conv_channels[-1], geometry.channels, device=device)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.projection(self.layer_norm(x))
        return out


class NormedWeight(nn.Module):
    """A weight stored as length and direction: original0 [1, 1, kernel], original1 [channels, width, kernel]."""

    def __init__(self, geometry: SemanticGeometry, device: torch.device) -> None:
        super().__init__()
        width = geometry.channels // geometry.position_groups
        kernel = geometry.position_kernel
        self.original0 = empty_parameter(1, 1, kernel, dtype=torch.float32, device=device)
        self.original1 = empty_parameter(geometry.channels, width, kernel, dtype=torch.float32, device=device)

    def forward(self) -> Tensor:
        length = torch.linalg.vector_norm(self.original1, dim=(0, 1), keepdim=True)
        weight: Tensor = self.original1 * (self.original0 / length)
        return weight


class PositionConvolution(nn.Module):
    """A grouped convolution over time that stands for positions."""

    def __init__(self, geometry: SemanticGeometry, device: torch.device) -> None:
        super().__init__()
        self.groups = geometry.position_groups
        self.bias = empty_parameter(geometry.channels, dtype=torch.float32, device=device)
        self.parametrizations = nn.ModuleDict({"weight": NormedWeight(geometry, device)})

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor = self.parametrizations["weight"]()
        kernel = weight.shape[-1]
        moved = functional.conv1d(x.transpose(1, 2), weight, self.bias, padding=kernel // 2, groups=self.groups)
        embedded: Tensor = functional.gelu(moved[..., : x.shape[1]])
        return embedded.transpose(1, 2)


class PositionEmbedding(nn.Module):
    """Holds the convolution under the checkpoint's name."""

    def __init__(self, geometry: SemanticGeometry, device: torch.device) -> None:
        super().__init__()
        self.conv = PositionConvolution(geometry, device)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return out


class SelfAttention(nn.Module):
    """Full attention over the recording."""

    def __init__(self, geometry: SemanticGeometry, device: torch.device) -> None:
        super().__init__()
        self.heads = geometry.heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(geometry.channels, geometry.channels, device=device) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        shape = (*x.shape[:2], self.heads, x.shape[2] // self.heads)
        q, k, v = (p(x).view(shape).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        mixed = functional.scaled_dot_product_attention(q, k, v)
        out: Tensor = self.out_proj(mixed.transpose(1, 2).reshape(x.shape))
        return out


class FeedForward(nn.Module):
    """Linear, GELU, linear."""

    def __init__(self, geometry: SemanticGeometry, device: torch.device) -> None:
        super().__init__()
        self.intermediate_dense = nn.Linear(geometry.channels, geometry.inner, device=device)
        self.output_dense = nn.Linear(geometry.inner, geometry.channels, device=device)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.output_dense(functional.gelu(self.intermediate_dense(x)))
        return out


class SemanticLayer(nn.Module):
    """Post-norm transformer layer."""

    def __init__(self, geometry: SemanticGeometry, device: torch.device) -> None:
        super().__init__()
        self.attention = SelfAttention(geometry, device)
        self.layer_norm = nn.LayerNorm(geometry.channels, geometry.norm_eps, device=device)
        self.feed_forward = FeedForward(geometry, device)
        self.final_layer_norm = nn.LayerNorm(geometry.channels, geometry.norm_eps, device=device)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer_norm(x + self.attention(x))
        out: Tensor = self.final_layer_norm(x + self.feed_forward(x))
        return out


class SemanticTransformer(nn.Module):
    """Features -> the mean of all hidden states, the input state included."""

    def __init__(self, geometry: SemanticGeometry, device: torch.device) -> None:
        super().__init__()
        self.pos_conv_embed = PositionEmbedding(geometry, device)
        self.layer_norm = nn.LayerNorm(geometry.channels, geometry.norm_eps, device=device)
        self.layers = nn.ModuleList(SemanticLayer(geometry, device) for _ in range(geometry.layers))

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer_norm(x + self.pos_conv_embed(x))
        states = [x]
        for layer in self.layers:
            states.append(layer(states[-1]))
        return torch.stack(states).mean(dim=0)


class SemanticModel(nn.Module):
    """HuBERT: waveform [B, S] at 16 kHz -> [B, T, channels] at 50 per second."""

    def __init__(self, geometry: SemanticGeometry, device: torch.device) -> None:
        super().__init__()
        self.feature_extractor = WaveEncoder(geometry, device)
        self.feature_projection = FeatureProjection(geometry, device)
        self.encoder = SemanticTransformer(geometry, device)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.encoder(self.feature_projection(self.feature_extractor(x)))
        return out


class ReferenceEncoder(nn.Module):
    """Mono samples at the codec's rate into frames of codes."""

    def __init__(self, geometry: CodecGeometry, quantizer: ResidualQuantizer, device: torch.device) -> None:
        super().__init__()
        self._geometry = geometry
        self.semantic_model = SemanticModel(geometry.semantic, device)
        self.encoder_semantic = SemanticEncoder(geometry.semantic.channels, device)
        self.acoustic_encoder = AcousticEncoder(geometry, device)
        self.fc = nn.Linear(geometry.channels, geometry.channels, device=device)
        self.quantizer = quantizer

    @torch.inference_mode()
    def forward(self, wave: Tensor) -> Tensor:
        """float32 [B, S] within [-1, 1], at least one frame long -> codes int64 [B, T, K], T = about S / 960."""
        geometry = self._geometry
        low = resample(wave, geometry.sample_rate_hz, geometry.semantic_rate_hz)
        low = functional.pad(low, (SEMANTIC_PADDING_SAMPLES, SEMANTIC_PADDING_SAMPLES))
        semantic = self.semantic_model(low)[:, :: geometry.semantic_frames_per_frame]
        semantic = self.encoder_semantic(semantic.transpose(1, 2))
        if self.acoustic_encoder.output_length(wave.shape[-1]) != semantic.shape[-1]:
            half_frame = geometry.samples_per_frame // 2
            wave = functional.pad(wave, (half_frame, half_frame))
        acoustic = self.acoustic_encoder(wave[:, None])
        joined = torch.cat((acoustic, semantic), dim=1).transpose(1, 2)
        return self.quantizer.encode(self.fc(joined))
