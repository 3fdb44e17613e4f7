from __future__ import annotations

from pathlib import Path

import pytest

from engine.speech import Control, Pronunciation, Segment, Span
from gateway.errors import ClientError, ErrorCode
from gateway.text.lexicon import MAX_ENTRIES, MAX_SPOKEN_CHARS, MAX_WORD_CHARS, Lexicon


def segment(text: str, **more: object) -> Segment:
    spans = tuple(Span(at, at + 1) for at in range(len(text)))
    return Segment(text, Span(0, len(text)), spans, "end", **more)  # type: ignore[arg-type]


def test_a_respelling_keeps_the_place_of_the_word() -> None:
    spoken = Lexicon.from_mapping({"SQL": "sequel"}).apply(segment("My SQL db"))
    assert spoken.text == "My sequel db"
    assert spoken.sources[3:9] == (Span(3, 6),) * 6
    assert spoken.sources[10] == Span(7, 8)


def test_phonemes_leave_the_text_and_add_a_pronunciation() -> None:
    spoken = Lexicon.from_mapping({"Higgs": "/hɪɡz/"}).apply(segment("A Higgs."))
    assert spoken.text == "A Higgs."
    assert spoken.pronunciations == (Pronunciation(2, 7, "hɪɡz"),)


def test_an_entry_without_capitals_matches_any_writing() -> None:
    lexicon = Lexicon.from_mapping({"nginx": "engine x", "US": "you ess"})
    assert lexicon.apply(segment("NGINX tells us of the US")).text == "engine x tells us of the you ess"


def test_the_longest_entry_wins_and_must_stand_alone() -> None:
    lexicon = Lexicon.from_mapping({"new": "nu", "new york": "big apple"})
    assert lexicon.apply(segment("renew New York news, new")).text == "renew big apple news, nu"


def test_the_spelling_of_an_entry_wins_over_one_of_any_spelling() -> None:
    for entries in ({"us": "uhs", "US": "you ess"}, {"US": "you ess", "us": "uhs"}):
        assert Lexicon.from_mapping(entries).apply(segment("US us Us")).text == "you ess uhs uhs"


def test_a_shorter_entry_is_found_where_the_longer_one_does_not_stand_alone() -> None:
    lexicon = Lexicon.from_mapping({"new yo": "wrong", "new": "nu"})
    assert lexicon.apply(segment("new york")).text == "nu york"


def test_letters_whose_folding_is_longer_or_another_letter_are_found() -> None:
    lexicon = Lexicon.from_mapping({"ß": "sharp s", "λόγος": "word", "İnan": "name"})
    assert lexicon.apply(segment("ß ΛΌΓΟΣ λόγος İnan")).text == "sharp s word word name"


def test_in_scripts_without_spaces_an_entry_matches_inside_a_run() -> None:
    assert Lexicon.from_mapping({"重庆": "虫庆"}).apply(segment("去重庆吧")).text == "去虫庆吧"


def test_controls_and_given_pronunciations_move_with_the_text() -> None:
    given = segment(
        "SQL is a pecan",
        controls=(Control("sfx", "cough", 4, Span(3, 4)), Control("sfx", "sigh", 14, Span(13, 14))),
        pronunciations=(Pronunciation(9, 14, "pɪˈkɑːn"),),
    )
    spoken = Lexicon.from_mapping({"SQL": "sequel", "pecan": "nut"}).apply(given)
    assert spoken.text == "sequel is a pecan"
    assert [control.at for control in spoken.controls] == [7, 17]
    assert spoken.pronunciations == (Pronunciation(12, 17, "pɪˈkɑːn"),)


def test_the_later_lexicon_wins_where_both_have_a_word() -> None:
    merged = Lexicon.from_mapping({"a": "x", "b": "y"}).merge(Lexicon.from_mapping({"b": "z"}))
    assert merged.apply(segment("a b")).text == "x z"
    assert len(merged) == 2


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"x" * (MAX_WORD_CHARS + 1): "y"}, f"has {MAX_WORD_CHARS + 1} characters, at most {MAX_WORD_CHARS}"),
        ({"x": "y" * (MAX_SPOKEN_CHARS + 1)}, f"has {MAX_SPOKEN_CHARS + 1} characters, at most {MAX_SPOKEN_CHARS}"),
        ({"": "y"}, "has no letter or digit"),
        ({"...": "y"}, "has no letter or digit"),
        ({"x": " "}, "is empty"),
        ({"x": "//"}, "is empty"),
        ({"x": "/ /"}, "is empty"),
        ({"x": "[y](/z/)"}, "cannot be spoken"),
        ({"x": "<|tts|>"}, "cannot be spoken"),
        ({f"w{number}": "y" for number in range(MAX_ENTRIES + 1)}, "has 10,001 entries, at most 10,000"),
    ],
)
def test_a_lexicon_beyond_its_limits_is_refused_with_value_and_limit(mapping: dict[str, str], said: str) -> None:
    with pytest.raises(ClientError, match=said) as refused:
        Lexicon.from_mapping(mapping)
    assert refused.value.code is ErrorCode.BAD_VALUE


def test_a_lexicon_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.json"
    path.write_text('{"SQL": "sequel"}', "utf-8")
    assert Lexicon.load(path).apply(segment("SQL")).text == "sequel"


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', "{", "\udcff"])
def test_a_file_that_is_no_lexicon_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "lexicon.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ClientError, match="lexicon"):
        Lexicon.load(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="cannot be read"):
        Lexicon.load(tmp_path / "none.json")


def test_a_thousand_words_of_one_letter_cost_a_look_up_for_each_length_and_no_more() -> None:
    words = {f"a{number:04}": "x" for number in range(1000)}
    lexicon = Lexicon.from_mapping(words)
    asked = 0

    class Asked(dict[str, str]):
        def __contains__(self, key: object) -> bool:
            nonlocal asked
            asked += 1
            return super().__contains__(key)

    lexicon._entries = Asked(lexicon._entries)
    assert lexicon.apply(segment("ab aq a0007 " * 16)).text == "ab aq x " * 16
    assert 0 < asked <= 3 * 16
