"""The session: rules of the native protocol's page, without a socket."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.speech import AudioChunk, Sampling
from engine.timeline import Timeline
from gateway.admission import AdmissionLimits
from gateway.errors import ClientError, ErrorCode, WarningCode
from gateway.events import (
    Acknowledge,
    Audio,
    Cancel,
    Cancelled,
    CancelSpeech,
    ClientEvent,
    CloseConnection,
    Configure,
    Done,
    EndText,
    Failed,
    FeedSpeech,
    FinishSpeech,
    Flush,
    Flushed,
    Leave,
    OpenSpeech,
    OpenUtterance,
    Ping,
    Pong,
    Ready,
    ReleaseSpeech,
    Resume,
    Started,
    TextFragment,
    UtteranceOptions,
    Warned,
    Words,
)
from tests.fakes.talk import Talk

TEXT = "One two three four. "


def spoken(talk: Talk, utterance: str = "u", text: str = TEXT) -> None:
    """An utterance from its text to its last message."""
    talk.do(TextFragment(utterance, text), EndText(utterance))
    talk.speak(utterance)
    talk.write()


def test_ready_is_the_first_message() -> None:
    talk = Talk()
    (ready,) = talk.write()
    assert isinstance(ready, Ready)
    assert (ready.session, ready.model.default_voice, ready.sample_rate_hz) == ("s", "alto", 24000)


def test_text_for_an_unknown_id_opens_it_with_the_defaults_and_feeds_what_is_certain() -> None:
    talk = Talk()
    opened, *fed = talk.do(TextFragment("u", TEXT), EndText("u"))
    assert isinstance(opened, OpenSpeech)
    assert (opened.utterance, opened.lane, opened.request.voice) == ("u", "main", "alto")
    assert [type(action) for action in fed] == [FeedSpeech] * (len(fed) - 1) + [FinishSpeech]


def test_an_utterance_is_started_spoken_and_done_in_that_order() -> None:
    talk = Talk()
    spoken(talk)
    kinds = [type(event) for event in talk.said if not isinstance(event, Ready)]
    assert kinds[:2] == [Started, Words]
    assert set(kinds[2:-1]) == {Audio}
    assert kinds[-1] is Done
    done = talk.of(Done)[0]
    assert done.audio_samples == talk.sent_samples("u") == 48_000
    assert (done.reason, done.chars) == ("complete", len(TEXT))


def test_the_first_audible_sample_written_makes_the_first_audio_figure() -> None:
    talk = Talk()
    talk.do(TextFragment("u", TEXT), EndText("u"))
    talk.now_s += 0.25
    talk.speak("u")
    talk.write()
    assert talk.of(Done)[0].metrics.first_audio_s == pytest.approx(0.25)


def test_silence_makes_no_first_audio_figure() -> None:
    talk = Talk()
    talk.do(TextFragment("u", TEXT), EndText("u"))
    talk.speak("u", level=0.001)
    talk.write()
    assert talk.of(Done)[0].metrics.first_audio_s is None


def test_two_halves_of_a_surrogate_pair_are_one_code_point_of_the_input() -> None:
    talk = Talk()
    talk.do(TextFragment("u", "Hi \ud83d"), TextFragment("u", "\ude00 there"), EndText("u"))
    talk.speak("u")
    talk.write()
    assert talk.of(Done)[0].chars == len("Hi 😀 there")


def test_text_over_the_limit_is_refused_whole_and_the_utterance_lives() -> None:
    talk = Talk()
    talk.do(TextFragment("u", "Hello. "), TextFragment("u", "x" * 1000))
    assert talk.errors[0].code is ErrorCode.TEXT_TOO_LONG
    assert "1,007" in talk.errors[0].message
    assert "1,000" in talk.errors[0].message
    talk.do(EndText("u"))
    talk.speak("u")
    talk.write()
    assert talk.of(Done)[0].chars == len("Hello. ")


def test_an_ended_utterance_takes_no_text_and_a_finished_one_ignores_it() -> None:
    talk = Talk()
    talk.do(TextFragment("u", TEXT), EndText("u"), TextFragment("u", "late"))
    assert [error.code for error in talk.errors] == [ErrorCode.UTTERANCE_ENDED]
    talk.speak("u")
    talk.write()
    talk.do(TextFragment("u", "later"), Flush("u"), EndText("u"))
    assert len(talk.errors) == 1
    assert talk.session.ignored_messages == 3


def test_flush_end_and_cancel_never_open() -> None:
    talk = Talk()
    talk.do(Flush("x"), EndText("y"), Cancel("z"))
    assert [error.code for error in talk.errors] == [ErrorCode.UNKNOWN_UTTERANCE] * 3


def test_a_refused_open_closes_the_id_until_it_is_opened_again() -> None:
    talk = Talk()
    talk.do(OpenUtterance("u", options=UtteranceOptions(voice="nobody")), TextFragment("u", TEXT), EndText("u"))
    assert [error.code for error in talk.errors] == [ErrorCode.VOICE_NOT_FOUND]
    assert talk.actions == []
    talk.do(OpenUtterance("u"))
    assert len(talk.errors) == 1


def test_opening_a_live_id_is_refused_and_leaves_it_alone() -> None:
    talk = Talk()
    talk.do(OpenUtterance("u"), OpenUtterance("u"))
    assert [error.code for error in talk.errors] == [ErrorCode.UTTERANCE_EXISTS]
    spoken(talk)
    assert talk.of(Done, "u")


def test_an_error_stands_behind_the_utterances_own_audio_and_overtakes_others() -> None:
    talk = Talk()
    talk.do(TextFragment("a", TEXT), EndText("a"), TextFragment("b", TEXT))
    talk.speak("a")
    talk.write(3)
    talk.do(TextFragment("a", "late"), TextFragment("b", "x" * 2000), Ping(1))
    kinds = [(type(event), getattr(event, "utterance", None)) for event in talk.write()]
    assert kinds[0] == (Pong, None)
    assert kinds[1] == (Failed, "b")
    assert kinds[-1] == (Done, "a") or (Done, "a") in kinds
    audio = [index for index, kind in enumerate(kinds) if kind == (Audio, "a")]
    assert audio[0] < kinds.index((Failed, "a"))


def test_a_warning_for_each_tag_comes_once_per_utterance() -> None:
    talk = Talk()
    talk.do(TextFragment("u", "<|emotion:elation|>One. <|emotion:elation|>Two. <|sfx:cough|>Three. "), EndText("u"))
    talk.speak("u")
    talk.write()
    assert [(warned.code, warned.detail) for warned in talk.of(Warned)] == [
        (WarningCode.TAG_APPROXIMATED, "emotion:elation"),
        (WarningCode.TAG_UNSUPPORTED, "sfx:cough"),
    ]


def test_parameters_and_languages_that_the_model_cannot_use_are_warned_about() -> None:
    talk = Talk()
    talk.do(OpenUtterance("u", options=UtteranceOptions(language="de", speed=1.5, sampling=Sampling(temperature=0.5))))
    talk.write()
    assert [(warned.code, warned.detail) for warned in talk.of(Warned)] == [
        (WarningCode.UNSUPPORTED_LANGUAGE, "de"),
        (WarningCode.PARAMETER_IGNORED, "temperature"),
    ]
    assert "en" in talk.of(Warned)[0].message


def test_the_same_session_seed_gives_the_same_request_and_a_missing_one_a_fresh_seed() -> None:
    talk = Talk()
    actions = talk.do(OpenUtterance("a"), OpenUtterance("b"), Configure(seed=7), OpenUtterance("c"), OpenUtterance("d"))
    seeds = [action.request.seed for action in actions if isinstance(action, OpenSpeech)]
    assert seeds[0] != seeds[1]
    assert seeds[2:] == [7, 7]
    assert all(0 <= seed < 2**53 for seed in seeds)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (Configure(format="mulaw", voice="nobody"), ErrorCode.VOICE_NOT_FOUND),
        (Configure(voice="bass", format="flac"), ErrorCode.FORMAT_UNSUPPORTED),
        (Configure(voice="bass", sample_rate_hz=7), ErrorCode.RATE_UNSUPPORTED),
        (Configure(voice="bass", speed=50.0), ErrorCode.BAD_VALUE),
        (Configure(voice="bass", resume_s=1.0), ErrorCode.BAD_VALUE),
        (Configure(voice="bass", lexicon={"": "x"}), ErrorCode.BAD_VALUE),
    ],
)
def test_a_refused_config_changes_nothing(bad: Configure, code: ErrorCode) -> None:
    talk = Talk()
    talk.do(bad)
    assert [error.code for error in talk.errors] == [code]
    (opened,) = talk.do(OpenUtterance("u"))
    assert isinstance(opened, OpenSpeech)
    assert opened.request.voice == "alto"


def test_a_config_holds_for_utterances_opened_later() -> None:
    talk = Talk()
    talk.do(OpenUtterance("before"), Configure(voice="bass", format="mulaw", speed=1.2, tag_scope="session"))
    (opened,) = talk.do(OpenUtterance("after"))
    assert isinstance(opened, OpenSpeech)
    assert (opened.request.voice, opened.request.speed, opened.request.tag_scope) == ("bass", 1.2, "session")
    for name in ("before", "after"):
        spoken(talk, name)
    assert [started.format for started in talk.of(Started)] == ["pcm_s16le", "mulaw"]


def test_a_resume_is_refused_and_the_session_stays_usable() -> None:
    talk = Talk()
    talk.do(Resume("x", 1))
    assert talk.errors[0].code is ErrorCode.RESUME_UNKNOWN
    spoken(talk)
    assert talk.of(Done)


# ---- lanes, flushes, time --------------------------------------------------------------------------------------------


def test_no_audio_of_the_next_utterance_leaves_before_the_previous_ones_last_message() -> None:
    talk = Talk()
    talk.do(OpenUtterance("a"), TextFragment("b", TEXT), EndText("b"))
    talk.speak("b")
    assert not any(isinstance(event, Audio | Words | Started) for event in talk.write())
    spoken(talk, "a")
    talk.write()
    order = [event.utterance for event in talk.said if isinstance(event, Started | Audio | Done)]
    assert order == sorted(order)


def test_lanes_take_turns() -> None:
    talk = Talk()
    talk.do(OpenUtterance("a", lane="left"), OpenUtterance("b", lane="right"))
    talk.do(TextFragment("a", TEXT), TextFragment("b", TEXT), EndText("a"), EndText("b"))
    talk.speak("a")
    talk.speak("b")
    talk.write()
    audio = [event.utterance for event in talk.said if isinstance(event, Audio)]
    assert audio[:6] in (["a", "b"] * 3, ["b", "a"] * 3)


def test_a_flush_is_answered_after_its_last_sample_and_at_once_with_nothing_pending() -> None:
    talk = Talk()
    talk.do(TextFragment("u", "One two three"), Flush("u", "f"))
    talk.write()
    assert talk.of(Flushed) == []
    talk.speak("u")
    assert isinstance(talk.write()[-1], Flushed)
    talk.do(Flush("u", 2))
    assert talk.write() == [Flushed("u", 2)]


def test_a_wait_of_the_text_front_end_ends_by_itself() -> None:
    talk = Talk()
    talk.do(TextFragment("u", "one two three four five"))
    wake_at_s = talk.session.wake_at_s(talk.now_s)
    assert wake_at_s - talk.now_s < 5
    fed: list[Any] = []
    for _ in range(20):
        fed += talk.pass_time(0.5)
    assert any(isinstance(action, FeedSpeech) for action in fed)


def test_an_utterance_that_gets_no_text_is_ended_when_all_of_it_was_sent() -> None:
    talk = Talk()
    talk.do(TextFragment("u", "One two"), Flush("u"))
    talk.speak("u")
    talk.write()
    assert talk.pass_time(9.9) == []
    assert talk.pass_time(0.2) == [FinishSpeech("u")]
    talk.speak("u")
    talk.write()
    assert talk.of(Done)[0].reason == "timeout"


def test_only_the_head_of_a_lane_can_time_out() -> None:
    talk = Talk()
    talk.do(OpenUtterance("a"), OpenUtterance("b"))
    assert talk.pass_time(10.1) == [FinishSpeech("a")]


def test_an_idle_session_is_closed_but_not_while_it_speaks() -> None:
    talk = Talk()
    talk.write()
    (close,) = talk.pass_time(100.1)
    assert isinstance(close, CloseConnection)
    assert close.code == 1008
    (failed,) = talk.write()
    assert isinstance(failed, Failed)
    assert (failed.code, failed.is_fatal) == (ErrorCode.IDLE_TIMEOUT, True)
    busy = Talk()
    busy.do(TextFragment("u", TEXT))
    assert not any(isinstance(action, CloseConnection) for action in busy.pass_time(200))


def test_leaving_waits_for_what_is_still_to_be_said() -> None:
    talk = Talk()
    talk.do(TextFragment("u", TEXT), EndText("u"))
    assert talk.do(Leave()) == []
    talk.speak("u")
    talk.write()
    assert talk.actions[-1] == CloseConnection(1000, "done")


def test_draining_says_so_and_closes_with_1001_once_all_is_said() -> None:
    talk = Talk()
    talk.write()
    (close,) = talk.session.drain()
    assert isinstance(close, CloseConnection)
    assert close.code == 1001
    assert isinstance(talk.write()[0], Failed)


# ---- send-ahead ------------------------------------------------------------------------------------------------------


def test_audio_goes_no_further_ahead_of_the_assumed_player_than_allowed() -> None:
    talk = Talk(changes={"max_ahead_s": 0.5})
    talk.do(TextFragment("u", TEXT * 4), EndText("u"))
    talk.speak("u")
    talk.write()
    assert 0.5 <= talk.sent_samples("u") / 24000 < 0.7
    wake_at_s = talk.session.wake_at_s(talk.now_s)
    assert talk.now_s < wake_at_s < talk.now_s + 0.3
    talk.now_s += 1.0
    talk.write()
    assert 1.0 <= talk.sent_samples("u") / 24000 < 1.2


def test_acks_move_the_window_and_time_does_not() -> None:
    talk = Talk(changes={"max_ahead_s": 0.5})
    talk.do(TextFragment("u", TEXT * 4), EndText("u"))
    talk.speak("u")
    talk.write()
    talk.do(Acknowledge("u", 0.0))
    sent = talk.sent_samples("u")
    talk.now_s += 5
    talk.write()
    assert talk.sent_samples("u") == sent
    talk.do(Acknowledge("u", 0.4))
    talk.write()
    assert talk.sent_samples("u") > sent


def test_the_lanes_earlier_utterances_count_as_ahead_until_they_are_played() -> None:
    talk = Talk(changes={"max_ahead_s": 3.0})
    spoken(talk, "a")
    assert talk.of(Done, "a")
    talk.do(TextFragment("b", TEXT * 4), EndText("b"))
    talk.speak("b")
    talk.write()
    assert talk.sent_samples("a") + talk.sent_samples("b") < 3.2 * 24000


def test_a_full_outbox_leaves_the_stream_unread() -> None:
    talk = Talk(changes={"max_ahead_s": 0.5})
    talk.do(TextFragment("u", TEXT * 4), EndText("u"))
    assert talk.session.can_take_audio("u")
    talk.speak("u")
    talk.write()
    assert not talk.session.can_take_audio("u")


# ---- barge-in --------------------------------------------------------------------------------------------------------


def test_a_cancel_purges_reports_and_tells_the_engine_what_was_heard() -> None:
    talk = Talk()
    talk.do(TextFragment("u", "One two three four. Five"))
    talk.speak("u")
    talk.write(6)
    actions = talk.do(Cancel("u", 0.30))
    (report,) = [event for event in talk.write() if isinstance(event, Cancelled)]
    assert (report.spoken_text, report.remaining_text) == ("One ", "two three four. Five")
    assert (report.played_samples, report.played_source, report.after_done) == (7200, "client", False)
    assert report.sent_samples == talk.sent_samples("u") < 48_000
    assert actions == [CancelSpeech("u", 7200, 4)]
    assert talk.write() == []


def test_a_late_chunk_of_a_cancelled_utterance_is_dropped() -> None:
    talk = Talk()
    talk.do(TextFragment("u", "One two three four. Five"))
    pending = list(talk.actions)
    talk.do(Cancel("u"))
    talk.write()
    talk.actions = pending
    talk.speak("u")
    assert talk.write() == []


def test_an_error_that_was_still_owed_is_answered_before_the_cancel() -> None:
    talk = Talk()
    talk.do(TextFragment("u", TEXT), EndText("u"))
    talk.speak("u")
    talk.do(TextFragment("u", "late"), Cancel("u"))
    kinds = [type(event) for event in talk.write() if not isinstance(event, Ready)]
    assert kinds == [Failed, Cancelled]


def test_cancelling_twice_and_cancelling_nothing_are_warned_about() -> None:
    talk = Talk()
    spoken(talk)
    talk.do(Cancel("u"), Cancel("u"), Cancel())
    assert [warned.code for warned in talk.of(Warned)] == []
    talk.write()
    assert [warned.code for warned in talk.of(Warned)] == [WarningCode.NOTHING_TO_CANCEL] * 2
    assert len(talk.of(Cancelled)) == 1


def test_all_is_spoken_once_all_was_played_even_where_there_were_no_words() -> None:
    talk = Talk()
    talk.do(TextFragment("u", TEXT), EndText("u"))
    chunk = AudioChunk(np.full(24_000, 0.5, np.float32), 0, is_segment_end=True, is_final=True)
    talk.session.audio("u", chunk, Timeline())
    talk.write()
    talk.do(Cancel("u", 1.0))
    talk.write()
    assert (talk.of(Cancelled)[0].spoken_text, talk.of(Cancelled)[0].remaining_text) == (TEXT, "")


def test_a_finished_utterance_is_forgotten_thirty_seconds_after_it_was_played() -> None:
    talk = Talk()
    spoken(talk)
    assert talk.pass_time(2.0 + 29.0) == []
    assert talk.pass_time(1.5) == [ReleaseSpeech("u")]
    talk.do(Cancel("u"))
    assert isinstance(talk.write()[-1], Warned)


def test_the_oldest_finished_utterances_make_room() -> None:
    talk = Talk()
    for turn in range(5):
        spoken(talk, f"u{turn}")
    released = [action.utterance for action in talk.actions if isinstance(action, ReleaseSpeech)]
    assert released == ["u0", "u1"]


def test_numbers_are_unique_among_kept_utterances() -> None:
    talk = Talk()
    for turn in range(8):
        spoken(talk, f"u{turn}")
    numbers = [started.number for started in talk.of(Started)]
    assert len(set(numbers)) == len(numbers)


def test_a_peer_that_asks_and_never_reads_is_closed() -> None:
    talk = Talk()
    actions = [action for number in range(2000) for action in talk.do(Ping(number))]
    (close,) = actions
    assert isinstance(close, CloseConnection)
    assert (close.code, close.is_forced) == (1008, True)
    said = talk.write()
    assert len(said) < 1100
    assert isinstance(said[-1], Failed)


def test_refused_messages_of_a_paced_utterance_do_not_pile_up_without_end() -> None:
    talk = Talk(changes={"max_ahead_s": 0.5})
    talk.do(TextFragment("u", TEXT * 4), EndText("u"))
    talk.speak("u")
    talk.write()
    actions = [action for _ in range(2000) for action in talk.do(TextFragment("u", "late"))]
    assert any(isinstance(action, CloseConnection) for action in actions)


def test_pending_flushes_are_bounded() -> None:
    talk = Talk()
    talk.do(TextFragment("u", "One two three"), *(Flush("u", number) for number in range(300)))
    assert {error.code for error in talk.errors} == {ErrorCode.BAD_VALUE}
    assert len(talk.errors) == 300 - 256


def test_a_refused_flush_loses_no_text() -> None:
    talk = Talk()
    talk.do(TextFragment("u", "One two three"), *(Flush("u", number) for number in range(256)))
    talk.do(TextFragment("u", " four five six"), Flush("u", "one too many"))
    assert [error.code for error in talk.errors] == [ErrorCode.BAD_VALUE]
    talk.do(EndText("u"))
    talk.speak("u")
    talk.write()
    spoken_words = [word.text for event in talk.of(Words) for word in event.words]
    assert " ".join(spoken_words) == "One two three four five six"
    assert talk.of(Done, "u")


def test_a_session_that_is_closing_takes_nothing_more() -> None:
    talk = Talk()
    talk.write()
    talk.session.close(ErrorCode.INTERNAL, "m", 1011)
    talk.do(Ping(1), TextFragment("u", TEXT))
    assert [type(event) for event in talk.write()] == [Failed]


def test_an_open_that_a_dialect_refused_leaves_its_id_closed() -> None:
    talk = Talk()
    talk.session.refuse(ClientError(ErrorCode.BAD_VALUE, "m", utterance="u", is_refused_open=True))
    assert talk.do(TextFragment("u", TEXT), EndText("u")) == []
    assert talk.session.ignored_messages == 2
    assert len(talk.do(OpenUtterance("u"))) == 1


def test_an_engine_failure_is_said_once_however_much_text_follows() -> None:
    talk = Talk(changes={"max_ahead_s": 0.5})
    talk.do(TextFragment("u", TEXT * 4))
    talk.speak("u")
    talk.session.speech_failed("u", ClientError(ErrorCode.ENGINE_FAILED, "broken"))
    talk.do(TextFragment("u", TEXT), EndText("u"))
    talk.session.speech_failed("u", ClientError(ErrorCode.ENGINE_FAILED, "broken"))
    for _ in range(40):
        talk.pass_time(1.0)
        talk.write()
    kinds = [type(event) for event in talk.said if isinstance(event, Failed | Done)]
    assert kinds == [Failed, Done]
    assert talk.admission.utterances == 0


def test_an_utterance_opened_ahead_has_its_time_once_it_is_heard() -> None:
    talk = Talk()
    talk.do(TextFragment("a", TEXT), OpenUtterance("b"))
    talk.pass_time(9.0)
    talk.do(TextFragment("a", TEXT), EndText("a"))
    talk.speak("a")
    talk.pass_time(6.0)
    talk.write()
    assert talk.of(Done, "a")
    assert talk.pass_time(9.0) == []
    assert talk.pass_time(1.5) == [FinishSpeech("b")]


def test_places_are_given_back_when_utterances_end_or_the_peer_vanishes() -> None:
    talk = Talk(limits=AdmissionLimits(9, 9, 2, 2))
    talk.do(TextFragment("a", TEXT), TextFragment("b", TEXT), TextFragment("c", TEXT))
    assert [error.code for error in talk.errors] == [ErrorCode.CAPACITY]
    talk.do(Cancel("a"))
    assert talk.admission.utterances == 1
    talk.session.ended()
    assert talk.admission.utterances == 0


def test_a_failed_engine_gives_an_error_then_done_and_frees_the_lane() -> None:
    talk = Talk()
    talk.do(TextFragment("a", TEXT), TextFragment("b", TEXT), EndText("b"))
    talk.session.speech_failed("a", ClientError(ErrorCode.ENGINE_FAILED, "broken"))
    talk.speak("b")
    talk.write()
    kinds = [type(event) for event in talk.said if getattr(event, "utterance", None) == "a"]
    assert kinds == [Failed, Done]
    assert talk.of(Done, "a")[0].reason == "error"
    assert talk.of(Done, "b")[0].reason == "complete"


# ---- any order of events ---------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.one_of(
    st.builds(lambda name, lane: OpenUtterance(name, lane=lane), NAMES, st.sampled_from(["main", "side"])),
    st.builds(TextFragment, NAMES, st.sampled_from(["One two. ", "Three", " ", "<|emotion:elation|>", "4.5 and. "])),
    st.builds(Flush, NAMES, st.integers(0, 9)),
    st.builds(EndText, NAMES),
    st.builds(Cancel, st.none() | NAMES),
    st.builds(Acknowledge, NAMES, st.floats(0, 3)),
    st.builds(lambda name: ("speak", name), NAMES),
    st.builds(lambda count: ("write", count), st.integers(1, 6)),
    st.builds(lambda seconds: ("pass", seconds), st.floats(0, 12)),
)


@given(st.lists(STEPS, max_size=40))
@example([*[TextFragment("a", "One two. ")] * 3, Acknowledge("a", 0.0)])
@settings(max_examples=150, deadline=None)
def test_whatever_the_order_every_utterance_is_contiguous_and_ends_at_most_once(steps: list[Any]) -> None:
    talk = Talk(changes={"max_ahead_s": 2.0})
    for step in steps:
        if isinstance(step, tuple):
            kind, value = step
            if kind == "speak":
                talk.speak(value)
            elif kind == "write":
                talk.write(value)
            else:
                talk.pass_time(value)
        else:
            event: ClientEvent = step
            talk.do(event)
    for name in ("a", "b", "c"):
        if talk.session._utterances.live(name) is not None:
            talk.do(EndText(name))
            talk.speak(name)
    acknowledged = {step.utterance for step in steps if isinstance(step, Acknowledge)}
    for _ in range(60):
        talk.pass_time(1.0)
        for name in ("a", "b", "c"):
            talk.speak(name)
            if name in acknowledged:  # who has begun to say what was played goes on: nothing else is believed then
                talk.do(Acknowledge(name, 1000.0))
        talk.write()
    _check_lives(talk)
    assert talk.admission.utterances == 0


def _check_lives(talk: Talk) -> None:
    """Each life of an id runs from its first message to done or cancelled; a new `Started` begins the next."""
    for name in ("a", "b", "c"):
        place, has_done, has_started = 0, False, False
        for event in talk.said:
            if getattr(event, "utterance", None) != name:
                continue
            match event:
                case Started():
                    place, has_done, has_started = 0, False, True
                case Audio():
                    assert has_started
                    assert not has_done
                    assert event.start_sample == place
                    place += event.sample_count
                case Words():
                    assert not has_done
                case Done():
                    assert not has_done or not has_started
                    has_done = True
                    assert event.audio_samples == (place if has_started else 0)
                    has_started, place = False, 0
                case Cancelled():
                    assert event.played_samples <= event.sent_samples
                    has_started, has_done, place = False, False, 0


def test_a_chunk_for_an_unknown_utterance_is_dropped() -> None:
    talk = Talk()
    talk.session.audio("never", AudioChunk(np.zeros(10, np.float32), 0), Timeline())
    assert [type(event) for event in talk.write()] == [Ready]
