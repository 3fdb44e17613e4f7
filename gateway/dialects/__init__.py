"""DIALECTS: the only list of the wire protocols that agents' clients speak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.auth import Access
from gateway.dialects import credentials
from gateway.dialects.base import Dialect, Handshake, ServerFacts
from gateway.dialects.cartesia import CartesiaDialect
from gateway.dialects.deepgram import DeepgramDialect
from gateway.dialects.deepgram_flux import DeepgramFluxDialect
from gateway.dialects.elevenlabs import ElevenLabsDialect
from gateway.dialects.jambonz import JambonzDialect
from gateway.dialects.livekit import LiveKitDialect
from gateway.dialects.native import NativeDialect
from gateway.dialects.openai_realtime import OpenAiRealtimeDialect


@dataclass(frozen=True, slots=True)
class DialectEntry:
    """A dialect and the WebSocket paths it answers. `authenticate` returns the name of the key that the handshake
    proves, or raises HandshakeError; vendors carry it in headers of their own. `make` may raise HandshakeError."""

    name: str
    paths: tuple[str, ...]
    make: Callable[[Handshake, ServerFacts], Dialect]
    authenticate: Callable[[Access, Handshake, float], str]


def _mounted(vendor: str, *paths: str) -> tuple[str, ...]:
    """A vendor's own paths, and the same under its name."""
    return (*paths, *(f"/{vendor}{path}" for path in paths))


DIALECTS: Final[tuple[DialectEntry, ...]] = (
    DialectEntry(
        name="native",
        paths=("/antiphon/v1/speak",),
        make=lambda handshake, server: NativeDialect(handshake, server.limits.message_bytes),
        authenticate=credentials.bearer,
    ),
    DialectEntry(
        name="elevenlabs stream",
        paths=_mounted("elevenlabs", "/v1/text-to-speech/{voice_id}/stream-input"),
        make=lambda handshake, server: ElevenLabsDialect(handshake, server, "single"),
        authenticate=credentials.elevenlabs,
    ),
    DialectEntry(
        name="elevenlabs multi",
        paths=_mounted("elevenlabs", "/v1/text-to-speech/{voice_id}/multi-stream-input"),
        make=lambda handshake, server: ElevenLabsDialect(handshake, server, "multi"),
        authenticate=credentials.elevenlabs,
    ),
    DialectEntry(
        name="cartesia",
        paths=_mounted("cartesia", "/tts/websocket"),
        make=CartesiaDialect,
        authenticate=credentials.cartesia,
    ),
    DialectEntry(
        name="deepgram",
        paths=_mounted("deepgram", "/v1/speak"),
        make=DeepgramDialect,
        authenticate=credentials.deepgram,
    ),
    DialectEntry(
        name="deepgram flux",
        paths=_mounted("deepgram", "/v2/speak"),
        make=DeepgramFluxDialect,
        authenticate=credentials.deepgram,
    ),
    DialectEntry(
        name="livekit",
        paths=_mounted("livekit", "/v1/tts"),
        make=LiveKitDialect,
        authenticate=credentials.livekit,
    ),
    DialectEntry(
        name="openai realtime",
        paths=_mounted("openai", "/v1/realtime"),
        make=OpenAiRealtimeDialect,
        authenticate=credentials.openai_realtime,
    ),
    DialectEntry(
        name="jambonz",
        paths=("/jambonz/tts",),
        make=JambonzDialect,
        authenticate=credentials.bearer,
    ),
)
