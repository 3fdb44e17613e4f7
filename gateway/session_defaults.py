"""What an operator set for all sessions, what a client made its defaults, and what an utterance gets of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from engine.speech import ModelInfo, Sampling, SpeechRequest, TagScope
from gateway.audio.formats import AudioFormat, resolve_format
from gateway.errors import ClientError, ErrorCode, WarningCode
from gateway.events import (
    SPEED_RANGE,
    UNSET,
    AudioEncoding,
    Configure,
    Limits,
    OpenUtterance,
    Remark,
    Unset,
    UtteranceOptions,
)
from gateway.text.lexicon import Lexicon
from gateway.text.settings import TextSettings
from gateway.utterance import UtteranceSettings

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What a session is made with; the same for all sessions of a server."""

    limits: Limits
    kept_utterances: int
    """Finished utterances kept for a late cancel; the oldest go first."""
    max_ahead_s: float | None
    default_format: str
    default_sample_rate_hz: int | None
    """None = the model's own."""
    text: TextSettings
    lexicon: Lexicon
    outbox_s: float
    """Audio of one utterance that may wait unwritten; a fuller outbox leaves its stream unread."""
    version: str


@dataclass(frozen=True, slots=True)
class SessionDefaults:
    """What utterances get that do not ask for something else; `changed` by a `Configure`."""

    voice: str
    format: str
    sample_rate_hz: int | None
    speed: float
    seed: int | None
    language: str | None
    lexicon: Lexicon
    max_ahead_s: float | None
    tag_scope: TagScope
    audio_encoding: AudioEncoding

    @classmethod
    def of(cls, settings: SessionSettings, model: ModelInfo) -> SessionDefaults:
        """A new session's."""
        return cls(
            voice=model.default_voice,
            format=settings.default_format,
            sample_rate_hz=settings.default_sample_rate_hz,
            speed=1.0,
            seed=None,
            language=None,
            lexicon=settings.lexicon,
            max_ahead_s=settings.max_ahead_s,
            tag_scope="utterance",
            audio_encoding="binary",
        )

    def changed(self, event: Configure, settings: SessionSettings, model: ModelInfo) -> SessionDefaults:
        """The defaults after `event`. Raises ClientError where any part of it cannot be, and nothing has changed."""
        voice = self.voice  # one that was deleted meanwhile is told of where an utterance asks for it
        if not isinstance(event.voice, Unset):
            voice = event.voice
            _check_voice(voice, model)
        speed = _value(event.speed, self.speed)
        _check_speed(speed)
        audio_format = _value(event.format, self.format)
        rate_hz = _value(event.sample_rate_hz, self.sample_rate_hz if event.format is UNSET else None)
        resolve_format(audio_format, rate_hz, default_name=audio_format, default_rate_hz=model.sample_rate_hz)
        _check_resume(_value(event.resume_s, 0.0), settings.limits.resume_s)
        lexicon = self.lexicon
        if not isinstance(event.lexicon, Unset):
            lexicon = settings.lexicon.merge(Lexicon.from_mapping(dict(event.lexicon)))
        return SessionDefaults(
            voice=voice,
            format=audio_format,
            sample_rate_hz=rate_hz,
            speed=speed,
            seed=_value(event.seed, self.seed),
            language=_value(event.language, self.language),
            lexicon=lexicon,
            max_ahead_s=_value(event.max_ahead_s, self.max_ahead_s),
            tag_scope=_value(event.tag_scope, self.tag_scope),
            audio_encoding=_value(event.audio_encoding, self.audio_encoding),
        )

    def audio_format(self, model: ModelInfo, options: UtteranceOptions | None = None) -> AudioFormat:
        """What is sent; `options` may ask for another format, another rate, or both."""
        name = options.format if options is not None else None
        rate_hz = options.sample_rate_hz if options is not None else None
        if name is None and rate_hz is None:
            rate_hz = self.sample_rate_hz
        return resolve_format(
            name, rate_hz, default_name=self.format, default_rate_hz=self.sample_rate_hz or model.sample_rate_hz
        )

    def resolve(
        self, event: OpenUtterance, model: ModelInfo, number: int, fresh_seed: int
    ) -> tuple[UtteranceSettings, list[Remark]]:
        """Everything an utterance will be spoken with, and what it asked for in vain. `fresh_seed` is for where neither
        it nor the session has one. Raises ClientError where it cannot be opened."""
        options = event.options
        voice = options.voice or self.voice
        _check_voice(voice, model)
        speed = self.speed if options.speed is None else options.speed
        _check_speed(speed)
        seed = self.seed if options.seed is None else options.seed
        language = options.language or self.language
        settings = UtteranceSettings(
            id=event.utterance,
            number=number,
            lane=event.lane,
            request=SpeechRequest(
                voice=voice,
                seed=fresh_seed if seed is None else seed,
                speed=speed,
                language=language,
                sampling=options.sampling,
                tag_scope=self.tag_scope,
            ),
            audio_format=self.audio_format(model, options),
            audio_encoding=self.audio_encoding,
            max_ahead_s=self.max_ahead_s,
            has_words=event.has_words,
            model=model,
        )
        ignored = [name for name in _used_parameters(options.sampling, speed, seed) if name not in model.parameters]
        remarks = [
            Remark(WarningCode.PARAMETER_IGNORED, f"{model.name} cannot use {name}", event.utterance, name)
            for name in ignored
        ]
        if language is not None and not _speaks(model, language):
            known = ", ".join(sorted(model.languages))
            message = f"{model.name} does not speak {language!r:.40}; it speaks {known}"
            remarks.insert(0, Remark(WarningCode.UNSUPPORTED_LANGUAGE, message, event.utterance, language))
        return settings, remarks


def _value(given: Value | Unset, default: Value) -> Value:
    return default if isinstance(given, Unset) else given


def _check_voice(voice: str, model: ModelInfo) -> None:
    known = [info.id for info in model.voices]
    if voice not in known:
        raise ClientError(ErrorCode.VOICE_NOT_FOUND, f"voice {voice!r:.80} is not known; known: {', '.join(known)}")


def _check_speed(speed: float) -> None:
    low, high = SPEED_RANGE
    if not low <= speed <= high:
        raise ClientError(ErrorCode.BAD_VALUE, f"speed is {speed:g}, must be {low:g} to {high:g}")


def _check_resume(resume_s: float, limit_s: float) -> None:
    if resume_s > limit_s:
        raise ClientError(
            ErrorCode.BAD_VALUE, f"resume_ms is {resume_s * 1000:g}, at most {limit_s * 1000:g} on this server"
        )


def _speaks(model: ModelInfo, language: str) -> bool:
    return not model.languages or language.split("-")[0].lower() in model.languages


def _used_parameters(sampling: Sampling, speed: float, seed: int | None) -> list[str]:
    used = [name for name in ("temperature", "top_p", "top_k") if getattr(sampling, name) is not None]
    if speed != 1.0:
        used.append("speed")
    if seed is not None:
        used.append("seed")
    return used
