"""OpenAI's `/v1/realtime`, as far as it is text in and audio out.

In that API the server's model writes the words; here nothing does. So a response speaks, word for word, the text of its
own `input`, else its `instructions`, else the last message of the conversation. Audio input is refused.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gateway.audio.formats import resolve_format
from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.json_fields import Fields, read_fields, wire
from gateway.dialects.openai_errors import ERRORS, error_fields
from gateway.dialects.remarks import RemarksMade, speed_within_reach
from gateway.dialects.replies import Replies
from gateway.errors import ClientError, ErrorCode, HandshakeError
from gateway.events import (
    Audio,
    Cancel,
    Cancelled,
    ClientEvent,
    Done,
    EndText,
    Failed,
    OpenUtterance,
    Ping,
    Pong,
    Ready,
    Remark,
    ServerEvent,
    TextFragment,
    UtteranceOptions,
    Words,
)

Status = Literal["completed", "cancelled", "failed"]

SUBPROTOCOL: Final = "realtime"
MAX_ITEMS: Final = 256
"""Messages of the conversation, and items that a truncation still finds."""
MAX_CONVERSATION_CHARS: Final = 256 * 1024
"""Characters of those messages together; the oldest are forgotten."""
FORMATS: Final = {"audio/pcm": ("pcm_s16le", 24000), "audio/pcmu": ("mulaw", 8000), "audio/pcma": ("alaw", 8000)}

REFUSALS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UTTERANCE_EXISTS: "conversation_already_has_active_response",
    ErrorCode.UNKNOWN_UTTERANCE: "response_cancel_not_active",
}
"""What the API calls two of our codes where its one response is meant."""


@dataclass(slots=True)
class _Response:
    """The one that is being spoken."""

    id: str
    item_id: str
    text: str
    metadata: dict[str, str] | None
    said_chars: int = 0
    failure: Failed | None = None


@dataclass(slots=True)
class _Settings:
    """What `session.update` has set."""

    options: UtteranceOptions
    format_type: str = "audio/pcm"
    voice_name: str | None = None
    instructions: str = ""
    remarks: list[Remark] = field(default_factory=list)


class OpenAiRealtimeDialect:
    """One connection."""

    def __init__(self, handshake: Handshake, server: ServerFacts) -> None:
        self._server = server
        self._model = handshake.query.get("model") or server.model.name
        try:
            self._remark = server.names.model(self._model, server.model)
        except ClientError as error:
            raise HandshakeError(400, error.code, error.message) from None
        self.subprotocol = SUBPROTOCOL if SUBPROTOCOL in handshake.subprotocols else None
        self._settings = _Settings(UtteranceOptions(format="pcm_s16le", sample_rate_hz=24000))
        self._items: OrderedDict[str, str] = OrderedDict()
        """The conversation's messages: id -> text. The oldest are forgotten."""
        self._response: _Response | None = None
        self._spoken: OrderedDict[str, str] = OrderedDict()
        """Item -> the utterance that spoke it, for a truncation after it was done."""
        self._replies: Replies[list[dict[str, Any]]] = Replies()
        self._remarks_made = RemarksMade()
        self._session_id = "session"
        self._count = 0

    def begin(self) -> list[ClientEvent]:
        return [] if self._remark is None else [self._remark]

    # ---- receive -----------------------------------------------------------------------------------------------------

    def receive(self, message: str | bytes) -> list[ClientEvent]:
        fields = read_fields(message, self._server.limits.message_bytes)
        kind = fields.text("type") or ""
        match kind:
            case "session.update":
                return self._update(fields.fields("session"))
            case "conversation.item.create":
                return self._create_item(fields.fields("item"))
            case "conversation.item.truncate":
                return self._truncate(fields)
            case "conversation.item.delete":
                item_id = fields.require("item_id")
                reply = self._reply({"type": "conversation.item.deleted", "item_id": item_id})
                self._items.pop(item_id, None)
                return [reply]
            case "response.create":
                return self._create_response(fields.fields("response"))
            case "response.cancel":
                return self._cancel()
            case _:
                reason = "audio input is not served here" if kind.startswith("input_audio_buffer.") else "unknown type"
                raise ClientError(ErrorCode.UNKNOWN_TYPE, f"{reason}: {kind!r:.80}")

    def _update(self, session: Fields) -> list[ClientEvent]:
        settings = self._read_settings(session, self._settings)
        reply = self._reply({"type": "session.updated", "session": self._shown(settings)})
        self._settings = settings
        return [*self._remarks_made.new(settings.remarks), reply]

    def _read_settings(self, session: Fields, base: _Settings) -> _Settings:
        """`base` with what a session or a response says about its output."""
        output = session.fields("audio").fields("output")
        format_type = output.fields("format").text("type") or base.format_type
        if format_type not in FORMATS:
            raise ClientError(
                ErrorCode.FORMAT_UNSUPPORTED,
                f"audio.output.format.type {format_type!r:.40} is not supported; supported: {', '.join(FORMATS)}",
            )
        name, rate_hz = FORMATS[format_type]
        wanted_hz = output.fields("format").integer("rate") if name == "pcm_s16le" else None
        audio_format = resolve_format(name, wanted_hz or rate_hz, default_name=name, default_rate_hz=rate_hz)
        voice_name = self._voice_name(output) or base.voice_name
        named = self._server.names.voice(voice_name, self._server.model)
        speed = speed_within_reach(output.number("speed"), "audio.output.speed")
        return _Settings(
            UtteranceOptions(
                voice=named.value,
                format=audio_format.name,
                sample_rate_hz=audio_format.sample_rate_hz,
                speed=base.options.speed if speed.value is None else speed.value,
            ),
            format_type,
            voice_name,
            session.text("instructions") or base.instructions,
            [remark for remark in (named.remark, speed.remark) if remark is not None],
        )

    @staticmethod
    def _voice_name(output: Fields) -> str | None:
        return output.fields("voice").text("id") if isinstance(output.raw("voice"), dict) else output.text("voice")

    def _create_item(self, item: Fields) -> list[ClientEvent]:
        item_id = item.identifier("id") or self._new_id("item")
        role, text = item.text("role") or "user", _text_of(item)
        limit = self._server.limits.utterance_chars
        if len(text) > limit:
            raise ClientError(ErrorCode.TEXT_TOO_LONG, f"the item has {len(text):,} characters, at most {limit:,}")
        shown = _item(item_id, role, text, "output_text" if role == "assistant" else "input_text")
        reply = self._reply(
            {"type": "conversation.item.added", "item": shown}, {"type": "conversation.item.done", "item": shown}
        )
        self._keep(item_id, text)
        return [reply]

    def _keep(self, item_id: str, text: str) -> None:
        """The conversation's last message; the oldest that are too much are forgotten."""
        self._items.pop(item_id, None)
        self._items[item_id] = text
        while len(self._items) > MAX_ITEMS or (
            len(self._items) > 1 and sum(map(len, self._items.values())) > MAX_CONVERSATION_CHARS
        ):
            self._items.popitem(last=False)

    def _truncate(self, fields: Fields) -> list[ClientEvent]:
        """The client tells what it has played: the context keeps no more than that."""
        item_id = fields.require("item_id")
        played_ms = max(0, fields.integer("audio_end_ms") or 0)
        answer = {
            "type": "conversation.item.truncated",
            "item_id": item_id,
            "content_index": fields.integer("content_index") or 0,
            "audio_end_ms": played_ms,
        }
        reply = self._reply(answer)
        utterance = self._spoken.pop(item_id, None)
        cancels: list[ClientEvent] = [] if utterance is None else [Cancel(utterance, played_ms / 1000)]
        return [*cancels, reply]

    def _create_response(self, response: Fields) -> list[ClientEvent]:
        if self._response is not None:
            return [self._refusal(ErrorCode.UTTERANCE_EXISTS, f"response {self._response.id} is still being spoken")]
        settings = self._read_settings(response, self._settings)
        text = self._words_of(response)
        current = _Response(self._new_id("resp"), self._new_id("item"), text, _metadata(response))
        item = {**_item(current.item_id, "assistant", None, ""), "status": "in_progress"}
        place = {"response_id": current.id, "output_index": 0}
        reply = self._reply(
            {"type": "response.created", "response": self._response_shown(current, "in_progress", [])},
            {"type": "response.output_item.added", **place, "item": item},
            {
                "type": "response.content_part.added",
                **place,
                "item_id": current.item_id,
                "content_index": 0,
                "part": {"type": "audio", "transcript": ""},
            },
        )
        self._response = current
        self._spoken[current.item_id] = current.id
        if len(self._spoken) > MAX_ITEMS:
            self._spoken.popitem(last=False)
        return [
            *self._remarks_made.new(settings.remarks),
            reply,
            OpenUtterance(current.id, options=settings.options),
            TextFragment(current.id, text),
            EndText(current.id),
        ]

    def _words_of(self, response: Fields) -> str:
        given = [_text_of(Fields(item)) for item in response.items("input") if isinstance(item, dict)]
        text = next((text for text in reversed(given) if text), "") or response.text("instructions") or ""
        return text or next((text for text in reversed(self._items.values()) if text), "")

    def _cancel(self) -> list[ClientEvent]:
        if self._response is None:
            return [self._refusal(ErrorCode.UNKNOWN_UTTERANCE, "no response is being spoken")]
        return [Cancel(self._response.id)]

    def _refusal(self, code: ErrorCode, text: str) -> Ping:
        return self._reply({"type": "error", "error": {**_error(code, text), "code": REFUSALS[code]}})

    def _reply(self, *events: dict[str, Any]) -> Ping:
        """The dialect's own answers take their turn behind what was asked before."""
        return self._replies.put(list(events), sum(len(wire(event)) for event in events))

    def _new_id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._session_id.rpartition('_')[2]}{self._count:06d}"

    # ---- send --------------------------------------------------------------------------------------------------------

    def send(self, event: ServerEvent) -> list[str | bytes]:
        return [wire({"event_id": self._new_id("event"), **message}) for message in self._messages(event)]

    def _messages(self, event: ServerEvent) -> list[dict[str, Any]]:
        response = self._response
        match event:
            case Ready():
                self._session_id = event.session
                return [{"type": "session.created", "session": self._shown(self._settings)}]
            case Pong():
                return self._replies.take() or []
            case Failed():
                return self._failed(event)
            case _ if response is None or getattr(event, "utterance", None) != response.id:
                return []
            case Audio() if event.payload:
                delta = base64.b64encode(event.payload).decode("ascii")
                return [{"type": "response.output_audio.delta", **self._place(response), "delta": delta}]
            case Words():
                last = event.words[-1] if event.words else None
                return [] if last is None else self._transcript(response, last.end_char + len(last.closing))
            case Done():
                has_failed = event.reason == "error" or response.failure is not None
                return self._end(response, "failed" if has_failed else "completed")
            case Cancelled():
                return self._end(response, "cancelled")
            case _:
                return []

    def _place(self, response: _Response) -> dict[str, Any]:
        return {"response_id": response.id, "item_id": response.item_id, "output_index": 0, "content_index": 0}

    def _transcript(self, response: _Response, until: int) -> list[dict[str, Any]]:
        """The text up to `until`, as far as it has not been told."""
        delta = response.text[response.said_chars : until]
        response.said_chars = max(response.said_chars, until)
        if not delta:
            return []
        return [{"type": "response.output_audio_transcript.delta", **self._place(response), "delta": delta}]

    def _end(self, response: _Response, status: Status) -> list[dict[str, Any]]:
        self._response = None
        messages: list[dict[str, Any]] = []
        if status == "completed":
            messages += self._transcript(response, len(response.text))
        transcript = response.text[: response.said_chars]
        item_status = "completed" if status == "completed" else "incomplete"
        part = {"type": "audio", "transcript": transcript}
        item = {**_item(response.item_id, "assistant", transcript, "output_audio"), "status": item_status}
        place = {"response_id": response.id, "output_index": 0}
        self._keep(response.item_id, "")  # what was spoken is not spoken again
        return [
            *messages,
            {"type": "response.output_audio.done", **self._place(response)},
            {"type": "response.output_audio_transcript.done", **self._place(response), "transcript": transcript},
            {"type": "response.content_part.done", **self._place(response), "part": part},
            {"type": "response.output_item.done", **place, "item": item},
            {"type": "response.done", "response": self._response_shown(response, status, [item])},
        ]

    def _failed(self, event: Failed) -> list[dict[str, Any]]:
        response = self._response
        error = _error(event.code, event.message)
        if response is None or event.utterance != response.id:
            return [{"type": "error", "error": error}]
        response.failure = event
        if event.ends_utterance:
            return [{"type": "error", "error": error}, *self._end(response, "failed")]
        return [{"type": "error", "error": error}]

    def _response_shown(self, response: _Response, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        details = None
        if status == "failed" and response.failure is not None:
            failure = response.failure
            details = {"type": "failed", "error": {"type": ERRORS[failure.code], "code": failure.code.value}}
        elif status == "cancelled":
            details = {"type": "cancelled", "reason": "client_cancelled"}
        return {
            "object": "realtime.response",
            "id": response.id,
            "status": status,
            "status_details": details,
            "output": output,
            "output_modalities": ["audio"],
            "conversation_id": None,
            "metadata": response.metadata,
            "usage": None,
        }

    def _shown(self, settings: _Settings) -> dict[str, Any]:
        return {
            "type": "realtime",
            "object": "realtime.session",
            "id": self._session_id,
            "model": self._model,
            "output_modalities": ["audio"],
            "instructions": settings.instructions,
            "audio": {
                "output": {
                    "format": {"type": settings.format_type, "rate": settings.options.sample_rate_hz},
                    "voice": settings.voice_name or self._server.model.default_voice,
                    "speed": settings.options.speed or 1.0,
                }
            },
        }


def _metadata(response: Fields) -> dict[str, str] | None:
    """The client's notes about a response, strings by name; they come back with it."""
    notes = response.raw("metadata")
    if not isinstance(notes, dict):
        return None
    return {name: note for name, note in notes.items() if isinstance(note, str)}


def _text_of(item: Fields) -> str:
    """The text of a message item: its content parts in order."""
    parts = [Fields(part) for part in item.items("content") if isinstance(part, dict)]
    return "".join(part.text("text") or part.text("transcript") or "" for part in parts)


def _item(item_id: str, role: str, text: str | None, part_type: str) -> dict[str, Any]:
    key = "transcript" if part_type == "output_audio" else "text"
    content = [] if text is None else [{"type": part_type, key: text}]
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": "completed",
        "role": role,
        "content": content,
    }


def _error(code: ErrorCode, text: str) -> dict[str, Any]:
    return {**error_fields(code, text), "event_id": None}
