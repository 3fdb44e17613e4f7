"""Real-time streams sustained with no underrun: through the gateway, against the same engine calls without it.

    python benchmarks/capacity.py [--speech 20] [--most 256]

A trial has S listeners who start at random within `START_SPREAD_S` and each hear one utterance of about `--speech`
seconds in real time, with 100 ms of player buffer. It holds if all of it arrived and no player ran dry. S is doubled
until a trial fails and then bisected to within 5 %; a trial that fails is tried once more, so that one stray pause of a
shared machine does not decide. Without a gateway, this process feeds the same segments into the engine and reads its
streams at most 3 s ahead of each listener, as the gateway's send-ahead does; with one, the gateway has a process of its
own, the listeners are in this one, and both share the machine's cores. Trials of both ways take turns. Before them,
both are run flat out, without pace, which says what share of the engine's work is left and depends less on the load.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gateway_process import running_gateway
from benchmarks.machine import machine
from benchmarks.results import save, table
from engine.api import Engine
from engine.speech import Segment, SpeechRequest
from gateway.app import load_engine
from gateway.client import Client, Defaults
from gateway.commands.bench import TEXTS, percentiles_ms
from gateway.commands.listener import Listener, Listening
from gateway.config import load_config
from gateway.text.front_end import TextFrontEnd
from gateway.text.lexicon import Lexicon
from gateway.text.settings import TextSettings

BUFFER_S = 0.1
AHEAD_S = 3.0
START_SPREAD_S = 4.0
CHARS_PER_S = 15.0
"""About what the embedded voice speaks."""
PRECISION = 0.05
FIRST_STREAMS = 8
FLAT_OUT_STREAMS = 16
FLAT_OUT_ROUNDS = 3
MANY = {
    "ANTIPHON_LIMITS__SERVER_UTTERANCES": "4096",
    "ANTIPHON_LIMITS__UTTERANCES_PER_KEY": "4096",
    "ANTIPHON_LIMITS__CONNECTIONS": "4096",
    "ANTIPHON_LIMITS__CONNECTIONS_PER_KEY": "4096",
}
"""So that the machine is the limit, not a setting."""

Listen = Callable[[str, int], Awaitable[Listening]]
"""One listener to one text; the number is the listener's."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one number of listeners."""

    streams: int
    with_underrun: int
    underrun_s: float
    broken: int
    audible_ms: dict[str, float] | None

    @property
    def holds(self) -> bool:
        return self.with_underrun == 0 and self.broken == 0


def texts(speech_s: float) -> list[str]:
    """Texts of that length, each begun with another sentence."""
    made = []
    for first in range(len(TEXTS)):
        text, index = "", first
        while len(text) < speech_s * CHARS_PER_S:
            text += f"{TEXTS[index % len(TEXTS)]} "
            index += 1
        made.append(text.strip())
    return made


async def trial(streams: int, speech_s: float, listen: Listen) -> Trial:
    source = random.Random(streams)
    choices = texts(speech_s)

    async def one(number: int, wait_s: float) -> Listening:
        await asyncio.sleep(wait_s)
        return await listen(choices[number % len(choices)], number)

    heard = await asyncio.gather(*(one(number, source.uniform(0, START_SPREAD_S)) for number in range(streams)))
    result = Trial(
        streams=streams,
        with_underrun=sum(one.underruns > 0 for one in heard),
        underrun_s=round(sum(one.underrun_s for one in heard), 3),
        broken=sum(one.error is not None or one.audio_s == 0 for one in heard),
        audible_ms=percentiles_ms(one.audible_s - one.sent_s for one in heard if one.audible_s),
    )
    print(f"  {result}", file=sys.stderr)
    return result


class Search:
    """The largest number of streams that holds: doubled until it fails, then bisected. Each failure is tried again."""

    def __init__(self, most: int) -> None:
        self.trials: list[Trial] = []
        self.good = 0
        self._bad = most + 1
        self._next = min(FIRST_STREAMS, most)
        self._has_failed = False
        self._has_bound = False

    @property
    def next_streams(self) -> int | None:
        """What to try; None when it has been found."""
        return self._next if self._bad - self.good > max(1, PRECISION * self.good) else None

    def note(self, result: Trial) -> None:
        self.trials.append(result)
        if not result.holds and not self._has_failed:
            self._has_failed = True
            return
        self._has_failed = False
        if result.holds:
            self.good = result.streams
        else:
            self._bad = result.streams
            self._has_bound = True
        middle = (self.good + self._bad) // 2
        self._next = middle if self._has_bound else min(2 * self.good, middle)


def by_gateway(url: str, *, is_paced: bool) -> Listen:
    ahead: Defaults = {} if is_paced else {"max_ahead_ms": None}

    async def listen(text: str, number: int) -> Listening:
        listener = Listener(BUFFER_S)
        async with Client.connect(url, **ahead) as client:
            sent_s = time.monotonic()
            error = await listener.hear(await client.speak(text, seed=number))
        return listener.heard(sent_s, time.monotonic(), error)

    return listen


