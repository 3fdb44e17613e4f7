"""Whole against token stream, sentence by sentence."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from benchmarks.meters.naturalness import Naturalness
from benchmarks.meters.recognition import RECOGNISER_RATE_HZ, Recogniser
from benchmarks.meters.signal import Steps, clicks, head_silence_s, join_steps, level_dbfs, resampled
from benchmarks.meters.speech import Speaker
from benchmarks.meters.statistics import Interval, bootstrap_mean, bootstrap_ratio
from benchmarks.results import table
from engine.speech import SpeechRequest

WAYS = ("whole", "stream")


def compare_fragments(speaker: Speaker, texts: list[str]) -> tuple[dict[str, Any], str]:
    """The report as data and as a page."""
    recogniser, naturalness = Recogniser("base"), Naturalness()
    rate_hz = speaker.model.info.sample_rate_hz
    rows: list[dict[str, Any]] = []
    joins: list[Steps] = []
    inner: list[Steps] = []
    for number, text in enumerate(texts):
        request = SpeechRequest(speaker.model.info.default_voice, seed=number)
        row: dict[str, Any] = {"text": text}
        for way, spoken in zip(WAYS, (speaker.whole(text, request), speaker.streamed(text, request)), strict=True):
            pcm_16k = resampled(spoken.pcm, rate_hz, RECOGNISER_RATE_HZ)
            errors = recogniser.errors(text, pcm_16k)
            row["words"] = errors.words
            row[way] = {
                "wrong": errors.wrong,
                "heard": errors.heard if errors.wrong else None,
                "mos": naturalness(pcm_16k),
                "level_dbfs": level_dbfs(spoken.pcm),
                "head_ms": 1000 * head_silence_s(spoken.pcm, rate_hz),
                "clicks": clicks(spoken, rate_hz),
                "duration_s": len(spoken.pcm) / rate_hz,
                "segments": len(spoken.segments),
            }
            if way == "stream":
                at_joins, elsewhere = join_steps(spoken, rate_hz)
                joins.append(at_joins)
                inner.append(elsewhere)
        rows.append(row)
        print(f"\r{number + 1}/{len(texts)} sentences", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return _report(rows, joins, inner)


def _report(rows: list[dict[str, Any]], joins: list[Steps], inner: list[Steps]) -> tuple[dict[str, Any], str]:
    words = np.asarray([row["words"] for row in rows], float)

    def column(way: str, name: str) -> np.ndarray:
        return np.asarray([row[way][name] for row in rows], float)

    def error_rate(wrong: np.ndarray) -> Interval:
        return bootstrap_ratio(100 * wrong, words)

    wer = {way: error_rate(column(way, "wrong")) for way in WAYS}
    mos = {way: bootstrap_mean(column(way, "mos")) for way in WAYS}
    wer_gap = error_rate(column("stream", "wrong") - column("whole", "wrong"))
    mos_gap = bootstrap_mean(column("stream", "mos") - column("whole", "mos"))
    is_cut = column("stream", "segments") > 1
    mos_gap_cut = bootstrap_mean((column("stream", "mos") - column("whole", "mos"))[is_cut])
    steps = {
        "join_level_p99_db": _percentile([step.level_db for step in joins]),
        "inner_level_p99_db": _percentile([step.level_db for step in inner]),
        "join_pitch_p99_semitones": _percentile([step.pitch_semitones for step in joins]),
        "inner_pitch_p99_semitones": _percentile([step.pitch_semitones for step in inner]),
        "joins": sum(len(step.level_db) for step in joins),
    }
    lines = [
        ["words wrong, %", wer["whole"], wer["stream"], wer_gap],
        ["DistilMOS", mos["whole"], mos["stream"], mos_gap],
        [f"DistilMOS, the {int(is_cut.sum())} that were cut", "", "", mos_gap_cut],
        ["level of speech, dBFS", *(f"{column(way, 'level_dbfs').mean():.1f}" for way in WAYS), ""],
        ["silence at the head, ms: mean", *(f"{column(way, 'head_ms').mean():.0f}" for way in WAYS), ""],
        ["silence at the head, ms: most", *(f"{column(way, 'head_ms').max():.0f}" for way in WAYS), ""],
        ["clicks at joins and ends", *(f"{column(way, 'clicks').sum():.0f}" for way in WAYS), ""],
        ["level step between words, dB: p99", f"{steps['inner_level_p99_db']:.1f} inside segments",
         f"{steps['join_level_p99_db']:.1f} at {steps['joins']} joins", ""],
        ["pitch step between words, semitones: p99", f"{steps['inner_pitch_p99_semitones']:.1f} inside segments",
         f"{steps['join_pitch_p99_semitones']:.1f} at joins", ""],
    ]  # fmt: skip
    text = (
        f"{len(rows)} sentences, {int(words.sum())} words, each spoken whole and as 50 tokens a second bring it. "
        "Intervals are 95 %, by a paired bootstrap over sentences.\n\n"
        + table(["", "whole", "token stream", "stream - whole"], lines)
    )
    report = {
        "wer_percent": {way: _plain(wer[way]) for way in WAYS} | {"gap": _plain(wer_gap)},
        "distilmos": {way: _plain(mos[way]) for way in WAYS} | {"gap": _plain(mos_gap), "gap_cut": _plain(mos_gap_cut)},
        "steps": steps,
        "sentences": rows,
    }
    return report, text


def _percentile(parts: list[np.ndarray]) -> float:
    values = np.abs(np.concatenate(parts)) if parts else np.zeros(0)
    return float(np.percentile(values, 99)) if len(values) else 0.0


def _plain(interval: Interval) -> dict[str, float]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}
