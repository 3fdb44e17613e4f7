"""Higgs on an accelerator, in eight minutes: parity, steps against the bandwidth floor, first audio, streams, memory.

The 4B geometry in random bfloat16 weights made on the device, so no checkpoint and no network are needed. Random
weights hardly ever end a block, so a stream speaks until its text's limit of rows: a steady load.

    benchmarks/gpu.sh                    writes to $OUT, else to benchmarks/results
    python -m benchmarks.higgs_gpu --device cpu --geometry tiny --minutes 1
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.machine import machine, machine_line
from benchmarks.results import FOLDER, table
from engine import EngineSettings, LocalEngine
from engine.core.step import DecodeItem, Forget, Opening, Piece, PrefillItem, StepPlan
from engine.models.higgs.backbone import Backbone
from engine.models.higgs.checkpoint_config import read_geometry
from engine.models.higgs.codebooks import CodebookHead
from engine.models.higgs.codec import CodecDecoder
from engine.models.higgs.config import BackboneGeometry, CodecGeometry, HiggsGeometry, HiggsSettings
from engine.models.higgs.model import HiggsModel
from engine.models.higgs.prompt import PromptTokenizer
from engine.models.higgs.tiny_checkpoint import write_tiny_checkpoint
from engine.models.higgs.weights import HiggsParts, memory_plan, part_bytes, with_kv_that_fits
from engine.runtime.runaway import RunawayLimits
from engine.speech import Segment, SpeechRequest

FOUR_B = HiggsGeometry(
    BackboneGeometry(151936, 2560, 9728, 36, 32, 8, 128, 1e6, 1e-6, 32768), CodecGeometry(), 1026, True
)
STEP_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
FIRST_AUDIO_STREAMS = (1, 16, 64)
SUSTAINED_STREAMS = (16, 32, 64, 128, 192, 256)
CONTEXT_ROWS = 300
TEXT = "The bridge over the river was built by people who wanted to hear each other speak on a quiet morning. "
AUDIBLE_LEVEL = 10 ** (-50 / 20)
LOUDNESS = 0.1
"""Root mean square of the random model's noise."""
NEVER_ASTRAY = RunawayLimits(max_silence_s=1e9, max_repeat_s=1e9, silence_level=0.0)


@dataclass(frozen=True, slots=True)
class Clock:
    """The budget of the whole run."""

    ends_at_s: float

    @property
    def left_s(self) -> float:
        return self.ends_at_s - time.perf_counter()


def random_model(geometry: HiggsGeometry, settings: HiggsSettings, tokenizer: PromptTokenizer) -> HiggsModel:
    """The geometry in random weights, made on the device."""
    device, dtype = torch.device(settings.device), settings.torch_dtype
    generator = torch.Generator(device).manual_seed(0)
    backbone = Backbone(geometry.backbone, dtype, device, settings.is_rope_rounded)
    codebooks = CodebookHead(geometry.codebooks, geometry.codes, geometry.backbone.channels, True, dtype, device)
    decoder = CodecDecoder(geometry.codec, device)
    with torch.no_grad():
        for module in (backbone, codebooks, decoder):
            for name, parameter in module.named_parameters():
                if name.endswith(("alpha", "norm.weight", "q_norm", "k_norm")):
                    parameter.fill_(1.0)
                elif parameter.ndim == 1:
                    parameter.zero_()
                else:  # keeps a signal's size: smaller weights sink into denormal numbers, which are slow on a CPU
                    inputs = parameter.shape[0] if module is backbone else parameter[0].numel()
                    parameter.normal_(std=inputs**-0.5, generator=generator)
        decoder.prepare()
        codes = torch.randint(0, geometry.codec.entries, (1, 20, geometry.codebooks), device=device)
        decoder.acoustic_decoder.conv2.weight /= decoder(codes).std() / LOUDNESS
    settings = with_kv_that_fits(geometry, settings)
    plan = memory_plan(geometry, settings)
    return HiggsModel(geometry, settings, tokenizer, HiggsParts(backbone, codebooks, decoder, None), plan, True)


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def timed_ms(run: Callable[[], object], device: str, repeats: int) -> float:
    """Median milliseconds of a call, after two that are not counted."""
    for _ in range(2):
        run()
    synchronize(device)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        synchronize(device)
        times.append((time.perf_counter() - start) * 1e3)
    return median(times)


