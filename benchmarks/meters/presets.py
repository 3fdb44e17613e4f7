"""What tags do: intelligibility and naturalness of every preset, and whether families of emotions can be told apart."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.meters.manner import FEATURES, manner
from benchmarks.meters.naturalness import Naturalness, Speakers
from benchmarks.meters.recognition import RECOGNISER_RATE_HZ, Recogniser
from benchmarks.meters.separation import PERMUTATIONS, Separation, beside, separate
from benchmarks.meters.signal import Samples, level_dbfs, pitch_hz, resampled
from benchmarks.meters.speech import Speaker, Spoken
from benchmarks.meters.statistics import Interval, bootstrap_ratio
from benchmarks.results import table
from engine.speech import Control, ControlCategory, Span, SpeechRequest

FAMILIES: Final[tuple[tuple[str, str], ...]] = (
    ("bright", "elation"),
    ("firm", "anger"),
    ("tense", "fear"),
    ("tender", "affection"),
    ("subdued", "sadness"),
    ("pensive", "contemplation"),
)
"""Each family, and the tag that stands for it here."""
PLAIN: Final = "none"
PRESETS: Final[tuple[tuple[str, ControlCategory | None, str, float | None], ...]] = (
    (PLAIN, None, "", None),
    *((f"{family} ({emotion})", "emotion", emotion, None) for family, emotion in FAMILIES),
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
KINDS: Final = (PLAIN, *(family for family, _ in FAMILIES))
_SCORED_SENTENCES: Final = 20
"""Of those given, so many (evenly spread) are shown to the recogniser and the meter of naturalness, which cost most."""
_TOLD_APART: Final = 0.75
"""Two families are told apart where this share of their renderings is given its own, with its interval above chance."""


@dataclass(frozen=True, slots=True)
class _Rendering:
    """One sentence in one preset."""

    spoken: Spoken
    pcm_16k: Samples


def compare_presets(speaker: Speaker, texts: list[str]) -> tuple[dict[str, Any], str]:
    """The report as data and as a page."""
    recogniser, naturalness = Recogniser("base"), Naturalness()
    rate_hz = speaker.model.info.sample_rate_hz
    scored = sorted({index * len(texts) // _SCORED_SENTENCES for index in range(_SCORED_SENTENCES)})
    report: dict[str, Any] = {}
    kinds: list[list[_Rendering]] = []
    for name, category, value, amount in PRESETS:
        controls = () if category is None else (Control(category, value, 0, Span(0, 0), amount),)
        is_kind = category in (None, "emotion")
        renderings: list[_Rendering] = []
        for number, text in enumerate(texts):
            if is_kind or number in scored:
                spoken = speaker.whole(text, SpeechRequest(speaker.model.info.default_voice, seed=number), controls)
                renderings.append(_Rendering(spoken, resampled(spoken.pcm, rate_hz, RECOGNISER_RATE_HZ)))
        if is_kind:
            kinds.append(renderings)
            renderings = [renderings[number] for number in scored]
        report[name] = _scores(renderings, recogniser, naturalness, rate_hz)
        print(f"{name}: {report[name]['wer_percent']['mean']:.2f} % of words wrong", file=sys.stderr)
    separations = _separations(kinds, Recogniser("tiny.en"), rate_hz)
    text = (
        f"{len(scored)} sentences each, spoken whole; Whisper base, DistilMOS.\n\n"
        + _scores_table(report)
        + "\n\n## Families told apart\n\n"
        + _separation_text(separations, len(texts))
    )
    return {"presets": report, "families": {name: _data(found) for name, found in separations.items()}}, text


def _scores(
    renderings: list[_Rendering], recogniser: Recogniser, naturalness: Naturalness, rate_hz: int
) -> dict[str, Any]:
    errors = [recogniser.errors(rendering.spoken.text, rendering.pcm_16k) for rendering in renderings]
    wer = bootstrap_ratio(
        100 * np.asarray([error.wrong for error in errors], float), np.asarray([error.words for error in errors], float)
    )
    means = np.nanmean([_features(rendering.spoken.pcm, rate_hz) for rendering in renderings], axis=0)
    return {
        "wer_percent": _plain(wer),
        "distilmos": float(np.mean([naturalness(rendering.pcm_16k) for rendering in renderings])),
        "duration_s": means[0],
        "level_dbfs": means[1],
        "pitch_hz": means[2],
        "pitch_spread_semitones": means[3],
        "centroid_hz": means[4],
        "voiced_share": means[5],
    }


def _scores_table(report: dict[str, Any]) -> str:
    rows = [
        [
            name,
            f"{row['wer_percent']['mean']:.1f} [{row['wer_percent']['low']:.1f}, {row['wer_percent']['high']:.1f}]",
            f"{row['distilmos']:.2f}",
            f"{row['duration_s']:.2f}",
            f"{row['level_dbfs']:.1f}",
            f"{row['pitch_hz']:.0f}",
            f"{row['pitch_spread_semitones']:.1f}",
            f"{row['centroid_hz']:.0f}",
            f"{100 * row['voiced_share']:.0f}",
        ]
        for name, row in report.items()
    ]
    head = ["preset", "words wrong, %", "DistilMOS", "duration, s", "level, dBFS", "pitch, Hz",
            "its spread, semitones", "spectral centroid, Hz", "voiced, %"]  # fmt: skip
    return table(head, rows)


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


def _separations(kinds: list[list[_Rendering]], recogniser: Recogniser, rate_hz: int) -> dict[str, Separation]:
    """By what families do not set, group by group and all together, and by two nets that know nothing of them."""
    sentences = list(zip(*kinds, strict=True))
    speakers = Speakers()
    own, likeness, encodings = [], [], []
    for number, row in enumerate(sentences):
        own.append([manner(rendering.spoken, rate_hz) for rendering in row])
        likeness.append([speakers(rendering.pcm_16k).astype(np.float64) for rendering in row])
        encodings.append([recogniser.encoded(rendering.pcm_16k, row[0].pcm_16k) for rendering in row])
        print(f"\r{number + 1}/{len(sentences)} sentences compared", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    features = np.asarray(own)
    found = {"all of these, a rendering alone": separate(features), "all of these": separate(beside(features))}
    at = 0
    for group, names in FEATURES.items():
        found[group] = separate(beside(features[:, :, at : at + len(names)]))
        at += len(names)
    found["Whisper's encoder, made alike"] = separate(beside(np.asarray(encodings)))
    found["Resemblyzer"] = separate(beside(np.asarray(likeness)))
    return found


def _separation_text(separations: dict[str, Separation], sentences: int) -> str:
    rows = [
        [
            name,
            f"{100 * found.accuracy.mean:.0f} [{100 * found.accuracy.low:.0f}, {100 * found.accuracy.high:.0f}]",
            f"{100 * found.chance_p95:.0f}",
            f"{found.p_value:.3f}",
        ]
        for name, found in separations.items()
    ]
    main = separations["all of these"]
    confusion = [
        [true, *(str(count) for count in counts)] for true, counts in zip(KINDS, main.confusion.tolist(), strict=True)
    ]
    nets = [separations[name] for name in ("Whisper's encoder, made alike", "Resemblyzer")]
    pairs = [
        [f"{KINDS[a]} - {KINDS[b]}", *(_pair_text(found.pairs[a, b]) for found in (main, *nets))] for a, b in main.pairs
    ]
    alike = [f"{KINDS[a]} and {KINDS[b]}" for (a, b), accuracy in main.pairs.items() if not _is_told_apart(accuracy)]
    verdict = f"Not told apart by these features: {', '.join(alike)}." if alike else "Every pair is told apart."
    listed = "; ".join(f"{group}: {', '.join(names)}" for group, names in FEATURES.items())
    return (
        f"{len(KINDS)} kinds (no tag, and the families), {sentences} sentences. A linear classifier that never saw the "
        "sentence, and hears it in all kinds (their mean is taken out; in the first row it hears one rendering alone). "
        f"Chance is {100 / len(KINDS):.0f} %; p by {PERMUTATIONS} shuffles of the kinds inside sentences.\n\n"
        f"Features that no family sets (benchmarks/meters/manner.py): {listed}. What families do set is taken out "
        "before they are measured; what of it comes through by side effects cannot be. Two nets beside, which know "
        "nothing of families: the encoder of Whisper tiny over speech made as long, loud and bright as the untagged; "
        "and Resemblyzer. Both hear the pitch and the breath too.\n\n"
        + table(["by", "given their own kind, %", "95 % of shuffles below, %", "p"], rows)
        + "\n\nBy all of these features: true kind down, given kind across.\n\n"
        + table(["", *KINDS], confusion)
        + "\n\nTwo kinds at a time, % given their own (chance is 50).\n\n"
        + table(["pair", "features not set", "Whisper's encoder, made alike", "Resemblyzer"], pairs)
        + f"\n\n{verdict} (Told apart: at least {100 * _TOLD_APART:.0f} %, and the interval above 50.)"
    )


def _is_told_apart(accuracy: Interval) -> bool:
    return accuracy.mean >= _TOLD_APART and accuracy.low > 0.5


def _pair_text(accuracy: Interval) -> str:
    return f"{100 * accuracy.mean:.0f} [{100 * accuracy.low:.0f}, {100 * accuracy.high:.0f}]"


def _data(found: Separation) -> dict[str, Any]:
    return {
        "accuracy": _plain(found.accuracy),
        "chance": found.chance,
        "shuffled_p95": found.chance_p95,
        "p_value": found.p_value,
        "confusion": found.confusion.tolist(),
        "pairs": {f"{KINDS[a]} - {KINDS[b]}": _plain(accuracy) for (a, b), accuracy in found.pairs.items()},
    }


def _plain(interval: Interval) -> dict[str, float]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}
