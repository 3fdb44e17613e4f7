"""The delay pattern on tensors equals DelayCursor row by row, and transformers' pattern as a whole."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.delay import rows_of
from tests.fakes.delay_oracle import DelayCursor

torch = pytest.importorskip("torch")
from engine.runtime.delay_rows import NOT_ENDED, DelayPattern  # noqa: E402

CODES = 18
BEGIN, END = 16, 17


def drive(pattern: DelayPattern, draws: list[list[list[int]]]) -> list[list[list[int]]]:
    """Run several blocks in one batch, each from its own first step on: draws[block][row] are the codes drawn.
    Answers the rows emitted of each block, up to and with the finished one."""
    count = len(draws)
    end_rows = torch.full((count,), NOT_ENDED)
    emitted: list[list[list[int]]] = [[] for _ in range(count)]
    done = [False] * count
    for step in range(max(map(len, draws)) + count):
        live = [b for b in range(count) if b <= step and not done[b] and step - b < len(draws[b])]
        if not live:
            continue
        rows = torch.tensor([step - b for b in live])
        drawn = torch.tensor([draws[b][step - b] for b in live])
        codes, ends, finished = pattern.complete(drawn, rows, end_rows[live])
        end_rows[live] = ends
        for i, block in enumerate(live):
            emitted[block].append(codes[i].tolist())
            done[block] = bool(finished[i])
    return emitted


@given(
    codebooks=st.integers(2, 8),
    has_staircase=st.booleans(),
    seed=st.integers(0, 10_000),
    end_probability=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
)
@settings(max_examples=80, deadline=None)
def test_blocks_in_every_phase_in_one_batch_equal_one_cursor_each(
    codebooks: int, has_staircase: bool, seed: int, end_probability: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    pattern = DelayPattern(codebooks, BEGIN, END, has_staircase)
    draws = []
    for _ in range(4):
        codes = torch.randint(0, BEGIN, (30, codebooks), generator=generator)
        is_end = torch.rand(30, codebooks, generator=generator) < end_probability
        if has_staircase:  # restrict() lets only codebook 0 end, and only after the ramp
            is_end[:, 1:] = False
            is_end[:codebooks] = False
        draws.append(torch.where(is_end, END, codes).tolist())
    for block, emitted in enumerate(drive(pattern, draws)):
        cursor = DelayCursor(codebooks)
        for row, codes in enumerate(emitted):
            assert not cursor.is_done
            active, ended = cursor.active_codebooks, cursor.ended_codebooks
            assert codes[active:] == [BEGIN] * (codebooks - active)
            drawn = draws[block][row]
            wanted = [END] * ended + drawn[ended:active] if has_staircase else drawn[:active]
            assert codes[:active] == wanted
            cursor.step(codes[0] == END)
        assert cursor.is_done or len(emitted) == 30


@given(codebooks=st.integers(2, 8), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_what_cannot_stand_on_a_row_is_forbidden(codebooks: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    pattern = DelayPattern(codebooks, BEGIN, END, has_staircase=True)
    rows = torch.randint(0, 20, (5,), generator=generator)
    end_rows = torch.where(torch.rand(5, generator=generator) < 0.5, rows - 1, NOT_ENDED)
    logits = torch.zeros(5, codebooks, CODES)
    restricted = pattern.restrict(logits, rows, end_rows)
    assert torch.equal(logits, torch.zeros_like(logits))
    for block in range(5):
        for codebook in range(codebooks):
            may_end = codebook == 0 and int(rows[block]) >= codebooks and int(end_rows[block]) == NOT_ENDED
            allowed = restricted[block, codebook].isfinite()
            assert allowed[:BEGIN].all()
            assert not allowed[BEGIN]
            assert bool(allowed[END]) == may_end


def test_without_the_staircase_nothing_is_forbidden() -> None:
    logits = torch.randn(2, 8, CODES)
    pattern = DelayPattern(8, BEGIN, END, has_staircase=False)
    assert pattern.restrict(logits, torch.tensor([0, 9]), torch.tensor([NOT_ENDED, 8])) is logits


@pytest.mark.parametrize(("codebooks", "frames"), [(3, 4), (8, 1), (8, 20), (2, 5), (8, 0)])
def test_frames_of_staggered_frames_are_the_frames(codebooks: int, frames: int) -> None:
    pattern = DelayPattern(codebooks, BEGIN, END, has_staircase=True)
    codes = torch.randint(0, BEGIN, (frames, codebooks))
    rows = pattern.staggered(codes)
    assert rows.shape == (rows_of(frames, codebooks), codebooks)
    assert torch.equal(pattern.frames(rows), codes)


def test_the_published_example_of_three_codebooks() -> None:
    pattern = DelayPattern(3, BEGIN, END, has_staircase=True)
    a, b, c = [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]
    rows = pattern.staggered(torch.tensor([a, b, c]).T)
    assert rows.tolist() == [[1, BEGIN, BEGIN], [2, 5, BEGIN], [3, 6, 9], [4, 7, 10], [END, 8, 11], [END, END, 12]]


def test_a_generated_block_has_the_layout_of_a_finished_one() -> None:
    pattern = DelayPattern(8, BEGIN, END, has_staircase=True)
    draws = torch.randint(0, BEGIN, (40, 8))
    draws[21, 0] = END
    (emitted,) = drive(pattern, [draws.tolist()])
    assert len(emitted) == rows_of(21, 8)
    assert torch.equal(pattern.staggered(pattern.frames(torch.tensor(emitted))), torch.tensor(emitted))


def test_marks_among_frames_become_code_zero() -> None:
    pattern = DelayPattern(2, BEGIN, END, has_staircase=False)
    assert pattern.frames(torch.tensor([[3, BEGIN], [END, 4], [5, BEGIN]])).tolist() == [[3, 4], [0, 0]]


def test_the_layout_equals_transformers_delay_pattern() -> None:
    stand_in = Path(__file__).parents[2] / "fakes" / "torchaudio_stand_in"
    if "torchaudio" not in sys.modules:
        sys.path.insert(0, str(stand_in))
    transformers: Any = pytest.importorskip("transformers")
    processor = object.__new__(transformers.HiggsAudioV2Processor)
    processor.audio_stream_bos_id, processor.audio_stream_eos_id = BEGIN, END
    frames = torch.randint(0, BEGIN, (11, 8))
    wanted = processor.build_delay_pattern(frames.T[None])[0].T
    assert torch.equal(DelayPattern(8, BEGIN, END, True).staggered(frames), wanted)
