"""Vendors' HTTP: speech for one request, through the same session and connection as a WebSocket; lists of voices."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from gateway.dialects import CLIENTS_PATHS, LIST_ENDPOINTS, SPEECH_ENDPOINTS, ListEndpoint, SpeechEndpoint
from gateway.dialects.base import ErrorBody
from gateway.dialects.http_speech import STATUS, HttpSpeechDialect
from gateway.errors import ErrorCode, HandshakeError
from gateway.events import Failed
from gateway.held_audio import HeldFile
from gateway.routes import admit, handshake_of, run_peer
from gateway.service import Service, refusal
from gateway.transports.http_stream import HttpStreamTransport
from gateway.transports.websocket import DROP_EXTENSION

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
HUNG_UP: Final = 499
"""A status for the metrics alone: nobody hears it."""


def speech_routes(service: Service) -> list[BaseRoute]:
    """All of them, and what a client hears at a path of its own that is not served: the application's last routes."""
    speech: list[BaseRoute] = [
        Route(path, _SpeechApp(service, endpoint), methods=["POST"])
        for endpoint in SPEECH_ENDPOINTS
        for path in endpoint.paths
    ]
    lists: list[BaseRoute] = [
        Route(path, partial(_list, service, endpoint), methods=["GET"])
        for endpoint in LIST_ENDPOINTS
        for path in endpoint.paths
    ]
    strays = [Route(path, partial(_stray, error_body), methods=METHODS) for path, error_body in CLIENTS_PATHS.items()]
    return [*speech, *lists, *strays]


class _SpeechApp:
    """The ASGI application of one endpoint."""

    def __init__(self, service: Service, endpoint: SpeechEndpoint) -> None:
        self._service = service
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service, endpoint = self._service, self._endpoint
        request = Request(scope, receive)
        handshake = handshake_of(request)
        try:
            key = admit(service, endpoint.authenticate, handshake)
        except HandshakeError as error:
            await _refused(service, endpoint.error_body, error)(scope, receive, send)
            return
        held = HeldFile(service.held_audio)
        try:
            body = await _body(request, service.sessions.limits.message_bytes, service.stalled_s)
            dialect = HttpSpeechDialect(handshake, service.facts_for(key), endpoint.read, endpoint.error_body, held)
            drop = scope.get("extensions", {}).get(DROP_EXTENSION, _not_droppable)
            transport = HttpStreamTransport(receive, send, body, dialect, service.stalled_s, drop)
            await run_peer(service, endpoint.name, key, transport, dialect)
        except HandshakeError as error:
            await _refused(service, endpoint.error_body, error)(scope, receive, send)
        finally:
            held.release()
            service.admission.disconnect(key)


def _not_droppable() -> None:
    """What another server than ours can do: close the connection once the application has returned."""


async def _body(request: Request, max_bytes: int, within_s: float) -> bytes:
    """The request's body; no more of it is read, and for no longer, than is allowed. A byte now and then is no
    progress: the whole body has that time."""
    body = bytearray()
    try:
        async with asyncio.timeout(within_s):
            async for piece in request.stream():
                body += piece
                if len(body) > max_bytes:
                    raise HandshakeError(
                        413, ErrorCode.MESSAGE_TOO_BIG, f"the body is over {max_bytes:,} bytes, the limit"
                    )
    except TimeoutError:
        message = f"the body did not come whole within {within_s:g} s"
        raise HandshakeError(408, ErrorCode.IDLE_TIMEOUT, message) from None
    except ClientDisconnect:
        raise HandshakeError(HUNG_UP, ErrorCode.BAD_MESSAGE, "the client hung up in its body") from None
    return bytes(body)


def _refused(service: Service, error_body: ErrorBody, error: HandshakeError) -> JSONResponse:
    """A request that no session was made for."""
    service.metrics.handshake_refused(error.status)
    response = refusal(error, error_body)
    if error.status in (408, 413):
        response.headers["connection"] = "close"  # the rest of the body is not read
    return response


async def _list(service: Service, endpoint: ListEndpoint, request: Request) -> Response:
    try:
        handshake = handshake_of(request)
        service.access.check_host(handshake.headers)
        service.access.check_origin(handshake.headers)
        key = endpoint.authenticate(service.access, handshake, service.clock())
    except HandshakeError as error:
        return _refused(service, endpoint.error_body, error)
    name = handshake.path_params.get("name", "")
    found = endpoint.read(service.facts_for(key), name)
    if found is None:
        code = ErrorCode.VOICE_NOT_FOUND
        failed = Failed(code, f"voice {name!r:.80} is not known")
        return JSONResponse(endpoint.error_body(failed, STATUS[code]), STATUS[code])
    return JSONResponse(found)


async def _stray(error_body: ErrorBody, request: Request) -> Response:
    """A client's path that is not served, or not with this method."""
    methods = {
        method
        for route in request.app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is Match.PARTIAL
        for method in route.methods or ()
    }
    status = 405 if methods else 404
    message = f"{request.method} {request.url.path!r:.80} is not served here" + (
        f"; methods: {', '.join(sorted(methods))}" if methods else " (docs/dialects.md)"
    )
    headers = {"allow": ", ".join(sorted(methods))} if methods else {}
    return JSONResponse(error_body(Failed(ErrorCode.UNKNOWN_TYPE, message), status), status, headers)
