"""Drives a TextFrontEnd the ways a client can, and says what came out in words that a corpus can hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.speech import Segment
from gateway.text.front_end import Lexicon, Released, TextFrontEnd, TextNotice, TextSettings


def front_end(settings: TextSettings | None = None, **options: Any) -> TextFrontEnd:
    given: dict[str, Any] = {
        "lexicon": Lexicon.empty(),
        "segmentation": "auto",
        "language": None,
        "spoken_languages": frozenset(),
        "has_text_normalizer": True,
    }
    return TextFrontEnd(settings or TextSettings(), **(given | options))


def release(pieces: Iterable[str], settings: TextSettings | None = None, **options: Any) -> list[Released]:
    """All that comes out where no time passes."""
    end = front_end(settings, **options)
    released: list[Released] = []
    for piece in pieces:
        released += end.feed(piece, 0.0)
    return released + end.finish(0.0)


def segments_of(released: Iterable[Released]) -> list[Segment]:
    return [item for item in released if isinstance(item, Segment)]


def notices_of(released: Iterable[Released]) -> list[TextNotice]:
    return [item for item in released if isinstance(item, TextNotice)]


@dataclass(frozen=True)
class Reading:
    """What a text became: the shape of a corpus case."""

    segments: list[str]
    controls: list[str]
    pronunciations: list[str]
    notices: list[str]
    languages: list[str]


def reading_of(released: Iterable[Released]) -> Reading:
    """Controls are "category:value=amount@index", the index into the segments' texts joined by single spaces."""
    reading = Reading([], [], [], [], [])
    length = 0
    for item in released:
        if isinstance(item, TextNotice):
            reading.notices.append(f"{item.code}: {item.detail}")
            continue
        if item.text:
            length += bool(reading.segments)
            reading.segments.append(item.text)
            reading.languages.append(item.language or "")
        for control in item.controls:
            amount = "" if control.amount is None else f"={round(control.amount, 3):g}"
            reading.controls.append(f"{control.name}{amount}@{length + control.at}")
        for given in item.pronunciations:
            reading.pronunciations.append(f"{item.text[given.start : given.end]}={given.phonemes}")
        length += len(item.text)
    return reading


def check_spans(released: Iterable[Released], text: str) -> None:
    """Spans tile the input, sources ascend within them, controls and pronunciations lie inside."""
    at = 0
    for segment in segments_of(released):
        assert segment.span.start == at
        at = segment.span.end
        assert len(segment.sources) == len(segment.text)
        before = segment.span.start
        for source in segment.sources:
            assert before <= source.start <= source.end <= segment.span.end
            before = source.start
        for control in segment.controls:
            assert 0 <= control.at <= len(segment.text)
            assert segment.span.start <= control.span.start <= control.span.end <= segment.span.end
        for given in segment.pronunciations:
            assert 0 <= given.start < given.end <= len(segment.text)
    assert at == len(text)
