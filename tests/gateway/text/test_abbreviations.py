from __future__ import annotations

from gateway.text import abbreviations


def test_no_abbreviation_is_in_two_minds() -> None:
    assert not abbreviations.BEFORE_NAME & (abbreviations.EITHER | abbreviations.WORD_DECIDES)


def test_words_are_in_lower_case_and_without_their_full_stop() -> None:
    for table in (
        abbreviations.BEFORE_NAME,
        abbreviations.EITHER,
        abbreviations.WORD_DECIDES,
        abbreviations.SENTENCE_STARTERS,
        abbreviations.NEVER_LAST,
        abbreviations.PHRASE_STARTERS,
        abbreviations.CALENDAR,
    ):
        assert all(word == word.lower() and not word.endswith(".") for word in table)
