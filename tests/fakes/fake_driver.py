"""Runs a SpeechModel through the Scheduler with no event loop and no clock of its own: for tests of `execute`."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from engine.config import EngineSettings
from engine.core.scheduler import Delivery, Failed, Scheduler
from engine.core.step import StepPlan, StepResult
from engine.errors import SpeechFailedError
from engine.speech import AudioChunk, Pcm, Segment, SpeechRequest
from engine.speech_model import SpeechModel


class SyncDriver:
    """Time moves only when told (`now_s`) or by `tick_s` per tick. Chunks are read at once unless `reads` is False."""

    def __init__(
        self, model: SpeechModel, settings: EngineSettings | None = None, *, tick_s: float = 0.0, reads: bool = True
    ) -> None:
        self.model = model
        self.settings = settings or EngineSettings()
        empty = np.zeros(0, np.float32)
        self.scheduler = Scheduler(model.spec, self.settings.pacing, model.prepare, empty)
        self.tick_s = tick_s
        self.reads = reads
        self.now_s = 100.0
        self.chunks: dict[int, list[AudioChunk]] = defaultdict(list)
        self.failures: dict[int, str] = {}
        self._lanes: dict[str, int] = {}

    def open(self, request: SpeechRequest, lane: str = "main") -> int:
        """An utterance in a lane; its number is what the other methods take."""
        if lane not in self._lanes:
            self._lanes[lane] = self.scheduler.open_sequence()
        return self.scheduler.open_utterance(self._lanes[lane], request, self.model.prepare_prompt(request))

    def feed(self, utterance: int, segment: Segment) -> None:
        self._take(self.scheduler.extend(utterance, segment, self.now_s))

    def finish(self, utterance: int) -> None:
        self._take(self.scheduler.finish(utterance, self.now_s))

    def cancel(self, utterance: int, heard_samples: int, heard_chars: int) -> None:
        self._take(self.scheduler.cancel(utterance, heard_samples, heard_chars, self.now_s))

    def close(self, lane: str = "main") -> None:
        self.scheduler.close_sequence(self._lanes.pop(lane))

    def plan(self) -> StepPlan | None:
        return self.scheduler.plan(self.now_s)

    def commit(self, plan: StepPlan, result: StepResult) -> None:
        self.now_s += self.tick_s
        self._take(self.scheduler.commit(plan, result, self.now_s))

    def tick(self) -> bool:
        """One turn; False where there was nothing to do. A model that raises fails the plan's utterances."""
        plan = self.plan()
        if plan is None:
            return False
        try:
            result = self.model.execute(plan)
        except Exception as error:
            self._take(self.scheduler.abort(plan, str(error), self.now_s))
        else:
            self.commit(plan, result)
        return True

    def run(self, max_ticks: int = 100_000) -> int:
        """Until there is nothing to do; answers the number of ticks."""
        for ticks in range(max_ticks):
            if not self.tick():
                return ticks
        raise AssertionError(f"still busy after {max_ticks} ticks")

    def speak(self, request: SpeechRequest, *segments: Segment, lane: str = "main") -> list[AudioChunk]:
        """Open, feed, finish, run; the utterance's chunks. Raises SpeechFailedError where it failed."""
        utterance = self.open(request, lane)
        for segment in segments:
            self.feed(utterance, segment)
        self.finish(utterance)
        self.run()
        if utterance in self.failures:
            raise SpeechFailedError(self.failures[utterance])
        return self.chunks[utterance]

    def pcm(self, utterance: int) -> Pcm:
        """All samples delivered of an utterance."""
        return np.concatenate([np.zeros(0, np.float32), *(chunk.pcm for chunk in self.chunks[utterance])])

    def _take(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            if isinstance(delivery, Failed):
                self.failures[delivery.utterance] = delivery.message
                continue
            chunks = self.chunks[delivery.utterance]
            expected = chunks[-1].start_sample + len(chunks[-1].pcm) if chunks else 0
            assert delivery.chunk.start_sample == expected
            assert not (chunks and chunks[-1].is_final)
            chunks.append(delivery.chunk)
            if self.reads:
                self.scheduler.read(delivery.utterance, len(delivery.chunk.pcm))
