"""A connection without a network: the gateway's end is a Transport, the client's a socket as `gateway.client` wants it.

Messages keep their order. A close lets what was sent before it arrive; an abort does not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from websockets.exceptions import ConnectionClosed, ConnectionClosedOK
from websockets.exceptions import ConnectionClosedError as ConnectionLost
from websockets.frames import Close

from gateway.transports.websocket import ConnectionClosedError

MAX_WAITING_MESSAGES: Final = 16
"""Of the client's, not yet received: `send` waits for room. The gateway waits for the client by `drained`."""
NORMAL_CLOSE: Final = 1000
ABORTED: Final = 1006


def in_process_pair() -> tuple[InProcessTransport, InProcessSocket]:
    """Both ends of a new connection, open."""
    pipe = _Pipe()
    return InProcessTransport(pipe), InProcessSocket(pipe)


class _Pipe:
    """What both ends share."""

    def __init__(self) -> None:
        self.to_gateway: deque[str | bytes] = deque()
        self.to_client: deque[str | bytes] = deque()
        self.closed: Close | None = None
        """By whom does not matter; the first one counts."""
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Something changed: everybody who waits looks again."""
        self._changed.set()
        self._changed.clear()

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Or until the connection is closed."""
        while self.closed is None and not is_so():
            await self._changed.wait()

    def close(self, code: int, reason: str) -> None:
        if self.closed is None:
            self.closed = Close(code, reason)
        self.notify()


class InProcessTransport:
    """The gateway's end."""

    def __init__(self, pipe: _Pipe) -> None:
        self._pipe = pipe

    async def receive(self) -> str | bytes:
        pipe = self._pipe
        await pipe.wait_until(lambda: bool(pipe.to_gateway))
        if not pipe.to_gateway:
            raise self._gone()
        message = pipe.to_gateway.popleft()
        pipe.notify()
        return message

    async def send(self, message: str | bytes) -> None:
        if self._pipe.closed is not None:
            raise self._gone()
        self._pipe.to_client.append(message)
        self._pipe.notify()

    async def drained(self) -> None:
        """The client has taken all that was sent."""
        await self._pipe.wait_until(lambda: not self._pipe.to_client)
        if self._pipe.closed is not None:
            raise self._gone()

    async def close(self, code: int, reason: str) -> None:
        self._pipe.close(code, reason)

    def abort(self) -> None:
        self._pipe.to_client.clear()
        self._pipe.close(ABORTED, "")

    def _gone(self) -> ConnectionClosedError:
        return ConnectionClosedError(ABORTED if self._pipe.closed is None else self._pipe.closed.code)


class InProcessSocket:
    """The client's end. Once the connection is closed it raises what a WebSocket of `websockets` does."""

    def __init__(self, pipe: _Pipe) -> None:
        self._pipe = pipe

    async def send(self, message: str | bytes) -> None:
        await self._pipe.wait_until(lambda: len(self._pipe.to_gateway) < MAX_WAITING_MESSAGES)
        if self._pipe.closed is not None:
            raise self._gone()
        self._pipe.to_gateway.append(message)
        self._pipe.notify()

    async def recv(self) -> str | bytes:
        pipe = self._pipe
        await pipe.wait_until(lambda: bool(pipe.to_client))
        if not pipe.to_client:
            raise self._gone()
        message = pipe.to_client.popleft()
        pipe.notify()
        return message

    async def close(self, code: int = NORMAL_CLOSE, reason: str = "") -> None:
        self._pipe.close(code, reason)

    def _gone(self) -> ConnectionClosed:
        closed = self._pipe.closed
        if closed is None or closed.code == ABORTED:
            return ConnectionLost(None, None)
        return (ConnectionClosedOK if closed.code == NORMAL_CLOSE else ConnectionLost)(closed, None)
