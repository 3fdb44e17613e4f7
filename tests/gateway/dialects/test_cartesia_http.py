"""Cartesia over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects import cartesia_http
from gateway.dialects.base import Handshake
from gateway.dialects.http_speech import HttpSpeechDialect
from gateway.errors import ClientError
from gateway.events import Audio, Done, TextFragment, UtteranceMetrics, Word, Words
from tests.fakes.vendor_talk import facts

SOUND = Audio("speech", 0, 0, 2400, b"\1\0" * 2400, 24000)
WORDS = Words("speech", (Word("Hi", 0, 2, 0, 240, "."),), 24000)
DONE = Done("speech", "complete", 2400, 24000, 3, UtteranceMetrics(0.0, None, 0.0, 1))


def ask(path: str, **body: Any) -> tuple[HttpSpeechDialect, list[Any]]:
    dialect = HttpSpeechDialect(
        Handshake(path, {}, {}, {}, ()), facts(), cartesia_http.read_order, cartesia_http.error_body
    )
    return dialect, dialect.receive(json.dumps({"transcript": "Hi.", **body}))


def answer(dialect: HttpSpeechDialect) -> bytes:
    return b"".join(
        piece for event in (WORDS, SOUND, DONE) for piece in dialect.send(event) if isinstance(piece, bytes)
    )


def test_bytes_are_raw_or_a_file() -> None:
    assert answer(ask("/tts/bytes")[0]) == SOUND.payload
    wav = answer(ask("/tts/bytes", output_format={"container": "wav", "sample_rate": 24000})[0])
    assert wav.startswith(b"RIFF")
    assert wav.endswith(SOUND.payload)


@pytest.mark.parametrize(("asked", "kinds"), [(True, ["timestamps", "chunk", "done"]), (False, ["chunk", "done"])])
def test_events_are_the_websockets_frames(asked: bool, kinds: list[str]) -> None:
    dialect, _ = ask("/tts/sse", add_timestamps=asked, context_id="c")
    events = [event.split(b"\ndata: ") for event in answer(dialect).split(b"\n\n") if event]
    assert [name.removeprefix(b"event: ").decode() for name, _ in events] == kinds
    assert {json.loads(data)["context_id"] for _, data in events} == {"c"}


def test_settings_stand_before_the_text_as_tags() -> None:
    _, events = ask("/tts/bytes", generation_config={"emotion": "sad"})
    assert [event.text for event in events if isinstance(event, TextFragment)] == ["<|emotion:sad|>Hi."]


def test_events_carry_raw_audio_only() -> None:
    with pytest.raises(ClientError):
        ask("/tts/sse", output_format={"container": "mp3"})
