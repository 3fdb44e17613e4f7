"""Estimated words: in every script, in order, inside the audio, all of them by the block's end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")  # engine.runtime is only ever loaded with it
from engine.runtime.word_estimate import WordEstimator, total_weight, word_weights
from engine.speech import Segment, Span


def segment(text: str) -> Segment:
    return Segment.verbatim(text, "sentence")


def words(text: str) -> list[str]:
    return [text[word.start_char : word.end_char] for word in word_weights(segment(text))]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Hello, don't stop!", ["Hello", "don't", "stop"]),
        ("Well-known 3.14", ["Well-known", "3", "14"]),
        ("你好，世界。", ["你", "好", "世", "界"]),
        ("mit Gößen", ["mit", "Gößen"]),
        ("مرحبا بك", ["مرحبا", "بك"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("ok你好ok", ["ok", "你", "好", "ok"]),
        ("", []),
        (" ... ", []),
    ],
)
def test_words_of_a_text(text: str, wanted: list[str]) -> None:
    assert words(text) == wanted


def test_thai_marks_stay_with_their_letter() -> None:
    assert words("ที่นี่") == ["ที่", "นี่"]


@pytest.mark.parametrize(("word", "syllables"), [("banana", 3), ("I", 1), ("straight", 1), ("rhythm", 1), ("Übung", 2)])
def test_a_words_weight_is_about_its_syllables(word: str, syllables: int) -> None:
    assert word_weights(segment(word))[0].weight == syllables


def test_a_sentence_end_weighs_more_than_a_comma_and_that_more_than_a_space() -> None:
    first, second, third, _ = word_weights(segment("one, two. three four"))
    assert second.pause > first.pause > third.pause == 0


def test_words_that_came_from_one_stretch_of_input_are_one() -> None:
    text = "five dollars now"
    sources = (*[Span(0, 2)] * 12, *(Span(i, i + 1) for i in range(2, 6)))
    found = word_weights(Segment(text, Span(0, 6), sources, "sentence"))
    assert [(word.start_char, word.end_char) for word in found] == [(0, 2), (3, 6)]


@given(
    text=st.text(st.sampled_from("abc ,.你好ไทยعر9'-"), max_size=40),
    windows=st.lists(st.integers(0, 20_000), min_size=1, max_size=8),
    rate=st.floats(10, 10_000),
)
@settings(max_examples=150, deadline=None)
def test_every_word_comes_once_in_order_and_inside_the_audio(text: str, windows: list[int], rate: float) -> None:
    weights = word_weights(segment(text))
    estimator = WordEstimator(weights, rate)
    samples, timings = 0, []
    for index, size in enumerate(windows):
        samples += size
        new = estimator.advance(samples, is_block_end=index == len(windows) - 1)
        assert all(word.end_sample <= samples for word in new)
        timings += new
    assert [(t.start_char, t.end_char) for t in timings] == [(w.start_char, w.end_char) for w in weights]
    places = [place for t in timings for place in (t.start_sample, t.end_sample)]
    assert places == sorted(places)


def test_what_is_left_at_the_end_fills_the_audio_in_proportion() -> None:
    estimator = WordEstimator(word_weights(segment("banana boat")), samples_per_weight=1e9)
    first, second = estimator.advance(4000, is_block_end=True)
    assert (first.start_sample, first.end_sample, second.end_sample) == (0, 3000, 4000)


def test_the_rate_moves_towards_what_a_block_took() -> None:
    weights = word_weights(segment("banana boat"))
    assert total_weight(weights) == 4
    assert WordEstimator(weights, 1000.0).learned_rate(8000) == 1500.0
    assert WordEstimator((), 1000.0).learned_rate(8000) == 1000.0
