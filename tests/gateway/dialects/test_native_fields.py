"""The native dialect's fields: every check, with the value and the limit in its refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.speech import Sampling
from gateway.dialects.native_fields import MAX_LEXICON_WORDS, MESSAGES, fields_of, read_fields
from gateway.errors import ClientError, ErrorCode


def read(message: dict[str, Any]) -> dict[str, Any]:
    kind = message.pop("type", None)
    return read_fields(message, fields_of(kind))


@pytest.mark.parametrize("kind", ["sing", 3, None, ["open"]])
def test_an_unknown_type_is_refused_with_those_that_are_known(kind: object) -> None:
    with pytest.raises(ClientError, match="known: open, text") as caught:
        fields_of(kind)
    assert caught.value.code is ErrorCode.UNKNOWN_TYPE


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_message_needs_its_required_fields_and_takes_no_others(kind: str) -> None:
    required, _ = MESSAGES[kind]
    if required:
        with pytest.raises(ClientError, match="is missing") as caught:
            read({"type": kind})
        assert caught.value.code is ErrorCode.MISSING_FIELD
    with pytest.raises(ClientError, match="unknown field force") as caught:
        read({"type": kind, "force": 1})
    assert caught.value.code is ErrorCode.UNKNOWN_FIELD


@pytest.mark.parametrize(
    ("message", "code", "words"),
    [
        ('{"type": "end"}', ErrorCode.MISSING_FIELD, "utterance"),
        ('{"type": "text", "utterance": "u"}', ErrorCode.MISSING_FIELD, "text"),
        ('{"type": "end", "utterance": "u", "force": 1}', ErrorCode.UNKNOWN_FIELD, "force"),
        ('{"type": "open", "utterance": "u", "sampling": {"top": 1}}', ErrorCode.UNKNOWN_FIELD, "sampling.top"),
        ('{"type": "end", "utterance": ""}', ErrorCode.BAD_VALUE, "0 characters"),
        ('{"type": "end", "utterance": "%s"}' % ("x" * 65), ErrorCode.BAD_VALUE, "65 characters"),
        ('{"type": "end", "utterance": 5}', ErrorCode.BAD_VALUE, "5"),
        ('{"type": "open", "utterance": "u", "seed": -1}', ErrorCode.BAD_VALUE, "-1"),
        ('{"type": "open", "utterance": "u", "seed": 9007199254740992}', ErrorCode.BAD_VALUE, "9007199254740992"),
        ('{"type": "open", "utterance": "u", "seed": true}', ErrorCode.BAD_VALUE, "True"),
        ('{"type": "open", "utterance": "u", "speed": 0}', ErrorCode.BAD_VALUE, "above 0"),
        ('{"type": "open", "utterance": "u", "speed": "fast"}', ErrorCode.BAD_VALUE, "fast"),
        ('{"type": "open", "utterance": "u", "speed": 1e999}', ErrorCode.BAD_VALUE, "inf"),
        ('{"type": "open", "utterance": "u", "words": 1}', ErrorCode.BAD_VALUE, "true or false"),
        ('{"type": "open", "utterance": "u", "segmentation": "none"}', ErrorCode.BAD_VALUE, "manual"),
        ('{"type": "open", "utterance": "u", "sampling": {"top_p": 0}}', ErrorCode.BAD_VALUE, "top_p"),
        ('{"type": "open", "utterance": "u", "sampling": 1}', ErrorCode.BAD_VALUE, "map"),
        ('{"type": "ack", "utterance": "u", "played_ms": -1}', ErrorCode.BAD_VALUE, "-1"),
        ('{"type": "ack", "utterance": "u", "played_ms": %s}' % ("9" * 400), ErrorCode.BAD_VALUE, "played_ms"),
        ('{"type": "config", "max_ahead_ms": 0}', ErrorCode.BAD_VALUE, "max_ahead_ms"),
        ('{"type": "config", "lexicon": {"": "x"}}', ErrorCode.BAD_VALUE, "lexicon"),
        ('{"type": "flush", "utterance": "u", "id": [1]}', ErrorCode.BAD_VALUE, "id"),
        ('{"type": "ping", "id": "%s"}' % ("x" * 65), ErrorCode.BAD_VALUE, "65"),
    ],
)
def test_a_bad_value_is_refused_and_named(message: str, code: ErrorCode, words: str) -> None:
    with pytest.raises(ClientError) as caught:
        read(json.loads(message))
    assert caught.value.code is code
    assert words in caught.value.message


def test_numbers_come_as_floats_and_sampling_as_one_value() -> None:
    values = read({"type": "open", "utterance": "u", "speed": 1, "sampling": {"top_k": 5, "top_p": None}})
    assert values == {"utterance": "u", "speed": 1.0, "sampling": Sampling(None, None, 5)}
    assert isinstance(values["speed"], float)


def test_a_lexicon_has_a_bound() -> None:
    many = {f"word{number}": "x" for number in range(MAX_LEXICON_WORDS + 1)}
    with pytest.raises(ClientError, match="at most 1,000"):
        read({"type": "config", "lexicon": many})
