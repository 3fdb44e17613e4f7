"""The controls there are, and every portable word for them. Tables only: syntax is in `tags.py` and `elements.py`.

The 43 valued controls are Higgs Audio v3's own vocabulary. Graded prosody ("break", "speed", "pitch", "volume") carries
an amount; "neutral" ends an emotion or a style, which Higgs has no tag for: a family leaves out what it would re-state.
docs/tags.md is the reader's view of this file; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from engine.speech import ControlCategory
from gateway.text.listed import listed


@dataclass(frozen=True, slots=True)
class Effect:
    """A control without its place in a text."""

    category: ControlCategory
    value: str
    amount: float | None = None

    @property
    def name(self) -> str:
        return f"{self.category}:{self.value}"

    @property
    def state(self) -> str | None:
        """Which lasting state it sets ("emotion", "style", "speed" …); None: it is heard where it stands."""
        if self.category == "sfx" or self.value in ("pause", "long_pause", "break"):
            return None
        return self.category if self.category != "prosody" else self.value.partition("_")[0]


EMOTIONS: Final = listed(
    """
    elation amusement enthusiasm determination pride contentment affection relief contemplation confusion
    surprise awe longing arousal anger fear disgust bitterness sadness shame helplessness
    """
)
STYLES: Final = listed("singing shouting whispering")
SOUNDS: Final = listed("cough laughter crying screaming burping humming sigh sniff sneeze")
PROSODY: Final = listed(
    """
    speed_very_slow speed_slow speed_fast speed_very_fast pitch_low pitch_high pause long_pause
    expressive_high expressive_low
    """
)
NEUTRAL: Final = "neutral"

VALUES: Final[dict[str, frozenset[str]]] = {
    "emotion": frozenset((*EMOTIONS, NEUTRAL)),
    "style": frozenset((*STYLES, NEUTRAL)),
    "sfx": frozenset(SOUNDS),
    "prosody": frozenset(PROSODY),
}
"""Category -> values that need no amount; the spellings allowed inside `<|category:value|>`."""

_EMOTION_WORDS: Final[dict[str, str]] = {
    "elation": "elated happy joy joyful delighted cheerful ecstatic euphoric triumphant overjoyed jubilant happiness "
    "glad merry upbeat",
    "amusement": "amused playful mischievous joking comedic humorous funny teasing silly mischievously joking/comedic",
    "enthusiasm": "enthusiastic excited excitement eager energetic anticipation excitedly passionate animated lively",
    "determination": "determined confident resolute assertive firm serious stern authoritative dramatic",
    "pride": "proud smug boastful arrogant",
    "contentment": "content calm peaceful serene relaxed satisfied comfortable grateful soothing thankful gentle soft "
    "warm trust reassuring",
    "affection": "affectionate loving tender love caring friendly kind sympathetic compassionate sympathy empathetic "
    "empathy",
    "relief": "relieved",
    "contemplation": "contemplative thoughtful pensive reflective curious curiosity mysterious thinking",
    "confusion": "confused puzzled hesitant uncertain skeptical sceptical insecure doubtful perplexed hesitation",
    "surprise": "surprised amazed shocked astonished astonishment amazement startled",
    "awe": "awed wonder wondrous reverent awestruck",
    "longing": "nostalgic wistful nostalgia yearning",
    "arousal": "aroused flirtatious seductive sensual flirty",
    "anger": "angry mad outraged furious frustrated agitated threatening annoyed irritated rage frustration enraged "
    "hostile aggressive",
    "fear": "scared afraid fearful anxious panicked alarmed nervous worried terrified anxiety nervously frightened",
    "disgust": "disgusted contempt contemptuous revolted",
    "bitterness": "bitter envious sarcastic ironic resentful jealous sarcasm cynical sarcastically resentment",
    "sadness": "sad dejected melancholic disappointed hurt melancholy sorrowful sorrow mournful depressed heartbroken "
    "disappointment grief tearful unhappy somber sombre lonely rejected",
    "shame": "ashamed guilty apologetic embarrassed guilt remorseful sorry",
    "helplessness": "helpless resigned hopeless desperate tired bored exhausted distant weary despair",
    NEUTRAL: "normal none default deadpan flat",
}

EMOTION_WORDS: Final[dict[str, str]] = {value: value for value in (*EMOTIONS, NEUTRAL)} | {
    word: value for value, words in _EMOTION_WORDS.items() for word in listed(words)
}
"""Any word for a mood -> canonical emotion. Used by `<emotion value>`, `[sad]`, `<|emotion:happy|>` and SSML styles."""

_STYLE_WORDS: Final[dict[str, str]] = {
    "singing": "sings sing sung singsong",
    "shouting": "shouts shout shouted yells yelling yell screams/shouting loudly",
    "whispering": "whispers whisper whispered hushed whispery",
}

STYLE_WORDS: Final[dict[str, str]] = {value: value for value in STYLES} | {
    word: value for value, words in _STYLE_WORDS.items() for word in listed(words)
}

_ACTIONS: Final[dict[str, tuple[Effect, ...]]] = {
    "cough|coughs|coughing|clears throat|clears his throat|clears her throat|clearing throat|clear throat|ahem": (
        Effect("sfx", "cough"),
    ),
    "laughter|laugh|laughs|laughing|chuckle|chuckles|chuckling|giggle|giggles|giggling|laughs harder|starts laughing|"
    "snicker|snickers|snorts|cackles|laughing hysterically|bursts out laughing|light chuckle|wheezing": (
        Effect("sfx", "laughter"),
    ),
    "crying|cries|cry|sob|sobs|sobbing|weeps|weeping|whimpers|whimper": (Effect("sfx", "crying"),),
    "screaming|scream|screams|shriek|shrieks|shrieking": (Effect("sfx", "screaming"),),
    "burping|burp|burps|belch|belches": (Effect("sfx", "burping"),),
    "humming|hum|hums|hmm": (Effect("sfx", "humming"),),
    "sigh|sighs|sighing|exhale|exhales|exhaling|breathes out|heavy sigh|long sigh|deep sigh|groan|groans|yawn|yawns|"
    "takes a deep breath|deep breath|gasps in relief": (Effect("sfx", "sigh"),),
    "sniff|sniffs|sniffing|sniffle|sniffles|sniffling|inhale|inhales|inhaling": (Effect("sfx", "sniff"),),
    "sneeze|sneezes|sneezing|achoo": (Effect("sfx", "sneeze"),),
    "gasp|gasps|gasping": (Effect("emotion", "surprise"),),
    "whispers|whispering|whisper|in a whisper|whispered": (Effect("style", "whispering"),),
    "shouts|shouting|shout|yells|yelling|yell": (Effect("style", "shouting"),),
    "sings|singing|sing|sings softly": (Effect("style", "singing"),),
    "pause|pauses|short pause|beat|silence|brief pause": (Effect("prosody", "pause"),),
    "long pause|pauses for a moment|long silence|pauses for effect": (Effect("prosody", "long_pause"),),
}

_GESTURES: Final = listed(
    """
    smile smiles smiling grin grins grinning nod nods nodding wave waves waving wink winks winking shrug
    shrugs shrugging bow bows blush blushes frown frowns smirk smirks claps clapping applause gulp gulps
    swallows blinks stares hugs hugging leans stretches thinks ponders tilts looks turns raises rolls shakes
    crosses scratches rubs taps points walks music static noise footsteps
    """
)
"""What nobody can hear in a voice: known, not spoken, not reported."""

_SOUNDS_AND_SIGHTS: Final[dict[str, tuple[Effect, ...]]] = {
    phrase: effects for phrases, effects in _ACTIONS.items() for phrase in phrases.split("|")
} | {gesture: () for gesture in _GESTURES}

_ALSO_PROSE: Final = frozenset(
    listed(
        """
    cry scream sing shout yell whisper whispered beat silence laughter hum smile grin nod wave wink shrug bow blush
    frown smirk applause music static noise footsteps
    """
    )
)
"""In stars or parentheses these are more likely a word that somebody stresses or explains: "I could *scream*"."""

ACTIONS: Final[dict[str, tuple[Effect, ...]]] = {
    phrase: effects for phrase, effects in _SOUNDS_AND_SIGHTS.items() if phrase not in _ALSO_PROSE
}
"""Stage directions: `*sighs*`, `(laughs)`, `[laughs]`, `<laugh>`."""

CUES: Final[dict[str, tuple[Effect, ...]]] = (
    {word: (Effect("emotion", value),) for word, value in EMOTION_WORDS.items()}
    | {word: (Effect("style", value),) for word, value in STYLE_WORDS.items()}
    | _SOUNDS_AND_SIGHTS
    | {
        "slow": (Effect("prosody", "speed_slow"),),
        "slowly": (Effect("prosody", "speed_slow"),),
        "very slow": (Effect("prosody", "speed_very_slow"),),
        "drawn out": (Effect("prosody", "speed_slow"),),
        "fast": (Effect("prosody", "speed_fast"),),
        "quickly": (Effect("prosody", "speed_fast"),),
        "rushed": (Effect("prosody", "speed_fast"),),
        "rapid": (Effect("prosody", "speed_fast"),),
        "very fast": (Effect("prosody", "speed_very_fast"),),
        "low pitch": (Effect("prosody", "pitch_low"),),
        "deep voice": (Effect("prosody", "pitch_low"),),
        "high pitch": (Effect("prosody", "pitch_high"),),
        "expressive": (Effect("prosody", "expressive_high"),),
        "monotone": (Effect("prosody", "expressive_low"),),
        "quietly": (Effect("prosody", "volume", 0.6),),
        "quiet": (Effect("prosody", "volume", 0.6),),
        "loud": (Effect("prosody", "volume", 1.4),),
    }
)
"""Bracketed cues in the manner of ElevenLabs v3, and bare names inside `<|…|>`."""

SPOKEN_BRACKETS: Final = frozenset(
    listed(
        """
    he she it they we you i him her them us me his hers its their theirs our your my this that these those
    the a an is are was were be been has have had and or but not no of in on at to for from with by as if
    then sic redacted x
    """
    )
)
"""One-word bracketed text that is an editor's insertion ("as [he] said") and not a cue."""

