"""An utterance of the client by itself: what its user reads for what the server says."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping

import pytest

from gateway.client_errors import OverrunError, ServerError
from gateway.client_utterance import ITEM_OVERHEAD_BYTES, UTTERANCE_SURVIVES, ClientUtterance
from gateway.client_wire import AudioFrame, Cancelled, Done, Failed, Flushed, Started, Warned, Word, Words
from gateway.errors import ErrorCode

STARTED = Started("u", 1, "heart", "pcm_s16le", 24000, 7, "exact", None)
DONE = Done("u", "complete", 40.0, 960, 5, {})
CANCELLED = Cancelled("u", False, 40.0, 20.0, "clock", "he", 2, "llo")
WORDS = Words("u", (Word("hello", 0, 5, 0.0, 40.0),))


def frame(start_sample: int, size_bytes: int = 100) -> AudioFrame:
    return AudioFrame(start_sample, bytes(size_bytes), is_first=False, is_last=False, is_segment_end=False)


class Wire:
    """Notes what is sent."""

    max_message_chars = 10

    def __init__(self) -> None:
        self.sent: list[Mapping[str, object]] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def send(self, message: Mapping[str, object]) -> None:
        self.sent.append(message)

    def start_task(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        self.tasks.append(asyncio.create_task(work, name=name))
        return self.tasks[-1]


def opened(wire: Wire, max_buffered_bytes: int = 100_000) -> ClientUtterance:
    return ClientUtterance(wire, "u", "main", max_buffered_bytes)


async def read(utterance: ClientUtterance) -> list[object]:
    return [item async for item in utterance]


async def test_items_are_read_in_the_order_received_and_end_with_done() -> None:
    utterance = opened(Wire())
    received = [STARTED, WORDS, frame(0), frame(50), DONE]
    for message in received:
        utterance.receive(message)
    assert await read(utterance) == received
    assert utterance.is_over
    assert utterance.started == STARTED


async def test_a_reader_that_waits_is_woken_by_the_next_item() -> None:
    utterance = opened(Wire())
    reading = asyncio.create_task(read(utterance))
    await asyncio.sleep(0)
    utterance.receive(frame(0))
    await asyncio.sleep(0)
    utterance.receive(DONE)
    assert await reading == [frame(0), DONE]


async def test_long_text_is_cut_into_messages_and_nothing_is_sent_once_it_is_over() -> None:
    wire = Wire()
    utterance = opened(wire)
    await utterance.say("0123456789abc")
    assert [message["text"] for message in wire.sent] == ["0123456789", "abc"]
    utterance.receive(DONE)
    await utterance.say("late")
    await utterance.end()
    assert await utterance.flush() is False
    assert len(wire.sent) == 2


async def test_what_was_read_makes_room_for_more() -> None:
    utterance = opened(Wire(), max_buffered_bytes=2 * (100 + ITEM_OVERHEAD_BYTES))
    for index in range(20):
        utterance.receive(frame(50 * index))
        assert await anext(utterance) == frame(50 * index)
    assert not utterance.is_over


@pytest.mark.parametrize("item", [frame(0), WORDS, Warned("parameter_ignored", "m", "u", None)], ids=["a", "w", "n"])
async def test_a_reader_too_slow_gets_an_overrun_and_the_utterance_is_cancelled(
    item: AudioFrame | Words | Warned,
) -> None:
    wire = Wire()
    utterance = opened(wire, max_buffered_bytes=5 * ITEM_OVERHEAD_BYTES)
    for _ in range(30):
        utterance.receive(item)
    with pytest.raises(OverrunError, match="cancelled"):
        await read(utterance)
    await asyncio.sleep(0)
    assert [message["type"] for message in wire.sent] == ["cancel"]
    utterance.receive(CANCELLED)
    await asyncio.gather(*wire.tasks)
    assert await utterance.cancel() == CANCELLED


async def test_a_cancel_is_sent_once_however_many_wait_for_it() -> None:
    wire = Wire()
    utterance = opened(wire)
    utterance.receive(frame(0))
    waiting = [asyncio.create_task(utterance.cancel(12.5)) for _ in range(3)]
    await asyncio.sleep(0)
    utterance.receive(frame(50))
    utterance.receive(CANCELLED)
    assert await asyncio.gather(*waiting) == [CANCELLED] * 3
    assert wire.sent == [{"type": "cancel", "utterance": "u", "played_ms": 12.5}]
    assert await read(utterance) == [CANCELLED]


async def test_one_who_gives_up_waiting_for_a_cancel_leaves_the_others_waiting() -> None:
    utterance = opened(Wire())
    first, second = (asyncio.create_task(utterance.cancel()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    utterance.receive(CANCELLED)
    assert await second == CANCELLED


async def test_a_cancel_that_crosses_done_is_answered_and_both_are_known() -> None:
    utterance = opened(Wire())
    cancelling = asyncio.create_task(utterance.cancel())
    await asyncio.sleep(0)
    utterance.receive(DONE)
    utterance.receive(CANCELLED)
    assert await cancelling == CANCELLED
    assert await read(utterance) == [DONE]


async def test_only_the_flush_that_is_answered_returns() -> None:
    wire = Wire()
    utterance = opened(wire)
    first, second = (asyncio.create_task(utterance.flush()) for _ in range(2))
    await asyncio.sleep(0)
    ids = [message["id"] for message in wire.sent]
    assert len(set(ids)) == 2
    utterance.receive(Flushed("u", ids[0]))  # type: ignore[arg-type]
    assert await first is True
    assert not second.done()
    utterance.receive(CANCELLED)
    assert await second is False


@pytest.mark.parametrize("code", list(ErrorCode))
async def test_an_error_before_the_start_ends_the_utterance_unless_it_survives_such_errors(code: ErrorCode) -> None:
    utterance = opened(Wire())
    utterance.receive(Failed(code, "no", "u", False, None))
    with pytest.raises(ServerError) as caught:
        await anext(utterance)
    assert caught.value.code == code
    assert utterance.is_over == (code not in UTTERANCE_SURVIVES)


async def test_an_error_after_the_start_is_raised_between_the_items() -> None:
    utterance = opened(Wire())
    for message in (STARTED, frame(0), Failed("engine_failed", "no", "u", True, 1.0), frame(50), DONE):
        utterance.receive(message)
    assert await anext(utterance) == STARTED
    assert await anext(utterance) == frame(0)
    with pytest.raises(ServerError) as caught:
        await anext(utterance)
    assert (caught.value.is_retryable, caught.value.retry_after_s) == (True, 1.0)
    assert await read(utterance) == [frame(50), DONE]
