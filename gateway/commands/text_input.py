"""Text of a command: standard input as it comes, with characters that a pipe has cut put together again."""

from __future__ import annotations

import asyncio
import codecs
import concurrent.futures
import os
import threading
from collections.abc import AsyncIterator
from typing import Final

from gateway.commands.outcome import CommandError

READ_BYTES: Final = 65536
MAX_WAITING_READS: Final = 4


async def read_text(descriptor: int) -> AsyncIterator[str]:
    """UTF-8 text of a file descriptor, piece by piece, as soon as it can be read. CommandError if it is not UTF-8.

    A blocking read cannot be cancelled, so a daemon thread reads; it ends with the input or the process. It reads a
    duplicate of the descriptor: the caller may close its own, and another file then have that number.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    waiting: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING_READS)
    loop = asyncio.get_running_loop()
    thread = threading.Thread(
        target=_read_into, args=(os.dup(descriptor), waiting, loop), name="text input", daemon=True
    )
    thread.start()
    while True:
        read = await waiting.get()
        held_bytes = len(decoder.getstate()[0])
        try:
            text = decoder.decode(read, final=not read)
        except UnicodeDecodeError as error:
            readable = error.object[: error.start].decode()
            if readable:
                yield readable
            raise CommandError(
                f"the input is not UTF-8: byte {offset - held_bytes + error.start:,} is {error.reason}"
            ) from error
        offset += len(read)
        if text:
            yield text
        if not read:
            return


def _read_into(descriptor: int, waiting: asyncio.Queue[bytes], loop: asyncio.AbstractEventLoop) -> None:
    """In the thread: at most `MAX_WAITING_READS` reads ahead; an empty one says that the input has ended. Closes
    `descriptor`."""
    try:
        is_open = True
        while is_open:
            try:
                read = os.read(descriptor, READ_BYTES)
            except OSError:
                read = b""
            is_open = bool(read)
            putting = waiting.put(read)
            try:
                asyncio.run_coroutine_threadsafe(putting, loop).result()
            except (RuntimeError, concurrent.futures.CancelledError):  # the loop is gone: nobody wants the rest
                putting.close()
                return
    finally:
        os.close(descriptor)
