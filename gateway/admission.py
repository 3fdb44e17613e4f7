"""May this connection, session, utterance start? Counts only; the shells tell it what comes and goes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from gateway.errors import ClientError, ErrorCode, HandshakeError

CAPACITY_RETRY_S: Final = 2.0
"""An utterance lasts a few seconds: after this long a place is likely to be free."""
QUOTA_RETRY_S: Final = 5.0
DRAINING_RETRY_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """`connections` and `utterances` hold for the whole server, the others for one key."""

    connections: int
    connections_per_key: int
    utterances: int
    utterances_per_key: int


class Admission:
    """The one place that says no for want of room. Raises HandshakeError (before the upgrade) or ClientError."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._connections: Counter[str] = Counter()
        self._utterances: Counter[str] = Counter()
        self._is_draining = False

    def drain(self) -> None:
        """Let nothing new in; what runs may end."""
        self._is_draining = True

    @property
    def is_draining(self) -> bool:
        return self._is_draining

    @property
    def connections(self) -> int:
        return self._connections.total()

    @property
    def utterances(self) -> int:
        return self._utterances.total()

    def connect(self, key: str) -> None:
        if self._is_draining:
            raise HandshakeError(503, ErrorCode.DRAINING, "the server is shutting down", retry_after_s=DRAINING_RETRY_S)
        if self._connections.total() >= self._limits.connections:
            raise HandshakeError(
                503,
                ErrorCode.CAPACITY,
                f"{self._connections.total()} connections are open, at most {self._limits.connections}",
                retry_after_s=CAPACITY_RETRY_S,
            )
        if self._connections[key] >= self._limits.connections_per_key:
            raise HandshakeError(
                429,
                ErrorCode.QUOTA,
                f"this key has {self._connections[key]} connections, at most {self._limits.connections_per_key}",
                retry_after_s=QUOTA_RETRY_S,
            )
        self._connections[key] += 1

    def disconnect(self, key: str) -> None:
        _count_down(self._connections, key)

    def start_utterance(self, key: str) -> None:
        if self._is_draining:
            raise ClientError(ErrorCode.DRAINING, "the server is shutting down", retry_after_s=DRAINING_RETRY_S)
        if self._utterances.total() >= self._limits.utterances:
            raise ClientError(
                ErrorCode.CAPACITY,
                f"{self._utterances.total()} utterances are being spoken, at most {self._limits.utterances}",
                retry_after_s=CAPACITY_RETRY_S,
            )
        if self._utterances[key] >= self._limits.utterances_per_key:
            raise ClientError(
                ErrorCode.QUOTA,
                f"this key has {self._utterances[key]} utterances, at most {self._limits.utterances_per_key}",
                retry_after_s=QUOTA_RETRY_S,
            )
        self._utterances[key] += 1

    def end_utterance(self, key: str) -> None:
        _count_down(self._utterances, key)


def _count_down(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]
