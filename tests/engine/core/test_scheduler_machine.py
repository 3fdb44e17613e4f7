"""The scheduler under anything its callers and its model may do: a stateful test against the self-checking fakes."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from hypothesis import HealthCheck, Phase, settings, target
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.config import EngineSettings
from engine.core.scheduler import Delivery, Failed, Scheduler
from engine.core.step import StepPlan, StepResult, TextCadence
from engine.errors import TooLongError
from engine.speech import AudioChunk, Boundary, Pcm, Segment, SpeechRequest
from tests.fakes.fake_model import (
    SAMPLES_PER_FRAME,
    DelayedRowsModel,
    FakeModel,
    Fault,
    WholeFramesModel,
    segment_pcm,
    small_spec,
    whole_segment,
)
from tests.fakes.streamed_model import StreamedRowsModel

LANES = 4
MAX_UNREAD_S = 0.2
FAULTS: list[Fault | None] = [
    *[None] * 12,
    "fail_prefill",
    "fail_window",
    "no_answer",
    "runaway",
    "never_ends",
    "silent",
    "fail_row",
]


class _Spoken:
    """What the test knows of an utterance."""

    def __init__(self, number: int, lane: int) -> None:
        self.number = number
        self.lane = lane
        self.texts: list[str] = []
        self.chunks: list[AudioChunk] = []
        self.unread: list[int] = []
        self.is_finished = False
        self.is_over = False
        self.has_failed = False
        self.is_tainted = False

    @property
    def samples(self) -> int:
        return sum(len(chunk.pcm) for chunk in self.chunks)

    @property
    def chars(self) -> int:
        return sum(len(text) for text in self.texts)


class SchedulerMachine(RuleBasedStateMachine):
    """Opens, feeds, finishes, cancels, reads and closes at any moment, also while a plan is out."""

    def make_model(self) -> FakeModel:
        spec = small_spec(
            codebooks=3,
            max_sequences=3,
            max_decode_batch=2,
            max_prefill_tokens=7,
            page_tokens=4,
            page_count=26,
            left_context_frames=3,
            right_context_frames=2,
            first_window_frames=2,
            max_window_frames=6,
            max_windows_per_tick=2,
            history_blocks=2,
            history_s=1.2,
        )
        return DelayedRowsModel(spec, prompt_tokens=9, frames_per_char=1, max_rows_per_char=2)

    def __init__(self) -> None:
        super().__init__()
        self.model = self.make_model()
        self.now_s = 10.0
        pacing = EngineSettings(max_unread_s=MAX_UNREAD_S).pacing
        self.scheduler = Scheduler(self.model.spec, pacing, self.model.prepare, np.zeros(0, np.float32))
        self.lanes: dict[int, int] = {}
        self.spoken: dict[int, _Spoken] = {}
        self.launched: list[tuple[StepPlan, StepResult | Literal["later"] | None]] = []
        self.segments = 0

    # ---- what callers do ---------------------------------------------------------------------------------------------

    def live(self, data: st.DataObject) -> _Spoken | None:
        live = [spoken for spoken in self.spoken.values() if not spoken.is_over]
        return data.draw(st.sampled_from(live)) if live else None

    @rule(lane=st.integers(0, LANES - 1), voice=st.sampled_from(["alto", "alto", "tenor"]), seed=st.integers(0, 2))
    def open(self, lane: int, voice: str, seed: int) -> None:
        if lane not in self.lanes:
            self.lanes[lane] = self.scheduler.open_sequence()
        request = SpeechRequest(voice, seed)
        number = self.scheduler.open_utterance(self.lanes[lane], request, self.model.prepare_prompt(request))
        self.spoken[number] = _Spoken(number, lane)

    @rule(voice=st.sampled_from(["alto", "tenor"]))
    def delete_voice(self, voice: str) -> None:
        self.scheduler.forget_voice(voice)

    @rule(data=st.data(), length=st.integers(0, 12), fault=st.sampled_from(FAULTS))
    def feed(self, data: st.DataObject, length: int, fault: Fault | None) -> None:
        spoken = self.live(data)
        if spoken is not None and not spoken.is_finished:
            self.feed_to(spoken, length, fault)

    @rule(lane=st.integers(0, LANES - 1), lengths=st.lists(st.integers(4, 12), min_size=1, max_size=4))
    def speak(self, lane: int, lengths: list[int]) -> None:
        """A whole utterance at once."""
        self.open(lane, "alto", 1)
        spoken = list(self.spoken.values())[-1]
        for length in lengths:
            self.feed_to(spoken, length, None)
        spoken.is_finished = True
        self.take(self.scheduler.finish(spoken.number, self.now_s))

    def segment(self, text: str, start: int) -> Segment:
        return whole_segment(text, start)

    def feed_to(self, spoken: _Spoken, length: int, fault: Fault | None) -> None:
        self.segments += 1
        text = f"{self.segments:x}".ljust(length, "o") if length else ""
        try:
            told = self.scheduler.extend(spoken.number, self.segment(text, spoken.chars), self.now_s)
        except TooLongError:
            return
        if fault is not None and text:
            self.model.faults[text] = fault
            spoken.is_tainted = True
        spoken.texts.append(text)
        self.take(told)

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        spoken = self.live(data)
        if spoken is not None:
            spoken.is_finished = True
            self.take(self.scheduler.finish(spoken.number, self.now_s))

    @rule(data=st.data(), share=st.floats(0, 1))
    def cancel(self, data: st.DataObject, share: float) -> None:
        uncancelled = [spoken for spoken in self.spoken.values() if not spoken.has_failed]
        if not uncancelled:
            return
        spoken = data.draw(st.sampled_from(uncancelled))
        heard_samples = int(spoken.samples * share)
        frames_per_char = self.model.frames_per_char
        heard_chars = min(spoken.chars, round(heard_samples / SAMPLES_PER_FRAME / frames_per_char))
        del self.spoken[spoken.number]
        self.take(self.scheduler.cancel(spoken.number, heard_samples, heard_chars, self.now_s))

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        readable = [spoken for spoken in self.spoken.values() if spoken.unread]
        if readable:
            spoken = data.draw(st.sampled_from(readable))
            self.scheduler.read(spoken.number, spoken.unread.pop(0))

    @rule()
    def read_everything(self) -> None:
        for spoken in self.spoken.values():
            while spoken.unread:
                self.scheduler.read(spoken.number, spoken.unread.pop(0))

    @rule(lane=st.integers(0, LANES - 1))
    def close(self, lane: int) -> None:
        if lane in self.lanes:
            self.scheduler.close_sequence(self.lanes.pop(lane))
            self.spoken = {n: spoken for n, spoken in self.spoken.items() if spoken.lane != lane}

    @rule(seconds=st.floats(0, 1))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    # ---- what the loop does ------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.launched) < self.model.spec.max_plans)
    @rule(fate=st.sampled_from(["now", "later"] * 15 + ["broken"]))
    def launch(self, fate: str) -> None:
        """A plan goes out; the model works on it at once, or only just before it lands."""
        self.send_out(fate)

    def send_out(self, fate: str) -> bool:
        plan = self.scheduler.plan(self.now_s)
        if plan is None:
            return False
        self.check_budgets(plan)
        self.check_apart(plan)
        if fate == "later":
            self.launched.append((plan, "later"))
        else:
            self.launched.append((plan, None if fate == "broken" else self.model.execute(plan)))
        return True

    @precondition(lambda self: self.launched)
    @rule(which=st.integers(0, 3), is_broken=st.sampled_from([False] * 30 + [True]))
    def land(self, which: int, is_broken: bool) -> None:
        """Any of the plans that are out. The model may fail before it did anything, or after it did all."""
        plan, result = self.launched.pop(which % len(self.launched))
        if result == "later":
            result = self.model.execute(plan)
        self.now_s += 0.01
        if is_broken or result is None:
            self.take(self.scheduler.abort(plan, "broken", self.now_s))
        else:
            self.take(self.scheduler.commit(plan, result, self.now_s))

    @rule(ticks=st.integers(1, 30))
    def turn(self, ticks: int) -> None:
        for _ in range(ticks):
            self.launch_all()
            if not self.launched:
                return
            self.land(0, is_broken=False)

    def launch_all(self) -> None:
        while len(self.launched) < self.model.spec.max_plans and self.send_out("now"):
            pass

    def take(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            spoken = self.spoken[delivery.utterance]
            assert not spoken.is_over
            if isinstance(delivery, Failed):
                spoken.is_over = spoken.has_failed = True
                spoken.unread.clear()
                continue
            chunk = delivery.chunk
            assert chunk.start_sample == spoken.samples
            spoken.chunks.append(chunk)
            spoken.unread.append(len(chunk.pcm))
            spoken.is_over = chunk.is_final
            assert sum(one.is_segment_end for one in spoken.chunks) <= len(spoken.texts)
            if chunk.is_final:
                self.check_whole(spoken)

    # ---- what must hold ----------------------------------------------------------------------------------------------

    def check_budgets(self, plan: StepPlan) -> None:
        spec = self.model.spec
        lengths = [sum(piece.end - piece.start for piece in item.pieces) for item in plan.prefill]
        assert (sum(lengths) if spec.codebooks else len(lengths)) <= spec.max_prefill_tokens
        assert all(lengths)
        for items, most in ((plan.decode, spec.max_decode_batch), (plan.vocode, spec.max_windows_per_tick)):
            assert len(items) <= most
            assert len({item.sequence for item in items}) == len(items)
        for window in plan.vocode:
            assert 0 < window.end_frame - window.start_frame <= max(spec.max_window_frames, spec.first_window_frames)

    def check_apart(self, plan: StepPlan) -> None:
        """Plans that are out together are about different blocks, and nothing that is being forgotten."""
        fills = {item.sequence for item in plan.prefill}
        windows = {item.sequence for item in plan.vocode}
        forgets = {forget.sequence for forget in plan.forgets}
        for other, _ in self.launched:
            other_fills = {item.sequence for item in other.prefill}
            other_windows = {item.sequence for item in other.vocode}
            other_forgets = {forget.sequence for forget in other.forgets}
            assert not fills & other_fills
            assert not windows & other_windows
            assert not forgets & (other_fills | other_windows | other_forgets)
            assert not other_forgets & (fills | windows)

    def check_whole(self, spoken: _Spoken) -> None:
        assert spoken.is_finished
        assert sum(one.is_segment_end for one in spoken.chunks) == len(spoken.texts)
        if not spoken.is_tainted:
            whole = np.concatenate([np.zeros(0, np.float32), *self.sound_of(spoken)])
            assert np.array_equal(np.concatenate([one.pcm for one in spoken.chunks]), whole)

    def sound_of(self, spoken: _Spoken) -> list[Pcm]:
        """What is to be heard of a whole utterance."""
        return [segment_pcm(text, len(text) * self.model.frames_per_char) for text in spoken.texts]

    @invariant()
    def every_page_has_one_owner(self) -> None:
        residency = self.scheduler._roster.residency
        pool = residency.pool
        owned = list(pool._free)
        owned += [page for _, pages in pool._resting for page in pages]
        for prompt in residency.prompts._prompts.values():
            owned += prompt.pages
        for sequence in self.scheduler._roster.sequences.values():
            for context in (sequence.context, sequence.shadow):
                if context is not None:
                    owned += context._pages
        assert sorted(owned) == list(range(pool.page_count))

    @invariant()
    def no_page_of_a_plan_that_is_out_can_be_taken(self) -> None:
        for plan, _ in self.launched:
            named = {page for item in (*plan.prefill, *plan.decode) for page in item.page_table}
            assert not named & set(self.scheduler._roster.residency.pool._free)

    @invariant()
    def nobody_is_far_ahead_of_its_reader(self) -> None:
        for sequence in self.scheduler._roster.sequences.values():
            unread = sum(
                sum(spoken.unread) for spoken in self.spoken.values() if self.lanes.get(spoken.lane) == sequence.id
            )
            assert sequence.unread_samples == unread
            assert unread <= MAX_UNREAD_S * 24000 + SAMPLES_PER_FRAME
            begun = [*sequence.voicing]
            assert sequence.unvoiced_frames == sum(block.frames - block.voiced_frames for block in begun)

    @invariant()
    def history_is_bounded(self) -> None:
        spec = self.model.spec
        for sequence in self.scheduler._roster.sequences.values():
            assert len(sequence.history) <= spec.history_blocks + len(sequence.voicing) + 1

    @invariant()
    def the_model_holds_no_more_than_its_places(self) -> None:
        assert len(self.model.requests) <= self.model.spec.max_sequences

    def describe(self) -> str:
        """Why nothing moves, for the reader of a failure."""
        waiting = [spoken.number for spoken in self.spoken.values() if not spoken.is_over]
        lines = [f"utterances {waiting} never ended; {self.scheduler.free_pages} pages free"]
        for sequence in self.scheduler._roster.sequences.values():
            lines.append(
                f"sequence {sequence.id}: {sequence.status.name}, resident {sequence.is_resident}, "
                f"unread {sequence.unread_samples}, unvoiced {sequence.unvoiced_frames}, "
                f"current {sequence.current and sequence.current.number}, "
                f"voicing {[(block.number, block.voiced_frames, block.frames) for block in sequence.voicing]}, "
                f"history {[block.number for block in sequence.history]}, "
                f"utterances {[(one.id, len(one.queue), one.is_finished) for one in sequence.utterances]}, "
                f"own pages {sequence.context and sequence.context.page_count}"
            )
        return "\n".join(lines)

    def teardown(self) -> None:
        if sys.exception() is not None:
            return
        for spoken in self.spoken.values():
            if not spoken.is_over:
                spoken.is_finished = True
                self.take(self.scheduler.finish(spoken.number, self.now_s))
        for _ in range(20_000):
            self.read_everything()
            self.every_page_has_one_owner()
            self.launch_all()
            if not self.launched:
                break
            self.land(0, is_broken=False)
        assert all(spoken.is_over for spoken in self.spoken.values()), self.describe()
        for lane in list(self.lanes):
            self.close(lane)
        self.launch_all()
        while self.launched:
            self.land(0, is_broken=False)
        assert self.scheduler.plan(self.now_s) is None
        residency = self.scheduler._roster.residency
        while residency.prompts.drop_oldest_idle(keep=None):
            pass
        assert self.scheduler.free_pages == residency.pool.page_count
        assert not self.model.blocks, "the model still holds codes"
        assert not self.scheduler._roster.utterances
        assert residency.resident_count == 0
        target(float(self.scheduler.counters.parked), label="parked")
        target(float(self.scheduler.counters.rollbacks), label="rolled back")


class WholeFramesMachine(SchedulerMachine):
    def make_model(self) -> FakeModel:
        spec = small_spec(
            WholeFramesModel().spec,
            max_sequences=3,
            max_prefill_tokens=2,
            first_window_frames=2,
            max_window_frames=6,
            max_windows_per_tick=2,
            history_blocks=2,
        )
        return WholeFramesModel(spec, frames_per_char=1)


class SeveralPlansMachine(WholeFramesMachine):
    """Prefills of different lanes and windows run side by side and land in any order."""

    def make_model(self) -> FakeModel:
        spec = small_spec(super().make_model().spec, max_plans=4, max_prefill_tokens=1)
        return WholeFramesModel(spec, frames_per_char=1)


class WideWindowsMachine(SchedulerMachine):
    """The vocoder wants more frames around a window than a reader may leave unread."""

    def make_model(self) -> FakeModel:
        spec = small_spec(
            super().make_model().spec,
            codebooks=8,
            page_count=30,
            left_context_frames=10,
            right_context_frames=10,
            first_window_frames=4,
            max_window_frames=12,
            history_blocks=3,
        )
        return DelayedRowsModel(spec, prompt_tokens=9, frames_per_char=2, max_rows_per_char=3)


class StatelessMachine(SchedulerMachine):
    def make_model(self) -> FakeModel:
        model = super().make_model()
        return DelayedRowsModel(
            small_spec(model.spec, history_blocks=0), prompt_tokens=9, frames_per_char=1, max_rows_per_char=2
        )


class StreamedTextMachine(SchedulerMachine):
    """Text goes into the block that is being spoken."""

    def make_model(self) -> FakeModel:
        cadence = TextCadence(first_rows=6, rows_per_token=2, max_waits=2, max_rows=80, max_tokens=14, max_hold_s=1.5)
        spec = replace(
            super().make_model().spec, history_blocks=0, page_count=76, max_prefill_tokens=7, text_cadence=cadence
        )
        return StreamedRowsModel(spec, prompt_tokens=9, frames_per_char=1)

    def segment(self, text: str, start: int) -> Segment:
        boundary: Boundary = "end" if self.segments % 5 == 4 else "sentence" if self.segments % 3 == 0 else "forced"
        return replace(whole_segment(text, start), boundary=boundary)

    def check_budgets(self, plan: StepPlan) -> None:
        insertions = [item for item in plan.prefill if item.row]
        super().check_budgets(replace(plan, prefill=tuple(item for item in plan.prefill if not item.row)))
        for item in insertions:
            kinds = [piece.kind for piece in item.pieces]
            assert kinds in (["audio", "text", "begin_audio"], ["audio", "end_text", "begin_audio"])
        assert len(plan.decode) + len(insertions) <= self.model.spec.max_decode_batch

    def sound_of(self, spoken: _Spoken) -> list[Pcm]:
        assert isinstance(self.model, StreamedRowsModel)
        blocks = [block for block in self.model.finished.values() if block.name in spoken.texts]
        assert "".join(one for block in blocks for one in block.fed) == "".join(spoken.texts)
        return [segment_pcm(block.name, block.frames or 0) for block in blocks]

    def teardown(self) -> None:
        super().teardown()
        assert isinstance(self.model, StreamedRowsModel)
        if sys.exception() is None:
            assert not self.model.streamed, "the model still holds codes"


def _case(machine: type[RuleBasedStateMachine], examples: int) -> Any:
    case = machine.TestCase
    case.settings = settings(
        max_examples=examples,
        stateful_step_count=60,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking takes minutes; `describe` says what hangs
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    return case


TestSchedulerMachine = _case(SchedulerMachine, 120)
TestWholeFramesMachine = _case(WholeFramesMachine, 40)
TestSeveralPlansMachine = _case(SeveralPlansMachine, 120)
TestWideWindowsMachine = _case(WideWindowsMachine, 60)
TestStatelessMachine = _case(StatelessMachine, 40)
TestStreamedTextMachine = _case(StreamedTextMachine, 120)
