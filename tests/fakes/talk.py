"""A Session without sockets, engine or clock: tests pass the events, the chunks and the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

import numpy as np

from engine.speech import AudioChunk, ModelInfo, Segment, VoiceInfo, WordTiming
from engine.timeline import Timeline
from gateway.admission import Admission, AdmissionLimits
from gateway.errors import ClientError
from gateway.events import (
    Action,
    Audio,
    CancelSpeech,
    ClientEvent,
    FeedSpeech,
    FinishSpeech,
    Limits,
    OpenSpeech,
    OpenUtterance,
    ServerEvent,
)
from gateway.session import Session
from gateway.session_defaults import SessionDefaults, SessionSettings
from gateway.text.front_end import TextFrontEnd
from gateway.text.lexicon import Lexicon
from gateway.text.settings import TextSettings
from gateway.utterance import Utterance

RATE_HZ = 24000
SAMPLES_PER_WORD = 12_000
"""Half a second."""

MODEL = ModelInfo(
    name="stand-in",
    sample_rate_hz=RATE_HZ,
    voices=(VoiceInfo("alto", "Alto", "en"), VoiceInfo("bass", "Bass", "en")),
    default_voice="alto",
    languages=frozenset({"en"}),
    word_timing="exact",
    tags={"emotion:elation": "approximated", "prosody:pause": "rendered"},
    parameters=frozenset({"speed", "seed"}),
    has_text_normalizer=True,
)
SETTINGS = SessionSettings(
    limits=Limits(262_144, 1000, 4, 100.0, 10.0, 0.0),
    kept_utterances=3,
    max_ahead_s=None,
    default_format="pcm_s16le",
    default_sample_rate_hz=None,
    text=TextSettings(),
    lexicon=Lexicon.empty(),
    outbox_s=2.0,
    version="0",
)
AMPLE = AdmissionLimits(100, 100, 100, 100)
Event = TypeVar("Event", bound=ServerEvent)


def chunk_of(segment: Segment, start_sample: int, *, is_final: bool = False, level: float = 0.5) -> AudioChunk:
    """The whole of a segment in one chunk: half a second a word."""
    words: list[WordTiming] = []
    place = 0
    for word in segment.text.split():
        first = segment.text.index(word, place)
        place = first + len(word)
        start = start_sample + len(words) * SAMPLES_PER_WORD
        sources = segment.sources
        words.append(WordTiming(sources[first].start, sources[place - 1].end, start, start + SAMPLES_PER_WORD))
    pcm = np.full(len(words) * SAMPLES_PER_WORD, level, np.float32)
    return AudioChunk(pcm, start_sample, tuple(words), is_segment_end=True, is_final=is_final)


def utterance_of(
    event: OpenUtterance,
    *,
    model: ModelInfo = MODEL,
    number: int = 0,
    now_s: float = 0.0,
    max_ahead_s: float | None = None,
) -> Utterance:
    """An utterance as a session opens it."""
    settings = replace(SETTINGS, max_ahead_s=max_ahead_s)
    resolved, _ = SessionDefaults.of(settings, model).resolve(event, model, number, 1)
    front_end = TextFrontEnd(
        SETTINGS.text,
        lexicon=SETTINGS.lexicon,
        segmentation=event.segmentation,
        language=None,
        spoken_languages=model.languages,
        has_text_normalizer=True,
    )
    return Utterance(resolved, front_end, now_s)


@dataclass
class Talk:
    """`now_s` is the time that the next call passes in. Everything the session says lands in `said`."""

    limits: AdmissionLimits = AMPLE
    changes: Mapping[str, object] = field(default_factory=dict)
    read_model: Callable[[], ModelInfo] = lambda: MODEL
    now_s: float = 100.0
    said: list[ServerEvent] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    errors: list[ClientError] = field(default_factory=list)
    spoken_samples: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.admission = Admission(self.limits)
        settings = replace(SETTINGS, **self.changes)  # type: ignore[arg-type]
        self.session = Session("s", "t", "key", self.read_model, settings, self.admission, Random(1), self.now_s)

    def do(self, *events: ClientEvent) -> list[Action]:
        """Handle events like a connection does; refused ones are answered."""
        actions: list[Action] = []
        for event in events:
            try:
                actions += self.session.handle(event, self.now_s)
            except ClientError as error:
                self.errors.append(error)
                actions += self.session.refuse(error)
        self._note(actions)
        return actions

    def pass_time(self, seconds: float) -> list[Action]:
        self.now_s += seconds
        actions = self.session.on_time(self.now_s)
        self._note(actions)
        return actions

    def speak(self, utterance: str, *, is_final: bool = False, level: float = 0.5) -> None:
        """The engine speaks every segment fed and not yet spoken; final if so asked, or if the text was finished."""
        pending = [
            action.segment
            for action in self.actions
            if isinstance(action, FeedSpeech) and action.utterance == utterance
        ]
        finished = any(isinstance(action, FinishSpeech) and action.utterance == utterance for action in self.actions)
        self.actions = [action for action in self.actions if getattr(action, "utterance", None) != utterance]
        for index, segment in enumerate(pending):
            is_last = index == len(pending) - 1
            start = self.spoken_samples.get(utterance, 0)
            chunk = chunk_of(segment, start, is_final=is_last and (finished or is_final), level=level)
            self.spoken_samples[utterance] = start + len(chunk.pcm)
            self.session.audio(utterance, chunk, Timeline())
        if finished and not pending:
            start = self.spoken_samples.get(utterance, 0)
            self.session.audio(utterance, AudioChunk(np.zeros(0, np.float32), start, is_final=True), Timeline())

    def write(self, limit: int | None = None) -> list[ServerEvent]:
        """Write what may go now, at most `limit` events; returns it."""
        written: list[ServerEvent] = []
        while limit is None or len(written) < limit:
            event = self.session.take(self.now_s)
            if event is None:
                break
            written.append(event)
            self._note(self.session.written(event, self.now_s))
        self.said += written
        return written

    def of(self, kind: type[Event], utterance: str | None = None) -> list[Event]:
        """Everything said of a kind."""
        return [
            event
            for event in self.said
            if isinstance(event, kind) and (utterance is None or getattr(event, "utterance", None) == utterance)
        ]

    def sent_samples(self, utterance: str) -> int:
        return sum(event.sample_count for event in self.of(Audio, utterance))

    def _note(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, OpenSpeech | CancelSpeech):
                self.actions = [a for a in self.actions if getattr(a, "utterance", None) != action.utterance]
                if isinstance(action, OpenSpeech):
                    self.spoken_samples[action.utterance] = 0
        self.actions += actions
