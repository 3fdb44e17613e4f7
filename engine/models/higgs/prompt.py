"""Token layout: the voice prompt and the text blocks that alternate with audio blocks.

    voice prompt   <|tts|>                                                 no reference
                   <|tts|> [<|ref_text|> TRANSCRIPT] <|ref_audio|> ROWS    a cloned voice; ROWS are audio rows
    text block     <|text|> TEXT <|audio|>

    streamed       the voice prompt with <|streaming_tts|> in place of <|tts|>, then
                   <|text|> TOKEN … <|audio|> ROWS TOKEN <|audio|> ROWS … <|text_end|> <|audio|> ROWS

Nothing stands between the pieces. Tags are single tokens of the vocabulary and are written by this file alone: user
text that spells one is read as ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from engine.core.step import TextCadence
from engine.errors import ModelLoadError
from engine.runtime.word_estimate import SECONDS_PER_WEIGHT, WordWeight, total_weight, word_weights
from engine.speech import Control, Notice, Segment, SpeechRequest, TagSupport

TAGS: Mapping[str, tuple[str, ...]] = {
    "emotion": (
        "elation",
        "amusement",
        "enthusiasm",
        "determination",
        "pride",
        "contentment",
        "affection",
        "relief",
        "contemplation",
        "confusion",
        "surprise",
        "awe",
        "longing",
        "arousal",
        "anger",
        "fear",
        "disgust",
        "bitterness",
        "sadness",
        "shame",
        "helplessness",
    ),
    "style": ("singing", "shouting", "whispering"),
    "sfx": ("cough", "laughter", "crying", "screaming", "burping", "humming", "sigh", "sniff", "sneeze"),
    "prosody": (
        "speed_very_slow",
        "speed_slow",
        "speed_fast",
        "speed_very_fast",
        "pitch_low",
        "pitch_high",
        "pause",
        "long_pause",
        "expressive_high",
        "expressive_low",
    ),
}
"""Category -> values: the 43 tags of the vocabulary, spelt `<|category:value|>`."""

SOUND_WORDS: Mapping[str, tuple[str, ...]] = {
    "cough": ("Ahem",),
    "laughter": ("Haha", "Hehe"),
    "crying": ("Boohoo", "Sob"),
    "screaming": ("Ahh", "Aaah"),
    "burping": ("Burp",),
    "humming": ("Hmm", "Mmm"),
    "sigh": ("Uh", "Ahh"),
    "sniff": ("Sff",),
    "sneeze": ("Achoo",),
}
"""A sound effect is followed at once by the sound spelt out; the first spelling is put in where the text has none."""

SPEEDS: Mapping[str | None, float] = {
    "speed_very_slow": 0.65,
    "speed_slow": 0.85,
    None: 1.0,
    "speed_fast": 1.2,
    "speed_very_fast": 1.4,
}
"""The pace that each speed tag stands for."""
PITCHES: Mapping[str | None, float] = {"pitch_low": -3.0, None: 0.0, "pitch_high": 2.5}
"""Semitones that each pitch tag stands for."""

SHORTEST_PAUSE_S = 0.2
SHORT_PAUSE_S = 0.7
LONG_PAUSE_S = 1.1
"""A break below the first is left out, up to the second it is a pause, above it long pauses of about the third."""
MAX_LONG_PAUSES = 3
LONGEST_PAUSES_S: Mapping[str, float] = {"prosody:pause": 0.7, "prosody:long_pause": 1.5}
"""What the pause tags stand for at most."""

CAP_BASE_S = 3.0
CAP_FACTOR = 3.0
CAP_PER_TAG_S = 3.0
"""A block may last so long and so many times its expected duration, and so much more for each inline tag."""

_INLINE = frozenset({"prosody:pause", "prosody:long_pause"})
_PROSODY_GROUPS = ("speed", "pitch", "expressive")


MARKS: Mapping[str, str] = {"begin_text": "<|text|>", "begin_audio": "<|audio|>", "end_text": "<|text_end|>"}
"""What the marks of engine.core.step.TextCadence are called in the vocabulary."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """What PreparedText.payload holds: a text block's tokens (of streamed text the segment's own, without marks), and
    what is known of its words."""

    ids: tuple[int, ...]
    words: tuple[WordWeight, ...]
    max_rows: int
    least_rows: int
    """As many as are expected to speak it: with fewer it should not be begun."""
    pause_s: float
    """Silence that it asks for, at most."""
    notices: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class VoicePrompt:
    """What PreparedPrompt.payload holds: text tokens, then audio rows int64 [N, K]; N = 0 without a reference."""

    ids: tuple[int, ...]
    rows: NDArray[np.int64]
    key: bytes

    @property
    def tokens(self) -> int:
        return len(self.ids) + len(self.rows)


class PromptTokenizer:
    """The checkpoint's tokenizer.json: text without any special token, and special tokens by name."""

    def __init__(self, path: Path) -> None:
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise ModelLoadError(f"{path} cannot be read as a tokenizer: {error}") from error
        added = {token.content: number for number, token in self._tokenizer.get_added_tokens_decoder().items()}
        self._specials = added
        literals = sorted(added, key=len, reverse=True)
        self._literal = re.compile("|".join(map(re.escape, literals))) if literals else None
        absent = [name for name in ("<|tts|>", "<|text|>", "<|audio|>", "<|ref_audio|>") if name not in added]
        if absent:
            raise ModelLoadError(f"{path} lacks the tokens {', '.join(absent)}: it is not this model's tokenizer")

    @property
    def vocabulary(self) -> int:
        """One more than the highest id."""
        return max(self._tokenizer.get_vocab().values()) + 1

    def special(self, name: str) -> int | None:
        """The id of an added token such as "<|audio|>"; None where the checkpoint has none."""
        return self._specials.get(name)

    def encode(self, text: str) -> list[int]:
        """Ordinary text. What spells a special token is cut inside it first, so that it stays ordinary."""
        if self._literal is None:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        ids: list[int] = []
        start = 0
        for match in self._literal.finditer(text):
            ids += self._tokenizer.encode(text[start : match.start() + 1], add_special_tokens=False).ids
            start = match.start() + 1
        ids += self._tokenizer.encode(text[start:], add_special_tokens=False).ids
        return ids


