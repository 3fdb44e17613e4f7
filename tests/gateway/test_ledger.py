"""The ledger: what was sent, played, heard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.speech import Segment, Span, WordTiming
from gateway.audio.sample_map import SampleMap
from gateway.ledger import Heard, Ledger, Played

RATE_HZ = 24000
SAME_RATE = SampleMap(RATE_HZ, RATE_HZ)


def segment(text: str, start: int = 0) -> Segment:
    sources = tuple(Span(start + place, start + place + 1) for place in range(len(text)))
    return Segment(text, Span(start, start + len(text)), sources, "sentence")


def spoken(text: str = "One two three.", samples: SampleMap = SAME_RATE) -> Ledger:
    """Three words of a second each, all sent at time 0."""
    ledger = Ledger(samples)
    ledger.received(text)
    ledger.fed(segment(text))
    ledger.spoken((WordTiming(0, 3, 0, 24000), WordTiming(4, 7, 24000, 48000), WordTiming(8, 13, 48000, 72000)))
    ledger.sent(samples.to_output(72000), 0.0, 0.0)
    return ledger


def test_a_word_is_heard_from_its_middle_on() -> None:
    ledger = spoken()
    assert ledger.heard(11_999).chars == 0
    assert ledger.heard(12_000).chars == 4
    assert ledger.heard(35_999).chars == 4
    assert ledger.heard(36_000).chars == 8


def test_all_input_is_spoken_once_every_word_is_heard() -> None:
    ledger = spoken()
    assert ledger.heard(72_000) == Heard(len("One two three."), 72_000)


def test_text_without_timing_yet_begins_at_its_first_word() -> None:
    ledger = Ledger(SAME_RATE)
    ledger.received("One. <|prosody:pause|> Two")
    ledger.fed(segment("One."))
    text = " Two"
    ledger.fed(Segment(text, Span(4, 26), tuple(Span(22 + i, 23 + i) for i in range(4)), "end"))
    ledger.spoken((WordTiming(0, 3, 0, 24000),))
    assert ledger.heard(24_000).chars == 23


def test_text_not_released_yet_begins_after_spaces_and_closing_marks() -> None:
    ledger = Ledger(SAME_RATE)
    ledger.received('Yes." <|sfx:cough|>')
    ledger.fed(segment("Yes"))
    ledger.spoken((WordTiming(0, 3, 0, 24000),))
    assert ledger.heard(24_000).chars == 6


def test_nothing_is_heard_before_any_word_is_timed() -> None:
    ledger = Ledger(SAME_RATE)
    ledger.received("  Hello")
    assert ledger.heard(0) == Heard(0, 0)


def test_without_acks_a_player_in_real_time_is_assumed() -> None:
    ledger = spoken()
    assert ledger.played(0.5) == Played(12_000, "clock")
    assert ledger.played(10.0) == Played(72_000, "clock")


def test_the_assumed_player_waits_when_it_is_empty() -> None:
    ledger = Ledger(SAME_RATE)
    ledger.sent(24_000, 0.0, 0.0)
    ledger.sent(24_000, 5.0, 0.0)
    assert ledger.played(5.5).samples == 36_000


def test_the_assumed_player_starts_when_the_lane_before_it_has_ended() -> None:
    ledger = Ledger(SAME_RATE)
    ledger.sent(24_000, 0.0, starts_at_s=2.0)
    assert ledger.played(2.0).samples == 0
    assert ledger.played(2.5).samples == 12_000
    assert ledger.playout_end_s(2.5) == pytest.approx(3.0)


def test_an_ack_replaces_the_clock_and_lower_ones_are_ignored() -> None:
    ledger = spoken()
    ledger.acknowledged(1.0)
    ledger.acknowledged(0.5)
    assert ledger.played(3.0) == Played(24_000, "ack")
    assert not ledger.is_clock_running(0.1)


def test_an_ack_counts_no_more_than_was_sent() -> None:
    ledger = spoken()
    ledger.acknowledged(1e300)
    assert ledger.played(0.0).samples == 72_000


@pytest.mark.parametrize(("played_s", "is_clamped"), [(2.9, False), (3.0, False), (3.0004, False), (3.5, True)])
def test_a_report_beyond_what_was_sent_is_clamped_and_said_so(played_s: float, is_clamped: bool) -> None:
    played, was_clamped = spoken().reported(played_s)
    assert played.source == "client"
    assert played.samples <= 72_000
    assert was_clamped is is_clamped


def test_words_appear_at_the_output_rate_with_their_input_verbatim() -> None:
    ledger = Ledger(SampleMap(RATE_HZ, 8000))
    ledger.received("One two")
    (word,) = ledger.spoken((WordTiming(4, 7, 24_000, 30_000),))
    assert (word.text, word.start_sample, word.end_sample) == ("two", 8000, 10_000)


@given(st.integers(0, 72_000), st.sampled_from([8000, 16000, 24000, 44100, 48000]))
def test_spoken_and_remaining_make_up_the_input(played: int, rate_hz: int) -> None:
    ledger = spoken(samples=SampleMap(RATE_HZ, rate_hz))
    heard = ledger.heard(min(played, ledger.sent_samples))
    assert ledger.text[: heard.chars] + ledger.text[heard.chars :] == "One two three."
    assert 0 <= heard.engine_samples <= 72_000


@given(st.lists(st.tuples(st.floats(0, 2), st.integers(0, 20_000)), max_size=20))
def test_played_never_falls_and_never_exceeds_what_was_sent(steps: list[tuple[float, int]]) -> None:
    ledger, now_s, last = Ledger(SAME_RATE), 0.0, 0
    for wait_s, samples in steps:
        now_s += wait_s
        ledger.sent(samples, now_s, now_s)
        played = ledger.played(now_s).samples
        assert last <= played <= ledger.sent_samples
        last = played
