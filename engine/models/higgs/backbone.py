"""The Qwen3 decoder: token embeddings, layers over the paged context, final norm. It never sees a code."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.models.higgs.config import BackboneGeometry
from engine.runtime.attention import ContextBatch, PagedAttention
from engine.runtime.kv_cache import PagedKvCache
from engine.runtime.layers import GatedMlp, RmsNorm, empty_parameter, rotary_table


class DecoderLayer(nn.Module):
    """Pre-norm attention and gated MLP on a residual stream that is added up late, with the next norm."""

    def __init__(self, geometry: BackboneGeometry, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        g = geometry
        self.input_norm = RmsNorm(g.channels, g.rms_eps, dtype, device)
        self.attention = PagedAttention(g.channels, g.heads, g.kv_heads, g.head_size, g.rms_eps, dtype, device)
        self.post_attention_norm = RmsNorm(g.channels, g.rms_eps, dtype, device)
        self.mlp = GatedMlp(g.channels, g.inner, dtype, device)

    def forward(
        self, x: Tensor, residual: Tensor | None, batch: ContextBatch, table: Tensor, pools: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """(x, residual) [T, channels] -> the same after this layer; their sum is the stream."""
        if residual is None:
            x, residual = self.input_norm(x), x
        else:
            x, residual = self.input_norm.add(x, residual)
        x = self.attention(x, batch, table, *pools)
        x, residual = self.post_attention_norm.add(x, residual)
        return self.mlp(x), residual


class Backbone(nn.Module):
    """Rows in, hidden states out; keys and values go to the cache that the caller owns."""

    rotary: Tensor

    def __init__(
        self, geometry: BackboneGeometry, dtype: torch.dtype, device: torch.device, is_rope_rounded: bool
    ) -> None:
        super().__init__()
        self.text_embedding = empty_parameter(geometry.vocabulary, geometry.channels, dtype=dtype, device=device)
        self.layers = nn.ModuleList(DecoderLayer(geometry, dtype, device) for _ in range(geometry.layers))
        self.final_norm = RmsNorm(geometry.channels, geometry.rms_eps, dtype, device)
        table = rotary_table(
            geometry.max_positions,
            geometry.head_size,
            geometry.rope_theta,
            device,
            is_rounded_to_bfloat16=is_rope_rounded,
        )
        self.register_buffer("rotary", table, persistent=False)

    def embed_text(self, ids: Tensor) -> Tensor:
        """ids int64 [T] -> [T, channels]."""
        return functional.embedding(ids, self.text_embedding)

    def text_logits(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """Scores float32 [B, N] of N text tokens ids int64 [N] after hidden states [B, channels], by the tied head."""
        return functional.linear(hidden, self.text_embedding[ids]).float()

    def forward(self, x: Tensor, batch: ContextBatch, cache: PagedKvCache) -> Tensor:
        """Embedded rows [T, channels], laid out by `batch` -> hidden states [T, channels], after the final norm."""
        residual: Tensor | None = None
        for index, layer in enumerate(self.layers):
            x, residual = layer(x, residual, batch, self.rotary, cache.layer(index))
        assert residual is not None
        normed, _ = self.final_norm.add(x, residual)
        return normed
