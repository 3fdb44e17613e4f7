"""A gateway in a process of its own, for benchmarks to talk to."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
START_TIMEOUT_S = 120.0
ADDRESS = "Agents: "


@contextmanager
def running_gateway(settings: Mapping[str, str]) -> Iterator[str]:
    """`settings`: environment variables such as ANTIPHON_LIMITS__CONNECTIONS. Gives the address, once it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway.cli", "serve", "--port", "0"],
        cwd=ROOT,
        env={**os.environ, "ANTIPHON_LOG__LEVEL": "error", **settings},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    addresses: queue.Queue[str] = queue.Queue(1)
    threading.Thread(target=_watch, args=(process.stdout, addresses), daemon=True).start()
    try:
        yield addresses.get(timeout=START_TIMEOUT_S)
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _watch(output: IO[str], addresses: queue.Queue[str]) -> None:
    """Find the address, and keep the pipe empty."""
    for line in output:
        if line.startswith(ADDRESS):
            addresses.put(line.removeprefix(ADDRESS).strip())
