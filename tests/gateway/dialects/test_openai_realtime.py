"""OpenAI's `/v1/realtime`, text in and audio out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.dialects.openai_realtime import MAX_ITEMS, OpenAiRealtimeDialect
from tests.fakes.talk import SAMPLES_PER_WORD
from tests.fakes.vendor_talk import VendorTalk, facts, joined

WORD_BYTES = SAMPLES_PER_WORD * 2


def realtime(*, is_engine_held: bool = False) -> VendorTalk:
    return VendorTalk("openai realtime", {"model": "gpt-realtime"}, is_engine_held=is_engine_held)


def item(text: str, role: str = "user") -> dict[str, Any]:
    part = "output_text" if role == "assistant" else "input_text"
    message = {"type": "message", "role": role, "content": [{"type": part, "text": text}]}
    return {"type": "conversation.item.create", "item": message}


def create(**response: Any) -> dict[str, Any]:
    return {"type": "response.create", "response": response}


def test_a_whole_conversation() -> None:
    talk = realtime()
    update = {"type": "session.update", "session": {"type": "realtime", "audio": {"output": {"voice": "bass"}}}}
    talk.send(update, item("Hello dear friend."), create())
    assert talk.kinds() == [
        "session.created",
        "session.updated",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
    ]
    assert len({frame["event_id"] for frame in talk.got}) == len(talk.got)
    assert talk.got[-1]["response"]["status"] == "completed"
    assert len(joined(talk.frames(type="response.output_audio.delta"), "delta")) == 3 * WORD_BYTES
    deltas = "".join(frame["delta"] for frame in talk.frames(type="response.output_audio_transcript.delta"))
    assert deltas == "Hello dear friend."
    assert talk.opened[0].options.voice == "bass"


def test_a_response_speaks_its_input_before_its_instructions_before_the_conversation() -> None:
    talk = realtime()
    talk.send(item("Conversation."), create(instructions="Instructions."))
    given = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Input."}]}]
    talk.send(create(instructions="Instructions.", input=given, conversation="none"), create())
    spoken = [frame["transcript"] for frame in talk.frames(type="response.output_audio_transcript.done")]
    assert spoken == ["Instructions.", "Input.", "Conversation."]


def test_what_was_spoken_is_not_spoken_again() -> None:
    talk = realtime()
    talk.send(item("Hello."), create(), item("Bye."), create())
    spoken = [frame["transcript"] for frame in talk.frames(type="response.output_audio_transcript.done")]
    assert spoken == ["Hello.", "Bye."]


def test_a_cancelled_response_is_done_and_nothing_follows() -> None:
    talk = realtime(is_engine_held=True)
    talk.send(item("A long story."), create())
    got = talk.send({"type": "response.cancel"})
    assert got[-1]["type"] == "response.done"
    assert got[-1]["response"]["status"] == "cancelled"
    assert talk.speak() == []


def test_cancel_with_nothing_spoken_and_a_second_response_are_refused_with_their_codes() -> None:
    talk = realtime(is_engine_held=True)
    (refusal,) = talk.send({"type": "response.cancel"})
    assert refusal["error"]["code"] == "response_cancel_not_active"
    talk.send(item("A long story."), create())
    (refusal,) = talk.send(create())
    assert refusal["error"]["code"] == "conversation_already_has_active_response"


def test_a_truncation_is_answered_and_cuts_what_the_context_keeps() -> None:
    talk = realtime()
    talk.send(item("One two three."), create())
    item_id = talk.frames(type="response.output_item.done")[0]["item"]["id"]
    message = {"type": "conversation.item.truncate", "item_id": item_id, "content_index": 0, "audio_end_ms": 500}
    (answer,) = talk.send(message)
    assert (answer["type"], answer["audio_end_ms"]) == ("conversation.item.truncated", 500)


def test_audio_input_is_an_error_that_does_not_end_the_session() -> None:
    talk = realtime()
    (error,) = talk.send({"type": "input_audio_buffer.append", "audio": "AAAA"})
    assert error["type"] == "error"
    talk.send(item("Hello."), create())
    assert talk.got[-1]["type"] == "response.done"


def test_a_response_with_nothing_to_say_is_done() -> None:
    talk = realtime()
    talk.send(create())
    assert talk.got[-1]["response"]["status"] == "completed"


def test_g711_at_8_khz() -> None:
    talk = realtime()
    talk.send(item("Hello."), create(audio={"output": {"format": {"type": "audio/pcmu"}}}))
    assert len(joined(talk.frames(type="response.output_audio.delta"), "delta")) == 4000


def test_the_conversation_is_bounded_in_characters_and_keeps_its_last_message() -> None:
    limits = replace(facts().limits, utterance_chars=100_000, message_bytes=1024 * 1024)
    talk = VendorTalk("openai realtime", server=replace(facts(), limits=limits))
    for number in range(6):
        content = [{"type": "input_text", "text": str(number) * 90_000}]
        talk.send({"type": "conversation.item.create", "item": {"id": f"i{number}", "content": content}})
    assert isinstance(talk.dialect, OpenAiRealtimeDialect)
    assert list(talk.dialect._items) == ["i4", "i5"]
    long = [{"type": "input_text", "text": "x" * 100_001}]
    talk.send({"type": "conversation.item.create", "item": {"id": "i6", "content": long}})
    assert "at most 100,000" in talk.frames(type="error")[-1]["error"]["message"]
    assert "i6" not in talk.dialect._items


def test_items_spoken_count_too() -> None:
    talk = realtime()
    for _ in range(MAX_ITEMS + 10):
        talk.send({"type": "response.create", "response": {"instructions": "Hi."}})
    assert isinstance(talk.dialect, OpenAiRealtimeDialect)
    assert len(talk.dialect._items) == MAX_ITEMS


def test_notes_come_back_as_the_strings_they_are() -> None:
    talk = realtime()
    talk.send(create(instructions="Hi.", metadata={"topic": "weather", "n": 1, "deep": {"a": float("nan")}}))
    assert talk.frames(type="response.done")[0]["response"]["metadata"] == {"topic": "weather"}
    talk.send(create(instructions="Hi.", metadata="none"))
    assert talk.frames(type="response.done")[1]["response"]["metadata"] is None
