"""What is fixed about the embedded voice: pins, geometry, level, pauses, contexts. Every figure once, with its unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PACKAGE_VERSION: Final = "0.2.1"
NET_FILE: Final = "hibari.onnx"
NET_SHA256: Final = "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8"

SAMPLE_RATE_HZ: Final = 24_000
FRAME_SAMPLES: Final = 300
FRAME_S: Final = FRAME_SAMPLES / SAMPLE_RATE_HZ
FRAMES_PER_DURATION_UNIT: Final = 2
"""The net counts durations in units of 25 ms, two frames each."""

LABEL_LAG_FRAMES: Final = 3
"""A sound is heard so many frames before the frames its symbol is counted for (measured on sibilants and vowels)."""
AUDIBLE_DBFS: Final = -65.0
"""Frames below this level (estimated from the spectra, before the gain) count as silence; speech is at about -22.
Higher, and joins cut faint consonants (measured: DistilMOS of fragments falls by 0.15 at -58)."""
LEAD_IN_FRAMES: Final = 3
RELEASE_FRAMES: Final = 5
"""Kept before the first and after the last audible frame of a phrase that starts from, or ends in, silence."""

PLAIN_DBFS: Final = -50.0
MAX_ONSET_FRAMES: Final = 4
"""A sentence begins at most so many frames before the first at that level, which no one misses: it is 40 dB below the
loudest. A faint consonant ("thank") takes six to get there, of which the first are silence and stay out; measured over
209 sentences, no frame above -67 dBFS goes."""

FADE_IN: Final = (0.0, 0.33, 0.67)
"""Gain of the first frames of a phrase that begins in the midst of sound, where the one before has died away."""
SEAM_LEAD_FRAMES: Final = 2
"""Where phrases run on, the cut is so many frames before the next word, out of reach of what a stand-in for that word
did to the sounds before it."""

OUTPUT_GAIN: Final = 1.82
"""+5.2 dB: brings the voice from about -27 to about -21.5 dBFS RMS. One constant, so that the level never jumps."""
LIMITER_KNEE: Final = 0.70
LIMITER_CEILING: Final = 0.98

MAX_CALL_SYMBOLS: Final = 200
"""Own symbols of one call of the net; a longer phrase is cut between words (the net takes 510 with its context)."""
MAX_COLOURED_SYMBOLS: Final = 100
"""The same for what goes through WORLD: about 6 s, so that a phrase voiced throughout, which no block can part, takes a
third of a second."""
LEFT_CONTEXT_SYMBOLS: Final = 90
RIGHT_CONTEXT_SYMBOLS: Final = 40
CONTINUATION_IN_PHRASE: Final = " ðə θˈɪŋ ɪn ðə hˈWs"
CONTINUATION_AFTER_PAUSE: Final = " ðə mˈæn wʌz stˈɪl ðˈɛɹ ɪn ðə mˈɔɹnɪŋ."
"""Words that stand for those to come where a phrase is cut before they are known, so that the net neither slows nor
falls as at an end; their frames are never heard. Of a dozen candidates these change the last word least against the
true continuation: by 1.4 of 20 frames and 1.7 semitones in mid-phrase (266 cuts), by 2.9 frames and 3 semitones after
a comma (30 cuts). With none it is 26 frames longer and ends 10 semitones lower."""
SHORT_CONTEXT_SYMBOLS: Final = 20
"""Known words to the right that are fewer, and end no sentence, are followed by such a continuation."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """Silence after a phrase, in seconds, by what closed it."""

    clause_max_s: float = 0.25
    """A clause keeps the gap that the net leaves there, which may be none, up to this."""
    long_clause_max_s: float = 0.40
    """The same where the pause is made longer or shorter by a delivery, before it is."""
    sentence_s: float = 0.36
    paragraph_s: float = 0.65
    end_s: float = 0.10
    """After text that ends without closing punctuation."""
    tag_pause_s: float = 0.55
    tag_long_pause_s: float = 1.10
    sfx_pause_s: float = 0.25
    """In the place of a sound effect that has no onomatopoeia."""
    max_break_s: float = 20.0


PAUSES: Final = Pauses()


@dataclass(frozen=True, slots=True)
class Voice:
    """One voice: the wheel's own, or one made from it by shifting pitch and formants with WORLD."""

    id: str
    name: str
    description: str
    pitch_ratio: float = 1.0
    formant_ratio: float = 1.0

    @property
    def is_derived(self) -> bool:
        return self.pitch_ratio != 1.0 or self.formant_ratio != 1.0


BASE_VOICE: Final = Voice("heart", "Heart", "American English, female; warm and even.")
DERIVED_VOICES: Final = (
    Voice("hazel", "Hazel", "Heart with a lower pitch and slightly longer formants: an older woman.", 0.80, 0.94),
    Voice("rowan", "Rowan", "Heart with a low pitch and longer formants: a man.", 0.60, 0.87),
)
"""DistilMOS 4.1 each, as WORLD's plain copy of the base voice; higher voices fall below 3.9 (measured)."""

FINAL_BEND_FRAMES: Final = 24
"""Where a sentence's end is bent up or down, the pitch goes there over 0.3 s."""
MOVED_HARMONICS_SEMITONES: Final = 1.5
VOICE_SPREAD_SEMITONES: Final = 4.0
"""A pitch moved further than this is spoken through the envelope of its harmonics; a wider range moves it by its share
of the voice's own spread. (A narrower one does better without. DistilMOS of 12 sentences: 1.2 semitones and range 1.4,
4.0 without and 4.3 with; range 1.45, 4.3 and 4.4; range 0.55, 4.5 and 4.3.)"""
HEARD_DBFS: Final = -58.0
"""Pauses are counted between frames above this level, which is about 38 dB below speech."""
VOICE_F0_HZ: Final = 192.0
"""Geometric mean of the voice's own pitch: the fixed point about which the pitch range is widened or narrowed."""
