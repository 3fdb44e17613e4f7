from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.normalize import Reading, is_plain, read_word


def read(word: str, *, before: str = "", is_english: bool = True, has_text_normalizer: bool = True) -> str:
    reading = Reading(word, list(range(len(word))), list(range(1, len(word) + 1)))
    read_word(reading, before=before, is_english=is_english, has_text_normalizer=has_text_normalizer)
    assert len(reading.text) == len(reading.starts) == len(reading.ends)
    return reading.text


def test_a_replacement_points_at_all_it_replaces() -> None:
    reading = Reading("abcd", [0, 1, 2, 3], [1, 2, 3, 4])
    reading.rewrite([(0, 1, "x"), (1, 3, "yyy")])
    assert (reading.text, reading.starts, reading.ends) == ("xyyyd", [0, 1, 1, 1, 3], [1, 3, 3, 3, 4])


def test_trimming_leaves_single_spaces_inside() -> None:
    reading = Reading("  a  b ", list(range(7)), list(range(1, 8)))
    reading.trim()
    assert (reading.text, reading.starts) == ("a b", [2, 3, 5])


@pytest.mark.parametrize(
    ("word", "spoken"),
    [
        ("**bold**,", "bold,"),
        ("snake_case", "snake case"),
        ("https://www.e.org:8080/a?b#c", "e dot org slash a"),
        ("https://e.org/a/b/c", "e dot org"),
        ("(see:e.org)", "(see:e.org)"),
        ("jo@e.org,", "jo at e dot org,"),
        ("@jo", "at jo"),
        ("#tag", "tag"),
        ("#5", "#5"),
        ("C#", "C sharp"),
        ("~5", "about 5"),
        (":-)", ""),
        ("8)", "8)"),
        ("D:", "D:"),
        ("done.No", "done.No"),
        ("e.g.", "e.g."),
        ("3.14", "3.14"),
        ("nooooooooo!!!", "nooo!"),
        ("and/or", "and/or"),
        ("x^2", "x²"),
        ("2^n", "2 to the n"),
    ],
)
def test_readings(word: str, spoken: str) -> None:
    assert read(word) == spoken


def test_without_english_no_english_words_are_added() -> None:
    for word in ("https://e.org/a", "jo@e.org", "~5", "2*3", "src/main.py", "x^2", "C#"):
        spoken = read(word, is_english=False)
        assert not {"dot", "at", "about", "times", "slash", "sharp"} & set(spoken.split())
        assert spoken


def test_marks_are_words_for_a_family_that_cannot_read_them() -> None:
    assert read("&", before="a", has_text_normalizer=False) == "and"
    assert read("R&D", has_text_normalizer=False) == "R and D"
    assert read("5%", has_text_normalizer=False) == "five percent"


@pytest.mark.parametrize("word", ["Hello", "it's", "(well)", '"Hi,"', "3.14", "$5", "done."])
def test_plain_words_are_taken_as_they_are(word: str) -> None:
    assert is_plain(word, has_text_normalizer=True)
    assert read(word) == word


@pytest.mark.parametrize("word", ["a_b", "xD", "e.org", "jo@e.org", "hellooooooo", "**a**", "a/b.py"])
def test_other_words_are_looked_at(word: str) -> None:
    assert not is_plain(word, has_text_normalizer=True)


@given(
    st.text(st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), min_size=1, max_size=40),
    st.booleans(),
    st.booleans(),
)
def test_any_word_has_a_reading(word: str, is_english: bool, has_text_normalizer: bool) -> None:
    read(word, is_english=is_english, has_text_normalizer=has_text_normalizer)
