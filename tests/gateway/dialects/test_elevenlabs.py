"""ElevenLabs' WebSockets, by transcripts of what the SDK, Pipecat and LiveKit really send."""

from __future__ import annotations

import io
from typing import Any

import pytest
import soundfile

from gateway.errors import ErrorCode, HandshakeError
from tests.fakes.talk import RATE_HZ, SAMPLES_PER_WORD
from tests.fakes.vendor_talk import VendorTalk, entry_named, facts, handshake, joined

WORD_BYTES = SAMPLES_PER_WORD * 2


def multi(**query: str) -> VendorTalk:
    return VendorTalk("elevenlabs multi", {"output_format": "pcm_24000", **query})


def pipecat_turn(context: str, *texts: str) -> list[dict[str, Any]]:
    return [
        {"text": " ", "context_id": context},
        *({"text": text, "context_id": context} for text in texts),
        {"context_id": context, "flush": True},
        {"context_id": context, "close_context": True},
    ]


def livekit_turn(context: str, *texts: str) -> list[dict[str, Any]]:
    return [
        {"text": " ", "voice_settings": {}, "context_id": context},
        *({"text": text, "context_id": context, "flush": True} for text in texts),
        {"text": "", "context_id": context, "flush": True},
        {"context_id": context, "close_context": True},
    ]


def characters(talk: VendorTalk, context: str) -> str:
    aligned = [frame["alignment"] for frame in talk.frames(contextId=context) if frame.get("alignment")]
    return "".join("".join(alignment["chars"]) for alignment in aligned)


# ---- stream-input ---------------------------------------------------------------------------------------------------


def test_the_sdks_stream_is_spoken_and_closed_with_1000() -> None:
    talk = VendorTalk("elevenlabs stream", {"output_format": "pcm_24000"})
    first = {"text": " ", "try_trigger_generation": True, "voice_settings": None,
             "generation_config": {"chunk_length_schedule": [50]}}  # fmt: skip
    talk.send(first, *({"text": text, "try_trigger_generation": True} for text in ("Hello ", "big  ", "world. ")))
    assert talk.close_code is None
    talk.send({"text": ""})
    assert talk.close_code == 1000
    assert len(joined(talk.got, "audio")) == 3 * WORD_BYTES
    assert [frame["isFinal"] for frame in talk.got].count(True) == 1
    assert talk.got[-1] == {"audio": None, "isFinal": True}


def test_a_number_that_the_sdks_splitter_has_cut_is_spoken_as_one() -> None:
    talk = VendorTalk("elevenlabs stream", {"output_format": "pcm_24000"})
    talk.send({"text": " "}, {"text": "is 1. "}, {"text": "5 "}, {"text": "dollars. "}, {"text": ""})
    assert "".join(frame["alignment"]["chars"][i] for frame in talk.got if frame.get("alignment")
                   for i in range(len(frame["alignment"]["chars"]))) == "is 1.5 dollars. "  # fmt: skip


def test_a_point_behind_a_digit_still_ends_a_sentence_when_a_word_follows() -> None:
    talk = VendorTalk("elevenlabs stream", {"output_format": "pcm_24000"})
    talk.send({"text": " "}, {"text": "It is 1. "}, {"text": "Then "}, {"text": "go. "}, {"text": ""})
    assert len(joined(talk.got, "audio")) == 5 * WORD_BYTES


def test_an_empty_stream_ends_at_once() -> None:
    talk = VendorTalk("elevenlabs stream", {"output_format": "pcm_24000"})
    assert talk.send({"text": " "}, {"text": ""}) == [{"audio": None, "isFinal": True}]
    assert talk.close_code == 1000


def test_a_blank_keeps_the_stream_alive_and_does_not_end_it() -> None:
    talk = VendorTalk("elevenlabs stream", {"output_format": "pcm_24000"})
    talk.send({"text": " "}, {"text": "Hello "})
    for _ in range(10):
        talk.wait(5.0)
        talk.send({"text": " "})
    assert not talk.frames(isFinal=True)


# ---- multi-stream-input: turns --------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [pipecat_turn, livekit_turn])
def test_a_turn_is_spoken_whole_and_ends_once_in_a_frame_of_its_own(turn: Any) -> None:
    talk = multi(auto_mode="true")
    talk.send(*turn("a", "Hello there.", "And more."))
    finals = talk.frames(isFinal=True)
    assert finals == [{"audio": None, "isFinal": True, "contextId": "a"}]
    assert talk.got[-1] == finals[0]
    assert len(joined(talk.got, "audio")) == 4 * WORD_BYTES
    assert characters(talk, "a") == "Hello there. And more. "


def test_tokens_are_appended_verbatim_where_messages_are_not_sentences() -> None:
    talk = multi(auto_mode="false")
    talk.send(*pipecat_turn("a", "Twenty", " dol", "lars", " please."))
    assert characters(talk, "a") == "Twenty dollars please. "


def test_every_frame_names_its_context_in_camel_case() -> None:
    talk = multi()
    talk.send(*pipecat_turn("a", "One."), *pipecat_turn("b", "Two."))
    assert {frame["contextId"] for frame in talk.got} == {"a", "b"}


