"""Segments: words that were released, with what was said between them, as the engine takes them."""

from __future__ import annotations

from dataclasses import dataclass

from engine.speech import Boundary, Control, Pronunciation, Segment, Span
from gateway.text.vocabulary import Effect


@dataclass(slots=True)
class SpokenWord:
    """A word as it is to be spoken. `starts[i]`, `ends[i]`: the input span of `text[i]`."""

    text: str
    starts: list[int]
    ends: list[int]
    size: int
    """Length in speech, in Latin letters."""
    written: str
    """As it stood before numbers were put in words: what decides where a segment may end."""
    gap: tuple[int, int] | None = None
    """Input span of the space in front; None = none."""
    phonemes: str | None = None

    @property
    def is_speakable(self) -> bool:
        return self.phonemes is not None or any(char.isalnum() for char in self.text)


def segment_of(
    words: list[SpokenWord], controls: list[tuple[int, Effect, Span]], span: Span, boundary: Boundary, goes_on: bool
) -> Segment:
    """`controls`: before which word, what, and where it was written.
    `goes_on`: with the text before it, it is one text: the space in front is part of it, and marks may be all."""
    if not goes_on and not any(word.is_speakable for word in words):
        words = []
    text: list[str] = []
    sources: list[Span] = []
    begins: list[int] = []
    pronunciations: list[Pronunciation] = []
    length = 0
    for word in words:
        if word.gap is not None and (text or goes_on):
            text.append(" ")
            sources.append(Span(max(word.gap[0], span.start), max(word.gap[1], span.start)))
            length += 1
        begins.append(length)
        text.append(word.text)
        sources += map(Span, word.starts, word.ends)
        if word.phonemes is not None:
            pronunciations.append(Pronunciation(length, length + len(word.text), word.phonemes))
        length += len(word.text)
    placed = tuple(
        Control(effect.category, effect.value, begins[index] if index < len(begins) else length, at, effect.amount)
        for index, effect, at in controls
    )
    return Segment("".join(text), span, tuple(sources), boundary, placed, tuple(pronunciations))
