"""The CI's script with stand-ins for what it calls: how it ends, and that nothing that was said is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "run"
MAKE = """#!/bin/sh
echo "$1 says hello"
touch "ran-$1"
case "$1" in
  test-clients) while [ ! -e ran-meters-short ]; do sleep 0.01; done;;
  test-models) while [ ! -e ran-test-clients ]; do sleep 0.01; done;;
  serve) sleep 600;;
esac
echo "$1 says goodbye"
[ "$1" != "$FAILS" ]
"""
TIERS = ("check", "test", "test-clients", "test-models", "meters-short")


def run(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """In a clone whose `make`, `curl`, browser and voice are stand-ins."""
    tools = folder / "tools"
    for path, source in {
        folder / ".venv" / "bin" / "antiphon": "#!/bin/sh\nwhile [ ! -e ran-serve ]; do sleep 0.01; done\n",
        tools / "make": MAKE,
        tools / "curl": "#!/bin/sh\n",
        tools / "chromium": "#!/bin/sh\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        path.chmod(0o755)
    (folder / ".ci").mkdir()
    shutil.copy(SCRIPT, folder / ".ci" / "run")
    (folder / "requirements").mkdir()
    for name in ("pyproject.toml", "requirements/dev.txt", "requirements/clients.txt"):
        (folder / name).write_text("")
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(folder),
        "CI_ENVIRONMENTS": str(folder / "cache"),
        "TMPDIR": str(folder),
        **variables,
    }
    return subprocess.run(
        [folder / ".ci" / "run"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_run_in_which_all_tiers_pass_says_so_and_ends_what_it_started(tmp_path: Path) -> None:
    ended = run(tmp_path)
    assert ended.returncode == 0, ended.stdout
    assert "all of it passed" in ended.stdout
    for tier in TIERS:
        assert f"{tier} says goodbye" in ended.stdout
    assert "serve says hello" in ended.stdout
    assert "make serve is stopped" in ended.stdout


@pytest.mark.parametrize("tier", TIERS)
def test_a_tier_that_fails_fails_the_run_and_its_output_is_shown(tmp_path: Path, tier: str) -> None:
    ended = run(tmp_path, FAILS=tier)
    assert ended.returncode != 0
    assert f"{tier} says goodbye" in ended.stdout
    assert "all of it passed" not in ended.stdout


def test_what_a_tier_beside_had_said_is_shown_when_another_one_ends_the_run(tmp_path: Path) -> None:
    ended = run(tmp_path, FAILS="test-models")
    assert ended.returncode != 0
    assert "make test-clients is stopped" in ended.stdout
    assert "test-clients says hello" in ended.stdout
    assert "test-clients says goodbye" not in ended.stdout
