"""Tags to delivery: what each control changes in pace, pitch, range, level and colour, and what it cannot.

State tags (emotion, style, speed, pitch, volume, expressive) hold until changed; pauses and sound effects act where
they stand. This voice has no emotions of its own: each of the 21 is assigned to one of a few prosody families and
answered as an approximation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from engine.models.hibari.config import PAUSES
from engine.speech import Control, TagSupport

Effect = Literal["whisper", "shout"]

MIN_PACE, MAX_PACE = 0.5, 2.0
MAX_PITCH_SEMITONES: Final = 12.0
MAX_GAIN: Final = 4.0
MAX_BREATH: Final = 1.0
MAX_FINAL_SEMITONES: Final = 4.0
MIN_VOWEL_RATIO, MAX_VOWEL_RATIO = 0.6, 1.6
MIN_PAUSE_RATIO, MAX_PAUSE_RATIO = 0.25, 3.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """How words are spoken."""

    pace: float = 1.0
    """Ratio of speed; 1 = the voice's own."""
    pitch_semitones: float = 0.0
    range_ratio: float = 1.0
    """Of the pitch's logarithm about the voice's mean."""
    gain: float = 1.0
    tilt_db: float = 0.0
    """Gain at 12 kHz, rising from 500 Hz: above 0 is brighter, below is duller."""
    vowel_ratio: float = 1.0
    """Length of vowels against that of consonants; the pace stays. Above 1 is a drawl, below is clipped."""
    breath: float = 0.0
    """Noise in voiced sound above 4 kHz, as a ratio of amplitude to the harmonics there; none below 1.5 kHz."""
    final_semitones: float = 0.0
    """How far the pitch is bent up or down over the end of a sentence."""
    pause_ratio: float = 1.0
    """Of the pauses that punctuation asks for; those of tags are what the tag says."""
    effect: Effect | None = None

    def bounded(self) -> Delivery:
        """Within what the synthesis can do."""
        return replace(
            self,
            pace=min(max(self.pace, MIN_PACE), MAX_PACE),
            pitch_semitones=min(max(self.pitch_semitones, -MAX_PITCH_SEMITONES), MAX_PITCH_SEMITONES),
            gain=min(max(self.gain, 0.0), MAX_GAIN),
            vowel_ratio=min(max(self.vowel_ratio, MIN_VOWEL_RATIO), MAX_VOWEL_RATIO),
            breath=min(max(self.breath, 0.0), MAX_BREATH),
            final_semitones=min(max(self.final_semitones, -MAX_FINAL_SEMITONES), MAX_FINAL_SEMITONES),
            pause_ratio=min(max(self.pause_ratio, MIN_PAUSE_RATIO), MAX_PAUSE_RATIO),
        )

    def coloured(self, preset: Delivery) -> Delivery:
        """This delivery with a preset on top; the effect stays."""
        return Delivery(
            pace=self.pace * preset.pace,
            pitch_semitones=self.pitch_semitones + preset.pitch_semitones,
            range_ratio=self.range_ratio * preset.range_ratio,
            gain=self.gain * preset.gain,
            tilt_db=self.tilt_db + preset.tilt_db,
            vowel_ratio=self.vowel_ratio * preset.vowel_ratio,
            breath=self.breath + preset.breath,
            final_semitones=self.final_semitones + preset.final_semitones,
            pause_ratio=self.pause_ratio * preset.pause_ratio,
            effect=self.effect,
        ).bounded()


