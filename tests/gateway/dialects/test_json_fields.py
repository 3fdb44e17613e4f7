"""Lenient reading of vendors' JSON."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.json_fields import MAX_ID_CHARS, Fields, read_fields, wire
from gateway.errors import ClientError, ErrorCode

FIELDS = Fields(
    {"text": "a", "null": None, "flag": True, "number": 1.5, "whole": "24000", "map": {"x": 1}, "list": [1]}
)


def test_absent_and_null_are_the_same() -> None:
    for name in ("null", "absent"):
        assert FIELDS.text(name) is FIELDS.number(name) is FIELDS.integer(name) is None
        assert FIELDS.flag(name) is False
        assert FIELDS.items(name) == []
        assert not FIELDS.fields(name).has("x")
        assert not FIELDS.has(name)


def test_values_come_in_their_types() -> None:
    assert (FIELDS.text("text"), FIELDS.flag("flag"), FIELDS.number("number")) == ("a", True, 1.5)
    assert FIELDS.integer("whole") == 24000
    assert FIELDS.fields("map").integer("x") == 1
    assert FIELDS.items("list") == FIELDS.raw("list") == [1]
    assert FIELDS.require("text") == "a"


@pytest.mark.parametrize(
    ("method", "name"),
    [("text", "flag"), ("flag", "text"), ("number", "flag"), ("number", "text"), ("integer", "number"),
     ("fields", "list"), ("items", "map"), ("identifier", "map")],
)  # fmt: skip
def test_a_wrong_type_is_refused_with_field_and_value(method: str, name: str) -> None:
    with pytest.raises(ClientError, match=f"{name} is .*, must be") as refused:
        getattr(FIELDS, method)(name)
    assert refused.value.code is ErrorCode.BAD_VALUE


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 10**400, -(10**400)])
def test_a_number_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(ClientError):
        Fields({"n": value}).number("n")


def test_nested_names_are_told_in_full() -> None:
    with pytest.raises(ClientError, match=r"a\.b\.c is 'x', must be a number"):
        Fields({"a": {"b": {"c": "x"}}}).fields("a").fields("b").number("c")
    with pytest.raises(ClientError, match=r"field a\.b is missing"):
        Fields({"a": {}}).fields("a").require("b")


def test_an_identifier_has_a_length() -> None:
    with pytest.raises(ClientError, match=f"at most {MAX_ID_CHARS}"):
        Fields({"id": "x" * (MAX_ID_CHARS + 1)}).identifier("id")


@pytest.mark.parametrize("message", ["", "{", "[]", "3", b"\xff", "[" * 100_000, "null"])
def test_what_is_no_object_is_a_bad_message(message: str | bytes) -> None:
    with pytest.raises(ClientError) as refused:
        read_fields(message, 1_000_000)
    assert refused.value.code is ErrorCode.BAD_MESSAGE


def test_bytes_are_read_like_text() -> None:
    assert read_fields('{"text":"ä"}'.encode(), 100).text("text") == "ä"


@pytest.mark.parametrize("message", ['"' + "x" * 98 + '"', '"' + "ä" * 60 + '"', b"{" * 101])
def test_a_message_over_the_limit_is_refused_before_it_is_read(message: str | bytes) -> None:
    with pytest.raises(ClientError) as refused:
        read_fields(message, 99)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_BIG


def test_the_wire_form_is_compact() -> None:
    assert wire({"a": [1, "ü"]}) == '{"a":[1,"\\u00fc"]}'
