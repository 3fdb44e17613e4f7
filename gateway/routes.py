"""HTTP routes and the WebSocket handshake. A refusal comes before the upgrade and is written as the dialect's client
reads errors."""

from __future__ import annotations

import asyncio
import importlib.resources
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Scope
from starlette.websockets import WebSocket

from gateway import voice_routes
from gateway.auth import Access
from gateway.connection import Connection
from gateway.dialects import CLIENTS_PATHS, DIALECTS, DialectEntry, native_frames
from gateway.dialects.base import Dialect, ErrorBody, Handshake
from gateway.errors import ErrorCode, HandshakeError
from gateway.service import Service, refusal
from gateway.session import Session
from gateway.transports.websocket import Transport, WebSocketTransport

PAGE_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; media-src 'self' blob:; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
PAGE_SUFFIXES: Final = frozenset({".css", ".html", ".js", ".png", ".svg"})
STARTING_RETRY_S: Final = 2.0

Credential = Literal["none", "key", "key or token"]
"""What a route asks for. A browser's token opens the socket and lists voices; everything else takes the key itself."""
Handler = Callable[[Request], Awaitable[Response]]


def routes(service: Service) -> list[BaseRoute]:
    """All paths of the gateway."""
    web = str(importlib.resources.files("web"))
    http: list[tuple[str, Callable[[Service, Request], Awaitable[Response]], list[str], Credential]] = [
        ("/health", _health, ["GET"], "none"),
        ("/ready", _ready, ["GET"], "none"),
        ("/version", _version, ["GET"], "none"),
        ("/metrics", _metrics, ["GET"], "key"),
        ("/antiphon/v1/voices", voice_routes.listed, ["GET"], "key or token"),
        ("/antiphon/v1/voices", voice_routes.add, ["POST"], "key"),
        ("/antiphon/v1/voices/{voice}", voice_routes.delete, ["DELETE"], "key"),
        ("/antiphon/v1/token", _token, ["POST"], "key"),
        ("/", partial(_page, web), ["GET"], "none"),
    ]
    listed: list[BaseRoute] = [
        Route(path, _guarded(service, handler, credential), methods=methods)
        for path, handler, methods, credential in http
    ]
    for entry in DIALECTS:
        for path in entry.paths:
            listed.append(WebSocketRoute(path, partial(_speak, service, entry)))
            listed.append(Route(path, partial(_without_upgrade, service, entry), methods=["GET"]))
    for path, error_body in {**CLIENTS_PATHS, "/{rest:path}": native_frames.error_body}.items():
        listed.append(WebSocketRoute(path, partial(_stray_socket, service, error_body)))
    listed.append(Mount("/web", _StaticPage(service, web)))
    return listed


class _StaticPage(StaticFiles):
    """The page's files, with its security headers; nothing else that lies beside them."""

    def __init__(self, service: Service, directory: str) -> None:
        super().__init__(directory=directory)
        self._service = service

    async def get_response(self, path: str, scope: Scope) -> Response:
        try:
            self._service.access.check_host(_headers(Headers(scope=scope)))
        except HandshakeError as error:
            self._service.metrics.handshake_refused(error.status)
            return refusal(error, native_frames.error_body)
        if Path(path).suffix not in PAGE_SUFFIXES:
            raise HTTPException(404)
        return await super().get_response(path, scope)

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(PAGE_HEADERS)
        return response


def _guarded(
    service: Service, handler: Callable[[Service, Request], Awaitable[Response]], credential: Credential
) -> Handler:
    async def guarded(request: Request) -> Response:
        try:
            headers = _headers(request.headers)
            service.access.check_host(headers)
            service.access.check_origin(headers)
            if credential == "key":
                request.state.key = service.access.owner_of(headers)
            elif credential == "key or token":
                request.state.key = service.access.key_of(headers, request.query_params, service.clock())
            return await handler(service, request)
        except HandshakeError as error:
            service.metrics.handshake_refused(error.status)
            return refusal(error, native_frames.error_body)

    return guarded


def _headers(headers: Headers) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


async def _health(service: Service, request: Request) -> Response:
    if service.engine.is_healthy:
        return JSONResponse({"status": "ok"})
    return JSONResponse({"status": "failed", "message": "the engine has stopped; restart the server"}, 503)


async def _ready(service: Service, request: Request) -> Response:
    if service.admission.is_draining:
        return JSONResponse({"status": "draining"}, 503)
    if not service.engine.is_healthy:
        return JSONResponse({"status": "failed", "message": "the engine has stopped; restart the server"}, 503)
    if not service.is_ready:
        return JSONResponse(
            {"status": "starting", "message": service.not_ready_because},
            503,
            {"retry-after": str(round(STARTING_RETRY_S))},
        )
    return JSONResponse({"status": "ready"})