BREAK_STRENGTHS_S: Final[dict[str, float]] = {
    "none": 0.0,
    "x-weak": 0.1,
    "weak": 0.25,
    "medium": 0.5,
    "strong": 0.8,
    "x-strong": 1.2,
}
RATES: Final[dict[str, float]] = {
    "x-slow": 0.65,
    "slow": 0.85,
    "medium": 1.0,
    "default": 1.0,
    "normal": 1.0,
    "fast": 1.2,
    "x-fast": 1.4,
}
PITCHES_SEMITONES: Final[dict[str, float]] = {
    "x-low": -5.0,
    "low": -3.0,
    "medium": 0.0,
    "default": 0.0,
    "high": 2.5,
    "x-high": 5.0,
}
VOLUMES: Final[dict[str, float]] = {
    "silent": 0.0,
    "x-soft": 0.35,
    "soft": 0.6,
    "quiet": 0.6,
    "medium": 1.0,
    "default": 1.0,
    "loud": 1.4,
    "x-loud": 1.8,
}
EMPHASIS_VOLUMES: Final[dict[str, float]] = {"none": 1.0, "reduced": 0.8, "moderate": 1.15, "strong": 1.3}
"""A family has no emphasis of its own: the words get louder or softer, and go back behind the element."""

LIMITS: Final[dict[str, tuple[float, float]]] = {
    "break": (0.0, 10.0),
    "speed": (0.25, 4.0),
    "pitch": (-12.0, 12.0),
    "volume": (0.0, 4.0),
}
"""The graded controls; an amount is clamped to these."""


