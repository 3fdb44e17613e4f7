"""Every op in plain torch: the definition that a Triton twin must equal, and the path taken off CUDA.

Dimensions: T rows of a step, B sequences, H query heads, G key/value heads, D head size, K codebooks, V codes per
codebook, P pages per sequence. Page pools are [pages, page_tokens, G, D]; a *slot* is `page * page_tokens + offset`.
No op synchronises with the device, and none reads a pool cell beyond a sequence's own context: a recycled page may
hold anything, NaN included.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

GREEDY_TEMPERATURE = 1e-5
"""At or below this temperature a draw is the argmax of the raw logits."""

_PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
_PHILOX_ROUNDS = 10
_LOW_32 = 0xFFFFFFFF
_FLOAT_24_BITS = 1.0 / (1 << 24)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x [..., C] over its root mean square (in float32), rounded to x's dtype, times weight [C]."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (wide * scale).to(x.dtype) * weight


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Residual stream step: returns (rms_norm(x + residual), x + residual), both like x [..., C]."""
    total = x + residual
    return rms_norm(total, weight, eps), total


def silu_mul(gate_up: Tensor) -> Tensor:
    """Gated activation of a packed projection [..., 2C] (gate first): silu(gate) * up, [..., C]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate) * up


def rotary_kv(
    qkv: Tensor,
    q_norm: Tensor,
    k_norm: Tensor,
    eps: float,
    rotary_table: Tensor,
    positions: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    slots: Tensor,
) -> Tensor:
    """Normalise and rotate the queries and keys of a step and write its keys and values into their pages.

    qkv [T, H + 2G, D] packed (queries, keys, values); q_norm, k_norm [D]: RMS weights per head; rotary_table
    [positions, D] float32: cosines of the D/2 angles, then their sines; positions, slots int64 [T]. Halves are rotated
    as pairs (i, i + D/2). Writes row t to cell slots[t] of both pools; equal slots (padding) keep any one of the rows.
    Returns the queries [T, H, D].
    """
    kv_heads, head_size = key_pages.shape[2], key_pages.shape[3]
    query_heads = qkv.shape[1] - 2 * kv_heads
    weight = torch.cat((q_norm.expand(query_heads, head_size), k_norm.expand(kv_heads, head_size)))
    normed = rms_norm(qkv[:, : query_heads + kv_heads], weight, eps).float()
    cos, sin = rotary_table[positions].unsqueeze(1).chunk(2, dim=-1)
    first, second = normed.chunk(2, dim=-1)
    rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(qkv.dtype)
    key_pages.view(-1, kv_heads, head_size)[slots] = rotated[:, query_heads:].to(key_pages.dtype)
    value_pages.view(-1, kv_heads, head_size)[slots] = qkv[:, query_heads + kv_heads :].to(value_pages.dtype)
    return rotated[:, :query_heads]


def paged_decode_attention(
    q: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    page_table: Tensor,
    context_lengths: Tensor,
    scale: float,
    split_tokens: int | None = None,
) -> Tensor:
    """One query per sequence over its whole context.

    q [B, H, D]; page_table int64 [B, P] (entries past a context may name any page); context_lengths int64 [B], at
    least 1. Returns [B, H, D]. With `split_tokens` the context is summed in splits of exactly that many positions, so
    that a sequence's result does not depend on the longest context beside it.
    """
    rows, query_heads, head_size = q.shape
    page_tokens, kv_heads = key_pages.shape[1], key_pages.shape[2]
    positions = page_table.shape[1] * page_tokens
    if split_tokens is not None:
        positions = -(-positions // split_tokens) * split_tokens
    grouped = q.view(rows, kv_heads, query_heads // kv_heads, head_size)
    keys, values = _gather_context(key_pages, value_pages, page_table, context_lengths, positions)
    visible = torch.arange(positions, device=q.device) < context_lengths[:, None]
    if split_tokens is None:
        mixed = functional.scaled_dot_product_attention(
            grouped, keys, values, attn_mask=visible[:, None, None, :], scale=scale
        )
    else:
        mixed = _split_attention(grouped, keys, values, visible, scale, split_tokens)
    return mixed.reshape(rows, query_heads, head_size)


def paged_prefill_attention(
    q: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    page_table: Tensor,
    query_starts: Tensor,
    context_lengths: Tensor,
    max_query_tokens: int,
    scale: float,
) -> Tensor:
    """Causal attention of ragged queries: the last rows of each sequence's context over that context.

    q [T, H, D], sequence b owning rows query_starts[b] … query_starts[b + 1]; page_table int64 [B, P]; query_starts
    int64 [B + 1]; context_lengths int64 [B], the queries included; max_query_tokens >= the longest run of queries.
    Returns [T, H, D].
    """
    total, query_heads, head_size = q.shape
    sequences = page_table.shape[0]
    page_tokens, kv_heads = key_pages.shape[1], key_pages.shape[2]
    group = query_heads // kv_heads
    positions = page_table.shape[1] * page_tokens
    keys, values = _gather_context(key_pages, value_pages, page_table, context_lengths, positions)

    lengths = query_starts[1:] - query_starts[:-1]
    offsets = torch.arange(max_query_tokens, device=q.device)
    held = torch.minimum(offsets, lengths[:, None] - 1).clamp(min=0)
    padded = q[query_starts[:-1, None] + held]
    padded = padded.view(sequences, max_query_tokens, kv_heads, group, head_size).permute(0, 2, 3, 1, 4)
    query_positions = (context_lengths - lengths)[:, None] + held
    visible = torch.arange(positions, device=q.device) <= query_positions[:, :, None]
    mixed = functional.scaled_dot_product_attention(
        padded.reshape(sequences, kv_heads, group * max_query_tokens, head_size),
        keys,
        values,
        attn_mask=visible.repeat(1, group, 1)[:, None],
        scale=scale,
    ).view(sequences, kv_heads, group, max_query_tokens, head_size)

    row = torch.arange(total, device=q.device)
    owner = torch.searchsorted(query_starts[1:], row, right=True)
    return mixed.permute(0, 3, 1, 2, 4)[owner, row - query_starts[owner]].reshape(total, query_heads, head_size)


def codebook_embed(codes: Tensor, table: Tensor) -> Tensor:
    """Sum of one table row per codebook: codes int64 [..., K], table [K * V, C] codebook-major -> [..., C]."""
    codebooks = codes.shape[-1]
    first = torch.arange(codebooks, device=codes.device) * (table.shape[0] // codebooks)
    return functional.embedding(codes + first, table).sum(dim=-2)


def counter_uniform(seeds: Tensor, counters: Tensor) -> Tensor:
    """Uniform float32 in [0, 1) that depend on nothing but (seed, counter): Philox 4x32-10, first word, top 24 bits.

    seeds int64 [...] (key); counters int64 [..., 2] (the 128-bit counter's halves). Salmon et al., "Parallel random
    numbers: as easy as 1, 2, 3", SC11. 64-bit products wrap, which leaves the low 32 bits of either half exact.
    """
    is_first = torch.arange(2, device=seeds.device) == 0
    multipliers = torch.where(is_first, *_PHILOX_MULTIPLIERS)
    weyl = torch.where(is_first, *_PHILOX_WEYL)
    key = torch.stack((seeds, seeds >> 32), dim=-1)
    even, odd = counters & _LOW_32, (counters >> 32) & _LOW_32  # words 0 and 2, words 1 and 3
    for step in range(_PHILOX_ROUNDS):
        product = even * multipliers
        even = ((product >> 32) & _LOW_32).flip(-1) ^ odd ^ ((key + step * weyl) & _LOW_32)
        odd = (product & _LOW_32).flip(-1)
    return (even[..., 0] >> 8).float() * _FLOAT_24_BITS


def sample_codebooks(
    logits: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor, uniforms: Tensor, max_top_k: int
) -> Tensor:
    """One independent draw per codebook: codes int64 [B, K].

    logits float32 [B, K, V] (-inf = forbidden); temperature, top_p float32 [B]; top_k int64 [B], 1 … V (V = off);
    uniforms float32 [B, K] in [0, 1); max_top_k >= every top_k (a host number: it sizes the selection).
    In this order: divide by the temperature, keep the top k, renormalise, keep the fewest of those whose mass reaches
    top_p, draw by inverse distribution in code order. Entries equal to a threshold are all kept, so no result hangs on
    how a sort breaks ties. Greedy (argmax of the raw logits, lowest code first) where temperature <= 1e-5 or top_k = 1.
    """
    is_greedy = ((temperature <= GREEDY_TEMPERATURE) | (top_k == 1))[:, None, None]
    scaled = logits / torch.where(is_greedy, 1.0, temperature[:, None, None])
    ranked = torch.topk(scaled, min(max_top_k, logits.shape[-1]), dim=-1).values
    rank = torch.arange(ranked.shape[-1], device=logits.device)
    mass = torch.softmax(ranked.masked_fill(rank >= top_k[:, None, None], -torch.inf), dim=-1)
    is_needed = (mass.cumsum(dim=-1) - mass < top_p[:, None, None]) | (top_p >= 1.0)[:, None, None]
    kept_ranks = (is_needed & (mass > 0)).sum(dim=-1, keepdim=True).clamp(min=1)
    kept_ranks = torch.where(is_greedy, 1, kept_ranks)
    threshold = ranked.gather(-1, kept_ranks - 1)
    weights = torch.exp(scaled - ranked[..., :1]).masked_fill(scaled < threshold, 0.0)
    cumulative = weights.cumsum(dim=-1)
    total = cumulative[..., -1:]
    target = torch.where(is_greedy, 0.0, uniforms[..., None]) * total
    target = torch.minimum(target, torch.nextafter(total, torch.zeros_like(total)))  # else a product may round up to it
    return (cumulative <= target).sum(dim=-1)


def snake(x: Tensor, alpha: Tensor) -> Tensor:
    """Periodic activation x + sin²(αx) / (α + 1e-9): x [B, C, S], alpha [1, C, 1] (Ziyin et al., NeurIPS 2020)."""
    return torch.addcmul(x, torch.sin(alpha * x).square_(), (alpha + 1e-9).reciprocal())


def _gather_context(
    key_pages: Tensor, value_pages: Tensor, page_table: Tensor, context_lengths: Tensor, positions: int
) -> tuple[Tensor, Tensor]:
    """Keys and values [B, G, positions, D] of each sequence; past its context the last cell it owns is repeated."""
    page_tokens, kv_heads, head_size = key_pages.shape[1:]
    position = torch.minimum(torch.arange(positions, device=page_table.device), context_lengths[:, None] - 1)
    slots = page_table.gather(1, position // page_tokens) * page_tokens + position % page_tokens
    shape = (page_table.shape[0], positions, kv_heads, head_size)
    keys = key_pages.view(-1, kv_heads * head_size).index_select(0, slots.view(-1)).view(shape)
    values = value_pages.view(-1, kv_heads * head_size).index_select(0, slots.view(-1)).view(shape)
    return keys.transpose(1, 2), values.transpose(1, 2)


def _split_attention(
    q: Tensor, keys: Tensor, values: Tensor, visible: Tensor, scale: float, split_tokens: int
) -> Tensor:
    """Attention summed split by split in float32; a split past a context changes nothing, not even a rounding."""
    running_max = q.new_full((*q.shape[:3], 1), -torch.inf, dtype=torch.float32)
    running_sum = torch.zeros_like(running_max)
    mixed = q.new_zeros(q.shape, dtype=torch.float32)
    for start in range(0, keys.shape[2], split_tokens):
        span = slice(start, start + split_tokens)
        scores = (q @ keys[:, :, span].transpose(2, 3)).float() * scale
        scores = scores.masked_fill(~visible[:, None, None, span], -torch.inf)
        new_max = torch.maximum(running_max, scores.amax(dim=-1, keepdim=True))
        weights = torch.exp(scores - new_max)
        shrink = torch.exp(running_max - new_max)
        running_sum = running_sum * shrink + weights.sum(dim=-1, keepdim=True)
        mixed = mixed * shrink + (weights.to(values.dtype) @ values[:, :, span]).float()
        running_max = new_max
    return (mixed / running_sum).to(q.dtype)
