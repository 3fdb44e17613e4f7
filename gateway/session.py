"""Session: events, chunks and the passing of time in, actions and outgoing events out. Sans-IO, dialect-blind.

It owns utterances, their lanes, the defaults and barge-in. The connection carries its actions out, takes what may go
next with `take`, and reports each written event with `written`. All times are monotonic seconds passed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Final, Literal

from engine.speech import AudioChunk, ModelInfo, Segment
from engine.timeline import Timeline
from gateway.admission import Admission
from gateway.audio.formats import available_formats
from gateway.errors import RETRYABLE, ClientError, ErrorCode, WarningCode
from gateway.events import (
    Acknowledge,
    Action,
    Audio,
    Cancel,
    CancelSpeech,
    ClientEvent,
    CloseConnection,
    Configure,
    Done,
    EndText,
    Failed,
    FeedSpeech,
    FinishSpeech,
    Flush,
    Leave,
    OpenSpeech,
    OpenUtterance,
    Ping,
    Pong,
    Ready,
    ReleaseSpeech,
    Remark,
    Resume,
    ServerEvent,
    TextFragment,
    Warned,
)
from gateway.lanes import Lanes
from gateway.session_defaults import SessionDefaults, SessionSettings
from gateway.text.front_end import TextFrontEnd
from gateway.utterance import Utterance, UtteranceSettings
from gateway.utterances import Utterances

SEED_BITS: Final = 53
"""Seeds are 0 … 2^53-1, so that every JSON reader keeps them exact."""
MAX_UNREAD_ANSWERS: Final = 1024
"""Messages of one utterance, or of none, that wait for a peer to read; with more the connection is closed."""
NORMAL_CLOSE: Final = 1000
GOING_AWAY_CLOSE: Final = 1001
POLICY_CLOSE: Final = 1008


class Session:
    """One conversation. Raises ClientError from `handle` alone; the caller answers with `refuse`."""

    def __init__(
        self,
        session_id: str,
        resume_token: str,
        key: str,
        model: Callable[[], ModelInfo],
        settings: SessionSettings,
        admission: Admission,
        random: Random,
        now_s: float,
    ) -> None:
        self.id = session_id
        self.ignored_messages = 0
        """Messages for utterances that are over: counted, not answered (rule 1)."""
        self._key = key
        self._read_model = model
        self._settings = settings
        self._admission = admission
        self._random = random
        self._defaults = SessionDefaults.of(settings, self._model)
        self._utterances = Utterances(settings.kept_utterances)
        self._lanes = Lanes(self._utterances)
        self._urgent: deque[ServerEvent] = deque()
        self._last_activity_s = now_s
        self._leaving: Literal["no", "at_client_wish", "draining"] = "no"
        self._is_closing = False
        self._urgent.append(
            Ready(
                session_id,
                resume_token,
                self._model,
                available_formats(),
                self._defaults.audio_format(self._model).sample_rate_hz,
                settings.limits,
                settings.version,
            )
        )

    @property
    def _model(self) -> ModelInfo:
        """What is loaded, with the voices that this key has now."""
        return self._read_model()

    # ---- client events -----------------------------------------------------------------------------------------------

    def handle(self, event: ClientEvent, now_s: float) -> list[Action]:
        """Take one event. A ClientError means that it changed nothing. A session that is closing takes nothing."""
        if self._is_closing:
            return []
        self._last_activity_s = now_s
        return [*self._handled(event, now_s), *self._close_if_unread()]

    def _handled(self, event: ClientEvent, now_s: float) -> list[Action]:
        try:
            match event:
                case TextFragment():
                    return self._text(event, now_s)
                case OpenUtterance():
                    return self._open(event, now_s)
                case Flush():
                    return self._flush(event, now_s)
                case EndText():
                    return self._end(event, now_s)
                case Cancel():
                    return self._cancel(event, now_s)
                case Acknowledge():
                    utterance = self._utterances.get(event.utterance)
                    if utterance is not None:
                        utterance.ledger.acknowledged(event.played_s)
                    return []
                case Configure():
                    self._defaults = self._defaults.changed(event, self._settings, self._model)
                    return []
                case Resume():
                    raise ClientError(
                        ErrorCode.RESUME_UNKNOWN,
                        "resume_token is not known: this server keeps sessions for 0 ms after a disconnect",
                    )
                case Ping():
                    self._urgent.append(Pong(event.id))
                    return []
                case Leave():
                    self._leaving = "at_client_wish"
                    return self._leave_when_idle()
                case Remark():
                    self._remark(event)
                    return []
        except ClientError as error:
            utterance_id = getattr(event, "utterance", None)
            if error.utterance is None and isinstance(utterance_id, str):
                error.utterance = utterance_id
            raise

    def refuse(self, error: ClientError) -> list[Action]:
        """Put a ClientError on the wire, behind the utterance's own queued audio if it has any."""
        if self._is_closing:
            return []
        utterance = self._utterances.live(error.utterance) if error.utterance is not None else None
        failed = Failed(
            error.code,
            error.message,
            error.utterance,
            error.is_retryable,
            error.retry_after_s,
            ends_utterance=error.utterance is not None and utterance is None,
        )
        if utterance is None:
            if error.is_refused_open and error.utterance is not None:
                self._utterances.mark_over(error.utterance)
            self._urgent.append(failed)
        else:
            utterance.outbox.put_event(failed)
        return self._close_if_unread()

    def _close_if_unread(self) -> list[Action]:
        """A peer that asks and does not read its answers is not served for ever."""
        unread = max(len(self._urgent), max((kept.outbox.queued_events for kept in self._utterances), default=0))
        if unread <= MAX_UNREAD_ANSWERS:
            return []
        return self.close(
            ErrorCode.QUOTA, f"{unread:,} answers wait to be read, at most {MAX_UNREAD_ANSWERS:,}", POLICY_CLOSE
        )

    def _remark(self, event: Remark) -> None:
        utterance = self._utterances.live(event.utterance) if event.utterance is not None else None
        if utterance is None:
            self._urgent.append(Warned(event.code, event.message, event.utterance, event.detail))
        else:
            utterance.warn(event.code, event.message, event.detail)

    def _open(self, event: OpenUtterance, now_s: float) -> list[Action]:
        if self._utterances.live(event.utterance) is not None:
            raise ClientError(ErrorCode.UTTERANCE_EXISTS, f"utterance {event.utterance!r} is still being spoken")
        try:
            number, fresh_seed = self._utterances.free_number(), self._random.getrandbits(SEED_BITS)
            settings, remarks = self._defaults.resolve(event, self._model, number, fresh_seed)
            live = len(self._lanes)
            if live >= self._settings.limits.utterances:
                raise ClientError(
                    ErrorCode.TOO_MANY_UTTERANCES,
                    f"{live} utterances are open, at most {self._settings.limits.utterances}",
                )
            self._admission.start_utterance(self._key)
        except ClientError:
            self._utterances.mark_over(event.utterance)
            raise
        actions = self._forget([event.utterance])
        utterance = Utterance(settings, self._front_end(event, settings), now_s)
        self._utterances.add(utterance)
        self._lanes.join(utterance)
        for remark in remarks:
            utterance.warn(remark.code, remark.message, remark.detail)
        return [*actions, OpenSpeech(event.utterance, event.lane, settings.request)]

    def _front_end(self, event: OpenUtterance, settings: UtteranceSettings) -> TextFrontEnd:
        return TextFrontEnd(
            self._settings.text,
            lexicon=self._defaults.lexicon,
            segmentation=event.segmentation,
            language=settings.request.language,
            spoken_languages=self._model.languages,
            has_text_normalizer=self._model.has_text_normalizer,
            unit=self._model.text_unit,
        )

    def check_text(self, event: TextFragment) -> None:
        """Raise the ClientError that `handle` would, so that a long fragment can be handled in slices: it is refused
        whole or not at all."""
        utterance = self._utterances.live(event.utterance)
        if utterance is not None and utterance.state == "ended":
            error = ErrorCode.UTTERANCE_ENDED
            raise ClientError(
                error, f"utterance {event.utterance!r} takes no text after its end", utterance=utterance.id
            )
        if utterance is not None or not self._utterances.was_used(event.utterance):
            self._check_length(utterance.received_chars if utterance is not None else 0, event)

    def _text(self, event: TextFragment, now_s: float) -> list[Action]:
        self.check_text(event)
        actions: list[Action] = []
        utterance = self._utterances.live(event.utterance)
        if utterance is None:
            if self._utterances.was_used(event.utterance):
                self.ignored_messages += 1
                return []
            actions += self._open(OpenUtterance(event.utterance), now_s)
            utterance = self._utterances.live(event.utterance)
            assert utterance is not None  # it has just been opened
        return actions + self._feed(utterance, utterance.feed(event.text, now_s))

    def _check_length(self, received: int, event: TextFragment) -> None:
        limit, chars = self._settings.limits.utterance_chars, received + len(event.text)
        if chars > limit:
            raise ClientError(
                ErrorCode.TEXT_TOO_LONG,
                f"the utterance's text would be {chars:,} characters, at most {limit:,}",
                utterance=event.utterance,
            )

    def _flush(self, event: Flush, now_s: float) -> list[Action]:
        utterance = self._known(event.utterance)
        if utterance is None:
            return []
        return self._feed(utterance, utterance.flush(event.id, now_s))

    def _end(self, event: EndText, now_s: float) -> list[Action]:
        utterance = self._known(event.utterance)
        if utterance is None:
            return []
        if utterance.state == "ended":
            self.ignored_messages += 1
            return []
        return self._end_text(utterance, now_s, is_timeout=False)

    def _end_text(self, utterance: Utterance, now_s: float, *, is_timeout: bool) -> list[Action]:
        segments = utterance.end(now_s, is_timeout=is_timeout)
        return [*self._feed(utterance, segments), FinishSpeech(utterance.id)]

    def _known(self, utterance_id: str) -> Utterance | None:
        """The live utterance; None where it is over (counted). Raises unknown_utterance where there never was one."""
        utterance = self._utterances.live(utterance_id)
        if utterance is None:
            if not self._utterances.was_used(utterance_id):
                raise ClientError(
                    ErrorCode.UNKNOWN_UTTERANCE, f"utterance {utterance_id!r} has not been opened in this session"
                )
            self.ignored_messages += 1
        return utterance

    @staticmethod
    def _feed(utterance: Utterance, segments: Iterable[Segment]) -> list[Action]:
        return [FeedSpeech(utterance.id, segment) for segment in segments]

    # ---- barge-in ----------------------------------------------------------------------------------------------------

    def _cancel(self, event: Cancel, now_s: float) -> list[Action]:
        if event.utterance is None:
            targets = [kept for kept in self._utterances if kept.state != "cancelled"]
            if not targets:
                self._urgent.append(Warned(WarningCode.NOTHING_TO_CANCEL, "nothing is being spoken"))
            return [action for target in targets for action in self._cancel_one(target, None, now_s)]
        target = self._utterances.get(event.utterance)
        if target is None or target.state == "cancelled":
            if not self._utterances.was_used(event.utterance):
                raise ClientError(
                    ErrorCode.UNKNOWN_UTTERANCE, f"utterance {event.utterance!r} has not been opened in this session"
                )
            self._urgent.append(
                Warned(
                    WarningCode.NOTHING_TO_CANCEL,
                    f"utterance {event.utterance!r} is over: there is nothing left to cancel",
                    event.utterance,
                )
            )
            return []
        return self._cancel_one(target, event.played_s, now_s)

    def _cancel_one(self, utterance: Utterance, played_s: float | None, now_s: float) -> list[Action]:
        if played_s is None:
            played = utterance.ledger.played(now_s)
        else:
            played, is_clamped = utterance.ledger.reported(played_s)
            if is_clamped:
                self._urgent.append(
                    Warned(
                        WarningCode.PLAYED_CLAMPED,
                        f"played_ms is {played_s * 1000:g}, but only "
                        f"{utterance.ledger.sent_s * 1000:g} ms have been sent",
                        utterance.id,
                    )
                )
        was_done = utterance.state == "done"
        cancellation = utterance.cancel(played, now_s)
        self._urgent += [*cancellation.answers, cancellation.report]
        if not was_done:
            self._leave_lane(utterance, now_s)
        heard = cancellation.heard
        return [CancelSpeech(utterance.id, heard.engine_samples, heard.chars), *self._leave_when_idle()]

    def _leave_lane(self, utterance: Utterance, now_s: float) -> None:
        self._lanes.leave(utterance, now_s)
        self._admission.end_utterance(self._key)

    # ---- the engine --------------------------------------------------------------------------------------------------

    def audio(self, utterance_id: str, chunk: AudioChunk, timeline: Timeline) -> None:
        """A chunk of an utterance's stream. Late ones of a cancelled or forgotten utterance are dropped here alone."""
        utterance = self._utterances.live(utterance_id)
        if utterance is not None:
            utterance.engine_timeline = timeline
            utterance.take_chunk(chunk)

    def speech_failed(self, utterance_id: str, error: ClientError) -> list[Action]:
        """The engine could not open or go on with an utterance: an error, then `done` with reason error."""
        utterance = self._utterances.live(utterance_id)
        if utterance is None:
            return []
        error.utterance = utterance_id
        actions = self.refuse(error)
        utterance.fail()
        return [*actions, CancelSpeech(utterance_id, 0, 0)]

    def can_take_audio(self, utterance_id: str) -> bool:
        """False while the outbox is full: its stream is to be left unread."""
        utterance = self._utterances.live(utterance_id)
        return utterance is None or utterance.outbox.queued_s < self._settings.outbox_s

    # ---- time --------------------------------------------------------------------------------------------------------

    def on_time(self, now_s: float) -> list[Action]:
        """What has to happen without a message: waits that ended, idle utterances, an idle session, old books."""
        actions: list[Action] = []
        for lane in self._lanes:
            for utterance in lane:
                wake_at_s = utterance.wake_at_s
                if wake_at_s is not None and wake_at_s <= now_s:
                    actions += self._feed(utterance, utterance.on_time(now_s))
            idle_at_s = self._idle_at_s(lane[0])
            if idle_at_s is not None and idle_at_s <= now_s:
                actions += self._end_text(lane[0], now_s, is_timeout=True)
        actions += self._forget(self._utterances.expired(now_s))
        if not self._lanes and now_s >= self._last_activity_s + self._settings.limits.idle_s:
            actions += self.close(
                ErrorCode.IDLE_TIMEOUT,
                f"no message for {self._settings.limits.idle_s:g} s and nothing to speak",
                POLICY_CLOSE,
            )
        return actions

    def _idle_at_s(self, head: Utterance) -> float | None:
        """When an utterance at the head of its lane is ended for want of text (rule 3)."""
        if head.state != "open" or not head.has_nothing_to_send:
            return None
        since_s = max(head.last_text_at_s, head.last_sent_at_s, head.head_since_s)
        return since_s + self._settings.limits.utterance_idle_s

    def wake_at_s(self, now_s: float) -> float:
        """When `on_time` or `take` has something to do at the latest, if nothing comes before."""
        times = [self._last_activity_s + self._settings.limits.idle_s]
        if self._lanes:
            times.clear()
        for lane in self._lanes:
            times += [utterance.wake_at_s for utterance in lane if utterance.wake_at_s is not None]
            idle_at_s = self._idle_at_s(lane[0])
            if idle_at_s is not None:
                times.append(idle_at_s)
            ready_at_s = self._lanes.audio_at_s(lane[0], now_s)
            if ready_at_s is not None:
                times.append(ready_at_s)
        times += self._utterances.expiries_s(now_s)
        return min(times, default=now_s + self._settings.limits.idle_s)

    def close(self, code: ErrorCode, message: str, close_code: int) -> list[Action]:
        """Say why, then close: for idle sessions, draining, internal errors."""
        if self._is_closing:
            return []
        self._is_closing = True
        self._urgent.append(Failed(code, message, is_retryable=code in RETRYABLE, is_fatal=True))
        return [CloseConnection(close_code, message, is_forced=True)]

    def drain(self) -> list[Action]:
        """The server is shutting down: close as soon as everything has been said."""
        self._leaving = "draining"
        return self._leave_when_idle()

    def shut(self) -> list[Action]:
        """The server is shutting down and waits no longer."""
        return self.close(ErrorCode.DRAINING, "the server is shutting down", GOING_AWAY_CLOSE)

    def _leave_when_idle(self) -> list[Action]:
        if self._leaving == "no" or self._lanes or self._is_closing:
            return []
        if self._leaving == "draining":
            return self.shut()
        self._is_closing = True
        return [CloseConnection(NORMAL_CLOSE, "done")]

    def ended(self) -> None:
        """The connection is gone: give back what admission counted."""
        for _ in range(len(self._lanes)):
            self._admission.end_utterance(self._key)
        self._lanes.clear()
        self._utterances.clear()

    # ---- the writer --------------------------------------------------------------------------------------------------

    def take(self, now_s: float) -> ServerEvent | None:
        """What may be written now: control messages first, then lanes in turn; None where nothing may go."""
        if self._urgent:
            return self._urgent.popleft()
        return self._lanes.take(now_s)

    def written(self, event: ServerEvent, now_s: float) -> list[Action]:
        """`event` has been handed to the socket."""
        utterance = self._utterances.get(getattr(event, "utterance", None) or "")
        if utterance is None:
            return []
        if isinstance(event, Audio):
            if event.number == utterance.settings.number:
                utterance.written(event, now_s, self._lanes.player_free_at_s(utterance, now_s))
            return []
        if isinstance(event, Done) and utterance.state in ("open", "ended", "failing"):
            utterance.written(event, now_s, now_s)
            self._leave_lane(utterance, now_s)
            self._last_activity_s = now_s
            return [*self._forget(self._utterances.surplus()), *self._leave_when_idle()]
        return []

    def _forget(self, utterance_ids: Iterable[str]) -> list[Action]:
        """Finished ones: only their ids are remembered, and the engine lets go of their streams."""
        return [ReleaseSpeech(utterance_id) for utterance_id in utterance_ids if self._utterances.forget(utterance_id)]
