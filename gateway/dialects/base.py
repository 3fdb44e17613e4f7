"""The Dialect protocol: one wire protocol of an agent's client, sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.speech import ModelInfo
from gateway.dialects.vendor_names import VendorNames
from gateway.events import ClientEvent, Failed, Limits, ServerEvent

ErrorBody = Callable[[Failed, int], Mapping[str, Any]]
"""A client's JSON for an error with this HTTP status: of a request, or of an upgrade that is refused."""
ErrorHeaders = Callable[[Failed], Mapping[str, str]]
"""What its protocol says of a refused upgrade in headers."""


@dataclass(frozen=True, slots=True)
class Handshake:
    """What a dialect may know of the request that opened its connection."""

    path: str
    path_params: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Lower-case names."""
    subprotocols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a dialect may know of the server it speaks for."""

    limits: Limits
    read_model: Callable[[], ModelInfo]
    names: VendorNames

    @property
    def model(self) -> ModelInfo:
        """What is loaded, with the voices that this key may use now. They come and go while a connection lasts: what a
        dialect keeps of a voice is the client's name for it, looked up again for each utterance."""
        return self.read_model()


class Dialect(Protocol):
    """One per connection. `receive` raises nothing but ClientError, whatever the bytes; events before the error in the
    same message are not delivered. `send` numbers what it encodes, so it is called exactly once per written event."""

    @property
    def subprotocol(self) -> str | None:
        """The subprotocol to accept the connection with."""
        ...

    def begin(self) -> list[ClientEvent]:
        """Events that the handshake itself implies (settings in a URL); called once, before any message."""
        ...

    def receive(self, message: str | bytes) -> list[ClientEvent]: ...

    def send(self, event: ServerEvent) -> list[str | bytes]:
        """The wire messages for an event; none where the protocol has no word for it."""
        ...
