"""The page's pure modules under `node --test`, its types, and the tag names that it shares with the gateway."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.text.vocabulary import NEUTRAL, VALUES

HERE = Path(__file__).parent
UNIT_TESTS = sorted((HERE / "unit").glob("*.test.mjs"))
TIMEOUT_S = 120

needs_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="node is not installed (Debian: apt-get install nodejs npm)"
)
needs_packages = pytest.mark.skipif(
    not (HERE / "node_modules" / "typescript").is_dir(), reason="the page's test tools are missing: npm ci in tests/web"
)


def run(*command: str) -> str:
    """Its output; fails the test with all that it said if it fails."""
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}{done.stderr}", pytrace=False)
    return done.stdout


@needs_node
@pytest.mark.parametrize("path", UNIT_TESTS, ids=lambda path: path.name.removesuffix(".test.mjs"))
def test_pure_module_keeps_its_promises(path: Path) -> None:
    run("node", "--test", str(path))


@needs_node
@needs_packages
def test_the_page_is_typed() -> None:
    run("node", "node_modules/typescript/bin/tsc", "--project", "tsconfig.json")


@needs_node
@needs_packages
def test_the_page_is_formatted() -> None:
    page = "../../web/**/*.{js,css,html}"
    run("node", "node_modules/prettier/bin/prettier.cjs", "--config", ".prettierrc.json", "--check", page, "**/*.mjs")


@needs_node
def test_the_palette_shows_exactly_the_tags_that_the_gateway_knows() -> None:
    module = (HERE / "../../web/src/tags.js").resolve().as_uri()
    script = f"import {{ TAG_GROUPS }} from {module!r};" + (
        "console.log(JSON.stringify(TAG_GROUPS.flatMap((group) => group.tags.map((tag) => tag.name))));"
    )
    shown = json.loads(run("node", "--input-type=module", "--eval", script))
    known = {f"{category}:{value}" for category, values in VALUES.items() for value in values if value != NEUTRAL}
    assert sorted(shown) == sorted(known)


def test_the_page_loads_nothing_from_elsewhere_and_has_no_inline_code() -> None:
    for path in (HERE / "../../web").rglob("*"):
        if path.suffix not in {".html", ".js", ".css", ".svg"}:
            continue
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, path
        assert "https://" not in text, path
        if path.suffix == ".html":
            assert " style=" not in text
            assert "<style" not in text
            assert "<script>" not in text
