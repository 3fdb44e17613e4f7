"""An HTTP request and its streamed response as a Transport: the body is received, the answer's chunks are sent."""

from __future__ import annotations

from typing import Final, Protocol

from starlette.types import Receive, Send

from gateway.dialects.http_speech import ResponseHead
from gateway.transports.websocket import ConnectionClosedError

GONE: Final = 1006
COMPLETE: Final = 1000


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

    ASGI's `send` waits for room in the socket, so what is handed over is kept until `drained`. Once the answer is over,
    the response is completed and the connection ends. A response that was cut off, or whose reader took nothing, is
    left incomplete: returning from the application without its end makes the server drop the connection.
    """

    def __init__(self, receive: Receive, send: Send, body: bytes, answer: Answer) -> None:
        self._receive = receive
        self._send = send
        self._requests = [body, b""]
        self._answer = answer
        self._pending: list[bytes] = []
        self._has_begun = False
        self._is_finished = False

    async def receive(self) -> str | bytes:
        if self._requests:
            return self._requests.pop(0)
        while (await self._receive())["type"] != "http.disconnect":
            pass
        raise ConnectionClosedError(GONE)

    async def send(self, message: str | bytes) -> None:
        self._pending.append(message.encode() if isinstance(message, str) else message)

    async def drained(self) -> None:
        pending, self._pending = self._pending, []
        for chunk in pending:
            await self._begin()
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        if self._answer.is_over:
            await self._complete()
            raise ConnectionClosedError(COMPLETE)

    async def close(self, code: int, reason: str) -> None:
        await self._complete()

    def abort(self) -> None:
        self._is_finished = True

    async def _begin(self) -> None:
        head = self._answer.head
        if self._has_begun or head is None:
            return
        self._has_begun = True
        headers = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in head.headers]
        await self._send({"type": "http.response.start", "status": head.status, "headers": headers})

    async def _complete(self) -> None:
        if self._is_finished or self._answer.is_cut_off:
            return
        await self._begin()
        if self._has_begun:
            self._is_finished = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
