"""The local Engine: one loop that plans, hops to a model thread, commits and hands chunks to the streams.

Tasks: `engine-loop` (one). Threads: `engine-model` (as many as the family takes plans at once, mostly one; `warm_up`,
`execute` and `close` run there). The loop waits on an event that every feed, finish, cancel and read sets, and every
plan that has been carried out; it never polls.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from engine.config import EngineSettings
from engine.core.scheduler import Delivery, Failed, Scheduler
from engine.core.step import PreparedPrompt, StepPlan, StepResult
from engine.errors import EngineError, SpeechFailedError
from engine.speech import AudioChunk, ModelInfo, Segment, SpeechRequest
from engine.speech_model import CloningModel, DozingModel, SpeechModel
from engine.timeline import Timeline

if TYPE_CHECKING:
    from engine.voice_store import VoiceLibrary

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
DOZES_AFTER_S: Final = 0.25
"""A model that has had nothing to do for so long is roused as soon as an utterance is opened: its text has only begun
to come."""
KEPT_IDLE_LANES: Final = 8
"""Of one session. A lane that is used again after that begins a fresh context."""


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Counts since the start, and what there is now."""

    ticks: int
    rows: int
    frames: int
    blocks: int
    prefilled: int
    truncated: int
    runaway: int
    failures: int
    failed_ticks: int
    rollbacks: int
    parked: int
    execute_s: float
    """Time spent in the model, as seen from the loop; of plans that ran side by side, the sum."""
    plan_s: float
    """Time spent in plan and commit."""
    open_streams: int
    active_sequences: int
    sequences: int
    free_pages: int
    total_pages: int


@dataclass(frozen=True, slots=True)
class _Job:
    """Work of another thread that waits for the model's."""

    work: Callable[[], Any]
    answer: Future[Any] = field(default_factory=Future)

    def carry_out(self) -> None:
        try:
            self.answer.set_result(self.work())
        except BaseException as error:  # it belongs to the thread that waits
            self.answer.set_exception(error)


@dataclass(frozen=True, slots=True)
class _Run:
    """A plan in the model's hands."""

    plan: StepPlan
    began_s: float
    """Of time.perf_counter."""


class LocalStream:
    """One utterance of a LocalEngine; see engine.api.SpeechStream. For one reader."""

    def __init__(self, engine: LocalEngine, utterance: int, timeline: Timeline) -> None:
        self._engine = engine
        self._utterance = utterance
        self.timeline = timeline
        """Marks "queued", "planned", "first_chunk", "generated", in the engine's clock."""
        self._chunks: deque[AudioChunk] = deque()  # bounded by max_unread_s, since the scheduler stops there
        self._news = asyncio.Event()
        self._ended_at_s: float | None = None
        self._is_fed_up = False
        self._failure: str | None = None

    def feed(self, segment: Segment) -> None:
        if self._failure is not None:
            raise SpeechFailedError(self._failure)
        if self._is_fed_up:
            raise EngineError("the utterance was finished or cancelled; no segment can follow")
        self._engine._extend(self._utterance, segment)

    def finish(self) -> None:
        self._is_fed_up = True
        self._engine._finish(self._utterance)

    def cancel(self, heard_samples: int, heard_chars: int) -> None:
        self._is_fed_up = True
        self._chunks.clear()
        self._end()
        self._engine._cancel(self._utterance, heard_samples, heard_chars)

    @property
    def ended_at_s(self) -> float | None:
        """When its last chunk was delivered, or it failed or was cancelled; None while it goes on."""
        return self._ended_at_s

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._engine._read(self._utterance, len(chunk.pcm))
                yield chunk
                if chunk.is_final:
                    return
            if self._failure is not None:
                raise SpeechFailedError(self._failure)
            if self._ended_at_s is not None:
                return
            self._news.clear()
            await self._news.wait()

    def _deliver(self, chunk: AudioChunk) -> None:
        self._chunks.append(chunk)
        self._news.set()
        if chunk.is_final:
            self._end()

    def _fail(self, message: str) -> None:
        self._failure = message
        self._end()

    def _end(self) -> None:
        if self._ended_at_s is None:
            self._ended_at_s = self._engine._clock()
        self._news.set()
        self._engine._streams.pop(self._utterance, None)


