"""One utterance of a session: its states, its text on the way in, its queue and its books on the way out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from engine.speech import AudioChunk, ModelInfo, Segment, SpeechRequest
from engine.timeline import Timeline
from gateway.audio.formats import AudioFormat
from gateway.audio.sample_map import SampleMap
from gateway.errors import ClientError, ErrorCode, WarningCode
from gateway.events import (
    Audio,
    AudioEncoding,
    Cancelled,
    Done,
    DoneReason,
    Flushed,
    ServerEvent,
    Started,
    UtteranceMetrics,
    Warned,
    Words,
)
from gateway.ledger import AUDIBLE_LEVEL, Heard, Ledger, Played
from gateway.outbox import Head, Outbox
from gateway.text.front_end import Released, TextFrontEnd
from gateway.text.scalars import ScalarJoiner
from gateway.text.sink import TextNotice

MAX_PENDING_FLUSHES: Final = 256

State = Literal["open", "ended", "failing", "done", "cancelled"]

TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    "open": frozenset({"ended", "failing", "cancelled"}),
    "ended": frozenset({"failing", "done", "cancelled"}),
    "failing": frozenset({"done", "cancelled"}),
    "done": frozenset({"cancelled"}),
    "cancelled": frozenset(),
}
"""open: takes text · ended: no more text, still speaking · failing: the engine gave up, what it gave is still sent ·
done: its last message has been written · cancelled."""


@dataclass(frozen=True, slots=True)
class UtteranceSettings:
    """What an utterance was opened with, everything resolved."""

    id: str
    number: int
    lane: str
    request: SpeechRequest
    audio_format: AudioFormat
    audio_encoding: AudioEncoding
    max_ahead_s: float | None
    has_words: bool
    model: ModelInfo


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A cancel carried out: its report, what the context keeps, and answers to earlier messages still owed."""

    report: Cancelled
    heard: Heard
    answers: list[ServerEvent]


@dataclass(slots=True)
class _PendingFlush:
    after_segments: int
    id: str | int | None


