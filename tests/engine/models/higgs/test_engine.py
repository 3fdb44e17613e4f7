"""The real engine loop with the real model on its own thread: streams, barge-in, cloned voices."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from engine import EngineSettings, LocalEngine  # noqa: E402
from engine.errors import VoiceNotFoundError  # noqa: E402
from engine.models import load_model  # noqa: E402
from engine.models.higgs.config import HiggsSettings  # noqa: E402
from engine.models.higgs.model import HiggsModel  # noqa: E402
from engine.speech import AudioChunk, Segment, SpeechRequest  # noqa: E402
from engine.speech_model import CloningModel, SpeechModel  # noqa: E402
from engine.voice_store import VoiceUpload  # noqa: E402
from tests.engine.test_voice_audio import packed, speech  # noqa: E402

SETTINGS = HiggsSettings(max_sequences=4, max_decode_batch=4, max_context_tokens=512, max_block_rows=40)


def segment(text: str, start: int = 0) -> Segment:
    return Segment.verbatim(text, "sentence", start)


async def speak(engine: LocalEngine, lane_number: int, voice: str = "default") -> list[AudioChunk]:
    session = engine.open_session(f"session {lane_number}")
    stream = session.open_stream(SpeechRequest(voice, lane_number))
    stream.feed(segment("Hello there."))
    stream.feed(segment(" And again.", 12))
    stream.finish()
    chunks = [chunk async for chunk in stream]
    session.close()
    return chunks


async def test_streams_of_many_sessions_are_spoken_whole_and_contiguous(tiny_folder: Path) -> None:
    engine = LocalEngine(HiggsModel.load(tiny_folder, SETTINGS), EngineSettings())
    await engine.start()
    everyone = await asyncio.gather(*(speak(engine, number) for number in range(6)))
    await engine.close()
    for chunks in everyone:
        place = 0
        for chunk in chunks:
            assert chunk.start_sample == place
            assert chunk.pcm.dtype == np.float32
            place += len(chunk.pcm)
        assert place > 0
        assert sum(chunk.is_segment_end for chunk in chunks) == 2
        assert [chunk.is_final for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


async def test_after_a_barge_in_the_lane_speaks_on(tiny_folder: Path) -> None:
    engine = LocalEngine(HiggsModel.load(tiny_folder, SETTINGS), EngineSettings())
    await engine.start()
    session = engine.open_session("one")
    first = session.open_stream(SpeechRequest("default", 1))
    first.feed(segment("Hello there, my friend."))
    async for chunk in first:
        first.cancel(len(chunk.pcm) // 2, 5)
        break
    second = session.open_stream(SpeechRequest("default", 2))
    second.feed(segment("And now this."))
    second.finish()
    chunks = [chunk async for chunk in second]
    await engine.close()
    assert chunks[0].start_sample == 0
    assert chunks[-1].is_final


async def test_streamed_text_is_heard_while_it_is_being_written(tiny_folder: Path) -> None:
    settings = replace(SETTINGS, is_token_streaming=True, max_block_rows=400, max_context_tokens=1000)
    engine = LocalEngine(HiggsModel.load(tiny_folder, settings), EngineSettings())
    assert engine.info.text_unit == "word"
    await engine.start()
    stream = engine.open_session("one").open_stream(SpeechRequest("default", 1))
    chunks = []
    written = ["It", " speaks", " before", " it", " is", " over."]
    for word, start in zip(written, accumulate([0, *map(len, written)]), strict=False):
        stream.feed(segment(word, start))
    async for chunk in stream:
        if not chunks:  # no end has been told, and there is sound
            stream.finish()
        chunks.append(chunk)
    await engine.close()
    assert sum(chunk.is_segment_end for chunk in chunks) == len(written)
    assert chunks[-1].is_final
    assert len(chunks[0].pcm) > 0


async def test_a_cloned_voice_speaks_and_a_deleted_one_does_not(tiny_folder: Path, tmp_path: Path) -> None:
    model: SpeechModel = load_model("higgs", checkpoint=str(tiny_folder), voices=tmp_path)
    assert isinstance(model, CloningModel)
    assert model.voices is not None
    voice = model.voices.add(VoiceUpload(packed(speech(3.0)), "Ada", "key", "I am the speaker."))
    engine = LocalEngine(model, EngineSettings())
    await engine.start()
    session = engine.open_session("one")
    stream = session.open_stream(SpeechRequest(voice.id, 1))
    stream.feed(segment("Hi."))
    async for chunk in stream:
        assert len(chunk.pcm)
        break
    stream.cancel(0, 0)
    model.voices.delete(voice.id, "key")
    with pytest.raises(VoiceNotFoundError):
        session.open_stream(SpeechRequest(voice.id, 1))
    await engine.close()
