"""Service: what all routes of one gateway share. Made in app.py."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from starlette.responses import JSONResponse

from engine.api import Engine
from engine.speech import ModelInfo
from gateway.admission import Admission
from gateway.auth import Access
from gateway.connection import Connection
from gateway.dialects.base import ServerFacts
from gateway.dialects.vendor_names import VendorNames
from gateway.errors import ClientError
from gateway.held_audio import HeldAudio
from gateway.metrics import Metrics
from gateway.session_defaults import SessionSettings
from gateway.voices import VoiceCatalog, VoiceUploads


@dataclass(slots=True)
class Service:
    """What the routes share: one gateway's parts, made in app.py. `is_ready`: a warm-up utterance has been spoken."""

    engine: Engine
    access: Access
    admission: Admission
    metrics: Metrics
    sessions: SessionSettings
    names: VendorNames
    catalog: VoiceCatalog
    uploads: VoiceUploads
    stalled_s: float
    version: str
    clock: Callable[[], float] = time.monotonic
    random: Random = field(default_factory=secrets.SystemRandom)
    is_ready: bool = False
    not_ready_because: str = "the voice is warming up"
    held_audio: HeldAudio = field(default_factory=HeldAudio)
    refreshing_voices: asyncio.Lock = field(default_factory=asyncio.Lock)
    connections: dict[Connection, asyncio.Task[object]] = field(default_factory=dict)
    """Each with the task that runs it."""

    def model_for(self, key: str) -> ModelInfo:
        """What is loaded, with the voices that this key may use."""
        return self.catalog.model_for(self.owner_of(key))

    def owner_of(self, key: str) -> str | None:
        """Whose voices a key's are; without keys everybody is the operator."""
        return key if self.access.has_keys else None

    def facts_for(self, key: str) -> ServerFacts:
        """What a dialect may know."""
        return ServerFacts(self.sessions.limits, partial(self.model_for, key), self.names)


def refusal(error: ClientError, status: int) -> JSONResponse:
    """The JSON body of a refused request, with what a client needs to do better."""
    body: dict[str, Any] = {
        "type": "error",
        "code": error.code.value,
        "message": error.message,
        "retryable": error.is_retryable,
    }
    headers = {}
    if error.retry_after_s is not None:
        body["retry_after_s"] = error.retry_after_s
        headers["retry-after"] = str(max(1, round(error.retry_after_s)))
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(body, status, headers)
