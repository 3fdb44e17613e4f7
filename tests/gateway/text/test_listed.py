from __future__ import annotations

from gateway.text.listed import listed


def test_words_are_listed_in_order() -> None:
    assert listed(" b\n  a ") == ("b", "a")
