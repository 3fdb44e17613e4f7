"""Pages and places: who gives theirs up, in which order, and how they come back."""

from __future__ import annotations

import numpy as np

from engine.config import EngineSettings
from engine.core.sequence import SequenceStatus
from engine.core.step import Forget
from engine.speech import SpeechRequest
from tests.fakes.fake_driver import SyncDriver
from tests.fakes.fake_model import DelayedRowsModel, WholeFramesModel, segment_pcm, small_spec, whole_segment

REQUEST = SpeechRequest("alto", seed=3)


def opened(driver: SyncDriver, lane: str, text: str) -> int:
    utterance = driver.open(REQUEST, lane=lane)
    driver.feed(utterance, whole_segment(text))
    driver.finish(utterance)
    return utterance


def heard(driver: SyncDriver, utterance: int, text: str) -> bool:
    return np.array_equal(driver.pcm(utterance), segment_pcm(text, 2 * len(text)))


def test_a_segment_starts_only_when_pages_for_its_longest_are_there() -> None:
    # 12 characters: 14 + 64 positions beside the 37 of the prompt, 8 pages of 16; there are 11.
    driver = SyncDriver(model := DelayedRowsModel(small_spec(page_count=11)))
    first, second = opened(driver, "a", "Twelve chars"), opened(driver, "b", "twelve chars")
    driver.run()
    assert heard(driver, first, "Twelve chars")
    assert heard(driver, second, "twelve chars")
    assert all(len(plan.decode) <= 1 for plan in model.plans)


def test_an_idle_sequence_gives_its_pages_up_and_comes_back_by_prefill() -> None:
    driver = SyncDriver(model := DelayedRowsModel(small_spec(page_count=13)))
    driver.speak(REQUEST, whole_segment("Lane a here."), lane="a")
    driver.speak(REQUEST, whole_segment("Lane b here."), lane="b")
    driver.speak(REQUEST, whole_segment("Again a."), lane="a")
    last = [plan for plan in model.plans if plan.prefill and plan.prefill[-1].samples_block is not None][-1]
    kinds = [piece.kind for plan in model.plans for item in plan.prefill for piece in item.pieces if item.sequence == 1]
    assert kinds.count("audio") >= 1
    assert last.prefill[-1].sequence == 1
    cells = model.contexts[(1, 1)]
    assert len({cell[1] for cell in cells if cell[0] == "text"}) == 2, "the history came back"


def test_a_stalled_reader_gives_its_pages_up_in_mid_block_and_is_heard_whole_later() -> None:
    settings = EngineSettings(max_unread_s=0.3)
    driver = SyncDriver(DelayedRowsModel(small_spec(page_count=11)), settings, reads=False)
    slow = opened(driver, "slow", "Twelve chars")
    driver.run()
    assert not driver.chunks[slow][-1].is_final
    quick = opened(driver, "quick", "quick chars.")
    driver.run()
    assert driver.scheduler.counters.parked == 1
    sequence = driver.scheduler._roster.sequences[driver._lanes["slow"]]
    assert sequence.status is SequenceStatus.PARKED
    read = {slow: 0, quick: 0}
    while not all(driver.chunks[utterance][-1].is_final for utterance in read):
        for utterance, count in read.items():
            for chunk in driver.chunks[utterance][count:]:
                driver.scheduler.read(utterance, len(chunk.pcm))
            read[utterance] = len(driver.chunks[utterance])
        driver.run()
    assert heard(driver, slow, "Twelve chars")
    assert heard(driver, quick, "quick chars.")


def test_a_stalled_reader_keeps_its_pages_where_taking_them_would_not_be_enough() -> None:
    settings = EngineSettings(max_unread_s=0.3)
    model = DelayedRowsModel(small_spec(page_count=21))
    driver = SyncDriver(model, settings, reads=False)
    opened(driver, "slow", "Twelve chars")
    driver.run()
    busy = opened(driver, "busy", "Twelve chars")
    while not driver.chunks[busy]:
        driver.tick()
    parked = driver.scheduler.counters.parked
    opened(driver, "large", "A text of forty-four chars, which needs more")
    driver.tick()
    assert driver.scheduler.counters.parked == parked


def test_an_idle_prompt_stays_and_is_not_prefilled_again() -> None:
    driver = SyncDriver(model := DelayedRowsModel())
    driver.speak(REQUEST, whole_segment("Hello."), lane="a")
    driver.close("a")
    driver.run()
    driver.speak(REQUEST, whole_segment("Hello."), lane="b")
    assert model.prefilled_positions == 37 + 8 + (37 - 32) + 8


def test_an_idle_prompt_gives_its_pages_up_for_another_voice() -> None:
    driver = SyncDriver(DelayedRowsModel(small_spec(page_count=8)))
    for lane, voice in (("a", "alto"), ("b", "tenor"), ("c", "alto")):
        driver.speak(SpeechRequest(voice, seed=1), whole_segment("Twelve chars"), lane=lane)
        driver.close(lane)
        driver.run()


def test_two_sequences_of_one_voice_prefill_its_prompt_once() -> None:
    driver = SyncDriver(model := DelayedRowsModel())
    first, second = opened(driver, "a", "Hello."), opened(driver, "b", "There.")
    driver.run()
    assert model.prefilled_positions == 37 + 8 + (37 - 32) + 8
    assert heard(driver, first, "Hello.")
    assert heard(driver, second, "There.")


def test_the_sequence_idle_for_longest_loses_its_place_and_speaks_again_afresh() -> None:
    for model in (
        DelayedRowsModel(small_spec(max_sequences=2)),
        WholeFramesModel(small_spec(WholeFramesModel().spec, max_sequences=2)),
    ):
        driver = SyncDriver(model)
        for lane in ("a", "b", "c"):
            driver.speak(REQUEST, whole_segment(f"Lane {lane}."), lane=lane)
        assert Forget(driver._lanes["a"], None) in [forget for plan in model.plans for forget in plan.forgets]
        driver.speak(REQUEST, whole_segment("Lane a again."), lane="a")
        assert len(model.requests) == 2


def test_a_sequence_without_a_place_waits_for_one_and_holds_up_nobody() -> None:
    driver = SyncDriver(DelayedRowsModel(small_spec(max_sequences=1)))
    first, second = opened(driver, "a", "Hello."), opened(driver, "b", "There.")
    driver.run()
    assert heard(driver, first, "Hello.")
    assert heard(driver, second, "There.")


def test_a_shadow_window_gives_its_pages_up_for_somebody_elses_block() -> None:
    spec = small_spec(page_count=20, history_blocks=1)
    driver = SyncDriver(model := DelayedRowsModel(spec), tick_s=0.01)
    driver.speak(REQUEST, whole_segment("Twelve chars"), lane="a")
    second = opened(driver, "a", "twelve CHARS")
    roster = driver.scheduler._roster
    while not roster.shadowing:
        assert driver.tick()
    other = opened(driver, "b", "Twelve other")
    driver.tick()
    assert roster.sequences[driver._lanes["a"]].shadow is None
    assert roster.sequences[driver._lanes["b"]].current is not None
    driver.run()
    driver.speak(REQUEST, whole_segment("Third turn."), lane="a")
    assert heard(driver, second, "twelve CHARS")
    assert heard(driver, other, "Twelve other")
    assert {cell[1] for cell in model.contexts[(driver._lanes["a"], 2)] if cell[0] == "text"} == {
        "twelve CHARS",
        "Third turn.",
    }