class PromptWriter:
    """Segments and references into tokens; `cadence`: for text that is streamed."""

    def __init__(
        self,
        tokenizer: PromptTokenizer,
        codebooks: int,
        frames_per_s: float,
        max_block_rows: int,
        cadence: TextCadence | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._codebooks = codebooks
        self._frames_per_s = frames_per_s
        self._max_block_rows = max_block_rows
        self._cadence = cadence
        if cadence is not None:
            absent = [name for name in ("<|streaming_tts|>", *MARKS.values()) if tokenizer.special(name) is None]
            if absent:
                raise ModelLoadError(f"the checkpoint cannot stream text: it lacks the tokens {', '.join(absent)}")

    def mark(self, kind: str) -> int:
        """The token of a mark."""
        return self._required(MARKS[kind])

    @property
    def tag_support(self) -> dict[str, TagSupport]:
        """Every control's support, by canonical name."""
        support: dict[str, TagSupport] = {
            f"{category}:{value}": "rendered"
            for category, values in TAGS.items()
            for value in values
            if self._tokenizer.special(f"<|{category}:{value}|>") is not None
        }
        support |= dict.fromkeys(("emotion:neutral", "style:neutral"), "rendered")
        support |= dict.fromkeys(("prosody:break", "prosody:speed", "prosody:pitch"), "approximated")
        return support

    def text_block(self, segment: Segment, request: SpeechRequest) -> TextBlock:
        """`<|text|>` the segment's text and tags `<|audio|>`. State tags that hold from its start lead it, those of
        earlier segments among them; everything else stands where it was written. No tokens where nothing is spoken."""
        held = tuple(replace(control, at=0) for control in segment.carried)
        head, inline, pace = _arrange((*held, *segment.controls), request.speed, segment.is_continuation)
        notices: list[Notice] = []
        tags: list[int] = []
        for name in head:
            tags += self._tag(name, notices)
        text = self._text(segment, inline, notices)
        if segment.pronunciations:
            notices.append(Notice("parameter_ignored", "lexicon", "this model cannot be given a word's phonemes"))
        if any(control.name == "prosody:volume" for control in segment.controls):
            notices.append(
                Notice("tag_unsupported", "prosody:volume", "this model cannot render the tag prosody:volume")
            )
        if not segment.is_continuation and not _is_speakable(segment.text, inline):
            if inline:
                name = inline[0][1]
                notices.append(Notice("tag_unsupported", name, "a pause alone, with no word beside it, is left out"))
            return TextBlock((), (), 0, 0, 0.0, tuple(notices))
        ids = [*tags, *text]
        if self._cadence is None:
            ids = [self._required("<|text|>"), *ids, self._required("<|audio|>")]
        words = word_weights(segment)
        rows, most_rows = self._rows(segment, words, len(inline), pace, len(ids))
        pause_s = sum(LONGEST_PAUSES_S.get(name, 0.0) for _, name in inline)
        return TextBlock(tuple(ids), words, most_rows, rows, pause_s, tuple(notices))

    def _text(self, segment: Segment, inline: Sequence[tuple[int, str]], notices: list[Notice]) -> list[int]:
        """The segment's text with the tags that stand in it."""
        start = 0 if segment.is_continuation else len(segment.text) - len(segment.text.lstrip())
        end = max(start, len(segment.text.rstrip()))
        ids: list[int] = []
        gap = ""
        for at, name in inline:
            place = min(max(at, start), end)
            ids += self._tokenizer.encode(gap + segment.text[start:place] if place > start else "")
            gap = gap if place == start else ""
            start = place
            written = self._tag(name, notices)
            ids += written
            if written and name.startswith("sfx:"):
                ids += self._tokenizer.encode(_sound_word(name.removeprefix("sfx:"), segment.text[start:]))
                gap = ""
            elif written and segment.text[max(start - 1, 0) : start] == " " and segment.text[start : start + 1] != " ":
                gap = " "  # of the spaces on either side of a tag one has been kept, in front of it
        return ids + self._tokenizer.encode(gap + segment.text[start:end] if end > start else "")

    def voice_prompt(self, rows: NDArray[np.int64] | None, transcript: str | None, key: bytes) -> VoicePrompt:
        """The head of a sequence; `rows`: the reference's staggered rows [N, K]."""
        ids = [self._required("<|tts|>" if self._cadence is None else "<|streaming_tts|>")]
        if rows is None:
            return VoicePrompt(tuple(ids), np.zeros((0, self._codebooks), np.int64), key)
        ref_text = self._tokenizer.special("<|ref_text|>")
        if transcript and ref_text is not None:
            ids += [ref_text, *self._tokenizer.encode(transcript.strip())]
        ids.append(self._required("<|ref_audio|>"))
        return VoicePrompt(tuple(ids), rows, key)

    def _rows(
        self, segment: Segment, words: Sequence[WordWeight], inline_tags: int, pace: float, tokens: int
    ) -> tuple[int, int]:
        """Rows that are expected to speak it, and those that do at most; of streamed text, what the segment adds to
        those of its block."""
        expected_s = total_weight(words) * SECONDS_PER_WEIGHT / pace
        longest_s = CAP_FACTOR * expected_s + CAP_PER_TAG_S * inline_tags
        paced = 0 if self._cadence is None else tokens * self._cadence.rows_per_token
        ramp = 0 if segment.is_continuation else self._codebooks - 1
        base_s = 0.0 if segment.is_continuation else CAP_BASE_S
        expected = max(paced, ceil(expected_s * self._frames_per_s)) + ramp
        most = max(paced, ceil(longest_s * self._frames_per_s)) + ceil(base_s * self._frames_per_s) + ramp
        return min(self._max_block_rows, expected), min(self._max_block_rows, most)

    def _tag(self, name: str, notices: list[Notice]) -> list[int]:
        number = self._tokenizer.special(f"<|{name}|>")
        if number is None:
            notices.append(Notice("tag_unsupported", name, f"this checkpoint has no tag {name}; it is left out"))
            return []
        return [number]

    def _required(self, name: str) -> int:
        number = self._tokenizer.special(name)
        assert number is not None  # the tokenizer was checked for it
        return number


def _is_speakable(text: str, inline: Sequence[tuple[int, str]]) -> bool:
    """It has a word, or a sound to be made. A prompt without either would be answered with invented speech."""
    return any(char.isalnum() for char in text) or any(name.startswith("sfx:") for _, name in inline)


def _arrange(
    controls: Sequence[Control], request_speed: float, is_continuation: bool
) -> tuple[list[str], list[tuple[int, str]], float]:
    """(tags that lead the block, tags in place, pace): graded controls become the nearest tag, breaks at one place
    being one; of several state tags of one kind at one place the last holds. In a continuation the request's speed has
    been stated before."""
    states: dict[tuple[int, str], str | None] = {}
    inline: list[tuple[int, int, str]] = []
    breaks: dict[int, tuple[int, float]] = {}
    pace = request_speed
    for order, control in enumerate(sorted(controls, key=lambda control: control.at)):
        match control.category, control.value:
            case "prosody", "break":
                first, seconds = breaks.get(control.at, (order, 0.0))
                breaks[control.at] = (first, seconds + (control.amount or 0.0))
            case "prosody", "speed":
                pace = request_speed * (control.amount or 1.0)
                states[control.at, "speed"] = _nearest(SPEEDS, pace, is_ratio=True)
            case "prosody", "pitch":
                states[control.at, "pitch"] = _nearest(PITCHES, control.amount or 0.0, is_ratio=False)
            case "prosody", "volume":
                pass
            case "sfx", _:
                inline.append((control.at, order, control.name))
            case _ if control.name in _INLINE:
                inline.append((control.at, order, control.name))
            case _:
                group = next((g for g in _PROSODY_GROUPS if control.value.startswith(g)), control.category)
                states[control.at, group] = None if control.value == "neutral" else control.name
                if group == "speed":
                    pace = SPEEDS.get(control.value, pace)
    if request_speed != 1.0 and not is_continuation and (0, "speed") not in states:
        states[0, "speed"] = _nearest(SPEEDS, request_speed, is_ratio=True)
    for at, (order, seconds) in breaks.items():
        inline += [(at, order, name) for name in _pauses(seconds)]
    placed = [(at, group, name) for (at, group), name in states.items() if name is not None]
    order_of = {"emotion": 0, "style": 1, "speed": 2, "pitch": 3, "expressive": 4}
    head = [name for at, group, name in sorted(placed, key=lambda s: (s[0], order_of[s[1]])) if at == 0]
    later = [(at, -1, name) for at, _, name in placed if at > 0]
    return head, [(at, name) for at, _, name in sorted(later + inline, key=lambda tag: tag[:2])], max(pace, 0.25)


def _nearest(choices: Mapping[str | None, float], wanted: float, is_ratio: bool) -> str | None:
    def distance(value: float) -> float:
        return abs(log(wanted / value)) if is_ratio else abs(wanted - value)

    name = min(choices, key=lambda name: distance(choices[name]))
    return None if name is None else f"prosody:{name}"


def _pauses(seconds: float) -> list[str]:
    if seconds < SHORTEST_PAUSE_S:
        return []
    if seconds <= SHORT_PAUSE_S:
        return ["prosody:pause"]
    return ["prosody:long_pause"] * min(MAX_LONG_PAUSES, max(1, round(seconds / LONG_PAUSE_S)))


def _sound_word(value: str, following: str) -> str:
    """What has to be put behind a sound effect's tag: nothing where the text spells the sound itself."""
    spellings = SOUND_WORDS.get(value, ())
    if not spellings or following.casefold().startswith(tuple(s.casefold() for s in spellings)):
        return ""
    gap = " " if following[:1].isalnum() else ""
    return spellings[0] + gap
