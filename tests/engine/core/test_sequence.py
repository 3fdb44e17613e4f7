"""The tables of states, and the windows of history."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.sequence import (
    BLOCK_TRANSITIONS,
    TRANSITIONS,
    Block,
    BlockStatus,
    Sequence,
    SequenceStatus,
    Utterance,
    fits_window,
    half_window,
    seconds,
)
from engine.core.step import PreparedPrompt, PreparedText
from engine.speech import SpeechRequest
from tests.fakes.fake_model import small_spec, whole_segment

SPEC = small_spec(history_blocks=4, history_s=30.0)


def utterance_of(sequence: Sequence, number: int = 1) -> Utterance:
    utterance = Utterance(number, sequence, SpeechRequest("alto", 1), PreparedPrompt(3, b"alto", None))
    sequence.utterances.append(utterance)
    return utterance


def block_of(utterance: Utterance, frames: int = 10, number: int = 0) -> Block:
    block = Block(utterance, whole_segment("Text."), PreparedText(7, 100, 0.0, None), 8, 0.0)
    block.number, block.frames, block.rows = number, frames, frames + 7
    return block


def test_every_status_has_its_row_and_closed_is_the_end() -> None:
    assert set(TRANSITIONS) == set(SequenceStatus)
    assert set(BLOCK_TRANSITIONS) == set(BlockStatus)
    assert not TRANSITIONS[SequenceStatus.CLOSED]
    assert all(SequenceStatus.CLOSED in ways for status, ways in TRANSITIONS.items() if status.name != "CLOSED")


def test_what_is_not_in_the_table_cannot_happen() -> None:
    sequence = Sequence(1)
    with pytest.raises(AssertionError, match="IDLE → DECODING is not a transition"):
        sequence.move(SequenceStatus.DECODING)
    block = block_of(utterance_of(sequence))
    with pytest.raises(AssertionError, match="QUEUED → SPOKEN is not a transition"):
        block.move(BlockStatus.SPOKEN)


def test_an_utterance_waits_for_the_end_of_the_one_before() -> None:
    sequence = Sequence(1)
    first, second = utterance_of(sequence, 1), utterance_of(sequence, 2)
    waiting = block_of(second)
    second.queue.append(waiting)
    assert sequence.next_block() is None
    first.is_finished = True
    sequence.current = block_of(first)
    assert sequence.next_block() is None
    sequence.current = None
    assert sequence.next_block() is waiting
    assert list(sequence.utterances) == [second]


def test_a_cut_block_has_the_rows_of_a_whole_one() -> None:
    block = block_of(utterance_of(Sequence(1)))
    block.move(BlockStatus.GENERATING)
    text_before, audio_before = block.text_key, block.audio_key
    shorter = whole_segment("Te")
    block.cut(shorter, PreparedText(4, 50, 0.0, None), frames=4)
    assert (block.frames, block.rows) == (4, 11)
    assert block.text_key != text_before
    assert block.audio_key != audio_before
    assert block.status is BlockStatus.SPOKEN


@given(lengths=st.lists(st.integers(1, 1000), max_size=9), blocks=st.integers(1, 6), history_s=st.floats(1.0, 40.0))
def test_half_a_window_is_the_newest_blocks_and_fits(lengths: list[int], blocks: int, history_s: float) -> None:
    spec = small_spec(SPEC, history_blocks=blocks, history_s=history_s)
    utterance = utterance_of(Sequence(1))
    history = [block_of(utterance, frames, number) for number, frames in enumerate(lengths)]
    kept = half_window(history, spec)
    assert kept == history[len(history) - len(kept) :]
    assert fits_window(kept, spec)
    assert len(kept) <= (blocks + 1) // 2
    if len(kept) > 1:
        assert seconds(kept, spec) <= history_s / 2 + 1e-9
    if history and not kept:
        assert seconds(history[-1:], spec) > history_s


def test_a_window_that_fits_is_not_moved() -> None:
    sequence = Sequence(1)
    utterance = utterance_of(sequence)
    sequence.history = [block_of(utterance, number=number) for number in range(4)]
    assert sequence.window(SPEC) == sequence.history
    sequence.history.append(block_of(utterance, number=4))
    assert [block.number for block in sequence.window(SPEC)] == [3, 4]
    sequence.window_from = 2
    assert [block.number for block in sequence.window(SPEC)] == [2, 3, 4]


def test_the_next_window_is_due_where_the_history_would_be_too_long() -> None:
    sequence = Sequence(1)
    utterance = utterance_of(sequence)
    sequence.current = block_of(utterance, number=4)
    sequence.history = [block_of(utterance, number=number) for number in range(4)]
    sequence.plan_shadow(SPEC)
    assert sequence.shadow_at_rows == 1
    sequence.history = sequence.history[:2]
    sequence.plan_shadow(SPEC)
    assert sequence.shadow_at_rows is None
    sequence.plan_shadow(small_spec(SPEC, history_s=1.22))
    assert sequence.shadow_at_rows == 11 + 7
