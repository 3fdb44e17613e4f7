"""`antiphon bench`: load on a running gateway with open-loop arrivals, measured as a listener hears it.

Utterances arrive as a Poisson process, whatever has become of those before; each has a connection of its own, sends its
whole text at once and is played by a `PlayerClock`. Audible first audio is counted from the sending of the text to
the moment at which the player sounds the first sample that is loud enough (`Listener`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gateway.client import (
    Client,
    ConnectionLostError,
    RefusedError,
    ServerError,
    SpeechClientError,
)
from gateway.commands.listener import Listener, Listening

MAX_OUTSTANDING: Final = 2000
"""Arrivals beyond this many unfinished ones are counted as errors (`too_many_outstanding`) and not sent."""
CONNECT_TIMEOUT_S: Final = 10.0

TEXTS: Final = (
    "Good morning, this is the reading room. We open at nine and close at half past five, except on Sundays.",
    "I found three trains for you: the first leaves at ten past eight, and it is the only one without a change.",
    "Of course, I can move that for you. Would Thursday at two suit you better, or shall we say Friday morning?",
    "The parcel has left our warehouse, and the driver expects to be with you between four and six this afternoon.",
    "That is a fair question. In short, the warranty covers the battery for two years and everything else for five.",
    "Please hold the line for a moment while I look that up. Thank you, here it is: your balance is twelve pounds.",
)
"""What agents say: 7 to 8 s of speech each, and a first clause that can be spoken early."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is put on the gateway."""

    url: str
    key: str | None
    rate_per_s: float
    duration_s: float
    seed: int = 0
    buffer_s: float = 0.1
    """The player starts with this much audio."""
    texts: tuple[str, ...] = TEXTS


def arrivals_s(load: Load) -> list[float]:
    """The times of a Poisson process of `rate_per_s`, from 0 up to `duration_s`."""
    source = random.Random(load.seed)
    times: list[float] = []
    at_s = source.expovariate(load.rate_per_s)
    while at_s < load.duration_s:
        times.append(at_s)
        at_s += source.expovariate(load.rate_per_s)
    return times


async def run_load(load: Load, on_heard: Callable[[int, int], None]) -> list[Listening]:
    """Put the load on and wait for every utterance. `on_heard(finished, of)` is told of each."""
    times = arrivals_s(load)
    heard: list[Listening] = []
    outstanding = 0
    start_s = time.monotonic()

    async def listen_and_count(text: str) -> None:
        nonlocal outstanding
        try:
            heard.append(await listen(load, text))
        finally:
            outstanding -= 1
        on_heard(len(heard), len(times))

    async with asyncio.TaskGroup() as listeners:
        for index, at_s in enumerate(times):
            await asyncio.sleep(max(0.0, start_s + at_s - time.monotonic()))
            if outstanding >= MAX_OUTSTANDING:
                now_s = time.monotonic()
                heard.append(Listener(load.buffer_s).heard(now_s, now_s, "too_many_outstanding"))
                continue
            outstanding += 1
            text = load.texts[index % len(load.texts)]
            listeners.create_task(listen_and_count(text), name=f"listener {index}")
    return heard


async def listen(load: Load, text: str) -> Listening:
    """One utterance, from the connection to the last sample played."""
    sent_s = time.monotonic()
    listener = Listener(load.buffer_s)
    error: str | None = None
    try:
        async with Client.connect(load.url, key=load.key, open_timeout_s=CONNECT_TIMEOUT_S) as client:
            sent_s = time.monotonic()
            utterance = await client.speak(text, format="pcm_s16le", words=False)
            error = await listener.hear(utterance)
    except ServerError as failure:
        error = failure.code
    except RefusedError as failure:
        error = failure.code or "refused"
    except SpeechClientError as failure:
        error = "connection_lost" if isinstance(failure, ConnectionLostError) else type(failure).__name__
    return listener.heard(sent_s, time.monotonic(), error)


def summarise(load: Load, heard: list[Listening]) -> dict[str, Any]:
    """The report, ready for JSON."""
    whole = [one for one in heard if one.error is None]
    elapsed_s = max((one.silent_at_s for one in heard), default=0.0) - min((one.sent_s for one in heard), default=0.0)
    listening_s = [(one.sent_s, one.silent_at_s) for one in heard if one.audio_s > 0]
    errors = Counter(one.error for one in heard if one.error is not None)
    with_underrun = [one for one in heard if one.underruns]
    return {
        "load": {
            "url": load.url,
            "rate_per_s": load.rate_per_s,
            "duration_s": load.duration_s,
            "arrivals": "poisson",
            "seed": load.seed,
            "player_buffer_ms": round(load.buffer_s * 1000),
        },
        "utterances": len(heard),
        "whole": len(whole),
        "errors": dict(sorted(errors.items())),
        "audible_first_audio_ms": percentiles_ms(one.audible_s - one.sent_s for one in whole if one.audible_s),
        "first_frame_ms": percentiles_ms(one.first_frame_s - one.sent_s for one in whole if one.first_frame_s),
        "underruns": {
            "count": sum(one.underruns for one in heard),
            "utterances": len(with_underrun),
            "total_s": round(sum(one.underrun_s for one in heard), 3),
        },
        "audio_s": round(sum(one.audio_s for one in heard), 3),
        "streams": {
            "mean": round(sum(end - start for start, end in listening_s) / elapsed_s, 2) if elapsed_s else 0.0,
            "max": most_at_once(listening_s),
        },
        "is_sustained": bool(heard) and not errors and not with_underrun,
    }


def percentiles_ms(seconds: Iterable[float]) -> dict[str, float] | None:
    """p50, p95, p99 in milliseconds; None of nothing."""
    values = np.fromiter(seconds, dtype=np.float64)
    if not len(values):
        return None
    found = np.percentile(values * 1000, [50, 95, 99])
    return {name: round(float(value), 1) for name, value in zip(("p50", "p95", "p99"), found, strict=True)}


def most_at_once(intervals: Iterable[tuple[float, float]]) -> int:
    """How many intervals overlap at the most."""
    steps = sorted((at, step) for start, end in intervals for at, step in ((start, 1), (end, -1)))
    now = most = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def describe(report: dict[str, Any]) -> str:
    """The report in a few lines for a person."""
    first, underruns, streams = report["audible_first_audio_ms"], report["underruns"], report["streams"]
    lines = [
        f"{report['utterances']} utterances at {report['load']['rate_per_s']:g}/s, {report['whole']} whole, "
        f"{report['audio_s']:.0f} s of speech; listeners at once: {streams['mean']} (mean), {streams['max']} (most)",
    ]
    if first is not None:
        lines.append(
            f"audible first audio: p50 {first['p50']:.0f} ms, p95 {first['p95']:.0f} ms, p99 {first['p99']:.0f} ms"
        )
    lines.append(
        f"underruns: {underruns['count']} in {underruns['utterances']} utterances, {underruns['total_s']:.2f} s in all "
        f"(a player with {report['load']['player_buffer_ms']} ms of buffer)"
    )
    lines += [f"error {code}: {count}" for code, count in report["errors"].items()]
    lines.append("sustained" if report["is_sustained"] else "NOT sustained")
    return "\n".join(lines)
