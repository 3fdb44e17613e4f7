"""The native dialect: every field rule, every error, both wires."""

from __future__ import annotations

import base64
import json
import struct
from contextlib import suppress
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.speech import Sampling
from gateway.dialects.base import Handshake
from gateway.dialects.native import JSON_SUBPROTOCOL, MSGPACK_SUBPROTOCOL, NativeDialect
from gateway.dialects.native_frames import message_of
from gateway.errors import ClientError, ErrorCode, WarningCode
from gateway.events import (
    UNSET,
    Acknowledge,
    Audio,
    Cancel,
    Configure,
    EndText,
    Flush,
    Flushed,
    OpenUtterance,
    Ping,
    Pong,
    Resume,
    TextFragment,
    UtteranceOptions,
    Warned,
)

LIMIT_BYTES = 4096


def dialect(subprotocol: str | None = None) -> NativeDialect:
    offered = () if subprotocol is None else (subprotocol,)
    return NativeDialect(Handshake("/antiphon/v1/speak", {}, {}, {}, offered), LIMIT_BYTES)


def receive(message: dict[str, Any]) -> list[Any]:
    return dialect().receive(json.dumps(message))


def refusal(message: str | bytes, subprotocol: str | None = None) -> ClientError:
    with pytest.raises(ClientError) as caught:
        dialect(subprotocol).receive(message)
    return caught.value


AUDIO = Audio("u", 7, 480, 3, b"\x01\x02\x03\x04\x05\x06", 24000, is_first=True, is_segment_end=True)


def test_a_full_open_becomes_one_event_with_every_option() -> None:
    assert receive(
        {
            "type": "open",
            "utterance": "u",
            "lane": "side",
            "voice": "heart",
            "format": "mulaw",
            "sample_rate_hz": 8000,
            "speed": 1.25,
            "seed": 2**53 - 1,
            "language": "en",
            "words": False,
            "segmentation": "manual",
            "sampling": {"temperature": 0.8, "top_p": 0.9, "top_k": 50},
        }
    ) == [
        OpenUtterance(
            "u",
            "side",
            UtteranceOptions("heart", "mulaw", 8000, 1.25, 2**53 - 1, "en", Sampling(0.8, 0.9, 50)),
            False,
            "manual",
        )
    ]


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ({"type": "open", "utterance": "u"}, OpenUtterance("u")),
        ({"type": "text", "utterance": "u", "text": ""}, TextFragment("u", "")),
        ({"type": "text", "utterance": "u", "text": "\ud83d"}, TextFragment("u", "\ud83d")),
        ({"type": "flush", "utterance": "u"}, Flush("u")),
        ({"type": "flush", "utterance": "u", "id": 3}, Flush("u", 3)),
        ({"type": "end", "utterance": "u"}, EndText("u")),
        ({"type": "cancel"}, Cancel()),
        ({"type": "cancel", "utterance": "u", "played_ms": 1500}, Cancel("u", 1.5)),
        ({"type": "ack", "utterance": "u", "played_ms": 20.5}, Acknowledge("u", 0.0205)),
        ({"type": "resume", "resume_token": "t", "last_seq": 9}, Resume("t", 9)),
        ({"type": "ping"}, Ping()),
        ({"type": "ping", "id": "x"}, Ping("x")),
        ({"type": "config"}, Configure()),
        (
            {"type": "config", "max_ahead_ms": None, "seed": None, "audio": "base64", "resume_ms": 0},
            Configure(max_ahead_s=None, seed=None, audio_encoding="base64", resume_s=0.0),
        ),
        ({"type": "config", "max_ahead_ms": 500}, Configure(max_ahead_s=0.5)),
        ({"type": "config", "lexicon": {"SQL": "sequel"}}, Configure(lexicon={"SQL": "sequel"})),
    ],
)
def test_each_message_becomes_its_event(message: dict[str, Any], event: Any) -> None:
    assert receive(message) == [event]


def test_a_config_leaves_unnamed_settings_unset() -> None:
    (event,) = receive({"type": "config", "voice": "heart"})
    assert event == Configure(voice="heart")
    assert event.speed is UNSET


