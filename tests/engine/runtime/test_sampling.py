"""A draw depends on its key alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from engine.runtime.sampling import DrawKey, SamplingParameters, sample_rows  # noqa: E402


def key(seed: int, block: int = 0, row: int = 0, top_k: int | None = None) -> DrawKey:
    return DrawKey(SamplingParameters(1.0, 1.0, top_k, seed), block, row)


LOGITS = torch.zeros(1, 4, 1000)


@given(
    seeds=st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=5, unique=True),
    place=st.tuples(st.integers(0, 1000), st.integers(0, 3000)),
)
@settings(max_examples=30, deadline=None)
def test_rows_drawn_together_equal_rows_drawn_alone(seeds: list[int], place: tuple[int, int]) -> None:
    keys = [key(seed, *place, top_k=None if i % 2 else 50) for i, seed in enumerate(seeds)]
    together = sample_rows(LOGITS.expand(len(keys), -1, -1), keys)
    for i, one in enumerate(keys):
        assert torch.equal(together[i], sample_rows(LOGITS, [one])[0])


def test_seed_block_row_and_codebook_each_change_the_draw() -> None:
    base = sample_rows(LOGITS, [key(5)])
    assert len(base[0].unique()) == 4
    for other in (key(6), key(5 + 2**40), key(5, block=1), key(5, row=1)):
        assert not torch.equal(base, sample_rows(LOGITS, [other]))


def test_rows_do_not_share_counters() -> None:
    """Codebook 4 of row 0 would have the counter of codebook 0 of row 1, if rows were not K apart."""
    rows = torch.cat([sample_rows(LOGITS, [key(5, row=row)]) for row in range(50)])
    assert len(rows.unique()) > 150


def test_draws_are_uniform_over_equal_logits() -> None:
    codes = sample_rows(torch.zeros(2000, 4, 10), [key(seed) for seed in range(2000)])
    counts = torch.bincount(codes.flatten(), minlength=10)
    assert (counts - 800).abs().max() < 5 * 800**0.5
