from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.speech import Segment
from gateway.text.front_end import Lexicon, Released, TextNotice, TextSettings
from tests.gateway.text.driving import check_spans, front_end, notices_of, reading_of, release, segments_of

PIECES = [
    *"ab AB 12 .,!?;: ()[]{}<>*_`~#|/\\-–—…\"'“”«»@&$%^=+\n\r\t",
    *"é好。、「」ก เ 한 ال؟ नम।😀\u200d\u200b\u0301\u202e\ufeff\x00\x1b",
    *(
        "sighs",
        "laughs",
        "<|",
        "|>",
        "emotion:anger",
        "<b>",
        "</b>",
        "```",
        "```\n",
        "https://e.org/x",
        "&amp;",
        "<!--",
    ),
    *("-->", "<sub alias='x y'>", "</sub>", "<spell>", "</spell>", "<script>", "</script>", "<prosody rate='slow'>"),
    *("</prosody>", "Dr.", "p.m.", "3.14", "1. ", "- ", "# ", "| a | b |\n", "|---|\n", "\n\n", "](http://x.y)"),
    *("[^1]", "U.S.", "No. 5", "[laughs]", "<|sfx:cough|>", "<|prosody:pause|>", "<|prosody:speed_slow|>"),
]
hostile = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
OPTIONS = st.sampled_from(
    [
        {},
        {"has_text_normalizer": False},
        {"segmentation": "manual"},
        {"unit": "word"},
        {"unit": "word", "segmentation": "manual"},
        {"language": "zh", "spoken_languages": frozenset({"zh"})},
        {"language": "fr", "spoken_languages": frozenset({"en"})},
    ]
)
TINY = TextSettings(
    first_max_words=2,
    second_min_chars=4,
    target_chars=8,
    max_chars=12,
    max_tag_chars=24,
    max_cue_chars=8,
    max_fence_chars=16,
)
"""Limits so small that every one of them is met."""


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(edges)]


@settings(max_examples=300, deadline=None)
@given(text=hostile | any_text, places=st.lists(st.integers(0, 500), max_size=6), options=OPTIONS)
def test_cutting_a_text_anywhere_gives_the_same_segments(
    text: str, places: list[int], options: dict[str, object]
) -> None:
    whole = release([text], **options)
    assert release(cut(text, places), **options) == whole
    assert release(list(text), **options) == whole


@settings(max_examples=300, deadline=None)
@given(text=hostile | any_text, options=OPTIONS)
def test_spans_tile_the_input_and_sources_ascend_within_them(text: str, options: dict[str, object]) -> None:
    check_spans(release([text], **options), text)


@settings(max_examples=200, deadline=None)
@given(text=hostile | any_text, places=st.lists(st.integers(0, 500), max_size=4))
def test_limits_that_are_met_all_the_time_break_nothing(text: str, places: list[int]) -> None:
    for options in ({}, {"segmentation": "manual"}, {"unit": "word"}):
        whole = release([text], TINY, **options)
        check_spans(whole, text)
        assert release(cut(text, places), TINY, **options) == whole


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=30), options=OPTIONS)
def test_no_code_point_at_all_raises(text: str, options: dict[str, object]) -> None:
    release([text], **options)


@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(hostile, max_size=6),
    gaps_s=st.lists(st.floats(0, 4), min_size=6, max_size=6),
    flushes=st.lists(st.booleans(), min_size=6, max_size=6),
    unit=st.sampled_from(["clause", "word"]),
)
def test_time_and_flushes_keep_spans_and_always_move_the_alarm_on(
    pieces: list[str], gaps_s: list[float], flushes: list[bool], unit: str
) -> None:
    end, now_s = front_end(unit=unit), 0.0
    released: list[Released] = []
    for piece, gap_s, is_flush in zip(pieces, gaps_s, flushes, strict=False):
        released += end.feed(piece, now_s)
        if is_flush:
            released += end.flush(now_s)
        until_s = now_s + gap_s
        while end.wake_at_s is not None and end.wake_at_s <= until_s:
            now_s = end.wake_at_s
            released += end.on_time(now_s)
            assert end.wake_at_s is None or end.wake_at_s > now_s
        now_s = until_s
    released += end.finish(now_s)
    check_spans(released, "".join(pieces))
    assert end.wake_at_s is None


@settings(max_examples=150, deadline=None)
@given(
    words=st.lists(st.text("abcdefgh", min_size=1, max_size=5), min_size=1, max_size=60),
    places=st.lists(st.integers(0, 300)),
)
def test_no_letter_is_lost_or_said_twice(words: list[str], places: list[int]) -> None:
    text = " ".join(words)
    segments = segments_of(release(cut(text, places)))
    assert " ".join(segment.text for segment in segments if segment.text) == text


