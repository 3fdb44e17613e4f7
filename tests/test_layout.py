"""Each module stands on tests of its own, and the README is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("gateway", "engine", "kernels")

TESTED_ELSEWHERE = {
    "engine/api.py": "protocols only",
    "engine/speech_model.py": "protocols only",
    "engine/speech.py": "data only",
    "engine/errors.py": "data only",
    "engine/core/step.py": "data only",
    "gateway/errors.py": "data only",
    "gateway/events.py": "data only",
    "gateway/dialects/base.py": "protocols only",
    "gateway/service.py": "data only; its routes have tests",
}
"""Modules without behaviour. Anything else needs a test file at the mirrored path."""


def modules() -> list[str]:
    return sorted(
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    )


def has_own_test(module: str) -> bool:
    path = Path(module)
    return (ROOT / "tests" / path.parent / f"test_{path.name}").exists()


@pytest.mark.parametrize("module", modules())
def test_each_module_has_a_test_file_at_the_mirrored_path(module: str) -> None:
    assert has_own_test(module) != (module in TESTED_ELSEWHERE)


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_folder_in_the_readme_exists_and_every_package_is_there() -> None:
    listed = re.findall(r"^\| `([\w/]+)/` \|", README, re.MULTILINE)
    assert all((ROOT / folder).is_dir() for folder in listed)
    packages = {
        str(path.parent.relative_to(ROOT))
        for package in (*PACKAGES, "web")
        for path in (ROOT / package).rglob("__init__.py")
        if path.parent.parent.name != "models"
    }
    assert packages - {"engine/models"} <= set(listed)


def test_every_file_that_the_readme_names_exists() -> None:
    named = re.findall(r"`((?:gateway|engine|kernels|web|docs)/[\w/]+\.\w+)`", README)
    linked = [target for target in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in target]
    assert len(named) > 8
    assert [path for path in (*named, *linked) if not (ROOT / path).exists()] == []


def test_every_make_target_that_the_readme_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^make ([a-z-]+)", README, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
