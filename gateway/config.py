"""Strict settings: a TOML file, then environment variables, then the command line. Unknown keys are refused.

Every default is written once: here, or in the settings class of its part (`TextSettings`, `EngineSettings`).
An environment variable names its place with double underscores: `ANTIPHON_SERVER__PORT=9000` is `port` of `[server]`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engine.config import EngineSettings
from gateway.auth import LOOPBACK_NAMES, is_loopback
from gateway.text.settings import TextSettings

ENVIRONMENT_PREFIX: Final = "ANTIPHON_"
MIN_KEY_CHARS: Final = 16

_STRICT: Final = ConfigDict(extra="forbid", frozen=True)

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class ConfigError(Exception):
    """The settings cannot be used; the message names each bad one with its value."""


class _Section(BaseModel):
    model_config = _STRICT


class ServerSettings(_Section):
    """[server]: the socket, and who may reach it."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """0 = any free one."""
    allowed_hosts: frozenset[str] = frozenset()
    """Host header names answered beside `host` and the loopback names; "*" = any."""
    allowed_origins: frozenset[str] = frozenset()
    """Origins beside the server's own, e.g. "https://app.example"; "*" = any."""
    token_life_s: Positive = 300.0
    drain_s: Annotated[float, Field(ge=0)] = 20.0
    """At shutdown, running utterances have this long to end."""
    stalled_s: Positive = 60.0
    """A peer that takes no bytes for so long is dropped."""


class LimitSettings(_Section):
    """[limits]: what one client, one key and the whole server may use."""

    message_bytes: Annotated[int, Field(ge=1024, le=16 * 1024 * 1024)] = 256 * 1024
    utterance_chars: Count = 100_000
    utterances: Count = 32
    """Open at once in one session."""
    kept_utterances: Count = 64
    """Finished ones a session keeps for a late cancel."""
    idle_s: Positive = 3900.0
    """A session without messages and speech is closed after this; vendors' clients pool sockets for up to an hour."""
    utterance_idle_s: Positive = 60.0
    """An utterance without new text, all of it spoken, is ended after this."""
    connections: Count = 512
    connections_per_key: Count = 512
    server_utterances: Count = 256
    """Being spoken or waiting, all sessions together."""
    utterances_per_key: Count = 256
    voices_per_key: Count = 32
    """Cloned voices that one key may keep (without keys: everybody together)."""
    voice_uploads: Count = 4
    """Recordings on their way at once, all keys together; each takes up to 10 MB."""


class SpeechSettings(_Section):
    """[speech]: defaults of sessions that do not say otherwise."""

    format: str = "pcm_s16le"
    sample_rate_hz: Annotated[int, Field(ge=8000, le=48000)] | None = None
    """None = the model's own rate."""
    max_ahead_ms: Positive | None = 3000.0
    """Audio sent ahead of the listener; none (in TOML: leave it to the client's `config`) = unbounded."""
    outbox_ms: Positive = 2000.0
    """Audio of an utterance made and not yet written; a fuller outbox stops its generation."""
    lexicon: Path | None = None
    """A file of words and their pronunciations for all sessions (docs/tags.md)."""


class ModelSettings(_Section):
    """[model]: which family speaks, from where."""

    name: str = "hibari"
    checkpoint: str | None = None
    device: str | None = None
    voices: Path = Path("~/.local/share/antiphon/voices")
    """Where a model that can clone keeps its voices."""
    options: dict[str, bool | int | float | str] = {}
    """The family's own settings by name (docs/higgs.md)."""


class DialectSettings(_Section):
    """[dialects]: what vendors' names mean here."""

    voices: dict[str, str] = {}
    """A vendor's voice name or id = a voice of the loaded model."""
    models: dict[str, str] = {}
    """A vendor's model name = the loaded model's, for names that are to pass without a warning."""
    unknown_names: Literal["default", "error"] = "default"
    """A name that is neither ours nor in the tables: the default speaks and a warning is given, or it is refused."""


class LogSettings(_Section):
    """[log]"""

    level: Literal["debug", "info", "warning", "error"] = "info"


class Config(_Section):
    """Everything that can be set. `keys` are name = secret."""

    server: ServerSettings = ServerSettings()
    keys: dict[str, Annotated[str, Field(min_length=MIN_KEY_CHARS)]] = {}
    limits: LimitSettings = LimitSettings()
    speech: SpeechSettings = SpeechSettings()
    model: ModelSettings = ModelSettings()
    text: TextSettings = TextSettings()
    engine: EngineSettings = EngineSettings()
    dialects: DialectSettings = DialectSettings()
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _needs_key_beyond_loopback(self) -> Config:
        if not self.keys and not is_loopback(self.server.host):
            raise ValueError(
                f"server.host is {self.server.host!r}, which other machines can reach: set a key first, e.g. "
                f"{ENVIRONMENT_PREFIX}KEYS__DEFAULT=$(openssl rand -hex 16), or bind to 127.0.0.1"
            )
        return self

    @model_validator(mode="after")
    def _parts_are_in_range(self) -> Config:
        for section, settings in (("text", self.text), ("engine", self.engine)):
            for field in dataclasses.fields(settings):
                value = getattr(settings, field.name)
                if isinstance(value, bool) or not isinstance(value, int | float):
                    continue
                is_wait = field.name.endswith("_wait_s") or field.name.endswith("_hold_s")
                if not math.isfinite(value) or value < 0 or (value == 0 and not is_wait):
                    low = "0 or more" if is_wait else "above 0"
                    raise ValueError(f"{section}.{field.name} is {value}, must be {low}")
        return self

    @property
    def hosts_answered(self) -> frozenset[str]:
        """Host header names that are answered, in lower case."""
        own = set() if self.server.host in ("0.0.0.0", "::") else {self.server.host.lower()}
        return frozenset(name.lower() for name in self.server.allowed_hosts) | LOOPBACK_NAMES | own


def load_config(
    path: Path | None, environment: Mapping[str, str], overrides: Mapping[str, Mapping[str, Any]] | None = None
) -> Config:
    """Settings of a TOML file (None = none), the environment over it, `overrides` (section → key → value) over both.

    Raises ConfigError naming every unknown key and bad value."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not TOML: {error}") from error
    for name, value in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX):
            section, _, key = name.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
            if not key:
                raise ConfigError(f"{name} names no setting: write {ENVIRONMENT_PREFIX}SECTION__KEY")
            _set(values, section, key, _parsed(value), name)
    for section, settings in (overrides or {}).items():
        for key, value in settings.items():
            _set(values, section, key, value, f"--{key}")
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(_sentence(problem) for problem in error.errors())) from None


def _set(values: dict[str, Any], section: str, key: str, value: Any, origin: str) -> None:
    settings = values.setdefault(section, {})
    if not isinstance(settings, dict):
        raise ConfigError(f"{origin} sets {section}.{key}, but {section} is not a section")
    settings[key] = value


def _parsed(value: str) -> Any:
    """Lists and maps of an environment variable are JSON; everything else is text that the setting's type reads."""
    if value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _sentence(problem: Any) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"unknown setting {place}"
    message = problem["msg"].removeprefix("Value error, ")
    if not place:
        return str(message)
    shown = "" if place.startswith("keys.") else f" is {problem['input']!r:.80}"
    return f"{place}{shown}: {message}"
