"""Every word keeps its place in the text, whatever the reader makes of it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.models.hibari.network import AcousticNet
from engine.models.hibari.phonemes import PhonemeWord, Phonemizer, misaki
from engine.speech import Pronunciation

ALPHABET = AcousticNet.load().symbols
READER = Phonemizer(ALPHABET)


def timed(text: str, words: tuple[PhonemeWord, ...]) -> list[str]:
    return [text[mark.start : mark.end] for word in words for mark in word.marks]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello there, friend!", ["Hello", "there", "friend"]),
        ("Dr. Smith paid $3.50 for 5 km.", ["Dr", "Smith", "paid", "$3.50", "for", "5", "km"]),
        ("At 9:30am on 3/4/2024, call 555-123-4567.", ["At", "9:30am", "on", "3/4/2024", "call", "555-123-4567"]),
        ("Well—really—I don't 'know'…", ["Well", "really", "I", "don't", "know"]),
        ("fifty -- no, 50% & more", ["fifty", "no", "50%", "&", "more"]),
    ],
)
def test_words_are_what_stands_between_spaces_and_punctuation(text: str, expected: list[str]) -> None:
    assert timed(text, READER.words(text)) == expected


def test_a_number_is_one_word_however_many_are_spoken() -> None:
    (word,) = [word for word in READER.words("It was 1987.") if word.start == 7]
    assert word.symbols.count(" ") >= 1
    assert word.marks[0].first == 0


def test_homographs_are_read_by_what_stands_around_them() -> None:
    past, present = READER.words("I read it yesterday."), READER.words("I will read it.")
    assert past[1].symbols == "ɹˈɛd"
    assert present[2].symbols == "ɹˈid"


def test_a_given_pronunciation_is_spoken_and_the_punctuation_around_it_kept() -> None:
    text = "I love nginx, and nginx's docs."
    words = READER.words(text, [Pronunciation(7, 12, "ˈɛndʒɪn ˈɛks"), Pronunciation(18, 23, "ˈɛndʒɪn ˈɛks")])
    symbols = {text[word.start : word.end]: word.symbols for word in words}
    assert symbols["nginx,"] == "ˈɛnʤɪn ˈɛks,"
    assert symbols["nginx's"].startswith("ˈɛnʤɪn ˈɛks")
    assert timed(text, words) == ["I", "love", "nginx", "and", "nginx's", "docs"]


def test_a_pronunciation_of_several_words_covers_them_all() -> None:
    text = "in New York now"
    words = READER.words(text, [Pronunciation(3, 11, "nˈu jˈɔɹk")])
    assert [text[word.start : word.end] for word in words] == ["in", "New York", "now"]


@pytest.mark.parametrize("phonemes", ["", "/ /", "☃", "ˈ"])
def test_a_pronunciation_without_a_known_sound_is_ignored(phonemes: str) -> None:
    assert READER.words("tea time", [Pronunciation(0, 3, phonemes)])[0].symbols == "tˈi"


def test_the_readers_own_syntax_in_a_text_is_only_text() -> None:
    symbols = " ".join(word.symbols for word in READER.words("say [hello](/fˈu/) now"))
    assert "slˈæʃ" in symbols


@pytest.mark.parametrize("text", ["", "   ", "\x00", "你好，世界。", "مرحبا", "🙂🙂", "…", "?!", "́", "²"])
def test_what_cannot_be_read_is_silent(text: str) -> None:
    assert not any(word.is_spoken and not word.marks for word in READER.words(text))


WRITTEN = (
    "Hello Mr. 3.5 km — -- ... $ £9.99 1st 2–3 ( ) [x](/y/) 'tis O'Neil's e.g. http://a.io/b a@b.com 日本 é , . ?! №5 "
    "5% & #1 IV U.S.A. ² x² ½"
)
PIECES = st.sampled_from([*WRITTEN.split(), " ", " ", "\u00a0", "\n\n"])


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=60), st.data())
def test_words_and_marks_lie_in_order_inside_the_text(text: str, data: st.DataObject) -> None:
    given_words = []
    if text and data.draw(st.booleans()):
        start = data.draw(st.integers(0, len(text) - 1))
        given_words = [Pronunciation(start, data.draw(st.integers(start + 1, len(text))), "tˈɛst")]
    words = READER.words(text, given_words)
    assert all(0 <= word.start < word.end <= len(text) for word in words)
    assert all(left.end <= right.start for left, right in pairwise(words))
    for word in words:
        assert set(word.symbols) <= ALPHABET
        edges = [edge for mark in word.marks for edge in (mark.start, mark.end)]
        assert edges == sorted(edges)
        assert all(word.start <= edge <= word.end for edge in edges)
        symbols = [edge for mark in word.marks for edge in (mark.first, mark.last)]
        assert symbols == sorted(symbols)
        assert all(0 <= edge <= len(word.symbols) for edge in symbols)


@pytest.mark.parametrize(
    ("ipa", "expected"),
    [
        ("/fəˈniːmz/", "fənˈimz".replace("nˈ", "ˈn")),
        ("dʒeɪ", "ʤˈA"),
        ("t͡ʃɝt͡ʃ", "ʧˈɜɹʧ"),
        ("ˈkaʊboɪ", "ˈkWbˈɪ".replace("bˈɪ", "bOɪ")),
        ("rɑk", "ɹˈɑk"),
        ("ɡʊd", "ɡˈʊd"),
    ],
)
def test_ipa_becomes_the_nets_letters(ipa: str, expected: str) -> None:
    assert misaki(ipa) == expected


@given(st.text(max_size=30))
def test_any_text_as_ipa_becomes_something(text: str) -> None:
    misaki(text)
