"""Who is served in a tick, and how much of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.config import EngineSettings
from engine.speech import SpeechRequest
from tests.fakes.fake_driver import SyncDriver
from tests.fakes.fake_model import (
    DELAYED_ROWS_SPEC,
    SAMPLES_PER_FRAME,
    WHOLE_FRAMES_SPEC,
    DelayedRowsModel,
    WholeFramesModel,
    segment_pcm,
    small_spec,
    whole_segment,
)

REQUEST = SpeechRequest("alto", seed=3)
LONG = "A sentence that takes quite a while to be spoken to its very end."


def opened(driver: SyncDriver, lane: str, text: str = LONG) -> int:
    utterance = driver.open(REQUEST, lane=lane)
    driver.feed(utterance, whole_segment(text))
    driver.finish(utterance)
    return utterance


def run_until_heard(driver: SyncDriver, utterance: int) -> None:
    while not driver.chunks[utterance]:
        assert driver.tick()


def test_windows_grow_from_the_first_to_the_largest_as_the_lead_allows() -> None:
    driver = SyncDriver(DelayedRowsModel(), EngineSettings(max_unread_s=60.0), tick_s=0.004)
    utterance = opened(driver, "main")
    driver.run()
    sizes = [len(chunk.pcm) // SAMPLES_PER_FRAME for chunk in driver.chunks[utterance]]
    assert sizes[0] == 4
    assert sizes[:-1] == sorted(sizes[:-1])
    assert max(sizes) > 16


def test_a_first_window_may_do_with_less_right_context_and_only_that_one() -> None:
    rights: dict[int | None, list[int]] = {}
    ticks: dict[int | None, int] = {}
    for first in (None, 2):
        driver = SyncDriver(DelayedRowsModel(replace(DELAYED_ROWS_SPEC, first_right_context_frames=first)))
        utterance = driver.open(REQUEST)
        for start in (0, len(LONG)):
            driver.feed(utterance, whole_segment(LONG, start))
        driver.finish(utterance)
        rights[first], ticks[first] = [], 0
        while (plan := driver.plan()) is not None:
            rights[first] += [item.right_context_frames for item in plan.vocode if not item.is_block_end]
            ticks[first] += not driver.chunks[utterance]
            driver.commit(plan, driver.model.execute(plan))
    assert rights[None][:2] == [10, 10]
    assert rights[2][:2] == [2, 10]
    assert ticks[None] - ticks[2] == 8


def test_a_short_rest_of_a_block_joins_its_last_window() -> None:
    driver = SyncDriver(WholeFramesModel(), EngineSettings(max_unread_s=60.0))
    utterance = opened(driver, "main", "Seven.")
    driver.run()
    sizes = [len(chunk.pcm) // SAMPLES_PER_FRAME for chunk in driver.chunks[utterance]]
    assert sum(sizes) == 12
    assert min(sizes) >= 4


def test_a_listener_that_runs_dry_gets_a_short_window_rather_than_a_late_one() -> None:
    driver = SyncDriver(DelayedRowsModel(), tick_s=0.001)
    utterance = opened(driver, "main")
    while len(driver.chunks[utterance]) < 5:
        assert driver.tick()
    driver.tick_s = 0.2
    count = len(driver.chunks[utterance])
    for _ in range(60):
        driver.tick()
    late = [len(chunk.pcm) // SAMPLES_PER_FRAME for chunk in driver.chunks[utterance][count + 1 :]]
    assert late
    assert set(late[:-1]) <= {4}


def test_a_new_stream_is_heard_before_those_far_ahead_are_served_again() -> None:
    spec = small_spec(WHOLE_FRAMES_SPEC, max_windows_per_tick=1)
    driver = SyncDriver(WholeFramesModel(spec), EngineSettings(max_unread_s=60.0), tick_s=0.001)
    ahead = [opened(driver, f"ahead {number}") for number in range(3)]
    for _ in range(12):
        driver.tick()
    driver.now_s += 0.01
    new = opened(driver, "new")
    before = {utterance: len(driver.chunks[utterance]) for utterance in ahead}
    for _ in range(2):
        driver.tick()
    assert driver.chunks[new]
    assert sum(len(driver.chunks[utterance]) for utterance in ahead) <= sum(before.values()) + 1


def test_while_a_stream_is_urgent_those_with_ample_lead_get_no_windows() -> None:
    driver = SyncDriver(WholeFramesModel(), EngineSettings(max_unread_s=60.0, ample_lead_s=0.5))
    ahead = opened(driver, "ahead", LONG * 4)
    while sum(len(chunk.pcm) for chunk in driver.chunks[ahead]) < 24000:
        driver.tick()
    new = opened(driver, "new")
    driver.tick()
    plan = driver.plan()
    assert plan is not None
    assert [item.sequence for item in plan.vocode] == [driver._lanes["new"]]
    driver.commit(plan, driver.model.execute(plan))
    assert driver.chunks[new]


def test_the_net_of_a_new_stream_does_not_wait_for_windows_of_those_with_ample_lead() -> None:
    driver = SyncDriver(model := WholeFramesModel(), EngineSettings(max_unread_s=60.0, ample_lead_s=0.5))
    ahead = opened(driver, "ahead", LONG * 4)
    while sum(len(chunk.pcm) for chunk in driver.chunks[ahead]) < 24000:
        driver.tick()
    opened(driver, "new")
    driver.tick()
    assert [item.sequence for item in model.plans[-1].prefill] == [driver._lanes["new"]]
    assert not model.plans[-1].vocode


def test_a_net_that_cannot_be_interrupted_waits_while_a_stream_would_run_dry_in_it() -> None:
    model = WholeFramesModel(net_cost_s=0.5)
    driver = SyncDriver(model, EngineSettings(max_unread_s=2.0), tick_s=0.01)
    first = opened(driver, "first", LONG * 2)
    run_until_heard(driver, first)
    driver.now_s += 0.05
    second = driver.open(REQUEST, lane="second")
    driver.feed(second, whole_segment(LONG))
    starts = []
    while not starts:
        plan = driver.plan()
        assert plan is not None
        starts = [item.sequence for item in plan.prefill]
        lead_s = driver.scheduler._roster.sequences[driver._lanes["first"]].clock.lead_s(driver.now_s)
        assert not starts or lead_s >= 0.05, "started with the listener of another stream about to run dry"
        driver.commit(plan, model.execute(plan))
    assert driver.chunks[first]


def test_a_first_window_is_made_before_the_next_net_is_begun() -> None:
    driver = SyncDriver(model := WholeFramesModel(net_cost_s=0.05), tick_s=0.001)
    utterance = driver.open(REQUEST)
    driver.feed(utterance, whole_segment("One."))
    driver.feed(utterance, whole_segment(" Two.", 4))
    other = opened(driver, "other")
    while not (driver.chunks[utterance] and driver.chunks[other]):
        driver.tick()
    assert all(not (plan.prefill and plan.vocode) for plan in model.plans)


def test_a_stream_that_has_nothing_to_run_does_not_hold_up_a_net() -> None:
    model = WholeFramesModel(net_cost_s=5.0)
    driver = SyncDriver(model, EngineSettings(max_unread_s=0.5), reads=False)
    opened(driver, "unread", LONG)
    driver.run()
    second = opened(driver, "second")
    driver.run()
    assert driver.chunks[second]


def test_a_decode_batch_that_overflows_serves_those_that_run_dry_first() -> None:
    spec = small_spec(max_decode_batch=1)
    driver = SyncDriver(DelayedRowsModel(spec), tick_s=0.001)
    first = opened(driver, "first")
    run_until_heard(driver, first)
    second = opened(driver, "second")
    for _ in range(3):
        driver.tick()
    served = []
    for _ in range(60):
        plan = driver.plan()
        assert plan is not None
        served += [item.sequence for item in plan.decode]
        driver.commit(plan, driver.model.execute(plan))
    assert set(served) == {driver._lanes["first"], driver._lanes["second"]}
    driver.run()
    assert np.array_equal(driver.pcm(second), segment_pcm(LONG, 2 * len(LONG)))


def test_a_stream_too_far_ahead_of_real_time_waits_until_a_moment_it_names() -> None:
    driver = SyncDriver(WholeFramesModel(), EngineSettings(max_unread_s=60.0, max_lead_s=1.0), tick_s=0.01)
    utterance = opened(driver, "main")
    driver.run()
    made_s = len(driver.pcm(utterance)) / 24000
    assert 1.0 < made_s < 2.0
    wake_at_s = driver.scheduler.wake_at_s
    assert wake_at_s is not None
    assert wake_at_s > driver.now_s
    driver.now_s = wake_at_s
    assert driver.tick()
    while not driver.chunks[utterance][-1].is_final:
        driver.run()
        driver.now_s += 0.5
    assert driver.scheduler.wake_at_s is None


def test_a_reader_that_does_not_read_stops_synthesis_at_the_bound() -> None:
    for model in (DelayedRowsModel(), WholeFramesModel()):
        driver = SyncDriver(model, EngineSettings(max_unread_s=1.0), reads=False)
        utterance = opened(driver, "main", LONG * 3)
        driver.run()
        unread_s = sum(len(chunk.pcm) for chunk in driver.chunks[utterance]) / 24000
        assert 1.0 <= unread_s < 1.0 + 0.04
        driver.scheduler.read(utterance, len(driver.chunks[utterance][0].pcm))
        assert driver.tick()


def test_the_next_utterance_may_be_made_while_the_one_before_is_still_heard() -> None:
    driver = SyncDriver(DelayedRowsModel(), EngineSettings(max_unread_s=60.0), reads=False)
    first, second = opened(driver, "main", "One."), opened(driver, "main", "Two.")
    driver.run()
    assert driver.chunks[first][-1].is_final
    assert driver.chunks[second][-1].is_final


def test_a_net_that_takes_longer_than_declared_is_not_started_where_a_stream_would_run_dry_in_it() -> None:
    for slowness, may_start in ((1.0, True), (10.0, False)):
        driver = SyncDriver(WholeFramesModel(net_cost_s=0.02), EngineSettings(max_unread_s=1.0))
        for number in range(30):  # what the machine does to the nets
            taught = driver.open(REQUEST, lane=f"lesson {number}")
            driver.feed(taught, whole_segment("Oh."))
            plan = driver.plan()
            assert plan is not None
            assert plan.prefill
            driver.tick_s = 0.02 * slowness
            driver.commit(plan, driver.model.execute(plan))
            driver.tick_s = 0.0
            driver.run()
        driver.now_s += 60.0
        first = opened(driver, "first", LONG * 2)
        run_until_heard(driver, first)
        driver.now_s += 0.05
        second = driver.open(REQUEST, lane="second")
        driver.feed(second, whole_segment(LONG))
        driver.tick()
        assert bool(driver.model.plans[-1].prefill) is may_start


def several(**changes: int) -> WholeFramesModel:
    return WholeFramesModel(small_spec(WHOLE_FRAMES_SPEC, max_plans=4, max_prefill_tokens=1, **changes))


def test_a_new_stream_waits_neither_for_the_nets_nor_for_the_windows_of_others() -> None:
    driver = SyncDriver(several(), EngineSettings(max_unread_s=60.0))
    ahead = opened(driver, "ahead", LONG * 4)
    run_until_heard(driver, ahead)
    windows = driver.plan()
    assert windows is not None
    assert windows.vocode
    opened(driver, "other")
    other = driver.plan()
    opened(driver, "new")
    new = driver.plan()
    assert other is not None
    assert new is not None
    assert [item.sequence for item in other.prefill] == [driver._lanes["other"]]
    assert [item.sequence for item in new.prefill] == [driver._lanes["new"]]
    driver.commit(new, driver.model.execute(new))
    driver.commit(windows, driver.model.execute(windows))
    heard = driver.plan()
    assert heard is not None
    assert heard.vocode[0].sequence == driver._lanes["new"]


def test_work_of_streams_well_ahead_leaves_places_to_those_that_wait() -> None:
    driver = SyncDriver(several(), EngineSettings(max_unread_s=600.0))
    for number in range(3):
        utterance = driver.open(REQUEST, lane=f"ahead {number}")
        driver.feed(utterance, whole_segment(LONG))
        driver.run()
        driver.feed(utterance, whole_segment(LONG, len(LONG)))
    ample = driver.plan()
    assert ample is not None
    assert ample.prefill
    assert driver.plan() is None
    for lane in ("new", "newer"):
        opened(driver, lane)
        plan = driver.plan()
        assert plan is not None
        assert [item.sequence for item in plan.prefill] == [driver._lanes[lane]]


def test_the_next_net_of_a_stream_waits_for_its_first_windows() -> None:
    driver = SyncDriver(several(), EngineSettings(max_unread_s=60.0))
    utterance = opened(driver, "new")
    other = driver.open(REQUEST, lane="new")
    driver.feed(other, whole_segment(LONG))
    net = driver.plan()
    assert net is not None
    driver.commit(net, driver.model.execute(net))
    plan = driver.plan()
    while plan is not None and not plan.prefill:
        assert driver.plan() is None
        driver.commit(plan, driver.model.execute(plan))
        plan = driver.plan()
    assert plan is not None
    assert sum(len(chunk.pcm) for chunk in driver.chunks[utterance]) > 0.9 * 24000


def test_a_lane_is_told_to_forget_only_when_no_plan_is_about_it() -> None:
    driver = SyncDriver(several())
    utterance = opened(driver, "main")
    net = driver.plan()
    assert net is not None
    driver.cancel(utterance, 0, 0)
    again = opened(driver, "main", "Again.")
    assert driver.plan() is None
    driver.commit(net, driver.model.execute(net))
    after = driver.plan()
    assert after is not None
    assert [(one.sequence, one.block) for one in after.forgets] == [(driver._lanes["main"], 0)]
    assert [item.samples_block for item in after.prefill] == [1]
    driver.commit(after, driver.model.execute(after))
    driver.run()
    assert driver.chunks[again]


def test_while_somebody_waits_no_more_windows_are_made_than_a_short_time_allows() -> None:
    driver = SyncDriver(several(), EngineSettings(max_unread_s=600.0, short_tick_s=0.01))
    lanes = [opened(driver, f"lane {number}", LONG) for number in range(8)]
    while (plan := driver.plan()) is not None:
        driver.tick_s = 0.001 * sum(item.end_frame - item.start_frame for item in plan.vocode)
        driver.commit(plan, driver.model.execute(plan))
        if all(driver.chunks[lane] for lane in lanes):
            break
    driver.now_s += 60.0  # all have run dry
    plan = driver.plan()
    while plan is not None and not plan.vocode:
        driver.commit(plan, driver.model.execute(plan))
        plan = driver.plan()
    assert plan is not None
    assert 1 <= len(plan.vocode) <= 3
