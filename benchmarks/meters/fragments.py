"""Whole against token stream, sentence by sentence."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from benchmarks.meters.joins import Joins, gates, gather_joins, join_report
from benchmarks.meters.naturalness import Naturalness
from benchmarks.meters.recognition import RECOGNISER_RATE_HZ, Recogniser
from benchmarks.meters.signal import clicks, head_silence_s, level_dbfs, resampled
from benchmarks.meters.speech import Speaker, Spoken
from benchmarks.meters.statistics import Interval, bootstrap_mean, bootstrap_ratio
from benchmarks.results import table
from engine.speech import SpeechRequest

WAYS = ("whole", "stream")
MAX_HEAD_MS = 60
MAX_MOS_GAP = 0.1


def compare_fragments(speaker: Speaker, texts: list[str]) -> tuple[dict[str, Any], str]:
    """The report as data and as a page."""
    recogniser, naturalness = Recogniser("base"), Naturalness()
    rate_hz = speaker.model.info.sample_rate_hz
    rows: list[dict[str, Any]] = []
    renderings: list[tuple[Spoken, Spoken]] = []
    for number, text in enumerate(texts):
        request = SpeechRequest(speaker.model.info.default_voice, seed=number)
        row: dict[str, Any] = {"text": text}
        both = speaker.whole(text, request), speaker.streamed(text, request)
        renderings.append(both)
        for way, spoken in zip(WAYS, both, strict=True):
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
        rows.append(row)
        print(f"\r{number + 1}/{len(texts)} sentences", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    plain = SpeechRequest(speaker.model.info.default_voice, seed=0)
    return _report(rows, gather_joins(renderings, lambda text: speaker.whole(text, plain), rate_hz))


def _report(rows: list[dict[str, Any]], joins: Joins) -> tuple[dict[str, Any], str]:
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
    join_data, paired_rows, mark_rows = join_report(joins)
    longest_head_ms = max(column(way, "head_ms").max() for way in WAYS)
    clicked = sum(column(way, "clicks").sum() for way in WAYS)
    held = {
        f"silence at the head: {longest_head_ms:.0f} ms at most, {MAX_HEAD_MS} allowed": bool(
            longest_head_ms <= MAX_HEAD_MS
        ),
        f"clicks: {clicked:.0f}": bool(clicked == 0),
        f"DistilMOS, stream - whole: {mos_gap.mean:+.3f}, within ± {MAX_MOS_GAP} with its interval": max(
            abs(mos_gap.low), abs(mos_gap.high)
        )
        <= MAX_MOS_GAP,
        **gates(join_data),
    }
    lines = [
        ["words wrong, %", wer["whole"], wer["stream"], wer_gap],
        ["DistilMOS", mos["whole"], mos["stream"], mos_gap],
        [f"DistilMOS, the {int(is_cut.sum())} that were cut", "", "", mos_gap_cut],
        ["level of speech, dBFS", *(f"{column(way, 'level_dbfs').mean():.1f}" for way in WAYS), ""],
        ["silence at the head, ms: mean", *(f"{column(way, 'head_ms').mean():.0f}" for way in WAYS), ""],
        ["silence at the head, ms: most", *(f"{column(way, 'head_ms').max():.0f}" for way in WAYS), ""],
        ["clicks at joins and ends", *(f"{column(way, 'clicks').sum():.0f}" for way in WAYS), ""],
    ]  # fmt: skip
    text = (
        f"{len(rows)} sentences, {int(words.sum())} words, each spoken whole and as 50 tokens a second bring it. "
        "Intervals are 95 %, by a paired bootstrap over sentences.\n\n"
        + table(["", "whole", "token stream", "stream - whole"], lines)
        + f"\n\nThe {len(joins.pairs)} joins inside sentences, against the same two words where the sentence is one "
        "segment. Most stand at a comma, where the level falls and rises whoever speaks; so the step is also taken "
        "from the last sound before the pause to the first after it.\n\n"
        + table(["", "at joins", "the same words, whole", "join - whole"], paired_rows)
        + "\n\nBy what is written between the words: p50 / p95 / p99 (places).\n\n"
        + table(["", "written", "at joins", "the same words, whole", "inside the stream's segments"], mark_rows)
        + "\n\nGates:\n\n"
        + "\n".join(f"- {'held' if holds else 'MISSED'}: {gate}" for gate, holds in held.items())
    )
    report = {
        "wer_percent": {way: _plain(wer[way]) for way in WAYS} | {"gap": _plain(wer_gap)},
        "distilmos": {way: _plain(mos[way]) for way in WAYS} | {"gap": _plain(mos_gap), "gap_cut": _plain(mos_gap_cut)},
        "joins": join_data,
        "gates": held,
        "sentences": rows,
    }
    return report, text


def _plain(interval: Interval) -> dict[str, float]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}