@settings(max_examples=150, deadline=None)
@given(
    words=st.lists(st.sampled_from(["Hello", "it's", "3.14", "(well)", "é", "好", "no.", "Dr.", "and,"]), max_size=40)
)
def test_every_spoken_character_points_at_the_one_it_was_written_as(words: list[str]) -> None:
    text = "  **" + "**  <b> ".join(words) + "</b>"
    for segment in segments_of(release([text])):
        for char, source in zip(segment.text, segment.sources, strict=True):
            if char != " ":
                assert text[source.start : source.end] == char


@settings(max_examples=100, deadline=None)
@given(words=st.lists(st.text("abcdefgh", min_size=1, max_size=30), min_size=40, max_size=80))
def test_no_segment_is_longer_than_the_limit(words: list[str]) -> None:
    limit = TextSettings().max_chars
    assert all(len(segment.text) <= limit for segment in segments_of(release([" ".join(words)])))


def heard(released: list[Released]) -> list[str]:
    return [item.text for item in released if isinstance(item, Segment)]


def test_a_clause_goes_out_with_the_character_that_decides_it() -> None:
    end = front_end()
    assert end.feed("Hello there.", 0.0) == []
    assert heard(end.feed(" ", 0.0)) == ["Hello there."]


def test_a_full_stop_with_nothing_behind_it_waits_a_moment_only() -> None:
    end = front_end()
    end.feed("Hello there.", 1.0)
    assert end.wake_at_s == pytest.approx(1.0 + TextSettings().terminator_wait_s)
    assert heard(end.on_time(end.wake_at_s)) == ["Hello there."]


def test_a_full_stop_behind_a_digit_waits_longer_but_not_for_ever() -> None:
    end = front_end()
    end.feed("It is 3.", 0.0)
    assert end.wake_at_s == pytest.approx(TextSettings().number_wait_s)
    assert heard(end.on_time(end.wake_at_s)) == ["It is 3."]


def test_a_decimal_that_arrives_in_time_is_one_number() -> None:
    end = front_end()
    assert end.feed("It is 3.", 0.0) == []
    assert end.feed("14", 0.3) == []
    assert heard(end.feed(". Good", 0.3)) == ["It is 3.14."]


def test_text_without_punctuation_goes_out_after_the_first_wait() -> None:
    end = front_end()
    assert end.feed("the weather today is ", 0.0) == []
    released = end.on_time(TextSettings().first_wait_s)
    assert heard(released) == ["the weather today"]
    assert segments_of(released)[0].boundary == "forced"


def test_an_unfinished_last_word_is_held_until_it_can_be_taken_for_whole() -> None:
    end = front_end()
    end.feed("banana", 0.0)
    assert end.on_time(1.0) == []
    assert heard(end.on_time(TextSettings().word_wait_s)) == ["banana"]


def test_a_late_alarm_gives_the_same_as_one_in_time() -> None:
    end = front_end()
    end.feed("Hello there.", 0.0)
    assert heard(end.feed(" How", 9.0)) == ["Hello there."]


def test_a_short_sentence_waits_for_company_but_not_long() -> None:
    end = front_end()
    assert heard(end.feed("One. Two. ", 0.0)) == ["One."]
    assert end.wake_at_s == pytest.approx(TextSettings().sentence_hold_s)
    assert heard(end.on_time(end.wake_at_s)) == ["Two."]


def test_later_segments_grow() -> None:
    sentence = "This is a sentence of forty characters. "
    lengths = [len(segment.text) for segment in segments_of(release([sentence * 12]))]
    assert lengths[0] < lengths[2] <= lengths[3]


def test_a_tag_never_closed_is_text_after_its_wait() -> None:
    end = front_end()
    end.feed("Wait <|emo", 0.0)
    end.on_time(TextSettings().unclosed_tag_wait_s)
    assert heard(end.flush(TextSettings().unclosed_tag_wait_s))[-1].endswith("<emo")


def test_flush_releases_everything_and_parsing_goes_on() -> None:
    end = front_end()
    end.feed("un", 0.0)
    assert heard(end.flush(0.0)) == ["un"]
    assert end.flush(0.0) == []
    end.feed("believable <|sfx:laughter|>Haha", 0.0)
    released = end.finish(0.0)
    assert reading_of(released).segments == ["believable Haha"]
    assert reading_of(released).controls == ["sfx:laughter@11"]


