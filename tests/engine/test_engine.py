"""The local engine on one event loop: streams, back-pressure, cancels, failures, the end."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import numpy as np
import pytest

from engine import (
    Engine,
    EngineError,
    EngineSettings,
    LocalEngine,
    SpeechFailedError,
    TooLongError,
    VoiceNotFoundError,
)
from engine.core.step import StepPlan, StepResult
from engine.engine import DOZES_AFTER_S, KEPT_IDLE_LANES, LocalSession, LocalStream, _Job
from engine.speech import AudioChunk, SpeechRequest
from tests.fakes.fake_model import (
    SAMPLES_PER_FRAME,
    WHOLE_FRAMES_SPEC,
    DelayedRowsModel,
    FakeModel,
    WholeFramesModel,
    segment_pcm,
    small_spec,
    whole_segment,
)

REQUEST = SpeechRequest("alto", seed=7)
WITHIN_S = 20.0

MODELS: list[Callable[..., FakeModel]] = [DelayedRowsModel, WholeFramesModel]


@pytest.fixture(params=MODELS, ids=lambda made: made.__name__)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[LocalEngine]:
    engine = LocalEngine(request.param(), EngineSettings())
    await engine.start()
    yield engine
    await engine.close()


async def started(model: FakeModel, settings: EngineSettings | None = None) -> LocalEngine:
    engine = LocalEngine(model, settings or EngineSettings())
    await engine.start()
    return engine


async def read_all(stream: LocalStream) -> list[AudioChunk]:
    return [chunk async for chunk in stream]


def heard(chunks: list[AudioChunk]) -> np.ndarray:
    return np.concatenate([chunk.pcm for chunk in chunks])


async def test_an_engine_is_what_the_protocol_says() -> None:
    engine: Engine = LocalEngine(WholeFramesModel(), EngineSettings())
    await engine.start()
    assert engine.info.name == "fake"
    await engine.close()


async def test_a_stream_speaks_its_segments_in_order_and_ends(engine: LocalEngine) -> None:
    stream = engine.open_session("s").open_stream(REQUEST)
    stream.feed(whole_segment("Hello there,"))
    stream.feed(whole_segment(" old friend.", 12))
    stream.finish()
    async with asyncio.timeout(WITHIN_S):
        chunks = await read_all(stream)
    expected = np.concatenate([segment_pcm("Hello there,", 24), segment_pcm(" old friend.", 24)])
    assert np.array_equal(heard(chunks), expected)
    assert [chunk.is_final for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert sum(chunk.is_segment_end for chunk in chunks) == 2


async def test_a_segment_fed_while_another_is_read_follows_it(engine: LocalEngine) -> None:
    stream = engine.open_session("s").open_stream(REQUEST)
    stream.feed(whole_segment("One."))
    chunks = []
    async with asyncio.timeout(WITHIN_S):
        async for chunk in stream:
            chunks.append(chunk)
            if chunk.is_segment_end and len(chunks) < 5 and not chunk.is_final:
                stream.feed(whole_segment(" Two.", 4))
                stream.finish()
    assert np.array_equal(heard(chunks), np.concatenate([segment_pcm("One.", 8), segment_pcm(" Two.", 10)]))


async def test_an_utterance_without_segments_ends_at_once(engine: LocalEngine) -> None:
    stream = engine.open_session("s").open_stream(REQUEST)
    stream.finish()
    async with asyncio.timeout(WITHIN_S):
        (chunk,) = await read_all(stream)
    assert chunk.is_final
    assert len(chunk.pcm) == 0


async def test_a_finish_after_the_last_sample_brings_an_empty_final_chunk(engine: LocalEngine) -> None:
    stream = engine.open_session("s").open_stream(REQUEST)
    stream.feed(whole_segment("One."))
    chunks = []
    async with asyncio.timeout(WITHIN_S):
        async for chunk in stream:
            chunks.append(chunk)
            if chunk.is_segment_end:
                stream.finish()
    assert len(chunks[-1].pcm) == 0
    assert chunks[-1].is_final
    assert chunks[-1].start_sample == 8 * SAMPLES_PER_FRAME


async def test_a_reader_that_stops_stops_its_synthesis_and_nobody_elses(engine: LocalEngine) -> None:
    slow = engine.open_session("slow").open_stream(REQUEST)
    quick = engine.open_session("quick").open_stream(REQUEST)
    text = "A very long sentence that goes on and on. " * 4
    for stream in (slow, quick):
        stream.feed(whole_segment(text))
        stream.finish()
    async with asyncio.timeout(WITHIN_S):
        await read_all(quick)
    unread = sum(len(chunk.pcm) for chunk in slow._chunks)
    assert 0 < unread <= 3.0 * 24000 + SAMPLES_PER_FRAME
    async with asyncio.timeout(WITHIN_S):
        chunks = await read_all(slow)
    assert np.array_equal(heard(chunks), segment_pcm(text, 2 * len(text)))


async def test_cancel_before_the_first_audio_ends_the_iteration(engine: LocalEngine) -> None:
    stream = engine.open_session("s").open_stream(REQUEST)
    stream.feed(whole_segment("Never heard."))
    stream.cancel(heard_samples=0, heard_chars=0)
    async with asyncio.timeout(WITHIN_S):
        assert await read_all(stream) == []


async def test_cancel_while_a_reader_waits_wakes_it(engine: LocalEngine) -> None:
    stream = engine.open_session("s").open_stream(REQUEST)
    reader = asyncio.create_task(read_all(stream))
    await asyncio.sleep(0)
    stream.cancel(heard_samples=0, heard_chars=0)
    async with asyncio.timeout(WITHIN_S):
        assert await reader == []


async def test_cancel_after_the_final_chunk_cuts_the_history(engine: LocalEngine) -> None:
    session = engine.open_session("s")
    stream = session.open_stream(REQUEST)
    stream.feed(whole_segment("Once upon a time."))
    stream.finish()
    async with asyncio.timeout(WITHIN_S):
        await read_all(stream)
        stream.cancel(heard_samples=10 * SAMPLES_PER_FRAME + 5, heard_chars=5)
        stream.cancel(heard_samples=0, heard_chars=0)
        following = session.open_stream(REQUEST)
        following.feed(whole_segment("Go on."))
        following.finish()
        chunks = await read_all(following)
    assert np.array_equal(heard(chunks), segment_pcm("Go on.", 12))
    assert engine.stats().rollbacks == 1
    model = engine._model
    assert isinstance(model, FakeModel)
    assert [segment.text for segment in model.prepared] == ["Once upon a time.", "Once ", "Go on."]


async def test_nothing_can_be_fed_after_finish_or_cancel(engine: LocalEngine) -> None:
    session = engine.open_session("s")
    finished, cancelled = session.open_stream(REQUEST), session.open_stream(REQUEST)
    finished.finish()
    cancelled.cancel(0, 0)
    for stream in (finished, cancelled):
        with pytest.raises(EngineError, match="no segment can follow"):
            stream.feed(whole_segment("More."))


async def test_a_storm_of_cancels_leaves_later_utterances_whole(engine: LocalEngine) -> None:
    random_source = random.Random(5)
    sessions = [engine.open_session(f"s{n}") for n in range(4)]

    async def converse(number: int) -> None:
        for turn in range(25):
            text = f"Speaker {number} says turn {turn} of this long storm."
            stream = sessions[number].open_stream(REQUEST)
            stream.feed(whole_segment(text))
            stream.finish()
            limit = random_source.randrange(0, 2 * len(text) + 1)
            got = []
            async for chunk in stream:
                got.append(chunk)
                if sum(len(one.pcm) for one in got) >= limit * SAMPLES_PER_FRAME:
                    break
            pcm = heard(got)
            assert np.array_equal(pcm, segment_pcm(text, len(pcm) // SAMPLES_PER_FRAME))
            if turn % 5 != 4:
                samples = random_source.randrange(0, len(pcm) + 1)
                stream.cancel(samples, samples // (2 * SAMPLES_PER_FRAME))
            else:
                async for _ in stream:
                    pass

    async with asyncio.timeout(WITHIN_S * 3):
        await asyncio.gather(*(converse(number) for number in range(4)))
        for session in sessions:
            session.close()
        await engine.close()
    assert engine.is_healthy
    assert engine.stats().active_sequences == 0
    assert engine.stats().sequences == 0
    assert engine.stats().open_streams == 0


async def test_an_unknown_voice_is_refused_with_the_known_ones(engine: LocalEngine) -> None:
    with pytest.raises(VoiceNotFoundError, match="alto, tenor"):
        engine.open_session("s").open_stream(SpeechRequest("bass", seed=1))


async def test_a_segment_that_can_never_fit_is_refused() -> None:
    engine = await started(DelayedRowsModel(small_spec(page_count=8)))
    stream = engine.open_session("s").open_stream(REQUEST)
    with pytest.raises(TooLongError, match="positions"):
        stream.feed(whole_segment("x" * 100))
    await engine.close()


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("fault", ["fail_prefill", "fail_window", "no_answer"])
async def test_a_failure_of_one_sequence_fails_that_stream_only(make: Callable[..., FakeModel], fault: str) -> None:
    engine = await started(make(faults={"Bad luck.": fault}))
    session = engine.open_session("s")
    bad, good = session.open_stream(REQUEST), engine.open_session("t").open_stream(REQUEST)
    after = session.open_stream(REQUEST)
    bad.feed(whole_segment("Bad luck."))
    good.feed(whole_segment("Good luck."))
    after.feed(whole_segment("After that."))
    for stream in (bad, good, after):
        stream.finish()
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(SpeechFailedError):
            await read_all(bad)
        assert np.array_equal(heard(await read_all(good)), segment_pcm("Good luck.", 20))
        assert np.array_equal(heard(await read_all(after)), segment_pcm("After that.", 22))
    assert engine.is_healthy
    await engine.close()


@pytest.mark.parametrize("make", MODELS)
async def test_a_tick_that_fails_as_a_whole_fails_its_streams_and_the_engine_lives(
    make: Callable[..., FakeModel],
) -> None:
    engine = await started(make(faults={"Boom.": "raise"}))
    session = engine.open_session("s")
    bad, after = session.open_stream(REQUEST), session.open_stream(REQUEST)
    bad.feed(whole_segment("Boom."))
    bad.finish()
    after.feed(whole_segment("After."))
    after.finish()
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(SpeechFailedError, match="told to raise"):
            await read_all(bad)
        assert np.array_equal(heard(await read_all(after)), segment_pcm("After.", 12))
    assert engine.is_healthy
    assert engine.stats().failed_ticks == 1
    await engine.close()


class _BrokenModel(WholeFramesModel):
    def answer(self, plan: StepPlan) -> StepResult:
        raise MemoryError("no device any more")


async def test_a_model_that_keeps_failing_ends_the_engine_with_errors_and_no_hang() -> None:
    engine = await started(_BrokenModel(), EngineSettings(max_failed_ticks=2))
    streams = [engine.open_session(f"s{n}").open_stream(REQUEST) for n in range(3)]
    waiting = engine.open_session("w").open_stream(REQUEST)
    async with asyncio.timeout(WITHIN_S):
        for stream in streams:
            stream.feed(whole_segment("Hello."))
            with pytest.raises(SpeechFailedError):
                await read_all(stream)
            if not engine.is_healthy:
                break
        with pytest.raises(SpeechFailedError, match="died"):
            await read_all(waiting)
    assert not engine.is_healthy
    with pytest.raises(SpeechFailedError):
        engine.open_session("x").open_stream(REQUEST)
    with pytest.raises(SpeechFailedError):
        waiting.feed(whole_segment("Hello?"))
    await engine.close()


async def test_a_cancelled_loop_fails_its_streams() -> None:
    engine = await started(WholeFramesModel())
    stream = engine.open_session("s").open_stream(REQUEST)
    reader = asyncio.create_task(read_all(stream))
    await asyncio.sleep(0)
    assert engine._loop_task is not None
    engine._loop_task.cancel()
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(SpeechFailedError, match="cancelled"):
            await reader
    assert not engine.is_healthy
    await engine.close()


async def test_close_ends_every_stream_and_releases_the_model(engine: LocalEngine) -> None:
    stream = engine.open_session("s").open_stream(REQUEST)
    stream.feed(whole_segment("A long sentence that nobody hears to its end."))
    reader = asyncio.create_task(read_all(stream))
    await asyncio.sleep(0)
    async with asyncio.timeout(WITHIN_S):
        await engine.close()
        await engine.close()
        await reader
    model = engine._model
    assert isinstance(model, FakeModel)
    assert model.is_closed
    with pytest.raises(EngineError):
        engine.open_session("late")


async def test_closing_a_session_ends_its_streams_and_frees_its_pages() -> None:
    engine = await started(DelayedRowsModel())
    session = engine.open_session("s")
    stream = session.open_stream(REQUEST)
    stream.feed(whole_segment("A long sentence that nobody hears to its end."))
    async with asyncio.timeout(WITHIN_S):
        async for _ in stream:
            break
        session.close()
        session.close()
        await read_all(stream)
        other = engine.open_session("t").open_stream(REQUEST)
        other.finish()
        await read_all(other)
    with pytest.raises(EngineError):
        session.open_stream(REQUEST)
    await engine.close()
    stats = engine.stats()
    assert stats.free_pages >= stats.total_pages - 3  # a voice prompt may stay


class _ThreadNotingModel(WholeFramesModel):
    threads: set[str]

    def answer(self, plan: StepPlan) -> StepResult:
        self.threads.add(threading.current_thread().name)
        return super().answer(plan)


async def test_the_model_runs_on_its_own_thread_alone() -> None:
    model = _ThreadNotingModel()
    model.threads = set()
    engine = await started(model)
    stream = engine.open_session("s").open_stream(REQUEST)
    stream.feed(whole_segment("Hello there."))
    stream.finish()
    async with asyncio.timeout(WITHIN_S):
        await read_all(stream)
    await engine.close()
    (name,) = model.threads
    assert name.startswith("engine-model")


class _MeetingModel(WholeFramesModel):
    """Its first two nets wait for each other."""

    meeting: threading.Barrier

    def answer(self, plan: StepPlan) -> StepResult:
        if plan.prefill:
            self.meeting.wait(WITHIN_S)
        return super().answer(plan)


async def test_a_family_that_takes_several_plans_works_on_them_side_by_side() -> None:
    model = _MeetingModel(small_spec(WHOLE_FRAMES_SPEC, max_plans=3, max_prefill_tokens=1))
    model.meeting = threading.Barrier(2)
    engine = await started(model)
    streams = [engine.open_session(name).open_stream(REQUEST) for name in ("s", "t")]
    for stream in streams:
        stream.feed(whole_segment("Hello there."))
        stream.finish()
    async with asyncio.timeout(WITHIN_S):
        for stream in streams:
            assert (await read_all(stream))[-1].is_final
    await engine.close()


async def test_closing_waits_for_the_plans_that_are_out() -> None:
    model = WholeFramesModel(small_spec(WHOLE_FRAMES_SPEC, max_plans=3, max_prefill_tokens=1), tick_cost_s=0.01)
    engine = await started(model)
    for name in ("s", "t", "u"):
        engine.open_session(name).open_stream(REQUEST).feed(whole_segment("Hello there."))
    await asyncio.sleep(0)  # the loop sends them out
    assert engine._running
    async with asyncio.timeout(WITHIN_S):
        await engine.close()
    assert not engine._running


async def test_the_marks_of_an_utterance_are_in_order(engine: LocalEngine) -> None:
    stream = engine.open_session("s").open_stream(REQUEST)
    stream.feed(whole_segment("Hello there."))
    stream.finish()
    async with asyncio.timeout(WITHIN_S):
        await read_all(stream)
    marks = [stream.timeline.at_s(mark) for mark in ("queued", "planned", "first_chunk", "generated")]
    assert None not in marks
    assert marks[0] <= marks[1] <= marks[2]  # type: ignore[operator]
    assert marks[1] <= marks[3]  # type: ignore[operator]


async def test_an_engine_with_nothing_to_do_does_not_turn() -> None:
    engine = await started(WholeFramesModel())
    plans = 0
    plan = engine._scheduler.plan

    def counted(now_s: float) -> StepPlan | None:
        nonlocal plans
        plans += 1
        return plan(now_s)

    engine._scheduler.plan = counted  # type: ignore[method-assign]
    for _ in range(100):
        await asyncio.sleep(0)
    assert plans <= 1
    await engine.close()


# ---- lanes -----------------------------------------------------------------------------------------------------------


async def speak(session: LocalSession, lane: str, text: str = "Hello.") -> list[AudioChunk]:
    stream = session.open_stream(REQUEST, lane)
    stream.feed(whole_segment(text))
    stream.finish()
    async with asyncio.timeout(WITHIN_S):
        return await read_all(stream)


async def test_lanes_that_have_nothing_to_speak_do_not_pile_up(engine: LocalEngine) -> None:
    session = engine.open_session("s")
    for number in range(300):
        stream = session.open_stream(REQUEST, f"lane {number}")
        stream.feed(whole_segment("Never heard."))
        stream.cancel(heard_samples=0, heard_chars=0)
    assert engine.stats().sequences <= KEPT_IDLE_LANES + 1
    session.close()
    assert engine.stats().sequences == 0


async def test_the_lanes_idle_for_longest_go_first_and_a_lane_used_again_speaks(engine: LocalEngine) -> None:
    session = engine.open_session("s")
    first = session.open_stream(REQUEST, "opened first, ended last")
    first.feed(whole_segment("Still here."))
    for number in range(KEPT_IDLE_LANES):
        await speak(session, f"lane {number}")
    first.finish()
    async with asyncio.timeout(WITHIN_S):
        await read_all(first)
    await speak(session, "one more")
    await speak(session, "another")
    lanes = set(session._lanes)
    assert "opened first, ended last" in lanes
    assert not {"lane 0", "lane 1"} & lanes
    assert np.array_equal(heard(await speak(session, "lane 0", "Back again.")), segment_pcm("Back again.", 22))


async def test_lanes_that_speak_are_never_closed_for_others(engine: LocalEngine) -> None:
    session = engine.open_session("s")
    texts = {f"lane {number}": f"This is number {number}." for number in range(3 * KEPT_IDLE_LANES)}
    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as group:
        tasks = {lane: group.create_task(speak(session, lane, text)) for lane, text in texts.items()}
    for lane, text in texts.items():
        assert np.array_equal(heard(tasks[lane].result()), segment_pcm(text, 2 * len(text)))


async def test_a_stream_that_has_ended_can_be_read_and_cancelled_after_its_lane_was_closed(engine: LocalEngine) -> None:
    session = engine.open_session("s")
    old = session.open_stream(REQUEST, "old")
    old.feed(whole_segment("Hello."))
    old.finish()
    async with asyncio.timeout(WITHIN_S):
        while old.ended_at_s is None:
            await old._news.wait()
            old._news.clear()
        for number in range(KEPT_IDLE_LANES + 1):
            await speak(session, f"lane {number}")
        assert "old" not in session._lanes
        assert np.array_equal(heard(await read_all(old)), segment_pcm("Hello.", 12))
    old.cancel(heard_samples=0, heard_chars=0)


# ---- work of other threads -------------------------------------------------------------------------------------------


class _BusyModel(WholeFramesModel):
    """Knows how many plans it has in its hands."""

    running = 0

    def answer(self, plan: StepPlan) -> StepResult:
        self.running += 1
        try:
            return super().answer(plan)
        finally:
            self.running -= 1


@pytest.mark.parametrize("max_plans", [1, 3])
async def test_work_of_other_threads_runs_on_the_models_thread_between_plans(max_plans: int) -> None:
    model = _BusyModel(replace(WHOLE_FRAMES_SPEC, max_plans=max_plans))
    engine = await started(model)
    session = engine.open_session("s")
    found: list[tuple[str, int]] = []

    def work() -> int:
        found.append((threading.current_thread().name, model.running))
        return len(found)

    text = "A long sentence that goes on and on. " * 4
    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as group:
        spoken = [group.create_task(speak(session, f"lane {number}", text)) for number in range(3)]
        jobs = [group.create_task(asyncio.to_thread(engine.run_between_ticks, work)) for _ in range(5)]
    assert sorted(job.result() for job in jobs) == [1, 2, 3, 4, 5]
    assert all(name.startswith("engine-model") and running == 0 for name, running in found)
    for task in spoken:
        assert np.array_equal(heard(task.result()), segment_pcm(text, 2 * len(text)))
    await engine.close()


async def test_work_that_fails_fails_for_the_thread_that_wanted_it_alone(engine: LocalEngine) -> None:
    def work() -> None:
        raise MemoryError("the device is full")

    with pytest.raises(MemoryError, match="full"):
        await asyncio.to_thread(engine.run_between_ticks, work)
    assert engine.is_healthy
    assert len(await speak(engine.open_session("s"), "main"))


async def test_work_for_an_engine_that_ends_is_refused() -> None:
    engine = await started(WholeFramesModel())
    entered, gate = threading.Event(), threading.Event()

    def work() -> bool:
        entered.set()
        return gate.wait(WITHIN_S)

    first = asyncio.create_task(asyncio.to_thread(engine.run_between_ticks, work))
    assert await asyncio.to_thread(entered.wait, WITHIN_S)
    second = _Job(lambda: True)
    engine._take_job(second)
    closing = asyncio.create_task(engine.close())
    with pytest.raises(EngineError, match="closed"):
        await asyncio.wrap_future(second.answer)
    gate.set()
    await closing
    assert await first
    late = _Job(lambda: True)
    engine._take_job(late)
    with pytest.raises(EngineError, match="closed"):
        late.answer.result(0)
    with pytest.raises(EngineError, match="closed"):
        await asyncio.to_thread(engine.run_between_ticks, lambda: True)


def test_work_for_an_engine_that_has_not_been_started_is_done_at_once() -> None:
    engine = LocalEngine(WholeFramesModel(), EngineSettings())
    assert engine.run_between_ticks(lambda: threading.current_thread().name).startswith("engine-model")


class Dozing(WholeFramesModel):
    """Counts how often it was roused; may fail at it."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.roused = 0
        self._fails = fails

    def rouse(self) -> None:
        self.roused += 1
        if self._fails:
            raise RuntimeError("no")


