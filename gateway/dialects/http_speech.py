"""Speech for one HTTP request: the body becomes client events, outgoing events become body chunks. Sans-IO.

The messages of an HTTP "connection" are the whole request body, then one empty message which says that no more comes.
The status stands once `head` is not None: with the first sound, or with an error before it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from gateway.audio.containers import MEDIA_TYPES, Container, ContainerEncoder
from gateway.audio.silence import short_silence
from gateway.dialects.base import ErrorBody, Handshake, ServerFacts
from gateway.dialects.json_fields import Fields, read_fields, wire
from gateway.errors import ClientError, ErrorCode
from gateway.events import (
    Audio,
    ClientEvent,
    Configure,
    Done,
    EndText,
    Failed,
    Leave,
    OpenUtterance,
    Remark,
    ServerEvent,
    TextFragment,
    UtteranceOptions,
    Words,
)
from gateway.held_audio import HeldAudio, HeldFile

SPEECH_ID: Final = "speech"

STATUS: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.BAD_MESSAGE: 400,
    ErrorCode.UNKNOWN_TYPE: 400,
    ErrorCode.UNKNOWN_FIELD: 400,
    ErrorCode.MISSING_FIELD: 400,
    ErrorCode.BAD_VALUE: 400,
    ErrorCode.UNKNOWN_UTTERANCE: 404,
    ErrorCode.UTTERANCE_EXISTS: 409,
    ErrorCode.UTTERANCE_ENDED: 409,
    ErrorCode.TEXT_TOO_LONG: 413,
    ErrorCode.MESSAGE_TOO_BIG: 413,
    ErrorCode.TOO_MANY_UTTERANCES: 429,
    ErrorCode.VOICE_NOT_FOUND: 404,
    ErrorCode.FORMAT_UNSUPPORTED: 400,
    ErrorCode.RATE_UNSUPPORTED: 400,
    ErrorCode.CAPACITY: 503,
    ErrorCode.QUOTA: 429,
    ErrorCode.IDLE_TIMEOUT: 408,
    ErrorCode.RESUME_UNKNOWN: 404,
    ErrorCode.RESUME_GAP: 404,
    ErrorCode.DRAINING: 503,
    ErrorCode.ENGINE_FAILED: 500,
    ErrorCode.INTERNAL: 500,
}
"""Our code -> the status of a refused request."""

RAW_MEDIA_TYPES: Final = {
    "pcm_s16le": "audio/pcm",
    "pcm_f32le": "application/octet-stream",
    "mulaw": "audio/basic",
    "alaw": "audio/x-alaw",
}


@dataclass(frozen=True, slots=True)
class ResponseHead:
    status: int
    headers: tuple[tuple[str, str], ...]


class Body(Protocol):
    """How one answer carries speech. Each method returns bytes of the body, maybe none."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]: ...

    def audio(self, event: Audio) -> bytes: ...

    def words(self, event: Words) -> bytes: ...

    def done(self, event: Done) -> bytes: ...

    def failed(self, event: Failed) -> bytes | None:
        """An error after the first sound; None where the body has no word for it and has to be cut off."""
        ...


@dataclass(slots=True)
class AudioEncoder:
    """The session's samples, as they are or in a container."""

    format: str
    sample_rate_hz: int
    container: Container | None = None
    _file: ContainerEncoder | None = field(init=False)

    def __post_init__(self) -> None:
        self._file = None if self.container is None else ContainerEncoder(self.container, self.sample_rate_hz)

    @property
    def media_type(self) -> str:
        return RAW_MEDIA_TYPES[self.format] if self.container is None else MEDIA_TYPES[self.container]

    def encode(self, payload: bytes) -> bytes:
        return payload if self._file is None else self._file.encode(payload)

    def finish(self) -> bytes:
        return b"" if self._file is None else self._file.finish()


@dataclass(frozen=True, slots=True)
class AudioBody:
    """The bare bytes of a stream or a file."""

    encoder: AudioEncoder
    extra_headers: tuple[tuple[str, str], ...] = ()

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("content-type", self.encoder.media_type), *self.extra_headers)

    def audio(self, event: Audio) -> bytes:
        return self.encoder.encode(event.payload)

    def words(self, event: Words) -> bytes:
        return b""

    def done(self, event: Done) -> bytes:
        return self.encoder.finish()

    def failed(self, event: Failed) -> bytes | None:
        return None


