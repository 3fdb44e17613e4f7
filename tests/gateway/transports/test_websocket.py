"""The WebSocket transport: writes never wait, `drained` does, and a vanished peer is one kind of error."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from gateway.app import bind
from gateway.transports.websocket import ConnectionClosedError, FlowControlledProtocol, WebSocketTransport

MEBIBYTE = 1 << 20


@asynccontextmanager
async def serving(handler: Callable[[WebSocket], Awaitable[None]]) -> AsyncIterator[str]:
    app = Starlette(routes=[WebSocketRoute("/", handler)])
    server = uvicorn.Server(
        uvicorn.Config(app, ws=FlowControlledProtocol, ws_per_message_deflate=False, log_config=None, lifespan="off")
    )
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    with bind("127.0.0.1", 0) as listener:
        listener.listen()  # connections wait here until the server takes them
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"ws://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            await task


async def slow_reader(url: str) -> ClientConnection:
    """A peer with a small window that reads nothing by itself."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, port = url.removeprefix("ws://").rstrip("/").split(":")
    raw.connect((host, int(port)))
    return await connect(url, sock=raw, max_queue=1, close_timeout=0.1)


async def test_a_write_returns_at_once_and_drained_waits_for_the_kernel() -> None:
    drained, sent = asyncio.Event(), asyncio.Event()

    async def handler(websocket: WebSocket) -> None:
        await websocket.accept()
        transport = WebSocketTransport(websocket)
        await transport.send(bytes(MEBIBYTE))
        sent.set()
        await transport.drained()
        drained.set()

    async with serving(handler) as url:
        peer = await slow_reader(url)
        await asyncio.wait_for(sent.wait(), 5)
        assert not drained.is_set()
        assert len(await asyncio.wait_for(peer.recv(), 10)) == MEBIBYTE
        await asyncio.wait_for(drained.wait(), 5)
        await peer.close()


async def test_a_stalled_peer_holds_seconds_and_not_minutes_of_pcm_in_the_kernel() -> None:
    taken = 0
    stalled = asyncio.Event()

    async def handler(websocket: WebSocket) -> None:
        nonlocal taken
        await websocket.accept()
        transport = WebSocketTransport(websocket)
        try:
            while True:
                await transport.send(bytes(4800))
                await asyncio.wait_for(transport.drained(), 1.0)
                taken += 4800
        except TimeoutError:
            stalled.set()
            transport.abort()

    async with serving(handler) as url:
        await slow_reader(url)
        await asyncio.wait_for(stalled.wait(), 20)
        assert taken < 6 * 48_000


async def test_a_vanished_peer_is_a_closed_connection_for_every_call() -> None:
    errors: list[ConnectionClosedError] = []
    over = asyncio.Event()

    async def handler(websocket: WebSocket) -> None:
        await websocket.accept()
        transport = WebSocketTransport(websocket)
        for call in (
            transport.receive,
            lambda: transport.send("x"),
            transport.drained,
            lambda: transport.close(1000, ""),
        ):
            try:
                await call()
            except ConnectionClosedError as error:
                errors.append(error)
        over.set()

    async with serving(handler) as url:
        peer = await connect(url)
        peer.transport.abort()
        await asyncio.wait_for(over.wait(), 5)
    assert len(errors) == 4


async def test_text_and_bytes_arrive_as_they_were_sent_and_a_long_reason_is_cut() -> None:
    async def handler(websocket: WebSocket) -> None:
        await websocket.accept()
        transport = WebSocketTransport(websocket)
        for _ in range(2):
            await transport.send(await transport.receive())
        await transport.close(1008, "é" * 100)

    async with serving(handler) as url, connect(url) as peer:
        for message in ("text", b"\x00bytes"):
            await peer.send(message)
            assert await peer.recv() == message
        await peer.wait_closed()
        assert (peer.close_code, peer.close_reason) == (1008, "é" * 61)


async def test_a_refusal_before_the_upgrade_is_answered_without_an_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(websocket: WebSocket) -> None:
        await websocket.send_denial_response(JSONResponse({"why": "no"}, 401))

    async with serving(handler) as url:
        with pytest.raises(InvalidStatus) as caught:
            await connect(url)
        assert caught.value.response.status_code == 401
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_server_can_be_shut_down_while_a_peer_that_does_not_read_says_goodbye() -> None:
    has_left = asyncio.Event()

    async def handler(websocket: WebSocket) -> None:
        await websocket.accept()
        await WebSocketTransport(websocket).send(bytes(8 * MEBIBYTE))
        await websocket.receive()
        has_left.set()

    async with serving(handler) as url:
        peer = await slow_reader(url)
        peer.transport.pause_reading()
        peer.transport.write(b"\x88\x82" + bytes(4) + b"\x03\xe8")  # a masked Close, 1000
        await has_left.wait()
    peer.transport.abort()
