"""Loop overhead of the engine: what one tick costs beside the model.

    python benchmarks/engine_step.py [--sequences 64 256] [--seconds 20] [--json FILE]

A model that does nothing but answer is driven by the real LocalEngine with N lanes that decode at once. Reported per
tick: plan + commit + routing (`core`), and everything the loop spends that is not inside the model's own `execute`
(`loop`: core, both hops to the model thread, the readers), by the clock and in processor time (`loop cpu`, which other
work on the machine does not blow up). The aim is 0.3 ms at 64 sequences.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

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
from engine.speech import ModelInfo, Segment, Span, SpeechRequest, VoiceInfo

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
            RowOutcome(item.sequence, item.starts_block, 1, False)
            for item in plan.prefill
            if item.starts_block is not None
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


async def measure(sequences: int, seconds: float) -> Measured:
    model = AnsweringModel(sequences)
    engine = LocalEngine(model, EngineSettings())
    await engine.start()
    sources = tuple(Span(i, i + 1) for i in range(len(TEXT)))
    segment = Segment(TEXT, Span(0, len(TEXT)), sources, "sentence")
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
    await asyncio.sleep(seconds / 4)
    before, model_before_s, items_before = engine.stats(), model.execute_s, model.decode_items
    began_s, began_cpu_s = time.perf_counter(), time.process_time() - model.execute_cpu_s
    await asyncio.sleep(seconds)
    after, model_s, items = engine.stats(), model.execute_s - model_before_s, model.decode_items - items_before
    wall_s = time.perf_counter() - began_s
    cpu_s = time.process_time() - model.execute_cpu_s - began_cpu_s
    is_over = True
    await asyncio.gather(*talkers)
    await engine.close()
    ticks = after.ticks - before.ticks
    return Measured(
        sequences,
        ticks,
        items / ticks,
        1000 * (after.plan_s - before.plan_s) / ticks,
        1000 * (wall_s - model_s) / ticks,
        1000 * cpu_s / ticks,
        1000 * model_s / ticks,
    )


def machine_line() -> dict[str, object]:
    """What the numbers were measured on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    root = Path(__file__).resolve().parent.parent
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=root, check=False)
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "revision": git.stdout.strip() or "unknown",
        "load_1m": round(os.getloadavg()[0], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sequences", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--seconds", type=float, default=5.0, help="measured time for each number of sequences")
    parser.add_argument("--json", type=Path, help="write the result there as well")
    options = parser.parse_args()
    machine = machine_line()
    results = [asyncio.run(measure(sequences, options.seconds)) for sequences in options.sequences]
    print("  ".join(f"{key}: {value}" for key, value in machine.items()))
    print(
        f"{'sequences':>9} {'ticks':>8} {'rows/tick':>9} {'core ms':>9} {'loop ms':>9} {'loop cpu':>9} {'model ms':>9}"
    )
    for one in results:
        print(
            f"{one.sequences:9d} {one.ticks:8d} {one.rows_per_tick:9.1f} "
            f"{one.core_ms:9.3f} {one.loop_ms:9.3f} {one.loop_cpu_ms:9.3f} {one.model_ms:9.3f}"
        )
    report = {
        "machine": machine,
        "results": [{name: getattr(one, name) for name in Measured.__dataclass_fields__} for one in results],
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    else:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