def by_engine(engine: Engine, *, is_paced: bool) -> Listen:
    async def listen(text: str, number: int) -> Listening:
        listener = Listener(BUFFER_S)
        session = engine.open_session(f"listener {number}")
        try:
            stream = session.open_stream(SpeechRequest(voice=engine.info.default_voice, seed=number))
            sent_s = time.monotonic()
            for segment in segments(text, engine):
                stream.feed(segment)
            stream.finish()
            async for chunk in stream:
                now_s = time.monotonic()
                listener.receive(chunk.pcm, engine.info.sample_rate_hz, now_s)
                ahead_s = listener.ahead_s(now_s)
                if is_paced and ahead_s > AHEAD_S:
                    await asyncio.sleep(ahead_s - AHEAD_S)
        finally:
            session.close()
        return listener.heard(sent_s, time.monotonic(), None)

    return listen


def segments(text: str, engine: Engine) -> list[Segment]:
    """What a gateway would release of this text, sent at once."""
    front_end = TextFrontEnd(
        TextSettings(),
        lexicon=Lexicon.from_mapping({}),
        segmentation="auto",
        language=None,
        spoken_languages=engine.info.languages,
        has_text_normalizer=engine.info.has_text_normalizer,
    )
    return [item for item in [*front_end.feed(text, 0.0), *front_end.finish(0.0)] if isinstance(item, Segment)]


async def throughput(speech_s: float, listen: Listen) -> float:
    """Seconds of speech a second, flat out, for `FLAT_OUT_STREAMS` utterances at once."""
    choices = texts(speech_s)
    start_s = time.monotonic()
    heard = await asyncio.gather(
        *(listen(choices[number % len(choices)], number) for number in range(FLAT_OUT_STREAMS))
    )
    return sum(one.audio_s for one in heard) / (time.monotonic() - start_s)


async def measure(url: str, speech_s: float, most: int) -> dict[str, Any]:
    """Both ways by turns, so that whatever else the machine does falls on both."""
    engine = load_engine(load_config(None, {}, {}))
    await engine.start()
    try:
        flat_out = {"engine": by_engine(engine, is_paced=False), "gateway": by_gateway(url, is_paced=False)}
        rates: dict[str, list[float]] = {"engine": [], "gateway": []}
        for _ in range(FLAT_OUT_ROUNDS):
            for way, listen in flat_out.items():
                rates[way].append(round(await throughput(speech_s, listen), 1))
        print(f"  flat out: {rates}", file=sys.stderr)
        paced = {"engine": by_engine(engine, is_paced=True), "gateway": by_gateway(url, is_paced=True)}
        searches = {"engine": Search(most), "gateway": Search(most)}
        while any(search.next_streams is not None for search in searches.values()):
            for way, search in searches.items():
                streams = search.next_streams
                if streams is not None:
                    print(way, file=sys.stderr)
                    search.note(await trial(streams, speech_s, paced[way]))
    finally:
        await engine.close()
    return {
        way: {
            "flat_out_s_per_s": statistics.median(rates[way]),
            "flat_out_rounds": rates[way],
            "streams": search.good,
            "trials": [describe(one) for one in search.trials],
        }
        for way, search in searches.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--speech", type=float, default=20.0, help="seconds of speech of each listener")
    parser.add_argument("--most", type=int, default=256, help="do not try more streams than this")
    arguments = parser.parse_args()
    where = machine()
    with running_gateway(MANY) as url:
        found = asyncio.run(measure(url, arguments.speech, arguments.most))
    alone, through = found["engine"], found["gateway"]
    load_at_end = round(os.getloadavg()[0], 2)
    report = {"speech_s": arguments.speech, **found, "load_average_1_min_at_the_end": load_at_end}
    rows = [
        ("engine calls alone", alone["streams"], alone["flat_out_s_per_s"]),
        ("through the gateway", through["streams"], through["flat_out_s_per_s"]),
        ("share", percent(through, alone, "streams"), percent(through, alone, "flat_out_s_per_s")),
    ]
    text = table(["", "real-time streams without an underrun", "flat out, seconds of speech a second"], rows) + (
        f"\n\nEach stream: {arguments.speech:g} s of speech, 24 kHz, a player with 100 ms of buffer, audio at most 3 s "
        f"ahead, starts spread over {START_SPREAD_S:g} s; found to within {PRECISION:.0%}. Flat out: "
        f"{FLAT_OUT_STREAMS} utterances at once, median of {FLAT_OUT_ROUNDS} rounds. Both ways by turns in one run; "
        "the listeners share the cores: with the engine in one process, or in one of their own beside the gateway's. "
        f"Load {load_at_end} at the end."
    )
    save("capacity", "Real-time streams sustained", where, report, text)


def percent(part: dict[str, Any], whole: dict[str, Any], key: str) -> str:
    return f"{100 * part[key] / whole[key]:.0f} %" if whole[key] else "-"


def describe(one: Trial) -> dict[str, Any]:
    return {
        "streams": one.streams,
        "holds": one.holds,
        "with_underrun": one.with_underrun,
        "underrun_s": one.underrun_s,
        "broken": one.broken,
        "audible_first_audio_ms": one.audible_ms,
    }


if __name__ == "__main__":
    main()
