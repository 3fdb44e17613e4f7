from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.text.scalars import ScalarJoiner


def joined(pieces: list[str]) -> str:
    joiner = ScalarJoiner()
    return "".join(joiner.feed(piece) for piece in pieces) + joiner.finish()


def test_a_pair_cut_over_two_strings_is_one_code_point() -> None:
    assert joined(["a\ud83d", "\ude00b"]) == "a😀b"


def test_a_pair_inside_one_string_is_joined_too() -> None:
    assert joined(["\ud83d\ude00"]) == "😀"


def test_a_lone_half_becomes_a_replacement_character() -> None:
    for pieces in (["\ud83d"], ["\ude00"], ["\ud83d", "x"], ["x\ude00"], ["\ud83d", "\ud83d", "\ude00"]):
        text = joined(pieces)
        assert "\ufffd" in text
        assert not any("\ud800" <= char <= "\udfff" for char in text)


def test_a_joiner_can_be_fed_on_after_a_flush() -> None:
    joiner = ScalarJoiner()
    assert joiner.feed("\ud83d") == ""
    assert joiner.finish() == "\ufffd"
    assert joiner.feed("ok") == "ok"


@given(st.text(), st.integers(0, 50))
def test_code_units_cut_anywhere_give_the_text(text: str, cut: int) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    halves = [units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]
    assert joined(["".join(halves[:cut]), "".join(halves[cut:])]) == joined([text])
