"""An HTTP request and its streamed response as a Transport: the body is received, the answer's chunks are sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from starlette.types import Message, Receive, Send

from gateway.dialects.http_speech import ResponseHead
from gateway.transports.websocket import ConnectionClosedError

GONE: Final = 1006
COMPLETE: Final = 1000
PIECE_BYTES: Final = 64 * 1024
"""Sent at once: what a slow reader takes of a long file is seen, piece by piece."""


class Answer(Protocol):
    """What decides how the response looks; read after each event."""

    @property
    def head(self) -> ResponseHead | None: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def is_cut_off(self) -> bool: ...


class HttpStreamTransport:
    """One request. Receives its body, then an empty message, then nothing until the client has gone.

    ASGI's `send` waits for room in the socket, so the last piece of what is handed over is kept until `drained`; a file
    that leaves whole is sent up to there, for as long as its reader takes a piece within `stalled_s`. Nothing here can
    be cancelled by a message, so none has to overtake. Once the answer is over, the response is completed and the
    connection ends. A response that was cut off is left incomplete: returning from the application without its end
    makes the server close the connection behind it. `drop` ends one whose reader takes nothing at once.
    """

    def __init__(
        self, receive: Receive, send: Send, body: bytes, answer: Answer, stalled_s: float, drop: Callable[[], None]
    ) -> None:
        self._receive = receive
        self._send = send
        self._requests = [body, b""]
        self._answer = answer
        self._stalled_s = stalled_s
        self._drop = drop
        self._pending: deque[bytes] = deque()
        self._timer: asyncio.Timeout | None = None
        self._has_begun = False
        self._is_finished = False

    async def receive(self) -> str | bytes:
        if self._requests:
            return self._requests.pop(0)
        while (await self._receive())["type"] != "http.disconnect":
            pass
        raise ConnectionClosedError(GONE)

    async def send(self, message: str | bytes) -> None:
        data = message.encode() if isinstance(message, str) else message
        self._pending += [data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES)]
        while len(self._pending) > 1:
            await self._send_piece(self._pending.popleft())

    async def drained(self) -> None:
        while self._pending:
            await self._send_piece(self._pending.popleft())
        if self._answer.is_over:
            await self._complete()
            raise ConnectionClosedError(COMPLETE)

    async def close(self, code: int, reason: str) -> None:
        await self._complete()

    def abort(self) -> None:
        self._is_finished = True
        self._drop()
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(asyncio.get_running_loop().time())
        self._timer = None

    async def _send_piece(self, piece: bytes) -> None:
        if self._is_finished:
            raise ConnectionClosedError(GONE)
        await self._begin()
        await self._put({"type": "http.response.body", "body": piece, "more_body": True})

    async def _put(self, message: Message) -> None:
        """Raises ConnectionClosedError where the reader took nothing in time, or the connection was dropped."""
        try:
            async with asyncio.timeout(self._stalled_s) as self._timer:
                await self._send(message)
        except TimeoutError:
            self.abort()
            raise ConnectionClosedError(GONE) from None
        finally:
            self._timer = None

    async def _begin(self) -> None:
        head = self._answer.head
        if self._has_begun or head is None:
            return
        self._has_begun = True
        headers = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in head.headers]
        await self._put({"type": "http.response.start", "status": head.status, "headers": headers})

    async def _complete(self) -> None:
        if self._is_finished or self._answer.is_cut_off:
            return
        await self._begin()
        if self._has_begun:
            self._is_finished = True
            await self._put({"type": "http.response.body", "body": b"", "more_body": False})
