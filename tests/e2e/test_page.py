"""The page in headless Chromium: against a gateway that does wrong on command, and against the real one.

The steps are in tests/web/e2e (JavaScript, playwright-core); here they are run, file by file, and a gateway is started.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB_TESTS = ROOT / "tests" / "web"
MOCKED = sorted(path for path in (WEB_TESTS / "e2e").glob("*.test.mjs"))
REAL = WEB_TESTS / "e2e_gateway"
KEY = "an-open-sesame-of-enough-length"
TIMEOUT_S = 300
LOG_SHOWN_CHARS = 6000
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)

pytestmark = [
    pytest.mark.skipif(
        shutil.which("node") is None, reason="node is not installed (Debian: apt-get install nodejs npm)"
    ),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)"),
    pytest.mark.skipif(
        not (WEB_TESTS / "node_modules" / "playwright-core").is_dir(),
        reason="the page's test tools are missing: npm ci in tests/web",
    ),
]


def run_node_tests(path: Path, environment: dict[str, str], log: Path | None = None) -> None:
    """Fails with what the tests of the file said, and with the end of the gateway's log."""
    done = subprocess.run(
        ["node", "--test", str(path)],
        cwd=WEB_TESTS,
        env={**os.environ, "CHROMIUM": CHROMIUM or "", **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        logged = "" if log is None else f"the gateway's log:\n{log.read_text()[-LOG_SHOWN_CHARS:]}"
        pytest.fail(f"{path.name}\n{done.stdout}{done.stderr}{logged}", pytrace=False)


@contextmanager
def served(log: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of a gateway with its embedded voice, in a process of its own."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway.cli", "serve", "--port", "0"],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            found = re.search(r"http://\S+", line)
            if found:
                yield found.group()
                return
        pytest.fail(f"the gateway did not start:\n{log.read_text()}", pytrace=False)
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
@pytest.mark.parametrize("path", MOCKED, ids=lambda path: path.name.removesuffix(".test.mjs"))
def test_the_page_in_a_browser(path: Path) -> None:
    run_node_tests(path, {})


@pytest.mark.slow
def test_the_page_on_the_real_gateway_and_its_snippets_run_as_they_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "gateway.log"
    with served(log, {}) as address:
        page = {"PAGE_URL": address, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        run_node_tests(REAL / "gateway.test.mjs", page, log)


@pytest.mark.slow
def test_the_page_asks_the_real_gateway_for_entry_and_is_told_in_words(tmp_path: Path) -> None:
    settings = {"ANTIPHON_KEYS__SHOP": KEY, "ANTIPHON_LIMITS__CONNECTIONS": "1"}
    log = tmp_path / "gateway.log"
    with served(log, settings) as address:
        run_node_tests(REAL / "door.test.mjs", {"PAGE_URL": address, "PAGE_KEY": KEY}, log)
