"""Pages cost what they are said to cost, and one page more takes what nobody owns."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from engine.runtime.kv_cache import KvGeometry, PagedKvCache  # noqa: E402


def test_a_page_costs_keys_and_values_of_every_layer() -> None:
    real = KvGeometry(layers=36, kv_heads=8, head_size=128, page_tokens=16, dtype=torch.bfloat16)
    assert real.page_bytes == 16 * 147_456


def test_the_scrap_page_lies_behind_the_schedulers_pages() -> None:
    geometry = KvGeometry(layers=2, kv_heads=3, head_size=4, page_tokens=5, dtype=torch.float32)
    cache = PagedKvCache(geometry, page_count=7, device=torch.device("cpu"))
    keys, values = cache.layer(1)
    assert keys.shape == values.shape == (8, 5, 3, 4)
    assert cache.scrap_page == 7
    allocated = sum(t.numel() * t.element_size() for layer in range(2) for t in cache.layer(layer))
    assert allocated == 8 * geometry.page_bytes
    keys[7] = 1.0
    assert not cache.layer(0)[0].any()
