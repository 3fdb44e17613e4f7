"""Joins of segments against the same two words where the sentence is spoken whole, and against like places elsewhere.

Most joins stand at a comma, where speech pauses: the step of level there is the pause, whoever makes it. So each join
is compared with the same pair of words inside the one segment of the sentence spoken whole, once as it stands and once
with the pause taken out (the sound before it against the sound after it), and with the boundaries inside segments that
are written with a mark of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.meters.signal import AUDIBLE_BELOW_PEAK_DB, STEP_S, Samples, levels_dbfs, pitch_hz, pitch_track, power
from benchmarks.meters.speech import Spoken
from benchmarks.meters.statistics import Interval, bootstrap_mean, bootstrap_percentile_gap
from engine.speech import WordTiming

Mark = Literal["none", "comma", "stronger"]
"""What is written between two words: nothing, a comma, or a stronger mark (; : dashes and what ends a sentence)."""

_SIDE_S: Final = 0.150
"""Of sound on either side that is compared."""
_JOIN_REACH_S: Final = 0.060
"""A segment may begin so long after the word that it begins with."""
_MIN_PAUSE_STEPS: Final = 2
_TRACK_S: Final = 0.700
_FALL_S: Final = 0.200
_MIN_FALL_S: Final = 0.080
"""The fall before a boundary is that of the last voiced 200 ms, of at least 80 ms."""
_END_S: Final = 0.050
"""The pitch where it ends is the median of so much."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """What is heard between two words. Steps: after less before, over 150 ms each; None where a side is unvoiced."""

    place: tuple[int, int]
    """In the text: the end of the word before, the start of the word after."""
    is_join: bool
    mark: Mark
    pause_s: float
    level_db: float
    """From the end of the word before to the start of the word after, as they are timed: the pause counts."""
    pitch_semitones: float | None
    sound_level_db: float
    """From the last sound before the pause to the first after it."""
    sound_pitch_semitones: float | None
    sound_end: int
    """The sample at which the last sound before the pause ends."""


def boundaries(spoken: Spoken, rate_hz: int) -> list[Boundary]:
    """Of each two neighbouring words, where there is sound enough on both sides."""
    joins = [start for _, start in spoken.segments[1:]]
    reach = round(_JOIN_REACH_S * rate_hz)
    levels = levels_dbfs(spoken.pcm, rate_hz)
    is_silent = levels < levels.max(initial=-np.inf) - AUDIBLE_BELOW_PEAK_DB
    found = []
    for left, right in pairwise(spoken.words):
        end, start = _pause(is_silent, left, right, round(STEP_S * rate_hz))
        sides = _sides(spoken.pcm, left.end_sample, right.start_sample, rate_hz)
        sound = _sides(spoken.pcm, end, start, rate_hz)
        if sides is None or sound is None:
            continue
        found.append(
            Boundary(
                (left.end_char, right.start_char),
                any(left.start_sample < join <= right.start_sample + reach for join in joins),
                _mark(spoken.text[left.end_char : right.start_char]),
                (start - end) / rate_hz,
                _level_step(*sides),
                _pitch_step(*sides, rate_hz),
                _level_step(*sound),
                _pitch_step(*sound, rate_hz),
                end,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Fall:
    """How the pitch moves over a last voiced stretch."""

    slope_semitones_per_s: float
    end_hz: float


def final_fall(spoken: Spoken, rate_hz: int) -> Fall | None:
    """At the end of the whole utterance."""
    levels = levels_dbfs(spoken.pcm, rate_hz)
    heard = np.flatnonzero(levels >= levels.max(initial=-np.inf) - AUDIBLE_BELOW_PEAK_DB)
    return fall_before(spoken.pcm, (int(heard[-1]) + 1) * round(STEP_S * rate_hz), rate_hz) if len(heard) else None


def _mark(between: str) -> Mark:
    written = "".join(character for character in between if not character.isspace() and character not in "\"'()")
    if not written:
        return "none"
    return "comma" if written == "," else "stronger"


def _pause(is_silent: NDArray[np.bool_], left: WordTiming, right: WordTiming, step: int) -> tuple[int, int]:
    """Samples [end, start) of the silence between two words: of those from the middle of one to the middle of the
    other, the one that ends nearest the second word's start. With none, both are that start."""
    first = (left.start_sample + left.end_sample) // 2 // step
    last = min((right.start_sample + right.end_sample) // 2 // step, len(is_silent))
    edges = np.flatnonzero(np.diff(np.concatenate(([False], is_silent[first:last], [False])).astype(np.int8)))
    runs = [
        (first + int(a), first + int(b))
        for a, b in zip(edges[::2], edges[1::2], strict=True)
        if b - a >= _MIN_PAUSE_STEPS and first + b < last
    ]
    if not runs:
        return right.start_sample, right.start_sample
    end, start = min(runs, key=lambda run: abs(run[1] * step - right.start_sample))
    return end * step, start * step


def _sides(pcm: Samples, end: int, start: int, rate_hz: int) -> tuple[Samples, Samples] | None:
    width = round(_SIDE_S * rate_hz)
    before, after = pcm[max(end - width, 0) : end], pcm[start : start + width]
    return None if min(len(before), len(after)) < width // 2 else (before, after)


def _level_step(before: Samples, after: Samples) -> float:
    return float(10 * np.log10(power(after) / power(before)))


def _pitch_step(before: Samples, after: Samples, rate_hz: int) -> float | None:
    left, right = pitch_hz(before, rate_hz), pitch_hz(after, rate_hz)
    return float(12 * np.log2(right / left)) if left and right else None


def fall_before(pcm: Samples, end: int, rate_hz: int) -> Fall | None:
    """Of the last voiced 200 ms before sample `end`; None where too little is voiced."""
    heard = pcm[max(end - round(_TRACK_S * rate_hz), 0) : end]
    if len(heard) < _TRACK_S * rate_hz / 2:
        return None
    pitch, at_s = pitch_track(heard, rate_hz)
    voiced = np.flatnonzero(pitch)
    voiced = voiced[at_s[voiced] > at_s[voiced].max(initial=0.0) - _FALL_S]
    at_s, semitones = at_s[voiced], 12 * np.log2(pitch[voiced])
    if len(at_s) < 2 or at_s[-1] - at_s[0] < _MIN_FALL_S:
        return None
    slope = np.polyfit(at_s, semitones, 1)[0]
    end_hz = np.median(pitch[voiced][at_s > at_s[-1] - _END_S])
    return Fall(float(slope), float(end_hz))


@dataclass(frozen=True, slots=True)
class Joins:
    """What a set of sentences showed."""

    pairs: tuple[tuple[Boundary, Boundary], ...]
    """Each join of a stream, and the same two words in the whole."""
    inner: tuple[Boundary, ...]
    """The other boundaries of the streams: inside segments."""
    falls: tuple[tuple[Fall, Fall, Fall], ...]
    """Into each join: in the stream, at the same place of the whole, and where a sentence ends there."""


def gather_joins(spoken: Iterable[tuple[Spoken, Spoken]], alone: Callable[[str], Spoken], rate_hz: int) -> Joins:
    """`spoken`: (whole, stream) of each sentence; `alone` speaks words before a join as a sentence of their own."""
    pairs: list[tuple[Boundary, Boundary]] = []
    inner: list[Boundary] = []
    falls: list[tuple[Fall, Fall, Fall]] = []
    for whole, stream in spoken:
        same = {boundary.place: boundary for boundary in boundaries(whole, rate_hz)}
        for boundary in boundaries(stream, rate_hz):
            if not boundary.is_join:
                inner.append(boundary)
            elif boundary.place in same:
                twin = same[boundary.place]
                pairs.append((boundary, twin))
                own = fall_before(stream.pcm, boundary.sound_end, rate_hz)
                twins = fall_before(whole.pcm, twin.sound_end, rate_hz)
                closed = final_fall(alone(stream.text[: boundary.place[0]]), rate_hz)
                if own is not None and twins is not None and closed is not None:
                    falls.append((own, twins, closed))
    return Joins(tuple(pairs), tuple(inner), tuple(falls))


STEPS: Final = {
    "level_db": "level step, dB",
    "pitch_semitones": "pitch step, semitones",
    "sound_level_db": "level step without the pause, dB",
    "sound_pitch_semitones": "pitch step without the pause, semitones",
}
"""Field of Boundary -> its name on the page."""


def join_report(joins: Joins) -> tuple[dict[str, Any], list[list[str]], list[list[str]]]:
    """As data; rows of the paired table (what, joins, same words whole, difference); rows of the table by mark (what,
    mark, joins, same words whole, boundaries inside segments). What no join shows is left out."""
    data: dict[str, Any] = {"joins": len(joins.pairs), "paired": {}, "by_mark": {}}
    paired_rows, mark_rows = [], []
    for name, title in STEPS.items():
        stream, whole = _both(joins, name)
        if not len(stream):
            continue
        data["paired"][name] = _paired(stream, whole)
        paired_rows.append(_paired_row(title, data["paired"][name]))
        for mark in ("none", "comma", "stronger"):
            at_joins = _sizes((pair[0] for pair in joins.pairs if pair[0].mark == mark), name)
            in_whole = _sizes((pair[1] for pair in joins.pairs if pair[0].mark == mark), name)
            inside = _sizes((boundary for boundary in joins.inner if boundary.mark == mark), name)
            if len(at_joins) and len(in_whole) and len(inside):
                data["by_mark"].setdefault(mark, {})[name] = {
                    "joins": _quantiles(at_joins),
                    "same_words_whole": _quantiles(in_whole),
                    "inside": _quantiles(inside),
                }
                mark_rows.append([title, mark, _shown(at_joins), _shown(in_whole), _shown(inside)])
    if joins.falls:
        data["fall"], fall_rows = _fall_report(joins)
        paired_rows += fall_rows
    if joins.pairs:
        data["pause_ms"], pause_row = _pause_report(joins)
        paired_rows.append(pause_row)
    return data, paired_rows, mark_rows


def _fall_report(joins: Joins) -> tuple[dict[str, Any], list[list[str]]]:
    """How the pitch moves into joins, and as it would if a sentence ended there."""
    slopes, whole_slopes, closed_slopes = np.asarray(
        [[fall.slope_semitones_per_s for fall in falls] for falls in joins.falls]
    ).T
    ends, whole_ends, closed_ends = np.asarray([[fall.end_hz for fall in falls] for falls in joins.falls]).T
    slope_gap = bootstrap_mean(slopes - whole_slopes)
    end_gap = bootstrap_mean(12 * np.log2(ends / whole_ends))
    data = {
        "joins": len(slopes),
        "slope_semitones_per_s": {
            "stream": float(np.median(slopes)),
            "whole": float(np.median(whole_slopes)),
            "as_a_sentence": float(np.median(closed_slopes)),
            "gap": _plain(slope_gap),
        },
        "end_hz": {
            "stream": float(np.median(ends)),
            "whole": float(np.median(whole_ends)),
            "as_a_sentence": float(np.median(closed_ends)),
            "gap_semitones": _plain(end_gap),
        },
    }
    rows = [
        [
            f"slope of the pitch over the last voiced 200 ms, semitones/s: median ({len(slopes)} joins)",
            f"{np.median(slopes):+.1f}",
            f"{np.median(whole_slopes):+.1f} (ending a sentence: {np.median(closed_slopes):+.1f})",
            f"mean {_signed_text(slope_gap)}",
        ],
        [
            "pitch where it ends, Hz: median",
            f"{np.median(ends):.0f}",
            f"{np.median(whole_ends):.0f} (ending a sentence: {np.median(closed_ends):.0f})",
            f"mean {_signed_text(end_gap)} semitones",
        ],
    ]
    return data, rows


def _pause_report(joins: Joins) -> tuple[dict[str, Any], list[str]]:
    stream, whole = (1000 * pauses for pauses in _signed(joins, "pause_s"))
    gap = bootstrap_mean(stream - whole)
    data = {"stream": float(np.median(stream)), "whole": float(np.median(whole)), "gap": _plain(gap)}
    return data, [
        "pause, ms: median",
        f"{np.median(stream):.0f}",
        f"{np.median(whole):.0f}",
        f"mean {gap.mean:+.0f} [{gap.low:+.0f}, {gap.high:+.0f}]",
    ]


def gates(data: dict[str, Any]) -> dict[str, bool]:
    """Name of each gate -> whether it holds: steps at joins within those inside segments, at the 99th percentile."""
    return {
        f"{STEPS[name]}: {step['stream']['p99']:.1f} at joins, {step['whole']['p99']:.1f} at the same words inside one "
        "segment (p99)": step["stream"]["p99"] <= step["whole"]["p99"]
        for name, step in data["paired"].items()
    }


def _both(joins: Joins, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sizes of the steps of the joins for which both renderings have one: float64 [N] each."""
    stream, whole = _signed(joins, name)
    return np.abs(stream), np.abs(whole)


def _signed(joins: Joins, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = [(getattr(stream, name), getattr(whole, name)) for stream, whole in joins.pairs]
    known = [pair for pair in values if pair[0] is not None and pair[1] is not None]
    both = np.asarray(known, np.float64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _sizes(found: Iterator[Boundary], name: str) -> NDArray[np.float64]:
    values = (getattr(boundary, name) for boundary in found)
    return np.abs(np.asarray([value for value in values if value is not None], np.float64))


def _paired(stream: NDArray[np.float64], whole: NDArray[np.float64]) -> dict[str, Any]:
    return {
        "stream": _quantiles(stream),
        "whole": _quantiles(whole),
        "gap": _plain(bootstrap_mean(stream - whole)),
        "gap_p99": _plain(bootstrap_percentile_gap(stream, whole, 99)),
    }


def _paired_row(title: str, step: dict[str, Any]) -> list[str]:
    def shown(found: dict[str, float]) -> str:
        return f"{found['p50']:.1f} / {found['p99']:.1f}"

    return [
        f"{title}: p50 / p99 ({step['stream']['count']:.0f} joins)",
        shown(step["stream"]),
        shown(step["whole"]),
        f"mean {_signed_text(Interval(**step['gap']))}; p99 {_signed_text(Interval(**step['gap_p99']))}",
    ]


def _quantiles(values: NDArray[np.float64]) -> dict[str, float]:
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {"count": len(values), "p50": float(p50), "p95": float(p95), "p99": float(p99)}


def _shown(values: NDArray[np.float64]) -> str:
    return f"{' / '.join(f'{value:.1f}' for value in np.percentile(values, [50, 95, 99]))} ({len(values)})"


def _signed_text(interval: Interval) -> str:
    return f"{interval.mean:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"


def _plain(interval: Interval) -> dict[str, float]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}