@dataclass(slots=True)
class Utterance:
    """Owned by its session, which alone calls it. Times are monotonic seconds."""

    settings: UtteranceSettings
    front_end: TextFrontEnd
    opened_at_s: float
    state: State = "open"
    last_text_at_s: float = 0.0
    last_sent_at_s: float = 0.0
    head_since_s: float = 0.0
    """When the utterance before it in its lane was over."""
    done_at_s: float | None = None
    engine_timeline: Timeline | None = None
    """The marks of its stream, once that has given a chunk."""
    timeline: Timeline = field(default_factory=Timeline)
    """Its own marks: text_received, first_sample_sent."""
    _joiner: ScalarJoiner = field(default_factory=ScalarJoiner)
    _flushes: deque[_PendingFlush] = field(default_factory=deque)
    _warned: set[tuple[WarningCode, str | None]] = field(default_factory=set)
    _unspoken: list[Segment] = field(default_factory=list)
    _segments_fed: int = 0
    _segments_ended: int = 0
    _has_started: bool = False
    _is_first_frame: bool = True
    _is_over: bool = False
    """The last message has been queued: `Done` stands at the end of the outbox."""
    _ended_by_timeout: bool = False
    _audible_sample: int | None = None
    _samples: SampleMap = field(init=False)
    ledger: Ledger = field(init=False)
    outbox: Outbox = field(init=False)

    def __post_init__(self) -> None:
        audio_format, engine_rate_hz = self.settings.audio_format, self.settings.model.sample_rate_hz
        self._samples = SampleMap(engine_rate_hz, audio_format.sample_rate_hz)
        self.ledger = Ledger(self._samples)
        self.outbox = Outbox(audio_format, engine_rate_hz)
        self.last_text_at_s = self.opened_at_s

    @property
    def id(self) -> str:
        return self.settings.id

    def move_to(self, state: State) -> None:
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"an utterance cannot go from {self.state} to {state}")
        self.state = state

    # ---- text in -----------------------------------------------------------------------------------------------------

    def feed(self, text: str, now_s: float) -> list[Segment]:
        self.last_text_at_s = now_s
        if text:
            self.timeline.note("text_received", now_s)
        whole = self._joiner.feed(text)
        self.ledger.received(whole)
        return self._segments(self.front_end.feed(whole, now_s))

    def flush(self, flush_id: str | int | None, now_s: float) -> list[Segment]:
        """Release all that was sent; `Flushed` follows its last sample, at once where nothing is pending."""
        if len(self._flushes) >= MAX_PENDING_FLUSHES:
            count = len(self._flushes)
            raise ClientError(ErrorCode.BAD_VALUE, f"{count} flushes are pending, at most {MAX_PENDING_FLUSHES}")
        segments = [] if self.state == "ended" else self._segments(self.front_end.flush(now_s))
        if self._segments_ended < self._segments_fed:
            self._flushes.append(_PendingFlush(self._segments_fed, flush_id))
        else:
            self.outbox.put_event(Flushed(self.id, flush_id))
        return segments

    def end(self, now_s: float, *, is_timeout: bool = False) -> list[Segment]:
        """No more text."""
        self.move_to("ended")
        self._ended_by_timeout = is_timeout
        rest = self._joiner.finish()
        self.ledger.received(rest)
        return self._segments([*self.front_end.feed(rest, now_s), *self.front_end.finish(now_s)])

    def on_time(self, now_s: float) -> list[Segment]:
        return self._segments(self.front_end.on_time(now_s))

    @property
    def wake_at_s(self) -> float | None:
        return self.front_end.wake_at_s if self.state == "open" else None

    @property
    def received_chars(self) -> int:
        return self.ledger.chars

    def _segments(self, released: list[Released]) -> list[Segment]:
        """The segments to feed. Those before the first speakable one wait for it: alone they would make no speech."""
        segments: list[Segment] = []
        for item in released:
            if isinstance(item, TextNotice):
                self.warn(WarningCode(item.code), item.message, item.detail)
                continue
            for control in item.controls:
                self._check_tag(control.name)
            self.ledger.fed(item)
            self._unspoken.append(item)
            if self._segments_fed or segments or self._is_speakable(item):
                segments += self._unspoken
                self._unspoken.clear()
        self._segments_fed += len(segments)
        return segments

    def _is_speakable(self, segment: Segment) -> bool:
        """It has a word, or a sound that this model makes by itself."""
        if any(character.isalnum() for character in segment.text):
            return True
        tags = self.settings.model.tags
        return any(control.category == "sfx" and tags.get(control.name) == "rendered" for control in segment.controls)

    def _check_tag(self, name: str) -> None:
        support = self.settings.model.tags.get(name, "unsupported")
        model = self.settings.model.name
        if support == "approximated":
            self.warn(WarningCode.TAG_APPROXIMATED, f"{model} can only approximate the tag {name}", name)
        elif support == "unsupported":
            self.warn(WarningCode.TAG_UNSUPPORTED, f"{model} cannot render the tag {name}; it is left out", name)

    def warn(self, code: WarningCode, message: str, detail: str | None = None) -> None:
        """Queue a warning, once per kind and detail."""
        if (code, detail) not in self._warned:
            self._warned.add((code, detail))
            self.outbox.put_event(Warned(code, message, self.id, detail))

    # ---- chunks in ---------------------------------------------------------------------------------------------------

    def take_chunk(self, chunk: AudioChunk) -> None:
        """Queue a chunk of the engine, its words before it, and what its end brings after it."""
        for notice in chunk.notices:
            self.warn(WarningCode(notice.code), notice.message, notice.detail)
        if chunk.words:
            words = self.ledger.spoken(chunk.words)
            if self.settings.has_words:
                self.outbox.put_event(Words(self.id, words, self.settings.audio_format.sample_rate_hz))
        if self._audible_sample is None and len(chunk.pcm):
            self._find_audible(chunk)
        self.outbox.put_chunk(chunk)
        if chunk.is_segment_end:
            self._segments_ended += 1
            while self._flushes and self._flushes[0].after_segments <= self._segments_ended:
                self.outbox.put_event(Flushed(self.id, self._flushes.popleft().id))
        if chunk.is_final:
            self._finish("timeout" if self._ended_by_timeout else "complete")

    def fail(self) -> None:
        """The engine failed: what it gave is still sent, then `Done`."""
        self.move_to("failing")
        self._finish("error")

    def _find_audible(self, chunk: AudioChunk) -> None:
        loud = np.flatnonzero(np.abs(chunk.pcm) >= AUDIBLE_LEVEL)
        if len(loud):
            self._audible_sample = self._samples.to_output(chunk.start_sample + int(loud[0]))

    def _finish(self, reason: DoneReason) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._flushes.clear()
        self.outbox.put_event(
            Done(
                self.id,
                reason,
                audio_samples=0,
                sample_rate_hz=self.settings.audio_format.sample_rate_hz,
                chars=0,
                metrics=UtteranceMetrics(0.0, None, 0.0, 0),
            )
        )

    # ---- events out --------------------------------------------------------------------------------------------------

    def head(self) -> Head:
        return self.outbox.head()

    def next_event(self) -> ServerEvent | None:
        """What goes next on the wire; None where nothing is ready. `Started` comes by itself before all speech."""
        settings = self.settings
        if self.outbox.head() == "speech" and not self._has_started:
            self._has_started = True
            return Started(
                settings.id,
                settings.number,
                settings.request.voice,
                settings.audio_format.name,
                settings.audio_format.sample_rate_hz,
                settings.request.seed,
                settings.model.word_timing,
                self.outbox.pre_skip_samples,
            )
        event = self.outbox.take_event()
        if event is not None:
            return self._completed(event) if isinstance(event, Done) else event
        return self._next_audio()

    def _next_audio(self) -> ServerEvent | None:
        settings = self.settings
        outgoing = self.outbox.take_audio()
        if outgoing is None:
            return None if self.outbox.head() == "nothing" else self.next_event()
        is_first, self._is_first_frame = self._is_first_frame, False
        return Audio(
            settings.id,
            settings.number,
            outgoing.frame.start_sample,
            outgoing.frame.sample_count,
            outgoing.frame.payload,
            settings.audio_format.sample_rate_hz,
            settings.audio_encoding,
            is_first=is_first,
            is_last=outgoing.is_last,
            is_segment_end=outgoing.is_segment_end,
        )

    def _completed(self, done: Done) -> Done:
        """`Done` with the figures of the moment in which it goes."""
        engine = self.engine_timeline or Timeline()
        text_received_s, planned_s = self.timeline.at_s("text_received"), engine.at_s("planned")
        return Done(
            done.utterance,
            done.reason,
            self.ledger.sent_samples,
            done.sample_rate_hz,
            self.ledger.chars,
            UtteranceMetrics(
                queue_s=0.0 if planned_s is None or text_received_s is None else planned_s - text_received_s,
                first_audio_s=self.first_audio_s,
                generation_s=engine.between_s("planned", "generated") or 0.0,
                segments=self._segments_fed,
            ),
        )

    def written(self, event: ServerEvent, now_s: float, starts_at_s: float) -> None:
        """`event` has been handed to the socket; only now the ledger's `sent` moves."""
        if isinstance(event, Audio):
            self.last_sent_at_s = now_s
            self.ledger.sent(event.sample_count, now_s, starts_at_s)
            if self._audible_sample is not None and self.ledger.sent_samples > self._audible_sample:
                self.timeline.note("first_sample_sent", now_s)
        elif isinstance(event, Done):
            if self.state != "cancelled":
                self.move_to("done")
            self.done_at_s = now_s

    @property
    def first_audio_s(self) -> float | None:
        """First text received → first audible sample written; None where there was none."""
        return self.timeline.between_s("text_received", "first_sample_sent")

    @property
    def has_nothing_to_send(self) -> bool:
        """Everything fed has been spoken and written."""
        return self._segments_ended == self._segments_fed and self.outbox.head() == "nothing"

    # ---- cancel ------------------------------------------------------------------------------------------------------

    def cancel(self, played: Played, now_s: float) -> Cancellation:
        """Purge what was not written and report what was heard at `played`."""
        after_done = self.state == "done"
        self.move_to("cancelled")
        answers = self.outbox.purge()
        self._flushes.clear()
        self.ledger.received(self._joiner.finish())
        self.done_at_s = now_s
        heard = self.ledger.heard(played.samples)
        text = self.ledger.text
        if after_done and played.samples >= self.ledger.sent_samples:
            heard = Heard(len(text), heard.engine_samples)  # there is no unheard word, even where there are no words
        report = Cancelled(
            self.id,
            after_done,
            self.ledger.sent_samples,
            played.samples,
            self.settings.audio_format.sample_rate_hz,
            played.source,
            text[: heard.chars],
            text[heard.chars :],
        )
        return Cancellation(report, heard, answers)
