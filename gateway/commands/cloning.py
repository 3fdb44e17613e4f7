"""`antiphon voices add` and `delete`: clone a voice, or purge one, through a gateway or in this process."""

from __future__ import annotations

import json
import secrets
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.api import Engine
from engine.voice_audio import VoiceRejectedError
from engine.voice_store import MAX_RECORDING_BYTES, VoiceLibrary, VoiceStoreError, VoiceUpload
from gateway.commands.outcome import USAGE, CommandError
from gateway.commands.voices import opened, voices_address


@dataclass(frozen=True, slots=True)
class NewVoice:
    """What `antiphon voices add` was given."""

    recording: Path
    name: str
    consent: str
    transcript: str | None
    language: str | None


def add_at_gateway(url: str, key: str | None, voice: NewVoice) -> tuple[str, tuple[str, ...]]:
    """The new voice's id, and remarks on the recording. Raises CommandError with what the gateway found wrong."""
    fields = {"name": voice.name, "consent": voice.consent, "transcript": voice.transcript, "language": voice.language}
    boundary = secrets.token_hex(16)
    body = _form(boundary, {name: value for name, value in fields.items() if value is not None}, _read(voice.recording))
    request = urllib.request.Request(
        voices_address(url), body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}, method="POST"
    )
    answer = json.loads(opened(request, key))
    return str(answer["voice"]["id"]), tuple(answer["voice"]["remarks"])


def delete_at_gateway(url: str, key: str | None, voice_id: str) -> None:
    """Purge a voice that this key owns. Raises CommandError."""
    address = f"{voices_address(url)}/{urllib.parse.quote(voice_id, safe='')}"
    opened(urllib.request.Request(address, method="DELETE"), key)


def add_to_engine(engine: Engine, voice: NewVoice) -> tuple[str, tuple[str, ...]]:
    """As `add_at_gateway`, into the store of the model in this process; the voice is the operator's own."""
    upload = VoiceUpload(_read(voice.recording), voice.name, None, voice.consent, voice.transcript, voice.language)
    try:
        added = _library(engine).add(upload)
    except (VoiceRejectedError, VoiceStoreError) as error:
        raise CommandError(str(error)) from error
    return added.id, added.remarks


def delete_from_engine(engine: Engine, voice_id: str) -> None:
    try:
        is_deleted = _library(engine).delete(voice_id, None)
    except VoiceStoreError as error:
        raise CommandError(str(error)) from error
    if not is_deleted:
        raise CommandError(f"there is no voice {voice_id!r} of the operator's own")


def _library(engine: Engine) -> VoiceLibrary:
    library = engine.voices
    if library is None:
        raise CommandError(f"{engine.info.name} cannot clone voices")
    return library


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_RECORDING_BYTES:
            raise CommandError(f"{path} is {size:,} bytes, at most {MAX_RECORDING_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}", USAGE) from error


def _form(boundary: str, fields: dict[str, Any], recording: bytes) -> bytes:
    """multipart/form-data (RFC 7578). The recording's own name stays here: nobody needs it."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="recording"\r\n\r\n'.encode()
    return b"".join([*parts, head, recording, f"\r\n--{boundary}--\r\n".encode()])
