"""The backbone over pages equals transformers' Qwen3 on the same weights."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from engine.runtime.attention import Span, context_batch  # noqa: E402
from engine.runtime.kv_cache import KvGeometry, PagedKvCache  # noqa: E402

TOLERANCE = 1e-5
"""float32, two layers, hidden states of order 1."""
PAGE_TOKENS = 4


def cache_for(parts: Any, pages: int) -> PagedKvCache:
    attention = parts.backbone.layers[0].attention
    geometry = KvGeometry(
        len(parts.backbone.layers), attention.kv_heads, attention.head_size, PAGE_TOKENS, torch.float32
    )
    return PagedKvCache(geometry, pages, torch.device("cpu"))


def inputs(length: int, seed: int = 0) -> Any:
    return torch.randn(length, 64, generator=torch.Generator().manual_seed(seed)) * 0.5


def expected(qwen3: Any, x: Any) -> Any:
    with torch.inference_mode():
        return qwen3(inputs_embeds=x[None]).last_hidden_state[0]


def run(parts: Any, cache: PagedKvCache, x: Any, prefill: list[Span], decode: list[Span]) -> Any:
    with torch.inference_mode():
        return parts.backbone(x, context_batch(prefill, decode, PAGE_TOKENS, torch.device("cpu")), cache)


def test_the_query_width_of_the_tiny_model_differs_from_its_channels_as_in_the_real_one(parts: Any) -> None:
    attention = parts.backbone.layers[0].attention
    assert attention.heads * attention.head_size != parts.backbone.text_embedding.shape[1]


def test_one_shot_prefill_equals_qwen3(parts: Any, qwen3: Any) -> None:
    x = inputs(23)
    hidden = run(parts, cache_for(parts, 8), x, [Span(0, 23, (5, 0, 7, 2, 1, 3))], [])
    torch.testing.assert_close(hidden, expected(qwen3, x), rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("cuts", [[23], [1] * 23, [7, 1, 9, 6], [22, 1]])
def test_chunked_prefill_then_paged_decode_equals_qwen3(parts: Any, qwen3: Any, cuts: list[int]) -> None:
    x, table = inputs(29), (5, 0, 7, 2, 1, 3, 4, 6)
    cache, at, hidden = cache_for(parts, 8), 0, []
    for length in cuts:
        hidden.append(run(parts, cache, x[at : at + length], [Span(at, length, table)], []))
        at += length
    for position in range(at, 29):
        hidden.append(run(parts, cache, x[position : position + 1], [], [Span(position, 1, table)]))
    torch.testing.assert_close(torch.cat(hidden), expected(qwen3, x), rtol=TOLERANCE, atol=TOLERANCE)


def test_prefill_and_decode_of_several_sequences_in_one_pass_equal_each_alone(parts: Any, qwen3: Any) -> None:
    a, b, c = inputs(14, 1), inputs(9, 2), inputs(6, 3)
    cache = cache_for(parts, 12)
    tables = ((9, 1, 4, 0), (3, 8, 2), (6, 5))
    run(parts, cache, torch.cat((a[:10], b[:8])), [Span(0, 10, tables[0]), Span(0, 8, tables[1])], [])
    mixed = run(
        parts, cache, torch.cat((a[10:], c, b[8:])),
        [Span(10, 4, tables[0]), Span(0, 6, tables[2])], [Span(8, 1, tables[1])],
    )  # fmt: skip
    wanted = torch.cat((expected(qwen3, a)[10:], expected(qwen3, c), expected(qwen3, b)[8:]))
    torch.testing.assert_close(mixed, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def test_a_rounded_rotary_cache_holds_only_bfloat16_values() -> None:
    from engine.runtime.layers import rotary_table

    table = rotary_table(64, 16, 1e6, torch.device("cpu"), is_rounded_to_bfloat16=True)
    assert torch.equal(table, table.bfloat16().float())
    assert not torch.equal(table, rotary_table(64, 16, 1e6, torch.device("cpu")))