@pytest.mark.parametrize("texts", [(), (" ",), ("\n",), ("...",), ("<break time='0s'/>",)])
def test_a_turn_with_nothing_to_say_ends(texts: tuple[str, ...]) -> None:
    talk = multi()
    talk.send(*pipecat_turn("a", *texts))
    assert len(talk.frames(isFinal=True, contextId="a")) == 1


@pytest.mark.parametrize(("output_format", "silence"), [("pcm_24000", bytes(960)), ("ulaw_8000", b"\xff" * 160)])
def test_a_text_with_nothing_to_speak_is_a_little_silence(output_format: str, silence: bytes) -> None:
    talk = multi(output_format=output_format)
    talk.send(*pipecat_turn("a", "..."))
    assert joined(talk.got, "audio") == silence


def test_contexts_that_live_at_once_have_lanes_of_their_own_and_turns_in_succession_share_one() -> None:
    talk = multi()
    talk.send({"text": "One.", "context_id": "a"}, {"text": "Two.", "context_id": "b"})
    talk.send({"context_id": "a", "flush": True}, {"context_id": "a", "close_context": True})
    talk.send({"text": "Three.", "context_id": "c"})
    assert [event.lane for event in talk.opened] == ["main", "side 1", "main"]


def test_keep_alives_open_nothing_and_end_nothing() -> None:
    talk = multi()
    assert talk.send({"text": ""}, {"text": "", "context_id": "a"}) == []
    talk.send({"text": "Hello", "context_id": "a"})
    for _ in range(12):  # ten seconds apart, beyond the idle time of an utterance
        talk.wait(5.0)
        talk.send({"text": "", "context_id": "a"})
    assert not talk.frames(isFinal=True)


# ---- interruption ---------------------------------------------------------------------------------------------------


def test_a_close_right_behind_a_text_is_a_barge_in() -> None:
    talk = multi()
    talk.is_engine_held = True
    talk.send({"text": " ", "context_id": "a"}, {"text": "A long story.", "context_id": "a"})
    assert talk.send({"context_id": "a", "close_context": True}) == [{"audio": None, "isFinal": True, "contextId": "a"}]
    assert talk.speak() == []


def test_a_second_close_while_the_tail_is_spoken_is_a_barge_in() -> None:
    talk = multi()
    talk.is_engine_held = True
    talk.send(*pipecat_turn("a", "A long story."))
    assert talk.got == []
    assert talk.send({"context_id": "a", "close_context": True}) == [{"audio": None, "isFinal": True, "contextId": "a"}]
    assert talk.speak() == []


def test_an_interruption_stops_its_own_context_alone() -> None:
    talk = multi()
    talk.is_engine_held = True
    talk.send({"text": "One.", "context_id": "a"}, {"text": "Two.", "context_id": "b"})
    talk.send({"context_id": "a", "close_context": True})
    talk.is_engine_held = False
    talk.send({"context_id": "b", "flush": True}, {"context_id": "b", "close_context": True})
    assert characters(talk, "b") == "Two. "
    assert characters(talk, "a") == ""
    assert [frame["contextId"] for frame in talk.frames(isFinal=True)] == ["a", "b"]


def test_late_messages_for_a_context_that_is_over_are_ignored() -> None:
    talk = multi()
    talk.send(*pipecat_turn("a", "Hello."))
    assert talk.send(
        {"text": "more", "context_id": "a"},
        {"context_id": "a", "flush": True},
        {"context_id": "a", "close_context": True},
        {"context_id": "never", "close_context": True},
    ) == []  # fmt: skip


def test_an_id_may_be_opened_again() -> None:
    talk = multi()
    talk.send(*pipecat_turn("a", "Hello."), *pipecat_turn("a", "Again."))
    assert characters(talk, "a") == "Hello. Again. "
    assert len(talk.frames(isFinal=True)) == 2


def test_close_socket_finishes_what_is_open_and_closes() -> None:
    talk = multi()
    talk.send({"text": "Hello there", "context_id": "a"}, {"close_socket": True})
    assert talk.close_code == 1000
    assert characters(talk, "a") == "Hello there "
    assert len(talk.frames(isFinal=True)) == 1


# ---- alignment ------------------------------------------------------------------------------------------------------


def test_times_count_from_the_context_where_the_client_asks_for_sync_alignment() -> None:
    talk = multi(sync_alignment="true", auto_mode="true")
    talk.send(*livekit_turn("a", "One two.", "Three."))
    starts = [frame["normalizedAlignment"]["charStartTimesMs"][0] for frame in talk.got if frame.get("alignment")]
    assert starts == [0, 1000]


def test_times_start_anew_with_each_message_otherwise() -> None:
    """Pipecat adds up the ends of all messages before."""
    talk = multi(auto_mode="true")
    talk.send(*pipecat_turn("a", "One two.", "Three four five."))
    clock, ends = 0, []
    for frame in talk.got:
        if alignment := frame.get("alignment"):
            assert alignment["charStartTimesMs"][0] == 0
            clock += alignment["charStartTimesMs"][-1] + alignment["charDurationsMs"][-1]
            ends.append(clock)
    assert ends == [1000, 2500]


