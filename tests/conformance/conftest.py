"""Vendors' own clients, unmodified, against a gateway on loopback; only address, key and TLS options are set.

They live in an environment of their own (`make test-clients`); elsewhere these tests are skipped and say why. With
`--write-table` the run fills the table of clients and capabilities in docs/dialects.md.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.speech_model import SpeechModel
from tests.fakes.fake_model import WholeFramesModel
from tests.fakes.gateway import RunningGateway, running_gateway

KEY = "a key of sixteen or more characters"
TABLE_BEGIN, TABLE_END = "<!-- clients: begin -->", "<!-- clients: end -->"
DIALECTS_PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"
START_S = 60.0
CAPABILITIES = (
    "speech",
    "understood",
    "words",
    "second turn",
    "empty turn ends",
    "interruption",
    "agent",
    "spoken-so-far",
    "60 s idle",
    "bad key refused",
    "HTTP",
    "voices",
    "realtime",
)
"""The table's columns."""

_outcomes: dict[str, dict[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Host:
    """A gateway in a thread of its own, so that blocking clients do not block it."""

    port: int
    gateway: RunningGateway

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def audio_s(self) -> float:
        """Seconds of audio sent so far, by the gateway's own count."""
        for line in self.gateway.service.metrics.exposition().decode().splitlines():
            if line.startswith("antiphon_audio_seconds_total "):
                return float(line.rpartition(" ")[2])
        raise AssertionError("no antiphon_audio_seconds_total")


def hosted(model: SpeechModel | None, **settings: dict[str, object]) -> Iterator[Host]:
    """A gateway while the generator lives."""
    started, stop = threading.Event(), threading.Event()
    hosts: list[Host] = []
    failures: list[BaseException] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with running_gateway(model, {"keys": {"client": KEY}, **settings}) as gateway:
            hosts.append(Host(gateway.port, gateway))
            started.set()
            await loop.run_in_executor(None, stop.wait)

    def serve() -> None:
        try:
            asyncio.run(run())
        except BaseException as failure:  # told by the fixture
            failures.append(failure)
            started.set()

    thread = threading.Thread(target=serve, name="gateway")
    thread.start()
    started.wait(START_S)
    try:
        if failures:
            raise failures[0]
        yield hosts[0]
    finally:
        stop.set()
        thread.join(START_S)


@pytest.fixture(scope="session")
def host() -> Iterator[Host]:
    """Speaks 25 characters a second, all at once, with exact words."""
    yield from hosted(WholeFramesModel(frames_per_char=1))


@pytest.fixture(scope="session")
def slow_host() -> Iterator[Host]:
    """The same, with half a second of audio a character: whoever interrupts finds it still speaking."""
    yield from hosted(WholeFramesModel(frames_per_char=12))


# ---- the table -------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-table", action="store_true", help="fill the clients' table in docs/dialects.md")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "capability(client, name): what of which client this test shows")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.when == "call" or not report.passed:
        word = "yes" if report.passed else "not run" if report.skipped else "FAILS"
        for mark in item.iter_markers("capability"):
            client, name = mark.args
            seen = _outcomes.setdefault(client, {})
            seen[name] = word if seen.get(name, "yes") == "yes" else seen[name]
    return report  # type: ignore[return-value]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--write-table", default=False) and _outcomes:
        page = DIALECTS_PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(TABLE_BEGIN)
        after = rest.partition(TABLE_END)[2]
        DIALECTS_PAGE.write_text(f"{before}{TABLE_BEGIN}\n{_table()}{TABLE_END}{after}", encoding="utf-8")


def _table() -> str:
    seen_names = {name for seen in _outcomes.values() for name in seen}
    names = [name for name in CAPABILITIES if name in seen_names]
    assert seen_names == set(names), f"not in CAPABILITIES: {seen_names - set(names)}"
    lines = ["| Client | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for client in sorted(_outcomes):
        cells = [_outcomes[client].get(name, "–") for name in names]
        lines.append(f"| {client} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