@pytest.mark.parametrize(
    ("message", "code", "words"),
    [
        ("{", ErrorCode.BAD_MESSAGE, "not json"),
        ("[]", ErrorCode.BAD_MESSAGE, "list"),
        ("null", ErrorCode.BAD_MESSAGE, "NoneType"),
        ('{"type": "ping", "id": NaN}', ErrorCode.BAD_MESSAGE, "NaN"),
        ("[" * 100_0, ErrorCode.BAD_MESSAGE, "not json"),
        (b"{}", ErrorCode.BAD_MESSAGE, "binary"),
        ("{}", ErrorCode.MISSING_FIELD, "type"),
        ('{"type": "sing"}', ErrorCode.UNKNOWN_TYPE, "sing"),
        ('{"type": 3}', ErrorCode.UNKNOWN_TYPE, "3"),
        ('{"type": ["open"]}', ErrorCode.UNKNOWN_TYPE, "open"),
        ('{"type": "end"}', ErrorCode.MISSING_FIELD, "utterance"),
        ('{"type": "end", "utterance": "u", "force": 1}', ErrorCode.UNKNOWN_FIELD, "force"),
        ('{"type": "open", "utterance": "u", "speed": "fast"}', ErrorCode.BAD_VALUE, "fast"),
        ('{"type": "cancel", "played_ms": 1}', ErrorCode.MISSING_FIELD, "utterance"),
    ],
)
def test_bad_input_is_refused_with_the_value_named(message: str | bytes, code: ErrorCode, words: str) -> None:
    error = refusal(message)
    assert error.code is code
    assert words in error.message


def test_a_value_nested_without_end_is_refused_like_any_other() -> None:
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    for field in ("speed", "utterance", "sampling", "id"):
        message = {"type": "open", "utterance": "u", field: deep}
        assert refusal(msgpack.packb(message), MSGPACK_SUBPROTOCOL).code in (
            ErrorCode.BAD_VALUE,
            ErrorCode.UNKNOWN_FIELD,
            ErrorCode.BAD_MESSAGE,
        )


def test_a_refused_open_says_so_and_other_refusals_do_not() -> None:
    assert refusal('{"type": "open", "utterance": "u", "speed": "fast"}').is_refused_open
    assert not refusal('{"type": "end", "utterance": "u", "force": 1}').is_refused_open


def test_a_refusal_names_the_utterance_it_concerns() -> None:
    assert refusal('{"type": "end", "utterance": "u", "force": 1}').utterance == "u"


def test_a_message_over_the_limit_is_refused_with_both_sizes() -> None:
    error = refusal(json.dumps({"type": "text", "utterance": "u", "text": "x" * LIMIT_BYTES}))
    assert error.code is ErrorCode.MESSAGE_TOO_BIG
    assert f"{LIMIT_BYTES:,}" in error.message


