"""Audible first audio after the first committable clause, as listeners to 1 and to 16 conversations hear it.

    python benchmarks/first_audio.py [--streams 1 16] [--utterances 60]

A gateway runs in a process of its own with the embedded voice. Each conversation is one connection: it sends a text in
tokens as a language model writes them (20 a second, or all at once), listens to the end in real time, waits a random
moment and goes on with the next. The clock starts when the token has been sent that makes the first segment certain
(found beforehand with the same text front-end, without any wait), and stops when a player with 100 ms of buffer sounds
the first sample that is loud enough to be heard (1 % of full scale). Conversations start at random moments.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gateway_process import running_gateway
from benchmarks.machine import machine
from benchmarks.results import save, table
from engine.speech import Segment
from gateway.client import Client
from gateway.commands.bench import TEXTS, percentiles_ms
from gateway.commands.listener import Listener, Listening
from gateway.text.front_end import TextFrontEnd
from gateway.text.lexicon import Lexicon
from gateway.text.settings import TextSettings

TOKENS_PER_S = 20.0
BUFFER_S = 0.1
MAX_PAUSE_S = 1.0
START_SPREAD_S = 4.0


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text in tokens, of which the one at `certain` makes the first segment certain."""

    tokens: tuple[str, ...]
    certain: int


def prompt_of(text: str) -> Prompt:
    tokens = tuple(word if index == 0 else f" {word}" for index, word in enumerate(text.split(" ")))
    front_end = TextFrontEnd(
        TextSettings(),
        lexicon=Lexicon.from_mapping({}),
        segmentation="auto",
        language="en",
        spoken_languages=frozenset({"en"}),
        has_text_normalizer=False,
    )
    for index, token in enumerate(tokens):
        if any(isinstance(released, Segment) for released in front_end.feed(token, 0.0)):
            return Prompt(tokens, index)
    return Prompt(tokens, len(tokens) - 1)


async def converse(
    url: str, prompts: list[Prompt], count: int, interval_s: float, source: random.Random
) -> list[Listening]:
    """One conversation of `count` utterances."""
    heard: list[Listening] = []
    async with Client.connect(url) as client:
        await asyncio.sleep(source.uniform(0, START_SPREAD_S))
        for _ in range(count):
            heard.append(await ask(client, source.choice(prompts), interval_s))
            await asyncio.sleep(source.uniform(0, MAX_PAUSE_S))
    return heard


async def ask(client: Client, prompt: Prompt, interval_s: float) -> Listening:
    """One utterance, listened to until its last sample has been played."""
    listener = Listener(BUFFER_S)
    utterance = await client.open(format="pcm_s16le")
    hearing = asyncio.create_task(listener.hear(utterance), name=f"listener of {utterance.id}")
    start_s = sent_s = time.monotonic()
    for index, token in enumerate(prompt.tokens):
        await utterance.say(token)
        if index == prompt.certain:
            sent_s = time.monotonic()
        await asyncio.sleep(max(0.0, start_s + (index + 1) * interval_s - time.monotonic()) if interval_s else 0)
    await utterance.end()
    error = await hearing
    now_s = time.monotonic()
    heard = listener.heard(sent_s, now_s, error)
    await asyncio.sleep(max(0.0, heard.silent_at_s - now_s))
    return heard


async def measure(url: str, streams: int, utterances: int, interval_s: float, seed: int) -> dict[str, Any]:
    prompts = [prompt_of(text) for text in TEXTS]
    each = max(1, round(utterances / streams))
    conversations = (
        converse(url, prompts, each, interval_s, random.Random(f"{seed} {index}")) for index in range(streams)
    )
    heard = [one for part in await asyncio.gather(*conversations) for one in part]
    return {
        "streams": streams,
        "tokens_per_s": None if interval_s == 0 else round(1 / interval_s),
        "utterances": len(heard),
        "errors": dict(Counter(one.error for one in heard if one.error)),
        "audible_first_audio_ms": percentiles_ms(one.audible_s - one.sent_s for one in heard if one.audible_s),
        "first_frame_ms": percentiles_ms(one.first_frame_s - one.sent_s for one in heard if one.first_frame_s),
        "utterances_with_underrun": sum(one.underruns > 0 for one in heard),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--utterances", type=int, default=48, help="of each measurement, all streams together")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    where = machine()
    results = []
    with running_gateway({}) as url:
        for streams in arguments.streams:
            for interval_s in (0.0, 1 / TOKENS_PER_S):
                count = max(arguments.utterances // (4 if streams == 1 else 1), streams)
                results.append(asyncio.run(measure(url, streams, count, interval_s, arguments.seed)))
                print(results[-1], file=sys.stderr)
    rows = [
        (
            result["streams"],
            "all at once" if result["tokens_per_s"] is None else f"{result['tokens_per_s']} tokens/s",
            result["utterances"],
            result["audible_first_audio_ms"]["p50"],
            result["audible_first_audio_ms"]["p95"],
            result["first_frame_ms"]["p50"],
            result["utterances_with_underrun"],
        )
        for result in results
    ]
    head = ["streams", "text", "utterances", "audible p50 ms", "audible p95 ms", "first frame p50 ms", "with underrun"]
    text = table(head, rows) + (
        "\n\nFrom the sending of the token that makes the first segment certain to the first audible sample in a "
        "player with 100 ms of buffer. Gateway and listeners share the machine's cores; each conversation listens in "
        "real time, pauses for up to 1 s and asks again, from a random start. One conversation alone leaves the "
        "machine idle for seconds before each utterance, and a virtual machine's memory then has to be fetched anew. "
        "The engine begins that as soon as an utterance is opened: behind text that comes by tokens it is not noticed, "
        "with text that comes all at once it is in the figures."
    )
    save("first_audio", "Audible first audio after the first committable clause", where, {"results": results}, text)


if __name__ == "__main__":
    main()
