"""What a vocoder window loses by less right context than the codec reaches, and what its join sounds like.

Random weights in the public geometry's strides and kernels: they show the reach truly and exaggerate the size of the
error; run it with --checkpoint FOLDER for the real size. Per right context: error of a window's last frame and of its
last 5 frames (relative to the block's root mean square), the step at a hard cut, and the step after the cross-fade,
both against the largest step that the block's own decode makes there.

    python -m benchmarks.higgs_context [--checkpoint FOLDER]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.machine import machine
from benchmarks.results import save, table
from engine.models.higgs.config import HiggsSettings
from engine.models.higgs.model import TINY, HiggsModel
from engine.runtime.codec_stream import BlockJoin, CodecWindow, decode_windows

FRAMES = 120
WINDOW = 5
NEIGHBOURHOOD = 240
"""Samples on either side of a join whose largest step is the yardstick: 10 ms."""


def measure(model: HiggsModel, right: int) -> dict[str, Any]:
    codec = model._geometry.codec
    reach, spf = codec.decoder_reach_frames, codec.samples_per_frame
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, codec.entries, (FRAMES, codec.codebooks), generator=generator)
    with torch.inference_mode():
        whole = model._parts.decoder(codes[None])[0].numpy()
        spans = [
            (max(0, start - reach), start, start + WINDOW, min(FRAMES, start + WINDOW + right))
            for start in range(0, FRAMES, WINDOW)
        ]
        asked = [CodecWindow(codes[first:last], start - first, last - end) for first, start, end, last in spans]
        decoded = decode_windows(model._parts.decoder, asked, spf, 200)
    level = float(np.sqrt(np.mean(whole**2)))
    hard = np.concatenate([window.pcm for window in decoded])
    join = BlockJoin(0, round(0.02 * codec.sample_rate_hz), reach)
    soft = np.concatenate(
        [
            join.join(window, last - end, is_block_end=end == FRAMES)
            for window, (_, _, end, last) in zip(decoded, spans, strict=True)
        ]
    )
    error = np.abs(hard - whole).reshape(-1, WINDOW, spf)[:-3]
    joins = np.arange(WINDOW, FRAMES - reach, WINDOW) * spf

    def step(pcm: Any) -> float:
        steps = np.abs(np.diff(pcm))
        usual = np.array([np.abs(np.diff(whole[j - NEIGHBOURHOOD : j + NEIGHBOURHOOD])).max() for j in joins])
        return float(np.median(steps[joins - 1] / usual))

    return {
        "right_context_frames": right,
        "last_frame_error": float(np.sqrt(np.mean(error[:, -1] ** 2))) / level,
        "window_error": float(np.sqrt(np.mean(error**2))) / level,
        "hard_step": step(hard),
        "faded_step": step(soft),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", default=TINY)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    at = machine()
    settings = HiggsSettings(max_sequences=1, max_decode_batch=1, max_context_tokens=256, max_block_rows=64)
    model = HiggsModel.load(arguments.checkpoint, settings)
    found = [measure(model, right) for right in (0, 1, 2, 4, 6, 8, 9, 10)]
    rows = [
        (
            f["right_context_frames"], f"{f['last_frame_error']:.3g}", f"{f['window_error']:.3g}",
            f"{f['hard_step']:.2f}", f"{f['faded_step']:.2f}",
        )
        for f in found
    ]  # fmt: skip
    head = ("right context, frames", "error of last frame", "error of window", "step, hard cut", "step, cross-faded")
    kind = "random weights" if arguments.checkpoint == TINY else Path(arguments.checkpoint).name
    text = f"Windows of {WINDOW} frames, {kind}, float32.\n\n{table(head, rows)}"
    save("higgs_context", "Vocoder windows with less right context", at, {"contexts": found}, text)


if __name__ == "__main__":
    main()
