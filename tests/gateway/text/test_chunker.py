from __future__ import annotations

import pytest

from engine.speech import Span
from gateway.text.chunker import Chunker
from gateway.text.settings import TextSettings
from tests.gateway.text.driving import reading_of, release, segments_of


def test_a_segment_ends_where_the_deciding_character_begins_or_ends() -> None:
    first, second = segments_of(release(["Hello there. How are you?"]))
    assert (first.span, second.span) == (Span(0, 13), Span(13, 25))
    assert (first.boundary, second.boundary) == ("sentence", "end")


def test_markup_behind_the_last_word_belongs_to_the_last_segment() -> None:
    (segment,) = segments_of(release(["**Hello**</b> 😀  "]))
    assert segment.span == Span(0, 17)


def test_nothing_to_speak_is_covered_by_one_empty_segment() -> None:
    (segment,) = segments_of(release([" \n<b></b> 😀 "]))
    assert (segment.text, segment.span, segment.boundary) == ("", Span(0, 12), "end")


def test_no_text_gives_no_segment() -> None:
    assert release([]) == []
    assert release([""]) == []


def test_a_first_clause_of_one_short_word_waits_for_more() -> None:
    assert reading_of(release(["Yes, I can do it."])).segments == ["Yes, I can do it."]
    assert reading_of(release(["Indeed, I can do it."])).segments[0] == "Indeed, I can do it."
    assert reading_of(release(["Certainly, I can do it."])).segments[0] == "Certainly,"


@pytest.mark.parametrize(
    "text",
    [
        "the meeting is on the 5 th of some month and costs 20 dollars a head for all of us here now",
        "we will ask for Dr. J. B. Ray and for Mrs. A. Smith and for the others who were there too",
    ],
)
def test_a_forced_cut_leaves_numbers_and_names_whole(text: str) -> None:
    for segment in reading_of(release([text])).segments[:-1]:
        last = segment.split()[-1]
        assert not last.endswith(".")
        assert not last.isdigit()
        assert last not in ("the", "a", "of", "for", "and", "will")


def test_a_forced_cut_comes_in_front_of_a_conjunction_where_there_is_one() -> None:
    text = "the quick brown fox jumps over that lazy dog and runs away again"
    assert reading_of(release([text])).segments[1].startswith("and")


def test_a_name_is_not_cut() -> None:
    text = "the answer to that is that the old Holy Roman Empire lasted very long"
    assert not any(segment.endswith(("Holy", "Roman")) for segment in reading_of(release([text])).segments)


def test_thai_without_marks_is_cut_at_its_spaces() -> None:
    text = "สวัสดีครับวันนี้อากาศดีมากเราไป สวนสาธารณะกันเถอะแล้วกลับบ้านด้วยกัน" * 6
    for segment in reading_of(release([text])).segments[:-1]:
        assert segment.endswith("ไป")


def test_chinese_without_marks_is_cut_between_phrases() -> None:
    first = reading_of(release(["我们昨天去了很大的公园看了很多漂亮的花后来在湖边吃了东西又回家了"])).segments[0]
    assert first[-1] in "的了着"


def test_a_quotation_is_not_cut_but_a_long_one_may_be() -> None:
    assert reading_of(release(['He said "One. Two. Three." Then left.'])).segments[0] == 'He said "One. Two. Three."'
    long = "He said " + '"' + "This is one sentence of the speech. " * 12
    assert max(len(segment) for segment in reading_of(release([long])).segments) <= TextSettings().max_chars


def test_a_long_sentence_is_cut_at_its_clauses() -> None:
    text = "Hello. " + "this is a clause of some length, " * 12 + "end."
    segments = reading_of(release([text])).segments
    assert all(segment.endswith((",", ".")) for segment in segments)
    assert all(len(segment) <= TextSettings().max_chars for segment in segments)


def test_a_paragraph_always_ends_a_segment() -> None:
    released = segments_of(release(["Hi.\n\nA.\n\nB."]))
    assert [segment.text for segment in released] == ["Hi.", "A.", "B."]
    assert released[1].boundary == "paragraph"


def test_a_heading_and_its_text_do_not_run_together() -> None:
    released = segments_of(release(["Go on. \n# One\nTwo is here."]))
    assert released[1].text == "One. Two is here."


def test_dense_scripts_count_for_what_they_take_to_say() -> None:
    text = "好" * 200
    assert max(len(segment.text) for segment in segments_of(release([text]))) <= TextSettings().max_chars // 3


def test_words_come_out_without_a_front_end_too() -> None:
    chunker = Chunker(TextSettings(), segmentation="auto", language=None)
    chunker.begin("H")
    chunker.word("Hi.", [0, 1, 2], [1, 2, 3])
    assert chunker.take() == []
    chunker.gap("space", 3, 4)
    (segment,) = chunker.take()
    assert segment.text == "Hi."  # type: ignore[union-attr]
