"""HeldAudio: how much of unfinished files a server keeps, since some can only leave whole."""

from __future__ import annotations

from typing import Final

from gateway.errors import ClientError, ErrorCode

MAX_FILE_BYTES: Final = 128 * 1024 * 1024
"""Of one file, as 16-bit samples: 46 minutes at 24 kHz."""
MAX_SERVER_BYTES: Final = 512 * 1024 * 1024
"""Of all files that are being made. While a file is put together for leaving, it is there a second time."""
RETRY_S: Final = 10.0


class HeldAudio:
    """The server's account. Everybody gives back what they took."""

    def __init__(self, max_bytes: int = MAX_SERVER_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Of all files together."""
        return self._held_bytes

    def take(self, size: int) -> None:
        """Raises ClientError capacity where the server has no more room, and nothing was taken."""
        if self._held_bytes + size > self._max_bytes:
            raise ClientError(
                ErrorCode.CAPACITY,
                f"the server holds {self._held_bytes:,} bytes of unfinished files, at most {self._max_bytes:,}: "
                "ask for a format that streams, or later",
                retry_after_s=RETRY_S,
            )
        self._held_bytes += size

    def give_back(self, size: int) -> None:
        self._held_bytes -= size


class HeldFile:
    """One file's share of it. Raises ClientError text_too_long or capacity."""

    def __init__(self, account: HeldAudio, max_bytes: int = MAX_FILE_BYTES) -> None:
        self._account = account
        self._max_bytes = max_bytes
        self._held_bytes = 0

    def grow(self, size: int) -> None:
        """`size` more bytes are kept."""
        if self._held_bytes + size > self._max_bytes:
            raise ClientError(
                ErrorCode.TEXT_TOO_LONG,
                f"the file would be over {self._max_bytes:,} bytes of samples, the limit for one that can only leave "
                "whole: ask for a format that streams",
            )
        self._account.take(size)
        self._held_bytes += size

    def release(self) -> None:
        """All of it has left, or is no longer wanted."""
        self._account.give_back(self._held_bytes)
        self._held_bytes = 0
