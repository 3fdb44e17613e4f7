"""A dialect's own answers, each written when the Ping that stands for it comes round, behind what was asked before."""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

from gateway.errors import ClientError, ErrorCode
from gateway.events import Ping

MAX_REPLIES: Final = 512
"""Answers that wait to be written."""
MAX_REPLY_CHARS: Final = 1024 * 1024
"""Characters of all of them; one that is longer may wait alone."""

Reply = TypeVar("Reply")


class Replies(Generic[Reply]):
    """In the order asked."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Reply, int]] = deque()
        self._chars = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, reply: Reply, chars: int) -> Ping:
        """The event that brings its turn. Raises ClientError quota where the client has left too many unread."""
        if len(self._waiting) >= MAX_REPLIES or (self._waiting and self._chars + chars > MAX_REPLY_CHARS):
            raise ClientError(
                ErrorCode.QUOTA,
                f"{len(self._waiting):,} answers of {self._chars:,} characters wait to be read, at most "
                f"{MAX_REPLIES:,} of {MAX_REPLY_CHARS:,}",
            )
        self._waiting.append((reply, chars))
        self._chars += chars
        return Ping("reply")

    def take(self) -> Reply | None:
        """The next one."""
        if not self._waiting:
            return None
        reply, chars = self._waiting.popleft()
        self._chars -= chars
        return reply
