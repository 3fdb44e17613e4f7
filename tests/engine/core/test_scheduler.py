"""The scheduler's promises, one by one, against the self-checking fakes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.step import Forget, PreparedText, SequenceFailure, StepPlan, StepResult
from engine.errors import SpeechFailedError, TooLongError
from engine.speech import Control, Notice, Segment, Span, SpeechRequest
from tests.fakes.fake_driver import SyncDriver
from tests.fakes.fake_model import (
    SAMPLES_PER_FRAME,
    DelayedRowsModel,
    FakeModel,
    WholeFramesModel,
    segment_pcm,
    small_spec,
    whole_segment,
)
from tests.fakes.streamed_model import CADENCE, StreamedRowsModel

REQUEST = SpeechRequest("alto", seed=3)
BOTH = pytest.mark.parametrize("make", [DelayedRowsModel, WholeFramesModel])


def pieces(plan: StepPlan) -> list[tuple[str, int, int, int]]:
    return [(piece.kind, piece.block, piece.start, piece.end) for item in plan.prefill for piece in item.pieces]


def starts(model: FakeModel) -> list[StepPlan]:
    return [plan for plan in model.plans if any(item.samples_block is not None for item in plan.prefill)]


def speak_turns(driver: SyncDriver, *texts: str, lane: str = "main") -> None:
    for text in texts:
        driver.speak(REQUEST, whole_segment(text), lane=lane)


# ---- append --------------------------------------------------------------------------------------------------------


def test_the_next_block_is_prefilled_with_the_unfed_row_and_its_text_alone() -> None:
    driver = SyncDriver(model := DelayedRowsModel())
    driver.speak(REQUEST, whole_segment("One."), whole_segment(" Two.", 4))
    rows = 8 + 7
    assert pieces(starts(model)[1]) == [("audio", 0, rows - 1, rows), ("text", 1, 0, 7)]
    assert model.prefilled_positions == model.prompt_tokens + 6 + 1 + 7


def test_a_prefill_longer_than_the_budget_is_spread_over_ticks_and_sampled_once() -> None:
    driver = SyncDriver(model := DelayedRowsModel(small_spec(max_prefill_tokens=10)))
    driver.speak(REQUEST, whole_segment("A text of some length."))
    plans = [plan for plan in model.plans if plan.prefill]
    assert [sum(end - start for _, _, start, end in pieces(plan)) for plan in plans] == [10] * 6 + [1]
    assert [plan.prefill[0].samples_block for plan in plans] == [None] * 6 + [0]


@BOTH
def test_utterances_of_a_lane_are_generated_in_the_order_opened(make: type[FakeModel]) -> None:
    driver = SyncDriver(model := make())
    first, second = driver.open(REQUEST), driver.open(REQUEST)
    driver.feed(second, whole_segment("Second."))
    driver.run()
    assert not driver.chunks[second]
    driver.feed(first, whole_segment("First."))
    driver.finish(second)
    driver.run()
    assert not driver.chunks[second]
    driver.finish(first)
    driver.run()
    assert np.array_equal(driver.pcm(second), segment_pcm("Second.", 14))
    assert [opening.block for plan in model.plans for opening in plan.openings] == [0, 1]


@BOTH
def test_lanes_do_not_wait_for_each_other(make: type[FakeModel]) -> None:
    driver = SyncDriver(make())
    driver.open(REQUEST, lane="open for ever")
    driver.speak(REQUEST, whole_segment("Here."), lane="other")


def test_a_segment_that_gives_no_sound_ends_in_its_place() -> None:
    driver = SyncDriver(WholeFramesModel(faults={"(": "silent"}))
    chunks = driver.speak(REQUEST, whole_segment("One."), whole_segment("(", 4), whole_segment("Two.", 5))
    ends = [(chunk.start_sample + len(chunk.pcm)) // SAMPLES_PER_FRAME for chunk in chunks if chunk.is_segment_end]
    assert ends == [8, 8, 16]


@BOTH
@pytest.mark.parametrize("texts", [("",), ("", "one."), ("one.", ""), ("one.", "", "", "two.", "")])
def test_a_segment_with_nothing_to_be_spoken_never_reaches_the_model(
    make: type[FakeModel], texts: tuple[str, ...]
) -> None:
    driver = SyncDriver(make())
    chunks = driver.speak(REQUEST, *(whole_segment(text) for text in texts))
    assert sum(chunk.is_segment_end for chunk in chunks) == len(texts)
    assert [chunk.is_final for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    spoken = [text for text in texts if text]
    assert isinstance(driver.model, FakeModel)
    assert len(starts(driver.model)) == len(spoken)
    wanted = [segment_pcm(text, 2 * len(text)) for text in spoken]
    assert np.array_equal(np.concatenate([chunk.pcm for chunk in chunks]), np.concatenate([np.zeros(0), *wanted]))


def test_its_end_is_told_behind_the_sound_before_it() -> None:
    driver = SyncDriver(DelayedRowsModel())
    utterance = driver.open(REQUEST)
    driver.feed(utterance, whole_segment("one."))
    driver.feed(utterance, whole_segment(""))
    assert driver.chunks[utterance] == []
    driver.finish(utterance)
    driver.run()
    assert [len(chunk.pcm) > 0 for chunk in driver.chunks[utterance] if chunk.is_segment_end] == [True, False]


def test_text_may_grow_while_it_is_spoken() -> None:
    driver = SyncDriver(StreamedRowsModel())
    utterance = driver.open(REQUEST)
    driver.feed(utterance, whole_segment("S"))
    driver.run()
    heard = len(driver.pcm(utterance))
    assert heard == 0, "eleven rows are four frames, and the vocoder wants ten beyond them"
    for text in ("ome words", " more", " yet"):
        driver.feed(utterance, replace(whole_segment(text), boundary="forced"))
        driver.run()
    assert len(driver.pcm(utterance)) > 0
    driver.finish(utterance)
    driver.run()
    chunks = driver.chunks[utterance]
    assert sum(chunk.is_segment_end for chunk in chunks) == 4
    assert chunks[-1].is_final
    assert isinstance(driver.model, StreamedRowsModel)
    (block,) = driver.model.finished.values()
    assert "".join(block.fed) == "Some words more yet"


def test_a_growing_text_that_is_full_goes_on_in_another_block() -> None:
    model = StreamedRowsModel()
    driver = SyncDriver(model)
    texts = [f" word{number}" for number in range(12)]
    driver.speak(REQUEST, *(replace(whole_segment(text), boundary="forced") for text in texts))
    assert [len(block.fed) for block in model.finished.values()] == [24, 24, 19, 7]
    assert "".join(one for block in model.finished.values() for one in block.fed) == "".join(texts)


def test_a_growing_text_ends_at_a_sentence_where_it_is_half_full() -> None:
    model = StreamedRowsModel()
    driver = SyncDriver(model)
    driver.speak(REQUEST, whole_segment("Twelve chars."), whole_segment(" And more."))
    assert ["".join(block.fed) for block in model.finished.values()] == ["Twelve chars.", " And more."]


def test_words_are_counted_from_the_utterances_first_sample() -> None:
    driver = SyncDriver(WholeFramesModel())
    chunks = driver.speak(REQUEST, whole_segment("One two."), whole_segment(" Three.", 8))
    words = [word for chunk in chunks for word in chunk.words]
    assert [(word.start_char, word.end_char) for word in words] == [(0, 3), (4, 8), (9, 15)]
    assert words[2].start_sample == (16 + 2) * SAMPLES_PER_FRAME
    for chunk in chunks:
        for word in chunk.words:
            assert chunk.start_sample <= word.start_sample < chunk.start_sample + len(chunk.pcm)


def test_neighbouring_texts_go_to_a_family_that_keeps_no_context() -> None:
    driver = SyncDriver(model := WholeFramesModel())
    driver.speak(REQUEST, *(whole_segment(text, 2 * at) for at, text in enumerate(["a.", "b.", "c.", "d."])))
    assert model.neighbours == [
        ((), "a.", ("b.", "c.")),
        (("a.",), "b.", ("c.", "d.")),
        (("a.", "b."), "c.", ("d.",)),
        (("b.", "c."), "d.", ()),
    ]


# ---- roll-back -----------------------------------------------------------------------------------------------------


def test_a_cancel_keeps_the_heard_frames_and_the_words_that_go_with_them() -> None:
    driver = SyncDriver(model := DelayedRowsModel())
    first = driver.open(REQUEST)
    driver.feed(first, whole_segment("Hello there my friend."))
    driver.finish(first)
    driver.run()
    driver.cancel(first, heard_samples=11 * SAMPLES_PER_FRAME + 17, heard_chars=6)
    driver.speak(REQUEST, whole_segment("Yes?"))
    plan = starts(model)[1]
    assert plan.forgets == (Forget(1, 0, 11),)
    assert pieces(plan) == [("text", 0, 0, 8), ("audio", 0, 0, 18), ("text", 1, 0, 6)]
    assert model.prepared[1].text == "Hello "


def test_rows_before_the_heard_point_are_kept_where_the_text_was_heard_whole() -> None:
    driver = SyncDriver(model := DelayedRowsModel())
    first = driver.open(REQUEST)
    driver.feed(first, whole_segment("Hello."))
    driver.finish(first)
    driver.run()
    driver.cancel(first, heard_samples=11 * SAMPLES_PER_FRAME, heard_chars=6)
    driver.speak(REQUEST, whole_segment("Yes?"))
    assert pieces(starts(model)[1]) == [("audio", 0, 11, 18), ("text", 1, 0, 6)]


@BOTH
@pytest.mark.parametrize("heard_samples", [0, SAMPLES_PER_FRAME - 1])
def test_a_block_of_which_nothing_was_heard_goes(make: type[FakeModel], heard_samples: int) -> None:
    driver = SyncDriver(model := make())
    first = driver.open(REQUEST)
    driver.feed(first, whole_segment("Never mind."))
    driver.finish(first)
    driver.run()
    driver.cancel(first, heard_samples, heard_chars=11)
    driver.speak(REQUEST, whole_segment("Yes?"))
    plan = starts(model)[1]
    assert plan.forgets == (Forget(1, 0),)
    assert pieces(plan)[-1][:2] == ("text", 1)
    assert all(block == 1 for _, block, _, _ in pieces(plan))
    assert not plan.prefill[0].left


@BOTH
def test_blocks_heard_whole_stay_as_they_are(make: type[FakeModel]) -> None:
    driver = SyncDriver(model := make())
    first = driver.open(REQUEST)
    driver.feed(first, whole_segment("One."))
    driver.feed(first, whole_segment(" Two three.", 4))
    driver.finish(first)
    driver.run()
    driver.cancel(first, heard_samples=(8 + 10) * SAMPLES_PER_FRAME, heard_chars=9)
    driver.speak(REQUEST, whole_segment("Go on."))
    assert [forget for plan in model.plans for forget in plan.forgets] == [Forget(1, 1, 10)]
    assert model.prepared[2].text == " Two "


def test_a_cancel_while_a_plan_is_out_drops_what_it_answers() -> None:
    driver = SyncDriver(model := DelayedRowsModel(), tick_s=0.01)
    first = driver.open(REQUEST)
    driver.feed(first, whole_segment("A sentence that is cut."))
    while not driver.chunks[first]:
        driver.tick()
    plan = driver.plan()
    assert plan is not None
    driver.cancel(first, heard_samples=2 * SAMPLES_PER_FRAME, heard_chars=1)
    count = len(driver.chunks[first])
    driver.commit(plan, model.execute(plan))
    assert len(driver.chunks[first]) == count
    driver.speak(REQUEST, whole_segment("New."))


def test_a_cancel_of_an_utterance_reaches_the_context_after_the_block_that_is_decoding() -> None:
    driver = SyncDriver(model := DelayedRowsModel(), tick_s=0.01)
    first, second = driver.open(REQUEST), driver.open(REQUEST)
    for utterance, texts in ((first, ["One heard half."]), (second, ["Two."])):
        for text in texts:
            driver.feed(utterance, whole_segment(text))
        driver.finish(utterance)
    while not driver.chunks[second]:
        driver.tick()
    driver.cancel(first, heard_samples=9 * SAMPLES_PER_FRAME, heard_chars=4)
    driver.run()
    driver.speak(REQUEST, whole_segment("Three."))
    assert pieces(starts(model)[-1]) == [
        ("text", 0, 0, 6),
        ("audio", 0, 0, 16),
        ("text", 1, 0, 6),
        ("audio", 1, 0, 15),
        ("text", 2, 0, 8),
    ]


def test_a_stateless_family_keeps_nothing_of_what_was_heard() -> None:
    driver = SyncDriver(model := DelayedRowsModel(small_spec(history_blocks=0)))
    speak_turns(driver, "One.", "Two.")
    assert pieces(starts(model)[1]) == [("text", 1, 0, 6)]
    driver.run()
    assert not model.blocks


# ---- window --------------------------------------------------------------------------------------------------------


def test_the_window_moves_in_a_shadow_and_the_next_block_waits_for_little() -> None:
    driver = SyncDriver(model := DelayedRowsModel(small_spec(max_prefill_tokens=16)), tick_s=0.01)
    driver.speak(REQUEST, *(whole_segment(f"Turn number {turn}.", 14 * turn) for turn in range(9)))
    waits = []
    for plan in starts(model)[1:]:
        (item,) = [item for item in plan.prefill if item.samples_block is not None]
        waits.append(sum(piece.end - piece.start for piece in item.pieces))
    assert max(waits) <= 16 + model.spec.page_tokens, "history was rebuilt while a listener waited"
    blocks = [len({cell[1] for cell in context if cell[0] == "text"}) for context in model.contexts.values()]
    assert blocks == [1, 2, 3, 4, 5, 3, 4, 5, 3]


def test_the_window_is_bounded_in_seconds() -> None:
    spec = small_spec(history_blocks=10, history_s=3.0)
    driver = SyncDriver(model := DelayedRowsModel(spec))
    speak_turns(driver, *(f"Turn number {turn}." for turn in range(8)))
    for context in model.contexts.values():
        texts = {cell[1] for cell in context if cell[0] == "text"}
        assert (len(texts) - 1) * 28 * spec.frame_s <= 3.0
    assert max(len({cell[1] for cell in context if cell[0] == "text"}) for context in model.contexts.values()) == 3


def test_without_free_pages_the_window_moves_in_place_to_the_same_context() -> None:
    roomy = SyncDriver(plenty := DelayedRowsModel())
    tight = SyncDriver(scarce := DelayedRowsModel(small_spec(page_count=24)))
    for driver in (roomy, tight):
        speak_turns(driver, *(f"Turn number {turn}." for turn in range(9)))
    assert list(plenty.contexts.values()) == list(scarce.contexts.values())
    assert all(len(plan.prefill) == 1 for plan in starts(scarce)), "no shadow could be had"


def test_another_voice_begins_a_fresh_context() -> None:
    driver = SyncDriver(model := DelayedRowsModel())
    speak_turns(driver, "One.")
    driver.speak(SpeechRequest("tenor", seed=3), whole_segment("Two."))
    assert pieces(starts(model)[1])[0] == ("prompt", 0, 0, 37)
    assert ("text", 1, 0, 6) in pieces(starts(model)[1])
    driver.run()
    assert (1, 0) not in model.blocks


# ---- guards --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "why"), [("never_ends", "the limit of 64 rows"), ("runaway", "went astray")])
def test_a_block_that_goes_astray_is_ended_told_of_and_kept_out_of_the_history(fault: str, why: str) -> None:
    model = DelayedRowsModel(faults={"Bad segment.": fault})  # type: ignore[dict-item]
    driver = SyncDriver(model)
    text = "Bad segment."
    chunks = driver.speak(REQUEST, whole_segment(text), whole_segment(" Good.", len(text)))
    notices = [notice for chunk in chunks for notice in chunk.notices]
    assert [notice.code for notice in notices] == ["speech_truncated"]
    assert isinstance(notices[0], Notice)
    assert why in notices[0].message
    assert driver.scheduler.counters.truncated == 1
    assert pieces(starts(model)[1]) == [("text", 1, 0, 8)]


@BOTH
def test_a_failed_sequence_fails_its_utterance_and_the_lane_speaks_on(make: type[FakeModel]) -> None:
    driver = SyncDriver(model := make(faults={" Bad.": "fail_prefill"}))
    speak_turns(driver, "Before.")
    with pytest.raises(SpeechFailedError, match="out of memory"):
        driver.speak(REQUEST, whole_segment("Good."), whole_segment(" Bad.", 5), whole_segment(" Lost.", 10))
    driver.speak(REQUEST, whole_segment("After."))
    if isinstance(model, WholeFramesModel):
        assert model.neighbours[-1] == (("Before.", "Good."), "After.", ())


def test_a_lane_whose_history_cannot_be_had_goes_on_without_it() -> None:
    class Forgetful(DelayedRowsModel):
        """Has lost its first block."""

        def execute(self, plan: StepPlan) -> StepResult:
            lost = [item for item in plan.prefill if any(p.block == 0 and p.kind == "audio" for p in item.pieces)]
            result = super().execute(replace(plan, prefill=tuple(one for one in plan.prefill if one not in lost)))
            failures = [SequenceFailure(item.sequence, item.samples_block or 0, "lost") for item in lost]
            return replace(result, failures=(*result.failures, *failures))

    driver = SyncDriver(Forgetful())
    driver.speak(REQUEST, whole_segment("One."))
    with pytest.raises(SpeechFailedError, match="lost"):
        driver.speak(REQUEST, whole_segment("Two."))
    assert driver.speak(REQUEST, whole_segment("Three."))[-1].is_final


@BOTH
def test_an_item_without_an_answer_is_a_failure(make: type[FakeModel]) -> None:
    driver = SyncDriver(make(faults={"Lost.": "no_answer"}))
    with pytest.raises(SpeechFailedError, match="no answer"):
        driver.speak(REQUEST, whole_segment("Lost."))


@BOTH
def test_a_plan_that_fails_as_a_whole_fails_whom_it_named_and_nobody_else(make: type[FakeModel]) -> None:
    driver = SyncDriver(make())
    bad, idle = driver.open(REQUEST), driver.open(REQUEST, lane="other")
    driver.feed(bad, whole_segment("Bad luck."))
    driver.finish(bad)
    plan = driver.plan()
    assert plan is not None
    driver._take(driver.scheduler.abort(plan, "device lost", 1.0))
    driver.feed(idle, whole_segment("Good luck."))
    driver.finish(idle)
    driver.run()
    assert driver.failures == {bad: "device lost"}
    assert np.array_equal(driver.pcm(idle), segment_pcm("Good luck.", 20))


def test_a_sequence_that_a_failed_plan_only_opened_is_opened_again() -> None:
    """It waits while another fills the voice prompt that they share, so the plan has nothing else of it."""
    driver = SyncDriver(DelayedRowsModel())
    first, second = driver.open(REQUEST), driver.open(REQUEST, lane="other")
    for utterance, text in ((first, "Bad luck."), (second, "Good luck.")):
        driver.feed(utterance, whole_segment(text))
        driver.finish(utterance)
    plan = driver.plan()
    assert plan is not None
    assert (len(plan.openings), len(plan.prefill)) == (2, 1)
    driver._take(driver.scheduler.abort(plan, "device lost", 1.0))
    driver.run()
    assert driver.failures == {first: "device lost"}
    assert np.array_equal(driver.pcm(second), segment_pcm("Good luck.", 20))


def test_a_segment_that_can_never_fit_is_refused_and_the_utterance_lives() -> None:
    driver = SyncDriver(DelayedRowsModel(small_spec(page_count=8)))
    utterance = driver.open(REQUEST)
    with pytest.raises(TooLongError, match="320 positions with its voice prompt; a context has 128"):
        driver.feed(utterance, whole_segment("x" * 53))
    driver.feed(utterance, whole_segment("Fits."))
    driver.finish(utterance)
    driver.run()
    assert driver.chunks[utterance][-1].is_final


def test_no_context_grows_past_its_limit_whatever_pages_there_are() -> None:
    """History goes before the block in hand does."""
    model = DelayedRowsModel(small_spec(max_positions=170))
    driver = SyncDriver(model)
    speak_turns(driver, *["Twelve chars"] * 6)
    assert len(model.contexts) == 6
    assert max(len(cells) for cells in model.contexts.values()) > 90, "there was history before the last"
    assert max(item.position for plan in model.plans for item in plan.decode) < 170


def test_a_block_makes_do_with_fewer_rows_where_the_context_has_no_room_for_all() -> None:
    class Modest(DelayedRowsModel):
        def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
            return replace(super().prepare(segment, request), max_rows=400, least_rows=30)

    driver = SyncDriver(Modest(small_spec(max_positions=110)))
    chunks = driver.speak(REQUEST, whole_segment("Twelve chars"))
    assert sum(len(chunk.pcm) for chunk in chunks) == 24 * SAMPLES_PER_FRAME
    with pytest.raises(TooLongError, match=r"needs 117 positions .* a context has 110"):
        driver.speak(REQUEST, whole_segment("x" * 48))


def test_growing_text_that_waits_for_long_is_spoken_to_its_end() -> None:
    """It has a place, and pages; and the listener has heard a word cut off."""
    model = StreamedRowsModel()
    driver = SyncDriver(model)
    utterance = driver.open(REQUEST)
    driver.feed(utterance, replace(whole_segment("Some words"), boundary="forced"))
    driver.run()
    assert driver.scheduler.wake_at_s == driver.now_s + CADENCE.max_hold_s
    assert not model.finished
    driver.now_s += CADENCE.max_hold_s
    driver.run()
    assert len(model.finished) == 1
    assert driver.scheduler.active_count == 0
    driver.feed(utterance, replace(whole_segment(" more", 10), boundary="forced"))
    driver.finish(utterance)
    driver.run()
    assert ["".join(block.fed) for block in model.finished.values()] == ["Some words", " more"]
    assert driver.chunks[utterance][-1].is_final


def test_growing_text_that_waits_before_its_first_row_waits_no_longer_either() -> None:
    model = StreamedRowsModel()
    driver = SyncDriver(model)
    utterance = driver.open(replace(REQUEST, seed=2))
    driver.feed(utterance, replace(whole_segment("S"), boundary="forced"))
    driver.run()
    driver.now_s += CADENCE.max_hold_s
    driver.run()
    (block,) = model.finished.values()
    assert block.ended_at == 0


def test_a_segment_longer_than_a_growing_block_has_one_of_its_own() -> None:
    model = StreamedRowsModel()
    driver = SyncDriver(model)
    long = "x" * 60
    texts = ["Some", long, " more"]
    driver.speak(REQUEST, *(replace(whole_segment(text), boundary="forced") for text in texts))
    assert ["".join(block.fed) for block in model.finished.values()] == texts


@pytest.mark.parametrize("make", [DelayedRowsModel, StreamedRowsModel])
@pytest.mark.parametrize("history_blocks", [0, 4])
@pytest.mark.parametrize(("heard_chars", "wanted"), [(3, []), (9, ["sadness"]), (18, ["anger"])])
def test_tags_of_the_session_hold_as_far_as_they_were_heard(
    make: type[DelayedRowsModel], history_blocks: int, heard_chars: int, wanted: list[str]
) -> None:
    """With history or without, whole segments or words."""
    model = make()
    if make is DelayedRowsModel:
        model = make(small_spec(history_blocks=history_blocks))
    driver = SyncDriver(model)
    request = replace(REQUEST, tag_scope="session")
    first = driver.open(request)
    for number, emotion in enumerate((None, "sadness", "anger")):
        start = 6 * number
        controls = () if emotion is None else (Control("emotion", emotion, 0, Span(start, start)),)
        driver.feed(first, replace(whole_segment("words.", start), controls=controls, boundary="forced"))
    while not driver.chunks[first]:
        driver.tick()
    driver.cancel(first, len(driver.pcm(first)), heard_chars)
    model.prepared.clear()
    driver.feed(driver.open(request), whole_segment("And?"))
    assert [control.value for control in model.prepared[-1].carried] == wanted


def test_what_there_is_to_say_of_a_segment_without_speech_is_said() -> None:
    notice = Notice("tag_unsupported", "x", "no x")

    class Remarking(DelayedRowsModel):
        def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
            return replace(super().prepare(segment, request), notices=(notice,))

    chunks = SyncDriver(Remarking()).speak(REQUEST, whole_segment(""))
    assert [chunk.notices for chunk in chunks] == [(notice,), ()]


def test_a_plan_must_be_committed_before_the_next() -> None:
    driver = SyncDriver(DelayedRowsModel())
    driver.feed(driver.open(REQUEST), whole_segment("Hello."))
    plan = driver.plan()
    with pytest.raises(AssertionError, match="has not been committed"):
        driver.plan()
    assert plan is not None
    driver.commit(plan, driver.model.execute(plan))
    with pytest.raises(AssertionError, match="is not out"):
        driver.commit(plan, StepResult(plan.tick))


# ---- batch invariance ----------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    others=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30), st.booleans()), min_size=1, max_size=4),
    page_count=st.sampled_from([40, 60, 400]),
    max_prefill=st.sampled_from([9, 64]),
    max_batch=st.sampled_from([1, 2, 32]),
)
def test_a_sequence_alone_is_given_the_same_as_beside_others(
    others: list[tuple[int, int, bool]], page_count: int, max_prefill: int, max_batch: int
) -> None:
    """The others start at any moment, are read or not, and are cancelled or not."""
    turns = [f"My turn {turn}." for turn in range(7)]
    spec = small_spec(page_count=page_count, max_prefill_tokens=max_prefill, max_decode_batch=max_batch)
    alone = SyncDriver(quiet := DelayedRowsModel(spec))
    speak_turns(alone, *turns)

    driver = SyncDriver(busy := DelayedRowsModel(spec), tick_s=0.01, reads=False)
    begin = {moment: (count, number) for number, (count, moment, _) in enumerate(others)}
    spoken: list[int] = []
    ticks = 0
    for turn in turns:
        mine = driver.open(REQUEST, lane="mine")
        driver.feed(mine, whole_segment(turn))
        driver.finish(mine)
        while not (driver.chunks[mine] and driver.chunks[mine][-1].is_final):
            if ticks in begin:
                count, number = begin[ticks]
                other = driver.open(SpeechRequest("tenor", seed=number), lane=f"other {number}")
                for segment in range(count):
                    driver.feed(other, whole_segment(f"Other {number} says {segment}.", 16 * segment))
                spoken.append(other)
            assert driver.tick()
            ticks += 1
            for other, (_, _, is_cancelled) in zip(spoken, others, strict=False):
                if is_cancelled and ticks % 40 == 39:
                    driver.cancel(other, SAMPLES_PER_FRAME * 5, 3)
        for chunk in driver.chunks[mine]:
            driver.scheduler.read(mine, len(chunk.pcm))
    lane = driver._lanes["mine"]
    assert [cells for (sequence, _), cells in busy.contexts.items() if sequence == lane] == list(
        quiet.contexts.values()
    )
