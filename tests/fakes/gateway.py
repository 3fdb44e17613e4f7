"""A whole gateway on a loopback port, in the test's own event loop, over whatever model a test gives it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import msgpack
import uvicorn
from websockets.asyncio.client import ClientConnection, connect

from engine.config import EngineSettings
from engine.engine import LocalEngine
from engine.speech_model import SpeechModel
from gateway.app import bind, make_app, make_server, make_service
from gateway.config import load_config
from gateway.service import Service
from tests.fakes.fake_model import WholeFramesModel

STOPPED_POLL_S = 0.002
RECEIVE_S = 20.0
"""Longer than anything here takes, so that a hang fails a test instead of the run."""


@dataclass(frozen=True, slots=True)
class RunningGateway:
    port: int
    service: Service
    engine: LocalEngine
    model: SpeechModel

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/antiphon/v1/speak"


@asynccontextmanager
async def running_gateway(
    model: SpeechModel | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    drain_s: float = 1.0,
    start_s: float = RECEIVE_S,
) -> AsyncIterator[RunningGateway]:
    """`settings`: section → key → value, as in the configuration file."""
    speaker = model if model is not None else WholeFramesModel()
    config = load_config(None, {}, settings)
    engine = LocalEngine(speaker, EngineSettings())
    service = make_service(config, engine)
    ready = asyncio.Event()
    listener = bind("127.0.0.1", 0)
    server = make_server(service, make_app(service, ready.set), drain_s)
    await _start(server, listener)
    try:
        async with asyncio.timeout(start_s):
            await ready.wait()
        yield RunningGateway(listener.getsockname()[1], service, engine, speaker)
    finally:
        await _stop(server)
        listener.close()


async def _start(server: uvicorn.Server, listener: socket.socket) -> None:
    """What `Server.serve` does, without its loop, which looks ten times a second for a signal."""
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[listener])
    await server.on_tick(0)


async def _stop(server: uvicorn.Server) -> None:
    """What `Server.shutdown` does, as soon as it can be done: that sleeps in between for a tenth of a second."""
    for accepting in server.servers:
        accepting.close()
    for connection in list(server.server_state.connections):
        connection.shutdown()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(server.config.timeout_graceful_shutdown):
            await _ended(server)
    await server.lifespan.shutdown()


async def _ended(server: uvicorn.Server) -> None:
    while server.server_state.connections or server.server_state.tasks:  # noqa: ASYNC110  # it has no event for it
        await asyncio.sleep(STOPPED_POLL_S)


@dataclass(slots=True)
class Peer:
    """A raw client of the native dialect: sends maps, keeps every message it got; audio as the map it is in msgpack."""

    socket: ClientConnection
    is_msgpack: bool = False
    received: list[dict[str, Any]] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)

    async def send(self, **message: Any) -> None:
        await self.socket.send(msgpack.packb(message) if self.is_msgpack else json.dumps(message))

    async def receive(self) -> dict[str, Any]:
        async with asyncio.timeout(RECEIVE_S):
            data = await self.socket.recv()
        message = self._decoded(data)
        if message["type"] == "started":
            self.names[message["number"]] = message["utterance"]
        self.received.append(message)
        return message

    def _decoded(self, data: str | bytes) -> dict[str, Any]:
        if self.is_msgpack:
            decoded: dict[str, Any] = msgpack.unpackb(data)
            return decoded
        if isinstance(data, str):
            parsed: dict[str, Any] = json.loads(data)
            return parsed
        _, _, number, seq, start_sample, flags, _ = struct.unpack("<BBHIIHH", data[:16])
        return {
            "type": "audio",
            "utterance": self.names[number],
            "seq": seq,
            "start_sample": start_sample,
            "flags": flags,
            "data": data[16:],
        }

    async def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The next message of this type with these fields."""
        while True:
            message = await self.receive()
            if message["type"] == kind and all(message.get(key) == value for key, value in fields.items()):
                return message

    def of(self, utterance: str, kind: str | None = None) -> list[dict[str, Any]]:
        return [
            message
            for message in self.received
            if message.get("utterance") == utterance and kind in (None, message["type"])
        ]

    def audio(self, utterance: str) -> bytes:
        return b"".join(message["data"] for message in self.of(utterance, "audio"))


class Call:
    """`async with Call(gateway) as peer`: connected, `ready` already received."""

    def __init__(
        self, gateway: RunningGateway, subprotocol: str | None = None, query: str = "", **arguments: Any
    ) -> None:
        subprotocols = None if subprotocol is None else [subprotocol]
        self._connect = connect(gateway.url + query, subprotocols=subprotocols, **arguments)  # type: ignore[arg-type]
        self._is_msgpack = subprotocol == "antiphon.v1.msgpack"

    async def __aenter__(self) -> Peer:
        peer = Peer(await self._connect.__aenter__(), self._is_msgpack)
        await peer.until("ready")
        return peer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connect.__aexit__(kind, error, trace)
