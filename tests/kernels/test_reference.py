"""Every reference op against an independent float64 numpy loop, at odd sizes and beside poisoned memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
import kernels  # noqa: E402  (needs torch)

FLOAT32_TOLERANCE = 2e-6
"""float32 sums of at most a few hundred terms against float64."""


def random(*shape: int, seed: int = 0) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def close(actual: Any, expected: Any, tolerance: float = FLOAT32_TOLERANCE) -> None:
    np.testing.assert_allclose(np.asarray(actual, np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [1, 63, 781])
def test_rms_norm_divides_by_the_root_mean_square(size: int) -> None:
    x, weight = random(3, size), random(size, seed=1)
    wide = x.double().numpy()
    close(
        kernels.rms_norm(x, weight, 1e-6),
        wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * weight.double().numpy(),
    )


def test_rms_norm_of_an_empty_batch_is_empty() -> None:
    assert kernels.rms_norm(torch.empty(0, 7), torch.ones(7), 1e-6).shape == (0, 7)


def test_add_rms_norm_returns_the_norm_and_the_new_residual() -> None:
    x, residual, weight = random(5, 63), random(5, 63, seed=1), random(63, seed=2)
    normed, total = kernels.add_rms_norm(x, residual, weight, 1e-6)
    assert torch.equal(total, x + residual)
    assert torch.equal(normed, kernels.rms_norm(x + residual, weight, 1e-6))


def test_silu_mul_gates_the_second_half_by_the_first() -> None:
    packed = random(3, 126)
    gate, up = np.split(packed.double().numpy(), 2, axis=-1)
    close(kernels.silu_mul(packed), gate / (1 + np.exp(-gate)) * up)


def test_snake_adds_a_squared_sine_per_channel_also_on_a_transposed_input() -> None:
    x, alpha = random(2, 13, 7).transpose(1, 2), random(1, 7, 1, seed=1)
    a = alpha.double().numpy()
    close(kernels.snake(x, alpha), x.double().numpy() + np.sin(a * x.double().numpy()) ** 2 / (a + 1e-9), 1e-5)


def test_codebook_embed_sums_one_row_of_each_codebook() -> None:
    table = random(3 * 17, 5)
    codes = torch.tensor([[0, 16, 3], [16, 0, 16]])
    expected = np.stack([sum(table.double().numpy()[17 * k + int(c)] for k, c in enumerate(row)) for row in codes])
    close(kernels.codebook_embed(codes, table), expected)
    assert kernels.codebook_embed(codes[:0], table).shape == (0, 5)


# --- rotary and paging ------------------------------------------------------------------------------------------------


def rotary_table(positions: int, head_size: int) -> Any:
    angles = np.arange(positions)[:, None] * 10000.0 ** (-np.arange(0, head_size, 2) / head_size)
    return torch.from_numpy(np.concatenate([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32))


def test_rotary_kv_rotates_normed_heads_and_writes_only_the_named_slots() -> None:
    heads, kv_heads, size, page_tokens = 6, 2, 8, 3
    qkv, q_norm, k_norm = random(4, heads + 2 * kv_heads, size), random(size, seed=1), random(size, seed=2)
    table, positions = rotary_table(20, size), torch.tensor([7, 0, 19, 3])
    pools = [torch.full((5, page_tokens, kv_heads, size), math.nan) for _ in range(2)]
    slots = torch.tensor([14, 0, 5, 4])
    q = kernels.rotary_kv(qkv, q_norm, k_norm, 1e-6, table, positions, pools[0], pools[1], slots)

    def expected(row: int, head: int, weight: Any) -> Any:
        x = qkv[row, head].double().numpy()
        x = x / np.sqrt((x**2).mean() + 1e-6) * weight.double().numpy()
        pairs = (x[: size // 2] + 1j * x[size // 2 :]) * np.exp(
            1j * int(positions[row]) * 10000.0 ** (-np.arange(0, size, 2) / size)
        )
        return np.concatenate([pairs.real, pairs.imag])

    for row in range(4):
        for head in range(heads):
            close(q[row, head], expected(row, head, q_norm), 1e-5)
        page, offset = divmod(int(slots[row]), page_tokens)
        for head in range(kv_heads):
            close(pools[0][page, offset, head], expected(row, heads + head, k_norm), 1e-5)
            assert torch.equal(pools[1][page, offset, head], qkv[row, heads + kv_heads + head])
    written = torch.zeros(15, dtype=torch.bool)
    written[slots] = True
    for pool in pools:
        assert torch.equal(pool.view(15, -1).isnan().all(-1), ~written)


class Paged:
    """Contexts of given lengths in shuffled pages of a pool whose other cells are all NaN."""

    def __init__(self, lengths: list[int], page_tokens: int = 5, kv_heads: int = 2, head_size: int = 8) -> None:
        generator = np.random.default_rng(sum(lengths))
        pages_each = [-(-length // page_tokens) for length in lengths]
        pages = generator.permutation(sum(pages_each) + 2)
        self.keys = [random(length, kv_heads, head_size, seed=10 + i) for i, length in enumerate(lengths)]
        self.values = [random(length, kv_heads, head_size, seed=50 + i) for i, length in enumerate(lengths)]
        shape = (len(pages), page_tokens, kv_heads, head_size)
        self.key_pages, self.value_pages = torch.full(shape, math.nan), torch.full(shape, math.nan)
        self.page_table = torch.full((len(lengths), max(pages_each)), int(pages[-1]))
        self.lengths = torch.tensor(lengths)
        taken = 0
        for i, length in enumerate(lengths):
            own = pages[taken : taken + pages_each[i]]
            taken += pages_each[i]
            self.page_table[i, : len(own)] = torch.from_numpy(own)
            for position in range(length):
                page, offset = int(own[position // page_tokens]), position % page_tokens
                self.key_pages[page, offset] = self.keys[i][position]
                self.value_pages[page, offset] = self.values[i][position]

    def attention(self, sequence: int, q: Any, context: int) -> Any:
        """float64 loop: q [H, D] over the first `context` positions of a sequence."""
        keys = self.keys[sequence][:context].double().numpy()
        values = self.values[sequence][:context].double().numpy()
        rows = []
        for head in range(q.shape[0]):
            group = head // (q.shape[0] // keys.shape[1])
            scores = keys[:, group] @ q[head].double().numpy() * 0.3
            weights = np.exp(scores - scores.max())
            rows.append(weights @ values[:, group] / weights.sum())
        return np.stack(rows)


@pytest.mark.parametrize("split_tokens", [None, 4, 64])
@pytest.mark.parametrize("lengths", [[1], [5, 1, 23], [63, 2, 64, 11]])
def test_decode_attention_reads_exactly_each_context(lengths: list[int], split_tokens: int | None) -> None:
    paged = Paged(lengths)
    q = random(len(lengths), 6, 8, seed=3)
    mixed = kernels.paged_decode_attention(
        q, paged.key_pages, paged.value_pages, paged.page_table, paged.lengths, 0.3, split_tokens
    )
    for i, length in enumerate(lengths):
        close(mixed[i], paged.attention(i, q[i], length), 1e-5)


def test_split_decode_attention_does_not_change_beside_a_longer_context() -> None:
    paged = Paged([7, 200])
    q = random(2, 6, 8, seed=3)
    arguments = (0.3, 16)
    alone = kernels.paged_decode_attention(
        torch.stack((q[0], q[0])), paged.key_pages, paged.value_pages, paged.page_table[[0, 0], :2],
        paged.lengths[[0, 0]], *arguments,
    )  # fmt: skip
    beside = kernels.paged_decode_attention(
        q, paged.key_pages, paged.value_pages, paged.page_table, paged.lengths, *arguments
    )
    assert torch.equal(alone[0], beside[0])


@pytest.mark.parametrize(("lengths", "queries"), [([9], [9]), ([9], [1]), ([3, 40, 17], [3, 5, 1]), ([6, 6], [2, 6])])
def test_prefill_attention_is_causal_for_each_sequence(lengths: list[int], queries: list[int]) -> None:
    paged = Paged(lengths)
    q = random(sum(queries), 4, 8, seed=3)
    starts = torch.tensor([0, *np.cumsum(queries).tolist()])
    mixed = kernels.paged_prefill_attention(
        q, paged.key_pages, paged.value_pages, paged.page_table, starts, paged.lengths, max(queries), 0.3
    )
    row = 0
    for i, (length, count) in enumerate(zip(lengths, queries, strict=True)):
        for context in range(length - count + 1, length + 1):
            close(mixed[row], paged.attention(i, q[row], context), 1e-5)
            row += 1


# --- random numbers and sampling --------------------------------------------------------------------------------------


def philox_word(key: int, low: int, high: int) -> int:
    """Philox 4x32-10 in Python integers; returns the first output word."""
    mask = 0xFFFFFFFF
    k = [key & mask, key >> 32 & mask]
    x = [low & mask, low >> 32 & mask, high & mask, high >> 32 & mask]
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [b >> 32 ^ x[1] ^ k[0], b & mask, a >> 32 ^ x[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return x[0]


def test_philox_gives_the_published_known_answers() -> None:
    """Random123 kat_vectors, philox4x32 10: all zeros, all ones."""
    assert philox_word(0, 0, 0) == 0x6627E8D5
    assert philox_word(2**64 - 1, 2**64 - 1, 2**64 - 1) == 0x408F276D
    zeros, ones = torch.zeros(1, dtype=torch.int64), torch.full((1,), -1, dtype=torch.int64)
    assert kernels.counter_uniform(zeros, torch.stack((zeros, zeros), -1)).item() == (0x6627E8D5 >> 8) / 2**24
    assert kernels.counter_uniform(ones, torch.stack((ones, ones), -1)).item() == (0x408F276D >> 8) / 2**24


@given(seed=st.integers(0, 2**63 - 1), low=st.integers(0, 2**63 - 1), high=st.integers(0, 2**63 - 1))
@settings(max_examples=50, deadline=None)
def test_counter_uniform_equals_philox_in_integers(seed: int, low: int, high: int) -> None:
    value = kernels.counter_uniform(torch.tensor([seed]), torch.tensor([[low, high]]))
    assert value.item() == (philox_word(seed, low, high) >> 8) / 2**24


def sample(logits: Any, uniforms: Any, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0) -> Any:
    rows, vocabulary = logits.shape[0], logits.shape[-1]
    top_k = vocabulary if top_k is None else top_k
    return kernels.sample_codebooks(
        logits,
        torch.full((rows,), temperature),
        torch.full((rows,), top_k),
        torch.full((rows,), top_p),
        uniforms,
        top_k,
    )


def kept_distribution(logits: Any, temperature: float, top_k: int, top_p: float) -> Any:
    """float64: probabilities after temperature, top-k and top-p, threshold ties kept."""
    scaled = logits.astype(np.float64) / temperature
    order = np.argsort(-scaled, kind="stable")[:top_k]
    mass = np.exp(scaled[order] - scaled[order[0]])
    mass /= mass.sum()
    count = int((np.cumsum(mass) - mass < top_p).sum()) if top_p < 1 else top_k
    weights = np.where(scaled >= scaled[order[count - 1]], np.exp(scaled - scaled.max()), 0.0)
    return weights / weights.sum()


@given(
    seed=st.integers(0, 10_000),
    temperature=st.sampled_from([0.3, 0.8, 1.0, 1.7]),
    top_k=st.sampled_from([2, 5, 30, 63]),
    top_p=st.sampled_from([0.05, 0.5, 0.8, 0.95, 1.0]),
    is_coarse=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_a_draw_is_the_inverse_distribution_of_what_top_k_and_top_p_keep(
    seed: int, temperature: float, top_k: int, top_p: float, is_coarse: bool
) -> None:
    generator = np.random.default_rng(seed)
    logits = generator.standard_normal((2, 3, 63)).astype(np.float32) * 2
    if is_coarse:  # as bfloat16 heads give: many equal values
        logits = np.round(logits)
    uniforms = generator.random((2, 3)).astype(np.float32)
    codes = sample(torch.from_numpy(logits), torch.from_numpy(uniforms), temperature, top_k, top_p)
    for row in range(2):
        for codebook in range(3):
            distribution = kept_distribution(logits[row, codebook], temperature, top_k, top_p)
            code = int(codes[row, codebook])
            assert distribution[code] > 0
            below = distribution[:code].sum()
            assert below - 1e-5 <= uniforms[row, codebook] <= below + distribution[code] + 1e-5


def test_parameters_hold_per_row() -> None:
    logits = random(3, 2, 31)
    uniforms = torch.full((3, 2), 0.999)
    mixed = kernels.sample_codebooks(
        logits, torch.tensor([0.5, 1.0, 1.0]), torch.tensor([31, 4, 1]), torch.tensor([1.0, 0.7, 1.0]), uniforms, 31
    )
    alone = [
        sample(logits[:1], uniforms[:1], 0.5),
        sample(logits[1:2], uniforms[1:2], 1.0, 4, 0.7),
        logits[2:].argmax(-1),
    ]
    assert torch.equal(mixed, torch.cat(alone))


def test_temperature_zero_and_top_k_one_are_greedy_with_the_lowest_code_first() -> None:
    logits = torch.zeros(1, 2, 9)
    logits[0, 0, 4] = logits[0, 0, 7] = 1.0
    uniforms = torch.full((1, 2), 0.99)
    for codes in (sample(logits, uniforms, temperature=0.0), sample(logits, uniforms, top_k=1)):
        assert codes.tolist() == [[4, 0]]


def test_a_forbidden_code_is_never_drawn() -> None:
    logits = torch.full((1, 1, 7), -math.inf)
    logits[0, 0, [2, 5]] = torch.tensor([0.0, -30.0])
    for uniform in (0.0, 0.5, 1 - 2**-24):
        assert sample(logits, torch.full((1, 1), uniform)).item() in (2, 5)
    assert sample(logits, torch.full((1, 1), 0.0)).item() == 2
