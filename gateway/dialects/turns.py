"""Turns of clients that give their utterances no names: what is spoken up to one flush."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from gateway.errors import ClientError, ErrorCode
from gateway.events import Done

MAX_TURNS: Final = 1024
"""Turns whose end has not been written; a client that does not read gets no more of them."""


@dataclass(slots=True)
class Turn:
    """What is spoken up to one Flush: one utterance."""

    utterance: str
    is_flushed: bool = False
    is_over: bool = False
    has_started: bool = False
    last_text: str = ""
    """The end of what was sent last."""
    has_text: bool = False
    """Something that is not blank was sent."""
    is_quiet: bool = False
    """It is over, and gave no sample although it had text."""


class Turns:
    """The turns that are not over, in order. Their ends are told in order too: a later, empty turn may end first."""

    def __init__(self) -> None:
        self._turns: deque[Turn] = deque()
        self._count = 0

    def __len__(self) -> int:
        return len(self._turns)

    def open(self) -> Turn:
        """A new last one. Raises ClientError too_many_utterances, and none was opened."""
        if len(self._turns) >= MAX_TURNS:
            raise ClientError(
                ErrorCode.TOO_MANY_UTTERANCES, f"the ends of {MAX_TURNS:,} turns wait to be read, the most"
            )
        self._count += 1
        turn = Turn(f"turn-{self._count}")
        self._turns.append(turn)
        return turn

    @property
    def current(self) -> Turn | None:
        """The turn that text goes to; None where the next text opens one."""
        last = self._turns[-1] if self._turns else None
        return last if last is not None and not last.is_flushed and not last.is_over else None

    def of(self, utterance: str | None) -> Turn | None:
        return next((turn for turn in self._turns if turn.utterance == utterance), None)

    def live(self) -> list[Turn]:
        return list(self._turns)

    def done(self, event: Done) -> list[Turn]:
        """`ended`, for a turn that was spoken to its end."""
        turn = self.of(event.utterance)
        if turn is not None:
            turn.is_quiet = turn.has_text and not event.audio_samples and event.reason != "error"
        return self.ended(event.utterance)

    def ended(self, utterance: str) -> list[Turn]:
        """Note the end of a turn; returns those whose end may be told now."""
        turn = self.of(utterance)
        if turn is not None:
            turn.is_over = True
        told: list[Turn] = []
        while self._turns and self._turns[0].is_over:
            told.append(self._turns.popleft())
        return told

    def clear(self) -> None:
        self._turns.clear()
