"""DIALECTS: the only list of the wire protocols that agents' clients speak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.auth import Access
from gateway.dialects.base import Dialect, Handshake
from gateway.dialects.native import NativeDialect
from gateway.events import Limits


@dataclass(frozen=True, slots=True)
class DialectEntry:
    """A dialect and the WebSocket paths it answers. `authenticate` returns the name of the key that the handshake
    proves, or raises HandshakeError; vendors carry it in headers of their own."""

    name: str
    paths: tuple[str, ...]
    make: Callable[[Handshake, Limits], Dialect]
    authenticate: Callable[[Access, Handshake, float], str]


DIALECTS: Final[tuple[DialectEntry, ...]] = (
    DialectEntry(
        name="native",
        paths=("/antiphon/v1/speak",),
        make=lambda handshake, limits: NativeDialect(handshake, limits.message_bytes),
        authenticate=lambda access, handshake, now_s: access.key_of(handshake.headers, handshake.query, now_s),
    ),
)