@dataclass(frozen=True, slots=True)
class SpeechOrder:
    """What a request asks for."""

    text: str
    options: UtteranceOptions
    body: Body
    remarks: tuple[Remark, ...] = ()


ReadOrder = Callable[[Handshake, ServerFacts, Fields], SpeechOrder]
"""A vendor's reading of its request. Raises ClientError."""


class HttpSpeechDialect:
    """One request's dialect."""

    subprotocol = None

    def __init__(
        self,
        handshake: Handshake,
        server: ServerFacts,
        read: ReadOrder,
        error_body: ErrorBody,
        held: HeldFile | None = None,
    ) -> None:
        """`held`: this request's share of what the server may keep; None = an account of its own."""
        self._handshake = handshake
        self._server = server
        self._read = read
        self._error_body = error_body
        self._held = HeldFile(HeldAudio()) if held is None else held
        self._has_request = False
        self._order: SpeechOrder | None = None
        self.head: ResponseHead | None = None
        self.is_over = False
        """The body is complete, or cut off: nothing more is to be sent."""
        self.is_cut_off = False
        """An error came after the first sound: the response must not look complete."""

    def begin(self) -> list[ClientEvent]:
        return [Configure(max_ahead_s=None)]  # a file's reader has no playback to stay ahead of

    def receive(self, message: str | bytes) -> list[ClientEvent]:
        if self._has_request:
            return [Leave()]
        self._has_request = True
        fields = read_fields(message, self._server.limits.message_bytes)
        order = self._order = self._read(self._handshake, self._server, fields)
        return [
            *order.remarks,
            OpenUtterance(SPEECH_ID, options=order.options),
            TextFragment(SPEECH_ID, order.text),
            EndText(SPEECH_ID),
        ]

    def send(self, event: ServerEvent) -> list[str | bytes]:
        if self.is_over:
            return []
        try:
            piece = self._piece(event)
        except ClientError as error:
            piece = self._failed(Failed(error.code, error.message))
        return [piece] if piece else []

    def _piece(self, event: ServerEvent) -> bytes:
        body = None if self._order is None else self._order.body
        match event:
            case Failed():
                return self._failed(event)
            case Audio() if body is not None:
                return self._audio(body, event)
            case Words() if body is not None:
                return self._begun(body.words(event))
            case Done() if body is not None:
                piece = self._quiet(event) + body.done(event)
                self._begin_response()
                self.is_over = True
                return piece
            case _:
                return b""

    def _audio(self, body: Body, event: Audio) -> bytes:
        """What leaves of the body; what does not is held, and counted as it came."""
        piece = body.audio(event)
        if piece:
            self._held.release()
        else:
            self._held.grow(len(event.payload))
        return self._begun(piece)

    def _quiet(self, event: Done) -> bytes:
        """A little silence for a text with nothing to speak: clients take an answer without audio for a failure."""
        order = self._order
        if order is None or event.audio_samples or event.reason == "error" or not order.text.strip():
            return b""
        rate_hz = event.sample_rate_hz
        silence = short_silence(order.options.format or "pcm_s16le", rate_hz)
        return order.body.audio(Audio(event.utterance, 0, 0, 0, silence, rate_hz))

    def _begun(self, piece: bytes) -> bytes:
        if piece:
            self._begin_response()
        return piece

    def _begin_response(self) -> None:
        if self.head is None and self._order is not None:
            self.head = ResponseHead(200, self._order.body.headers)

    def _failed(self, event: Failed) -> bytes:
        self.is_over = True
        if self.head is not None and self._order is not None:
            piece = self._order.body.failed(event)
            self.is_cut_off = piece is None
            return piece or b""
        status = STATUS[event.code]
        retry = () if event.retry_after_s is None else (("retry-after", str(max(1, round(event.retry_after_s)))),)
        self.head = ResponseHead(status, (("content-type", "application/json"), *retry))
        return wire(self._error_body(event, status)).encode()


def server_sent_event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    """One event of a text/event-stream."""
    return (f"event: {name}\n" if name else "").encode() + b"data: " + wire(data).encode() + b"\n\n"


def base64_text(payload: bytes) -> str:
    return base64.b64encode(payload).decode("ascii")
