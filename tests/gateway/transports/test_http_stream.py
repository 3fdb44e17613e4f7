"""An HTTP request and its streamed response as a Transport."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.dialects.http_speech import ResponseHead
from gateway.transports.http_stream import PIECE_BYTES, HttpStreamTransport
from gateway.transports.websocket import ConnectionClosedError

HEAD = ResponseHead(200, (("content-type", "audio/pcm"),))


@dataclass
class StandIn:
    """What decides how the response looks."""

    head: ResponseHead | None = None
    is_over: bool = False
    is_cut_off: bool = False


@dataclass
class Peer:
    """The server's side of ASGI."""

    answer: StandIn = field(default_factory=StandIn)
    stalled_s: float = 60.0
    is_dropped: bool = False
    sent: list[dict[str, Any]] = field(default_factory=list)
    has_gone: asyncio.Event = field(default_factory=asyncio.Event)
    room: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.room.set()
        self.transport = HttpStreamTransport(
            self._receive, self._send, b"body", self.answer, self.stalled_s, self._drop
        )

    def _drop(self) -> None:
        self.is_dropped = True

    async def _receive(self) -> dict[str, Any]:
        await self.has_gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.room.wait()
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def is_complete(self) -> bool:
        return bool(self.sent) and self.sent[-1].get("more_body") is False


async def test_the_body_is_received_then_its_end_then_nothing_until_the_client_has_gone() -> None:
    peer = Peer()
    assert [await peer.transport.receive(), await peer.transport.receive()] == [b"body", b""]
    waiting = asyncio.create_task(peer.transport.receive())
    await asyncio.sleep(0)
    assert not waiting.done()
    peer.has_gone.set()
    with pytest.raises(ConnectionClosedError):
        await waiting


async def test_the_head_goes_before_the_first_chunk_and_once() -> None:
    peer = Peer(StandIn(HEAD))
    for chunk in (b"one", "two"):
        await peer.transport.send(chunk)
        await peer.transport.drained()
    assert [message["type"] for message in peer.sent] == ["http.response.start", *["http.response.body"] * 2]
    assert peer.sent[0]["headers"] == [(b"content-type", b"audio/pcm")]
    assert peer.body == b"onetwo"


async def test_nothing_is_begun_while_there_is_no_status() -> None:
    peer = Peer()
    await peer.transport.drained()
    assert peer.sent == []


async def test_an_answer_that_is_over_completes_the_response_and_ends_the_connection() -> None:
    peer = Peer(StandIn(HEAD, is_over=True))
    await peer.transport.send(b"all")
    with pytest.raises(ConnectionClosedError):
        await peer.transport.drained()
    assert peer.body == b"all"
    assert peer.is_complete


async def test_an_empty_answer_is_complete_too() -> None:
    peer = Peer(StandIn(HEAD, is_over=True))
    with pytest.raises(ConnectionClosedError):
        await peer.transport.drained()
    assert peer.is_complete
    assert peer.body == b""


async def test_an_answer_that_was_cut_off_does_not_look_complete() -> None:
    peer = Peer(StandIn(HEAD, is_over=True, is_cut_off=True))
    await peer.transport.send(b"half")
    with pytest.raises(ConnectionClosedError):
        await peer.transport.drained()
    await peer.transport.close(1011, "")
    assert not peer.is_complete


async def test_a_response_whose_reader_took_nothing_is_left_incomplete() -> None:
    peer = Peer(StandIn(HEAD))
    await peer.transport.send(b"half")
    await peer.transport.drained()
    peer.transport.abort()
    await peer.transport.close(1006, "")
    assert not peer.is_complete


async def test_send_does_not_wait_for_the_reader_but_drained_does() -> None:
    peer = Peer(StandIn(HEAD))
    peer.room.clear()
    await peer.transport.send(b"chunk")
    draining = asyncio.create_task(peer.transport.drained())
    await asyncio.sleep(0)
    assert not draining.done()
    peer.room.set()
    await draining
    assert peer.body == b"chunk"


async def test_a_file_leaves_in_pieces_as_its_reader_takes_them() -> None:
    peer = Peer(StandIn(HEAD, is_over=True))
    file = bytes(range(256)) * 1000
    await peer.transport.send(file)
    with pytest.raises(ConnectionClosedError):
        await peer.transport.drained()
    assert peer.body == file
    assert max(len(message.get("body", b"")) for message in peer.sent) == PIECE_BYTES
    assert peer.is_complete


async def test_a_reader_that_takes_no_piece_in_time_is_dropped() -> None:
    peer = Peer(StandIn(HEAD), stalled_s=0.01)
    peer.room.clear()
    with pytest.raises(ConnectionClosedError):
        await peer.transport.send(bytes(2 * PIECE_BYTES))
    assert peer.is_dropped
    with pytest.raises(ConnectionClosedError):
        await peer.transport.drained()
    assert peer.sent == []


async def test_dropping_a_connection_does_not_wait_for_its_reader() -> None:
    peer = Peer(StandIn(HEAD))
    peer.room.clear()
    sending = asyncio.create_task(peer.transport.send(bytes(2 * PIECE_BYTES)))
    await asyncio.sleep(0)
    peer.transport.abort()
    peer.transport.abort()
    with pytest.raises(ConnectionClosedError):
        await sending
    assert peer.sent == []
