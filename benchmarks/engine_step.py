"""Loop overhead of the engine: what one tick costs beside the model.

    python benchmarks/engine_step.py [--sequences 64 256] [--seconds 2] [--rounds 5]

A model that does nothing but answer is driven by the real LocalEngine with N lanes that decode at once. Reported per
tick: plan + commit + routing (`core`), and everything the loop spends that is not inside the model's own `execute`
(`loop`: core, both hops to the model thread, sessions and readers), by the clock and in processor time (`loop cpu`,
which other work on the machine does not blow up). The aim is 0.3 ms at 64 sequences.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.machine import machine
from benchmarks.results import save, table
from engine import EngineSettings, LocalEngine
from engine.core.step import (
    ModelSpec,
    PreparedPrompt,
    PreparedText,
    RowOutcome,
    StepPlan,
    StepResult,
    Window,
)
from engine.speech import ModelInfo, Segment, SpeechRequest, VoiceInfo

TEXT = "A sentence of the usual length, neither short nor long."
FRAMES = 100
VOICE = VoiceInfo("one", "One", "en")


class AnsweringModel:
    """25 frames per second, 8 codebooks; answers every item at once and counts its own time."""

    def __init__(self, sequences: int) -> None:
        self.spec = ModelSpec(
            sample_rate_hz=24000,
            samples_per_frame=960,
            codebooks=8,
            max_sequences=sequences,
            max_decode_batch=sequences,
            max_prefill_tokens=2048,
            page_tokens=16,
            page_count=sequences * 64,
            left_context_frames=10,
            right_context_frames=10,
            first_window_frames=4,
            max_window_frames=50,
            max_windows_per_tick=sequences,
            history_blocks=4,
            history_s=30.0,
        )
        self.info = ModelInfo("answering", 24000, (VOICE,), "one", frozenset({"en"}), "estimated", {}, frozenset())
        self.execute_s = 0.0
        self.execute_cpu_s = 0.0
        self.decode_items = 0
        self._silence = np.zeros(960 * 64, np.float32)

    def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
        return PreparedText(20, 400, 0.0, None)

    def prepare_prompt(self, request: SpeechRequest) -> PreparedPrompt:
        return PreparedPrompt(300, b"one", None)

    def warm_up(self) -> None:
        pass

    def close(self) -> None:
        pass

    def execute(self, plan: StepPlan) -> StepResult:
        began_s, began_cpu_s = time.perf_counter(), time.thread_time()
        last = FRAMES + 6
        rows = [
            RowOutcome(item.sequence, item.samples_block, 1, False)
            for item in plan.prefill
            if item.samples_block is not None
        ]
        rows += [RowOutcome(item.sequence, item.block, 1, item.row == last) for item in plan.decode]
        windows = []
        for item in plan.vocode:
            samples = 960 * (item.end_frame - item.start_frame)
            windows.append(Window(item.sequence, item.block, self._silence[:samples], samples))
        self.decode_items += len(plan.decode)
        self.execute_s += time.perf_counter() - began_s
        self.execute_cpu_s += time.thread_time() - began_cpu_s
        return StepResult(plan.tick, (), tuple(rows), tuple(windows))


@dataclass(frozen=True, slots=True)
class Measured:
    sequences: int
    ticks: int
    rows_per_tick: float
    core_ms: float
    """plan + commit + routing, mean per tick."""
    loop_ms: float
    """Everything but the model, mean per tick."""
    loop_cpu_ms: float
    model_ms: float


async def measure(sequences: int, seconds: float, rounds: int) -> list[Measured]:
    """`rounds` measurements of `seconds` each, one after another, on one engine that is busy throughout."""
    model = AnsweringModel(sequences)
    engine = LocalEngine(model, EngineSettings())
    await engine.start()
    segment = Segment.verbatim(TEXT, "sentence")
    is_over = False

    async def talk(number: int) -> None:
        session = engine.open_session(str(number))
        while not is_over:
            stream = session.open_stream(SpeechRequest("one", seed=number))
            stream.feed(segment)
            stream.feed(segment)
            stream.finish()
            async for _ in stream:
                pass

    talkers = [asyncio.create_task(talk(number), name=f"talk-{number}") for number in range(sequences)]
    await asyncio.sleep(1.0)
    measured = []
    for _ in range(rounds):
        before, model_before_s, items_before = engine.stats(), model.execute_s, model.decode_items
        began_s, began_cpu_s = time.perf_counter(), time.process_time() - model.execute_cpu_s
        await asyncio.sleep(seconds)
        after, model_s, items = engine.stats(), model.execute_s - model_before_s, model.decode_items - items_before
        wall_s = time.perf_counter() - began_s
        cpu_s = time.process_time() - model.execute_cpu_s - began_cpu_s
        ticks = after.ticks - before.ticks
        measured.append(
            Measured(
                sequences,
                ticks,
                items / ticks,
                1000 * (after.plan_s - before.plan_s) / ticks,
                1000 * (wall_s - model_s) / ticks,
                1000 * cpu_s / ticks,
                1000 * model_s / ticks,
            )
        )
    is_over = True
    await asyncio.gather(*talkers)
    await engine.close()
    return measured


def middle(rounds: Sequence[Measured]) -> Measured:
    """The median of each figure."""
    values = {field.name: median(getattr(one, field.name) for one in rounds) for field in fields(Measured)}
    return Measured(**values)


def main() -> None:
    parser = argparse.ArgumentParser(description="Loop overhead of the engine per tick, beside the model.")
    parser.add_argument("--sequences", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    where = machine()
    results = [
        middle(asyncio.run(measure(sequences, options.seconds, options.rounds))) for sequences in options.sequences
    ]
    head = ("sequences", "rows/tick", "core ms", "loop ms", "loop cpu ms", "model ms")
    rows = [
        (
            one.sequences,
            f"{one.rows_per_tick:.1f}",
            f"{one.core_ms:.3f}",
            f"{one.loop_ms:.3f}",
            f"{one.loop_cpu_ms:.3f}",
            f"{one.model_ms:.3f}",
        )
        for one in results
    ]
    note = (
        f"Per tick, median of {options.rounds} rounds of {options.seconds:g} s. Core: plan, commit and routing. "
        "Loop: all but the model's own time, by the clock and in processor time."
    )
    report = {"per_tick": [asdict(one) for one in results]}
    save("engine_step", "A tick of the engine beside the model", where, report, f"{table(head, rows)}\n\n{note}")


if __name__ == "__main__":
    main()
