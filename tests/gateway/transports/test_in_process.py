"""Both ends of a connection without a network: order, waiting for room, and every way to end."""

from __future__ import annotations

import asyncio

import pytest
from websockets.exceptions import ConnectionClosedError as ConnectionLost
from websockets.exceptions import ConnectionClosedOK

from gateway.transports.in_process import MAX_WAITING_MESSAGES, in_process_pair
from gateway.transports.websocket import ConnectionClosedError


async def test_messages_of_both_kinds_arrive_in_order_in_both_directions() -> None:
    gateway, client = in_process_pair()
    for message in ("a", b"b", ""):
        await client.send(message)
        await gateway.send(message)
    assert [await gateway.receive() for _ in range(3)] == ["a", b"b", ""]
    assert [await client.recv() for _ in range(3)] == ["a", b"b", ""]


async def test_who_receives_waits_for_a_message() -> None:
    gateway, client = in_process_pair()
    receiving, reading = asyncio.create_task(gateway.receive()), asyncio.create_task(client.recv())
    await asyncio.sleep(0)
    assert not receiving.done()
    assert not reading.done()
    await client.send("up")
    await gateway.send("down")
    assert (await receiving, await reading) == ("up", "down")


async def test_the_gateway_is_drained_once_the_client_has_taken_everything() -> None:
    gateway, client = in_process_pair()
    await gateway.drained()
    await gateway.send("a")
    await gateway.send("b")
    draining = asyncio.create_task(gateway.drained())
    await client.recv()
    await asyncio.sleep(0)
    assert not draining.done()
    await client.recv()
    await draining


async def test_the_client_waits_for_room() -> None:
    gateway, client = in_process_pair()
    for number in range(MAX_WAITING_MESSAGES):
        await client.send(str(number))
    sending = asyncio.create_task(client.send("one more"))
    await asyncio.sleep(0)
    assert not sending.done()
    assert await gateway.receive() == "0"
    await sending


async def test_what_was_sent_before_a_close_of_the_gateways_arrives_and_then_its_code() -> None:
    gateway, client = in_process_pair()
    await gateway.send("the last words")
    await gateway.close(1008, "enough")
    assert await client.recv() == "the last words"
    with pytest.raises(ConnectionLost) as lost:
        await client.recv()
    assert lost.value.rcvd is not None
    assert (lost.value.rcvd.code, lost.value.rcvd.reason) == (1008, "enough")
    with pytest.raises(ConnectionLost):
        await client.send("too late")


async def test_what_was_sent_before_a_close_of_the_clients_arrives_and_then_its_code() -> None:
    gateway, client = in_process_pair()
    await client.send("the last words")
    await client.close()
    assert await gateway.receive() == "the last words"
    with pytest.raises(ConnectionClosedError) as closed:
        await gateway.receive()
    assert closed.value.code == 1000
    with pytest.raises(ConnectionClosedError):
        await gateway.send("too late")
    with pytest.raises(ConnectionClosedError):
        await gateway.drained()
    with pytest.raises(ConnectionClosedOK):
        await client.recv()


async def test_an_abort_drops_what_was_not_taken() -> None:
    gateway, client = in_process_pair()
    await gateway.send("nobody reads this")
    gateway.abort()
    with pytest.raises(ConnectionLost) as lost:
        await client.recv()
    assert lost.value.rcvd is None


@pytest.mark.parametrize("who", ["gateway", "client"])
async def test_a_close_wakes_everybody_who_waits(who: str) -> None:
    gateway, client = in_process_pair()
    await gateway.send("not taken")
    for _ in range(MAX_WAITING_MESSAGES):
        await client.send("not taken")
    waiting = [asyncio.create_task(gateway.drained()), asyncio.create_task(client.send("no room"))]
    await asyncio.sleep(0)
    if who == "gateway":
        await gateway.close(1001, "")
    else:
        await client.close(1001)
    gone, lost = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(gone, ConnectionClosedError)
    assert isinstance(lost, ConnectionLost)


async def test_the_first_close_counts() -> None:
    gateway, client = in_process_pair()
    await gateway.close(1001, "first")
    await client.close()
    with pytest.raises(ConnectionClosedError) as closed:
        await gateway.receive()
    assert closed.value.code == 1001
