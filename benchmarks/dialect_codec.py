"""Messages a second of the native dialect's codec, alone: no socket, no session, one thread.

python benchmarks/dialect_codec.py [--seconds 0.5]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.machine import machine
from benchmarks.results import save, table
from gateway.dialects.base import Handshake
from gateway.dialects.native import JSON_SUBPROTOCOL, MSGPACK_SUBPROTOCOL, NativeDialect
from gateway.events import Audio, ServerEvent, Word, Words

PAYLOAD = bytes(4800)
"""100 ms of 24 kHz and 16 bits: what one audio message carries."""
AUDIO = Audio("u1", 1, 2400, 2400, PAYLOAD, 24000)
AUDIO_BASE64 = Audio("u1", 1, 2400, 2400, PAYLOAD, 24000, encoding="base64")
WORDS = Words("u1", tuple(Word("word", 5 * n, 5 * n + 4, 6000 * n, 6000 * n + 5000) for n in range(4)), 24000)
TEXT = {"type": "text", "utterance": "u1", "text": " somewhere"}
OPEN = {"type": "open", "utterance": "u1", "voice": "heart", "format": "pcm_s16le", "sample_rate_hz": 24000, "seed": 1}
ROUNDS = 7


def dialect(subprotocol: str) -> NativeDialect:
    return NativeDialect(Handshake("/", {}, {}, {}, (subprotocol,)), max_message_bytes=262_144)


def per_second(work: Callable[[], object], seconds: float) -> dict[str, float]:
    """The median and the best of `ROUNDS` rounds."""
    work()
    rates = []
    for _ in range(ROUNDS):
        count, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            for _ in range(100):
                work()
            count += 100
        rates.append(count / elapsed)
    rates.sort()
    return {"median": round(rates[ROUNDS // 2]), "best": round(rates[-1])}


def measure(seconds: float) -> dict[str, dict[str, float]]:
    results: dict[str, dict[str, float]] = {}
    for wire, subprotocol in (("json", JSON_SUBPROTOCOL), ("msgpack", MSGPACK_SUBPROTOCOL)):
        receiving, sending = dialect(subprotocol), dialect(subprotocol)

        def receive(
            message: dict[str, Any], wire: str = wire, receiving: NativeDialect = receiving
        ) -> Callable[[], object]:
            raw = json.dumps(message) if wire == "json" else msgpack.packb(message)
            return lambda: receiving.receive(raw)

        def send(event: ServerEvent, sending: NativeDialect = sending) -> Callable[[], object]:
            return lambda: sending.send(event)

        results[f"receive text, {wire}"] = per_second(receive(TEXT), seconds)
        results[f"receive open, {wire}"] = per_second(receive(OPEN), seconds)
        results[f"send words (4), {wire}"] = per_second(send(WORDS), seconds)
        results[f"send audio (100 ms), {wire}"] = per_second(send(AUDIO), seconds)
        if wire == "json":
            results["send audio (100 ms), json with base64"] = per_second(send(AUDIO_BASE64), seconds)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each of the rounds")
    arguments = parser.parse_args()
    where = machine()
    results = measure(arguments.seconds)
    rows = [(name, f"{rate['median']:,.0f}", f"{rate['best']:,.0f}") for name, rate in results.items()]
    text = table(["work", "messages/s, median", "best"], rows) + f"\n\nMedian and best of {ROUNDS} rounds, one thread."
    save("dialect_codec", "The native dialect's codec alone", where, {"messages_per_s": results}, text)


if __name__ == "__main__":
    main()
