"""The only lists of what agents' clients speak: DIALECTS by WebSocket, SPEECH_ENDPOINTS and LIST_ENDPOINTS by HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.auth import Access
from gateway.dialects import (
    cartesia_http,
    credentials,
    deepgram_http,
    elevenlabs_http,
    jambonz,
    livekit,
    native_frames,
    openai_speech,
)
from gateway.dialects.base import Dialect, ErrorBody, ErrorHeaders, Handshake, ServerFacts
from gateway.dialects.cartesia import CartesiaDialect
from gateway.dialects.deepgram import DeepgramDialect
from gateway.dialects.deepgram_flux import DeepgramFluxDialect
from gateway.dialects.elevenlabs import ElevenLabsDialect
from gateway.dialects.http_speech import ReadOrder
from gateway.dialects.jambonz import JambonzDialect
from gateway.dialects.livekit import LiveKitDialect
from gateway.dialects.native import NativeDialect
from gateway.dialects.openai_realtime import OpenAiRealtimeDialect
from gateway.events import Failed

Authenticate = Callable[[Access, Handshake, float], str]


def _no_headers(event: Failed) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class DialectEntry:
    """A dialect and the WebSocket paths it answers. `authenticate` returns the name of the key that the handshake
    proves, or raises HandshakeError; vendors carry it in headers of their own. `make` may raise HandshakeError.
    `error_body` and `error_headers`: how its client is told of an upgrade that is refused."""

    name: str
    paths: tuple[str, ...]
    make: Callable[[Handshake, ServerFacts], Dialect]
    authenticate: Authenticate
    error_body: ErrorBody
    error_headers: ErrorHeaders = _no_headers


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
    """A vendor's own paths, and the same under its name."""
    return (*paths, *(f"/{vendor}{path}" for path in paths))


DIALECTS: Final[tuple[DialectEntry, ...]] = (
    DialectEntry(
        name="native",
        paths=("/antiphon/v1/speak",),
        make=lambda handshake, server: NativeDialect(handshake, server.limits.message_bytes),
        authenticate=credentials.bearer,
        error_body=native_frames.error_body,
    ),
    DialectEntry(
        name="elevenlabs stream",
        paths=_mounted("elevenlabs", "/v1/text-to-speech/{voice_id}/stream-input"),
        make=lambda handshake, server: ElevenLabsDialect(handshake, server, "single"),
        authenticate=credentials.elevenlabs,
        error_body=elevenlabs_http.error_body,
    ),
    DialectEntry(
        name="elevenlabs multi",
        paths=_mounted("elevenlabs", "/v1/text-to-speech/{voice_id}/multi-stream-input"),
        make=lambda handshake, server: ElevenLabsDialect(handshake, server, "multi"),
        authenticate=credentials.elevenlabs,
        error_body=elevenlabs_http.error_body,
    ),
    DialectEntry(
        name="cartesia",
        paths=_mounted("cartesia", "/tts/websocket"),
        make=CartesiaDialect,
        authenticate=credentials.cartesia,
        error_body=cartesia_http.error_body,
    ),
    DialectEntry(
        name="deepgram",
        paths=_mounted("deepgram", "/v1/speak"),
        make=DeepgramDialect,
        authenticate=credentials.deepgram,
        error_body=deepgram_http.error_body,
        error_headers=deepgram_http.error_headers,
    ),
    DialectEntry(
        name="deepgram flux",
        paths=_mounted("deepgram", "/v2/speak"),
        make=DeepgramFluxDialect,
        authenticate=credentials.deepgram,
        error_body=deepgram_http.error_body,
        error_headers=deepgram_http.error_headers,
    ),
    DialectEntry(
        name="livekit",
        paths=_mounted("livekit", "/v1/tts"),
        make=LiveKitDialect,
        authenticate=credentials.livekit,
        error_body=livekit.error_body,
    ),
    DialectEntry(
        name="openai realtime",
        paths=_mounted("openai", "/v1/realtime"),
        make=OpenAiRealtimeDialect,
        authenticate=credentials.openai_realtime,
        error_body=openai_speech.error_body,
    ),
    DialectEntry(
        name="jambonz",
        paths=("/jambonz/tts",),
        make=JambonzDialect,
        authenticate=credentials.bearer,
        error_body=jambonz.error_body,
    ),
)

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

CLIENTS_PATHS: Final[Mapping[str, ErrorBody]] = {
    "/antiphon/{rest:path}": native_frames.error_body,
    "/v1/tts": livekit.error_body,
    "/livekit/{rest:path}": livekit.error_body,
    "/jambonz/{rest:path}": jambonz.error_body,
    "/v1/audio/{rest:path}": openai_speech.error_body,
    "/v1/models": openai_speech.error_body,
    "/v1/models/{rest:path}": openai_speech.error_body,
    "/v1/realtime": openai_speech.error_body,
    "/v1/realtime/{rest:path}": openai_speech.error_body,
    "/openai/{rest:path}": openai_speech.error_body,
    "/v1/text-to-speech/{rest:path}": elevenlabs_http.error_body,
    "/v1/voices": elevenlabs_http.error_body,
    "/v1/voices/{rest:path}": elevenlabs_http.error_body,
    "/v2/voices": elevenlabs_http.error_body,
    "/elevenlabs/{rest:path}": elevenlabs_http.error_body,
    "/tts/{rest:path}": cartesia_http.error_body,
    "/cartesia/{rest:path}": cartesia_http.error_body,
    "/v1/speak": deepgram_http.error_body,
    "/v2/speak": deepgram_http.error_body,
    "/deepgram/{rest:path}": deepgram_http.error_body,
}
"""Whose client it is that asks for what is not served at such a path, and how it is told."""