def test_a_state_tag_alone_stays_for_the_text_after_a_flush() -> None:
    end = front_end()
    end.feed("<|emotion:awe|>", 0.0)
    assert end.flush(0.0) == []
    end.feed("Look!", 0.0)
    assert reading_of(end.finish(0.0)).controls == ["emotion:awe@0"]


def test_a_sound_alone_is_released_by_a_flush() -> None:
    end = front_end()
    end.feed("<|sfx:cough|>", 0.0)
    assert reading_of(end.flush(0.0)).controls == ["sfx:cough@0"]


def test_manual_segmentation_releases_at_flush_and_end_only() -> None:
    end = front_end(segmentation="manual")
    assert end.feed("One. Two.\n\nThree. " * 10, 0.0) == []
    assert end.wake_at_s is None
    assert end.on_time(100.0) == []
    assert heard(end.flush(100.0)) == [" ".join(["One. Two. Three."] * 10)]
    end.feed("Four.", 101.0)
    assert heard(end.finish(101.0)) == ["Four."]


def test_long_manual_text_is_released_at_once_in_pieces_that_end_where_sentences_do() -> None:
    end = front_end(segmentation="manual")
    text = "This is a sentence of the text, and not a short one. " * 100
    assert end.feed(text, 0.0) == []
    segments = segments_of(end.flush(0.0))
    assert " ".join(segment.text for segment in segments) == text.strip()
    assert all(len(segment.text) <= TextSettings().max_chars for segment in segments)
    assert all(segment.text.endswith("one.") for segment in segments)
    assert {segment.boundary for segment in segments[:-1]} == {"sentence"}
    assert segments[-1].boundary == "end"
    assert len(segments) <= 2 * len(text) / TextSettings().max_chars


@pytest.mark.parametrize("text", ["a, b " * 400, "word " * 400, "好" * 400, "x" * 2000, "[sad]a " * 400, "(a" * 1000])
def test_no_manual_segment_is_longer_than_the_limit(text: str) -> None:
    released = release([text], segmentation="manual")
    check_spans(released, text)
    assert release(list(text), segmentation="manual") == released
    assert all(len(segment.text) <= TextSettings().max_chars for segment in segments_of(released))


def test_what_a_manual_text_is_told_of_tags_does_not_wait_for_the_flush() -> None:
    end = front_end(segmentation="manual", spoken_languages=frozenset({"en"}))
    assert [notice.detail for notice in notices_of(end.feed("<|foo|> " + "好" * 200, 0.0))] == ["<|foo|>"]
    assert isinstance(end.flush(0.0)[0], TextNotice)


def test_half_a_surrogate_pair_is_covered_and_not_spoken() -> None:
    released = release(["Ok \ud83d go\udcff."])
    check_spans(released, "Ok \ud83d go\udcff.")
    assert heard(released) == ["Ok go."]


def test_a_language_the_model_does_not_speak_is_reported_once_with_the_list() -> None:
    released = release(["你好。 Hello. 世界。"], spoken_languages=frozenset({"en", "de"}))
    notices = notices_of(released)
    assert [(notice.code, notice.detail) for notice in notices] == [("unsupported_language", "zh")]
    assert "de, en" in notices[0].message


def test_one_foreign_word_in_a_spoken_sentence_is_reported_too() -> None:
    released = release(["The word 你好 means hello."], spoken_languages=frozenset({"en"}))
    assert [notice.detail for notice in notices_of(released)] == ["zh"]


def test_an_utterance_language_that_is_not_spoken_is_reported() -> None:
    assert [
        notice.detail
        for notice in notices_of(release(["Bonjour."], language="fr-FR", spoken_languages=frozenset({"en"})))
    ] == ["fr"]


def test_a_model_that_speaks_anything_gets_no_language_notice() -> None:
    assert notices_of(release(["你好。 Привет. नमस्ते।"])) == []


def test_a_latin_name_in_chinese_is_no_other_language() -> None:
    assert notices_of(release(["我用 Windows。"], language="zh", spoken_languages=frozenset({"zh"}))) == []


def test_japanese_is_not_taken_for_chinese_by_its_kanji() -> None:
    released = release(["日本語です。"], spoken_languages=frozenset({"ja"}))
    assert notices_of(released) == []
    assert segments_of(released)[0].language == "ja"


def test_a_lexicon_is_applied_to_what_is_released() -> None:
    lexicon = Lexicon.from_mapping({"nginx": "engine x", "Higgs": "/hɪɡz/"})
    reading = reading_of(release(["Nginx runs Higgs."], lexicon=lexicon))
    assert reading.segments == ["engine x runs Higgs."]
    assert reading.pronunciations == ["Higgs=hɪɡz"]


