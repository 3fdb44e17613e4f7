"""Vendors' WebSockets over a whole gateway, by raw sockets: refusals, long messages, races, stalled readers."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response
from websockets.typing import Subprotocol

from gateway.dialects import CLIENTS_PATHS, DIALECTS
from gateway.errors import ErrorCode
from gateway.events import Failed
from tests.fakes.fake_model import WholeFramesModel
from tests.fakes.gateway import RECEIVE_S, RunningGateway, running_gateway

KEY = "a key of sixteen or more characters"
PATHS = (
    "/v1/text-to-speech/alto/stream-input?output_format=pcm_24000",
    "/v1/text-to-speech/alto/multi-stream-input?output_format=pcm_24000",
    "/tts/websocket",
    "/v1/speak?model=alto",
    "/v2/speak?model=alto",
    "/v1/tts?model=cartesia/sonic-3",
    "/v1/realtime?model=gpt-realtime",
    "/jambonz/tts?voice=alto",
)
UNDER_VENDORS = (
    "/elevenlabs" + PATHS[0],
    "/elevenlabs" + PATHS[1],
    "/cartesia" + PATHS[2],
    "/deepgram" + PATHS[3],
    "/deepgram" + PATHS[4],
    "/livekit" + PATHS[5],
    "/openai" + PATHS[6],
)
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}


def open_socket(gateway: RunningGateway, path: str, **options: Any) -> connect:
    return connect(f"ws://127.0.0.1:{gateway.port}{path}", **options)


def cartesia(context: str, transcript: str, *, goes_on: bool = True) -> str:
    message = {"context_id": context, "transcript": transcript, "continue": goes_on, "output_format": RAW}
    return json.dumps({**message, "voice": {"mode": "id", "id": "alto"}, "model_id": "fake", "add_timestamps": True})


async def frames_until(socket: ClientConnection, **wanted: Any) -> list[dict[str, Any]]:
    """JSON frames up to one with these values."""
    got: list[dict[str, Any]] = []
    async with asyncio.timeout(RECEIVE_S):
        while True:
            message = await socket.recv()
            if isinstance(message, str):
                got.append(json.loads(message))
                if all(got[-1].get(key) == value for key, value in wanted.items()):
                    return got


# ---- the handshake ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
async def test_a_missing_and_a_wrong_key_are_refused_before_the_upgrade(path: str) -> None:
    async with running_gateway(settings={"keys": {"agent": KEY}}) as gateway:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"xi-api-key": "wrong"}, {"x-api-key": "wrong"}):
            with pytest.raises(InvalidStatus) as refused:
                async with open_socket(gateway, path, additional_headers=headers):
                    pass
            assert refused.value.response.status_code == 401
        async with open_socket(gateway, path, additional_headers={"authorization": f"Bearer {KEY}"}):
            pass


async def test_every_vendor_is_mounted_under_its_name_too() -> None:
    async with running_gateway() as gateway:
        for path in UNDER_VENDORS:
            async with open_socket(gateway, path):
                pass


@pytest.mark.parametrize(
    ("path", "status", "value"),
    [
        ("/v1/text-to-speech/alto/multi-stream-input?output_format=midi_1", 400, "midi_1"),
        ("/v1/speak?encoding=opus", 400, "opus"),
        ("/v2/speak?sample_rate=12345", 400, "12345"),
        ("/v1/text-to-speech/nobody/stream-input", 404, "nobody"),
        ("/v1/speak?model=nobody", 404, "nobody"),
        ("/jambonz/tts?voice=nobody", 404, "nobody"),
    ],
)
async def test_an_url_that_cannot_be_served_is_refused_before_the_upgrade(path: str, status: int, value: str) -> None:
    async with running_gateway(settings={"dialects": {"unknown_names": "error"}}) as gateway:
        with pytest.raises(InvalidStatus) as refused:
            async with open_socket(gateway, path):
                pass
    assert refused.value.response.status_code == status
    assert value in bytes(refused.value.response.body or b"").decode()


SOCKETS = [(entry, path) for entry in DIALECTS for path in entry.paths]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What keeps an upgrade out: settings, or something that happens to the server, or what the client sends."""

    status: int
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    happens: Callable[[RunningGateway], None] = lambda gateway: None
    headers: Mapping[str, str] = field(default_factory=dict)
    has_peer: bool = False
    """Another connection is open."""


def _starting(gateway: RunningGateway) -> None:
    gateway.service.is_ready = False


