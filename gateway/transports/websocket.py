"""A Starlette WebSocket as a Transport, and the uvicorn protocol that lets it know when the kernel has taken the bytes.

uvicorn's own `send` waits for room *before* it writes, so a message handed over while the peer is slow would leave
after a cancel had been read. Here a write never waits; `drained` does, afterwards.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol, cast

from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

FLOW_EXTENSION: Final = "antiphon.flow"
DROP_EXTENSION: Final = "antiphon.drop"
"""Of an HTTP request: a function that drops its connection with all that waits to be read."""
MAX_UNREAD_BYTES: Final = 64 * 1024
"""Pongs that wait in user space for a peer to read them."""


class ConnectionClosedError(Exception):
    """The peer is gone; `code` is the WebSocket close code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"closed with {code}")
        self.code = code


class Transport(Protocol):
    """A thin pipe of messages. `receive`, `send` and `drained` raise ConnectionClosedError once the peer is gone."""

    async def receive(self) -> str | bytes: ...

    async def send(self, message: str | bytes) -> None:
        """Hand one message to the socket; it does not wait for the peer."""
        ...

    async def drained(self) -> None:
        """Wait until the kernel has taken all that was sent."""
        ...

    async def close(self, code: int, reason: str) -> None: ...

    def abort(self) -> None:
        """Drop the connection without a closing handshake."""
        ...


class UpgradingProtocol(H11Protocol):
    """uvicorn's HTTP protocol, which by itself loses what a client sends right behind its handshake, and keeps the
    connection of a peer that reads nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        served = self.app

        async def droppable(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("extensions", {})[DROP_EXTENSION] = self.transport.abort
            await served(scope, receive, send)

        self.app = droppable

    def handle_websocket_upgrade(self, event: Any) -> None:
        early, _ = self.conn.trailing_data
        super().handle_websocket_upgrade(event)
        if early:
            cast(asyncio.Protocol, self.transport.get_protocol()).data_received(early)


class FlowControlledProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket protocol with no user-space write buffer to speak of."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast(asyncio.Transport, transport).set_write_buffer_limits(high=0)

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        scope = getattr(self, "scope", None)
        if scope is not None:
            scope["extensions"][FLOW_EXTENSION] = self

    def handle_ping(self) -> None:
        super().handle_ping()
        if self.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            self.transport.abort()  # a peer that pings and never reads its pongs

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # refused, and said so: uvicorn would log an error and answer 500 as well

    def shutdown(self) -> None:
        if self.handshake_complete and self.conn.state is not State.OPEN:
            self.transport.abort()  # the peer has said goodbye and does not read ours: uvicorn would raise
        else:
            super().shutdown()

    async def drained(self) -> None:
        await self.writable.wait()
        if self.transport.is_closing():
            raise ConnectionClosedError(1006)

    def abort(self) -> None:
        self.transport.abort()


class WebSocketTransport:
    """One accepted WebSocket."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        flow = websocket.scope.get("extensions", {}).get(FLOW_EXTENSION)
        self._flow = flow if isinstance(flow, FlowControlledProtocol) else None

    async def receive(self) -> str | bytes:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise ConnectionClosedError(message.get("code") or 1006)
        text: str | None = message.get("text")
        data: bytes = message.get("bytes") or b""
        return data if text is None else text

    async def send(self, message: str | bytes) -> None:
        try:
            if isinstance(message, str):
                await self._websocket.send_text(message)
            else:
                await self._websocket.send_bytes(message)
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise ConnectionClosedError(1006) from error

    async def drained(self) -> None:
        if self._flow is not None:
            await self._flow.drained()

    async def close(self, code: int, reason: str) -> None:
        try:
            # RFC 6455 §5.5.1: at most 123 bytes of reason.
            await self._websocket.close(code, reason.encode()[:123].decode(errors="ignore"))
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise ConnectionClosedError(1006) from error

    def abort(self) -> None:
        if self._flow is not None:
            self._flow.abort()
