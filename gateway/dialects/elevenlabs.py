"""ElevenLabs' WebSockets: `stream-input` (one context, ended by an empty text) and `multi-stream-input` (many by id).

What their clients need and do not say: the end marker in a frame of its own, camel-case ids, alignment that starts
anew with each message (Pipecat) or counts from the context's start (LiveKit, told by `sync_alignment`), silence about
ids that are over. `close_context` is both a turn's end and the barge-in: what came before it in the context tells.
"""

from __future__ import annotations

import base64
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from gateway.audio.containers import HELD, ContainerEncoder
from gateway.audio.silence import short_silence
from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.elevenlabs_alignment import Alignment
from gateway.dialects.elevenlabs_options import read_options, read_output_format
from gateway.dialects.json_fields import Fields, read_fields, wire
from gateway.dialects.lane_pool import LanePool
from gateway.dialects.remarks import RemarksMade
from gateway.errors import ClientError, ErrorCode, HandshakeError, WarningCode
from gateway.events import (
    Audio,
    Cancel,
    Cancelled,
    ClientEvent,
    Done,
    EndText,
    Failed,
    Flush,
    Leave,
    OpenUtterance,
    Remark,
    ServerEvent,
    TextFragment,
    Words,
)

Mode = Literal["single", "multi"]

SINGLE_ID: Final = "stream"
DEFAULT_ID: Final = "default"
"""The context of messages that name none."""
MAX_FINISHED: Final = 1024
MAX_CONTEXTS: Final = 1024
"""Contexts whose end has not been written; a client that does not read gets no more of them."""
POLICY_CODE: Final = 1008

ERRORS: Final[Mapping[ErrorCode, tuple[str, int]]] = {
    ErrorCode.BAD_MESSAGE: ("invalid_message", POLICY_CODE),
    ErrorCode.UNKNOWN_TYPE: ("invalid_message", POLICY_CODE),
    ErrorCode.UNKNOWN_FIELD: ("invalid_message", POLICY_CODE),
    ErrorCode.MISSING_FIELD: ("invalid_message", POLICY_CODE),
    ErrorCode.BAD_VALUE: ("invalid_message", POLICY_CODE),
    ErrorCode.UNKNOWN_UTTERANCE: ("context_not_found", POLICY_CODE),
    ErrorCode.UTTERANCE_EXISTS: ("context_exists", POLICY_CODE),
    ErrorCode.UTTERANCE_ENDED: ("context_closed", POLICY_CODE),
    ErrorCode.TEXT_TOO_LONG: ("text_too_long", POLICY_CODE),
    ErrorCode.MESSAGE_TOO_BIG: ("message_too_big", 1009),
    ErrorCode.TOO_MANY_UTTERANCES: ("max_active_conversations", POLICY_CODE),
    ErrorCode.VOICE_NOT_FOUND: ("voice_id_does_not_exist", POLICY_CODE),
    ErrorCode.FORMAT_UNSUPPORTED: ("output_format_not_allowed", POLICY_CODE),
    ErrorCode.RATE_UNSUPPORTED: ("output_format_not_allowed", POLICY_CODE),
    ErrorCode.CAPACITY: ("system_busy", 1013),
    ErrorCode.QUOTA: ("too_many_concurrent_requests", 1013),
    ErrorCode.IDLE_TIMEOUT: ("input_timeout_exceeded", POLICY_CODE),
    ErrorCode.RESUME_UNKNOWN: ("invalid_message", POLICY_CODE),
    ErrorCode.RESUME_GAP: ("invalid_message", POLICY_CODE),
    ErrorCode.DRAINING: ("system_restarting", 1001),
    ErrorCode.ENGINE_FAILED: ("internal_error", 1011),
    ErrorCode.INTERNAL: ("internal_error", 1011),
}
"""Our code -> the vendor's `error` and `code`."""

_POINT_AT_END: Final = re.compile(r"\d[.,](\s+)$")


@dataclass(slots=True)
class _Context:
    """What the dialect remembers of a live context."""

    alignment: Alignment
    encoder: ContainerEncoder | None = None
    """Made with the first sound, where the output is a file."""
    last: Literal["opened", "text", "flush", "close"] = "opened"
    last_character: str = " "
    held_space: str = ""
    """Stream-input only: the space behind "1." that the client's own splitter may have put into "1.5"."""
    failure: Failed | None = None
    has_text: bool = False


