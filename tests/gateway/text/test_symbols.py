from __future__ import annotations

import pytest

from gateway.text import symbols


def test_typographic_marks_become_one_code_point_each() -> None:
    assert all(len(plain) == 1 for plain in symbols.TYPOGRAPHIC.values())


def test_endings_are_in_lower_case() -> None:
    for table in (symbols.TOP_LEVEL_DOMAINS, symbols.DOUBTFUL_DOMAINS, symbols.FILE_ENDINGS):
        assert all(word == word.lower() for word in table)
    assert symbols.DOUBTFUL_DOMAINS <= symbols.TOP_LEVEL_DOMAINS


@pytest.mark.parametrize(
    "face", [":)", ":-(", ";D", "=)", ":'(", "<3", "</3", "^_^", "-_-", "T_T", "o_O", ">:(", "8-)", ":P!"]
)
def test_faces_are_known(face: str) -> None:
    assert symbols.EMOTICON.fullmatch(face)


@pytest.mark.parametrize("text", ["8)", "D:", "a)", "1:", "=3", "x)", "(a)", "5:30", ":", "=", "<", "I", "3<"])
def test_what_is_no_face_is_left_alone(text: str) -> None:
    assert not symbols.EMOTICON.fullmatch(text)
