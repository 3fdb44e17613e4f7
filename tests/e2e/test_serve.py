"""`antiphon serve` as an operator runs it: a process of its own, spoken to, and stopped by a signal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx
import pytest
import soundfile

START_S = 60
ROOT = Path(__file__).parents[2]


@contextmanager
def served(
    *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None, log: IO[str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, once it has printed its page's address, and that address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway.cli", "serve", "--port", "0", *arguments],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if log is None else log,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = ""
        for line in process.stdout:
            found = re.search(r"http://\S+", line)
            if found:
                address = found.group().rstrip("/")
                break
        assert address, "the server ended without an address"
        yield process, address
    finally:
        process.kill()
        process.wait(START_S)


def say(*arguments: str, cwd: Path, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gateway.cli", "say", *arguments],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )


def test_a_served_voice_is_heard_by_say_and_a_signal_ends_it_with_status_0(tmp_path: Path) -> None:
    with served(cwd=ROOT) as (process, address):
        url = address.replace("http", "ws") + "/antiphon/v1/speak"
        spoken = say("Hello from the other side.", "--url", url, "--out", str(tmp_path / "a.wav"), cwd=ROOT)
        assert spoken.returncode == 0, spoken.stderr
        samples, rate_hz = soundfile.read(tmp_path / "a.wav")
        assert 1.0 < len(samples) / rate_hz < 4.0
        assert abs(samples).max() > 0.1
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_S) == 0


def test_no_key_or_token_reaches_the_log(tmp_path: Path) -> None:
    secret = "a-secret-of-sixteen-or-more"
    log_path = tmp_path / "log"
    with (
        log_path.open("w") as log,
        served("--key", secret, cwd=ROOT, environment={"ANTIPHON_LOG__LEVEL": "info"}, log=log) as (_, address),
    ):
        headers = {"Authorization": f"Bearer {secret}"}
        token = httpx.post(f"{address}/antiphon/v1/token", headers=headers).json()["token"]
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        for query in (f"token={token}", f"api_key={secret}", "token=unknown-token-of-somebody"):
            httpx.get(
                f"{address}/antiphon/v1/speak?{query}",
                headers={**upgrade, "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="},
            )
    written = log_path.read_text()
    assert secret not in written
    assert token not in written
    assert "unknown-token" not in written


def test_a_server_beyond_loopback_does_not_start_without_a_key() -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "gateway.cli", "serve", "--host", "0.0.0.0", "--port", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert refused.returncode == 2
    assert "key" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
def test_the_wheel_serves_its_page_and_speaks_away_from_the_checkout(tmp_path: Path) -> None:
    build = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    installed, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(installed)
    environment = {"PYTHONPATH": str(installed)}
    where = subprocess.run(
        [sys.executable, "-c", "import gateway; print(gateway.__file__)"],
        cwd=elsewhere,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(installed))
    assert not (installed / "tests").exists()
    with served(cwd=elsewhere, environment=environment) as (_, address):
        page = httpx.get(address + "/")
        assert page.status_code == 200
        for path in re.findall(r'(?:src|href)="(/web/[^"]+)"', page.text) or ["/web/style.css"]:
            assert httpx.get(address + path).status_code == 200, path
    out = elsewhere / "b.wav"
    assert say("Away from home.", "--out", str(out), cwd=elsewhere, environment=environment).returncode == 0
    assert soundfile.info(out).duration > 0.5
