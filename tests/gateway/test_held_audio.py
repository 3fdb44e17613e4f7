"""What unfinished files may keep of a server's memory."""

from __future__ import annotations

import pytest

from gateway.errors import ClientError, ErrorCode
from gateway.held_audio import HeldAudio, HeldFile


def test_a_file_grows_to_its_limit_and_no_further() -> None:
    account = HeldAudio(1000)
    file = HeldFile(account, max_bytes=10)
    file.grow(10)
    with pytest.raises(ClientError, match="over 10 bytes") as refused:
        file.grow(1)
    assert refused.value.code is ErrorCode.TEXT_TOO_LONG
    assert account.held_bytes == 10


def test_all_files_share_the_servers_limit_and_give_back() -> None:
    account = HeldAudio(15)
    first, second = HeldFile(account), HeldFile(account)
    first.grow(10)
    with pytest.raises(ClientError, match="holds 10 bytes of unfinished files, at most 15") as refused:
        second.grow(6)
    assert refused.value.code is ErrorCode.CAPACITY
    assert refused.value.retry_after_s
    first.release()
    first.release()
    second.grow(15)
    assert account.held_bytes == 15