FAMILIES: Final[Mapping[str, Delivery]] = {
    "bright": Delivery(
        pace=1.08, pitch_semitones=1.2, range_ratio=1.40, gain=1.10, tilt_db=3.0,
        final_semitones=1.0, pause_ratio=0.8,
    ),
    "firm": Delivery(
        pace=0.96, pitch_semitones=-0.8, range_ratio=1.15, gain=1.25, tilt_db=4.0,
        vowel_ratio=0.70, final_semitones=-2.5, pause_ratio=1.25,
    ),
    "tense": Delivery(
        pace=1.14, pitch_semitones=0.8, range_ratio=0.75, gain=0.95, tilt_db=2.0,
        vowel_ratio=0.90, breath=0.3, final_semitones=1.5, pause_ratio=0.6,
    ),
    "tender": Delivery(
        pace=0.94, pitch_semitones=0.4, range_ratio=0.85, gain=0.85, tilt_db=-5.0,
        vowel_ratio=1.20, breath=0.6, pause_ratio=1.1,
    ),
    "subdued": Delivery(
        pace=0.84, pitch_semitones=-1.4, range_ratio=0.60, gain=0.78, tilt_db=-7.0,
        vowel_ratio=1.40, breath=0.4, final_semitones=-1.5, pause_ratio=1.5,
    ),
    "pensive": Delivery(
        pace=0.88, pitch_semitones=-0.3, range_ratio=0.80, gain=0.92, tilt_db=-2.0,
        vowel_ratio=0.85, breath=0.2, final_semitones=1.2, pause_ratio=1.9,
    ),
}  # fmt: skip
"""Prosody families: changes on top of everything else that was asked for."""

EMOTIONS: Final[Mapping[str, str]] = {
    "elation": "bright",
    "amusement": "bright",
    "enthusiasm": "bright",
    "surprise": "bright",
    "determination": "firm",
    "pride": "firm",
    "anger": "firm",
    "disgust": "firm",
    "fear": "tense",
    "confusion": "tense",
    "arousal": "tense",
    "affection": "tender",
    "contentment": "tender",
    "relief": "tender",
    "longing": "tender",
    "sadness": "subdued",
    "shame": "subdued",
    "helplessness": "subdued",
    "bitterness": "subdued",
    "contemplation": "pensive",
    "awe": "pensive",
}
"""Each emotion tag and its family."""

NO_TAG: Final = "neutral"
"""Ends an emotion or a style."""
STYLES: Final[Mapping[str, Effect | None]] = {"whispering": "whisper", "shouting": "shout", "singing": None}
_SPEEDS: Final = {"speed_very_slow": 0.65, "speed_slow": 0.85, "speed_fast": 1.2, "speed_very_fast": 1.4}
_PITCHES: Final = {"pitch_low": -2.0, "pitch_high": 2.0}
"""Two semitones: as far as the voice's own synthesis stays natural."""
_EXPRESSIVE: Final = {"expressive_high": 1.45, "expressive_low": 0.55}
_PAUSES: Final = {"pause": PAUSES.tag_pause_s, "long_pause": PAUSES.tag_long_pause_s}


@dataclass(frozen=True, slots=True)
class SoundEffect:
    """Words that imitate a sound, and how to say them."""

    words: re.Pattern[str]
    delivery: Delivery


SOUND_EFFECTS: Final[Mapping[str, SoundEffect]] = {
    "cough": SoundEffect(
        re.compile(r"a?hem+|cough|k?h?uh+|koff|kaff|ack"), Delivery(pace=1.15, pitch_semitones=-1.5, gain=1.1)
    ),
    "laughter": SoundEffect(
        re.compile(r"(b?w?ah?)?(ha+h?|he+h?|ho+h?|hi+)+|tee|teehee|lol"),
        Delivery(pace=1.2, pitch_semitones=1.8, range_ratio=1.5, gain=1.1, tilt_db=3.0),
    ),
    "crying": SoundEffect(
        re.compile(r"boo+|hoo+|boohoo+|sob|sniff|wa+h+|waa+"),
        Delivery(pace=0.8, pitch_semitones=1.0, range_ratio=1.3, gain=0.85, tilt_db=-4.0),
    ),
    "screaming": SoundEffect(
        re.compile(r"a+h+|a+r*gh+|e+k+|aie+|no+o+|yaa+h*"),
        Delivery(pace=0.8, pitch_semitones=2.0, range_ratio=1.4, gain=1.7, tilt_db=6.0),
    ),
    "burping": SoundEffect(
        re.compile(r"bu+rp+|bra+p+|belch"), Delivery(pace=0.8, pitch_semitones=-2.0, range_ratio=0.6, gain=1.05)
    ),
    "humming": SoundEffect(
        re.compile(r"h+m+|m{2,}|hum+|mhm+|la+"), Delivery(pace=0.75, range_ratio=0.6, gain=0.9, tilt_db=-4.0)
    ),
    "sigh": SoundEffect(
        re.compile(r"a+h+|u+h+|h+a+h*|o+h+|sigh|phew|whew|haa+|h+u+h+"),
        Delivery(pace=0.7, pitch_semitones=-1.2, range_ratio=0.8, gain=0.8, tilt_db=-6.0),
    ),
    "sniff": SoundEffect(re.compile(r"s+n*i*f+|snf+|snuff+"), Delivery(pace=1.1, gain=0.8, tilt_db=2.0)),
    "sneeze": SoundEffect(
        re.compile(r"a*h*-?choo+|a+|achoo+|atchoo+|atishoo+|choo+"),
        Delivery(pace=1.1, pitch_semitones=1.5, range_ratio=1.4, gain=1.3, tilt_db=3.0),
    ),
}
MAX_IMITATION_WORDS: Final = 6


