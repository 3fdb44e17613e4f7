"""Real-time streams sustained with no underrun: through the gateway, against the same engine calls without it.

    python benchmarks/capacity.py [--speech 20] [--most 256]

A trial has S listeners who start at random within `START_SPREAD_S` and each hear one utterance of about `--speech`
seconds in real time, with 100 ms of player buffer. It holds if all of it arrived and no player ran dry. S is doubled
until a trial fails and then bisected to within 5 %; a trial that fails is tried once more, so that one stray pause of a
shared machine does not decide. Without a gateway, this process feeds the same segments into the engine and reads its
streams at most 3 s ahead of each listener, as the gateway's send-ahead does; with one, the gateway has a process of its
own, the listeners are in this one, and both share the machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
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
from gateway.client import Client
from gateway.commands.bench import TEXTS, percentiles_ms
from gateway.commands.listener import Heard, Listener
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
MANY = {
    "ANTIPHON_LIMITS__SERVER_UTTERANCES": "4096",
    "ANTIPHON_LIMITS__UTTERANCES_PER_KEY": "4096",
    "ANTIPHON_LIMITS__CONNECTIONS": "4096",
    "ANTIPHON_LIMITS__CONNECTIONS_PER_KEY": "4096",
}
"""So that the machine is the limit, not a setting."""

Listen = Callable[[str, int], Awaitable[Heard]]
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

    async def one(number: int, wait_s: float) -> Heard:
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


async def search(speech_s: float, most: int, listen: Listen) -> tuple[int, list[Trial]]:
    """The largest number of streams that holds, and every trial on the way."""
    trials: list[Trial] = []

    async def holds(streams: int) -> bool:
        for _ in range(2):
            trials.append(await trial(streams, speech_s, listen))
            if trials[-1].holds:
                return True
        return False

    good, bad = 0, 8
    while bad <= most and await holds(bad):
        good, bad = bad, bad * 2
    bad = min(bad, most + 1)
    while bad - good > max(1, PRECISION * good):
        middle = (good + bad) // 2
        if await holds(middle):
            good = middle
        else:
            bad = middle
    return good, trials


def by_gateway(url: str) -> Listen:
    async def listen(text: str, number: int) -> Heard:
        listener = Listener(BUFFER_S)
        async with Client.connect(url) as client:
            sent_s = time.monotonic()
            error = await listener.hear(await client.speak(text, seed=number))
        return listener.heard(sent_s, time.monotonic(), error)

    return listen


def by_engine(engine: Engine) -> Listen:
    async def listen(text: str, number: int) -> Heard:
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
                if ahead_s > AHEAD_S:
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


async def measure_engine(speech_s: float, most: int) -> tuple[int, list[Trial]]:
    engine = load_engine(load_config(None, {}, {}))
    await engine.start()
    try:
        listen = by_engine(engine)
        await listen(TEXTS[0], 0)
        return await search(speech_s, most, listen)
    finally:
        await engine.close()


async def measure_gateway(url: str, speech_s: float, most: int) -> tuple[int, list[Trial]]:
    listen = by_gateway(url)
    await listen(TEXTS[0], 0)
    return await search(speech_s, most, listen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--speech", type=float, default=20.0, help="seconds of speech of each listener")
    parser.add_argument("--most", type=int, default=256, help="do not try more streams than this")
    arguments = parser.parse_args()
    where = machine()
    print("engine alone", file=sys.stderr)
    alone, alone_trials = asyncio.run(measure_engine(arguments.speech, arguments.most))
    print("gateway", file=sys.stderr)
    with running_gateway(MANY) as url:
        through, through_trials = asyncio.run(measure_gateway(url, arguments.speech, arguments.most))
    share = round(100 * through / alone) if alone else None
    report: dict[str, Any] = {
        "speech_s": arguments.speech,
        "engine_alone": {"streams": alone, "trials": [describe(one) for one in alone_trials]},
        "gateway": {"streams": through, "trials": [describe(one) for one in through_trials]},
        "gateway_share_percent": share,
        "load_average_1_min_at_the_end": round(os.getloadavg()[0], 2),
    }
    rows = [("engine calls alone", alone), ("through the gateway", through), ("share", f"{share} %")]
    text = table(["", "real-time streams without an underrun"], rows) + (
        f"\n\nEach stream: {arguments.speech:g} s of speech, 24 kHz, a player with 100 ms of buffer, audio at most 3 s "
        f"ahead, starts spread over {START_SPREAD_S:g} s; found to within {PRECISION:.0%}. Listeners share "
        "the cores: in the engine's process without a gateway, in one of their own with it."
    )
    save("capacity", "Real-time streams sustained", where, report, text)


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
