"""Answers that wait for their turn, and not without end."""

from __future__ import annotations

import pytest

from gateway.dialects.replies import MAX_REPLIES, MAX_REPLY_CHARS, Replies
from gateway.errors import ClientError, ErrorCode
from gateway.events import Ping


def test_answers_come_in_the_order_asked() -> None:
    replies: Replies[str] = Replies()
    assert replies.put("one", 3) == Ping("reply")
    replies.put("two", 3)
    assert [replies.take(), replies.take(), replies.take()] == ["one", "two", None]


def test_too_many_unread_answers_are_refused_until_some_are_taken() -> None:
    replies: Replies[int] = Replies()
    for number in range(MAX_REPLIES):
        replies.put(number, 1)
    with pytest.raises(ClientError, match="at most 512") as refused:
        replies.put(-1, 1)
    assert refused.value.code is ErrorCode.QUOTA
    assert len(replies) == MAX_REPLIES
    replies.take()
    replies.put(-1, 1)


def test_long_answers_are_few_but_one_may_always_wait() -> None:
    replies: Replies[str] = Replies()
    replies.put("long", 2 * MAX_REPLY_CHARS)
    with pytest.raises(ClientError):
        replies.put("short", 1)
    replies.take()
    replies.put("half", MAX_REPLY_CHARS // 2)
    replies.put("half", MAX_REPLY_CHARS // 2)
    with pytest.raises(ClientError):
        replies.put("short", 1)
