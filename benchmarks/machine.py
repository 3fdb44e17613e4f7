"""Where and of what a result was measured: the machine and the revision that every benchmark states."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("numpy", "onnxruntime", "hibari-tts", "starlette", "uvicorn", "websockets", "torch", "triton")


def machine() -> dict[str, Any]:
    """Hardware, software, revision and load, ready for JSON."""
    return {
        "cpu": _cpu_name(),
        "cores": _usable_cores(),
        "gpu": _gpu_name(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": _versions(),
        "revision": revision(),
        "load_average_1_min": round(os.getloadavg()[0], 2),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def machine_line(found: dict[str, Any]) -> str:
    """One line for the head of a table."""
    gpu = f", {found['gpu']}" if found["gpu"] else ""
    return (
        f"{found['cpu']}, {found['cores']} cores{gpu}, {found['memory_gb']} GB; {found['system']}; "
        f"Python {found['python']}; revision {found['revision']}; load {found['load_average_1_min']} at the start; "
        f"{found['measured_at'][:10]}"
    )


def revision() -> str:
    """The short commit, with "+changes" where tracked files differ from it."""
    commit = _output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD") or "unknown"
    is_changed = bool(_output("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"))
    return f"{commit}+changes" if is_changed else commit


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown processor")


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gpu_name() -> str | None:
    return _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or None


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
