from __future__ import annotations

from gateway.text.words import MAX_MARKS, MAX_RAW_CHARS, MAX_WORD_CHARS
from tests.gateway.text.driving import check_spans, reading_of, release, segments_of


def test_a_word_longer_than_a_segment_is_said_in_pieces_and_nothing_is_lost() -> None:
    text = "ab" * 400
    released = release([text])
    check_spans(released, text)
    assert "".join(segment.text for segment in segments_of(released)) == text


def test_a_word_is_never_cut_inside_a_grapheme() -> None:
    text = "नि" * 300
    for segment in segments_of(release([text])):
        assert not segment.text.startswith("ि")


def test_a_thai_vowel_written_first_stays_with_its_consonant() -> None:
    text = "เก" * 200
    for segment in segments_of(release([text])):
        assert not segment.text.endswith("เ")


def test_accents_without_end_are_scribble() -> None:
    text = "क" + "\u0903" * 5000
    assert len(reading_of(release([text])).segments[0]) <= MAX_MARKS + 1


def test_a_space_that_does_not_break_is_inside_a_word() -> None:
    assert reading_of(release(["10\u00a0000 km"])).segments == ["10 000 km"]


def test_a_dash_ends_a_clause_without_spaces_too() -> None:
    assert reading_of(release(["I think so—no, I know it."])).segments[0] == "I think so—"


def test_what_has_no_space_for_very_long_is_looked_at_in_pieces() -> None:
    text = "a_" * MAX_RAW_CHARS
    released = release([text])
    check_spans(released, text)
    assert max(len(segment.text) for segment in segments_of(released)) <= 280 + MAX_WORD_CHARS


def test_a_face_of_kana_is_not_spoken() -> None:
    assert reading_of(release(["¯\\_(ツ)_/¯ ok"])).segments == ["ok"]