@dataclass(frozen=True, slots=True)
class TagState:
    """State tags in force."""

    emotion: str | None = None
    style: str | None = None
    pace: float = 1.0
    pitch_semitones: float = 0.0
    range_ratio: float = 1.0
    gain: float = 1.0

    @classmethod
    def of(cls, controls: Iterable[Control]) -> TagState:
        """The state once all of `controls` have been met."""
        state = cls()
        for control in controls:
            state = state.after(control)
        return state

    def after(self, control: Control) -> TagState:
        """The state once `control` has been met; itself for pauses, sound effects and what is not known."""
        value, amount = control.value, control.amount
        if control.category == "emotion":
            if value == NO_TAG:
                return replace(self, emotion=None)
            return replace(self, emotion=value) if value in EMOTIONS else self
        if control.category == "style":
            if value == NO_TAG:
                return replace(self, style=None)
            return replace(self, style=value) if value in STYLES else self
        if control.category != "prosody":
            return self
        if value in _SPEEDS:
            return replace(self, pace=_SPEEDS[value])
        if value in _PITCHES:
            return replace(self, pitch_semitones=_PITCHES[value])
        if value in _EXPRESSIVE:
            return replace(self, range_ratio=_EXPRESSIVE[value])
        if amount is None:
            return self
        if value == "speed":
            return replace(self, pace=amount)
        if value == "pitch":
            return replace(self, pitch_semitones=amount)
        if value == "volume":
            return replace(self, gain=amount)
        return self

    def delivery(self, speed: float, has_effects: bool) -> Delivery:
        """What the state asks for, on top of the request's `speed`."""
        delivery = Delivery(
            pace=speed * self.pace,
            pitch_semitones=self.pitch_semitones,
            range_ratio=self.range_ratio,
            gain=self.gain,
            effect=STYLES[self.style] if self.style is not None and has_effects else None,
        )
        return delivery.bounded() if self.emotion is None else delivery.coloured(FAMILIES[EMOTIONS[self.emotion]])


def pause_s(control: Control) -> float | None:
    """Seconds of silence a control asks for; None where it asks for none."""
    if control.category != "prosody":
        return None
    if control.value == "break":
        return None if control.amount is None else min(max(control.amount, 0.0), PAUSES.max_break_s)
    return _PAUSES.get(control.value)


def tag_support(has_effects: bool) -> dict[str, TagSupport]:
    """Canonical tag name -> how far this voice goes."""
    support: dict[str, TagSupport] = {f"emotion:{emotion}": "approximated" for emotion in EMOTIONS}
    support[f"emotion:{NO_TAG}"] = support[f"style:{NO_TAG}"] = "rendered"
    for style, effect in STYLES.items():
        support[f"style:{style}"] = "rendered" if effect is not None and has_effects else "unsupported"
    for value in (*_SPEEDS, *_PITCHES, *_EXPRESSIVE, *_PAUSES, "break", "speed", "pitch", "volume"):
        support[f"prosody:{value}"] = "rendered"
    support.update({f"sfx:{name}": "contextual" for name in SOUND_EFFECTS})
    return support
