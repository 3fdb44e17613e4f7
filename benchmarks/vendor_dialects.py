"""What the vendors' dialects cost: messages a second of each codec alone, and first audio over the wire beside native.

    python benchmarks/vendor_dialects.py [--rounds 60] [--seconds 0.3]

Codec: no socket, no session, one thread. Wire: a gateway in a process of its own with the embedded voice; in each round
every dialect speaks one short sentence on its open connection, in random order, so that all see the same machine. The
clock starts when the last message of the sentence is handed to the socket and stops at the first audio message; the
turn's end marker is timed from the last audio message.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.dialect_codec import AUDIO, ROUNDS, WORDS, per_second
from benchmarks.gateway_process import running_gateway
from benchmarks.machine import machine
from benchmarks.results import save, table
from engine.speech import ModelInfo, VoiceInfo
from gateway.commands.bench import percentiles_ms
from gateway.dialects import DIALECTS
from gateway.dialects.base import Dialect, Handshake, ServerFacts
from gateway.dialects.vendor_names import VendorNames
from gateway.errors import ClientError
from gateway.events import Limits, OpenUtterance, Started

TEXT = "Hello there, how are you?"
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}
MODEL = ModelInfo("m", 24000, (VoiceInfo("v", "V", "en"),), "v", frozenset({"en"}), "exact", {}, frozenset())
NAMES = VendorNames({}, {}, "default", ("v",))
SERVER = ServerFacts(Limits(262_144, 100_000, 32, 3900.0, 60.0, 0.0), lambda: MODEL, NAMES)
Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wire:
    """How a client says one turn `n`, and tells its first audio and its end."""

    path: str
    turn: Callable[[str], list[Message]]
    is_audio: Callable[[Any], bool]
    is_end: Callable[[Message], bool]
    query: dict[str, str] = field(default_factory=dict)
    first: tuple[Message, ...] = ()


def _binary(message: Any) -> bool:
    return isinstance(message, bytes)


def _with(key: str) -> Callable[[Any], bool]:
    return lambda message: isinstance(message, dict) and bool(message.get(key))


def _type(*names: str) -> Callable[[Message], bool]:
    return lambda message: message.get("type") in names


def _cartesia(n: str) -> list[Message]:
    common = {"context_id": n, "output_format": RAW, "voice": {"mode": "id", "id": "v"}, "add_timestamps": True}
    return [{**common, "transcript": TEXT, "continue": True}, {**common, "transcript": "", "continue": False}]


def _deepgram(n: str) -> list[Message]:
    return [{"type": "Speak", "text": TEXT}, {"type": "Flush"}]


def _realtime(n: str) -> list[Message]:
    return [{"type": "response.create", "response": {"instructions": TEXT}}]


WIRES: dict[str, Wire] = {
    "native": Wire(
        "/antiphon/v1/speak",
        lambda n: [{"type": "text", "utterance": n, "text": TEXT}, {"type": "end", "utterance": n}],
        _binary,
        _type("done"),
    ),
    "elevenlabs multi": Wire(
        "/v1/text-to-speech/v/multi-stream-input",
        lambda n: [
            {"text": " ", "context_id": n},
            {"text": TEXT, "context_id": n},
            {"context_id": n, "flush": True},
            {"context_id": n, "close_context": True},
        ],
        _with("audio"),
        lambda message: message.get("isFinal") is True,
        {"output_format": "pcm_24000"},
    ),
    "cartesia": Wire("/tts/websocket", _cartesia, _with("data"), _type("done")),
    "deepgram": Wire("/v1/speak", _deepgram, _binary, _type("Flushed")),
    "deepgram flux": Wire("/v2/speak", _deepgram, _binary, _type("SpeechMetadata")),
    "livekit": Wire(
        "/v1/tts",
        lambda n: [{"type": "input_transcript", "transcript": TEXT}, {"type": "session.flush"}],
        _with("audio"),
        _type("done"),
        first=({"type": "session.create", "sample_rate": "24000"},),
    ),
    "openai realtime": Wire("/v1/realtime", _realtime, _with("delta"), _type("response.done")),
    "jambonz": Wire(
        "/jambonz/tts",
        lambda n: [{"type": "stream", "text": TEXT}, {"type": "flush"}],
        _binary,
        lambda message: False,
        {"sampleRate": "24000"},
    ),
}


def _dialect(name: str) -> Dialect:
    entry = next(entry for entry in DIALECTS if entry.name == name)
    return entry.make(Handshake("/", {"voice_id": "v"}, WIRES[name].query, {}, ()), SERVER)


def codec(name: str, seconds: float) -> dict[str, dict[str, float]]:
    """A text message received, an audio message and one of four words sent, into one open turn."""
    receiving, sending = _dialect(name), _dialect(name)
    messages = [json.dumps(message) for message in WIRES[name].turn("u1")]
    text = next((raw for raw in messages if TEXT in raw), messages[0])
    opened = [event for raw in messages for event in sending.receive(raw) if isinstance(event, OpenUtterance)]
    utterance = opened[0].utterance if opened else "u1"
    sending.send(Started(utterance, 1, "v", "pcm_s16le", 24000, 1, "exact"))
    audio = type(AUDIO)(utterance, 1, 2400, 2400, AUDIO.payload, 24000)
    words = type(WORDS)(utterance, WORDS.words, 24000)

    def receive() -> None:
        nonlocal receiving
        try:
            receiving.receive(text)
        except ClientError:  # as many turns or answers as one connection may have: go on with a fresh one
            receiving = _dialect(name)

    works: dict[str, Callable[[], object]] = {
        "receive text": receive,
        "send audio (100 ms)": lambda: sending.send(audio),
    }
    if sending.send(words) or name.startswith("elevenlabs"):
        # ElevenLabs' words travel in the next audio message: both together.
        works["send words (4)"] = lambda: (sending.send(words), sending.send(audio))[0]
    return {work: per_second(call, seconds) for work, call in works.items()}


@dataclass
class Ear:
    """A connection that stays open, and what was measured on it."""

    wire: Wire
    socket: ClientConnection
    first_s: list[float] = field(default_factory=list)
    tail_s: list[float] = field(default_factory=list)
    """From the last audio message to the end marker."""

    async def speak(self, n: str) -> None:
        for message in self.wire.turn(n):
            await self.socket.send(json.dumps(message))
        start, first, last = time.perf_counter(), None, 0.0
        while True:
            data = await self.socket.recv()
            now = time.perf_counter()
            message = data if isinstance(data, bytes) else json.loads(data)
            if self.wire.is_audio(message):
                last = now
                if first is None:
                    first = now
                    self.first_s.append(now - start)
            if isinstance(message, dict) and self.wire.is_end(message):
                self.tail_s.append(now - last)
                return
            if first is not None and not isinstance(message, dict) and self.wire.path == "/jambonz/tts":
                await self._drain()
                return

    async def _drain(self) -> None:
        """jambonz has no end marker: what is left of the turn is over when nothing has come for a while."""
        while True:
            try:
                async with asyncio.timeout(0.3):
                    await self.socket.recv()
            except TimeoutError:
                return


async def over_the_wire(address: str, rounds: int) -> dict[str, Ear]:
    base = address.rpartition("/antiphon/")[0]
    ears: dict[str, Ear] = {}
    for name, wire in WIRES.items():
        query = "&".join(f"{key}={value}" for key, value in wire.query.items())
        socket = await connect(f"{base}{wire.path}?{query}", compression=None)
        for message in wire.first:
            await socket.send(json.dumps(message))
        ears[name] = Ear(wire, socket)
    chance = random.Random(1)
    for n in range(rounds + 1):
        for name in chance.sample(list(ears), len(ears)):
            await ears[name].speak(f"t{n}")
            if n == 0:
                ears[name].first_s.clear()
                ears[name].tail_s.clear()
    for ear in ears.values():
        await ear.socket.close()
    return ears


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each of the codec's rounds")
    arguments = parser.parse_args()
    where = machine()
    rates = {name: codec(name, arguments.seconds) for name in WIRES}
    with running_gateway({"ANTIPHON_SPEECH__MAX_AHEAD_MS": "60000"}) as address:
        ears = asyncio.run(over_the_wire(address, arguments.rounds))
    native_ms = statistics.median(ears["native"].first_s) * 1000
    rows = []
    for name, ear in ears.items():
        median_ms = statistics.median(ear.first_s) * 1000
        codecs = [f"{rates[name][work]['median']:,.0f}" if work in rates[name] else "–" for work in
                  ("receive text", "send audio (100 ms)", "send words (4)")]  # fmt: skip
        tail = percentiles_ms(ear.tail_s)
        tail_ms = "–" if tail is None else f"{tail['p95']:.1f}"
        rows.append((name, f"{median_ms:.1f}", f"{median_ms - native_ms:+.1f}", tail_ms, *codecs))
    text = table(
        [
            "dialect",
            "first audio ms, median",
            "over native",
            "last audio to end ms, p95",
            "receive text /s",
            "send audio /s",
            "send words /s",
        ],
        rows,
    )
    text += (
        f"\n\n{arguments.rounds} turns each of {TEXT!r}, one at a time, in random order; audio unpaced. "
        f"Codec: median of {ROUNDS} rounds, one thread, native with binary audio; ElevenLabs' words count with "
        "the audio message they travel in."
    )
    report = {
        "codec_per_s": rates,
        "first_audio": {name: percentiles_ms(ear.first_s) for name, ear in ears.items()},
        "last_audio_to_end": {name: percentiles_ms(ear.tail_s) for name, ear in ears.items() if ear.tail_s},
    }
    save("vendor_dialects", "The vendors' dialects beside native", where, report, text)


if __name__ == "__main__":
    main()
