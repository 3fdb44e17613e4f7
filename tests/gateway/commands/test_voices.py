"""The list of voices, from a gateway and as a table."""

from __future__ import annotations

import asyncio

import pytest

from engine.speech import VoiceInfo
from gateway.commands.outcome import CommandError
from gateway.commands.voices import table, voices_of_gateway, voices_of_model
from tests.fakes.fake_model import VOICES, WholeFramesModel
from tests.fakes.gateway import running_gateway

KEY = "a-key-of-sixteen-characters"


async def test_a_gateway_tells_its_voices_and_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    async with running_gateway() as gateway:
        voices, default_voice = await asyncio.to_thread(voices_of_gateway, gateway.url, None)
    assert [voice.id for voice in voices] == [voice.id for voice in VOICES]
    assert (voices, default_voice) == voices_of_model(WholeFramesModel().info)


async def test_a_key_is_shown_and_its_lack_is_explained() -> None:
    async with running_gateway(settings={"keys": {"test": KEY}}) as gateway:
        voices, _ = await asyncio.to_thread(voices_of_gateway, gateway.url, KEY)
        assert len(voices) == len(VOICES)
        with pytest.raises(CommandError, match="401"):
            await asyncio.to_thread(voices_of_gateway, gateway.url, None)


@pytest.mark.parametrize("url", ["ws://127.0.0.1:9/antiphon/v1/speak", "ftp://127.0.0.1/", "127.0.0.1:8000", ""])
def test_what_is_no_gateway_is_named(url: str) -> None:
    with pytest.raises(CommandError):
        voices_of_gateway(url, None)


def test_the_table_lines_up_and_marks_the_default() -> None:
    shown = table([VoiceInfo("a", "Anna", "en", "calm"), VoiceInfo("bertram", "Bo", "de")], "bertram")
    assert shown.splitlines() == [
        "a                  Anna  en  calm",
        "bertram (default)  Bo    de",
    ]
    assert table([], "x") == ""