def test_the_limit_counts_bytes_not_characters() -> None:
    message = json.dumps({"type": "text", "utterance": "u", "text": "語" * (LIMIT_BYTES // 2)}, ensure_ascii=False)
    assert len(message) < LIMIT_BYTES
    assert refusal(message).code is ErrorCode.MESSAGE_TOO_BIG


@pytest.mark.parametrize("cut", range(1, 4))
def test_msgpack_bytes_may_cut_a_character_anywhere(cut: int) -> None:
    wire = dialect(MSGPACK_SUBPROTOCOL)
    data = "😀".encode()
    events = [
        event
        for part in (data[:cut], data[cut:])
        for event in wire.receive(msgpack.packb({"type": "text", "utterance": "u", "text": part}))
    ]
    assert "".join(event.text for event in events) == "😀"


def test_half_a_character_at_the_end_becomes_one_replacement_character() -> None:
    wire = dialect(MSGPACK_SUBPROTOCOL)
    wire.receive(msgpack.packb({"type": "text", "utterance": "u", "text": "é".encode()[:1]}))
    events = wire.receive(msgpack.packb({"type": "end", "utterance": "u"}))
    assert events == [TextFragment("u", "\ufffd"), EndText("u")]


def test_msgpack_bytes_that_are_no_utf8_are_refused_and_leave_the_utterance_usable() -> None:
    wire = dialect(MSGPACK_SUBPROTOCOL)
    with pytest.raises(ClientError, match="UTF-8"):
        wire.receive(msgpack.packb({"type": "text", "utterance": "u", "text": b"a\xff"}))
    assert wire.receive(msgpack.packb({"type": "text", "utterance": "u", "text": b"b"})) == [TextFragment("u", "b")]


@pytest.mark.parametrize("message", ["text", b"\xc1", b"\x81\xa4type", b"\xdd\xff\xff\xff\xff", b""])
def test_what_is_not_msgpack_is_a_bad_message(message: str | bytes) -> None:
    assert refusal(message, MSGPACK_SUBPROTOCOL).code is ErrorCode.BAD_MESSAGE


@given(st.one_of(st.text(), st.binary()), st.sampled_from([None, JSON_SUBPROTOCOL, MSGPACK_SUBPROTOCOL]))
def test_any_message_gives_events_or_a_client_error(message: str | bytes, subprotocol: str | None) -> None:
    with suppress(ClientError):
        dialect(subprotocol).receive(message)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    ["utterance", "text", "voice", "speed", "seed", "sampling", "lexicon", "played_ms", "id", "words", "last_seq"]
)


@given(
    st.sampled_from(["open", "text", "flush", "end", "cancel", "ack", "config", "resume", "ping"]),
    st.dictionaries(FIELDS, JSON_VALUES, max_size=4),
)
def test_any_fields_give_events_or_a_client_error(kind: str, fields: dict[str, Any]) -> None:
    for wire, message in (
        (dialect(), json.dumps({"type": kind, **fields})),
        (dialect(MSGPACK_SUBPROTOCOL), None),
    ):
        try:
            wire.receive(message if message is not None else msgpack.packb({"type": kind, **fields}))
        except (OverflowError, UnicodeEncodeError):
            assert message is None  # not expressible in msgpack: the packer's limit, before our code
        except ClientError:
            pass


def test_audio_has_the_documented_sixteen_byte_header() -> None:
    (message,) = dialect().send(AUDIO)
    assert isinstance(message, bytes)
    assert struct.unpack("<BBHIIHH", message[:16]) == (1, 1, 7, 1, 480, 1 | 4, 0)
    assert message[16:] == AUDIO.payload


def test_audio_as_base64_is_a_text_message_with_the_same_content() -> None:
    (message,) = dialect().send(Audio("u", 7, 480, 3, b"\x01\x02", 24000, "base64", is_last=True))
    assert json.loads(message) == {
        "type": "audio",
        "utterance": "u",
        "seq": 1,
        "start_sample": 480,
        "flags": 2,
        "data": base64.b64encode(b"\x01\x02").decode(),
    }


def test_audio_in_msgpack_is_a_map_with_bin_data() -> None:
    (message,) = dialect(MSGPACK_SUBPROTOCOL).send(AUDIO)
    assert msgpack.unpackb(message)["data"] == AUDIO.payload


def test_seq_counts_every_message_without_gaps() -> None:
    wire = dialect()
    sent = [wire.send(event)[0] for event in (Pong(None), AUDIO, Flushed("u", None), AUDIO)]
    seqs = [
        json.loads(message)["seq"] if isinstance(message, str) else struct.unpack_from("<I", message, 4)[0]
        for message in sent
    ]
    assert seqs == [1, 2, 3, 4]


def test_both_wires_carry_the_same_map_with_its_seq() -> None:
    for event in (Pong("p"), Flushed("u", "f"), Warned(WarningCode.UNKNOWN_TAG, "m", "u", "<x>")):
        (text,) = dialect().send(event)
        (packed,) = dialect(MSGPACK_SUBPROTOCOL).send(event)
        assert json.loads(text) == msgpack.unpackb(packed) == {**message_of(event), "seq": 1}


def test_the_first_known_subprotocol_offered_is_chosen() -> None:
    chosen = NativeDialect(Handshake("", {}, {}, {}, ("chat", MSGPACK_SUBPROTOCOL, JSON_SUBPROTOCOL)), LIMIT_BYTES)
    assert chosen.subprotocol == MSGPACK_SUBPROTOCOL
    assert dialect().subprotocol is None
