"""Service: what all routes of one gateway share. Made in app.py."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from starlette.responses import JSONResponse

from engine.api import Engine
from engine.speech import ModelInfo
from gateway.admission import Admission
from gateway.auth import Access
from gateway.connection import Connection
from gateway.dialects.base import ErrorBody, ErrorHeaders, ServerFacts
from gateway.dialects.vendor_names import VendorNames
from gateway.errors import HandshakeError
from gateway.events import Failed
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


def refusal(error: HandshakeError, error_body: ErrorBody, error_headers: ErrorHeaders | None = None) -> JSONResponse:
    """The answer to a refused request or upgrade, as its client writes errors, with what it needs to do better."""
    failed = Failed(error.code, error.message, is_retryable=error.is_retryable, retry_after_s=error.retry_after_s)
    headers = dict(error_headers(failed)) if error_headers is not None else {}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, round(error.retry_after_s)))
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    if error.status == 426:
        headers["upgrade"] = "websocket"
    return JSONResponse(error_body(failed, error.status), error.status, headers)
