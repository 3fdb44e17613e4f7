"""A vendor's dialect over a session, without sockets, engine or clock: wire messages in, wire messages out."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.speech import ModelInfo
from gateway.dialects import DIALECTS, DialectEntry
from gateway.dialects.base import Dialect, Handshake, ServerFacts
from gateway.dialects.vendor_names import UnknownName, VendorNames
from gateway.errors import ClientError
from gateway.events import CloseConnection, OpenSpeech, OpenUtterance, ServerEvent, Warned
from tests.fakes.talk import MODEL, SETTINGS, Talk

VENDORS = tuple(entry for entry in DIALECTS if entry.name != "native")


def entry_named(name: str) -> DialectEntry:
    return next(entry for entry in DIALECTS if entry.name == name)


def facts(
    *,
    voices: Mapping[str, str] | None = None,
    models: Mapping[str, str] | None = None,
    unknown: UnknownName = "default",
    read_model: Callable[[], ModelInfo] = lambda: MODEL,
) -> ServerFacts:
    return ServerFacts(SETTINGS.limits, read_model, VendorNames(voices or {}, models or {}, unknown, ("alto", "bass")))


def handshake(
    path: str = "/",
    query: Mapping[str, str] | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    subprotocols: tuple[str, ...] = (),
    **path_params: str,
) -> Handshake:
    return Handshake(path, path_params, query or {}, headers or {}, subprotocols)


@dataclass
class VendorTalk:
    """`got` holds what came back, JSON parsed, binary as it is. The engine speaks at once unless `is_engine_held`."""

    name: str
    query: Mapping[str, str] = field(default_factory=dict)
    server: ServerFacts = field(default_factory=facts)
    is_engine_held: bool = False
    path_params: Mapping[str, str] = field(default_factory=lambda: {"voice_id": "alto"})
    changes: Mapping[str, object] = field(default_factory=dict)
    subprotocols: tuple[str, ...] = ()
    got: list[Any] = field(default_factory=list)
    said: list[ServerEvent] = field(default_factory=list)
    close_code: int | None = None

    def __post_init__(self) -> None:
        self.talk = Talk(changes=self.changes, read_model=self.server.read_model)
        request = Handshake("/", self.path_params, self.query, {}, self.subprotocols)
        self.dialect: Dialect = entry_named(self.name).make(request, self.server)
        self._opened: list[str] = []
        self.opened: list[OpenUtterance] = []
        self._handle(self.dialect.begin())
        self.pump()

    def send(self, *messages: Any) -> list[Any]:
        """Messages as dicts (sent as JSON), text or bytes; returns what came back."""
        before = len(self.got)
        for message in messages:
            try:
                events = self.dialect.receive(json.dumps(message) if isinstance(message, dict) else message)
            except ClientError as error:
                self.talk.errors.append(error)
                self.talk.session.refuse(error)
            else:
                self._handle(events)
            self.pump()
        return self.got[before:]

    def wait(self, seconds: float) -> list[Any]:
        """Time passes in small steps, as it does for a connection."""
        before = len(self.got)
        for _ in range(round(seconds / 0.05)):
            self._note(self.talk.pass_time(0.05))
            self.pump()
        return self.got[before:]

    def speak(self) -> list[Any]:
        """The engine speaks all that it was fed."""
        before = len(self.got)
        for utterance in self._opened:
            self.talk.speak(utterance)
        self._write()
        return self.got[before:]

    def pump(self) -> None:
        if not self.is_engine_held:
            self.speak()
        self._write()

    def _handle(self, events: list[Any]) -> None:
        self.opened += [event for event in events if isinstance(event, OpenUtterance)]
        self._note(self.talk.do(*events))

    def _note(self, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, OpenSpeech) and action.utterance not in self._opened:
                self._opened.append(action.utterance)
            if isinstance(action, CloseConnection):
                self.close_code = action.code

    def _write(self) -> None:
        while (event := self.talk.session.take(self.talk.now_s)) is not None:
            self.said.append(event)
            for message in self.dialect.send(event):
                self.got.append(json.loads(message) if isinstance(message, str) else message)
            actions = self.talk.session.written(event, self.talk.now_s)
            self.talk._note(actions)
            self._note(actions)

    # ---- reading what came -------------------------------------------------------------------------------------------

    def frames(self, **wanted: Any) -> list[dict[str, Any]]:
        """Parsed frames that have these values."""
        return [
            frame
            for frame in self.got
            if isinstance(frame, dict) and all(frame.get(key) == value for key, value in wanted.items())
        ]

    def kinds(self) -> list[str]:
        """The frames' types in order, `binary` for binary ones, without repeats next to each other."""
        names = [frame.get("type", "frame") if isinstance(frame, dict) else "binary" for frame in self.got]
        return [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]

    def warnings(self) -> list[tuple[str, str | None]]:
        """Code and detail of what the session warned about, whether the protocol has a word for it or not."""
        return [(event.code.value, event.detail) for event in self.said if isinstance(event, Warned)]

    def binary(self) -> bytes:
        return b"".join(message for message in self.got if isinstance(message, bytes))


def joined(frames: list[dict[str, Any]], key: str) -> bytes:
    """The base64 audio of frames."""
    return b"".join(base64.b64decode(frame[key]) for frame in frames if frame.get(key))
