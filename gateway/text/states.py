"""What holds now of emotion, style and prosody, and what closing an element puts back."""

from __future__ import annotations

from typing import Final

from gateway.text.vocabulary import NEUTRAL, Effect

_DEFAULTS: Final[dict[str, Effect | None]] = {
    "emotion": Effect("emotion", NEUTRAL),
    "style": Effect("style", NEUTRAL),
    "speed": Effect("prosody", "speed", 1.0),
    "pitch": Effect("prosody", "pitch", 0.0),
    "volume": Effect("prosody", "volume", 1.0),
    "expressive": None,
}
"""What holds before any tag; None: there is no word for it, so it is not put back."""

_MAX_OPEN: Final = 32
"""Elements open inside one another; the outermost is forgotten."""


class States:
    """The lasting states, and the elements that will undo theirs when they close."""

    def __init__(self) -> None:
        self._held: dict[str, Effect] = {}
        self._open: list[tuple[str, tuple[Effect, ...]]] = []

    def note(self, effect: Effect) -> None:
        """`effect` holds from here on, if it is one that lasts."""
        if effect.state is not None:
            self._held[effect.state] = effect

    def enter(self, element: str, effects: tuple[Effect, ...]) -> None:
        """An element with content opens; call it before its effects are noted."""
        before = (self._held.get(state, _DEFAULTS[state]) for effect in effects if (state := effect.state) is not None)
        self._open.append((element, tuple(effect for effect in before if effect is not None)))
        if len(self._open) > _MAX_OPEN:
            del self._open[0]

    def leave(self, element: str) -> tuple[Effect, ...]:
        """What holds again behind the closing tag of the innermost such element; nothing if none is open."""
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index][0] == element:
                return self._open.pop(index)[1]
        return ()
