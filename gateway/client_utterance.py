"""One utterance of the client: what its user says and reads, and what the connection's reader delivers to it."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from gateway.client_errors import OverrunError, ServerError, SpeechClientError
from gateway.client_wire import AudioFrame, Cancelled, Done, Failed, Flushed, Message, Started, Warned, Words

MAX_BUFFERED_BYTES: Final = 16 * 2**20
"""Audio of one utterance that waits to be read: 5 minutes at 24 kHz and 16 bits. Past it the utterance is cancelled and
its reader gets OverrunError: one that nobody reads can neither fill the memory nor keep the others from being heard."""
ITEM_OVERHEAD_BYTES: Final = 200
"""What an item or a word counts for beside its audio: about its size as a Python object."""
UTTERANCE_SURVIVES: Final = frozenset({"text_too_long", "utterance_ended", "message_too_big", "engine_failed"})
"""Errors about an utterance that do not end it: a refused text leaves it as it was, a failed engine says `done` next.
Any other one, before `started`, means that it was never opened."""

Item = Started | AudioFrame | Words | Warned | Done | Cancelled


class Carrier(Protocol):
    """What an utterance needs of the connection that it lives on."""

    @property
    def max_message_chars(self) -> int: ...

    async def send(self, message: Mapping[str, object]) -> None: ...

    def start_task(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]: ...


class ClientUtterance:
    """One stretch of speech. Iterate it, once, for its items: `Started`, `AudioFrame`, `Words`, `Warned`, and last
    `Done` or `Cancelled`. The iteration raises ServerError where the server reports an error of this utterance; where
    the utterance survives that (a text too long), it can be taken up again by `anext` or another `async for`."""

    def __init__(self, connection: Carrier, id: str, lane: str, max_buffered_bytes: int) -> None:
        self.id = id
        self.lane = lane
        self.started: Started | None = None
        """What was granted, once it is known."""
        self.done: Done | None = None
        self.cancelled: Cancelled | None = None
        self._connection = connection
        self._max_buffered_bytes = max_buffered_bytes
        self._items: deque[Item | Exception] = deque()
        self._buffered_bytes = 0
        self.feeder: asyncio.Task[None] | None = None
        self._has_news = asyncio.Event()
        self._is_over = False
        self._is_discarding = False
        self._flush_ids = itertools.count(1)
        self._flushes: dict[int, asyncio.Future[bool]] = {}
        self._cancel: asyncio.Future[Cancelled] | None = None

    @property
    def is_over(self) -> bool:
        """Nothing more will come but, perhaps, the report of a cancel after `done`."""
        return self._is_over

    # ---- what the user does ------------------------------------------------------------------------------------------

    async def say(self, text: str) -> None:
        """Append text verbatim: it may cut words, tags and characters anywhere. Text larger than a message may be goes
        in several. Once the utterance is over, text for it is not sent."""
        if self._is_over:
            return
        step = self._connection.max_message_chars
        for start in range(0, len(text), step):
            await self._connection.send({"type": "text", "utterance": self.id, "text": text[start : start + step]})

    async def flush(self) -> bool:
        """Have all that was sent spoken now, and wait for its last sample. False: the utterance ended before that."""
        if self._is_over:
            return False
        flush_id = next(self._flush_ids)
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._flushes[flush_id] = waiter
        try:
            await self._connection.send({"type": "flush", "utterance": self.id, "id": flush_id})
            return await waiter
        finally:
            self._flushes.pop(flush_id, None)

    async def end(self) -> None:
        """No more text. Does not wait: iterate the utterance for what is still to come."""
        if not self._is_over:
            await self._connection.send({"type": "end", "utterance": self.id})

    async def ack(self, played_ms: float) -> None:
        """Report how much has been played, from the utterance's start: it keeps send-ahead and a later cancel exact."""
        await self._connection.send({"type": "ack", "utterance": self.id, "played_ms": played_ms})

    async def cancel(self, played_ms: float | None = None) -> Cancelled:
        """Barge-in: stop at once and learn what had been heard. Audio not read yet is thrown away.

        `played_ms`: what the player has played of this utterance; without it the server goes by acks or by its clock.
        Also valid after `done`, while the listener may still be hearing the end. Raises ServerError nothing_to_cancel
        where it was over for good before.
        """
        if self.cancelled is not None:
            return self.cancelled
        self.discard()
        if self._cancel is None:
            self._cancel = asyncio.get_running_loop().create_future()
            message: dict[str, Any] = {"type": "cancel", "utterance": self.id}
            if played_ms is not None:
                message["played_ms"] = played_ms
            try:
                await self._connection.send(message)
            except BaseException:
                self._cancel = None
                raise
        return await asyncio.shield(self._cancel)

    def __aiter__(self) -> AsyncIterator[Item]:
        return self

    async def __anext__(self) -> Item:
        while not self._items:
            if self._is_over:
                raise StopAsyncIteration
            self._has_news.clear()
            await self._has_news.wait()
        item = self._items.popleft()
        self._buffered_bytes -= _size_bytes(item)
        if isinstance(item, Exception):
            raise item
        return item

    # ---- for the client that owns it, not for its user ---------------------------------------------------------------

    def receive(self, message: Message | AudioFrame) -> None:
        match message:
            case AudioFrame() | Words():
                if not self._is_discarding:
                    self._put(message)
            case Warned():
                self._put(message)
                if message.code == "nothing_to_cancel":
                    self.settle_cancel(ServerError(message.code, message.message, utterance=self.id))
            case Started():
                self.started = message
                self._put(message)
            case Flushed():
                waiter = self._flushes.get(message.id) if isinstance(message.id, int) else None
                if waiter is not None and not waiter.done():
                    waiter.set_result(True)
            case Done():
                self.done = message
                self._put(message)
                self._finish()
            case Cancelled():
                self.cancelled = message
                if self.done is None:
                    self._put(message)
                self._finish()
                self.settle_cancel(message)
            case Failed():
                self._receive_failure(message)
            case _:
                pass

    async def _cancel_after_overrun(self) -> None:
        with suppress(SpeechClientError):
            await self.cancel()

    def _receive_failure(self, failure: Failed) -> None:
        error = ServerError(
            failure.code,
            failure.message,
            utterance=self.id,
            is_retryable=failure.is_retryable,
            retry_after_s=failure.retry_after_s,
        )
        if self._cancel is not None and failure.code == "unknown_utterance":
            self.settle_cancel(error)
        if self.started is None and failure.code not in UTTERANCE_SURVIVES:
            self.fail(error)
        else:
            self._put(error)

    def _put(self, item: Item | Exception) -> None:
        if self._is_over:
            return
        size_bytes = _size_bytes(item)
        if self._buffered_bytes + size_bytes > self._max_buffered_bytes and not isinstance(item, Done | Cancelled):
            unread_bytes = self._buffered_bytes
            self.discard()
            self._items.append(
                OverrunError(
                    f"utterance {self.id!r}: {unread_bytes:,} bytes were not read, "
                    f"at most {self._max_buffered_bytes:,} are kept; it was cancelled"
                )
            )
            self._finish()
            self._connection.start_task(self._cancel_after_overrun(), f"cancel after overrun of {self.id}")
            return
        self._buffered_bytes += size_bytes
        self._items.append(item)
        self._has_news.set()

    def discard(self) -> None:
        """Forget what was not read, and what may still come, but for the last word."""
        self._is_discarding = True
        kept = [item for item in self._items if not isinstance(item, AudioFrame | Words)]
        self._items = deque(kept)
        self._buffered_bytes = sum(_size_bytes(item) for item in kept)

    def fail(self, error: Exception) -> None:
        self._put(error)
        self._finish()

    def _finish(self) -> None:
        self._is_over = True
        self._has_news.set()
        if self.feeder is not None:
            self.feeder.cancel()
        for waiter in self._flushes.values():
            if not waiter.done():
                waiter.set_result(False)

    def settle_cancel(self, outcome: Cancelled | Exception) -> None:
        waiter, self._cancel = self._cancel, None
        if waiter is None or waiter.done():
            return
        if isinstance(outcome, Cancelled):
            waiter.set_result(outcome)
        else:
            waiter.set_exception(outcome)
            waiter.exception()  # whoever cancelled may be gone: then nobody needs to be told


def _size_bytes(item: Item | Exception) -> int:
    """What an unread item counts for in the buffer."""
    match item:
        case AudioFrame():
            return len(item.payload) + ITEM_OVERHEAD_BYTES
        case Words():
            return ITEM_OVERHEAD_BYTES * (1 + len(item.words))
        case _:
            return ITEM_OVERHEAD_BYTES
