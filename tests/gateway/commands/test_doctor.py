"""What `antiphon doctor` says of a machine."""

from __future__ import annotations

import socket
from importlib import metadata

import pytest

from engine.api import Engine
from engine.config import EngineSettings
from engine.engine import LocalEngine
from engine.errors import ModelLoadError
from gateway.commands import doctor
from gateway.commands.doctor import EXTRAS, Finding, examine, report
from gateway.config import Config, load_config
from tests.fakes.fake_model import WholeFramesModel


def settings(port: int = 0) -> Config:
    return load_config(None, {}, {"server": {"port": port}})


def load() -> Engine:
    return LocalEngine(WholeFramesModel(), EngineSettings())


def said(findings: list[Finding], start: str) -> Finding:
    (found,) = [finding for finding in findings if finding.sentence.startswith(start)]
    return found


def test_a_working_machine_is_said_to_speak() -> None:
    lines: list[str] = []
    assert report(examine(settings(), load), lines.append)
    assert lines[-1] == "This machine can speak: antiphon serve"
    assert any("voices: alto, tenor" in line for line in lines)


def test_a_model_that_cannot_be_loaded_is_broken_and_says_why() -> None:
    def fail() -> Engine:
        raise ModelLoadError("the hash of the net is not the pinned one")

    findings = list(examine(settings(), fail))
    assert said(findings, "model").verdict == "broken"
    assert "pinned" in said(findings, "model").sentence
    lines: list[str] = []
    assert not report(findings, lines.append)
    assert any(line.startswith("BROKEN") for line in lines)


def test_settings_that_cannot_be_used_are_a_finding_among_the_others() -> None:
    findings = list(examine(settings(), load, "unknown setting server.prot"))
    assert said(findings, "settings").verdict == "broken"
    assert "server.prot" in said(findings, "settings").sentence
    assert said(findings, "model").verdict == "ok"


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = said(list(examine(settings(port), load)), "port")
    assert found.verdict == "broken"
    assert str(port) in found.sentence


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: ["numpy>=1", "no-such-thing>=2", 'scipy; extra == "fast"'])
    found = said(list(examine(settings(), load)), "packages")
    assert found.verdict == "broken"
    assert "no-such-thing" in found.sentence
    assert "numpy" not in found.sentence


def test_an_absent_extra_tells_how_to_get_it_and_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    lines: list[str] = []
    findings = [finding for finding in examine(settings(), load) if finding.sentence.startswith("extra")]
    assert report(findings, lines.append)
    assert len(findings) == len(EXTRAS)
    assert all(f"antiphon[{extra.name}]" in "\n".join(lines) for extra in EXTRAS)


def test_without_a_gpu_the_embedded_voice_is_said_to_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert said(list(examine(settings(), load)), "graphics").verdict == "absent"
