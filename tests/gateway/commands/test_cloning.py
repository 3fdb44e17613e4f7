"""Cloning from the command line, through a gateway and in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.config import EngineSettings
from engine.engine import LocalEngine
from gateway.commands.cloning import (
    NewVoice,
    add_at_gateway,
    add_to_engine,
    delete_at_gateway,
    delete_from_engine,
)
from gateway.commands.outcome import CommandError
from gateway.commands.voices import voices_of_gateway
from tests.engine.test_voice_audio import packed, speech
from tests.fakes.cloning_model import CloningFakeModel
from tests.fakes.fake_model import WholeFramesModel
from tests.fakes.gateway import running_gateway

KEY = "a-key-of-sixteen-characters"


@pytest.fixture
def voice(tmp_path: Path) -> NewVoice:
    (tmp_path / "ada.wav").write_bytes(packed(speech(3.0)))
    return NewVoice(tmp_path / "ada.wav", "Ada", "I am the speaker.", "Hello.", "en")


async def test_a_voice_is_added_listed_and_deleted_at_a_gateway(tmp_path: Path, voice: NewVoice) -> None:
    model = CloningFakeModel(tmp_path / "voices")
    async with running_gateway(model, {"keys": {"ada": KEY}}) as gateway:
        voice_id, remarks = await asyncio.to_thread(add_at_gateway, gateway.url, KEY, voice)
        assert remarks == ()
        voices, _ = await asyncio.to_thread(voices_of_gateway, gateway.url, KEY)
        assert ("Ada", "en") in [(known.name, known.language) for known in voices if known.id == voice_id]
        await asyncio.to_thread(delete_at_gateway, gateway.url, KEY, voice_id)
        with pytest.raises(CommandError, match="404"):
            await asyncio.to_thread(delete_at_gateway, gateway.url, KEY, voice_id)


async def test_what_the_gateway_finds_wrong_is_said(tmp_path: Path, voice: NewVoice) -> None:
    nameless = NewVoice(voice.recording, " ", voice.consent, None, None)
    async with running_gateway(CloningFakeModel(tmp_path / "voices")) as gateway:
        with pytest.raises(CommandError, match="name"):
            await asyncio.to_thread(add_at_gateway, gateway.url, None, nameless)
    async with running_gateway() as gateway:
        with pytest.raises(CommandError, match="cannot clone"):
            await asyncio.to_thread(add_at_gateway, gateway.url, None, voice)


def test_a_voice_is_added_and_deleted_in_this_process(tmp_path: Path, voice: NewVoice) -> None:
    engine = LocalEngine(CloningFakeModel(tmp_path / "voices"), EngineSettings())
    voice_id, _ = add_to_engine(engine, voice)
    assert engine.voices is not None
    assert [known.id for known in engine.voices.shared()] == [voice_id]
    delete_from_engine(engine, voice_id)
    with pytest.raises(CommandError):
        delete_from_engine(engine, voice_id)


def test_a_model_that_cannot_clone_and_a_file_that_is_not_there_are_named(tmp_path: Path, voice: NewVoice) -> None:
    with pytest.raises(CommandError, match="cannot clone"):
        add_to_engine(LocalEngine(WholeFramesModel(), EngineSettings()), voice)
    gone = NewVoice(tmp_path / "gone.wav", "Ada", "yes", None, None)
    with pytest.raises(CommandError, match="cannot be read"):
        add_to_engine(LocalEngine(CloningFakeModel(tmp_path / "v"), EngineSettings()), gone)