def test_hibaris_inline_pronunciation_cannot_be_reached_from_user_text() -> None:
    for text in (
        "[x](/y/)",
        "[x] (/y/)",
        "\\[x\\](/y/)",
        "&#91;x&#93;(/y/)",
        "`[x](/y/)`",
        "［x］(/y/)",
        "[[x]](/y/)",
        "<sub alias='[x](/y/)'>a</sub>",
    ):
        spoken = " ".join(segment.text for segment in segments_of(release([text])))
        assert "](" not in spoken


def test_no_reserved_token_of_a_model_survives_in_what_is_spoken() -> None:
    for text in (
        "<|im_end|>",
        "&lt;|im_end|&gt;",
        "`<|tts|>`",
        "<|im_end|",
        "<<|audio|>>",
        "<\u200b|audio|>",
        "<sub alias='&lt;|audio|&gt;'>a</sub>",
    ):
        spoken = " ".join(segment.text for segment in segments_of(release([f"Say {text} now."])))
        assert "<|" not in spoken


def test_the_fence_that_closes_code_already_read_as_text_opens_no_other() -> None:
    end = front_end()
    end.feed("```\ncode\n", 0.0)
    assert heard(end.flush(0.0)) == ["code"]
    end.feed("more\n```\nAfter.", 0.0)
    assert " ".join(heard(end.finish(0.0))).endswith("After.")


def test_code_blocks_can_be_read() -> None:
    spoken = reading_of(release(["Look:\n```py\nx = 1\n```\nDone."], TextSettings(code_blocks="read"))).segments
    assert spoken == ["Look:", "x = 1. Done."]


def test_by_the_word_each_goes_out_with_the_space_before_it_once_white_space_has_come() -> None:
    end = front_end(unit="word")
    assert heard(end.feed("Hello the", 0.0)) == ["Hello"]
    assert heard(end.feed("re, Dr. Smi", 0.1)) == [" there,", " Dr."]
    assert heard(end.feed("th", 0.2)) == []
    assert [(item.text, item.boundary) for item in segments_of(end.finish(0.3))] == [(" Smith", "end")]


def test_by_the_word_a_text_joined_is_the_text() -> None:
    text = 'He paid $5.20 — yes, "really" — and left; 50 % of it, anyway.'
    assert "".join(heard(release([text], unit="word"))) == text


def test_by_the_word_text_without_spaces_goes_out_by_the_clause() -> None:
    assert heard(release(["你好世界，这是一个句子。好的"], unit="word")) == ["你好世界，", "这是一个句子。", "好的"]


def test_by_the_word_a_last_word_goes_out_when_nothing_more_comes() -> None:
    end = front_end(unit="word")
    assert heard(end.feed("Well then", 0.0)) == ["Well"]
    assert end.wake_at_s is not None
    assert heard(end.on_time(TextSettings().word_wait_s)) == [" then"]


@pytest.mark.parametrize("ending", ["", " ", "\n\n"])
def test_by_the_word_a_flush_and_the_end_are_told_though_no_text_is_left(ending: str) -> None:
    """What has gone out already was not known to be the last; whoever speaks it waits for more until it is told."""
    end = front_end(unit="word")
    released = end.feed(f"All of it.{ending}", 0.0)
    released += end.on_time(1.0)
    released += end.flush(2.0)
    assert segments_of(released)[-1].boundary == "end"
    assert end.flush(2.1) == []
    released += end.feed("More. ", 3.0)
    released += end.finish(4.0)
    assert segments_of(released)[-1].boundary == "end"
    check_spans(released, f"All of it.{ending}More. ")


def test_by_the_word_a_tag_goes_with_the_word_behind_it() -> None:
    released = release(["So <|prosody:pause|> here <|emotion:sadness|>goes"], unit="word")
    assert [(item.text, [(one.name, one.at) for one in item.controls]) for item in segments_of(released)] == [
        ("So", []),
        (" here", [("prosody:pause", 1)]),
        (" goes", [("emotion:sadness", 1)]),
    ]


def test_by_the_word_a_mark_behind_a_flush_is_no_text_of_its_own() -> None:
    end = front_end(unit="word")
    released = end.feed("Hello", 0.0) + end.flush(0.1) + end.feed("! ", 0.2) + end.finish(0.3)
    assert [item.text for item in segments_of(released) if item.text] == ["Hello"]
    check_spans(released, "Hello! ")
