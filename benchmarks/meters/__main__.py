"""How well the embedded voice is understood, how natural it is, and what the token stream costs it.

    python -m benchmarks.meters [fragments] [presets] [voices] [--sentences N] [--short]

fragments: each sentence spoken whole and as 50 tokens a second bring it, through the real front-end; scored by Whisper
base (word error rate), DistilMOS (naturalness), and the samples (clicks, steps at joins, silence at the head), paired.
presets: what every family of emotions, each style and the other tags do to intelligibility and naturalness, and
whether families are told apart by features that they do not set.
voices: likeness of a voice's turns (Resemblyzer), and the derived voices.

--short is for CI: 24 sentences, Whisper tiny.en, no torch; exit status 1 where the gates are missed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.meters.fragments import compare_fragments
from benchmarks.meters.presets import compare_presets
from benchmarks.meters.short import run_short
from benchmarks.meters.speech import Speaker
from benchmarks.meters.voices import compare_voices
from benchmarks.results import save
from engine.models import load_model

SENTENCES = Path(__file__).parent / "sentences.txt"
PARTS = ("fragments", "presets", "voices")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}; default all")
    parser.add_argument("--sentences", type=int, default=None, metavar="N", help="only so many, spread over the set")
    parser.add_argument("--short", action="store_true", help="the short form for CI")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {sorted(unknown)[0]!r}; parts: {', '.join(PARTS)}")
    found = machine()
    texts = SENTENCES.read_text(encoding="utf-8").splitlines()
    model = load_model("hibari")
    model.warm_up()
    speaker = Speaker(model)
    if options.short:
        return run_short(speaker, texts)
    if "fragments" in options.parts:
        report, text = compare_fragments(speaker, _spread(texts, options.sentences or len(texts)))
        save("meters_fragments", "The embedded voice, whole and by the token", found, report, text)
    if "presets" in options.parts:
        report, text = compare_presets(speaker, _spread(texts, min(options.sentences or 40, 40)))
        save("meters_presets", "Tags of the embedded voice", found, report, text)
    if "voices" in options.parts:
        report, text = compare_voices(speaker, _spread(texts, min(options.sentences or 20, 20)))
        save("meters_voices", "Voices of the embedded model", found, report, text)
    return 0


def _spread(texts: list[str], count: int) -> list[str]:
    """`count` of them, evenly spread, so that every kind is among them."""
    return [texts[index * len(texts) // count] for index in range(count)]


if __name__ == "__main__":
    sys.exit(main())
