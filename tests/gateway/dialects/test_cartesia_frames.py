"""Cartesia's frames."""

from __future__ import annotations

import base64

from gateway.dialects.cartesia_frames import ERRORS, chunk_fields, error_fields, words_fields
from gateway.errors import ErrorCode
from gateway.events import Audio, Failed, Word, Words


def test_a_chunk_is_base64_and_never_done() -> None:
    fields = chunk_fields(Audio("a", 0, 0, 2, b"\1\0\2\0", 24000))
    assert base64.b64decode(fields["data"]) == b"\1\0\2\0"
    assert (fields["type"], fields["done"], fields["status_code"]) == ("chunk", False, 206)


def test_words_are_seconds() -> None:
    fields = words_fields(Words("a", (Word("Hi", 0, 2, 2400, 4800, "!"),), 24000))
    assert fields["word_timestamps"] == {"words": ["Hi!"], "start": [0.1], "end": [0.2]}


def test_an_error_is_never_done_since_one_client_takes_that_for_a_normal_end() -> None:
    for code in ErrorCode:
        fields = error_fields(Failed(code, "why"))
        assert (fields["type"], fields["done"], fields["error"], fields["message"]) == ("error", False, "why", "why")
        assert (fields["status_code"], fields["error_code"]) == ERRORS[code]
