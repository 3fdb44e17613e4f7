from __future__ import annotations

import pytest

from gateway.text.front_end import TextSettings
from tests.gateway.text.driving import front_end, reading_of, release, segments_of


def spoken(text: str, settings: TextSettings | None = None) -> str:
    return " ".join(reading_of(release([text], settings)).segments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Head\ntext", "Head. text"),
        ("####### seven", "seven"),
        ("- a\n- b", "a. b"),
        ("* *it* b\n* c", "it b. c"),
        ("3. c\n4. d", "3, c. 4, d"),
        ("1984. A year", "1984. A year"),
        ("> a\n> b", "a b"),
        (">= 5 it is", "5 it is"),
        ("|a|b|\n|-|-|\n|c||", "a, b. c"),
        ("+---+\n|a|\n+---+", "a."),
        ("a\n---\nb", "a. b"),
        ("- - -\nb", "b"),
        ("-5 is cold", "-5 is cold"),
        ("- [ ] a\n- [x] b\n- [Y] c", "a. b. Y c"),
        ("```\ncode\n```\nb", "b"),
        ("````\n```\n````\nb", "b"),
        ("~~~ x\ncode\n~~~~\nb", "b"),
        ("``` a`b", "a b"),
        ("a\r\nb\rc", "a b c"),
        ("Roses are red\nViolets are blue", "Roses are red, Violets are blue"),
        ("a wrapped\nline", "a wrapped line"),
    ],
)
def test_lines(text: str, said: str) -> None:
    assert spoken(text) == said


def test_code_of_any_length_is_skipped_and_costs_no_memory() -> None:
    end = front_end()
    assert end.feed("```\n" + "x = 1\n" * 50_000, 0.0) == []
    assert reading_of(end.feed("```\nDone. ", 0.0)).segments == ["Done."]


def test_a_fence_beyond_its_limit_is_code_even_if_it_is_never_closed() -> None:
    assert spoken("Hi. \n```\n" + "x = 1\n" * 2000) == "Hi."


def test_a_fence_without_new_text_is_text_after_its_wait() -> None:
    end = front_end()
    end.feed("```py\nx", 0.0)
    end.feed("y", 2.0)
    assert end.wake_at_s == pytest.approx(2.0 + TextSettings().unclosed_fence_wait_s)
    assert reading_of(end.on_time(end.wake_at_s)).segments == ["xy"]


def test_code_is_read_line_by_line_where_that_is_wanted() -> None:
    assert spoken("```\na = 1\nb\n```\n", TextSettings(code_blocks="read")) == "a = 1. b."


def test_cells_stay_where_they_were_written() -> None:
    (segment,) = segments_of(release(["| a | b |"]))
    assert segment.text == "a, b"
    assert [segment.sources[index].start for index in (0, 1, 3)] == [2, 4, 6]
