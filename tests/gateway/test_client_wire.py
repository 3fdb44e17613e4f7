"""The client's reading of server messages: both encodings, and refusal of what is not the protocol's."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.client_wire import AUDIO_HEADER, AudioFrame, AudioMessage, MessageCodec, OtherMessage, ProtocolError, Wire

DONE = {"type": "done", "utterance": "a", "reason": "complete", "audio_ms": 1, "audio_samples": 24, "chars": 1}


def header(seq: int, flags: int = 0, version: int = 1) -> bytes:
    return AUDIO_HEADER.pack(version, 1, 5, seq, 960, flags, 0)


def test_a_binary_message_is_a_header_and_a_payload() -> None:
    message = MessageCodec("json").decode(header(1, flags=5) + b"abcd")
    assert message == AudioMessage(5, AudioFrame(960, b"abcd", is_first=True, is_last=False, is_segment_end=True))


def test_the_header_is_laid_out_as_the_protocol_page_says() -> None:
    raw = bytes([1, 1, 5, 0, 1, 0, 0, 0, 192, 3, 0, 0, 2, 0, 0, 0])
    message = MessageCodec("json").decode(raw)
    assert message == AudioMessage(5, AudioFrame(960, b"", is_first=False, is_last=True, is_segment_end=False))


def test_a_missing_message_is_noticed_by_its_seq() -> None:
    codec = MessageCodec("json")
    codec.decode(header(1))
    codec.decode(json.dumps({"type": "pong", "seq": 2}))
    with pytest.raises(ProtocolError, match="missing"):
        codec.decode(header(4))


def test_seq_goes_round_after_its_32_bits() -> None:
    codec = MessageCodec("json")
    codec.decode(header(2**32 - 1))
    codec.decode(header(0))


def test_an_unknown_type_is_skipped_but_counted() -> None:
    codec = MessageCodec("json")
    assert codec.decode(json.dumps({"type": "news", "seq": 1, "more": [1]})) == OtherMessage("news")
    with pytest.raises(ProtocolError):
        codec.decode(header(3))


@pytest.mark.parametrize(
    "message",
    ["", "[]", "null", "{}", '{"type":"done","seq":1}', '{"type":"pong"}', b"", b"\x01\x01", header(1, version=2)],
)
def test_what_is_not_the_protocol_is_a_protocol_error(message: str | bytes) -> None:
    with pytest.raises(ProtocolError):
        MessageCodec("json").decode(message)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["ready", "started", "audio", "words", "done", "cancelled", "flushed", "warning", "error", "x"])


@given(st.sampled_from(["json", "msgpack"]), st.one_of(st.binary(max_size=40), st.text(max_size=40)))
def test_any_bytes_give_a_message_or_a_protocol_error(wire: Wire, message: str | bytes) -> None:
    with contextlib.suppress(ProtocolError):
        MessageCodec(wire).decode(message)


@given(TYPES, st.dictionaries(st.sampled_from([*DONE, "seq", "words", "data", "limits", "metrics", "flags"]), VALUES))
def test_any_fields_give_a_message_or_a_protocol_error(kind: str, fields: dict[str, Any]) -> None:
    with contextlib.suppress(ProtocolError):
        MessageCodec("json").decode(json.dumps({**fields, "type": kind}))


def test_msgpack_carries_what_json_cannot_only_where_it_can_be_mended() -> None:
    codec = MessageCodec("msgpack")
    joined = codec.encode({"type": "text", "text": "a\ud83d\ude00\ud83d"})
    assert isinstance(joined, bytes)
    assert msgpack.unpackb(joined) == {"type": "text", "text": "a\U0001f600\ufffd"}