async def test_a_model_that_has_rested_is_roused_when_an_utterance_is_opened_and_only_then() -> None:
    model, now_s = Dozing(), 10.0
    engine = LocalEngine(model, EngineSettings(), clock=lambda: now_s)
    await engine.start()
    session = engine.open_session("one")
    now_s += DOZES_AFTER_S / 2
    assert await read_all(spoken(session, "Hello."))
    assert model.roused == 0, "it has only just been loaded"
    now_s += DOZES_AFTER_S
    streams = [spoken(session, "Again."), spoken(session, "And again.")]
    for stream in streams:
        assert await read_all(stream)
    now_s += DOZES_AFTER_S / 2
    assert await read_all(spoken(session, "At once."))
    await engine.close()
    assert model.roused == 1


async def test_a_model_that_cannot_be_roused_speaks_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    model, now_s = Dozing(fails=True), 10.0
    engine = LocalEngine(model, EngineSettings(), clock=lambda: now_s)
    await engine.start()
    now_s += DOZES_AFTER_S
    assert await read_all(spoken(engine.open_session("one"), "Hello."))
    await engine.close()
    assert "could not be roused: no" in caplog.text


def spoken(session: LocalSession, text: str) -> LocalStream:
    stream = session.open_stream(REQUEST)
    stream.feed(whole_segment(text))
    stream.finish()
    return stream
