"""Marks of an utterance."""

from engine.timeline import Timeline


def test_the_first_note_of_a_mark_counts() -> None:
    timeline = Timeline()
    timeline.note("queued", 1.0)
    timeline.note("queued", 2.0)
    assert timeline.at_s("queued") == 1.0


def test_the_last_renote_of_a_mark_counts() -> None:
    timeline = Timeline()
    timeline.renote("generated", 1.0)
    timeline.renote("generated", 2.0)
    assert timeline.at_s("generated") == 2.0


def test_a_span_needs_both_ends() -> None:
    timeline = Timeline()
    timeline.note("queued", 1.0)
    assert timeline.between_s("queued", "first_chunk") is None
    timeline.note("first_chunk", 1.5)
    assert timeline.between_s("queued", "first_chunk") == 0.5
