"""What one stage of the front-end tells the next. Positions are code points of the utterance's input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from engine.speech import Span
from gateway.text.vocabulary import Effect

Gap = Literal["space", "line", "item", "paragraph"]
"""Between words: a space; the end of a line of prose; the end of a heading, list item or table row; a blank line."""


@dataclass(frozen=True, slots=True)
class TextNotice:
    """Something about the text that the client should know; not an error."""

    code: Literal["unknown_tag", "unsupported_language"]
    detail: str
    """The tag's name, or the language."""
    message: str
    """A sentence for the client."""
    span: Span


class TextSink(Protocol):
    """Takes text in the order of the input."""

    def character(self, char: str, start: int, end: int) -> None:
        """One code point to be spoken, or space, from the input's [start, end)."""
        ...

    def gap(self, kind: Gap, start: int, end: int) -> None: ...

    def control(self, effect: Effect, span: Span) -> None: ...

    def whole(self, text: str, span: Span, phonemes: str | None) -> None:
        """Text that must not be cut, all of it from one span."""
        ...

    def notice(self, notice: TextNotice) -> None: ...