def valued_effect(category: str, value: str) -> tuple[Effect, ...] | None:
    """What `<|category:value|>` means: the exact spelling, else any word for it; None where nothing is meant."""
    category, value = category.strip().lower(), value.strip().lower().replace(" ", "_").replace("-", "_")
    if category in ("sound", "sounds", "effect"):
        category = "sfx"
    if value in VALUES.get(category, ()):
        for known in ("emotion", "style", "sfx", "prosody"):
            if category == known:
                return (Effect(known, value),)
    plain = value.replace("_", " ")
    if category == "emotion" and plain in EMOTION_WORDS:
        return (Effect("emotion", EMOTION_WORDS[plain]),)
    if category == "style" and plain in STYLE_WORDS:
        return (Effect("style", STYLE_WORDS[plain]),)
    if category == "sfx":
        effects = CUES.get(plain)
        if effects and effects[0].category == "sfx":
            return effects
    return None


def _without_manner(words: list[str]) -> list[str]:
    return [word for word in words if not (len(word) > 4 and word.endswith("ly"))]


CuePlace = Literal["brackets", "stars", "parentheses"]


def cue_effects(phrase: str, place: CuePlace) -> tuple[Effect, ...] | None:
    """What a cue means; None = not known. Adverbs of manner ("laughs softly") do not matter, nor does what follows the
    verb of an action ("sighs in relief"), but in parentheses, where that is more likely prose ("turns out to be so").
    Moods are known in brackets only: "*very* sad", "(happy to help)"."""
    table = CUES if place == "brackets" else ACTIONS
    words = phrase.lower().replace("-", " ").split()
    found = table.get(" ".join(words))
    if found is None:
        words = _without_manner(words)
        found = table.get(" ".join(words))
    if found is None and place != "parentheses" and 2 <= len(words) <= 6 and words[0].endswith("s"):
        found = ACTIONS.get(words[0])
    return found
