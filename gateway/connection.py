"""Connection: one peer's life over a thin transport. It carries out what the session decides and decides nothing.

Its tasks, all owned by one TaskGroup and named "<session>/<task>":

    read      messages → dialect → session
    write     session → dialect → socket, one message at a time; also keeps the session's time
    speech N  one per utterance: its stream's chunks → session, while the outbox has room

The wire is logged at DEBUG: `<` received, `>` sent, `=` state, each line with the session's id; never text or audio.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, assert_never

from engine.api import Engine, EngineSession, SpeechStream
from engine.errors import CapacityError, EngineError, TooLongError, VoiceNotFoundError
from gateway.dialects.base import Dialect
from gateway.errors import SUBSTITUTIONS, ClientError, ErrorCode
from gateway.events import (
    Action,
    Audio,
    Cancelled,
    CancelSpeech,
    ClientEvent,
    CloseConnection,
    Done,
    Failed,
    FeedSpeech,
    FinishSpeech,
    OpenSpeech,
    ReleaseSpeech,
    ServerEvent,
    TextFragment,
    Warned,
)
from gateway.session import Session
from gateway.transports.websocket import ConnectionClosedError, Transport

log = logging.getLogger("antiphon.connection")

INTERNAL_CLOSE: Final = 1011
SLICE_CHARS: Final = 200
"""Text handled in one go: about a millisecond of the text front-end."""
CLOSE_WRITE_S: Final = 5.0
"""Once a close has been forced, what is queued and the close itself have this long to leave."""


class Observer(Protocol):
    """What a connection tells the metrics."""

    def received(self, event: ClientEvent) -> None: ...
    def refused(self, error: ClientError) -> None: ...
    def sent(self, event: ServerEvent) -> None: ...


@dataclass(slots=True)
class _Speech:
    """An utterance's stream and the task that reads it."""

    stream: SpeechStream
    room: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Connection:
    """Run it once. `stalled_s`: a peer that takes nothing for so long is dropped."""

    def __init__(
        self,
        transport: Transport,
        dialect: Dialect,
        session: Session,
        engine: Engine,
        observer: Observer,
        stalled_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._dialect = dialect
        self._session = session
        self._engine = engine
        self._observer = observer
        self._stalled_s = stalled_s
        self._clock = clock
        self._engine_session: EngineSession | None = None
        self._speeches: dict[str, _Speech] = {}
        self._changed = asyncio.Event()
        self._closing: CloseConnection | None = None
        self._abort_timer: asyncio.TimerHandle | None = None
        self._tasks: asyncio.TaskGroup

    async def run(self) -> None:
        """Until either side closes. Whatever happens, the engine's contexts are freed."""
        log.debug("%s = open", self._session.id)
        try:
            async with asyncio.TaskGroup() as self._tasks:
                reader = self._task(self._read(), "read")
                await self._write()
                reader.cancel()
                for speech in self._speeches.values():
                    if speech.task is not None:
                        speech.task.cancel()
        except* ConnectionClosedError as closed:
            log.debug("%s = %s", self._session.id, closed.exceptions[0])
        except* Exception:  # the edge of a connection: our fault, not the peer's
            log.exception("%s ! the connection failed", self._session.id)
            await self._close_or_abort(INTERNAL_CLOSE, "internal error")
        finally:
            if self._abort_timer is not None:
                self._abort_timer.cancel()
            if self._engine_session is not None:
                self._engine_session.close()
            self._session.ended()
            log.debug("%s = closed", self._session.id)

    def drain(self) -> None:
        """The server is shutting down: let running utterances end, then say so and close with 1001."""
        self._carry_out(self._session.drain())

    def shut(self) -> None:
        """The time for that is over: close now."""
        self._carry_out(self._session.shut())

    def _task(self, coroutine: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        return self._tasks.create_task(coroutine, name=f"{self._session.id}/{name}")

    # ---- read --------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        await self._apply(self._dialect.begin)
        while True:
            message = await self._transport.receive()
            log.debug("%s < %s of %d", self._session.id, type(message).__name__, len(message))
            await self._apply(partial(self._dialect.receive, message))
            await asyncio.sleep(0)  # a peer that has sent much at once does not hold up the others

    async def _apply(self, receive: Callable[[], list[ClientEvent]]) -> None:
        """Hand a message's events to the session. A ClientError is answered and the session lives on; the message's
        other events still count, so that a refused text does not take its turn's end with it."""
        try:
            for event in receive():
                await self._handle(event)
        except ClientError as error:
            self._refuse(error)
        except Exception:  # the edge of a connection: our fault, not the peer's
            log.exception("%s ! a message could not be handled", self._session.id)
            self._carry_out(self._session.close(ErrorCode.INTERNAL, "internal error", INTERNAL_CLOSE))
        self._changed.set()

    async def _handle(self, event: ClientEvent) -> None:
        self._observer.received(event)
        try:
            if isinstance(event, TextFragment) and len(event.text) > SLICE_CHARS:
                await self._handle_in_slices(event)
            else:
                self._carry_out(self._session.handle(event, self._clock()))
        except ClientError as error:
            self._refuse(error)

    async def _handle_in_slices(self, event: TextFragment) -> None:
        """A long fragment, without holding up the other connections: where it is cut changes nothing."""
        self._session.check_text(event)
        for start in range(0, len(event.text), SLICE_CHARS):
            piece = TextFragment(event.utterance, event.text[start : start + SLICE_CHARS])
            self._carry_out(self._session.handle(piece, self._clock()))
            await asyncio.sleep(0)

    def _refuse(self, error: ClientError) -> None:
        self._observer.refused(error)
        self._carry_out(self._session.refuse(error))

    # ---- actions -----------------------------------------------------------------------------------------------------

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case OpenSpeech():
                    self._open_speech(action)
                case FeedSpeech() | FinishSpeech():
                    self._drive(action)
                case CancelSpeech():
                    speech = self._speeches.get(action.utterance)
                    if speech is not None:
                        speech.stream.cancel(action.heard_samples, action.heard_chars)
                        self._stop_reading(speech)
                case ReleaseSpeech():
                    speech = self._speeches.pop(action.utterance, None)
                    if speech is not None:
                        self._stop_reading(speech)
                case CloseConnection():
                    self._closing = action
                    if action.is_forced and self._abort_timer is None:
                        self._abort_timer = asyncio.get_running_loop().call_later(CLOSE_WRITE_S, self._transport.abort)
                case _:
                    assert_never(action)
        self._changed.set()

    def _open_speech(self, action: OpenSpeech) -> None:
        try:
            if self._engine_session is None:
                self._engine_session = self._engine.open_session(self._session.id)
            stream = self._engine_session.open_stream(action.request, action.lane)
        except EngineError as error:
            self._fail(action.utterance, error)
            return
        speech = _Speech(stream)
        self._speeches[action.utterance] = speech
        speech.task = self._task(self._speak(action.utterance, speech), f"speech {action.utterance}")

    def _drive(self, action: FeedSpeech | FinishSpeech) -> None:
        speech = self._speeches.get(action.utterance)
        if speech is None:
            return  # it could not be opened, and the client has been told
        try:
            if isinstance(action, FeedSpeech):
                speech.stream.feed(action.segment)
            else:
                speech.stream.finish()
        except EngineError as error:
            self._fail(action.utterance, error)

    def _fail(self, utterance: str, error: EngineError) -> None:
        refusal = _client_error(error)
        self._observer.refused(refusal)
        self._carry_out(self._session.speech_failed(utterance, refusal))

    @staticmethod
    def _stop_reading(speech: _Speech) -> None:
        if speech.task is not None:
            speech.task.cancel()
            speech.task = None

    async def _speak(self, utterance: str, speech: _Speech) -> None:
        """Read a stream into the session, no faster than its outbox empties."""
        try:
            async for chunk in speech.stream:
                if self._speeches.get(utterance) is not speech:
                    return
                self._session.audio(utterance, chunk, speech.stream.timeline)
                self._changed.set()
                while not self._session.can_take_audio(utterance):
                    speech.room.clear()
                    await speech.room.wait()
        except EngineError as error:
            if self._speeches.get(utterance) is speech:
                speech.task = None
                self._fail(utterance, error)

    # ---- write -------------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Write what may go, wait for the kernel to take it, sleep until something changes or time is due. Nothing is
        taken from the session before the socket has room, so that nothing taken can wait behind a cancel."""
        while True:
            await self._drain()
            now_s = self._clock()
            self._carry_out(self._session.on_time(now_s))
            self._changed.clear()
            event = self._session.take(now_s)
            if event is not None:
                await self._send(event)
            elif self._closing is not None:
                await self._close_or_abort(self._closing.code, self._closing.reason)
                return
            else:
                await self._wait(self._session.wake_at_s(now_s) - now_s)

    async def _send(self, event: ServerEvent) -> None:
        for message in self._dialect.send(event):
            log.debug("%s > %s of %d", self._session.id, type(event).__name__, len(message))
            await self._transport.send(message)
        if isinstance(event, Warned) and event.code in SUBSTITUTIONS:
            log.warning("%s ! %s", self._session.id, event.message)
        self._carry_out(self._session.written(event, self._clock()))
        self._observer.sent(event)
        self._make_room(event)
        await asyncio.sleep(0)  # encoding a full outbox does not hold up the other connections

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(self._stalled_s):
                await self._transport.drained()
        except TimeoutError:
            log.info("%s = the peer took nothing for %g s: dropped", self._session.id, self._stalled_s)
            self._transport.abort()
            raise ConnectionClosedError(1006) from None

    async def _close_or_abort(self, code: int, reason: str) -> None:
        """A close that cannot leave within its time is none."""
        try:
            async with asyncio.timeout(CLOSE_WRITE_S):
                await self._transport.close(code, reason)
        except (TimeoutError, ConnectionClosedError):
            self._transport.abort()

    def _make_room(self, event: ServerEvent) -> None:
        if isinstance(event, Audio | Done | Cancelled | Failed) and event.utterance is not None:
            speech = self._speeches.get(event.utterance)
            if speech is not None and self._session.can_take_audio(event.utterance):
                speech.room.set()

    async def _wait(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await self._changed.wait()
        except TimeoutError:
            return


def _client_error(error: EngineError) -> ClientError:
    """What an engine's error is to the client."""
    match error:
        case VoiceNotFoundError():
            return ClientError(ErrorCode.VOICE_NOT_FOUND, str(error))
        case TooLongError():
            return ClientError(ErrorCode.TEXT_TOO_LONG, str(error))
        case CapacityError():
            return ClientError(ErrorCode.CAPACITY, str(error), retry_after_s=error.retry_after_s)
        case _:
            log.error("an utterance failed: %s", error)
            return ClientError(
                ErrorCode.ENGINE_FAILED, "the engine failed in this utterance; the server's log says why"
            )
