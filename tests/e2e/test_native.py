"""The native dialect over a real socket and a whole gateway with a fake model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.fake_model import WholeFramesModel
from tests.fakes.gateway import Call, Peer, RunningGateway, running_gateway
from tests.fakes.streamed_model import StreamedRowsModel

TEXT = "Hello there, this is the first clause. And this is another sentence, spoken while it is written."


@pytest.fixture
async def gateway() -> AsyncIterator[RunningGateway]:
    async with running_gateway() as running:
        yield running


@pytest.fixture
async def unpaced(gateway: RunningGateway) -> AsyncIterator[Peer]:
    async with Call(gateway) as peer:
        await peer.send(type="config", max_ahead_ms=None)
        yield peer


def words_of(peer: Peer, utterance: str = "u") -> list[dict[str, Any]]:
    return [word for message in peer.of(utterance, "words") for word in message["words"]]


async def say(peer: Peer, utterance: str, text: str, **options: Any) -> dict[str, Any]:
    if options:
        await peer.send(type="open", utterance=utterance, **options)
    await peer.send(type="text", utterance=utterance, text=text)
    await peer.send(type="end", utterance=utterance)
    return await peer.until("done", utterance=utterance)


async def test_one_character_per_message_is_spoken_like_the_whole_text(unpaced: Peer) -> None:
    for character in TEXT:
        await unpaced.send(type="text", utterance="cut", text=character)
    await unpaced.send(type="end", utterance="cut")
    await unpaced.until("done", utterance="cut")
    await say(unpaced, "whole", TEXT)
    assert unpaced.audio("cut") == unpaced.audio("whole")
    assert len(unpaced.audio("whole")) > 0


async def test_audio_is_contiguous_flagged_and_as_long_as_done_says(unpaced: Peer) -> None:
    done = await say(unpaced, "u", TEXT)
    frames = unpaced.of("u", "audio")
    place = 0
    for frame in frames:
        assert frame["start_sample"] == place
        place += len(frame["data"]) // 2
        assert len(frame["data"]) <= 2 * 24000 // 5
    assert done["audio_samples"] == place
    assert done["audio_ms"] == pytest.approx(place / 24, abs=0.01)
    assert done["chars"] == len(TEXT)
    assert frames[0]["flags"] & 1
    assert [bool(frame["flags"] & 2) for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert sum(bool(frame["flags"] & 4) for frame in frames) == done["metrics"]["segments"]


async def test_seq_has_no_gap_over_json_and_binary_messages(unpaced: Peer) -> None:
    await say(unpaced, "u", TEXT)
    seqs = [message["seq"] for message in unpaced.received if message["type"] != "ready"]
    assert seqs == list(range(1, len(seqs) + 1))


async def test_words_are_the_input_verbatim_and_lie_inside_the_audio(unpaced: Peer) -> None:
    done = await say(unpaced, "u", TEXT)
    words = [word for message in unpaced.of("u", "words") for word in message["words"]]
    assert [word["text"] for word in words] == [TEXT[word["start_char"] : word["end_char"]] for word in words]
    assert len(words) == len(TEXT.split())
    starts = [word["start_ms"] for word in words]
    assert starts == sorted(starts)
    assert all(word["end_ms"] <= done["audio_ms"] for word in words)


async def test_an_exact_word_comes_before_the_audio_that_holds_its_first_sample(unpaced: Peer) -> None:
    await say(unpaced, "u", TEXT)
    sent_ms = 0.0
    for message in unpaced.of("u"):
        if message["type"] == "words":
            assert all(word["start_ms"] >= sent_ms - 0.1 for word in message["words"])
        elif message["type"] == "audio":
            sent_ms = (message["start_sample"] + len(message["data"]) / 2) / 24


async def test_words_can_be_switched_off(unpaced: Peer) -> None:
    await say(unpaced, "u", TEXT, words=False)
    assert unpaced.of("u", "words") == []


async def test_msgpack_carries_the_same_conversation(gateway: RunningGateway, unpaced: Peer) -> None:
    await say(unpaced, "u", TEXT, seed=1)
    async with Call(gateway, "antiphon.v1.msgpack") as packed:
        assert packed.socket.subprotocol == "antiphon.v1.msgpack"
        await packed.send(type="config", max_ahead_ms=None)
        await say(packed, "u", TEXT, seed=1)
        assert packed.audio("u") == unpaced.audio("u")
        for kind in ("started", "done"):
            assert [set(message) for message in packed.of("u", kind)] == [
                set(message) for message in unpaced.of("u", kind)
            ]
        assert words_of(packed) == words_of(unpaced)


@pytest.mark.parametrize(
    ("name", "rate_hz", "sample_bytes"),
    [("pcm_s16le", 8000, 2), ("pcm_s16le", 48000, 2), ("pcm_f32le", 44100, 4), ("mulaw", 8000, 1), ("alaw", 8000, 1)],
)
async def test_every_format_has_exactly_the_resampled_length(
    unpaced: Peer, name: str, rate_hz: int, sample_bytes: int
) -> None:
    await say(unpaced, "native", TEXT)
    samples = len(unpaced.audio("native")) // 2
    done = await say(unpaced, "u", TEXT, format=name, sample_rate_hz=rate_hz)
    expected = (2 * samples * rate_hz + 24000) // 48000
    assert done["audio_samples"] == expected
    assert len(unpaced.audio("u")) == expected * sample_bytes
    assert unpaced.of("u", "started")[0]["sample_rate_hz"] == rate_hz


async def test_utterances_of_a_lane_are_heard_in_the_order_opened(unpaced: Peer) -> None:
    await unpaced.send(type="open", utterance="a")
    await unpaced.send(type="open", utterance="b")
    await unpaced.send(type="text", utterance="b", text="Second one.")
    await unpaced.send(type="end", utterance="b")
    await unpaced.send(type="text", utterance="a", text="First one.")
    await unpaced.send(type="end", utterance="a")
    await unpaced.until("done", utterance="b")
    order = [m["utterance"] for m in unpaced.received if m["type"] in ("started", "audio", "done")]
    assert order == sorted(order)


async def test_lanes_do_not_wait_for_each_other(unpaced: Peer) -> None:
    await unpaced.send(type="open", utterance="waiting")
    await unpaced.send(type="open", utterance="side", lane="side")
    await unpaced.send(type="text", utterance="side", text="On a lane of my own.")
    await unpaced.send(type="end", utterance="side")
    assert (await unpaced.until("done", utterance="side"))["audio_samples"] > 0


async def test_flush_is_answered_after_its_last_sample_and_at_once_when_nothing_is_pending(unpaced: Peer) -> None:
    await unpaced.send(type="text", utterance="u", text="No full stop here")
    await unpaced.send(type="flush", utterance="u", id="first")
    await unpaced.until("flushed", id="first")
    spoken = len(unpaced.audio("u"))
    assert spoken > 0
    await unpaced.send(type="flush", utterance="u", id=2)
    await unpaced.until("flushed", id=2)
    assert len(unpaced.audio("u")) == spoken


async def test_manual_segmentation_speaks_at_flush_and_end_only(unpaced: Peer) -> None:
    await unpaced.send(type="open", utterance="u", segmentation="manual")
    await unpaced.send(type="text", utterance="u", text="One sentence. Another sentence. ")
    await unpaced.send(type="ping", id=1)
    await unpaced.until("pong", id=1)
    await unpaced.send(type="flush", utterance="u")
    await unpaced.until("flushed")
    await unpaced.send(type="end", utterance="u")
    assert (await unpaced.until("done", utterance="u"))["metrics"]["segments"] == 1


@pytest.mark.parametrize("text", ["", " \n ", "...", "<|emotion:elation|>"])
async def test_nothing_speakable_ends_without_started_or_audio(unpaced: Peer, text: str) -> None:
    done = await say(unpaced, "u", text)
    assert (done["reason"], done["audio_ms"], done["chars"]) == ("complete", 0.0, len(text))
    assert unpaced.of("u", "started") == unpaced.of("u", "audio") == []


async def test_an_empty_utterance_still_ends(unpaced: Peer) -> None:
    await unpaced.send(type="open", utterance="u")
    await unpaced.send(type="end", utterance="u")
    assert (await unpaced.until("done", utterance="u"))["chars"] == 0


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "flush", "utterance": "never"}, "unknown_utterance"),
        ({"type": "end", "utterance": "never"}, "unknown_utterance"),
        ({"type": "cancel", "utterance": "never"}, "unknown_utterance"),
        ({"type": "open", "utterance": "open"}, "utterance_exists"),
        ({"type": "open", "utterance": "u", "voice": "nobody"}, "voice_not_found"),
        ({"type": "open", "utterance": "u", "format": "flac"}, "format_unsupported"),
        ({"type": "open", "utterance": "u", "format": "mulaw", "sample_rate_hz": 16000}, "rate_unsupported"),
        ({"type": "open", "utterance": "u", "sample_rate_hz": 96000}, "rate_unsupported"),
        ({"type": "open", "utterance": "u", "speed": 9}, "bad_value"),
        ({"type": "config", "voice": "nobody"}, "voice_not_found"),
        ({"type": "config", "format": "flac"}, "format_unsupported"),
        ({"type": "config", "resume_ms": 5000}, "bad_value"),
        ({"type": "config", "lexicon": {"...": "dots"}}, "bad_value"),
        ({"type": "resume", "resume_token": "x", "last_seq": 0}, "resume_unknown"),
        ({"type": "text", "utterance": "open", "text": "x" * 200}, "text_too_long"),
        ({"type": "text", "utterance": "ended", "text": "x"}, "utterance_ended"),
        ({"type": "text", "utterance": "u", "text": "x" * 3000}, "message_too_big"),
        ({"type": "sing"}, "unknown_type"),
        ({"type": "end"}, "missing_field"),
        ({"type": "end", "utterance": "open", "loud": True}, "unknown_field"),
    ],
)
async def test_every_refusal_names_its_code_and_the_socket_lives_on(message: dict[str, Any], code: str) -> None:
    limits = {"limits": {"utterance_chars": 150, "message_bytes": 2048}}
    async with running_gateway(settings=limits) as gateway, Call(gateway) as peer:
        await peer.send(type="open", utterance="open")
        await peer.send(type="text", utterance="ended", text="It waits for its lane.")
        await peer.send(type="end", utterance="ended")
        await peer.send(**message)
        refused = await peer.until("error")
        assert refused["code"] == code
        assert refused["message"]
        await peer.send(type="text", utterance="open", text="Still here.")
        await peer.send(type="end", utterance="open")
        assert (await peer.until("done", utterance="open"))["audio_samples"] > 0


async def test_what_is_no_json_is_answered_and_the_socket_lives_on(unpaced: Peer) -> None:
    await unpaced.socket.send("{")
    assert (await unpaced.until("error"))["code"] == "bad_message"
    await say(unpaced, "u", TEXT)


async def test_a_refused_config_changes_nothing(unpaced: Peer) -> None:
    await unpaced.send(type="config", format="mulaw", voice="nobody")
    await unpaced.until("error", code="voice_not_found")
    await say(unpaced, "u", TEXT)
    assert unpaced.of("u", "started")[0]["format"] == "pcm_s16le"


async def test_too_many_open_utterances_are_refused_and_their_later_messages_ignored() -> None:
    async with running_gateway(settings={"limits": {"utterances": 2}}) as gateway, Call(gateway) as peer:
        for name in ("a", "b", "c"):
            await peer.send(type="open", utterance=name)
        assert (await peer.until("error"))["code"] == "too_many_utterances"
        await peer.send(type="text", utterance="c", text="ignored")
        await peer.send(type="end", utterance="c")
        await peer.send(type="ping", id=1)
        assert (await peer.receive())["type"] == "pong"


@pytest.mark.parametrize(
    ("limits", "code"), [({"server_utterances": 1}, "capacity"), ({"utterances_per_key": 1}, "quota")]
)
async def test_a_full_server_and_a_used_up_quota_say_when_to_come_back(limits: dict[str, int], code: str) -> None:
    async with running_gateway(settings={"limits": limits}) as gateway, Call(gateway) as peer:
        await peer.send(type="open", utterance="a")
        await peer.send(type="open", utterance="b")
        refused = await peer.until("error", utterance="b")
        assert (refused["code"], refused["retryable"]) == (code, True)
        assert refused["retry_after_s"] > 0


async def test_a_failing_engine_is_an_error_and_a_done_and_the_next_utterance_speaks() -> None:
    model = WholeFramesModel(faults={"Bad luck.": "fail_prefill"})
    async with running_gateway(model) as gateway, Call(gateway) as peer:
        done = await say(peer, "bad", "Bad luck.")
        assert done["reason"] == "error"
        assert [m["code"] for m in peer.of("bad", "error")] == ["engine_failed"]
        assert (await say(peer, "good", "Better now."))["reason"] == "complete"


async def test_an_utterance_without_text_for_too_long_is_ended_with_what_it_had() -> None:
    limits = {"limits": {"utterance_idle_s": 0.3}}
    async with running_gateway(settings=limits) as gateway, Call(gateway) as peer:
        await peer.send(type="text", utterance="u", text="Never finished")
        done = await peer.until("done", utterance="u")
        assert done["reason"] == "timeout"
        assert done["audio_samples"] > 0


async def test_an_idle_session_is_told_and_closed() -> None:
    async with running_gateway(settings={"limits": {"idle_s": 0.2}}) as gateway, Call(gateway) as peer:
        assert (await peer.until("error"))["code"] == "idle_timeout"
        await peer.socket.wait_closed()
        assert peer.socket.close_code == 1008


async def test_audio_is_sent_no_further_ahead_than_asked(gateway: RunningGateway) -> None:
    async with Call(gateway) as peer:
        await peer.send(type="config", max_ahead_ms=500)
        await peer.send(type="text", utterance="u", text=TEXT)
        await peer.send(type="end", utterance="u")
        await peer.until("started")
        await peer.send(type="ack", utterance="u", played_ms=0)
        await asyncio.sleep(0.5)  # nothing is played: no more than 500 ms and one frame may come
        await peer.send(type="ping", id=9)
        await peer.until("pong", id=9)
        assert 500 <= len(peer.audio("u")) / 48 <= 700
        await peer.send(type="ack", utterance="u", played_ms=400)
        await peer.until("audio")


# ---- barge-in --------------------------------------------------------------------------------------------------------


async def test_a_cancel_before_the_first_audio_says_that_nothing_was_heard(unpaced: Peer) -> None:
    await unpaced.send(type="text", utterance="u", text="Hel")
    await unpaced.send(type="cancel", utterance="u")
    report = await unpaced.until("cancelled", utterance="u")
    assert (report["spoken_text"], report["remaining_text"], report["sent_ms"]) == ("", "Hel", 0.0)
    assert report["after_done"] is False


async def test_a_cancel_with_played_ms_splits_the_text_at_the_first_unheard_word(unpaced: Peer) -> None:
    await unpaced.send(type="text", utterance="u", text=TEXT)
    await unpaced.until("words")
    await unpaced.send(type="cancel", utterance="u", played_ms=600)
    report = await unpaced.until("cancelled", utterance="u")
    words = [word for message in unpaced.of("u", "words") for word in message["words"]]
    heard = [word for word in words if (word["start_ms"] + word["end_ms"]) / 2 <= report["played_ms"]]
    first_unheard = TEXT.index(TEXT.split()[len(heard)])
    assert report["spoken_chars"] == first_unheard == len(report["spoken_text"])
    assert report["spoken_text"] + report["remaining_text"] == TEXT
    assert report["played_source"] == "client"


async def test_a_cancel_after_done_is_answered_once(unpaced: Peer) -> None:
    done = await say(unpaced, "u", TEXT)
    await unpaced.send(type="cancel", utterance="u", played_ms=done["audio_ms"])
    report = await unpaced.until("cancelled", utterance="u")
    assert report["after_done"] is True
    assert report["spoken_text"] == TEXT
    await unpaced.send(type="cancel", utterance="u")
    assert (await unpaced.until("warning"))["code"] == "nothing_to_cancel"


async def test_a_played_position_beyond_what_was_sent_is_clamped_with_a_warning(unpaced: Peer) -> None:
    done = await say(unpaced, "u", TEXT)
    await unpaced.send(type="cancel", utterance="u", played_ms=done["audio_ms"] + 5000)
    assert (await unpaced.until("warning"))["code"] == "played_clamped"
    report = await unpaced.until("cancelled", utterance="u")
    assert report["played_ms"] == report["sent_ms"]


async def test_cancel_without_an_utterance_answers_for_all_in_the_order_opened(unpaced: Peer) -> None:
    for name in ("z", "a", "m"):
        await unpaced.send(type="text", utterance=name, text=TEXT)
    await unpaced.send(type="cancel")
    reports = [(await unpaced.until("cancelled"))["utterance"] for _ in range(3)]
    assert reports == ["z", "a", "m"]


async def test_acks_tell_what_was_heard_and_lower_ones_are_ignored(unpaced: Peer) -> None:
    done = await say(unpaced, "u", TEXT)
    await unpaced.send(type="ack", utterance="u", played_ms=900)
    await unpaced.send(type="ack", utterance="u", played_ms=100)
    await unpaced.send(type="ack", utterance="unknown", played_ms=100)
    await unpaced.send(type="cancel", utterance="u")
    report = await unpaced.until("cancelled", utterance="u")
    assert (report["played_source"], report["played_ms"]) == ("ack", 900)
    assert done["audio_ms"] > 900


async def test_a_flush_pending_at_a_cancel_gets_no_answer(unpaced: Peer) -> None:
    await unpaced.send(type="open", utterance="first")
    await unpaced.send(type="text", utterance="u", text=TEXT)
    await unpaced.send(type="flush", utterance="u", id="f")
    await unpaced.send(type="cancel", utterance="u")
    await unpaced.until("cancelled", utterance="u")
    await unpaced.send(type="ping")
    await unpaced.until("pong")
    assert unpaced.of("u", "flushed") == []


async def test_an_id_can_be_opened_again_after_it_was_cancelled(unpaced: Peer) -> None:
    await unpaced.send(type="text", utterance="u", text=TEXT)
    await unpaced.send(type="cancel", utterance="u")
    await unpaced.until("cancelled", utterance="u")
    await unpaced.send(type="text", utterance="u", text="ignored")
    before = len(unpaced.received)
    assert (await say(unpaced, "u", "Again.", words=True))["chars"] == len("Again.")
    assert all(message["type"] != "error" for message in unpaced.received[before:])


async def test_a_thousand_random_cancels_leave_nothing_stale_and_account_for_every_character() -> None:
    chance = random.Random(7)
    async with running_gateway() as gateway, Call(gateway) as peer:
        for turn in range(1000):
            name = f"u{turn}"
            for start in range(0, len(TEXT), 20):
                await peer.send(type="text", utterance=name, text=TEXT[start : start + 20])
            if chance.random() < 0.3:
                await peer.send(type="end", utterance=name)
            await asyncio.sleep(chance.choice([0, 0, 0, 0.002, 0.005, 0.02]))
            sent = TEXT
            await peer.send(type="cancel", utterance=name)
            await peer.send(type="text", utterance=f"u{turn + 1}", text="")
            report = await peer.until("cancelled", utterance=name)
            assert report["spoken_text"] + report["remaining_text"] == sent
            assert report["sent_ms"] == pytest.approx(len(peer.audio(name)) / 48, abs=0.01)
            assert 0 <= report["played_ms"] <= report["sent_ms"]
        await peer.send(type="ping", id="end")
        await peer.until("pong", id="end")
        for turn in range(1000):
            kinds = [message["type"] for message in peer.of(f"u{turn}")]
            assert kinds[-1] == "cancelled"
            assert kinds.count("cancelled") == 1
        stats = gateway.engine.stats()
        assert stats.open_streams <= 2
        assert stats.sequences <= 1
        assert len(asyncio.all_tasks()) < 30


# ---- many peers ------------------------------------------------------------------------------------------------------


async def test_a_vanished_peer_frees_everything(gateway: RunningGateway) -> None:
    for _ in range(20):
        async with Call(gateway) as peer:
            await peer.send(type="text", utterance="u", text=TEXT)
            peer.socket.transport.abort()
    if gateway.service.connections:
        await asyncio.wait(gateway.service.connections.values(), timeout=5)
    assert gateway.service.admission.utterances == 0
    assert gateway.service.admission.connections == 0
    assert gateway.engine.stats().open_streams == 0


async def test_two_sockets_hear_each_their_own_text(gateway: RunningGateway) -> None:
    async with Call(gateway) as one, Call(gateway) as two:
        for peer in (one, two):
            await peer.send(type="config", max_ahead_ms=None)
        await asyncio.gather(say(one, "u", "Number one speaks."), say(two, "u", "Two has other words."))
        alone = []
        for text in ("Number one speaks.", "Two has other words."):
            async with Call(gateway) as peer:
                await peer.send(type="config", max_ahead_ms=None)
                await say(peer, "u", text)
                alone.append(peer.audio("u"))
        assert [one.audio("u"), two.audio("u")] == alone


async def test_a_model_that_streams_text_speaks_while_words_come_and_a_flush_lets_all_of_it_out() -> None:
    model = StreamedRowsModel()
    async with running_gateway(model) as gateway, Call(gateway) as peer:
        model.finished.clear()  # what the gateway says to itself at its start
        await peer.send(type="config", max_ahead_ms=None)
        for word in ("It ", "speaks ", "before ", "the "):
            await peer.send(type="text", utterance="u", text=word)
        await peer.until("audio", utterance="u")
        await peer.send(type="text", utterance="u", text="sentence")
        await peer.send(type="flush", utterance="u", id="f")
        await peer.until("flushed", utterance="u")
        heard = len(peer.audio("u"))
        await peer.send(type="text", utterance="u", text=" is over. \n")
        await peer.send(type="end", utterance="u")
        done = await peer.until("done", utterance="u")
        assert done["reason"] == "complete"
        assert done["chars"] == len("It speaks before the sentence is over. \n")
    blocks = list(model.finished.values())
    assert "".join(one for block in blocks for one in block.fed) == "It speaks before the sentenceis over."
    frames = [block.frames or 0 for block in blocks]
    assert done["audio_samples"] == sum(frames) * 960
    assert 0 < heard < sum(frames) * 960 * 2


async def test_a_cancelled_stream_of_words_leaves_the_next_one_whole() -> None:
    async with running_gateway(StreamedRowsModel()) as gateway, Call(gateway) as peer:
        for number in range(5):
            await peer.send(type="text", utterance=f"cut {number}", text="Some words that will be cut off here ")
            await peer.until("audio", utterance=f"cut {number}")
            await peer.send(type="cancel", utterance=f"cut {number}")
            await peer.until("cancelled", utterance=f"cut {number}")
        await peer.send(type="text", utterance="whole", text="And this one is not.")
        await peer.send(type="end", utterance="whole")
        assert (await peer.until("done", utterance="whole"))["reason"] == "complete"
