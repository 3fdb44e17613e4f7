"""The pins hold for what is installed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from pathlib import Path

from engine.models.hibari import config


def test_the_installed_net_is_the_pinned_one() -> None:
    spec = importlib.util.find_spec("hibari")
    assert spec is not None
    assert spec.origin is not None
    net = (Path(spec.origin).parent / "assets" / config.NET_FILE).read_bytes()
    assert hashlib.sha256(net).hexdigest() == config.NET_SHA256


def test_the_pinned_version_is_the_one_that_the_package_requires() -> None:
    assert importlib.metadata.version("hibari-tts") == config.PACKAGE_VERSION


def test_only_voices_made_by_shifting_are_derived() -> None:
    assert not config.BASE_VOICE.is_derived
    assert all(voice.is_derived for voice in config.DERIVED_VOICES)
    names = [voice.id for voice in (config.BASE_VOICE, *config.DERIVED_VOICES)]
    assert len(set(names)) == len(names)
