from __future__ import annotations

from engine.speech import Pronunciation, Span
from gateway.text.segments import SpokenWord, segment_of
from gateway.text.vocabulary import Effect


def word(text: str, start: int, *, gap: tuple[int, int] | None = None, phonemes: str | None = None) -> SpokenWord:
    places = range(start, start + len(text))
    return SpokenWord(text, list(places), [place + 1 for place in places], len(text), text, gap, phonemes)


WORDS = [word("Hi", 0, gap=(7, 8)), word("you.", 4, gap=(2, 4))]


def test_words_stand_with_one_space_between_and_none_in_front() -> None:
    segment = segment_of(WORDS, [], Span(0, 8), "sentence", goes_on=False)
    assert (segment.text, segment.span, segment.boundary) == ("Hi you.", Span(0, 8), "sentence")
    assert segment.sources == (Span(0, 1), Span(1, 2), Span(2, 4), *(Span(place, place + 1) for place in range(4, 8)))


def test_text_that_goes_on_keeps_the_space_in_front_of_it() -> None:
    segment = segment_of([word("you", 3, gap=(2, 3))], [], Span(2, 6), "forced", goes_on=True)
    assert (segment.text, segment.sources[0]) == (" you", Span(2, 3))


def test_marks_alone_are_nothing_to_speak_unless_the_text_goes_on() -> None:
    assert segment_of([word("...", 0)], [], Span(0, 3), "end", goes_on=False).text == ""
    assert segment_of([word("!", 5)], [], Span(5, 6), "end", goes_on=True).text == "!"


def test_a_control_stands_in_front_of_its_word_or_behind_them_all() -> None:
    effect = Effect("prosody", "speed", 1.2)
    controls = [(1, effect, Span(2, 3)), (2, effect, Span(8, 9))]
    segment = segment_of(WORDS, controls, Span(0, 9), "sentence", goes_on=False)
    assert [(control.at, control.span) for control in segment.controls] == [(3, Span(2, 3)), (7, Span(8, 9))]


def test_a_word_with_phonemes_is_marked_with_its_place() -> None:
    words = [word("Hi", 0), word("Ng", 3, gap=(2, 3), phonemes="eng")]
    assert segment_of(words, [], Span(0, 5), "end", goes_on=False).pronunciations == (Pronunciation(3, 5, "eng"),)
