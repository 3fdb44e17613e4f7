"""Windows joined are the block's one decode; edges fade; a join that was not final has no step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from engine.runtime.codec_stream import BlockJoin, CodecWindow, DecodedWindow, decode_windows  # noqa: E402

SPF = 4
"""Samples per frame of the made-up decoder."""


def decode(codes: Any) -> Any:
    """Each frame's code, and a tenth of its neighbours': a reach of one frame."""
    x = codes[..., 0].float()
    left = torch.cat((x[:, :1] * 0, x[:, :-1]), 1)
    right = torch.cat((x[:, 1:], x[:, -1:] * 0), 1)
    return (x + 0.1 * left + 0.1 * right).repeat_interleave(SPF, dim=1)


def window(codes: Any, start: int, end: int, left: int, right: int) -> CodecWindow:
    return CodecWindow(codes[start - left : end + right], left, right)


@pytest.mark.parametrize(
    ("max_batch_frames", "wanted"),
    [(100, [(1, 12, 2), (3, 6, 2)]), (12, [(1, 6, 2), (1, 12, 2), (2, 6, 2)]), (1, [(1, 6, 2)] * 3 + [(1, 12, 2)])],
)
def test_windows_of_many_blocks_are_batched_by_exact_length_and_trimmed(
    max_batch_frames: int, wanted: list[tuple[int, ...]]
) -> None:
    codes = torch.arange(40).view(20, 2)
    batches: list[tuple[int, ...]] = []

    def counted(batch: Any) -> Any:
        batches.append(tuple(batch.shape))
        return decode(batch)

    whole = decode(codes[None])[0].numpy()
    spans = [(0, 5, 0, 1), (5, 9, 1, 1), (0, 5, 0, 1), (9, 20, 1, 0)]
    out = decode_windows(counted, [window(codes, *span) for span in spans], SPF, max_batch_frames)
    assert sorted(batches) == wanted
    for (start, end, _, right), decoded in zip(spans, out, strict=True):
        np.testing.assert_allclose(decoded.pcm, whole[start * SPF : end * SPF], rtol=1e-6)
        assert len(decoded.beyond) == right * SPF


def test_no_windows_need_no_decode() -> None:
    assert decode_windows(decode, [], SPF, 10) == []


def test_edges_of_a_block_fade_and_its_middle_is_untouched() -> None:
    join = BlockJoin(edge_samples=3, overlap_samples=8, reach_frames=1)
    first = join.join(DecodedWindow(np.ones(8, np.float32), np.ones(4, np.float32)), 1, is_block_end=False)
    last = join.join(DecodedWindow(np.ones(8, np.float32), np.zeros(0, np.float32)), 0, is_block_end=True)
    pcm = np.concatenate((first, last))
    assert (pcm[3:-3] == 1).all()
    assert 0 < pcm[0] < pcm[1] < pcm[2] < 1
    np.testing.assert_allclose(pcm[:3], pcm[-3:][::-1])


def test_a_block_shorter_than_its_fades_fades_both_ways() -> None:
    join = BlockJoin(edge_samples=100, overlap_samples=8, reach_frames=1)
    pcm = join.join(DecodedWindow(np.ones(10, np.float32), np.zeros(0, np.float32)), 0, is_block_end=True)
    assert pcm.max() < 0.5
    np.testing.assert_allclose(pcm, pcm[::-1], rtol=1e-6)


def test_an_empty_block_end_is_empty() -> None:
    join = BlockJoin(3, 8, 1)
    empty = np.zeros(0, np.float32)
    assert len(join.join(DecodedWindow(empty, empty), 0, is_block_end=True)) == 0


def test_a_window_after_one_that_was_not_final_fades_in_from_what_that_one_had_beyond() -> None:
    join = BlockJoin(edge_samples=0, overlap_samples=4, reach_frames=3)
    first = join.join(DecodedWindow(np.full(8, 1.0, np.float32), np.full(4, 1.0, np.float32)), 1, is_block_end=False)
    second = join.join(DecodedWindow(np.full(8, 2.0, np.float32), np.full(12, 2.0, np.float32)), 3, is_block_end=False)
    third = join.join(DecodedWindow(np.full(8, 3.0, np.float32), np.zeros(0, np.float32)), 0, is_block_end=True)
    pcm = np.concatenate((first, second))
    assert np.abs(np.diff(pcm)).max() < 0.5  # the step of 1 is spread over 4 samples
    assert (second[4:] == 2).all()
    assert (third == 3).all()  # the second was final: nothing to hide


def test_the_answers_do_not_alias_the_decoders_buffer() -> None:
    join = BlockJoin(2, 2, 0)
    source = np.ones(8, np.float32)
    join.join(DecodedWindow(source, np.zeros(0, np.float32)), 0, is_block_end=True)
    assert (source == 1).all()
