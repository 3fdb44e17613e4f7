"""Which text owns which samples of one utterance; what was sent, played, heard.

Output samples are counted at the utterance's own rate; engine samples at the model's. The ledger converts.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from dataclasses import dataclass

from engine.speech import Segment, WordTiming
from gateway.audio.sample_map import SampleMap
from gateway.events import PlayedSource, Word

AUDIBLE_LEVEL = 0.01
"""|sample| from which sound counts as audible: -40 dBFS."""

CLOSING_PUNCTUATION = frozenset(".,;:!?…\"'`。！？、，；：؟۔،।॥။၊")
"""Marks that end what stands before them, beside Unicode's closing brackets and quotes (Pe, Pf)."""


@dataclass(frozen=True, slots=True)
class Played:
    samples: int
    """Output samples, at most what was sent."""
    source: PlayedSource


@dataclass(frozen=True, slots=True)
class Heard:
    """`chars`: the utterance's input before it was spoken and heard. `engine_samples`: played, at the model's rate."""

    chars: int
    engine_samples: int


class Ledger:
    """One utterance's books. Every method that depends on time takes `now_s`; times never run backwards."""

    def __init__(self, samples: SampleMap) -> None:
        self._samples = samples
        self._rate_hz = samples.output_rate_hz
        self._parts: list[str] = []
        self._text = ""
        self._chars = 0
        self._segments: list[Segment] = []
        self._words: list[WordTiming] = []
        self._sent_samples = 0
        self._acknowledged_samples: int | None = None
        self._clock_samples = 0.0
        self._clock_at_s: float | None = None

    # ---- text --------------------------------------------------------------------------------------------------------

    def received(self, text: str) -> None:
        self._parts.append(text)
        self._chars += len(text)

    @property
    def chars(self) -> int:
        """Code points received."""
        return self._chars

    @property
    def text(self) -> str:
        """All input received, verbatim."""
        if len(self._text) != self._chars:
            self._text += "".join(self._parts)
            self._parts.clear()
        return self._text

    def fed(self, segment: Segment) -> None:
        self._segments.append(segment)

    def spoken(self, words: tuple[WordTiming, ...]) -> tuple[Word, ...]:
        """Note the words of a chunk; returns them as the wire shows them."""
        self._words.extend(words)
        text = self.text
        return tuple(
            Word(
                text[word.start_char : word.end_char],
                word.start_char,
                word.end_char,
                self._samples.to_output(word.start_sample),
                self._samples.to_output(word.end_sample),
                _closing_run(text, word.end_char),
            )
            for word in words
        )

    # ---- samples -----------------------------------------------------------------------------------------------------

    def sent(self, samples: int, now_s: float, starts_at_s: float) -> None:
        """`samples` more were written. `starts_at_s`: when the assumed player can start on this utterance (the lane's
        earlier ones have to end first); used at the first sample only."""
        self._advance_clock(now_s)
        if self._clock_at_s is None and samples:
            self._clock_at_s = max(now_s, starts_at_s)
        self._sent_samples += samples

    @property
    def sent_samples(self) -> int:
        return self._sent_samples

    @property
    def sent_s(self) -> float:
        return self._sent_samples / self._rate_hz

    def acknowledged(self, played_s: float) -> None:
        """The client's cumulative report; a lower one is ignored, more than was sent counts as all of it."""
        samples = self._clamped(played_s)
        if self._acknowledged_samples is None or samples > self._acknowledged_samples:
            self._acknowledged_samples = samples

    def played(self, now_s: float) -> Played:
        """By the last `ack`, else by an assumed player: from the first audio sent, in real time, waiting when empty."""
        if self._acknowledged_samples is not None:
            return Played(self._acknowledged_samples, "ack")
        self._advance_clock(now_s)
        return Played(int(self._clock_samples), "clock")

    def played_s(self, now_s: float) -> float:
        return self.played(now_s).samples / self._rate_hz

    def is_clock_running(self, now_s: float) -> bool:
        """Whether the assumed player still has something to play, so that time alone moves `played`."""
        return self._acknowledged_samples is None and self.played(now_s).samples < self._sent_samples

    def reported(self, played_s: float) -> tuple[Played, bool]:
        """What a cancel's own report means, and whether it had to be clamped to what was sent."""
        samples = self._clamped(played_s)
        is_clamped = played_s * self._rate_hz >= self._sent_samples + 0.5 * self._rate_hz / 1000
        return Played(samples, "client"), is_clamped

    def playout_end_s(self, now_s: float) -> float:
        """When the assumed player will have played all that was sent."""
        self._advance_clock(now_s)
        if self._clock_at_s is None:
            return now_s
        return max(now_s, self._clock_at_s) + (self._sent_samples - self._clock_samples) / self._rate_hz

    def _clamped(self, played_s: float) -> int:
        return min(self._sent_samples, int(min(played_s, 1e9) * self._rate_hz + 0.5))

    def _advance_clock(self, now_s: float) -> None:
        if self._clock_at_s is None or now_s <= self._clock_at_s:
            return
        elapsed_samples = (now_s - self._clock_at_s) * self._rate_hz
        self._clock_samples = min(float(self._sent_samples), self._clock_samples + elapsed_samples)
        self._clock_at_s = now_s

    # ---- heard -------------------------------------------------------------------------------------------------------

    def heard(self, played_samples: int) -> Heard:
        """What had been heard at output sample `played_samples`. A word is heard when at least half of it was played;
        `chars` is the start of the first unheard word, all of the input where there is none."""
        engine_samples = self._samples.to_engine(played_samples)
        heard_words = bisect_right(
            self._words, 2 * engine_samples, key=lambda word: word.start_sample + word.end_sample
        )
        if heard_words < len(self._words):
            chars = self._words[heard_words].start_char
        elif heard_words == 0:
            chars = 0
        else:
            chars = self._next_word_start(self._words[-1].end_char)
        return Heard(chars, engine_samples)

    def _next_word_start(self, after: int) -> int:
        """Start of the first word at or after this place that has no timing yet."""
        for segment in self._segments:
            if segment.span.end <= after:
                continue
            for character, source in zip(segment.text, segment.sources, strict=True):
                if source.start >= after and character.isalnum():
                    return source.start
        text = self.text
        place = max(after, self._segments[-1].span.end if self._segments else 0)
        while place < len(text) and (text[place].isspace() or _closes(text[place])):
            place += 1
        return place


def _closing_run(text: str, start: int) -> str:
    """The closing punctuation that stands at `start`, up to the first other character."""
    end = start
    while end < len(text) and _closes(text[end]):
        end += 1
    return text[start:end]


def _closes(character: str) -> bool:
    return character in CLOSING_PUNCTUATION or unicodedata.category(character) in ("Pe", "Pf")
