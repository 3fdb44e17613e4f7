"""A segment cut at the point where its listener stopped hearing it."""

from __future__ import annotations

from dataclasses import replace

from engine.speech import Segment, Span


def cut_at_heard(segment: Segment, heard_chars: int) -> Segment | None:
    """The part of `segment` whose input lies before `heard_chars` (code points of the utterance's input).

    The segment itself where all of it was heard; None where nothing that could be spoken is left. Controls and
    pronunciations beyond the cut are forgotten; text that one source span produced as a whole is kept as a whole.
    """
    if heard_chars >= segment.span.end:
        return segment
    kept = 0
    for source in segment.sources:
        if source.end > heard_chars:
            break
        kept += 1
    if not segment.text[:kept].strip():
        return None
    return replace(
        segment,
        text=segment.text[:kept],
        span=Span(segment.span.start, heard_chars),
        sources=segment.sources[:kept],
        boundary="forced",
        controls=tuple(c for c in segment.controls if c.at <= kept and c.span.end <= heard_chars),
        pronunciations=tuple(p for p in segment.pronunciations if p.end <= kept),
    )
