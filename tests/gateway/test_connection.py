"""A connection's edges: stalled peers, our own faults, and the freeing of everything."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest

from engine.core.step import StepPlan, StepResult
from gateway.dialects.native import NativeDialect
from tests.fakes.fake_model import DelayedRowsModel, WholeFramesModel, small_spec
from tests.fakes.gateway import Call, running_gateway

LONG_TEXT = "This is one of very many sentences, and it goes on for a while. " * 100


async def test_a_reader_that_stalls_stops_generation_within_seconds_of_audio() -> None:
    async with running_gateway() as gateway, Call(gateway, max_queue=1, close_timeout=0.1) as peer:
        peer.socket.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await peer.send(type="config", max_ahead_ms=None)
        await peer.send(type="text", utterance="u", text=LONG_TEXT)
        await peer.send(type="end", utterance="u")
        await peer.until("started")
        made = [0, -1]
        for _ in range(40):  # until nothing is made any more; the reader reads nothing all the while
            await asyncio.sleep(0.1)
            made.append(gateway.engine.stats().frames)
            if made[-1] == made[-2] == made[-3]:
                break
        everything = len(LONG_TEXT) * 2
        assert made[-1] < everything / 4


async def test_a_long_fragment_is_refused_whole_or_spoken_whole() -> None:
    async with running_gateway(settings={"limits": {"utterance_chars": 1000}}) as gateway, Call(gateway) as peer:
        await peer.send(type="config", max_ahead_ms=None)
        await peer.send(type="text", utterance="u", text=LONG_TEXT[:900])
        await peer.send(type="text", utterance="u", text=LONG_TEXT[:900])
        assert "1,800" in (await peer.until("error", code="text_too_long"))["message"]
        await peer.send(type="end", utterance="u")
        assert (await peer.until("done", utterance="u"))["chars"] == 900


async def test_a_stalled_reader_does_not_hold_up_others() -> None:
    async with (
        running_gateway() as gateway,
        Call(gateway, max_queue=1, close_timeout=0.1) as stalled,
        Call(gateway) as normal,
    ):
        for peer in (stalled, normal):
            await peer.send(type="config", max_ahead_ms=None)
        await stalled.send(type="text", utterance="u", text=LONG_TEXT)
        await normal.send(type="text", utterance="u", text="A short one.")
        await normal.send(type="end", utterance="u")
        assert (await normal.until("done"))["audio_samples"] > 0


async def test_a_peer_that_takes_nothing_for_too_long_is_dropped() -> None:
    async with (
        running_gateway(settings={"server": {"stalled_s": 0.3}}) as gateway,
        Call(gateway, max_queue=1, close_timeout=0.1) as peer,
    ):
        await peer.send(type="config", max_ahead_ms=None)
        for name in "abcdef":
            await peer.send(type="text", utterance=name, text=LONG_TEXT * 9)
            await peer.send(type="end", utterance=name)
        (task,) = gateway.service.connections.values()
        await asyncio.wait([task], timeout=10)
        assert task.done()
        assert gateway.service.admission.utterances == 0


async def test_a_peer_that_pings_and_never_reads_its_pongs_is_dropped() -> None:
    async with running_gateway() as gateway, Call(gateway, max_queue=1, close_timeout=0.1) as peer:
        (task,) = gateway.service.connections.values()
        peer.socket.transport.pause_reading()
        ping = b"\x89\xfd" + bytes(4) + bytes(125)  # masked with zeros
        for _ in range(400):
            peer.socket.transport.write(ping * 200)
            if task.done():
                break
            await asyncio.sleep(0.005)
        await asyncio.wait([task], timeout=5)
        assert task.done()


async def test_a_peer_that_sends_much_at_once_does_not_hold_up_the_loop() -> None:
    async with running_gateway() as gateway, Call(gateway) as peer:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        counting = asyncio.create_task(count())
        await asyncio.gather(*(peer.send(type="text", utterance="u", text="word ") for _ in range(500)))
        await peer.send(type="cancel", utterance="u")
        await peer.until("cancelled")
        counting.cancel()
        assert turns > 500


async def test_a_fault_of_ours_closes_with_1011_and_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: NativeDialect, message: str | bytes) -> list[object]:
        raise KeyError("a bug")

    monkeypatch.setattr(NativeDialect, "receive", broken)
    async with running_gateway() as gateway, Call(gateway) as peer:
        await peer.send(type="ping")
        assert (await peer.until("error"))["code"] == "internal"
        await peer.socket.wait_closed()
        assert peer.socket.close_code == 1011
    assert gateway.service.connections == {}


class DyingModel(WholeFramesModel):
    """Speaks its warm-up, and from then on nothing works."""

    is_dead = False

    def execute(self, plan: StepPlan) -> StepResult:
        if self.is_dead:
            raise RuntimeError("the model is dead")
        return super().execute(plan)


async def test_a_dead_engine_fails_speech_and_turns_health_red() -> None:
    model = DyingModel()
    async with running_gateway(model) as gateway, Call(gateway) as peer:
        model.is_dead = True
        for turn in range(4):
            await peer.send(type="text", utterance=f"u{turn}", text="Anybody there?")
            await peer.send(type="end", utterance=f"u{turn}")
            assert (await peer.until("done", utterance=f"u{turn}"))["reason"] == "error"
        assert not gateway.engine.is_healthy
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{gateway.http}/health")).status_code == 503


async def test_the_tasks_of_a_connection_are_named_and_gone_when_it_ends() -> None:
    async with running_gateway() as gateway:
        before = {task for task in asyncio.all_tasks()}
        async with Call(gateway) as peer:
            await peer.send(type="text", utterance="u", text="Hello there. ")
            await peer.until("started")
            session = peer.received[0]["session"]
            names = {task.get_name() for task in asyncio.all_tasks() - before}
            assert {f"{session}/read", f"{session}/speech u"} <= names
        if gateway.service.connections:
            await asyncio.wait(gateway.service.connections.values(), timeout=5)
        left = {task.get_name() for task in asyncio.all_tasks()}
        assert not any(name.startswith(f"{session}/") for name in left)


async def test_a_segment_that_can_never_fit_is_too_long_and_not_to_be_tried_again() -> None:
    model = DelayedRowsModel(small_spec(page_count=12))
    async with running_gateway(model) as gateway, Call(gateway) as peer:
        await peer.send(type="text", utterance="u", text="Counterrevolutionaries incomprehensibilities.")
        await peer.send(type="end", utterance="u")
        error = await peer.until("error")
        assert (error["code"], error["retryable"]) == ("text_too_long", False)
        assert "positions" in error["message"]
        assert "retry_after_s" not in error
