"""A gateway for one command: the engine, a session and a connection in this process, and no network.

What it decides about a text it decides as every gateway does, in the session; nothing of that is here.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from engine.errors import EngineError
from engine.voice_store import VoiceStoreError
from gateway.client import Client, SpeechClientError
from gateway.commands.outcome import CommandError
from gateway.commands.speakers import ClientSpeaker, Speaker, client_config
from gateway.dialects.base import Handshake
from gateway.dialects.native import MSGPACK_SUBPROTOCOL, NativeDialect
from gateway.routes import run_peer
from gateway.service import Service
from gateway.transports.in_process import in_process_pair
from gateway.voice_routes import refresh

OPERATOR: Final = "operator"
"""Who is counted as speaking in this process."""


@asynccontextmanager
async def engine_speaker(load: Callable[[], Service], is_played: bool) -> AsyncIterator[Speaker]:
    """Speaks as `gateway_speaker` does, through a connection to a gateway that is in this process and has no network.

    `load` takes seconds and runs in a thread; where it or the start raises EngineError, this raises CommandError."""
    try:
        service = _for_one(await asyncio.to_thread(load))
        await service.engine.start()
    except EngineError as error:
        raise CommandError(str(error)) from error
    try:
        await _load_voices(service)
        transport, socket = in_process_pair()
        handshake = Handshake("", {}, {}, {}, (MSGPACK_SUBPROTOCOL,))
        dialect = NativeDialect(handshake, service.sessions.limits.message_bytes)
        serving = asyncio.create_task(run_peer(service, "native", OPERATOR, transport, dialect), name="gateway of say")
        serving.add_done_callback(lambda _: transport.abort())
        try:
            async with Client.over(socket, wire="msgpack", **client_config(is_played)) as client:
                yield ClientSpeaker(client)
        except SpeechClientError as error:
            raise CommandError(str(error)) from error
        finally:
            await serving
    finally:
        await service.engine.close()


def _for_one(service: Service) -> Service:
    """Without what keeps the clients of a server from each other: a text may be a book, and pause for hours."""
    limits = replace(service.sessions.limits, utterance_chars=sys.maxsize, idle_s=math.inf, utterance_idle_s=math.inf)
    return replace(service, sessions=replace(service.sessions, limits=limits), stalled_s=math.inf)


async def _load_voices(service: Service) -> None:
    """Those that were cloned on this machine for its operator."""
    library = service.engine.voices
    if library is not None:
        try:
            await refresh(service, library, None)
        except VoiceStoreError as error:
            raise CommandError(str(error)) from error
