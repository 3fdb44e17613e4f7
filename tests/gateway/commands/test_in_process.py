"""A gateway for one command: what it lifts, what it finds on this machine, and how it fails.

That it speaks as every gateway does is tested beside the speakers (`test_speakers.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.config import EngineSettings
from engine.engine import LocalEngine
from engine.errors import ModelLoadError
from engine.voice_store import VoiceUpload
from gateway.app import make_service
from gateway.commands.in_process import engine_speaker
from gateway.commands.outcome import CommandError
from gateway.commands.speakers import SayOptions, gateway_speaker
from gateway.config import load_config
from gateway.service import Service
from tests.engine.test_voice_audio import packed, speech
from tests.fakes.cloning_model import CloningFakeModel
from tests.fakes.fake_model import WholeFramesModel
from tests.fakes.gateway import running_gateway
from tests.gateway.commands.test_speakers import PCM, SEEDED, TEXT, arriving, local, spoken


async def test_a_book_is_spoken_whole_in_this_process_and_refused_by_a_gateway_with_a_limit() -> None:
    book = TEXT * 4
    settings = {"limits": {"utterance_chars": len(book) - 1}}
    engine = LocalEngine(WholeFramesModel(), EngineSettings())
    async with engine_speaker(lambda: make_service(load_config(None, {}, settings), engine), is_played=False) as here:
        audio, _ = await spoken(here, arriving(book, 50))
    assert audio
    async with (
        running_gateway(settings=settings) as gateway,
        gateway_speaker(gateway.url, None, is_played=False) as there,
    ):
        with pytest.raises(CommandError, match="text_too_long"):
            await spoken(there, arriving(book, 50))


async def test_a_text_may_pause_for_longer_than_a_gateway_would_wait() -> None:
    settings = {"limits": {"utterance_idle_s": 0.02, "idle_s": 0.02}}
    is_heard = asyncio.Event()

    async def pauses() -> AsyncIterator[str]:
        yield "The first part. "
        await is_heard.wait()
        await asyncio.sleep(10 * 0.02)
        yield "The rest."

    engine = LocalEngine(WholeFramesModel(), EngineSettings())
    async with engine_speaker(lambda: make_service(load_config(None, {}, settings), engine), is_played=False) as here:
        async for _ in here.speak(pauses(), PCM, SEEDED, lambda _: None):
            is_heard.set()


async def test_a_voice_that_was_cloned_on_this_machine_can_be_asked_for(tmp_path: Path) -> None:
    model = CloningFakeModel(tmp_path)
    assert model.voices is not None
    voice = model.voices.add(VoiceUpload(packed(speech(3.0)), "Ada", None, "I am the speaker.", "Hello."))
    async with local(model) as here:
        audio, _ = await spoken(here, arriving(TEXT), options=SayOptions(voice=voice.id))
    assert audio


async def test_a_model_that_cannot_be_loaded_is_a_command_error() -> None:
    def load() -> Service:
        raise ModelLoadError("no weights here")

    with pytest.raises(CommandError, match="no weights here"):
        async with engine_speaker(load, is_played=False):
            pass
