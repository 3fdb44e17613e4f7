"""A segment cut where its listener stopped."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.core.heard import cut_at_heard
from engine.speech import Control, Pronunciation, Segment, Span
from tests.fakes.fake_model import whole_segment


def test_what_was_heard_whole_is_the_segment_itself() -> None:
    segment = whole_segment("Hello there.", 5)
    assert cut_at_heard(segment, 17) is segment
    assert cut_at_heard(segment, 40) is segment


def test_text_controls_and_pronunciations_end_at_the_heard_point() -> None:
    segment = replace(
        whole_segment("one two three", 10),
        controls=(Control("prosody", "pause", 4, Span(14, 14)), Control("sfx", "cough", 8, Span(18, 18))),
        pronunciations=(Pronunciation(0, 3, "wʌn"), Pronunciation(4, 7, "tuː")),
    )
    cut = cut_at_heard(segment, 15)
    assert cut is not None
    assert cut.text == "one t"
    assert cut.span == Span(10, 15)
    assert [control.value for control in cut.controls] == ["pause"]
    assert cut.pronunciations == segment.pronunciations[:1]
    assert cut.boundary == "forced"


def test_a_replacement_stays_whole_or_goes() -> None:
    # "Dr." was replaced by "Doctor"; all of its code points come from input [0, 3).
    sources = (*(Span(0, 3) for _ in "Doctor"), *(Span(i, i + 1) for i in range(3, 7)))
    segment = Segment("Doctor Who", Span(0, 7), sources, "sentence")
    assert cut_at_heard(segment, 2) is None
    cut = cut_at_heard(segment, 4)
    assert cut is not None
    assert cut.text == "Doctor "


def test_nothing_speakable_is_nothing() -> None:
    assert cut_at_heard(whole_segment("  Hi.", 3), 5) is None
    assert cut_at_heard(whole_segment("Hi.", 3), 0) is None


@given(text=st.text(min_size=1, max_size=20), heard=st.integers(-5, 30), start=st.integers(0, 5))
def test_a_cut_is_a_prefix_that_lies_before_the_heard_point(text: str, heard: int, start: int) -> None:
    segment = whole_segment(text, start)
    cut = cut_at_heard(segment, heard)
    if cut is None:
        assert not text[: max(0, heard - start)].strip()
        return
    assert text.startswith(cut.text)
    assert len(cut.text) == len(cut.sources)
    assert all(source.end <= max(heard, cut.span.end) for source in cut.sources)
    assert cut.span.end == min(heard, segment.span.end)
