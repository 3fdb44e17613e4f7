"""Memory that the Higgs family really takes of this CPU, against the plan that it declares before loading.

A random model of about 60 million parameters with its voice encoder. A thread samples the process's own (anonymous)
memory every few milliseconds while the model loads, warms up, speaks in every lane at once up to the blocks' limits
through the real scheduler, and encodes a reference of the longest length. What stands for each part of the plan is not
told apart by the system: the sums are compared.

    python -m benchmarks.higgs_memory [--sequences 16]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from benchmarks.higgs_cpu import SHAPE
from benchmarks.machine import machine
from benchmarks.results import save, table
from engine import EngineSettings
from engine.core.scheduler import Scheduler, Spoken
from engine.models.higgs.config import HiggsSettings
from engine.models.higgs.model import HiggsModel
from engine.models.higgs.tiny_checkpoint import write_tiny_checkpoint
from engine.speech import Segment, SpeechRequest

TEXT = "Every lane says the same sentence, and goes on until it meets the limit of its rows."
SAMPLED_EVERY_S = 0.003
MIB = 1 << 20


class Peak:
    """The most that was seen of a figure since the last `take`."""

    def __init__(self) -> None:
        self._most = own_bytes()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak", daemon=True)

    @contextmanager
    def watched(self) -> Iterator[Peak]:
        self._thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            self._thread.join()

    def take(self) -> int:
        most, self._most = max(self._most, own_bytes()), 0
        return most

    def _watch(self) -> None:
        while not self._is_over.wait(SAMPLED_EVERY_S):
            self._most = max(self._most, own_bytes())


def own_bytes() -> int:
    """Resident memory of this process that no file backs."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon:")).split()[1]) << 10


def speak_everywhere(model: HiggsModel, lanes: int) -> int:
    """Two utterances of two segments in each lane, all at once; answers the rows made."""
    scheduler = Scheduler(model.spec, EngineSettings().pacing, model.prepare, np.zeros(0, np.float32))
    segment = Segment.verbatim(TEXT, "sentence")
    for lane in range(lanes):
        sequence = scheduler.open_sequence()
        for turn in range(2):
            request = SpeechRequest("default", 2 * lane + turn)
            utterance = scheduler.open_utterance(sequence, request, model.prepare_prompt(request))
            for _ in range(2):
                scheduler.extend(utterance, segment, 0.0)
            scheduler.finish(utterance, 0.0)
    now_s = 0.0
    while (plan := scheduler.plan(now_s)) is not None:
        now_s += 0.05
        for delivery in scheduler.commit(plan, model.execute(plan), now_s):
            if isinstance(delivery, Spoken):
                scheduler.read(delivery.utterance, len(delivery.chunk.pcm))
    return scheduler.counters.rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=16)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    at = machine()
    stages: list[tuple[str, int]] = []
    with tempfile.TemporaryDirectory() as name:
        write_tiny_checkpoint(Path(name) / "checkpoint", SHAPE)
        settings = HiggsSettings(
            max_sequences=arguments.sequences,
            max_decode_batch=arguments.sequences,
            max_context_tokens=1024,
            max_block_rows=160,
            voices=Path(name) / "voices",
        )
        before = own_bytes()
        with Peak().watched() as peak:
            model = HiggsModel.load(Path(name) / "checkpoint", settings)
            stages.append(("loading", peak.take()))
            model.warm_up()
            stages.append(("warming up", peak.take()))
            began_s = time.perf_counter()
            rows = speak_everywhere(model, arguments.sequences)
            took_s = time.perf_counter() - began_s
            stages.append((f"speaking in {arguments.sequences} lanes", peak.take()))
            rate_hz = model.info.sample_rate_hz
            noise = np.random.default_rng(0).normal(0, 0.1, round(settings.max_voice_s * rate_hz)).astype(np.float32)
            model._encode(noise)
            stages.append((f"encoding {settings.max_voice_s:g} s of reference", peak.take()))
    plan = model.memory
    most = max(size for _, size in stages) - before
    text = "\n\n".join(
        (
            f"{rows:,} rows in {took_s:.0f} s, float32, one thread. Own memory before loading {before / MIB:,.0f} MiB; "
            "the rest is counted from there.",
            table(
                ("part of the plan", "MiB"),
                [*((part.name, f"{part.size_bytes / MIB:,.1f}") for part in plan.parts),
                 ("in all", f"{plan.total_bytes / MIB:,.1f}")],
            ),
            table(("peak while", "MiB"), [(stage, f"{(size - before) / MIB:,.1f}") for stage, size in stages]),
            f"The peak is {most / plan.total_bytes:.2f} of the plan.",
        )
    )  # fmt: skip
    report = {
        "plan_bytes": {part.name: part.size_bytes for part in plan.parts},
        "before_bytes": before,
        "peak_bytes": dict(stages),
        "peak_to_plan": most / plan.total_bytes,
        "rows": rows,
    }
    save("higgs_memory", "Memory of the Higgs family against its plan", at, report, text)


if __name__ == "__main__":
    main()
