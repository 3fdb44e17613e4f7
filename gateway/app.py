"""Composition root: settings, model, engine and routes meet here and nowhere else."""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FrameType
from typing import Final

import uvicorn
from starlette.applications import Starlette

from engine.engine import LocalEngine
from engine.errors import EngineError
from engine.models import load_model
from engine.speech import Segment, SpeechRequest
from gateway import voice_routes
from gateway.admission import Admission, AdmissionLimits
from gateway.audio.encoder import warm_up as warm_up_audio
from gateway.audio.formats import resolve_format
from gateway.auth import Access, AccessRules
from gateway.config import Config, ConfigError
from gateway.dialects.vendor_names import VendorNames
from gateway.errors import ClientError
from gateway.events import Limits
from gateway.metrics import Metrics
from gateway.routes import routes
from gateway.service import Service
from gateway.session_defaults import SessionSettings
from gateway.speech_routes import speech_routes
from gateway.text.lexicon import Lexicon
from gateway.transports.websocket import FlowControlledProtocol, UpgradingProtocol
from gateway.voices import VoiceCatalog, VoiceUploads

log = logging.getLogger("antiphon")

SEND_BUFFER_BYTES: Final = 32 * 1024
UNSENT_BYTES: Final = 16 * 1024
"""Kernel buffers so small that a stalled reader holds seconds of audio, not minutes (docs/deploy.md)."""
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
PING_INTERVAL_S: Final = 20.0
WARM_UP_TEXT: Final = "Ready to speak."


def version() -> str:
    return importlib.metadata.version("antiphon")


def load_engine(config: Config) -> LocalEngine:
    """Load the model (seconds; blocks) and make its engine, not started yet. Raises ModelLoadError."""
    wanted = config.model
    model = load_model(
        wanted.name,
        checkpoint=wanted.checkpoint,
        device=wanted.device,
        voices=wanted.voices.expanduser(),
        options=wanted.options,
    )
    return LocalEngine(model, config.engine)


def make_service(config: Config, engine: LocalEngine, clock: Callable[[], float] = time.monotonic) -> Service:
    """Wire the parts of a gateway around an engine that has not been started yet. Raises ConfigError."""
    limits, speech = config.limits, config.speech
    try:
        lexicon = Lexicon.load(speech.lexicon) if speech.lexicon is not None else Lexicon.empty()
    except ClientError as error:
        raise ConfigError(f"speech.lexicon: {error.message}") from error
    try:
        rate_hz = engine.info.sample_rate_hz
        resolve_format(speech.format, speech.sample_rate_hz, default_name=speech.format, default_rate_hz=rate_hz)
    except ClientError as error:
        raise ConfigError(f"speech.format, speech.sample_rate_hz: {error.message}") from error
    service = Service(
        engine=engine,
        access=Access(
            AccessRules(
                keys=config.keys,
                allowed_hosts=config.hosts_answered,
                allowed_origins=frozenset(origin.lower() for origin in config.server.allowed_origins),
                token_life_s=config.server.token_life_s,
            )
        ),
        admission=Admission(
            AdmissionLimits(
                connections=limits.connections,
                connections_per_key=limits.connections_per_key,
                utterances=limits.server_utterances,
                utterances_per_key=limits.utterances_per_key,
            )
        ),
        metrics=Metrics(),
        sessions=SessionSettings(
            limits=Limits(
                message_bytes=limits.message_bytes,
                utterance_chars=limits.utterance_chars,
                utterances=limits.utterances,
                idle_s=limits.idle_s,
                utterance_idle_s=limits.utterance_idle_s,
                resume_s=0.0,
            ),
            kept_utterances=limits.kept_utterances,
            max_ahead_s=None if speech.max_ahead_ms is None else speech.max_ahead_ms / 1000,
            default_format=speech.format,
            default_sample_rate_hz=speech.sample_rate_hz,
            text=config.text,
            lexicon=lexicon,
            outbox_s=speech.outbox_ms / 1000,
            version=version(),
        ),
        catalog=VoiceCatalog(engine.info),
        uploads=VoiceUploads(limits.voice_uploads, limits.voices_per_key),
        names=VendorNames(
            config.dialects.voices,
            config.dialects.models,
            config.dialects.unknown_names,
            tuple(voice.id for voice in engine.info.voices),
        ),
        stalled_s=config.server.stalled_s,
        version=version(),
        clock=clock,
    )
    service.metrics.watch(service.admission, engine)
    return service