def _draining(gateway: RunningGateway) -> None:
    gateway.service.admission.drain()


REFUSALS = {
    "no key": Refusal(401, {"keys": {"agent": KEY}}),
    "a foreign page": Refusal(403, headers={"origin": "http://evil.example"}),
    "too many of one key": Refusal(429, {"limits": {"connections_per_key": 1}}, has_peer=True),
    "full": Refusal(503, {"limits": {"connections": 1}}, has_peer=True),
    "not ready": Refusal(503, happens=_starting),
    "shutting down": Refusal(503, happens=_draining),
}


async def refused(gateway: RunningGateway, path: str, headers: Mapping[str, str]) -> tuple[Response, dict[str, Any]]:
    with pytest.raises(InvalidStatus) as caught:
        async with open_socket(gateway, path, additional_headers=headers):
            pass
    return caught.value.response, json.loads(caught.value.response.body or b"")


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refused_upgrade_is_told_in_the_errors_of_whose_path_it_is(name: str) -> None:
    """Native's own says what there is to tell; every dialect has to tell that."""
    case = REFUSALS[name]
    async with running_gateway(settings=case.settings) as gateway, AsyncExitStack() as peers:
        if case.has_peer:
            await peers.enter_async_context(open_socket(gateway, "/antiphon/v1/speak"))
        case.happens(gateway)
        _, told = await refused(gateway, "/antiphon/v1/speak", case.headers)
        failed = Failed(ErrorCode(told["code"]), told["message"], None, told["retryable"], told.get("retry_after_s"))
        for entry, path in SOCKETS:
            response, body = await refused(gateway, path.format(voice_id="alto"), case.headers)
            assert response.status_code == case.status
            assert body == entry.error_body(failed, case.status)
            assert response.headers["content-type"] == "application/json"
            assert ("retry-after" in response.headers) == (case.status in (429, 503))
            for header, value in entry.error_headers(failed).items():
                assert response.headers[header] == value


async def test_an_upgrade_of_a_path_without_a_socket_is_a_404_in_the_errors_of_whose_path_it_is() -> None:
    async with running_gateway() as gateway:
        for path, error_body in CLIENTS_PATHS.items():
            if any(path in entry.paths for entry in DIALECTS):
                continue
            asked = path.replace("{rest:path}", "no/such")
            response, body = await refused(gateway, asked, {})
            message = f"no WebSocket is served at {asked!r} (docs/dialects.md)"
            assert response.status_code == 404
            assert body == error_body(Failed(ErrorCode.UNKNOWN_TYPE, message), 404)
        for asked in ("/", "/nowhere", "/antiphon/v2/speak", "/web/style.css"):
            response, body = await refused(gateway, asked, {})
            assert (response.status_code, body["code"]) == (404, "unknown_type")


async def test_a_plain_request_at_a_sockets_path_is_told_what_an_upgrade_would_be() -> None:
    settings = {"dialects": {"unknown_names": "error"}, "limits": {"connections": 1}}
    async with running_gateway(settings=settings) as gateway, httpx.AsyncClient(base_url=gateway.http) as client:
        for entry, path in SOCKETS:
            answer = await client.get(path.format(voice_id="alto"))
            assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")
            message = "this path is a WebSocket: connect with an upgrade"
            assert answer.json() == entry.error_body(Failed(ErrorCode.BAD_MESSAGE, message), 426)
        for path in ("/v1/text-to-speech/nobody/stream-input", "/v1/speak?model=nobody", "/jambonz/tts?voice=nobody"):
            assert (await client.get(path)).status_code == 404
        async with open_socket(gateway, "/tts/websocket"):
            assert (await client.get("/tts/websocket")).status_code == 503


async def test_a_browsers_key_comes_in_the_subprotocols_and_one_of_them_is_accepted() -> None:
    async with running_gateway(settings={"keys": {"agent": "a-key-of-sixteen-characters"}}) as gateway:
        key = "a-key-of-sixteen-characters"
        for path, offered in (
            ("/v1/speak?model=alto", ["token", key]),
            ("/v1/realtime?model=x", ["realtime", f"openai-insecure-api-key.{key}"]),
        ):
            subprotocols = [Subprotocol(name) for name in offered]
            async with open_socket(gateway, path, subprotocols=subprotocols) as socket:
                assert socket.subprotocol == offered[0]


