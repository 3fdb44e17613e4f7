"""The native dialect's server messages as maps."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gateway.dialects.native_frames import error_body, message_of
from gateway.errors import ErrorCode, WarningCode
from gateway.events import (
    Audio,
    Cancelled,
    Done,
    Failed,
    Flushed,
    Pong,
    ServerEvent,
    Started,
    UtteranceMetrics,
    Warned,
    Word,
    Words,
)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            Started("u", 3, "heart", "opus", 48000, 5, "exact", 312),
            {
                "type": "started",
                "utterance": "u",
                "number": 3,
                "voice": "heart",
                "format": "opus",
                "sample_rate_hz": 48000,
                "seed": 5,
                "word_timing": "exact",
                "pre_skip_samples": 312,
            },
        ),
        (
            Words("u", (Word("Hi", 0, 2, 240, 4800),), 24000),
            {
                "type": "words",
                "utterance": "u",
                "words": [{"text": "Hi", "start_char": 0, "end_char": 2, "start_ms": 10.0, "end_ms": 200.0}],
            },
        ),
        (
            Done("u", "complete", 24000, 24000, 11, UtteranceMetrics(0.001, None, 0.25, 2)),
            {
                "type": "done",
                "utterance": "u",
                "reason": "complete",
                "audio_ms": 1000.0,
                "audio_samples": 24000,
                "chars": 11,
                "metrics": {"queue_ms": 1.0, "first_audio_ms": None, "generation_ms": 250.0, "segments": 2},
            },
        ),
        (
            Cancelled("u", False, 24000, 12000, 24000, "clock", "One ", "two."),
            {
                "type": "cancelled",
                "utterance": "u",
                "after_done": False,
                "sent_ms": 1000.0,
                "played_ms": 500.0,
                "played_source": "clock",
                "spoken_text": "One ",
                "spoken_chars": 4,
                "remaining_text": "two.",
            },
        ),
        (
            Warned(WarningCode.UNKNOWN_TAG, "m", "u", "<x>"),
            {"type": "warning", "code": "unknown_tag", "message": "m", "utterance": "u", "detail": "<x>"},
        ),
        (
            Failed(ErrorCode.CAPACITY, "full", None, True, 2.0),
            {"type": "error", "code": "capacity", "message": "full", "retryable": True, "retry_after_s": 2.0},
        ),
        (Flushed("u", "f"), {"type": "flushed", "utterance": "u", "id": "f"}),
        (Pong(None), {"type": "pong"}),
    ],
)
def test_each_event_has_its_map(event: ServerEvent, expected: dict[str, Any]) -> None:
    assert message_of(event) == expected


@pytest.mark.parametrize("code", list(ErrorCode))
def test_an_error_is_the_same_in_a_message_and_in_a_refused_request(code: ErrorCode) -> None:
    failed = Failed(code, "m", retry_after_s=2.0)
    assert message_of(failed) == error_body(failed, 400)
    assert message_of(failed)["code"] == code.value


def test_times_are_finite_milliseconds() -> None:
    message = message_of(Cancelled("u", False, 1, 1, 44100, "ack", "", "x"))
    assert math.isfinite(message["sent_ms"])


def test_audio_is_no_map_of_its_own() -> None:
    with pytest.raises(AssertionError):
        message_of(Audio("u", 0, 0, 0, b"", 24000))