def make_app(service: Service, on_ready: Callable[[], None] = lambda: None) -> Starlette:
    """The ASGI application; its lifespan starts the engine, speaks a warm-up utterance, and closes the engine.
    `on_ready` is called once the gateway takes connections."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        warm_up = asyncio.create_task(_warm_up(service, on_ready), name="warm-up")
        try:
            yield
        finally:
            warm_up.cancel()
            await service.engine.close()

    return Starlette(routes=[*routes(service), *speech_routes(service)], lifespan=lifespan)


async def _warm_up(service: Service, on_ready: Callable[[], None]) -> None:
    """Start the engine and have it speak once; only then the gateway is ready."""
    try:
        await service.engine.start()
        info = service.engine.info
        await _load_voices(service)
        session = service.engine.open_session("warm-up")
        try:
            stream = session.open_stream(SpeechRequest(voice=info.default_voice, seed=0))
            stream.feed(Segment.verbatim(WARM_UP_TEXT))
            stream.finish()
            async for _ in stream:
                pass
        finally:
            session.close()
    except Exception as error:  # the edge of this task: nobody else would see it
        service.not_ready_because = "the warm-up failed; the server's log says why"
        log.error("the warm-up utterance failed: %s", error, exc_info=not isinstance(error, EngineError))
        return
    service.is_ready = True
    on_ready()


async def _load_voices(service: Service) -> None:
    """Tell the catalog which voices were cloned in earlier runs."""
    library = service.engine.voices
    if library is not None:
        for owner in (None, *service.access.key_names):
            await voice_routes.refresh(service, library, owner)


class _DrainingServer(uvicorn.Server):
    """On the first signal nothing new is let in and running utterances may end; then the sockets close with 1001."""

    def __init__(self, config: uvicorn.Config, service: Service, drain_s: float) -> None:
        super().__init__(config)
        self._service = service
        self._drain_s = drain_s
        self._drain: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._drain is None:
            self._drain = asyncio.get_running_loop().create_task(self._drain_and_exit(), name="drain")
        else:
            self.should_exit = True
            super().handle_exit(sig, frame)

    async def _drain_and_exit(self) -> None:
        self._service.admission.drain()
        running = dict(self._service.connections)
        for connection in running:
            connection.drain()
        if running:
            await asyncio.wait(running.values(), timeout=self._drain_s)
        for connection in list(self._service.connections):
            connection.shut()
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """The listening socket, with the small send buffers that accepted sockets inherit. Raises OSError."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def make_server(service: Service, app: Starlette, drain_s: float) -> uvicorn.Server:
    """uvicorn, set up for audio: no compression, no ping timeout, no user-space write buffer."""
    return _DrainingServer(
        uvicorn.Config(
            app,
            http=UpgradingProtocol,
            ws=FlowControlledProtocol,
            ws_max_size=MAX_FRAME_BYTES,
            ws_ping_interval=PING_INTERVAL_S,
            ws_ping_timeout=None,  # pooled clients answer pings only while they read
            ws_per_message_deflate=False,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
        ),
        service,
        drain_s,
    )


def serve(config: Config) -> int:
    """Load the model, listen, run until a signal. Returns the exit status; raises ConfigError, ModelLoadError or
    OSError."""
    logging.basicConfig(level=config.log.level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # uvicorn logs the whole address of every socket at INFO, browsers' tokens and vendors' keys included.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    listener = bind(config.server.host, config.server.port)
    try:
        engine = load_engine(config)
        warm_up_audio(engine.info.sample_rate_hz)
        service = make_service(config, engine)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host

        def announce() -> None:
            print(f"Antiphon {service.version} speaks with {engine.info.name}", file=sys.stderr)
            print(f"Page: http://{shown}:{port}/", flush=True)
            print(f"Agents: ws://{shown}:{port}/antiphon/v1/speak", flush=True)

        server = make_server(service, make_app(service, announce), config.server.drain_s)
        asyncio.run(server.serve(sockets=[listener]))
    finally:
        listener.close()
    return 0 if service.is_ready else 1