async def test_deflate_is_not_negotiated() -> None:
    async with running_gateway() as gateway:
        for path in PATHS:
            async with open_socket(gateway, path, compression="deflate") as socket:
                assert socket.protocol.extensions == []


# ---- messages --------------------------------------------------------------------------------------------------------


async def test_a_message_of_two_megabytes_is_an_error_and_not_a_close() -> None:
    async with running_gateway() as gateway, open_socket(gateway, "/tts/websocket") as socket:
        await socket.send(cartesia("a", "x" * 2_000_000, goes_on=False))
        error = (await frames_until(socket, type="error"))[-1]
        assert error["error_code"] == "message_too_big"
        await socket.send(cartesia("b", "Hello.", goes_on=False))
        await frames_until(socket, type="done", context_id="b")


async def test_no_frame_of_a_minute_of_speech_comes_near_a_clients_limit() -> None:
    settings = {"speech": {"max_ahead_ms": 3_600_000}}
    async with running_gateway(settings=settings) as gateway, open_socket(gateway, "/tts/websocket") as socket:
        await socket.send(cartesia("a", "This is a sentence of some length. " * 40, goes_on=False))
        got = await frames_until(socket, type="done")
    assert max(len(json.dumps(frame)) for frame in got) < 16_384


async def test_two_contexts_each_count_their_words_from_their_own_start() -> None:
    async with running_gateway() as gateway, open_socket(gateway, "/tts/websocket") as socket:
        for context in ("a", "b"):
            await socket.send(cartesia(context, "Hello there. "))
        for context in ("b", "a"):
            await socket.send(cartesia(context, "And more.", goes_on=False))
        got = [*(await frames_until(socket, type="done")), *(await frames_until(socket, type="done"))]
    for context in ("a", "b"):
        words = [
            frame["word_timestamps"]
            for frame in got
            if frame.get("context_id") == context and "word_timestamps" in frame
        ]
        starts = [start for one in words for start in one["start"]]
        assert starts[0] == 0.0
        assert starts == sorted(starts)
        assert len(starts) == 4


# ---- races -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["elevenlabs", "cartesia", "deepgram", "flux"])
async def test_a_hundred_cancels_at_random_moments_leave_nothing_stale(kind: str) -> None:
    """What comes behind the answer to a cancel belongs to the next turn, always."""
    path = {"elevenlabs": PATHS[1], "cartesia": PATHS[2], "deepgram": PATHS[3], "flux": PATHS[4]}[kind]
    chance = random.Random(7)
    model = WholeFramesModel(frames_per_char=4)
    async with running_gateway(model) as gateway, open_socket(gateway, path) as socket:
        for number in range(100):
            context = f"c{number}"
            for message in STORY[kind](context):
                await socket.send(json.dumps(message))
            await asyncio.sleep(chance.random() * 0.02)
            await socket.send(json.dumps(CANCEL[kind](context)))
            await frames_until(socket, **CANCELLED[kind](context))
        for message in LAST[kind]:
            await socket.send(json.dumps(message))
        heard = await audio_until(socket, kind)
    assert len(heard) == 3 * 4 * 960 * 2


STORY: Mapping[str, Any] = {
    "elevenlabs": lambda context: [
        {"text": " ", "context_id": context},
        {"text": "A long story that nobody wants to hear. And more.", "context_id": context},
    ],
    "cartesia": lambda context: [json.loads(cartesia(context, "A long story that nobody wants to hear. And more."))],
    "deepgram": lambda context: [{"type": "Speak", "text": "A long story that nobody wants to hear. And more."}],
    "flux": lambda context: [{"type": "Speak", "text": "A long story that nobody wants to hear. And more."}],
}
CANCEL: Mapping[str, Any] = {
    "elevenlabs": lambda context: {"context_id": context, "close_context": True},
    "cartesia": lambda context: {"context_id": context, "cancel": True},
    "deepgram": lambda context: {"type": "Clear"},
    "flux": lambda context: {"type": "Interrupt"},
}
CANCELLED: Mapping[str, Any] = {
    "elevenlabs": lambda context: {"contextId": context, "isFinal": True},
    "cartesia": lambda context: {"context_id": context, "type": "done"},
    "deepgram": lambda context: {"type": "Cleared"},
    "flux": lambda context: {"type": "SpeechInterrupted"},
}
LAST: Mapping[str, Any] = {
    "elevenlabs": [
        {"text": "Hi.", "context_id": "last"},
        {"context_id": "last", "flush": True},
        {"context_id": "last", "close_context": True},
    ],
    "cartesia": [json.loads(cartesia("last", "Hi.", goes_on=False))],
    "deepgram": [{"type": "Speak", "text": "Hi."}, {"type": "Flush"}],
    "flux": [{"type": "Speak", "text": "Hi."}, {"type": "Flush"}],
}


