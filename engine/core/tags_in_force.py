"""Which state tags hold after a segment: of emotion, style, pace, pitch, volume and range, the last that was met."""

from __future__ import annotations

from engine.speech import Control, Segment

_GRADES = ("speed", "pitch", "volume", "expressive")
NEUTRAL = "neutral"


def tags_in_force(segment: Segment) -> tuple[Control, ...]:
    """State tags that hold where the segment ends, in the order in which they were met. Pauses and sounds act where
    they stand; "neutral" ends an emotion or a style."""
    states: dict[str, Control] = {}
    for control in (*segment.carried, *sorted(segment.controls, key=lambda control: control.at)):
        kind = _kind(control)
        if kind is None:
            continue
        states.pop(kind, None)
        if control.value != NEUTRAL:
            states[kind] = control
    return tuple(states.values())


def _kind(control: Control) -> str | None:
    """What a state tag replaces; None for a tag that is no state."""
    if control.category in ("emotion", "style"):
        return control.category
    if control.category == "prosody":
        return next((grade for grade in _GRADES if control.value.startswith(grade)), None)
    return None
