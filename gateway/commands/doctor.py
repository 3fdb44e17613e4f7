"""`antiphon doctor`: what this machine can run and what is missing, in words."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from typing import Final, Literal

from engine.api import Engine
from engine.errors import EngineError
from gateway.commands.playback import describe_player
from gateway.config import Config

MIN_PYTHON: Final = (3, 11)
PROBE_TIMEOUT_S: Final = 10.0

_REQUIREMENT_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")

Verdict = Literal["ok", "absent", "broken"]
"""absent: something optional is not here; broken: what is needed does not work."""

MARKS: Final[dict[Verdict, str]] = {"ok": "ok     ", "absent": "absent ", "broken": "BROKEN "}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at, and a sentence about it that says what to do where there is something to do."""

    verdict: Verdict
    sentence: str


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional part of the installation: the modules it needs, and what it is good for."""

    name: str
    modules: tuple[str, ...]
    purpose: str


DISTRIBUTION: Final = "antiphon"
SHOWN_PACKAGES: Final = ("onnxruntime", "numpy", "uvicorn", "websockets")
"""Whose versions explain most when something goes wrong."""
EXTRAS: Final = (
    Extra("fast", ("scipy",), "the embedded voice takes about half the signal processing"),
    Extra("effects", ("pyworld",), "whispering, shouting and other speakers with the embedded voice"),
    Extra("opus", ("av",), "audio as Opus"),
    Extra("play", ("sounddevice",), "playing aloud without a player of the system"),
    Extra("higgs", ("torch",), "the model family higgs, on a GPU"),
)


def examine(config: Config, load: Callable[[], Engine], settings_problem: str | None = None) -> Iterable[Finding]:
    """Look at everything, one finding after the other. `load` makes the configured engine and may take seconds.

    `settings_problem`: why the settings cannot be used; `config` then stands in for them.
    """
    yield _python()
    yield _packages()
    if settings_problem is None:
        yield Finding("ok", f"settings: valid; {_reach(config)}")
    else:
        yield Finding("broken", f"settings: {settings_problem} (what follows goes by the defaults)")
    yield _port(config.server.host, config.server.port)
    yield _model(config, load)
    yield _processor()
    yield _graphics()
    player = describe_player()
    if player is None:
        yield Finding(
            "absent", "sound: no device to play on, or no player; `antiphon say --out FILE.wav` works without"
        )
    else:
        yield Finding("ok", f"sound: {player} can play aloud")
    for extra in EXTRAS:
        yield _extra(extra)


def report(findings: Iterable[Finding], show: Callable[[str], None]) -> bool:
    """Show each finding as it is made, and a conclusion. Whether everything needed works."""
    is_working = True
    for finding in findings:
        is_working &= finding.verdict != "broken"
        show(f"{MARKS[finding.verdict]} {finding.sentence}")
    show("")
    show(
        "This machine can speak: antiphon serve" if is_working else "Something needed does not work: see BROKEN above."
    )
    return is_working


def _python() -> Finding:
    have = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < MIN_PYTHON:
        return Finding("broken", f"{have}: at least {'.'.join(map(str, MIN_PYTHON))} is needed")
    return Finding("ok", have)


def _packages() -> Finding:
    try:
        wanted = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return Finding("broken", f"packages: {DISTRIBUTION} itself is not installed; in its folder: pip install -e .")
    base = [_REQUIREMENT_NAME.match(line) for line in wanted if "extra ==" not in line]
    missing = [name[0] for name in base if name is not None and _version(name[0]) is None]
    if missing:
        return Finding("broken", f"packages: {', '.join(missing)} missing; install again: pip install {DISTRIBUTION}")
    shown = ", ".join(f"{name} {_version(name)}" for name in SHOWN_PACKAGES)
    return Finding("ok", f"packages: all of the base installation ({shown} …)")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _reach(config: Config) -> str:
    place = f"{config.server.host}:{config.server.port}"
    keys = len(config.keys)
    if not keys:
        return f"serves {place} to this machine alone, without a key"
    return f"serves {place}, with {keys} key{'s' if keys > 1 else ''}"


def _port(host: str, port: int) -> Finding:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        reason = error.strerror or str(error)
        return Finding("broken", f"port: {host}:{port} cannot be had ({reason}); choose another: --port N")
    return Finding("ok", f"port: {host}:{port} is free")


def _model(config: Config, load: Callable[[], Engine]) -> Finding:
    start_s = time.perf_counter()
    try:
        info = load().info
    except EngineError as error:
        return Finding("broken", f"model: {config.model.name} cannot be loaded: {error}")
    took_s = time.perf_counter() - start_s
    voices = ", ".join(voice.id for voice in info.voices)
    return Finding("ok", f"model: {info.name} loads in {took_s:.1f} s, its files checked; voices: {voices}")


def _processor() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding("ok", f"processor: {cores} core{'s' if cores > 1 else ''} to use")


def _graphics() -> Finding:
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return Finding("absent", "graphics: no NVIDIA GPU answers; the embedded voice needs none, larger families do")
    names = "; ".join(answer.splitlines())
    if importlib.util.find_spec("torch") is None:
        return Finding("absent", f"graphics: {names}, but no torch to use it; the extra of a family brings it")
    return Finding("ok", f"graphics: {names}")


def _extra(extra: Extra) -> Finding:
    missing = [module for module in extra.modules if importlib.util.find_spec(module) is None]
    if missing:
        return Finding("absent", f"extra {extra.name} ({extra.purpose}): pip install 'antiphon[{extra.name}]'")
    return Finding("ok", f"extra {extra.name}: {extra.purpose}")
