"""ClientEvent, ServerEvent and Action: all that passes between dialect, session and connection. Frozen data only.

Times are seconds, audio is samples; milliseconds appear only on a wire, inside a dialect. "Output samples" are counted
at the utterance's own sample rate, before encoding. Text positions are code points of the utterance's input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal

from engine.speech import ModelInfo, Sampling, Segment, SpeechRequest, TagScope, WordTimingKind
from gateway.errors import ErrorCode, WarningCode

Segmentation = Literal["auto", "manual"]
AudioEncoding = Literal["binary", "base64"]
PlayedSource = Literal["client", "ack", "clock"]
DoneReason = Literal["complete", "timeout", "error"]


class Unset(Enum):
    """Marks a setting that a `Configure` leaves as it is (None is a value of some)."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET

SPEED_RANGE: Final = (0.5, 2.0)
"""Ratios of the voice's own pace that any family can be asked for."""


# ---- client → server -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UtteranceOptions:
    """What an utterance may ask for; None = the session's default."""

    voice: str | None = None
    format: str | None = None
    sample_rate_hz: int | None = None
    speed: float | None = None
    seed: int | None = None
    language: str | None = None
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True, slots=True)
class OpenUtterance:
    utterance: str
    lane: str = "main"
    options: UtteranceOptions = field(default_factory=UtteranceOptions)
    has_words: bool = True
    segmentation: Segmentation = "auto"


@dataclass(frozen=True, slots=True)
class TextFragment:
    """Text exactly as one message brought it; may hold half a surrogate pair at either end."""

    utterance: str
    text: str


@dataclass(frozen=True, slots=True)
class Flush:
    utterance: str
    id: str | int | None = None


@dataclass(frozen=True, slots=True)
class EndText:
    utterance: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Barge-in; utterance None = all. `played_s`: what the client's player had played of it."""

    utterance: str | None = None
    played_s: float | None = None


@dataclass(frozen=True, slots=True)
class Acknowledge:
    utterance: str
    played_s: float


@dataclass(frozen=True, slots=True)
class Configure:
    """Defaults for utterances opened later. Atomic."""

    voice: str | Unset = UNSET
    format: str | Unset = UNSET
    sample_rate_hz: int | Unset | None = UNSET
    speed: float | Unset = UNSET
    seed: int | Unset | None = UNSET
    language: str | Unset | None = UNSET
    lexicon: Mapping[str, str] | Unset = UNSET
    max_ahead_s: float | Unset | None = UNSET
    tag_scope: TagScope | Unset = UNSET
    resume_s: float | Unset = UNSET
    audio_encoding: AudioEncoding | Unset = UNSET


@dataclass(frozen=True, slots=True)
class Resume:
    resume_token: str
    last_seq: int


@dataclass(frozen=True, slots=True)
class Ping:
    id: str | int | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """The client wants the connection closed once everything it asked for has been said (vendors' CloseStream kind)."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A dialect's own warning about what it was asked for (a vendor's name that it replaced); answered by `Warned`."""

    code: WarningCode
    message: str
    utterance: str | None = None
    detail: str | None = None


ClientEvent = (
    OpenUtterance | TextFragment | Flush | EndText | Cancel | Acknowledge | Configure | Resume | Ping | Leave | Remark
)


# ---- server → client -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    message_bytes: int
    utterance_chars: int
    utterances: int
    idle_s: float
    utterance_idle_s: float
    resume_s: float


@dataclass(frozen=True, slots=True)
class Ready:
    session: str
    resume_token: str
    model: ModelInfo
    formats: tuple[str, ...]
    sample_rate_hz: int
    limits: Limits
    version: str


@dataclass(frozen=True, slots=True)
class Started:
    utterance: str
    number: int
    voice: str
    format: str
    sample_rate_hz: int
    seed: int
    word_timing: WordTimingKind
    pre_skip_samples: int | None = None
    """Opus only: samples a decoder has to drop at the start."""


@dataclass(frozen=True, slots=True)
class Audio:
    """One encoded frame. `sample_count` output samples from `start_sample` on; the payload may be empty on the last."""

    utterance: str
    number: int
    start_sample: int
    sample_count: int
    payload: bytes
    sample_rate_hz: int
    encoding: AudioEncoding = "binary"
    """How a text protocol carries the payload; the session's setting when the utterance was opened."""
    is_first: bool = False
    is_last: bool = False
    is_segment_end: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A spoken word: input verbatim, its code points, and output samples from the utterance's first sample."""

    text: str
    start_char: int
    end_char: int
    start_sample: int
    end_sample: int
    closing: str = ""
    """The closing punctuation that stands directly behind the word in the input."""


@dataclass(frozen=True, slots=True)
class Words:
    utterance: str
    words: tuple[Word, ...]
    sample_rate_hz: int


@dataclass(frozen=True, slots=True)
class Flushed:
    utterance: str
    id: str | int | None


@dataclass(frozen=True, slots=True)
class UtteranceMetrics:
    queue_s: float
    """First text received → first segment taken up by the engine."""
    first_audio_s: float | None
    """First text received → first audible sample written; None where nothing was audible."""
    generation_s: float
    segments: int


@dataclass(frozen=True, slots=True)
class Done:
    utterance: str
    reason: DoneReason
    audio_samples: int
    sample_rate_hz: int
    chars: int
    metrics: UtteranceMetrics


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Barge-in answered: `spoken_text + remaining_text` is the utterance's whole input."""

    utterance: str
    after_done: bool
    sent_samples: int
    played_samples: int
    sample_rate_hz: int
    played_source: PlayedSource
    spoken_text: str
    remaining_text: str


@dataclass(frozen=True, slots=True)
class Warned:
    code: WarningCode
    message: str
    utterance: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """An `error` on the wire; `is_fatal` where the close follows."""

    code: ErrorCode
    message: str
    utterance: str | None = None
    is_retryable: bool = False
    retry_after_s: float | None = None
    is_fatal: bool = False
    ends_utterance: bool = False
    """Nothing follows for `utterance`, no `Done` either: it was refused when it was opened, or is over."""


@dataclass(frozen=True, slots=True)
class ResumedUtterance:
    utterance: str
    received_chars: int
    is_ended: bool


@dataclass(frozen=True, slots=True)
class Resumed:
    session: str
    utterances: tuple[ResumedUtterance, ...]


@dataclass(frozen=True, slots=True)
class Pong:
    id: str | int | None


ServerEvent = Ready | Started | Audio | Words | Flushed | Done | Cancelled | Warned | Failed | Resumed | Pong


# ---- what a session asks its connection to do ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenSpeech:
    """Open an engine stream for an utterance."""

    utterance: str
    lane: str
    request: SpeechRequest


@dataclass(frozen=True, slots=True)
class FeedSpeech:
    utterance: str
    segment: Segment


@dataclass(frozen=True, slots=True)
class FinishSpeech:
    utterance: str


@dataclass(frozen=True, slots=True)
class CancelSpeech:
    """Stop an utterance's stream; the context keeps what was heard."""

    utterance: str
    heard_samples: int
    heard_chars: int


@dataclass(frozen=True, slots=True)
class ReleaseSpeech:
    """The utterance can no longer be cancelled: its stream may go."""

    utterance: str


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Write what is queued, then close with this WebSocket code. `is_forced`: the peer has a few seconds for it."""

    code: int
    reason: str
    is_forced: bool = False


Action = OpenSpeech | FeedSpeech | FinishSpeech | CancelSpeech | ReleaseSpeech | CloseConnection
