"""Settings: strict, layered, and clear about what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import Config, ConfigError, load_config

SECRET = "0123456789abcdef"


def written(folder: Path, text: str) -> Path:
    path = folder / "antiphon.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_set_means_the_defaults_on_loopback() -> None:
    config = load_config(None, {})
    assert config == Config()
    assert config.server.host == "127.0.0.1"


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, '[server]\nport = 1\nhost = "localhost"\ndrain_s = 3\n')
    config = load_config(path, {"ANTIPHON_SERVER__PORT": "2", "ANTIPHON_SERVER__DRAIN_S": "4"}, {"server": {"port": 5}})
    assert (config.server.port, config.server.host, config.server.drain_s) == (5, "localhost", 4.0)


def test_parts_settings_are_sections_of_their_own(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "[text]\nmax_chars = 200\n[engine]\nmax_unread_s = 1.5\n"), {})
    assert (config.text.max_chars, config.engine.max_unread_s) == (200, 1.5)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[server]\nprot = 1\n", ["unknown setting server.prot"]),
        ("[sever]\nport = 1\n", ["unknown setting sever"]),
        ("[text]\nmax_char = 1\n", ["unknown setting text.max_char"]),
        ("[engine]\nspeed = 1\n", ["unknown setting engine.speed"]),
        ("[server]\nport = 70000\n", ["server.port is 70000", "65535"]),
        ("[server]\nport = 'x'\nprot = 2\n", ["server.port is 'x'", "unknown setting server.prot"]),
        ("[text]\nmax_wait_s = -5\n", ["text.max_wait_s is -5"]),
        ("[text]\nmax_chars = 0\n", ["text.max_chars is 0"]),
        ("[engine]\nmax_unread_s = -1\n", ["engine.max_unread_s is -1"]),
        ("server = 3\n", ["server is 3"]),
        ("[server\n", ["is not TOML"]),
    ],
)
def test_every_bad_setting_is_named_with_its_value(tmp_path: Path, text: str, names: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, text), {})
    for name in names:
        assert name in str(caught.value)


@pytest.mark.parametrize("name", ["ANTIPHON_PORT", "ANTIPHON_SERVER__PROT", "ANTIPHON_SEVER__PORT"])
def test_an_unknown_environment_variable_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        load_config(None, {name: "1"})


def test_lists_in_the_environment_are_json() -> None:
    config = load_config(None, {"ANTIPHON_SERVER__ALLOWED_ORIGINS": '["https://a.example"]'})
    assert config.server.allowed_origins == {"https://a.example"}


def test_a_familys_options_keep_their_types(tmp_path: Path) -> None:
    path = written(tmp_path, "[model]\nname = 'higgs'\n[model.options]\ndeterministic = true\nhistory_s = 20.5\n")
    assert load_config(path, {}).model.options == {"deterministic": True, "history_s": 20.5}


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.toml", {})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "voice.example"])
def test_nothing_beyond_loopback_is_bound_without_a_key(host: str) -> None:
    with pytest.raises(ConfigError, match="key"):
        load_config(None, {"ANTIPHON_SERVER__HOST": host})
    assert load_config(None, {"ANTIPHON_SERVER__HOST": host, "ANTIPHON_KEYS__SHOP": SECRET}).keys == {"shop": SECRET}


def test_a_short_key_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, {"ANTIPHON_KEYS__SHOP": "hunter2"})
    assert "keys.shop" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_loopback_names_and_the_servers_own_are_answered() -> None:
    config = load_config(None, {"ANTIPHON_SERVER__HOST": "Voice.example", "ANTIPHON_KEYS__A": SECRET})
    assert {"localhost", "127.0.0.1", "voice.example"} <= config.hosts_answered
