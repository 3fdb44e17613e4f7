"""Vendors' HTTP: speech for one request, through the same session and connection as a WebSocket; lists of voices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from gateway.auth import Access
from gateway.dialects import cartesia_http, credentials, deepgram_http, elevenlabs_http, openai_speech
from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.http_speech import STATUS, ErrorBody, HttpSpeechDialect, ReadOrder
from gateway.errors import ErrorCode, HandshakeError
from gateway.events import Failed
from gateway.routes import admit, handshake_of, run_peer
from gateway.service import Service
from gateway.transports.http_stream import HttpStreamTransport

Authenticate = Callable[[Access, Handshake, float], str]


@dataclass(frozen=True, slots=True)
class SpeechEndpoint:
    """A vendor's POST: where, who may, how a request is read and an error written."""

    name: str
    paths: tuple[str, ...]
    authenticate: Authenticate
    read: ReadOrder
    error_body: ErrorBody


@dataclass(frozen=True, slots=True)
class ListEndpoint:
    """A vendor's GET about what is loaded. The last argument is the path's parameter, empty where it has none."""

    paths: tuple[str, ...]
    authenticate: Authenticate
    read: Callable[[ServerFacts, str], dict[str, Any] | None]
    error_body: ErrorBody


def _mounted(vendor: str, *paths: str) -> tuple[str, ...]:
    return (*paths, *(f"/{vendor}{path}" for path in paths))


SPEECH_ENDPOINTS: Final[tuple[SpeechEndpoint, ...]] = (
    SpeechEndpoint(
        "openai speech",
        _mounted("openai", "/v1/audio/speech"),
        credentials.bearer,
        openai_speech.read_order,
        openai_speech.error_body,
    ),
    SpeechEndpoint(
        "elevenlabs http",
        _mounted(
            "elevenlabs",
            "/v1/text-to-speech/{voice_id}",
            "/v1/text-to-speech/{voice_id}/stream",
            "/v1/text-to-speech/{voice_id}/with-timestamps",
            "/v1/text-to-speech/{voice_id}/stream/with-timestamps",
        ),
        credentials.elevenlabs,
        elevenlabs_http.read_order,
        elevenlabs_http.error_body,
    ),
    SpeechEndpoint(
        "cartesia http",
        _mounted("cartesia", "/tts/bytes", "/tts/sse"),
        credentials.cartesia,
        cartesia_http.read_order,
        cartesia_http.error_body,
    ),
    SpeechEndpoint(
        "deepgram http",
        _mounted("deepgram", "/v1/speak", "/v2/speak"),
        credentials.deepgram,
        deepgram_http.read_order,
        deepgram_http.error_body,
    ),
)

LIST_ENDPOINTS: Final[tuple[ListEndpoint, ...]] = (
    ListEndpoint(
        _mounted("openai", "/v1/models"),
        credentials.bearer,
        lambda server, _: openai_speech.models(server),
        openai_speech.error_body,
    ),
    ListEndpoint(
        _mounted("openai", "/v1/audio/voices"),
        credentials.bearer,
        lambda server, _: openai_speech.voices(server),
        openai_speech.error_body,
    ),
    ListEndpoint(
        _mounted("elevenlabs", "/v1/voices", "/v2/voices"),
        credentials.elevenlabs,
        lambda server, _: elevenlabs_http.voices(server),
        elevenlabs_http.error_body,
    ),
    ListEndpoint(
        _mounted("elevenlabs", "/v1/voices/{name}"),
        credentials.elevenlabs,
        lambda server, name: next(
            (elevenlabs_http.voice(voice) for voice in server.model.voices if voice.id == name), None
        ),
        elevenlabs_http.error_body,
    ),
)


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