# ---- parity ------------------------------------------------------------------------------------------------------


def parity(device: str) -> dict[str, Any]:
    """The tiny checkpoint on the device against the CPU: rows that agree in float32, error of the sound, and whether
    the deterministic mode in bfloat16 gives the same rows alone and beside others."""

    def rows(folder: Path, beside: int, **changes: Any) -> tuple[Any, Any]:
        settings = HiggsSettings(
            max_sequences=8, max_decode_batch=8, max_context_tokens=512, max_block_rows=128, runaway=NEVER_ASTRAY
        )
        model = HiggsModel.load(folder, replace(settings, **changes))
        drive = Ticks(model)
        drive.open(1 + beside)
        for row in range(1, 60):
            drive.step(row)
        codes = model._rows.rows((beside, 0), 0, 60).cpu()
        with torch.inference_mode():
            pcm = model._parts.decoder(model._pattern.frames(codes)[None].to(model._device)).float().cpu()
        return codes, pcm

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tiny_checkpoint(folder)
        wanted, wanted_pcm = rows(folder, 0)
        found, _ = rows(folder, 0, device=device)
        both = torch.device(device)
        parts = HiggsModel.load(folder, HiggsSettings(device=device, max_context_tokens=512))._parts
        with torch.inference_mode():
            frames = HiggsModel.load(folder, HiggsSettings())._pattern.frames(wanted)
            pcm = parts.decoder(frames[None].to(both)).float().cpu()
        alone, _ = rows(folder, 0, device=device, dtype="bfloat16", is_deterministic=True)
        beside, _ = rows(folder, 5, device=device, dtype="bfloat16", is_deterministic=True)
    return {
        "float32_rows_equal_to_cpu": float((wanted == found).all(dim=1).float().mean()),
        "sound_relative_error": float((pcm - wanted_pcm).abs().max() / wanted_pcm.abs().max()),
        "deterministic_rows_equal_alone_and_beside": bool(torch.equal(alone, beside)),
    }


