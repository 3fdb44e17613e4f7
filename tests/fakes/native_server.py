"""A small server of the native dialect on loopback, for clients to be tested against: it speaks a ramp of samples.

Every code point of the input is spoken as `SAMPLES_PER_CHAR` samples of 16-bit PCM whose values count up, so a
test can see which samples it got. The real dialect does the encoding.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import numpy as np
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from engine.speech import ModelInfo, VoiceInfo
from gateway.dialects.base import Handshake
from gateway.dialects.native import NativeDialect
from gateway.errors import ClientError, ErrorCode, WarningCode
from gateway.events import (
    Acknowledge,
    Audio,
    Cancel,
    Cancelled,
    ClientEvent,
    Configure,
    Done,
    EndText,
    Failed,
    Flush,
    Flushed,
    Limits,
    OpenUtterance,
    Ping,
    Pong,
    Ready,
    ServerEvent,
    Started,
    TextFragment,
    UtteranceMetrics,
    Warned,
    Word,
    Words,
)

RATE_HZ = 24000
SAMPLES_PER_CHAR = 1200
KEY = "secret"

MODEL = ModelInfo(
    name="ramp",
    sample_rate_hz=RATE_HZ,
    voices=(VoiceInfo("heart", "Heart", "en"), VoiceInfo("bella", "Bella", "en")),
    default_voice="heart",
    languages=frozenset({"en"}),
    word_timing="exact",
    tags={},
    parameters=frozenset({"speed", "seed"}),
)


@dataclass
class _Speech:
    number: int
    text: str = ""
    spoken: int = 0
    is_done: bool = False


@dataclass
class RampSpeech:
    """One connection's behaviour: `answer` turns what the client says into what the server says. Tests override it."""

    received: list[ClientEvent] = field(default_factory=list)
    utterances: dict[str, _Speech] = field(default_factory=dict)

    def answer(self, event: ClientEvent) -> list[ServerEvent]:
        self.received.append(event)
        match event:
            case OpenUtterance():
                if event.options.voice not in (None, "heart", "bella"):
                    return [Failed(ErrorCode.VOICE_NOT_FOUND, f"voice {event.options.voice!r}", event.utterance)]
                self.utterances[event.utterance] = _Speech(len(self.utterances) + 1)
            case TextFragment():
                speech = self.utterances[event.utterance]
                if len(event.text) > 10_000:
                    return [Failed(ErrorCode.TEXT_TOO_LONG, "text is too long", event.utterance)]
                speech.text += event.text
            case Flush():
                return [*self.speak(event.utterance), Flushed(event.utterance, event.id)]
            case EndText():
                return self.finish(event.utterance)
            case Cancel():
                return self.cancel(event)
            case Configure():
                if event.voice == "nobody":
                    return [Failed(ErrorCode.VOICE_NOT_FOUND, "voice 'nobody' is not known")]
            case Ping():
                return [Pong(event.id)]
            case Acknowledge():
                pass
        return []

    def speak(self, utterance: str) -> list[ServerEvent]:
        speech = self.utterances[utterance]
        events: list[ServerEvent] = []
        if speech.spoken == 0 and speech.text:
            events.append(Started(utterance, speech.number, "heart", "pcm_s16le", RATE_HZ, 7, "exact"))
        for index in range(speech.spoken, len(speech.text)):
            start = index * SAMPLES_PER_CHAR
            end = start + SAMPLES_PER_CHAR
            events.append(Words(utterance, (Word(speech.text[index], index, index + 1, start, end),), RATE_HZ))
            payload = np.arange(start, end).astype("<i2").tobytes()
            events.append(
                Audio(utterance, speech.number, start, SAMPLES_PER_CHAR, payload, RATE_HZ, is_first=index == 0)
            )
        speech.spoken = len(speech.text)
        return events

    def finish(self, utterance: str) -> list[ServerEvent]:
        speech = self.utterances[utterance]
        events = self.speak(utterance)
        samples = speech.spoken * SAMPLES_PER_CHAR
        if samples:
            events.append(Audio(utterance, speech.number, samples, 0, b"", RATE_HZ, is_last=True))
        speech.is_done = True
        metrics = UtteranceMetrics(queue_s=0.001, first_audio_s=0.05, generation_s=0.1, segments=1)
        return [*events, Done(utterance, "complete", samples, RATE_HZ, len(speech.text), metrics)]

    def cancel(self, event: Cancel) -> list[ServerEvent]:
        if event.utterance is not None and event.utterance not in self.utterances:
            return [Warned(WarningCode.NOTHING_TO_CANCEL, "already cancelled", event.utterance)]
        ids = list(self.utterances) if event.utterance is None else [event.utterance]
        answers: list[ServerEvent] = []
        for id in ids:
            speech = self.utterances.pop(id)
            sent = speech.spoken * SAMPLES_PER_CHAR
            played = sent if event.played_s is None else round(event.played_s * RATE_HZ)
            heard = min(round(played / SAMPLES_PER_CHAR), len(speech.text))
            source = "clock" if event.played_s is None else "client"
            answers.append(
                Cancelled(id, speech.is_done, sent, played, RATE_HZ, source, speech.text[:heard], speech.text[heard:])
            )
        return answers


@dataclass
class NativeServer:
    url: str
    connections: list[RampSpeech] = field(default_factory=list)
    sockets: list[ServerConnection] = field(default_factory=list)


@asynccontextmanager
async def native_server(
    behaviour: Callable[[], RampSpeech] = RampSpeech, *, refuse_with: tuple[HTTPStatus, str] | None = None
) -> AsyncIterator[NativeServer]:
    """Serve on a free port. `refuse_with`: the HTTP status and body that every connection gets instead."""

    def check(connection: ServerConnection, request: Request) -> Response | None:
        if refuse_with is None:
            return None
        status, body = refuse_with
        content = body.encode()
        headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(content))})
        return Response(status.value, status.phrase, headers, content)

    async def handle(socket: ServerConnection) -> None:
        offered = (socket.subprotocol,) if socket.subprotocol else ()
        dialect = NativeDialect(Handshake("/", {}, {}, {}, offered), max_message_bytes=262_144)
        speech = behaviour()
        server.connections.append(speech)
        server.sockets.append(socket)

        async def send(events: list[ServerEvent]) -> None:
            for event in events:
                for message in dialect.send(event):
                    await socket.send(message)

        limits = Limits(262_144, 10_000, 64, 60.0, 20.0, 0.0)
        await send([Ready("s1", "r1", MODEL, ("pcm_s16le",), RATE_HZ, limits, "0.1.0")])
        try:
            async for message in socket:
                try:
                    for event in dialect.receive(message):
                        await send(speech.answer(event))
                except ClientError as error:
                    await send([Failed(error.code, error.message, error.utterance)])
        except ConnectionClosed:
            pass

    subprotocols = [Subprotocol("antiphon.v1.json"), Subprotocol("antiphon.v1.msgpack")]
    server = NativeServer("")
    async with serve(handle, "127.0.0.1", 0, subprotocols=subprotocols, process_request=check) as listener:
        port = next(iter(listener.sockets)).getsockname()[1]
        server.url = f"ws://127.0.0.1:{port}/antiphon/v1/speak"
        yield server


def refusal(code: str, message: str, retry_after_s: float | None = None) -> str:
    return json.dumps({"code": code, "message": message, "retry_after_s": retry_after_s})
