"""The Python client of the native dialect: text in as it is written, audio and words out as they are spoken.

    async with Client.connect("ws://127.0.0.1:8000/antiphon/v1/speak") as client:
        utterance = await client.speak(tokens_of_the_model())  # any iterable of str, or an async one
        async for item in utterance:
            match item:
                case Started():
                    player.open(item.sample_rate_hz)
                case AudioFrame():
                    player.write(item.payload)
                case Words():
                    captions.show(item.words)
        # barge-in, from anywhere:  report = await utterance.cancel(played_ms=player.played_ms)

Utterances run at once in any number, on one lane or on several. One task per connection, the reader, takes messages
from the socket; a `speak` with an iterable adds one that feeds it. Both are named, owned by the client and gone when
its `async with` block is left. Every buffer is bounded (`MAX_BUFFERED_BYTES` an utterance).

Errors are those of `gateway/client_errors.py`, all SpeechClientError.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import logging
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext
from typing import Any, Final, Literal, Protocol, TypedDict, Unpack
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from gateway.auth import is_loopback
from gateway.client_errors import ConnectionLostError, OverrunError, RefusedError, ServerError, SpeechClientError
from gateway.client_utterance import MAX_BUFFERED_BYTES, ClientUtterance
from gateway.client_wire import (
    MAX_BYTES_PER_CHAR,
    SUBPROTOCOLS,
    AudioFrame,
    AudioMessage,
    Cancelled,
    Done,
    Failed,
    Message,
    MessageCodec,
    OtherMessage,
    Pong,
    ProtocolError,
    Ready,
    Started,
    Warned,
    Wire,
    Word,
    Words,
)

__all__ = [
    "AudioFrame",
    "Cancelled",
    "Client",
    "ClientUtterance",
    "ConnectionLostError",
    "Defaults",
    "Done",
    "Options",
    "OverrunError",
    "Ready",
    "RefusedError",
    "ServerError",
    "Socket",
    "SpeechClientError",
    "Started",
    "Warned",
    "Word",
    "Words",
]

logger = logging.getLogger(__name__)

MAX_KEPT_WARNINGS: Final = 100
OPEN_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 5.0
MAX_MESSAGE_BYTES: Final = 16 * 2**20
MESSAGE_OVERHEAD_BYTES: Final = 1024
"""More than a text message has beside its text."""
CLOSE_PROTOCOL_ERROR: Final = 1002
CLOSE_INTERNAL_ERROR: Final = 1011
_HAS_PROXIES: Final = "proxy" in inspect.signature(connect).parameters
"""From version 15 on, websockets goes through the environment's proxy, which cannot know this machine's loopback."""


class Defaults(TypedDict, total=False):
    """Defaults of utterances opened later: the fields of `config`; None where the wire has null."""

    voice: str
    format: str
    sample_rate_hz: int | None
    speed: float
    seed: int | None
    language: str | None
    lexicon: Mapping[str, str]
    audio: Literal["binary", "base64"]
    max_ahead_ms: float | None
    tag_scope: Literal["utterance", "session"]
    resume_ms: float


class Options(TypedDict, total=False):
    """What one utterance may ask for: the fields of `open`."""

    lane: str
    voice: str
    format: str
    sample_rate_hz: int
    speed: float
    seed: int
    language: str
    words: bool
    segmentation: Literal["auto", "manual"]
    sampling: Mapping[str, float]


class Socket(Protocol):
    """What carries a client's messages: a `ClientConnection` of websockets, or what behaves and raises like one."""

    async def send(self, message: str | bytes) -> None: ...

    async def recv(self) -> str | bytes: ...

    async def close(self, code: int = 1000, reason: str = "") -> None: ...


class _Probe:
    """A ping on its way, and what the server said about the connection as a whole before its pong."""

    def __init__(self) -> None:
        self.pong: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.errors: list[Failed] = []
        self.cancelled: list[Cancelled] = []


