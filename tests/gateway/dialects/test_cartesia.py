"""Cartesia's WebSocket, by transcripts of what the SDK, Pipecat and LiveKit really send."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.talk import SAMPLES_PER_WORD
from tests.fakes.vendor_talk import VendorTalk, facts, joined

WORD_BYTES = SAMPLES_PER_WORD * 2
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}


def request(context: str, transcript: str, *, goes_on: bool = True, **fields: Any) -> dict[str, Any]:
    return {
        "context_id": context,
        "model_id": "sonic-3",
        "transcript": transcript,
        "continue": goes_on,
        "voice": {"mode": "id", "id": "alto"},
        "output_format": RAW,
        "language": "en",
        "add_timestamps": True,
        **fields,
    }


def words(talk: VendorTalk, context: str) -> list[str]:
    frames = talk.frames(type="timestamps", context_id=context)
    return [word for frame in frames for word in frame["word_timestamps"]["words"]]


def test_pipecats_sentences_are_spoken_with_a_space_between_and_end_with_one_done() -> None:
    talk = VendorTalk("cartesia")
    talk.send(
        request("a", "It costs $5.", max_buffer_delay_ms=0),
        request("a", "Really?", max_buffer_delay_ms=0),
        request("a", "", goes_on=False),
    )
    assert talk.kinds() == ["timestamps", "chunk", "timestamps", "chunk", "done"]
    assert talk.got[-1] == {"type": "done", "done": True, "status_code": 200, "context_id": "a"}
    assert words(talk, "a") == ["It", "costs", "$5.", "Really?"]
    assert len(joined(talk.got, "data")) == 4 * WORD_BYTES


def test_livekits_turn_ends_with_a_blank() -> None:
    talk = VendorTalk("cartesia")
    talk.send(request("a", "Hello there. ", max_buffer_delay_ms=0), request("a", " ", goes_on=False))
    assert [frame["type"] for frame in talk.got][-1] == "done"
    assert words(talk, "a") == ["Hello", "there."]


def test_the_sdks_fragments_are_appended_verbatim() -> None:
    talk = VendorTalk("cartesia")
    talk.send(*(request("a", text) for text in ("Twen", "ty dol", "lars.")), request("a", "", goes_on=False))
    assert words(talk, "a") == ["Twenty", "dollars."]


def test_times_are_seconds_from_the_contexts_start() -> None:
    talk = VendorTalk("cartesia")
    talk.send(request("a", "One two. ", max_buffer_delay_ms=0), request("a", "Three.", goes_on=False))
    starts = [start for frame in talk.frames(type="timestamps") for start in frame["word_timestamps"]["start"]]
    assert starts == [0.0, 0.5, 1.0]


def test_words_come_only_where_they_were_asked_for() -> None:
    talk = VendorTalk("cartesia")
    talk.send(request("a", "Hello.", goes_on=False, add_timestamps=False))
    assert talk.kinds() == ["chunk", "done"]


def test_a_transcript_with_nothing_to_speak_is_a_little_silence() -> None:
    talk = VendorTalk("cartesia")
    talk.send(request("a", "...", goes_on=False))
    assert talk.kinds() == ["chunk", "done"]
    assert joined(talk.got, "data") == bytes(960)


@pytest.mark.parametrize("transcript", ["", " ", "\n"])
def test_a_turn_with_nothing_to_say_is_done(transcript: str) -> None:
    talk = VendorTalk("cartesia")
    talk.send(request("a", transcript, goes_on=False))
    assert talk.kinds() == ["done"]


def test_every_frame_names_its_context_and_data_never_comes_with_done() -> None:
    talk = VendorTalk("cartesia")
    talk.send(request("a", "One. "), request("b", "Two."), request("a", "", goes_on=False))
    talk.send(request("b", "", goes_on=False), {"context_id": "c", "continue": 7}, "{")
    assert all("context_id" in frame for frame in talk.got)
    assert not [frame for frame in talk.got if frame.get("data") and frame["done"]]
    assert sorted(frame["context_id"] for frame in talk.frames(type="done")) == ["a", "b"]


def test_a_cancel_without_any_other_field_stops_and_is_done() -> None:
    talk = VendorTalk("cartesia", is_engine_held=True)
    talk.send(request("a", "A long story. ", max_buffer_delay_ms=0))
    assert [frame["type"] for frame in talk.send({"context_id": "a", "cancel": True})] == ["done"]
    assert talk.speak() == []
    assert talk.send(request("a", "late text"), {"context_id": "a", "cancel": True}) == []


def test_a_finished_id_may_be_used_again() -> None:
    talk = VendorTalk("cartesia")
    talk.send(request("a", "One.", goes_on=False), request("a", "Two.", goes_on=False))
    assert len(talk.frames(type="done")) == 2
    assert words(talk, "a") == ["One.", "Two."]


def test_a_manual_flush_is_numbered_and_answered_behind_its_audio() -> None:
    talk = VendorTalk("cartesia")
    talk.send(request("a", "One two"), request("a", "", flush=True), request("a", " three.", goes_on=False))
    assert talk.kinds() == ["timestamps", "chunk", "flush_done", "timestamps", "chunk", "done"]
    assert talk.frames(type="flush_done")[0]["flush_id"] == 1


def test_an_error_has_done_false_and_then_its_context_is_done() -> None:
    talk = VendorTalk("cartesia", changes={"limits": facts().limits})
    for number in range(5):
        talk.send(request(f"c{number}", "Hello"))
    assert [(frame["type"], frame["done"]) for frame in talk.frames(context_id="c4")] == [
        ("error", False),
        ("done", True),
    ]
    assert talk.frames(type="error")[0]["status_code"] == 429


def test_a_text_over_the_limit_does_not_take_the_turns_end_with_it() -> None:
    talk = VendorTalk("cartesia")
    talk.send(request("a", "Hello. "), request("a", "x" * 2000, goes_on=False))
    assert talk.frames(type="error", error_code="transcript_too_long")
    assert len(talk.frames(type="done")) == 1


@pytest.mark.parametrize(
    ("encoding", "rate_hz", "size"), [("pcm_f32le", 44100, 88200), ("pcm_mulaw", 8000, 4000), ("pcm_alaw", 8000, 4000)]
)
def test_encodings_have_their_own_sizes(encoding: str, rate_hz: int, size: int) -> None:
    talk = VendorTalk("cartesia")
    talk.send(
        request("a", "Hello.", goes_on=False, output_format={**RAW, "encoding": encoding, "sample_rate": rate_hz})
    )
    assert len(joined(talk.got, "data")) == size


@pytest.mark.parametrize("voice", [{"mode": "id", "id": "bass"}, {"id": "bass"}, "bass"])
def test_a_voice_may_be_written_in_three_ways(voice: Any) -> None:
    talk = VendorTalk("cartesia")
    talk.send(request("a", "Hello.", voice=voice))
    assert talk.opened[0].options.voice == "bass"


def test_an_embedding_names_no_voice() -> None:
    talk = VendorTalk("cartesia")
    talk.send(request("a", "Hello.", voice={"mode": "embedding", "embedding": [0.1, 0.2]}, goes_on=False))
    assert talk.opened[0].options.voice is None
    assert talk.got[-1]["type"] == "done"


def test_speed_volume_and_emotion_are_put_into_our_words() -> None:
    talk = VendorTalk("cartesia")
    config = {"speed": 1.2, "volume": 0.8, "emotion": "Excited"}
    talk.send(request("a", "Hello.", generation_config=config, goes_on=False))
    assert talk.opened[0].options.speed == 1.2
    assert {"tag_unsupported"} >= {code for code, _ in talk.warnings() if code.startswith("tag")} - {"tag_approximated"}
    assert words(talk, "a") == ["Hello."]


@pytest.mark.parametrize(
    "output_format", [{**RAW, "container": "wav"}, {**RAW, "encoding": "opus"}, {**RAW, "sample_rate": 12345}]
)
def test_a_format_that_cannot_be_had_is_an_error_of_the_context(output_format: dict[str, Any]) -> None:
    talk = VendorTalk("cartesia")
    talk.send(request("a", "Hello.", output_format=output_format))
    assert [(frame["type"], frame["error_code"], frame["context_id"]) for frame in talk.got] == [
        ("error", "output_format_unsupported", "a")
    ]


def test_a_dictionarys_id_is_warned_about_once() -> None:
    talk = VendorTalk("cartesia")
    talk.send(*(request(context, "Hello.", pronunciation_dict_id="d") for context in "ab"))
    assert talk.warnings().count(("parameter_ignored", "pronunciation_dict_id")) == 1