class Ticks:
    """Decode ticks of a number of sequences by plans of our own, with no scheduler. The last sequence has seed 7."""

    def __init__(self, model: HiggsModel) -> None:
        self.model = model
        self.text = model.prepare(Segment.verbatim(TEXT[:60], "sentence"), SpeechRequest("default", 0))
        self.tables: list[tuple[int, ...]] = []

    def open(self, streams: int) -> None:
        settings = self.model._settings
        pages = settings.max_context_tokens // settings.page_tokens
        pages = min(pages, self.model.spec.page_count // streams)
        self.model.execute(StepPlan(0, forgets=tuple(Forget(i, None) for i in range(512))))
        self.tables = [tuple(range(pages * i, pages * (i + 1))) for i in range(streams)]
        piece = Piece("text", 0, 0, self.text.tokens, self.text.payload)
        for first in range(0, streams, 16):
            lanes = range(first, min(streams, first + 16))
            seeds = {lane: 7 if lane == streams - 1 else lane for lane in lanes}
            self.model.execute(
                StepPlan(
                    1,
                    openings=tuple(Opening(i, 0, SpeechRequest("default", seeds[i])) for i in lanes),
                    prefill=tuple(PrefillItem(i, (piece,), 0, self.tables[i], 0) for i in lanes),
                )
            )

    def step(self, row: int, fed_row: int | None = None) -> None:
        """Sample row `row` of every sequence; `fed_row` sets another position, to measure a long context at once."""
        position = self.text.tokens + (row if fed_row is None else fed_row) - 1
        items = (DecodeItem(i, 0, row, position, table) for i, table in enumerate(self.tables))
        self.model.execute(StepPlan(row + 1, decode=tuple(items)))


# ---- steps -------------------------------------------------------------------------------------------------------


def read_bandwidth(device: str) -> float:
    """Bytes per second that a sum over a large tensor reads, the floor's yardstick."""
    size = 1 << (32 if device.startswith("cuda") else 27)
    data = torch.ones(size // 2, dtype=torch.bfloat16, device=device)
    return size / (timed_ms(lambda: data.sum(), device, 5) / 1e3)


def steps(model: HiggsModel, clock: Clock, budget_s: float) -> list[dict[str, Any]]:
    """Milliseconds of one decode tick by batch, beside the time to read the weights and the contexts once."""
    settings, geometry, device = model._settings, model._geometry, model._settings.device
    bandwidth = read_bandwidth(device)
    sizes = part_bytes(geometry, settings)
    b = geometry.backbone
    weights = sizes["backbone"] - b.max_positions * b.head_size * 4 + sizes["codebooks"]
    weights -= b.vocabulary * b.channels * settings.torch_dtype.itemsize
    until = time.perf_counter() + budget_s
    found = []
    for batch in STEP_BATCHES:
        if batch > settings.max_decode_batch or time.perf_counter() > until or clock.left_s < 30:
            break
        ticks = Ticks(model)
        ticks.open(batch)
        context = min(CONTEXT_ROWS, len(ticks.tables[0]) * settings.page_tokens - ticks.text.tokens - 1)
        ticks.step(1)
        ms = timed_ms(lambda ticks=ticks, context=context: ticks.step(2, context), device, 12)  # type: ignore[misc]
        kv = batch * (context + ticks.text.tokens) * settings.kv_geometry(b).page_bytes / settings.page_tokens
        floor = (weights + kv) / bandwidth * 1e3
        found.append(
            {"batch": batch, "ms": ms, "floor_ms": floor, "share_of_floor": floor / ms, "rows_per_s": batch / ms * 1e3}
        )
    model.execute(StepPlan(0, forgets=tuple(Forget(i, None) for i in range(512))))
    return found


def windows(model: HiggsModel) -> list[dict[str, Any]]:
    """Milliseconds of a vocoder batch by its number of windows and their length, context included."""
    device, found = model._settings.device, []
    for frames in (15, 30, 70):
        for batch in (1, 8, 32) if device.startswith("cuda") else (1, 4):
            codes = torch.randint(0, 1024, (batch, frames, model._geometry.codebooks), device=device)
            with torch.inference_mode():
                ms = timed_ms(lambda codes=codes: model._parts.decoder(codes), device, 5)  # type: ignore[misc]
            found.append({"windows": batch, "frames": frames, "ms": ms})
    return found


# ---- the whole engine --------------------------------------------------------------------------------------------


async def talk(engine: LocalEngine, streams: int, seconds: float) -> dict[str, Any]:
    """`streams` lanes that all begin within a fifth of a second and speak on; their listeners play in real time."""

    async def listen(number: int) -> tuple[float, float, float]:
        """(first audible audio, seconds heard late in all, seconds of audio) of one listener."""
        session = engine.open_session(f"bench {streams} {number}")
        await asyncio.sleep(0.2 * number / streams)
        stream = session.open_stream(SpeechRequest("default", number))
        began = time.perf_counter()
        for _ in range(4):
            stream.feed(Segment.verbatim(TEXT, "sentence"))
        first, ends_at, late, audio = 0.0, 0.0, 0.0, 0.0
        async for chunk in stream:
            now = time.perf_counter()
            if not first and len(chunk.pcm) and float(np.abs(chunk.pcm).max()) > AUDIBLE_LEVEL:
                first, ends_at = now - began, now
            if first:
                late += max(0.0, now - ends_at)
                ends_at = max(now, ends_at) + len(chunk.pcm) / engine.info.sample_rate_hz
                audio += len(chunk.pcm) / engine.info.sample_rate_hz
            if now - began > seconds:
                break
        session.close()
        return first, late, audio

    began = time.perf_counter()
    heard = await asyncio.gather(*(listen(number) for number in range(streams)))
    took = time.perf_counter() - began
    firsts = sorted(first for first, _, _ in heard)
    return {
        "streams": streams,
        "first_audio_ms": {
            "p50": firsts[len(firsts) // 2] * 1e3,
            "p95": firsts[min(len(firsts) - 1, int(len(firsts) * 0.95))] * 1e3,
        },
        "streams_that_ran_dry": sum(late > 0.02 for _, late, _ in heard),
        "audio_s_per_s": sum(audio for _, _, audio in heard) / took,
    }


async def engine_runs(model: HiggsModel, clock: Clock) -> dict[str, Any]:
    """First audio at a few loads, then more and more streams until one runs dry or the time is up."""
    engine = LocalEngine(model, EngineSettings())
    await engine.start()
    first_audio = [await talk(engine, n, 4.0) for n in FIRST_AUDIO_STREAMS if n <= model.spec.max_sequences]
    sustained = []
    for streams in SUSTAINED_STREAMS:
        if streams > model.spec.max_sequences or clock.left_s < 25:
            break
        sustained.append(await talk(engine, streams, 8.0))
        if sustained[-1]["streams_that_ran_dry"] > streams // 20:
            break
    await engine.close()
    return {"first_audio": first_audio, "sustained": sustained}


# ---- report ------------------------------------------------------------------------------------------------------


def report(found: dict[str, Any]) -> str:
    parts = [machine_line(found["machine"]), "```", json.dumps(found["parity"]), "```"]
    parts.append(
        table(
            ("batch", "ms a step", "bandwidth floor ms", "share", "rows per s"),
            [
                (
                    s["batch"],
                    f"{s['ms']:.2f}",
                    f"{s['floor_ms']:.2f}",
                    f"{s['share_of_floor']:.0%}",
                    f"{s['rows_per_s']:.0f}",
                )
                for s in found["steps"]
            ],
        )
    )
    parts.append(
        table(("windows", "frames", "ms"), [(w["windows"], w["frames"], f"{w['ms']:.2f}") for w in found["windows"]])
    )
    runs = [*found["engine"]["first_audio"], *found["engine"]["sustained"]]
    parts.append(
        table(
            ("streams", "first audio p50 ms", "p95 ms", "ran dry", "audio s per s"),
            [
                (
                    r["streams"], f"{r['first_audio_ms']['p50']:.0f}", f"{r['first_audio_ms']['p95']:.0f}",
                    r["streams_that_ran_dry"], f"{r['audio_s_per_s']:.1f}",
                )
                for r in runs
            ],
        )
    )  # fmt: skip
    memory = found["memory"]
    rows = [(name, f"{size / 2**20:.0f}") for name, size in memory["plan_bytes"].items()]
    parts.append(table(("memory", "MiB"), [*rows, ("peak allocated", f"{memory['peak_bytes'] / 2**20:.0f}")]))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--geometry", choices=("4b", "tiny"), default="4b")
    parser.add_argument("--minutes", type=float, default=7.5)
    arguments = parser.parse_args()
    clock = Clock(time.perf_counter() + arguments.minutes * 60)
    is_cuda = arguments.device.startswith("cuda")
    if not is_cuda:
        torch.set_num_threads(1)
    found: dict[str, Any] = {"machine": machine(), "parity": parity(arguments.device)}
    with tempfile.TemporaryDirectory() as name:
        write_tiny_checkpoint(Path(name))
        tokenizer = PromptTokenizer(Path(name) / "tokenizer.json")
        geometry = FOUR_B if arguments.geometry == "4b" else read_geometry(Path(name))
    settings = HiggsSettings(
        device=arguments.device, dtype="bfloat16" if is_cuda else "float32", max_sequences=256 if is_cuda else 16,
        max_decode_batch=256 if is_cuda else 16, max_prefill_tokens=2048, max_windows_per_tick=32,
        max_context_tokens=1024, max_block_rows=512, runaway=NEVER_ASTRAY,
    )  # fmt: skip
    model = random_model(geometry, settings, tokenizer)
    model.warm_up()
    found["steps"] = steps(model, clock, 0.35 * clock.left_s)
    found["windows"] = windows(model)
    found["engine"] = asyncio.run(engine_runs(model, clock))
    found["memory"] = {
        "plan_bytes": {part.name: part.size_bytes for part in model.memory.parts},
        "peak_bytes": torch.cuda.max_memory_allocated() if is_cuda else 0,
    }
    found["settings"] = {key: str(value) for key, value in asdict(settings).items()}
    folder = Path(os.environ.get("OUT") or FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "higgs_gpu.json").write_text(json.dumps(found, indent=2) + "\n")
    page = f"# Higgs on an accelerator\n\n{report(found)}\n"
    (folder / "higgs_gpu.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
