"""Vendors' HTTP: speech for one request, through the same session and connection as a WebSocket; lists of voices."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from gateway.dialects import LIST_ENDPOINTS, SPEECH_ENDPOINTS, ListEndpoint, SpeechEndpoint
from gateway.dialects.http_speech import STATUS, ErrorBody, HttpSpeechDialect
from gateway.errors import ErrorCode, HandshakeError
from gateway.events import Failed
from gateway.routes import admit, handshake_of, run_peer
from gateway.service import Service
from gateway.transports.http_stream import HttpStreamTransport


def speech_routes(service: Service) -> list[BaseRoute]:
    """All of them."""
    speech: list[BaseRoute] = [
        Route(path, _Speech(service, endpoint), methods=["POST"])
        for endpoint in SPEECH_ENDPOINTS
        for path in endpoint.paths
    ]
    lists: list[BaseRoute] = [
        Route(path, partial(_list, service, endpoint), methods=["GET"])
        for endpoint in LIST_ENDPOINTS
        for path in endpoint.paths
    ]
    return speech + lists


class _Speech:
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
        try:
            dialect = HttpSpeechDialect(handshake, service.facts_for(key), endpoint.read, endpoint.error_body)
            body = await _body(request, service.sessions.limits.message_bytes)
            await run_peer(service, endpoint.name, key, HttpStreamTransport(receive, send, body, dialect), dialect)
        except HandshakeError as error:
            await _refused(service, endpoint.error_body, error)(scope, receive, send)
        finally:
            service.admission.disconnect(key)


async def _body(request: Request, max_bytes: int) -> bytes:
    """The request's body; no more of it is read than is allowed."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise HandshakeError(413, ErrorCode.MESSAGE_TOO_BIG, f"the body is over {max_bytes:,} bytes, the limit")
    return bytes(body)


def _refused(service: Service, error_body: ErrorBody, error: HandshakeError) -> JSONResponse:
    """A request that no session was made for."""
    service.metrics.handshake_refused(error.status)
    headers = {}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, round(error.retry_after_s)))
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    failed = Failed(error.code, error.message, is_retryable=error.is_retryable, retry_after_s=error.retry_after_s)
    return JSONResponse(error_body(failed, error.status), error.status, headers)


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
