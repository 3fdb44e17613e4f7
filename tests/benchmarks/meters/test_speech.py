"""The token stream is the text, and what is spoken of it is all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.meters.speech import Speaker, streamed_segments, tokens
from engine.models.hibari import HibariModel
from engine.speech import SpeechRequest

SENTENCES = (Path(__file__).parents[3] / "benchmarks" / "meters" / "sentences.txt").read_text("utf-8").splitlines()


def test_there_are_at_least_200_sentences_and_no_two_are_the_same() -> None:
    assert len(SENTENCES) >= 200
    assert len(set(SENTENCES)) == len(SENTENCES)


def test_tokens_joined_are_the_text() -> None:
    assert all("".join(tokens(text)) == text for text in SENTENCES)
    assert max(len(token) for token in tokens(SENTENCES[0])) <= 7


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    return Speaker(HibariModel.load())


def test_segments_of_a_stream_cover_the_text(speaker: Speaker) -> None:
    text = SENTENCES[0]
    segments = list(streamed_segments(text, speaker.model))
    assert segments[0].span.start == 0
    assert segments[-1].span.end == len(text)
    assert " ".join(segment.text for segment in segments) == text


def test_streamed_and_whole_speech_have_the_same_words(speaker: Speaker) -> None:
    text = "No problem, take your time."
    whole = speaker.whole(text, SpeechRequest("heart", 1))
    streamed = speaker.streamed(text, SpeechRequest("heart", 1))
    assert len(streamed.segments) > 1
    assert [(word.start_char, word.end_char) for word in whole.words] == [
        (word.start_char, word.end_char) for word in streamed.words
    ]
    assert len(streamed.pcm) == pytest.approx(len(whole.pcm), rel=0.15)
