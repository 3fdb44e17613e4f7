"""Whether a voice stays itself through a session, and what the derived voices are worth."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from benchmarks.meters.naturalness import Naturalness, Speakers
from benchmarks.meters.recognition import RECOGNISER_RATE_HZ, Recogniser
from benchmarks.meters.signal import level_dbfs, resampled
from benchmarks.meters.speech import Speaker
from benchmarks.meters.statistics import bootstrap_ratio
from benchmarks.results import table
from engine.speech import SpeechRequest

TURNS = 10


def compare_voices(speaker: Speaker, texts: list[str]) -> tuple[dict[str, Any], str]:
    recogniser, naturalness, speakers = Recogniser("base"), Naturalness(), Speakers()
    rate_hz = speaker.model.info.sample_rate_hz
    report: dict[str, Any] = {}
    base_embedding = None
    for voice in speaker.model.info.voices:
        wrong, words, scores, levels, sounds = [], [], [], [], []
        for number, text in enumerate(texts):
            pcm = speaker.streamed(text, SpeechRequest(voice.id, seed=number)).pcm
            pcm_16k = resampled(pcm, rate_hz, RECOGNISER_RATE_HZ)
            errors = recogniser.errors(text, pcm_16k)
            wrong.append(errors.wrong)
            words.append(errors.words)
            scores.append(naturalness(pcm_16k))
            levels.append(level_dbfs(pcm))
            sounds.append(pcm_16k)
        pair = 2  # two sentences a turn: a short one alone is too little for the meter
        turns = [np.concatenate(sounds[at : at + pair]) for at in range(0, len(sounds) - pair + 1, pair)][:TURNS]
        embeddings = [speakers(turn) for turn in turns]
        to_first = [float(embedding @ embeddings[0]) for embedding in embeddings[1:]]
        halves = [float(speakers(turn[: len(turn) // 2]) @ speakers(turn[len(turn) // 2 :])) for turn in turns]
        mean = np.mean(embeddings, axis=0)
        mean /= np.linalg.norm(mean)
        base_embedding = mean if base_embedding is None else base_embedding
        wer = bootstrap_ratio(100 * np.asarray(wrong, float), np.asarray(words, float))
        report[voice.id] = {
            "wer_percent": {"mean": wer.mean, "low": wer.low, "high": wer.high},
            "distilmos": float(np.mean(scores)),
            "level_spread_db": float(np.std(levels)),
            "turns_to_first": float(np.mean(to_first)),
            "within_turns": float(np.mean(halves)),
            "likeness_to_base": float(mean @ base_embedding),
        }
        print(f"{voice.id}: DistilMOS {np.mean(scores):.2f}", file=sys.stderr)
    rows = [
        [
            name,
            f"{row['wer_percent']['mean']:.1f} [{row['wer_percent']['low']:.1f}, {row['wer_percent']['high']:.1f}]",
            f"{row['distilmos']:.2f}",
            f"{row['level_spread_db']:.1f}",
            f"{row['turns_to_first']:.3f}",
            f"{row['within_turns']:.3f}",
            f"{row['turns_to_first'] / row['within_turns']:.3f}",
            f"{row['likeness_to_base']:.2f}",
        ]
        for name, row in report.items()
    ]
    head = ["voice", "words wrong, %", "DistilMOS", "level, standard deviation, dB", "turns to the first, cosine",
            "halves of a turn, cosine", "ratio", "cosine to the base voice"]  # fmt: skip
    return report, f"{len(texts)} sentences each by the token, in {len(turns)} turns of two.\n\n" + table(head, rows)
