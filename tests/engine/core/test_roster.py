"""A status, the set it belongs to, the pages and what the family forgets change together."""

from __future__ import annotations

from engine.core.roster import Roster
from engine.core.sequence import SequenceStatus
from engine.core.step import Forget
from engine.speech import SpeechRequest
from tests.fakes.fake_driver import SyncDriver
from tests.fakes.fake_model import SAMPLES_PER_FRAME, DelayedRowsModel, small_spec, whole_segment

REQUEST = SpeechRequest("alto", seed=3)


def consistent(roster: Roster) -> bool:
    """Every sequence is in the sets that its status names, and in no other."""
    for sequence in roster.sequences.values():
        wants_prefill = sequence.status in (SequenceStatus.WAITING, SequenceStatus.PARKED, SequenceStatus.FILLING)
        holds_pages = sequence.status in (SequenceStatus.FILLING, SequenceStatus.DECODING)
        assert (sequence.id in roster.waiting) == wants_prefill
        assert (sequence.id in roster.decoding) == (sequence.status is SequenceStatus.DECODING)
        assert (sequence.id in roster.voicing) == bool(sequence.voicing)
        assert (sequence.id in roster.residency.active) == holds_pages
        in_mid_block = holds_pages or sequence.status is SequenceStatus.PARKED
        assert (sequence.current is not None) == in_mid_block
    return True


def test_sets_follow_the_status_through_a_life_of_speech_and_cancel() -> None:
    driver = SyncDriver(DelayedRowsModel(small_spec(max_prefill_tokens=9)), tick_s=0.01)
    roster = driver.scheduler._roster
    for turn in range(6):
        utterance = driver.open(REQUEST)
        driver.feed(utterance, whole_segment(f"Turn {turn} begins."))
        driver.feed(utterance, whole_segment(" And it goes on.", 14))
        ticks = 0
        while driver.tick() and ticks < 11 * (turn + 1):
            ticks += 1
            assert consistent(roster)
        driver.cancel(utterance, len(driver.pcm(utterance)) // 2, 5)
        assert consistent(roster)
    driver.close()
    driver.run()
    assert not roster.utterances
    assert not roster.sequences


def test_a_block_that_leaves_every_window_is_forgotten_once() -> None:
    driver = SyncDriver(model := DelayedRowsModel(small_spec(history_blocks=1)))
    for turn in range(4):
        driver.speak(REQUEST, whole_segment(f"Turn {turn}."))
    assert [forget for plan in model.plans for forget in plan.forgets] == [Forget(1, 0), Forget(1, 1)]
    assert set(model.blocks) == {(1, 2), (1, 3)}
    driver.close()
    driver.run()
    assert model.plans[-1].forgets == (Forget(1, None),)


def test_an_utterance_that_is_over_and_read_leaves_when_its_blocks_do() -> None:
    driver = SyncDriver(DelayedRowsModel(small_spec(history_blocks=1)))
    roster = driver.scheduler._roster
    for turn in range(5):
        driver.speak(REQUEST, whole_segment(f"Turn {turn}."))
        assert len(roster.utterances) <= 2


def test_a_history_that_leaves_no_room_for_the_block_goes_from_its_oldest_end() -> None:
    # 37 + 14 + 64 positions for a block and 45 for each spoken before it; there are 176.
    driver = SyncDriver(model := DelayedRowsModel(small_spec(page_count=11)))
    for turn in range(3):
        driver.speak(REQUEST, whole_segment(f"Twelve char{turn}"))
    texts = [{cell[1] for cell in context if cell[0] == "text"} for context in model.contexts.values()]
    assert texts == [{"Twelve char0"}, {"Twelve char0", "Twelve char1"}, {"Twelve char1", "Twelve char2"}]


def test_nothing_of_a_deleted_voice_is_held_once_nobody_speaks_with_it() -> None:
    driver = SyncDriver(DelayedRowsModel(small_spec()), tick_s=0.01)
    pages = driver.scheduler.spec.page_count
    driver.speak(REQUEST, whole_segment("Said before."), lane="idle")
    speaking, waiting = driver.open(REQUEST, "speaking"), driver.open(REQUEST, "waiting")
    driver.feed(speaking, whole_segment("In the middle of it."))
    while not driver.chunks[speaking]:
        driver.tick()
    driver.scheduler.forget_voice("alto")
    driver.feed(waiting, whole_segment("It was still allowed to."))
    for utterance in (speaking, waiting):
        driver.finish(utterance)
    driver.run()
    assert not driver.failures
    assert len(driver.pcm(waiting)) == 24 * 2 * SAMPLES_PER_FRAME
    assert driver.scheduler.free_pages == pages


def test_other_voices_keep_their_contexts_when_one_is_deleted() -> None:
    driver = SyncDriver(model := DelayedRowsModel(small_spec()))
    driver.speak(REQUEST, whole_segment("Said before."))
    before = model.prefilled_positions
    driver.scheduler.forget_voice("tenor")
    driver.speak(REQUEST, whole_segment("And on."))
    assert model.prefilled_positions - before < model.prompt_tokens


def test_a_voice_that_is_there_again_shares_its_prompt_again() -> None:
    driver = SyncDriver(DelayedRowsModel(small_spec()))
    driver.speak(REQUEST, whole_segment("Said before."))
    driver.scheduler.forget_voice("alto")
    driver.speak(REQUEST, whole_segment("Uploaded anew."))
    driver.close()
    driver.run()
    prompt = driver.model.prepare_prompt(REQUEST)
    assert driver.scheduler._roster.residency.prompts.missing_pages(prompt) == 0
