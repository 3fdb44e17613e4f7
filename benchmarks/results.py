"""Results on disk: one JSON and one Markdown table for each benchmark, both with the machine line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import machine_line

FOLDER = Path(__file__).resolve().parent / "results"


def save(name: str, title: str, machine: dict[str, Any], report: dict[str, Any], text: str) -> None:
    """Write results/<name>.json and .md, and show the latter."""
    FOLDER.mkdir(exist_ok=True)
    stored = {"machine": machine, **report}
    (FOLDER / f"{name}.json").write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    page = f"# {title}\n\n{machine_line(machine)}\n\n{text.strip()}\n"
    (FOLDER / f"{name}.md").write_text(page, encoding="utf-8")
    print(page)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