class ElevenLabsDialect:
    """One connection. Raises HandshakeError where the URL asks for what cannot be done."""

    subprotocol = None

    def __init__(self, handshake: Handshake, server: ServerFacts, mode: Mode) -> None:
        self._mode = mode
        self._server = server
        query = handshake.query
        try:
            self._output = read_output_format(query.get("output_format"))
            if self._output.container in HELD:
                raise ClientError(
                    ErrorCode.FORMAT_UNSUPPORTED,
                    f"output_format {query['output_format']!r:.40} does not stream: it is for HTTP alone",
                )
            self._voice_name = handshake.path_params.get("voice_id")
            named = server.names.voice(self._voice_name, server.model)
            model = server.names.model(query.get("model_id"), server.model)
        except ClientError as error:
            status = 404 if error.code is ErrorCode.VOICE_NOT_FOUND else 400
            raise HandshakeError(status, error.code, error.message) from None
        self._remarks_made = RemarksMade()
        self._remarks = self._remarks_made.new((named.remark, model))
        self._language = query.get("language_code")
        self._is_by_sentence = query.get("auto_mode") == "true"
        self._is_alignment_absolute = query.get("sync_alignment") == "true"
        seed = query.get("seed", "")
        self._seed = int(seed) if seed.isascii() and seed.isdigit() and len(seed) <= 15 else None
        self._contexts: dict[str, _Context] = {}
        self._finished: OrderedDict[str, None] = OrderedDict()
        self._lanes = LanePool()

    def begin(self) -> list[ClientEvent]:
        return list(self._remarks)

    # ---- receive -----------------------------------------------------------------------------------------------------

    def receive(self, message: str | bytes) -> list[ClientEvent]:
        fields = read_fields(message, self._server.limits.message_bytes)
        if self._mode == "single":
            return self._receive_single(fields)
        if fields.flag("close_socket"):
            return self._close_all()
        text = fields.text("text")
        context_id = fields.identifier("context_id") or fields.identifier("contextId")
        if context_id is None:
            if not text and not fields.flag("flush") and not fields.flag("close_context"):
                return []  # a keep-alive
            context_id = DEFAULT_ID
        try:
            return self._receive_context(context_id, text, fields)
        except ClientError as error:
            error.utterance = context_id
            raise

    def _close_all(self) -> list[ClientEvent]:
        """Speak what every context still has, then close."""
        events: list[ClientEvent] = []
        for name, context in self._contexts.items():
            if context.last != "close":
                context.last = "close"
                events.append(EndText(name))
        return [*events, Leave()]

    def _receive_context(self, context_id: str, text: str | None, fields: Fields) -> list[ClientEvent]:
        is_flush, is_close = fields.flag("flush"), fields.flag("close_context")
        events: list[ClientEvent] = []
        context = self._contexts.get(context_id)
        if context is None:
            if not self._opens(context_id, text, fields):
                return []
            events += self._open(context_id, fields)
            context = self._contexts[context_id]
        if context.last == "close":
            return [Cancel(context_id)] if is_close else []
        if text and text.strip():
            events += self._speak(context_id, context, text, is_flush)
        elif is_flush:
            context.last = "flush"
            events.append(Flush(context_id))
        elif text is not None and not events:
            # A blank is a token; an empty text keeps the context alive.
            events.append(TextFragment(context_id, "" if self._is_by_sentence else text))
        if is_close:
            is_barge_in = context.last == "text" and not text
            context.last = "close"
            events.append(Cancel(context_id) if is_barge_in else EndText(context_id))
        return events

    def _opens(self, context_id: str, text: str | None, fields: Fields) -> bool:
        """Whether a message for an id that is not live opens a context. Late messages for ids that are over do not."""
        is_opening = fields.has("voice_settings") or fields.has("generation_config") or (text or "").isspace()
        return (bool(text) and (is_opening or context_id not in self._finished)) or is_opening

    def _open(self, context_id: str, fields: Fields) -> list[ClientEvent]:
        """Read all of it before any of it counts: a refused message leaves no context behind."""
        if len(self._contexts) >= MAX_CONTEXTS:
            raise ClientError(
                ErrorCode.TOO_MANY_UTTERANCES, f"the ends of {MAX_CONTEXTS:,} contexts wait to be read, the most"
            )
        named = self._server.names.voice_now(self._voice_name, self._server.model)
        options, remark = read_options(
            self._output, named.value, self._language, self._seed, fields.fields("voice_settings"), self._server
        )
        dictionaries = fields.items("pronunciation_dictionary_locators")
        self._contexts[context_id] = _Context(Alignment(self._is_alignment_absolute))
        self._finished.pop(context_id, None)
        events: list[ClientEvent] = [OpenUtterance(context_id, self._lanes.take(context_id), options)]
        events += self._remarks_made.new((named.remark, remark))
        if dictionaries:
            events.append(
                Remark(
                    WarningCode.PARAMETER_IGNORED,
                    "pronunciation dictionaries of the vendor are not known here; use a lexicon (docs/tags.md)",
                    context_id,
                    "pronunciation_dictionary_locators",
                )
            )
        return events

    def _speak(self, context_id: str, context: _Context, text: str, is_flush: bool) -> list[ClientEvent]:
        """A fragment to append verbatim, or a whole segment where messages are sentences."""
        is_segment = is_flush or self._is_by_sentence
        if is_segment and not context.last_character.isspace() and not text[0].isspace():
            text = f" {text}"
        context.last, context.last_character, context.has_text = "text", text[-1], True
        events: list[ClientEvent] = [TextFragment(context_id, text)]
        if is_segment:
            events.append(Flush(context_id))
        return events

    def _receive_single(self, fields: Fields) -> list[ClientEvent]:
        text, is_flush = fields.text("text"), fields.flag("flush")
        context = self._contexts.get(SINGLE_ID)
        events: list[ClientEvent] = []
        if context is None:
            if SINGLE_ID in self._finished:
                return [Leave()] if text == "" else []
            events += self._open(SINGLE_ID, fields)
            context = self._contexts[SINGLE_ID]
        if text == "":
            context.last = "close"
            return [*events, EndText(SINGLE_ID), Leave()]
        if context.last == "close":
            return []
        if text and text.strip():
            whole = self._rejoined(context, text)
            if self._is_by_sentence or is_flush:
                events += self._speak(SINGLE_ID, context, whole + context.held_space, is_flush)
                context.held_space = ""
            else:
                context.last, context.last_character, context.has_text = "text", whole[-1], True
                events.append(TextFragment(SINGLE_ID, whole))
        elif is_flush:
            events.append(Flush(SINGLE_ID))
        elif text and not events:
            events.append(TextFragment(SINGLE_ID, context.held_space + text))
            context.held_space = ""
        return events

    @staticmethod
    def _rejoined(context: _Context, text: str) -> str:
        """The SDK splits "1.5" into "1. " and "5 ": a space behind a digit's point waits for what comes next."""
        if context.held_space and not text[0].isdigit():
            text = context.held_space + text
        match = _POINT_AT_END.search(text)
        context.held_space = match.group(1) if match else ""
        return text.removesuffix(context.held_space) if match else text

    # ---- send --------------------------------------------------------------------------------------------------------

    def send(self, event: ServerEvent) -> list[str | bytes]:
        match event:
            case Audio():
                return self._audio(event)
            case Words():
                context = self._contexts.get(event.utterance)
                if context is not None:
                    context.alignment.add(event)
                return []
            case Done():
                quiet = self._quiet(event)
                return [*quiet, *self._end(event.utterance, is_complete=event.reason != "error")]
            case Cancelled():
                return [] if event.after_done else self._end(event.utterance, is_complete=False)
            case Failed():
                return self._failed(event)
            case _:
                return []

    def _audio(self, event: Audio) -> list[str | bytes]:
        context = self._contexts.get(event.utterance)
        if context is None or not event.payload:
            return []
        payload = self._encoded(context, event.payload)
        return [self._frame(event.utterance, context, payload)] if payload else []

    def _quiet(self, event: Done) -> list[str | bytes]:
        """A little silence for a text with nothing to speak: Pipecat gives up on a service after three such turns."""
        context = self._contexts.get(event.utterance)
        if context is None or not context.has_text or event.audio_samples or event.reason == "error":
            return []
        payload = self._encoded(context, short_silence(self._output.format, self._output.sample_rate_hz))
        return [self._frame(event.utterance, context, payload)] if payload else []

    def _encoded(self, context: _Context, samples: bytes) -> bytes:
        if self._output.container is None:
            return samples
        if context.encoder is None:
            context.encoder = ContainerEncoder(self._output.container, self._output.sample_rate_hz)
        return context.encoder.encode(samples)

    def _frame(self, context_id: str, context: _Context, payload: bytes) -> str:
        alignment = _alignment(context.alignment)
        return wire(
            {
                "audio": base64.b64encode(payload).decode("ascii") if payload else None,
                "isFinal": False,
                "alignment": alignment,
                "normalizedAlignment": alignment,
                **self._named(context_id),
            }
        )

    def _end(self, context_id: str, *, is_complete: bool) -> list[str | bytes]:
        """The one end marker, in a frame of its own; before it what the encoder and the alignment still hold."""
        context = self._contexts.pop(context_id, None)
        if context is None:
            return []
        self._lanes.release(context_id)
        self._finished[context_id] = None
        if len(self._finished) > MAX_FINISHED:
            self._finished.popitem(last=False)
        messages: list[str | bytes] = []
        if is_complete:
            payload = b"" if context.encoder is None else context.encoder.finish()
            frame = self._frame(context_id, context, payload)
            if payload or '"alignment":null' not in frame:
                messages.append(frame)
        failure = {} if context.failure is None else _error(context.failure)
        messages.append(wire({"audio": None, "isFinal": True, **failure, **self._named(context_id)}))
        return messages

    def _failed(self, event: Failed) -> list[str | bytes]:
        context = self._contexts.get(event.utterance or "")
        if context is None or event.utterance is None:
            return [wire({**_error(event), **({} if event.utterance is None else self._named(event.utterance))})]
        context.failure = event
        if event.ends_utterance:
            return self._end(event.utterance, is_complete=False)
        return [wire({**_error(event), **self._named(event.utterance)})]

    def _named(self, context_id: str) -> dict[str, Any]:
        return {"contextId": context_id} if self._mode == "multi" else {}


def _alignment(alignment: Alignment) -> dict[str, Any] | None:
    taken = alignment.take()
    if taken is None:
        return None
    characters, starts_ms, durations_ms = taken
    return {"chars": characters, "charStartTimesMs": starts_ms, "charDurationsMs": durations_ms}


def _error(event: Failed) -> dict[str, Any]:
    name, code = ERRORS[event.code]
    return {"error": name, "message": event.message, "code": code}
