"""`antiphon voices`: which voices there are, of a gateway or of the embedded engine."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from typing import Any, Final

from engine.speech import ModelInfo, VoiceInfo
from gateway.auth import is_loopback
from gateway.commands.outcome import CommandError

VOICES_PATH: Final = "/antiphon/v1/voices"
TIMEOUT_S: Final = 60.0
"""Encoding a recording takes its time."""


def voices_address(url: str) -> str:
    """The address of a gateway's voices, from that of its speech. Raises CommandError."""
    parts = urllib.parse.urlsplit(url)
    schemes = {"ws": "http", "wss": "https", "http": "http", "https": "https"}
    if parts.scheme not in schemes or not parts.netloc:
        raise CommandError(f"{url!r} is no address of a gateway; write ws://HOST:PORT/antiphon/v1/speak")
    return urllib.parse.urlunsplit((schemes[parts.scheme], parts.netloc, VOICES_PATH, "", ""))


def opened(request: urllib.request.Request, key: str | None) -> bytes:
    """The body of a gateway's answer. Raises CommandError with what it said against the request."""
    if key is not None:
        request.add_header("Authorization", f"Bearer {key}")
    # A proxy of the environment cannot know this machine's loopback.
    host = urllib.parse.urlsplit(request.full_url).hostname or ""
    proxies = urllib.request.ProxyHandler({} if is_loopback(host) else None)
    try:
        with urllib.request.build_opener(proxies).open(request, timeout=TIMEOUT_S) as response:
            body: bytes = response.read()
            return body
    except urllib.error.HTTPError as error:
        raise CommandError(f"{request.full_url} answered with HTTP status {error.code}: {_message(error)}") from error
    except OSError as error:
        raise CommandError(f"cannot reach {request.full_url}: {getattr(error, 'reason', error)}") from error


def voices_of_gateway(url: str, key: str | None) -> tuple[list[VoiceInfo], str]:
    """The voices and the default one's id. `url` is the gateway's speak address; raises CommandError."""
    place = voices_address(url)
    body = opened(urllib.request.Request(place), key)
    try:
        answer = json.loads(body)
        voices = [
            VoiceInfo(voice["id"], voice["name"], voice["language"], voice.get("description") or "")
            for voice in answer["voices"]
        ]
        return voices, str(answer["default_voice"])
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{place} did not answer as a gateway does: {error}") from error


def voices_of_model(info: ModelInfo) -> tuple[list[VoiceInfo], str]:
    return list(info.voices), info.default_voice


def table(voices: Iterable[VoiceInfo], default_voice: str) -> str:
    """One line a voice; the default is marked."""
    rows = [
        (
            f"{voice.id}{' (default)' if voice.id == default_voice else ''}",
            voice.name,
            voice.language,
            voice.description,
        )
        for voice in voices
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    return "\n".join(
        "  ".join([*(row[column].ljust(widths[column]) for column in range(3)), row[3]]).rstrip() for row in rows
    )


def _message(error: urllib.error.HTTPError) -> Any:
    try:
        return json.load(error)["message"]
    except (ValueError, KeyError, TypeError):
        return error.reason
