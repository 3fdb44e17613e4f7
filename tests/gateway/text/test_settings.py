from __future__ import annotations

from pathlib import Path

from gateway.text.settings import TextSettings


def test_the_page_on_tags_gives_the_waits_and_lengths_that_hold() -> None:
    page = " ".join((Path(__file__).parents[3] / "docs" / "tags.md").read_text("utf-8").split())
    given = TextSettings()
    for said in (
        f"after {given.first_max_words} words or {given.first_wait_s:g} s (the first)",
        f"{given.max_wait_s:g} s or {given.max_chars} characters (later ones)",
        f"after {given.terminator_wait_s:g} s, behind a digit after {given.number_wait_s:g} s",
        f"with nothing behind it after {given.word_wait_s:g} s",
        f"text after {given.unclosed_tag_wait_s:g} s without its end",
        f"beyond {given.max_tag_chars} characters",
        f"as text after {given.unclosed_fence_wait_s:g} s without new text",
        f"from {given.max_fence_chars} characters on",
    ):
        assert said in page


def test_later_segments_are_meant_to_be_larger() -> None:
    given = TextSettings()
    assert given.second_min_chars < given.target_chars < given.max_chars
