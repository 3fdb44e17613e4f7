"""Standard input as it comes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.commands.outcome import CommandError
from gateway.commands.text_input import read_text

TEXT = "Zoë: 日本語 and \U0001f600!"


async def collected(descriptor: int) -> list[str]:
    return [piece async for piece in read_text(descriptor)]


@pytest.mark.parametrize("cut", range(1, len(TEXT.encode())))
async def test_a_character_cut_anywhere_is_put_together(cut: int) -> None:
    reading, writing = os.pipe()
    pieces = read_text(reading)
    raw = TEXT.encode()
    os.write(writing, raw[:cut])
    received = ""
    expected = raw[:cut].decode(errors="ignore")
    while len(received) < len(expected):
        received += await anext(pieces)
    assert received == expected
    os.write(writing, raw[cut:])
    os.close(writing)
    async for piece in pieces:
        received += piece
    assert received == TEXT
    os.close(reading)


async def test_a_piece_is_given_before_the_input_ends() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"early")
    pieces = read_text(reading)
    assert await anext(pieces) == "early"
    os.close(writing)
    assert [piece async for piece in pieces] == []
    os.close(reading)


async def test_a_file_larger_than_what_is_read_ahead_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("é" * 500_000, encoding="utf-8")
    with path.open("rb") as file:
        assert "".join(await collected(file.fileno())) == "é" * 500_000


async def test_no_input_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open("rb") as file:
        assert await collected(file.fileno()) == []


@pytest.mark.parametrize(("raw", "place"), [(b"ab\xff", "byte 2"), (b"abc\xc3", "byte 3"), (b"\xe9t\xe9", "byte 0")])
async def test_what_is_not_utf_8_is_named_with_its_place(tmp_path: Path, raw: bytes, place: str) -> None:
    (tmp_path / "latin").write_bytes(raw)
    with (tmp_path / "latin").open("rb") as file, pytest.raises(CommandError, match=place):
        await collected(file.fileno())


async def test_what_stands_before_a_bad_byte_is_still_given(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"good\xff")
    with (tmp_path / "latin").open("rb") as file:
        pieces = read_text(file.fileno())
        assert await anext(pieces) == "good"
        with pytest.raises(CommandError):
            await anext(pieces)
