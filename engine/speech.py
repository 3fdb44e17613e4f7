"""What travels between gateway and engine: segments in, chunks of audio with their words out. Pure data.

Text positions are Unicode code points of the utterance's input text as received, tags included.
Audio positions are engine samples counted from the utterance's first sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Pcm: TypeAlias = "NDArray[np.float32]"
"""Mono samples, float32 [S], nominally within [-1, 1]."""

ControlCategory = Literal["emotion", "style", "prosody", "sfx"]
Boundary = Literal["clause", "sentence", "paragraph", "forced", "end"]
WordTimingKind = Literal["exact", "estimated"]
TagSupport = Literal["rendered", "approximated", "contextual", "unsupported"]
TagScope = Literal["utterance", "session"]
TextUnit = Literal["clause", "word"]


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of code points of the utterance's input text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Control:
    """One parsed inline tag at its place in a segment.

    `value` is one of the model-independent values of `gateway/text/vocabulary.py` (Higgs v3's vocabulary: "elation",
    "whispering", "pause", "speed_fast", "cough" ...) or one of the graded prosody controls, which carry an `amount`:
    "break" (pause, seconds), "speed" (ratio, 1 = the voice's own pace), "pitch" (semitones), "volume" (linear gain).
    `amount` is None exactly where the value itself says everything.
    """

    category: ControlCategory
    value: str
    at: int
    """Index into `Segment.text` before which the tag stands (0 … len(text))."""
    span: Span
    amount: float | None = None

    @property
    def name(self) -> str:
        """Canonical tag name, e.g. "emotion:elation"; the key of `ModelInfo.tags`."""
        return f"{self.category}:{self.value}"


@dataclass(frozen=True, slots=True)
class Pronunciation:
    """Phonemes (IPA) for `Segment.text[start:end]`, from a lexicon or a phoneme tag."""

    start: int
    end: int
    phonemes: str


@dataclass(frozen=True, slots=True)
class Segment:
    """Text and controls that the chunker has released for synthesis; it never changes afterwards.

    The `span`s of an utterance's segments tile its input from 0 without gap or overlap, so text that is not spoken
    (tags, markdown) belongs to the segment it stands in. `sources[i]` is the input span that `text[i]` came from;
    sources ascend, and code points of one replacement share their span.
    """

    text: str
    span: Span
    sources: tuple[Span, ...]
    boundary: Boundary
    """What closed it: "forced" = cut in mid-phrase by a wait or a length limit, "end" = flush or end of the text."""
    controls: tuple[Control, ...] = ()
    pronunciations: tuple[Pronunciation, ...] = ()
    carried: tuple[Control, ...] = ()
    """State tags in force where the segment begins, filled in by the engine: a family without tag state of its own
    states them again. Their `at` and `span` are those of the segment they stood in."""
    language: str | None = None
    """BCP 47 primary subtag or script-derived guess ("en", "zh", "ar" ...); None = the utterance's language."""
    is_continuation: bool = False
    """It goes on where the segment before it ended, in the same text; filled in by the engine, for families that speak
    text while it is being written."""

    @classmethod
    def verbatim(
        cls, text: str, boundary: Boundary = "end", start: int = 0, controls: tuple[Control, ...] = ()
    ) -> Segment:
        """Text that is spoken as it is: every code point is its own source, from input position `start` on."""
        sources = tuple(Span(at, at + 1) for at in range(start, start + len(text)))
        return cls(text, Span(start, start + len(text)), sources, boundary, controls)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of a request; None = the family's default."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """Everything that holds for a whole utterance."""

    voice: str
    seed: int
    speed: float = 1.0
    language: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    tag_scope: TagScope = "utterance"


@dataclass(frozen=True, slots=True)
class WordTiming:
    """One spoken word: input code points [start_char, end_char) and samples [start_sample, end_sample)."""

    start_char: int
    end_char: int
    start_sample: int
    end_sample: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the family has to say about a segment: a tag it could not render, a guard that cut in."""

    code: Literal[
        "tag_approximated", "tag_unsupported", "unsupported_language", "parameter_ignored", "speech_truncated"
    ]
    detail: str
    """What it is about, e.g. the canonical tag name."""
    message: str
    """A sentence for the client."""


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """PCM of one utterance. `start_sample` is contiguous; `pcm` may be empty where only a flag has to be carried."""

    pcm: Pcm
    start_sample: int
    words: tuple[WordTiming, ...] = ()
    """Words whose first sample lies in this chunk (exact timing), or any later-than-first-sample estimates."""
    notices: tuple[Notice, ...] = ()
    is_segment_end: bool = False
    """The last chunk of a segment: one such chunk per fed segment, in order, also where a segment gave no sound."""
    is_final: bool = False
    """The last chunk of the utterance: once, after `finish()`; nothing follows."""


@dataclass(frozen=True, slots=True)
class VoiceInfo:
    """One voice a loaded model offers."""

    id: str
    name: str
    language: str
    description: str = ""
    derived_from: str | None = None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a loaded model can do, in words the gateway and its clients understand."""

    name: str
    sample_rate_hz: int
    voices: tuple[VoiceInfo, ...]
    default_voice: str
    languages: frozenset[str]
    """BCP 47 primary subtags it speaks; empty = any."""
    word_timing: WordTimingKind
    tags: Mapping[str, TagSupport]
    """Canonical tag name -> support; absent = unsupported. "contextual": the model tells by a Notice."""
    parameters: frozenset[str]
    """Request parameters it can use, of "speed", "seed", "language", "temperature", "top_p", "top_k"."""
    can_clone: bool = False
    has_text_normalizer: bool = False
    """It reads numbers, dates and the like itself."""
    text_unit: TextUnit = "clause"
    """What its segments should be: whole clauses and sentences, or single words as soon as they cannot change."""