async def _version(service: Service, request: Request) -> Response:
    return JSONResponse({"name": "antiphon", "version": service.version, "model": service.engine.info.name})


async def _metrics(service: Service, request: Request) -> Response:
    return Response(service.metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _token(service: Service, request: Request) -> Response:
    token, expires_in_s = service.access.issue_token(request.state.key, service.clock())
    return JSONResponse({"token": token, "expires_in_s": expires_in_s}, headers={"cache-control": "no-store"})


async def _without_upgrade(service: Service, entry: DialectEntry, request: Request) -> Response:
    """A plain GET on a socket's path: what its upgrade would be refused with, which a browser keeps from a page; 426
    where it would be let in."""
    handshake = handshake_of(request)
    try:
        key = admit(service, entry.authenticate, handshake)
        service.admission.disconnect(key)
        entry.make(handshake, service.facts_for(key))
        raise HandshakeError(426, ErrorCode.BAD_MESSAGE, "this path is a WebSocket: connect with an upgrade")
    except HandshakeError as error:
        service.metrics.handshake_refused(error.status)
        return refusal(error, entry.error_body, entry.error_headers)


async def _page(web: str, service: Service, request: Request) -> Response:
    return FileResponse(f"{web}/index.html", headers=PAGE_HEADERS)


async def _speak(service: Service, entry: DialectEntry, websocket: WebSocket) -> None:
    """One WebSocket: refuse it before the upgrade, or run its connection until it closes."""
    try:
        handshake = handshake_of(websocket)
        key = admit(service, entry.authenticate, handshake)
    except HandshakeError as error:
        await _deny(service, entry, websocket, error)
        return
    try:
        dialect = entry.make(handshake, service.facts_for(key))
        await websocket.accept(subprotocol=dialect.subprotocol)
        await run_peer(service, entry.name, key, WebSocketTransport(websocket), dialect)
    except HandshakeError as error:
        await _deny(service, entry, websocket, error)
    finally:
        service.admission.disconnect(key)


async def _deny(service: Service, entry: DialectEntry, websocket: WebSocket, error: HandshakeError) -> None:
    service.metrics.handshake_refused(error.status)
    await websocket.send_denial_response(refusal(error, entry.error_body, entry.error_headers))


async def _stray_socket(service: Service, error_body: ErrorBody, websocket: WebSocket) -> None:
    """An upgrade at a path that has no socket, told to the client whose path it is."""
    message = f"no WebSocket is served at {websocket.url.path!r:.80} (docs/dialects.md)"
    error = HandshakeError(404, ErrorCode.UNKNOWN_TYPE, message)
    service.metrics.handshake_refused(error.status)
    await websocket.send_denial_response(refusal(error, error_body))


def admit(service: Service, authenticate: Callable[[Access, Handshake, float], str], handshake: Handshake) -> str:
    """The key's name, counted as connected until `admission.disconnect`. Raises HandshakeError."""
    service.access.check_host(handshake.headers)
    service.access.check_origin(handshake.headers)
    key = authenticate(service.access, handshake, service.clock())
    if not service.is_ready and not service.admission.is_draining:
        raise HandshakeError(503, ErrorCode.CAPACITY, service.not_ready_because, retry_after_s=STARTING_RETRY_S)
    service.admission.connect(key)
    return key


async def run_peer(service: Service, name: str, key: str, transport: Transport, dialect: Dialect) -> None:
    """One peer's connection in this task, until it ends. `name`: the dialect's, for the metrics."""
    session = Session(
        session_id=f"s_{secrets.token_hex(8)}",
        resume_token=secrets.token_urlsafe(18),
        key=key,
        model=partial(service.model_for, key),
        settings=service.sessions,
        admission=service.admission,
        random=service.random,
        now_s=service.clock(),
    )
    connection = Connection(
        transport,
        dialect,
        session,
        service.engine,
        service.metrics.observer(name),
        service.stalled_s,
        service.clock,
    )
    task = asyncio.current_task()
    assert task is not None
    service.connections[connection] = task
    try:
        await connection.run()
    finally:
        del service.connections[connection]
        service.metrics.ignored(name, session.ignored_messages)


def handshake_of(connection: HTTPConnection) -> Handshake:
    return Handshake(
        path=connection.url.path,
        path_params={name: str(value) for name, value in connection.path_params.items()},
        query=dict(connection.query_params),
        headers=_headers(connection.headers),
        subprotocols=tuple(connection.scope.get("subprotocols", ())),
    )
