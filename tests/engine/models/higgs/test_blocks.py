"""What the family keeps of sequences and blocks: which request a block is of, its draws, its words as text comes."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from engine.models.higgs.blocks import SequenceState  # noqa: E402
from engine.models.higgs.checkpoint_config import read_geometry  # noqa: E402
from engine.models.higgs.config import HiggsGeometry, HiggsSettings  # noqa: E402
from engine.models.higgs.prompt import TextBlock  # noqa: E402
from engine.runtime.word_estimate import WordWeight  # noqa: E402
from engine.speech import Notice, Sampling, SpeechRequest  # noqa: E402

SETTINGS = HiggsSettings()


@pytest.fixture
def geometry(tiny_folder: Path) -> HiggsGeometry:
    return read_geometry(tiny_folder)


def request(seed: int, **sampling: float) -> SpeechRequest:
    return SpeechRequest("default", seed, sampling=Sampling(**sampling))  # type: ignore[arg-type]


def text(start: int, *notices: Notice) -> TextBlock:
    return TextBlock((1, 2), (WordWeight(start, start + 4, 1.0, 0.0),), 9, 4, 0.5, notices)


def test_a_block_is_spoken_under_the_request_that_opened_last_before_it(geometry: HiggsGeometry) -> None:
    state = SequenceState.of(request(5), geometry)
    state.open(0, request(5))
    state.open(3, request(6))
    first, second, third = (state.begin(block, geometry, SETTINGS) for block in (1, 3, 5))
    assert [one.draw_key(0).parameters.seed for one in (first, second, third)] == [5, 6, 6]
    assert [one.draw_block for one in (first, second, third)] == [1, 0, 2]


def test_requests_that_no_kept_block_can_ask_for_are_forgotten(geometry: HiggsGeometry) -> None:
    state = SequenceState.of(request(1), geometry)
    for block in range(0, 40, 4):
        state.open(block, request(block))
    assert [block for block, _ in state.openings] == [32, 36], "blocks begin in order"
    state.begin(38, geometry, SETTINGS)
    state.open(40, request(40))
    assert [block for block, _ in state.openings] == [36, 40]


def test_an_opening_that_comes_again_changes_nothing(geometry: HiggsGeometry) -> None:
    """As after a plan that failed as a whole."""
    state = SequenceState.of(request(1), geometry)
    state.open(0, request(1))
    state.open(0, request(1))
    assert state.begin(0, geometry, SETTINGS).draw_key(2) == state.begin(0, geometry, SETTINGS).draw_key(2)


def test_what_a_request_leaves_open_is_the_settings_and_no_more_than_the_model_has(geometry: HiggsGeometry) -> None:
    state = SequenceState.of(request(1), geometry)
    state.open(0, request(1, temperature=0.1, top_k=99_999))
    parameters = state.begin(0, geometry, SETTINGS).parameters
    assert (parameters.temperature, parameters.top_p) == (0.1, SETTINGS.sampling.top_p)
    assert parameters.top_k == geometry.codes


def test_text_that_is_fed_in_stretches_is_taken_once(geometry: HiggsGeometry) -> None:
    state = SequenceState.of(request(1), geometry)
    state.open(0, request(1))
    block = state.begin(0, geometry, SETTINGS)
    notice = Notice("tag_unsupported", "x", "no x")
    one, other = text(0, notice), text(5)
    for fed in (one, one, other, other):
        block.take_text(fed)
    assert block.texts == [one, other]
    assert block.notices == (notice,)
    assert [word.start_char for word in block.words.advance(10**6, is_block_end=True)] == [0, 5]


def test_a_block_may_end_at_once_only_where_text_comes_whole(geometry: HiggsGeometry) -> None:
    state = SequenceState.of(request(1), geometry)
    state.open(0, request(1))
    assert state.begin(0, geometry, SETTINGS).may_end
    assert not state.begin(1, geometry, HiggsSettings(is_token_streaming=True)).may_end