class Client:
    """One connection and its session. Make it with `connect`."""

    def __init__(self, connection: Socket, codec: MessageCodec, ready: Ready, max_buffered_bytes: int) -> None:
        self.ready = ready
        """What the server announced: its model, voices, formats and limits."""
        self.warnings: deque[Warned] = deque(maxlen=MAX_KEPT_WARNINGS)
        """The latest warnings that were about no utterance; those about one are items of its iteration."""
        self.max_message_chars = (int(ready.limits["message_bytes"]) - MESSAGE_OVERHEAD_BYTES) // MAX_BYTES_PER_CHAR
        self._connection = connection
        self._codec = codec
        self._max_buffered_bytes = max_buffered_bytes
        self._ids = itertools.count(1)
        self._probe_ids = itertools.count(1)
        self._probes: dict[int, _Probe] = {}
        # Weak: who lets go of an utterance no longer wants its items; whoever reads it or waits on it holds it.
        self._utterances: WeakValueDictionary[str, ClientUtterance] = WeakValueDictionary()
        self._by_number: WeakValueDictionary[int, ClientUtterance] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_failure: Failed | None = None
        self._lost: ConnectionLostError | None = None
        self._reader = asyncio.create_task(self._read(), name=f"speech client reader {ready.session}")

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        url: str,
        *,
        key: str | None = None,
        wire: Wire = "json",
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
        open_timeout_s: float = OPEN_TIMEOUT_S,
        ssl: SSLContext | None = None,
        **config: Unpack[Defaults],
    ) -> AsyncIterator[Client]:
        """Connect, and close when the block is left.

        `url` as ws://host:port/antiphon/v1/speak; `key` goes into the Authorization header; `config` gives the defaults
        of utterances opened later. Raises RefusedError, or ServerError where the config is refused.
        """
        connection = await _open_connection(url, key, wire, open_timeout_s, ssl)
        async with cls.over(
            connection, wire=wire, max_buffered_bytes=max_buffered_bytes, open_timeout_s=open_timeout_s, **config
        ) as client:
            yield client

    @classmethod
    @asynccontextmanager
    async def over(
        cls,
        connection: Socket,
        *,
        wire: Wire = "json",
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
        open_timeout_s: float = OPEN_TIMEOUT_S,
        **config: Unpack[Defaults],
    ) -> AsyncIterator[Client]:
        """As `connect`, over a connection that is there already and whose subprotocol is that of `wire`."""
        try:
            codec = MessageCodec(wire)
            ready = await _receive_ready(connection, codec, open_timeout_s)
            client = cls(connection, codec, ready, max_buffered_bytes)
            try:
                if config:
                    await client.configure(**config)
                yield client
            finally:
                await client.close()
        finally:
            await connection.close()

    async def close(self) -> None:
        """Close the connection: utterances that are not over get ConnectionLostError. Idempotent."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._connection.close()
        await self._reader

    async def configure(self, **config: Unpack[Defaults]) -> None:
        """Set the defaults of utterances opened later. Raises ServerError where it is refused: then nothing changed."""
        probe = await self._probe({"type": "config", **config})
        if probe.errors:
            failure = probe.errors[0]
            raise ServerError(failure.code, failure.message, is_retryable=failure.is_retryable)

    async def open(self, utterance: str | None = None, **options: Unpack[Options]) -> ClientUtterance:
        """Start an utterance; `utterance` is its id, chosen for you if left out. Does not wait for the server: a
        refusal is raised by the iteration."""
        id = utterance
        while id is None or (utterance is None and id in self._utterances):
            id = f"u{next(self._ids)}"
        known = self._utterances.get(id)
        if known is not None and not known.is_over:
            raise ValueError(f"utterance {id!r} is open on this client; an id can be used again once it is over")
        opened = ClientUtterance(self, id, options.get("lane", "main"), self._max_buffered_bytes)
        self._utterances[id] = opened
        await self.send({"type": "open", "utterance": id, **options})
        return opened

    async def speak(
        self, text: str | Iterable[str] | AsyncIterable[str], utterance: str | None = None, **options: Unpack[Options]
    ) -> ClientUtterance:
        """Open an utterance, say all of `text` and end it. Pieces from an iterable are sent one by one as they come, by
        a task of the client's; a sync one is read in a thread, so that it may block. What it raises is raised by
        the iteration, and the utterance is cancelled."""
        opened = await self.open(utterance, **options)
        if isinstance(text, str):
            await opened.say(text)
            await opened.end()
        else:
            opened.feeder = self.start_task(_feed(opened, text), f"feed of {opened.id}")
        return opened

    async def cancel_all(self) -> list[Cancelled]:
        """Barge-in on everything: the reports, in the order in which the utterances were opened."""
        for utterance in self._utterances.values():
            utterance.discard()
        return (await self._probe({"type": "cancel"})).cancelled

    async def ping(self) -> float:
        """Ask for a pong; the round trip in seconds."""
        start_s = time.perf_counter()
        await self._probe(None)
        return time.perf_counter() - start_s

    # ---- the connection ----------------------------------------------------------------------------------------------

    async def _probe(self, message: Mapping[str, object] | None) -> _Probe:
        """Send `message` and a ping behind it: what the server has to say about it comes before the pong."""
        probe_id = next(self._probe_ids)
        probe = self._probes[probe_id] = _Probe()
        try:
            if message is not None:
                await self.send(message)
            await self.send({"type": "ping", "id": probe_id})
            await probe.pong
        finally:
            self._probes.pop(probe_id, None)
        return probe

    async def send(self, message: Mapping[str, object]) -> None:
        if self._lost is not None:
            raise self._lost
        try:
            await self._connection.send(self._codec.encode(message))
        except ConnectionClosed as closed:
            raise self._lost_by(closed) from closed

    def start_task(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _read(self) -> None:
        """The reader task: every message of the socket, until it closes."""
        try:
            while True:
                self._dispatch(self._codec.decode(await self._connection.recv()))
        except ConnectionClosed as closed:
            lost = self._lost_by(closed)
        except ProtocolError as error:
            lost = ConnectionLostError(str(error), code=CLOSE_PROTOCOL_ERROR)
            await self._connection.close(CLOSE_PROTOCOL_ERROR)
        except Exception as error:  # the edge of the connection: a fault of ours must leave nobody waiting for ever
            logger.exception("the reader failed")
            lost = ConnectionLostError(f"the client failed: {error!r}")
            await self._connection.close(CLOSE_INTERNAL_ERROR)
        self._lost = lost
        for probe in self._probes.values():
            if not probe.pong.done():
                probe.pong.set_exception(lost)
        for utterance in tuple(self._utterances.values()):
            utterance.settle_cancel(lost)
            if not utterance.is_over:
                utterance.fail(lost)

    def _dispatch(self, message: Message) -> None:
        match message:
            case AudioMessage(owner, frame):
                utterance = self._by_number.get(owner) if isinstance(owner, int) else self._utterances.get(owner)
                if utterance is not None:
                    utterance.receive(frame)
            case Pong():
                probe = self._probes.get(message.id) if isinstance(message.id, int) else None
                if probe is not None and not probe.pong.done():
                    probe.pong.set_result(None)
            case Ready():
                raise ProtocolError("the server said ready a second time")
            case OtherMessage():
                logger.debug("skipped a message of unknown type %r", message.type)
            case Failed() | Warned() if message.utterance is None:
                self._receive_notice(message)
            case _:
                utterance = self._utterances.get(message.utterance) if message.utterance is not None else None
                if isinstance(message, Cancelled):
                    for probe in self._probes.values():
                        probe.cancelled.append(message)
                if utterance is not None:
                    if isinstance(message, Started):
                        self._by_number[message.number] = utterance
                    utterance.receive(message)

    def _receive_notice(self, notice: Failed | Warned) -> None:
        """About the connection as a whole."""
        if isinstance(notice, Warned):
            self.warnings.append(notice)
            logger.warning("%s: %s", notice.code, notice.message)
            return
        self._last_failure = notice
        for probe in self._probes.values():
            probe.errors.append(notice)
        if not self._probes:
            logger.error("%s: %s", notice.code, notice.message)

    def _lost_by(self, closed: ConnectionClosed) -> ConnectionLostError:
        close = closed.rcvd or closed.sent
        said = "" if self._last_failure is None else f"; {self._last_failure.code}: {self._last_failure.message}"
        if close is None:
            return ConnectionLostError(f"the connection broke{said}")
        reason = f" ({close.reason})" if close.reason else ""
        return ConnectionLostError(f"the connection was closed with code {close.code}{reason}{said}", code=close.code)


async def _feed(utterance: ClientUtterance, pieces: Iterable[str] | AsyncIterable[str]) -> None:
    """The feeding task of `Client.speak`."""
    try:
        async for piece in _as_async(pieces):
            await utterance.say(piece)
        await utterance.end()
    except SpeechClientError:
        pass  # the reader tells whoever iterates
    except Exception as error:
        utterance.fail(error)
        with suppress(SpeechClientError):
            await utterance.cancel()


async def _as_async(pieces: Iterable[str] | AsyncIterable[str]) -> AsyncIterator[str]:
    if isinstance(pieces, AsyncIterable):
        async for piece in pieces:
            yield piece
    elif isinstance(pieces, list | tuple):
        for piece in pieces:
            yield piece
    else:
        iterator = iter(pieces)
        while (following := await asyncio.to_thread(_next_piece, iterator)) is not None:
            yield following


def _next_piece(iterator: Iterator[str]) -> str | None:
    return next(iterator, None)


async def _open_connection(
    url: str, key: str | None, wire: Wire, open_timeout_s: float, ssl: SSLContext | None
) -> ClientConnection:
    options: dict[str, Any] = {} if ssl is None else {"ssl": ssl}
    if _HAS_PROXIES and is_loopback(urlsplit(url).hostname or ""):
        options["proxy"] = None
    try:
        return await connect(
            url,
            additional_headers=None if key is None else {"Authorization": f"Bearer {key}"},
            subprotocols=[Subprotocol(SUBPROTOCOLS[wire])],
            compression=None,
            open_timeout=open_timeout_s,
            close_timeout=CLOSE_TIMEOUT_S,
            max_size=MAX_MESSAGE_BYTES,
            **options,
        )
    except InvalidStatus as refused:
        raise _refusal(url, refused) from refused
    except (InvalidHandshake, InvalidURI) as error:
        raise RefusedError(f"{url} is no speech server: {error}") from error
    except OSError as error:  # TimeoutError is one
        raise RefusedError(f"cannot connect to {url}: {error or type(error).__name__}") from error


def _refusal(url: str, refused: InvalidStatus) -> RefusedError:
    """The server's own words, where it answered with the JSON body that the protocol promises."""
    status = refused.response.status_code
    try:
        body = json.loads(refused.response.body or b"")
    except ValueError:
        body = None
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    if not isinstance(body, dict) or "message" not in body:
        return RefusedError(f"{url} refused the connection with HTTP status {status}", status=status)
    return RefusedError(
        f"{url} refused the connection with HTTP status {status}: {body['message']}",
        status=status,
        code=body.get("code"),
        retry_after_s=body.get("retry_after_s"),
    )


async def _receive_ready(connection: Socket, codec: MessageCodec, timeout_s: float) -> Ready:
    try:
        async with asyncio.timeout(timeout_s):
            first = codec.decode(await connection.recv())
    except TimeoutError as error:
        raise RefusedError(f"the server said nothing within {timeout_s} s") from error
    except (ConnectionClosed, ProtocolError) as error:
        raise RefusedError(f"the server did not begin a session: {error}") from error
    match first:
        case Ready():
            return first
        case Failed():
            raise RefusedError(first.message, code=first.code, retry_after_s=first.retry_after_s)
        case _:
            raise RefusedError(f"the server began with a {type(first).__name__}, not with ready")
