"""Rows per second of the Higgs decode path on this CPU, against transformers on the same weights, in one run.

A random model of about 60 million parameters, float32, one thread. Four contenders take turns, several rounds each:

    ours, S streams           one StepPlan a tick with S decode items: embedding, backbone over paged KV, head,
                              sampling, delay pattern, read-back
    transformers, one by one  a cached Qwen3Model loop per stream; S streams one after another go at this rate
    transformers, batched     the same loop over a batch of 16 equally long streams

Times are CPU seconds of the process, since a shared machine's wall time measures its neighbours too; both are given.

    python -m benchmarks.higgs_cpu [--rounds 3] [--rows 40]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import machine
from benchmarks.results import save, table
from engine.core.step import DecodeItem, Forget, Opening, Piece, PrefillItem, StepPlan
from engine.models.higgs.checkpoint_config import read_geometry
from engine.models.higgs.config import HiggsSettings
from engine.models.higgs.model import HiggsModel
from engine.models.higgs.tiny_checkpoint import TinyShape, write_tiny_checkpoint
from engine.runtime.weights import Checkpoint
from engine.speech import Segment, SpeechRequest

SHAPE = TinyShape(
    channels=640, inner=1792, layers=12, heads=10, kv_heads=5, head_size=64, decoder_channels=256, vocabulary=1024
)
STREAMS = (1, 4, 16)
CONTEXT_ROWS = 100
"""Rows before the measured ones."""
CONTEXT_TOKENS = 512
TEXT = "Hello there, my friend, how are you today?"


@dataclass(frozen=True, slots=True)
class Measured:
    """One turn of one contender."""

    rows: int
    cpu_s: float
    wall_s: float


def timed(rows: int, steps: int, step: Callable[[int], object]) -> Measured:
    """`steps` calls that make `rows` rows together, after CONTEXT_ROWS that are not counted."""
    for index in range(1, CONTEXT_ROWS):
        step(index)
    cpu, wall = time.process_time(), time.perf_counter()
    for index in range(CONTEXT_ROWS, CONTEXT_ROWS + steps):
        step(index)
    return Measured(rows, time.process_time() - cpu, time.perf_counter() - wall)


def ours(model: HiggsModel, streams: int, steps: int) -> Measured:
    """Decode ticks of `streams` sequences."""
    pages = CONTEXT_TOKENS // model.spec.page_tokens
    tables = [tuple(range(pages * i, pages * (i + 1))) for i in range(streams)]
    text = model.prepare(Segment.verbatim(TEXT, "sentence"), SpeechRequest("default", 0))
    piece = Piece("text", 0, 0, text.tokens, text.payload)
    model.execute(
        StepPlan(
            0,
            forgets=tuple(Forget(i, None) for i in range(max(STREAMS))),
        )
    )
    model.execute(
        StepPlan(
            1,
            openings=tuple(Opening(i, 0, SpeechRequest("default", i)) for i in range(streams)),
            prefill=tuple(PrefillItem(i, (piece,), 0, tables[i], 0) for i in range(streams)),
        )
    )

    def step(row: int) -> None:
        items = (DecodeItem(i, 0, row, text.tokens + row - 1, tables[i]) for i in range(streams))
        model.execute(StepPlan(row + 1, decode=tuple(items)))

    return timed(streams * steps, steps, step)


class Transformers:
    """A cached Qwen3Model loop with fused codebooks, sampling and the delay pattern, as one would write it."""

    def __init__(self, folder: Path) -> None:
        from transformers import DynamicCache, Qwen3Config, Qwen3Model

        geometry = read_geometry(folder)
        b = geometry.backbone
        config = Qwen3Config(
            vocab_size=b.vocabulary, hidden_size=b.channels, intermediate_size=b.inner, num_hidden_layers=b.layers,
            num_attention_heads=b.heads, num_key_value_heads=b.kv_heads, head_dim=b.head_size, rms_norm_eps=b.rms_eps,
            max_position_embeddings=b.max_positions, tie_word_embeddings=True, attention_bias=False,
            rope_parameters={"rope_type": "default", "rope_theta": b.rope_theta},
        )  # fmt: skip
        self.model = Qwen3Model(config).eval()
        checkpoint = Checkpoint(folder)
        tensors = {name: tensor.float() for name, tensor in checkpoint.read(checkpoint.entries).items()}
        names = {"embed_tokens.weight": "tied.embedding.text_embedding.weight", "norm.weight": "body.norm.weight"}
        self.model.load_state_dict({n: tensors[names.get(n, f"body.{n}")] for n in self.model.state_dict()})
        self.table = tensors["tied.embedding.modality_embeddings.0.embedding.weight"]
        self.codebooks, self.codes = geometry.codebooks, geometry.codes
        self.begin, self.new_cache = geometry.begin_code, DynamicCache

    def run(self, streams: int, steps: int) -> Measured:
        """`streams` as one batch."""
        torch.manual_seed(0)
        first = torch.arange(self.codebooks) * self.codes
        cache = self.new_cache()
        ids = torch.arange(len(TEXT) // 2).expand(streams, -1)
        with torch.inference_mode():
            hidden = self.model(input_ids=ids, past_key_values=cache, use_cache=True).last_hidden_state[:, -1]
            state = [self._sample(hidden, 0)]

            def step(row: int) -> None:
                x = torch.nn.functional.embedding(state[0] + first, self.table).sum(-2)[:, None]
                out = self.model(inputs_embeds=x, past_key_values=cache, use_cache=True)
                state[0] = self._sample(out.last_hidden_state[:, -1], row)
                state[0].tolist()

            return timed(streams * steps, steps, step)

    def _sample(self, hidden: Any, row: int) -> Any:
        logits = (hidden @ self.table.T).view(-1, self.codes) / 0.8
        values, codes = torch.topk(logits, 30)
        mass = torch.softmax(values, dim=-1)
        mass[mass.cumsum(-1) - mass > 0.8] = 0
        drawn = codes.gather(-1, torch.multinomial(mass, 1)).view(-1, self.codebooks)
        drawn[:, row + 1 :] = self.begin
        return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    at = machine()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tiny_checkpoint(folder, SHAPE)
        before = _resident_bytes()
        settings = HiggsSettings(max_context_tokens=CONTEXT_TOKENS, max_block_rows=CONTEXT_TOKENS)
        model = HiggsModel.load(folder, settings)
        oracle = Transformers(folder)
    parameters = sum(p.numel() for m in (model._parts.backbone, model._parts.codebooks) for p in m.parameters())
    contenders: dict[str, Callable[[], Measured]] = {
        f"ours, {streams} stream(s)": lambda streams=streams: ours(model, streams, arguments.rows)  # type: ignore[misc]
        for streams in STREAMS
    }
    contenders["transformers, one by one"] = lambda: oracle.run(1, arguments.rows)
    contenders["transformers, batch of 16"] = lambda: oracle.run(16, arguments.rows)
    best: dict[str, Measured] = {}
    for round_number in range(arguments.rounds):
        for contender, run in contenders.items():
            measured = run()
            if round_number == 0 or measured.cpu_s < best[contender].cpu_s:
                best[contender] = measured
    one_by_one = best["transformers, one by one"]
    base = one_by_one.rows / one_by_one.cpu_s
    rows = [
        (name, f"{m.rows / m.cpu_s:.1f}", f"{m.rows / m.wall_s:.1f}", f"{m.rows / m.cpu_s / base:.2f}")
        for name, m in best.items()
    ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    plan = table(("part", "MiB"), [(p.name, f"{p.size_bytes / 2**20:.1f}") for p in model.memory.parts])
    text = "\n\n".join(
        (
            f"{parameters / 1e6:.1f} M parameters, float32, one thread, contexts of {CONTEXT_ROWS} to "
            f"{CONTEXT_ROWS + arguments.rows} rows, best of {arguments.rounds} rounds taken in turn.",
            table(("contender", "rows per CPU second", "rows per second of wall time", "against one by one"), rows),
            f"Memory plan, {model.memory.total_bytes / 2**20:.0f} MiB in all:",
            plan,
            f"Resident memory before loading {before / 2**20:.0f} MiB, peak of the whole run (both models) "
            f"{peak / 2**20:.0f} MiB.",
        )
    )
    report = {
        "parameters": parameters,
        "contenders": {n: {"rows": m.rows, "cpu_s": m.cpu_s, "wall_s": m.wall_s} for n, m in best.items()},
        "memory_plan_bytes": {part.name: part.size_bytes for part in model.memory.parts},
        "resident_before_bytes": before,
        "resident_peak_bytes": peak,
    }
    save("higgs_cpu", "Higgs decode path on a CPU", at, report, text)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
