"""The text of a block that is spoken while it is still being written: what there is of it, and what has been fed.

See step.TextCadence for the order in which text, marks and rows stand in the context. This file alone knows it.
"""

from __future__ import annotations

from dataclasses import replace

from engine.core.context import Unit
from engine.core.step import Piece, PieceKind, PreparedText, TextCadence


class GrowingText:
    """Of one block. `begin` when its turn has come; then `lengthen_opening` and `answer` until `has_begun`, and
    `next_pieces` wherever `is_stop`."""

    __slots__ = (
        "_fed_tokens",
        "_has_question",
        "_may_begin",
        "_next_stop",
        "_number",
        "_text",
        "_texts",
        "_units",
        "_waits",
        "cadence",
        "has_begun",
        "is_closed",
        "is_last_run",
        "max_rows",
        "max_tokens",
        "tokens",
        "waiting_since_s",
    )

    def __init__(self, cadence: TextCadence, max_tokens: int, max_rows: int) -> None:
        self.cadence = cadence
        self.max_tokens = max_tokens
        self.max_rows = max_rows
        self.waiting_since_s: float | None = None
        """Since when it has had nothing to go on with; kept by the planner."""
        self.tokens = 0
        """Written so far."""
        self.is_closed = False
        """No more will be."""
        self.has_begun = False
        """Audio may come: all that stands before row 0 is settled."""
        self.is_last_run = False
        """The rows that come now come without interruption, to the end of the block."""
        self._texts: list[PreparedText] = []
        self._text = (0, 0)
        """Of the token to be fed next: which of the texts, and its place there."""
        self._fed_tokens = 0
        self._waits = 0
        self._has_question = False
        self._may_begin = False
        self._next_stop = cadence.first_rows
        self._number = 0
        self._units: list[Unit] = []
        """What stands in the context from the block's first position on; of the last one, if it is audio, the length
        says nothing: it grows with every row."""

    def has_room(self, tokens: int) -> bool:
        """So many more fit in."""
        return not self.is_closed and self.tokens + tokens <= self.max_tokens

    @property
    def is_half_full(self) -> bool:
        """It may go on, but a good place to end it should be taken."""
        return 2 * self.tokens >= self.max_tokens

    @property
    def max_positions(self) -> int:
        """Of the whole block, without the voice prompt."""
        return self.cadence.text_positions(self.max_tokens) + self.max_rows

    def append(self, text: PreparedText) -> None:
        """More has been written."""
        self._texts.append(text)
        self.tokens += text.tokens

    def begin(self, number: int) -> None:
        """The block has its number; nothing has been fed."""
        self._number = number
        self._units = [self._unit("begin_text", 1)]

    def units(self, fed_rows: int) -> list[Unit]:
        """The block's part of the layout, with so many of its rows."""
        if not self._units or self._units[-1].kind != "audio":
            return list(self._units)
        *before, last = self._units
        rows = fed_rows - last.first
        return [*before, replace(last, length=rows)] if rows > 0 else before

    # ---- before the first row ----------------------------------------------------------------------------------------

    def lengthen_opening(self) -> None:
        """Feed what may come next before row 0, unless an answer is still to come, or a token still to be written."""
        if self.has_begun or self._has_question:
            return
        if self._may_begin or self._waits >= self.cadence.max_waits:
            self._begin_audio()
        elif self._fed_tokens < self.tokens:
            self._feed_token()
            self._has_question = True
        elif self.is_closed:
            self._end_text()

    def answer(self, may_begin: bool) -> None:
        """What the family says once it has what was fed last."""
        self._has_question = False
        self._may_begin = may_begin
        self._waits += not may_begin

    # ---- between rows ------------------------------------------------------------------------------------------------

    def is_stop(self, rows: int) -> bool:
        """Something has to be fed before row `rows` can come."""
        return rows == self._next_stop and not self.is_last_run

    @property
    def has_next(self) -> bool:
        """There is something to be fed at a stop."""
        return self.is_closed or self._fed_tokens < self.tokens

    def waits_for_text(self, rows: int) -> bool:
        """With so many rows made, nothing can be done before more is written, or told that none will be."""
        if self.has_next:
            return False
        if self.has_begun:
            return self.is_stop(rows)
        return not self._has_question and not self._may_begin and self._waits < self.cadence.max_waits

    def next_pieces(self, rows: int) -> list[tuple[Unit, Piece]]:
        """What has to be fed before row `rows`, at a stop with something to be fed: the row before it, a token (or the
        mark that ends the text) and the mark that audio goes on. Each with its unit, of which the piece is the end."""
        audio = self._units[-1]
        pieces = [(audio, Piece("audio", self._number, rows - 1, rows, None))]
        self._units[-1] = replace(audio, length=rows - audio.first)
        first = len(self._units)
        if self._fed_tokens < self.tokens:
            self._feed_token()
            self._begin_audio(rows)
            self._next_stop += self.cadence.rows_per_token
        else:
            self._end_text(rows)
        for unit in self._units[first:-1]:
            end = unit.first + unit.length
            pieces.append((unit, Piece(unit.kind, self._number, end - 1, end, unit.payload)))
        return pieces

    @property
    def audio_unit(self) -> Unit:
        """The unit to which the next fed row belongs, once audio has begun."""
        return self._units[-1]

    # ---- units -------------------------------------------------------------------------------------------------------

    def _feed_token(self) -> None:
        index, place = self._text
        while place >= self._texts[index].tokens:
            index, place = index + 1, 0
        self._text = (index, place + 1)
        self._fed_tokens += 1
        payload = self._texts[index].payload
        last = self._units[-1]
        if last.kind == "text" and last.payload is payload and last.first + last.length == place:
            self._units[-1] = replace(last, length=last.length + 1)
        else:
            self._units.append(self._unit("text", 1, payload, place))

    def _end_text(self, rows: int = 0) -> None:
        self._units.append(self._unit("end_text", 1))
        self.is_last_run = True
        self._begin_audio(rows)

    def _begin_audio(self, rows: int = 0) -> None:
        self.has_begun = True
        self._units.append(self._unit("begin_audio", 1))
        self._units.append(self._unit("audio", 0, None, rows))

    def _unit(self, kind: PieceKind, length: int, payload: object = None, first: int = 0) -> Unit:
        """A unit of its own; the place in the block tells it from others of its kind."""
        return Unit(kind, self._number, len(self._units), length, payload, first)