def test_alignment_is_complete_at_a_space_and_never_overlaps() -> None:
    talk = multi(auto_mode="true", sync_alignment="true")
    talk.send(*livekit_turn("a", "It costs $5, he said!", "Really?"))
    last_ms = 0
    for frame in talk.got:
        if alignment := frame.get("alignment"):
            assert alignment["chars"][-1] == " "
            assert len(alignment["chars"]) == len(alignment["charStartTimesMs"]) == len(alignment["charDurationsMs"])
            for start, duration in zip(alignment["charStartTimesMs"], alignment["charDurationsMs"], strict=True):
                assert start >= last_ms
                last_ms = start + duration
    assert last_ms <= len(joined(talk.got, "audio")) * 1000 / 2 / RATE_HZ
    assert characters(talk, "a") == "It costs $5, he said! Really? "


# ---- formats and settings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("output_format", "size"), [("ulaw_8000", 4000), ("alaw_8000", 4000), ("pcm_16000", 16000)])
def test_raw_formats_have_their_own_sizes(output_format: str, size: int) -> None:
    talk = multi(output_format=output_format)
    talk.send(*pipecat_turn("a", "Hello."))
    assert len(joined(talk.got, "audio")) == size


def test_mp3_as_livekit_asks_for_it_by_default_is_a_whole_file() -> None:
    talk = multi(output_format="mp3_22050_32")
    talk.send(*livekit_turn("a", "Hello there, my friend."))
    samples, rate_hz = soundfile.read(io.BytesIO(joined(talk.got, "audio")))
    assert rate_hz == 22050
    assert len(samples) >= 4 * 22050 // 2


@pytest.mark.parametrize("output_format", ["pcm_24001", "pcm", "midi_1", "opus_44100", "pcm_" + "9" * 40])
def test_a_format_that_cannot_be_had_is_refused_before_the_upgrade(output_format: str) -> None:
    with pytest.raises(HandshakeError) as refused:
        entry_named("elevenlabs multi").make(
            handshake(query={"output_format": output_format}, voice_id="alto"), facts()
        )
    assert refused.value.status == 400


def test_speed_is_used_and_the_dictionary_is_warned_about() -> None:
    talk = multi()
    talk.send({"text": " ", "context_id": "a", "voice_settings": {"stability": 0.5, "speed": 1.1}})
    assert talk.opened[0].options.speed == 1.1
    talk.send({"text": " ", "context_id": "b", "pronunciation_dictionary_locators": [{"id": "x"}]})
    assert talk.warnings() == [("parameter_ignored", "pronunciation_dictionary_locators")]


def test_an_unknown_voice_is_the_default_or_refused_by_setting() -> None:
    talk = VendorTalk("elevenlabs multi", {"output_format": "pcm_24000"}, path_params={"voice_id": "hpp4J3VqNfWAUO"})
    talk.send({"text": "Hi.", "context_id": "a"})
    assert talk.opened[0].options.voice is None
    assert talk.warnings() == [("voice_substituted", "hpp4J3VqNfWAUO")]
    mapped = facts(voices={"hpp4": "bass"})
    talk = VendorTalk("elevenlabs multi", {"output_format": "pcm_24000"}, mapped, path_params={"voice_id": "hpp4"})
    talk.send({"text": "Hi.", "context_id": "a"})
    assert talk.opened[0].options.voice == "bass"
    with pytest.raises(HandshakeError) as refused:
        entry_named("elevenlabs multi").make(handshake(voice_id="nobody"), facts(unknown="error"))
    assert (refused.value.status, refused.value.code) == (404, ErrorCode.VOICE_NOT_FOUND)


def test_a_text_over_the_limit_is_an_error_of_its_context_which_still_ends() -> None:
    talk = multi()
    talk.send({"text": "Hello.", "context_id": "a"}, {"text": "x" * 2000, "context_id": "a"})
    error = talk.frames(contextId="a", error="text_too_long")[0]
    assert "at most 1,000" in error["message"]
    talk.send({"context_id": "a", "flush": True}, {"context_id": "a", "close_context": True})
    assert len(talk.frames(isFinal=True)) == 1


def test_too_many_contexts_are_refused_with_an_end() -> None:
    talk = multi()
    for number in range(6):
        talk.send({"text": "Hello", "context_id": f"c{number}"})
    refused = talk.frames(error="max_active_conversations")
    assert {frame["contextId"] for frame in refused} == {"c4", "c5"}
    assert all(frame["isFinal"] for frame in refused)


@pytest.mark.parametrize("name", ["elevenlabs stream", "elevenlabs multi"])
def test_a_file_that_can_only_leave_whole_is_refused_on_a_socket(name: str) -> None:
    with pytest.raises(HandshakeError, match="for HTTP alone") as refused:
        VendorTalk(name, {"output_format": "wav_24000"})
    assert refused.value.status == 400
