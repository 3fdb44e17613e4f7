"""What tags do: intelligibility of every preset, and features that tell them apart without having been set."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.meters.recognition import RECOGNISER_RATE_HZ, Recogniser
from benchmarks.meters.signal import level_dbfs, pitch_hz, resampled
from benchmarks.meters.speech import Speaker
from benchmarks.meters.statistics import bootstrap_ratio
from benchmarks.results import table
from engine.speech import Control, ControlCategory, Span, SpeechRequest

PRESETS: tuple[tuple[str, ControlCategory | None, str, float | None], ...] = (
    ("none", None, "", None),
    ("bright (elation)", "emotion", "elation", None),
    ("firm (anger)", "emotion", "anger", None),
    ("tense (fear)", "emotion", "fear", None),
    ("tender (affection)", "emotion", "affection", None),
    ("subdued (sadness)", "emotion", "sadness", None),
    ("pensive (contemplation)", "emotion", "contemplation", None),
    ("whispering", "style", "whispering", None),
    ("shouting", "style", "shouting", None),
    ("speed_very_slow", "prosody", "speed_very_slow", None),
    ("speed_very_fast", "prosody", "speed_very_fast", None),
    ("pitch_low", "prosody", "pitch_low", None),
    ("pitch_high", "prosody", "pitch_high", None),
    ("expressive_high", "prosody", "expressive_high", None),
    ("expressive_low", "prosody", "expressive_low", None),
    ("pitch +4", "prosody", "pitch", 4.0),
    ("pitch -4", "prosody", "pitch", -4.0),
)


def compare_presets(speaker: Speaker, texts: list[str]) -> tuple[dict[str, Any], str]:
    recogniser = Recogniser("base")
    rate_hz = speaker.model.info.sample_rate_hz
    report: dict[str, Any] = {}
    for name, category, value, amount in PRESETS:
        controls = () if category is None else (Control(category, value, 0, Span(0, 0), amount),)
        wrong, words = [], []
        features: list[list[float]] = []
        for number, text in enumerate(texts):
            request = SpeechRequest(speaker.model.info.default_voice, seed=number)
            pcm = speaker.whole(text, request, controls).pcm
            errors = recogniser.errors(text, resampled(pcm, rate_hz, RECOGNISER_RATE_HZ))
            wrong.append(errors.wrong)
            words.append(errors.words)
            features.append(_features(pcm, rate_hz))
        means = np.nanmean(np.asarray(features), axis=0)
        wer = bootstrap_ratio(100 * np.asarray(wrong, float), np.asarray(words, float))
        report[name] = {
            "wer_percent": {"mean": wer.mean, "low": wer.low, "high": wer.high},
            "duration_s": means[0],
            "level_dbfs": means[1],
            "pitch_hz": means[2],
            "pitch_spread_semitones": means[3],
            "centroid_hz": means[4],
            "voiced_share": means[5],
        }
        print(f"{name}: {wer} % of words wrong", file=sys.stderr)
    rows = [
        [
            name,
            f"{row['wer_percent']['mean']:.1f} [{row['wer_percent']['low']:.1f}, {row['wer_percent']['high']:.1f}]",
            f"{row['duration_s']:.2f}",
            f"{row['level_dbfs']:.1f}",
            f"{row['pitch_hz']:.0f}",
            f"{row['pitch_spread_semitones']:.1f}",
            f"{row['centroid_hz']:.0f}",
            f"{100 * row['voiced_share']:.0f}",
        ]
        for name, row in report.items()
    ]
    head = ["preset", "words wrong, %", "duration, s", "level, dBFS", "pitch, Hz", "its spread, semitones",
            "spectral centroid, Hz", "voiced, %"]  # fmt: skip
    return report, f"{len(texts)} sentences each, spoken whole; Whisper base.\n\n" + table(head, rows)


def _features(pcm: NDArray[np.float32], rate_hz: int) -> list[float]:
    width = round(0.040 * rate_hz)
    frames = [pcm[start : start + width] for start in range(0, len(pcm) - width, width // 2)]
    loud = [frame for frame in frames if np.mean(frame**2) > 10 ** (-45 / 10)]
    pitches = np.asarray([pitch for pitch in (pitch_hz(frame, rate_hz) for frame in loud) if pitch])
    spectrum = np.abs(np.fft.rfft(pcm)) ** 2
    hz = np.fft.rfftfreq(len(pcm), 1 / rate_hz)
    return [
        len(pcm) / rate_hz,
        level_dbfs(pcm),
        float(np.exp(np.mean(np.log(pitches)))) if len(pitches) else float("nan"),
        float(np.std(12 * np.log2(pitches))) if len(pitches) else float("nan"),
        float(np.sum(spectrum * hz) / np.sum(spectrum)),
        len(pitches) / max(len(loud), 1),
    ]
