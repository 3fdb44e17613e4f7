"""A fed segment becomes a block, or a part of one; what can never be spoken is refused, and nothing changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.core.intake import Intake
from engine.core.residency import Residency
from engine.core.sequence import Sequence, Utterance
from engine.core.step import ModelSpec, PreparedPrompt, PreparedText
from engine.errors import SpeechFailedError, TooLongError
from engine.speech import Boundary, Segment, SpeechRequest
from tests.fakes.fake_model import DELAYED_ROWS_SPEC, WHOLE_FRAMES_SPEC, whole_segment
from tests.fakes.streamed_model import CADENCE, STREAMED_ROWS_SPEC

REQUEST = SpeechRequest("alto", seed=1)
PROMPT = PreparedPrompt(30, b"alto", "alto")


class Bench:
    """An intake with an utterance; every character is a token, and wants `rows` rows at most and `least` at least."""

    def __init__(self, spec: ModelSpec, rows: int = 60, least: int | None = None) -> None:
        self.rows, self.least = rows, least
        self.intake = Intake(spec, Residency(spec), self.prepare)
        self.utterance = Utterance(1, Sequence(1), REQUEST, PROMPT)

    def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
        return PreparedText(len(segment.text), self.rows, 0.0, segment.text, self.least)

    def take(self, text: str, boundary: Boundary = "forced") -> None:
        self.intake.take(self.utterance, replace(whole_segment(text), boundary=boundary), 1.0)

    @property
    def texts(self) -> list[list[str]]:
        return [[segment.text for segment in block.segments] for block in self.utterance.queue]


@pytest.mark.parametrize("spec", [DELAYED_ROWS_SPEC, WHOLE_FRAMES_SPEC])
def test_where_text_does_not_grow_every_segment_is_a_block(spec: ModelSpec) -> None:
    bench = Bench(spec)
    for text in ("one", "", "two"):
        bench.take(text)
    assert bench.texts == [["one"], [""], ["two"]]
    assert bench.utterance.pending_blocks == 3


def test_where_text_grows_a_segment_joins_the_block_before_it_as_a_continuation() -> None:
    bench = Bench(STREAMED_ROWS_SPEC)
    for text in ("one", " two", ""):
        bench.take(text)
    assert bench.texts == [["one", " two", ""]]
    (block,) = bench.utterance.queue
    assert [segment.is_continuation for segment in block.segments] == [False, True, True]
    assert (block.prepared.tokens, block.prepared.max_rows) == (7, 180)


@pytest.mark.parametrize(
    ("fed", "wanted"),
    [
        ([("one", "end"), (" two", "forced")], [["one"], [" two"]]),
        ([("one", "sentence"), (" two", "forced")], [["one", " two"]]),
        ([("x" * 12, "sentence"), (" two", "forced")], [["x" * 12], [" two"]]),
        ([("x" * 20, "forced"), (" two", "forced"), ("x", "forced")], [["x" * 20, " two"], ["x"]]),
        ([("one", "forced"), ("x" * 40, "forced"), (" two", "forced")], [["one"], ["x" * 40], [" two"]]),
        ([("", "forced"), ("one", "forced")], [[""], ["one"]]),
    ],
)
def test_a_growing_block_ends_where_text_does_or_a_sentence_or_its_room(
    fed: list[tuple[str, Boundary]], wanted: list[list[str]]
) -> None:
    bench = Bench(STREAMED_ROWS_SPEC)
    for text, boundary in fed:
        bench.take(text, boundary)
    assert bench.texts == wanted


def test_a_block_gets_no_more_rows_than_its_context_has_room_for() -> None:
    bench = Bench(replace(DELAYED_ROWS_SPEC, max_positions=80), rows=60, least=20)
    bench.take("ten chars.")
    assert [block.prepared.max_rows for block in bench.utterance.queue] == [40]
    streamed = Bench(replace(STREAMED_ROWS_SPEC, max_positions=200), rows=400, least=20)
    streamed.take("ten chars.")
    (block,) = streamed.utterance.queue
    assert block.text is not None
    assert block.prepared.max_rows == block.text.max_rows == 200 - 30 - CADENCE.text_positions(24)
    assert PROMPT.tokens + block.text.max_positions == 200


@pytest.mark.parametrize("least", [None, 41])
def test_what_its_context_can_never_hold_is_refused_with_the_numbers(least: int | None) -> None:
    bench = Bench(replace(DELAYED_ROWS_SPEC, max_positions=80), rows=60, least=least)
    with pytest.raises(TooLongError, match=rf"needs {40 + (least or 60)} positions .* a context has 80"):
        bench.take("ten chars.")
    assert (bench.texts, bench.utterance.pending_blocks) == ([], 0)


def test_a_segment_without_room_for_a_single_frame_is_the_models_fault() -> None:
    with pytest.raises(SpeechFailedError, match="prepared 7 rows for a segment; it takes at least 8"):
        Bench(DELAYED_ROWS_SPEC, rows=7).take("x")
