from __future__ import annotations

import pytest

from engine.speech import Span
from gateway.text.front_end import TextSettings
from gateway.text.vocabulary import VALUES
from tests.gateway.text.driving import notices_of, reading_of, release, segments_of

EVERY_TAG = [f"{category}:{value}" for category in VALUES for value in sorted(VALUES[category])]


@pytest.mark.parametrize("name", EVERY_TAG)
def test_every_tag_is_recognised_wherever_it_is_cut(name: str) -> None:
    text = f"Now <|{name}|>listen."
    for cut in range(len(text) + 1):
        reading = reading_of(release([text[:cut], text[cut:]]))
        assert reading.segments == ["Now listen."]
        assert reading.controls == [f"{name}@4"]
        assert reading.notices == []


def test_a_control_knows_where_it_was_written() -> None:
    (segment,) = segments_of(release(["Hi <|emotion:awe|>you"]))
    assert segment.controls[0].span == Span(3, 18)


def test_an_unknown_tag_is_reported_once_however_often_it_comes() -> None:
    notices = notices_of(release(["<|x|>a <|x|>b <|y|>c"]))
    assert [(notice.code, notice.detail) for notice in notices] == [("unknown_tag", "<|x|>"), ("unknown_tag", "<|y|>")]
    assert notices[0].span == Span(0, 5)


def test_no_text_can_cause_notices_without_end() -> None:
    text = "".join(f"<|x{number}|>" for number in range(1000))
    assert len(notices_of(release([text]))) == 100


def test_a_state_replaced_before_any_word_is_forgotten() -> None:
    assert reading_of(release(["<|emotion:awe|><|emotion:fear|>Oh."])).controls == ["emotion:fear@0"]


def test_closing_an_element_puts_back_what_held_before() -> None:
    reading = reading_of(release(['<speed ratio="1.2"/>a <prosody rate="slow">b</prosody> c']))
    assert reading.controls == ["prosody:speed=1.2@0", "prosody:speed=0.85@2", "prosody:speed=1.2@4"]


def test_a_closing_tag_without_an_opening_one_does_nothing() -> None:
    assert reading_of(release(["a</prosody></emotion>b"])).controls == []


def test_spelled_letters_keep_their_places() -> None:
    (segment,) = segments_of(release(["<spell>AB</spell>"]))
    assert segment.text == "A B"
    assert [segment.sources[0], segment.sources[2]] == [Span(7, 8), Span(8, 9)]


def test_an_alias_points_at_the_words_it_stands_for() -> None:
    (segment,) = segments_of(release(['<sub alias="double u">W</sub>!']))
    assert segment.text == "double u!"
    assert set(segment.sources[:8]) == {Span(22, 23)}


def test_an_entity_points_at_all_of_itself() -> None:
    (segment,) = segments_of(release(["a&amp;b"]))
    assert segment.text == "a&b"
    assert segment.sources[1] == Span(1, 6)


@pytest.mark.parametrize(
    "opening", ["<|", "<b ", "<!-- ", "[", "(", "*", "`", "&", "<sub alias='x'>", "[a](", "<script>"]
)
def test_what_is_never_closed_is_text_at_the_end(opening: str) -> None:
    assert "banana" in " ".join(reading_of(release([f"Say {opening}banana"])).segments)


@pytest.mark.parametrize("opening", ["<|", "<b x='", "<!-- ", "[", "(", "*", "`", "<sub alias='x'>", "[a]("])
def test_what_is_too_long_for_a_tag_is_text_without_waiting(opening: str) -> None:
    settings = TextSettings()
    text = f"{opening}{'banana ' * 800}"
    assert len(text) > max(settings.max_tag_chars, settings.max_link_chars, 4096)
    assert " ".join(reading_of(release([text])).segments).count("banana") == 800


def test_a_terminals_colours_are_not_spoken() -> None:
    assert reading_of(release(["\x1b[1;31mred\x1b[0m"])).segments == ["red"]


def test_thoughts_are_not_spoken() -> None:
    assert reading_of(release(["<think>He wants. " + "x " * 5000 + "</think>Hello."])).segments == ["Hello."]