@dataclass(slots=True)
class _Lane:
    """A sequence, and its utterances that have not ended."""

    sequence: int
    streams: list[LocalStream] = field(default_factory=list)
    idle_since_s: float = 0.0
    """Where there are none: when the last one ended."""

    def settle(self) -> None:
        """Let go of the utterances that have ended."""
        ends_s = [stream.ended_at_s for stream in self.streams if stream.ended_at_s is not None]
        self.streams = [stream for stream in self.streams if stream.ended_at_s is None]
        self.idle_since_s = max([self.idle_since_s, *ends_s])


class LocalSession:
    """The lanes of one conversation; see engine.api.EngineSession. Of lanes with nothing to speak, the
    KEPT_IDLE_LANES used last keep their context."""

    def __init__(self, engine: LocalEngine, session_id: str) -> None:
        self._engine = engine
        self.id = session_id
        self._lanes: dict[str, _Lane] = {}
        self._is_closed = False

    def open_stream(self, request: SpeechRequest, lane: str = "main") -> LocalStream:
        if self._is_closed:
            raise EngineError(f"session {self.id} is closed")
        prompt = self._engine._prepare_prompt(request)
        place = self._lanes.get(lane)
        if place is None:
            place = self._lanes[lane] = _Lane(self._engine._open_sequence())
        stream = self._engine._open_stream(place.sequence, request, prompt)
        place.streams.append(stream)
        self._close_idle_lanes()
        return stream

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for lane in self._lanes.values():
            for stream in lane.streams:
                stream.cancel(heard_samples=0, heard_chars=0)
            self._engine._close_sequence(lane.sequence)
        self._lanes.clear()
        self._engine._sessions.discard(self)

    def _close_idle_lanes(self) -> None:
        """Those that have had nothing to speak for longest, beyond the number that is kept."""
        for lane in self._lanes.values():
            lane.settle()
        idle = [name for name, lane in self._lanes.items() if not lane.streams]
        idle.sort(key=lambda name: self._lanes[name].idle_since_s)
        for name in idle[: max(0, len(idle) - KEPT_IDLE_LANES)]:
            self._engine._close_sequence(self._lanes.pop(name).sequence)


