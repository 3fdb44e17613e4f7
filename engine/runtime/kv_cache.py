"""The paged memory of keys and values: one pool per layer, cut into pages that the scheduler hands out by number."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class KvGeometry:
    """What one position costs."""

    layers: int
    kv_heads: int
    head_size: int
    page_tokens: int
    dtype: torch.dtype

    @property
    def page_bytes(self) -> int:
        """Bytes of one page, all layers, keys and values."""
        return 2 * self.layers * self.page_tokens * self.kv_heads * self.head_size * self.dtype.itemsize


class PagedKvCache:
    """Pages 0 … page_count - 1 belong to the scheduler. One page more takes the writes of padding rows."""

    def __init__(self, geometry: KvGeometry, page_count: int, device: torch.device) -> None:
        self.geometry = geometry
        self.page_count = page_count
        shape = (geometry.layers, page_count + 1, geometry.page_tokens, geometry.kv_heads, geometry.head_size)
        self._keys = torch.zeros(shape, dtype=geometry.dtype, device=device)
        self._values = torch.zeros(shape, dtype=geometry.dtype, device=device)

    @property
    def scrap_page(self) -> int:
        """The page that no sequence owns."""
        return self.page_count

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """Key and value pools [pages, page_tokens, kv_heads, head_size] of one layer."""
        return self._keys[index], self._values[index]
