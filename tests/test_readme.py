"""The README's commands and code, run as they stand there, from a folder that has what an installation would put there.

Not run are those that install, which needs the network and minutes; what they name is looked up instead. CI runs
`make serve` and `make test` themselves (`.ci/run`).
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LIMIT_S = 60
ADDRESS = "ws://127.0.0.1:8000"
DURATION = "--duration 30"

BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
COMMANDS = [line.strip() for kind, block in BLOCKS if kind == "sh" for line in block.splitlines() if line.strip()]
PYTHON = [block for kind, block in BLOCKS if kind == "python"]
WORDS = {command: shlex.split(command, comments=True) for command in COMMANDS}

MAKE = [command for command in COMMANDS if WORDS[command][0] == "make"]
INSTALLING = [command for command in COMMANDS if "pip install" in command]
SERVING = [command for command in COMMANDS if WORDS[command][-2:] == [".venv/bin/antiphon", "serve"]]
SAYING = [command for command in COMMANDS if ".venv/bin/antiphon say" in command]
MEASURING = [command for command in COMMANDS if ".venv/bin/antiphon bench" in command]
NAMED = sorted(set(re.findall(r"`antiphon (\w+)", README)))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `.venv/bin/antiphon`, the console script of pyproject.toml, and a `my-llm` that writes bits."""
    folder = tmp_path_factory.mktemp("installed")
    binaries = folder / ".venv" / "bin"
    binaries.mkdir(parents=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, function = project["project"]["scripts"]["antiphon"].partition(":")
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from {module} import {function}; sys.exit({function}())"
    _write_script(binaries / "antiphon", f"#!{sys.executable}\n{script}\n")
    _write_script(
        binaries / "my-llm", "#!/bin/sh\nfor token in 'This is ' 'what I ' 'think.'; do printf %s \"$token\"; done\n"
    )
    return folder


def _write_script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def environment(folder: Path) -> dict[str, str]:
    unset = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    return {
        **unset,
        "PATH": f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "ANTIPHON_SERVER__PORT": "0",
        "ANTIPHON_SPEECH__MAX_AHEAD_MS": "60000",  # nobody listens in real time here
    }


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def served(installed: Path) -> Iterator[str]:
    """`antiphon serve` as the README has it, but on a free port; what to put for the README's address."""
    (command,) = SERVING
    process = subprocess.Popen(
        WORDS[command],
        cwd=installed,
        env=environment(installed),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        page = next((line for line in process.stdout if line.startswith("Page: ")), "")
        assert page, "the server ended without an address"
        yield page.removeprefix("Page: http").strip().rstrip("/")
    finally:
        process.kill()
        process.wait(LIMIT_S)


def placed(text: str, served: str) -> str:
    assert ADDRESS in text
    return text.replace(ADDRESS, f"ws{served}")


def test_every_command_is_of_a_kind_that_a_test_here_runs_or_looks_up() -> None:
    assert COMMANDS
    assert [command for command in COMMANDS if command not in [*MAKE, *INSTALLING, *SERVING, *SAYING, *MEASURING]] == []
    assert {kind for kind, _ in BLOCKS} == {"sh", "python"}


@pytest.mark.parametrize("command", MAKE)
def test_make_knows_the_target_and_what_it_would_run(command: str) -> None:
    """A dry run: the targets themselves install, and CI runs them."""
    target = WORDS[command][1]
    found = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert found.returncode == 0, found.stderr
    assert {"serve": "antiphon serve", "test": "pytest"}[target] in found.stdout


@pytest.mark.parametrize("command", INSTALLING)
def test_what_is_to_be_installed_is_there(command: str) -> None:
    """Looked up, not run: installing needs the network. The lock names each package by version and hash."""
    assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0
    words = WORDS[command]
    asked = words[words.index("install") + 1 :]
    if "-r" in asked:
        assert "--require-hashes" in asked
        lock = (ROOT / asked[asked.index("-r") + 1]).read_text(encoding="utf-8")
        pins = re.findall(r"^[\w.\[\]-]+==\S+ \\\n +--hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)
        assert len(pins) == len(re.findall(r"^\w", lock, re.MULTILINE)) > 5
    else:
        assert asked == ["--no-deps", "."]
        assert (ROOT / "pyproject.toml").exists()


@pytest.mark.parametrize("command", SAYING)
def test_what_is_to_be_said_is_in_the_file(command: str, installed: Path) -> None:
    words = WORDS[command]
    out = installed / words[words.index("--out") + 1]
    said = run(command, installed)
    assert said.returncode == 0, said.stderr
    assert soundfile.info(out).duration > 0.5
    assert abs(soundfile.read(out)[0]).max() > 0.1


@pytest.mark.parametrize("command", MEASURING)
def test_a_load_is_measured_on_the_served_gateway(command: str, installed: Path, served: str) -> None:
    assert DURATION in command
    words = WORDS[command]
    measured = run(placed(command, served).replace(DURATION, "--duration 1"), installed)
    assert measured.returncode == 0, measured.stderr
    report = json.loads((installed / words[words.index("--json") + 1]).read_text(encoding="utf-8"))
    assert report["whole"] == report["utterances"] > 0


@pytest.mark.parametrize("name", NAMED)
def test_a_command_that_the_text_names_exists(name: str, installed: Path) -> None:
    asked = run(f"antiphon {name} --help", installed)
    assert asked.returncode == 0, asked.stderr


def test_doctor_says_what_this_machine_can_run(installed: Path) -> None:
    assert "`antiphon doctor`" in README
    found = run("antiphon doctor", installed)
    assert found.returncode == 0, found.stdout
    assert "This machine can speak" in found.stdout


class _Player:
    """The agent's own, which the README leaves to its reader."""

    def __init__(self) -> None:
        self.played = b""

    def write(self, payload: bytes) -> None:
        self.played += payload


async def _tokens() -> AsyncIterator[str]:
    for token in ("Hel", "lo", " there", ",", " friend", "!"):
        yield token


@pytest.mark.parametrize("block", PYTHON, ids=range(len(PYTHON)))
async def test_the_python_of_an_agent_is_heard(block: str, served: str) -> None:
    player = _Player()
    names: dict[str, Any] = {"tokens": _tokens(), "player": player}
    code = compile(placed(block, served), "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    async with asyncio.timeout(LIMIT_S):
        await eval(code, names)
    assert len(player.played) > 0.5 * 48_000