async def audio_until(socket: ClientConnection, kind: str) -> bytes:
    """Everything audible up to the last turn's end, of whatever turn it is."""
    import base64

    heard = b""
    async with asyncio.timeout(RECEIVE_S):
        while True:
            message = await socket.recv()
            if isinstance(message, bytes):
                heard += message
                continue
            frame = json.loads(message)
            heard += base64.b64decode(frame.get("audio") or frame.get("data") or "")
            if frame.get("isFinal") or frame.get("type") in ("done", "Flushed"):
                return heard


async def test_a_connection_that_dropped_leaves_nothing_to_the_next_one() -> None:
    async with running_gateway(WholeFramesModel(frames_per_char=4)) as gateway:
        async with open_socket(gateway, PATHS[3]) as socket:
            await socket.send(
                json.dumps({"type": "Speak", "text": "A long story that nobody wants to hear. And more."})
            )
            await socket.send(json.dumps({"type": "Flush"}))
            while not isinstance(await socket.recv(), bytes):
                pass
            socket.transport.abort()
        async with open_socket(gateway, PATHS[3]) as socket:
            for message in LAST["deepgram"]:
                await socket.send(json.dumps(message))
            assert len(await audio_until(socket, "deepgram")) == 3 * 4 * 960 * 2


async def test_a_stream_that_the_server_closes_has_been_sent_whole() -> None:
    """A minute of speech to a client that takes its time; only then the close."""
    text = "This is a sentence of some length. " * 43
    settings = {"speech": {"max_ahead_ms": 3_600_000}}
    async with running_gateway(settings=settings) as gateway, open_socket(gateway, PATHS[0], max_queue=1) as socket:
        for part in (" ", text, ""):
            await socket.send(json.dumps({"text": part}))
        heard = 0
        async with asyncio.timeout(RECEIVE_S):
            async for message in socket:
                heard += len(json.loads(message).get("audio") or "") * 3 // 4
                await asyncio.sleep(0.002)
    assert socket.close_code == 1000
    assert heard / 48000 > 60


# ---- readers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["elevenlabs", "cartesia", "deepgram", "flux"])
async def test_a_reader_that_takes_nothing_stops_generation(kind: str) -> None:
    """Also where nothing is paced: there is no other back-pressure in these protocols."""
    path = {"elevenlabs": PATHS[1], "cartesia": PATHS[2], "deepgram": PATHS[3], "flux": PATHS[4]}[kind]
    settings = {"speech": {"max_ahead_ms": 3_600_000}}
    text = "This is a sentence of some length. " * 1000
    async with running_gateway(settings=settings) as gateway, open_socket(gateway, path, max_queue=1) as socket:
        story = json.loads(
            json.dumps(STORY[kind]("a")).replace("A long story that nobody wants to hear. And more.", text)
        )
        for message in story:
            await socket.send(json.dumps(message))
        sent = -1.0
        async with asyncio.timeout(RECEIVE_S):
            while sent != (now := audio_s(gateway)):
                sent = now
                await asyncio.sleep(0.5)
        assert 0 < sent < 60  # of an hour: what the sockets between here and there hold
        socket.transport.abort()


def audio_s(gateway: RunningGateway) -> float:
    for line in gateway.service.metrics.exposition().decode().splitlines():
        if line.startswith("antiphon_audio_seconds_total "):
            return float(line.rpartition(" ")[2])
    raise AssertionError("no antiphon_audio_seconds_total")


async def test_text_in_the_same_packet_as_the_handshake_is_spoken() -> None:
    request = (
        b"GET /v1/speak?model=alto HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
    )
    async with running_gateway() as gateway, asyncio.timeout(RECEIVE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request + masked('{"type":"Speak","text":"Hello."}') + masked('{"type":"Flush"}'))
        got = b""
        while b"Flushed" not in got:
            got += await reader.read(65536)
        writer.close()
    assert len(got) > 6 * 960 * 2


def masked(text: str) -> bytes:
    """A client's text frame (RFC 6455 section 5.2), masked with zeros."""
    data = text.encode()
    return bytes((0x81, 0x80 | len(data))) + bytes(4) + data