class LocalEngine:
    """A model and its loop in this process; see engine.api.Engine. All methods are called on one event loop."""

    def __init__(
        self, model: SpeechModel, settings: EngineSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._model = model
        self._settings = settings
        self._clock = clock
        self._scheduler = Scheduler(model.spec, settings.pacing, model.prepare, np.zeros(0, np.float32))
        self._threads = ThreadPoolExecutor(model.spec.max_plans, thread_name_prefix="engine-model")
        self._running: dict[asyncio.Future[StepResult], _Run] = {}
        self._rousing: asyncio.Future[None] | None = None
        self._active_at_s = clock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._jobs: deque[_Job] = deque()  # each has a thread that waits for it
        self._running_job: asyncio.Future[None] | None = None
        self._news = asyncio.Event()
        self._loop_task: asyncio.Task[None] | None = None
        self._sessions: set[LocalSession] = set()
        self._streams: dict[int, LocalStream] = {}
        self._is_dead = False
        self._is_closed = False
        self._execute_s = 0.0
        self._plan_s = 0.0
        self._failed_ticks = 0
        self._failed_in_a_row = 0
        if self.voices is not None:
            self.voices.encode_on(self.run_between_ticks)

    @property
    def info(self) -> ModelInfo:
        return self._model.info

    @property
    def voices(self) -> VoiceLibrary | None:
        return self._model.voices if isinstance(self._model, CloningModel) else None

    def run_between_ticks(self, work: Callable[[], Result]) -> Result:
        """For other threads than the loop's and the model's: carry `work` out on the model's thread while no plan is
        out, so that the two never want the device's memory at once, and wait for it. Raises EngineError where the
        engine has ended, or ends before its turn."""
        if self._is_closed:
            raise EngineError("the engine is closed")
        if self._loop is None:  # not started: its thread has nothing else to do
            return self._threads.submit(work).result()
        job = _Job(work)
        try:
            self._loop.call_soon_threadsafe(self._take_job, job)
        except RuntimeError as error:  # the loop is closed
            raise EngineError("the engine is closed") from error
        answer: Result = job.answer.result()
        return answer

    def forget_voice(self, voice: str) -> None:
        self._scheduler.forget_voice(voice)
        self._news.set()

    @property
    def is_healthy(self) -> bool:
        return not self._is_dead

    def stats(self) -> EngineStats:
        scheduler, counters = self._scheduler, self._scheduler.counters
        return EngineStats(
            ticks=counters.ticks,
            rows=counters.rows,
            frames=counters.frames,
            blocks=counters.blocks,
            prefilled=counters.prefilled,
            truncated=counters.truncated,
            runaway=counters.runaway,
            failures=counters.failures,
            failed_ticks=self._failed_ticks,
            rollbacks=counters.rollbacks,
            parked=counters.parked,
            execute_s=self._execute_s,
            plan_s=self._plan_s,
            open_streams=len(self._streams),
            active_sequences=scheduler.active_count,
            sequences=scheduler.sequence_count,
            free_pages=scheduler.free_pages,
            total_pages=scheduler.spec.page_count if scheduler.spec.page_tokens else 0,
        )

    async def start(self) -> None:
        if self._loop_task is not None:
            return
        loop = self._loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._model.warm_up)
        self._loop_task = loop.create_task(self._run(), name="engine-loop")

    def open_session(self, session_id: str) -> LocalSession:
        if self._is_closed:
            raise EngineError("the engine is closed")
        session = LocalSession(self, session_id)
        self._sessions.add(session)
        return session

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for session in list(self._sessions):
            session.close()
        self._news.set()
        if self._loop_task is not None:
            await asyncio.wait({self._loop_task})
        if self._running:
            await asyncio.wait(self._running)
        if self._rousing is not None:
            await asyncio.wait({self._rousing})
        self._refuse_jobs("the engine is closed")
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._model.close)
        self._threads.shutdown(wait=True)

    # ---- the loop ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while not self._is_closed:
                self._news.clear()
                self._land()
                self._launch()
                await self._wait_for_news()
            if self._running:
                await asyncio.wait(self._running)
                self._land()
        except asyncio.CancelledError:
            self._die("its loop was cancelled")
            raise
        except Exception as error:
            logger.exception("the engine's loop has died")
            self._die(str(error))

    def _die(self, why: str) -> None:
        """Nobody may wait for what will never come."""
        self._is_dead = True
        self._refuse_jobs(f"the engine has died: {why}")
        self._route(self._scheduler.fail_all(f"the engine has died: {why}", self._clock()))
        for stream in list(self._streams.values()):
            stream._fail(f"the engine has died: {why}")

    def _launch(self) -> None:
        """Send out whatever the model can do now. Jobs and plans take turns, and are never out together."""
        if self._running_job is not None:
            if not self._running_job.done():
                return
            self._running_job = None
        elif self._jobs:
            if not self._running:
                self._launch_job()
            return
        self._launch_plans()
        if self._jobs and not self._running:
            self._launch_job()

    def _launch_job(self) -> None:
        job = self._jobs.popleft()
        self._running_job = asyncio.get_running_loop().run_in_executor(self._threads, job.carry_out)
        self._running_job.add_done_callback(lambda _: self._news.set())

    def _launch_plans(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = time.perf_counter()
        while len(self._running) < self._model.spec.max_plans:
            plan = self._scheduler.plan(self._clock())
            if plan is None:
                break
            future = loop.run_in_executor(self._threads, self._model.execute, plan)
            self._running[future] = _Run(plan, time.perf_counter())
            future.add_done_callback(lambda _: self._news.set())
        self._plan_s += time.perf_counter() - began_s

    def _land(self) -> None:
        """Take what the model has answered."""
        for future in [future for future in self._running if future.done()]:
            run = self._running.pop(future)
            began_s = time.perf_counter()
            self._execute_s += began_s - run.began_s
            result = self._answer(run.plan, future)
            now_s = self._active_at_s = self._clock()
            if isinstance(result, str):
                deliveries = self._scheduler.abort(run.plan, result, now_s)
            else:
                deliveries = self._scheduler.commit(run.plan, result, now_s)
            self._route(deliveries)
            self._plan_s += time.perf_counter() - began_s

    def _answer(self, plan: StepPlan, future: asyncio.Future[StepResult]) -> StepResult | str:
        """The model's answer, or what went wrong. Too many failures in a row are raised."""
        try:
            result = future.result()
        except Exception as error:
            self._failed_ticks += 1
            self._failed_in_a_row += 1
            logger.exception("tick %d failed in the model", plan.tick)
            if self._failed_in_a_row >= self._settings.max_failed_ticks:
                raise
            return f"the model failed: {error}"
        self._failed_in_a_row = 0
        return result

    async def _wait_for_news(self) -> None:
        wake_at_s = self._scheduler.wake_at_s
        timer = None
        if wake_at_s is not None:
            delay_s = max(0.0, wake_at_s - self._clock())
            timer = asyncio.get_running_loop().call_later(delay_s, self._news.set)
        try:
            await self._news.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _route(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            stream = self._streams.get(delivery.utterance)
            if stream is None:
                continue
            if isinstance(delivery, Failed):
                stream._fail(delivery.message)
            else:
                stream._deliver(delivery.chunk)

    def _take_job(self, job: _Job) -> None:
        if self._is_closed or self._is_dead:
            job.answer.set_exception(EngineError("the engine is closed"))
            return
        self._jobs.append(job)
        self._news.set()

    def _refuse_jobs(self, why: str) -> None:
        while self._jobs:
            self._jobs.popleft().answer.set_exception(EngineError(why))

    # ---- what sessions and streams ask for -----------------------------------------------------------------------

    def _open_sequence(self) -> int:
        return self._scheduler.open_sequence()

    def _close_sequence(self, sequence: int) -> None:
        self._scheduler.close_sequence(sequence)
        self._news.set()

    def _prepare_prompt(self, request: SpeechRequest) -> PreparedPrompt:
        if self._is_dead:
            raise SpeechFailedError("the engine has died")
        return self._model.prepare_prompt(request)

    def _open_stream(self, sequence: int, request: SpeechRequest, prompt: PreparedPrompt) -> LocalStream:
        utterance = self._scheduler.open_utterance(sequence, request, prompt)
        state = self._scheduler.utterance(utterance)
        assert state is not None
        stream = LocalStream(self, utterance, state.timeline)
        self._streams[utterance] = stream
        self._rouse()
        return stream

    def _rouse(self) -> None:
        """Wake a model that dozes; a failure of that is no stream's trouble."""
        if self._loop is None or self._running or self._jobs or not isinstance(self._model, DozingModel):
            return
        now_s = self._clock()
        if now_s - self._active_at_s >= DOZES_AFTER_S:
            self._active_at_s = now_s
            self._rousing = self._loop.run_in_executor(self._threads, self._model.rouse)
            self._rousing.add_done_callback(_log_failure)

    def _extend(self, utterance: int, segment: Segment) -> None:
        self._route(self._scheduler.extend(utterance, segment, self._clock()))
        self._news.set()

    def _finish(self, utterance: int) -> None:
        self._route(self._scheduler.finish(utterance, self._clock()))
        self._news.set()

    def _cancel(self, utterance: int, heard_samples: int, heard_chars: int) -> None:
        self._route(self._scheduler.cancel(utterance, heard_samples, heard_chars, self._clock()))
        self._news.set()

    def _read(self, utterance: int, samples: int) -> None:
        self._scheduler.read(utterance, samples)
        self._news.set()


def _log_failure(rousing: asyncio.Future[None]) -> None:
    error = None if rousing.cancelled() else rousing.exception()
    if error is not None:
        logger.warning("the model could not be roused: %s", error)
