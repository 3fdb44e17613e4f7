"""The text front-end alone: characters a second and the delay of release, one thread, no socket.

python benchmarks/text_front_end.py [--characters 20000]

Throughput is processor time of one utterance fed one character per message, the hardest case. Delay is in two parts:
how many characters behind a clause are needed until it is released (the mark alone = 0, the next character = 1) with no
time passing, and the wait by the clock where nothing comes behind it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.machine import machine
from benchmarks.results import save, table
from engine.speech import Segment
from gateway.text.front_end import Lexicon, TextFrontEnd, TextSettings

ROUNDS = 5
STREAMS, CHARACTERS_PER_STREAM = 500, 100
"""The aim: one core carries so many streams of so many characters a second."""

TEXTS = {
    "English prose": "Sure, I can help with that. First, let's see what happened: the train was late, we walked. ",
    "markdown answer": "## Plan\n\n**Important:** see [the docs](https://example.com/a_b).\n\n"
    "1. *Open* it\n2. Run `make`\n\n| a | b |\n|---|---|\n| c | d |\n\n",
    "tagged speech": "<|emotion:amusement|>That is funny! [laughs] <prosody rate='slow'>Slow.</prosody> *sighs* Fine. ",
    "figures": "At 5:30 p.m. on March 5, 2026, it cost $3.50, 12.5% of 1,250.75, by No. 7. ",
    "Chinese": "今天天气很好，我们去公园吧！「好。」他说。你想吃什么？我想吃饺子。",
    "Arabic": "كيف حالك؟ أنا بخير، شكرا لك. وأنت؟ ",
    "Thai": "สวัสดีครับ วันนี้อากาศดีมาก เราไปสวนกันเถอะ ",
}
HOSTILE = {
    **{"stars": "*", "brackets": "[a](", "comments": "<!--", "ticks": "``a`b```c", "open tags": "<a ", "pipes": "<|a"},
    **{"captures": "<sub alias=x>", "fences": "```a\n", "parentheses": "( ", "piled accents": "a\u0301\u0316"},
    **{"one word": "a", "underscores": "a_", "controls": "<|emotion:awe|>", "unknown tags": "<|a1|>", "table": "|a"},
    **{"entities": "&amp;", "URLs": "https://a.b/ ", "quotes": '"a ', "emoji": "😀"},
}
CLAUSES = (
    *("Hello there. How", "However, I can", "Really? Yes", "It is 3.14. Good", "At 5 p.m. He is", 'He said "no." Then'),
    *("(An aside.) Then", "See example.com. Then", "I live in the U.S. It is", "好。我们", "كيف حالك؟ أنا"),
    *("नमस्ते। आप", "မင်္ဂလာပါ။ နေ", "# Title\nText"),
)


def front_end(*, has_text_normalizer: bool = True) -> TextFrontEnd:
    return TextFrontEnd(
        TextSettings(),
        lexicon=Lexicon.empty(),
        segmentation="auto",
        language=None,
        spoken_languages=frozenset(),
        has_text_normalizer=has_text_normalizer,
    )


def characters_per_s(text: str, *, size: int, has_text_normalizer: bool = True) -> float:
    """Of processor time, at `size` characters per message; the median of `ROUNDS`."""
    rates = []
    for _ in range(ROUNDS):
        end, begun = front_end(has_text_normalizer=has_text_normalizer), time.process_time()
        for at in range(0, len(text), size):
            end.feed(text[at : at + size], 0.0)
        end.finish(0.0)
        rates.append(len(text) / (time.process_time() - begun))
    return statistics.median(rates)


def characters_until_release(text: str) -> int | None:
    """Characters from the clause's closing mark to the one that releases it; None: the end of the text does."""
    end = front_end()
    for at, char in enumerate(text):
        for item in end.feed(char, 0.0):
            if isinstance(item, Segment):
                spoken = [
                    source.end for source, said in zip(item.sources, item.text, strict=True) if not said.isspace()
                ]
                return at + 1 - spoken[-1]
    return None


def waits_s() -> dict[str, float | None]:
    """By the clock, where nothing comes behind the text."""
    found: dict[str, float | None] = {}
    for text in ("Hello there.", "It is 3.", "It is 5 p.m.", "好。", "Last word is banana", "the quick brown fox "):
        end = front_end()
        released = end.feed(text, 0.0)
        while not released and end.wake_at_s is not None:
            now_s = end.wake_at_s
            released = end.on_time(now_s)
        found[text] = now_s if released else None
    return found


def measure(characters: int) -> dict[str, Any]:
    def whole(text: str) -> str:
        return (text * (characters // len(text) + 1))[:characters]

    throughput = {
        name: {
            "one_character_a_message": round(characters_per_s(whole(text), size=1)),
            "twenty_a_message": round(characters_per_s(whole(text), size=20)),
            "one_with_figures_in_words": round(characters_per_s(whole(text), size=1, has_text_normalizer=False)),
        }
        for name, text in TEXTS.items()
    }
    hostile = {name: round(characters_per_s(whole(text), size=1)) for name, text in HOSTILE.items()}
    return {
        "characters": characters,
        "characters_per_s": throughput,
        "hostile_characters_per_s": hostile,
        "characters_until_release": {text: characters_until_release(text) for text in CLAUSES},
        "waits_s": waits_s(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--characters", type=int, default=20_000, help="of each text")
    arguments = parser.parse_args()
    where = machine()
    report = measure(arguments.characters)
    aim = STREAMS * CHARACTERS_PER_STREAM
    rates = report["characters_per_s"]
    text = "\n\n".join(
        (
            f"Characters a second of one core (processor time, median of {ROUNDS} rounds). The aim is {aim:,} at one "
            f"character per message: {STREAMS} streams of {CHARACTERS_PER_STREAM} characters a second.",
            table(
                ["text", "1 a message", "20 a message", "1 a message, figures in words"],
                [(name, *(f"{rate:,}" for rate in row.values())) for name, row in rates.items()],
            ),
            "Texts made to be slow, one character per message:",
            table(
                ["text repeated", "characters/s"],
                [(name, f"{rate:,}") for name, rate in report["hostile_characters_per_s"].items()],
            ),
            "Characters needed behind a clause's last one until it is released, no time passing:",
            table(
                ["text", "characters"],
                [(repr(text), count) for text, count in report["characters_until_release"].items()],
            ),
            "Waits by the clock where nothing comes behind the text:",
            table(["text", "s"], [(repr(text), wait) for text, wait in report["waits_s"].items()]),
        )
    )
    save("text_front_end", "The text front-end alone", where, report, text)


if __name__ == "__main__":
    main()
