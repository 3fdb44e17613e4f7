"""`/antiphon/v1/voices`: which voices there are, and the cloning and deleting of a key's own."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message

from engine.speech import VoiceInfo
from engine.voice_audio import VoiceRejectedError
from engine.voice_store import MAX_RECORDING_BYTES, Voice, VoiceLibrary, VoiceUpload
from gateway.errors import ClientError, ErrorCode
from gateway.service import Service, refusal

TEXT_FIELDS: Final = ("name", "consent", "transcript", "language")
MAX_BODY_BYTES: Final = MAX_RECORDING_BYTES + 64 * 1024
"""A recording and its fields."""


async def listed(service: Service, request: Request) -> Response:
    model = service.model_for(request.state.key)
    return JSONResponse(
        {
            "voices": [_shown(voice) for voice in model.voices],
            "default_voice": model.default_voice,
            "model": {
                "name": model.name,
                "sample_rate_hz": model.sample_rate_hz,
                "word_timing": model.word_timing,
                "languages": sorted(model.languages),
                "parameters": sorted(model.parameters),
                "can_clone": model.can_clone,
                "tags": dict(sorted(model.tags.items())),
            },
        }
    )


async def add(service: Service, request: Request) -> Response:
    """multipart/form-data: `file`, `name`, `consent`, and optionally `transcript`, `language`. 201 with the voice; 400
    with what is wrong with it, 413 where it is too large, 501 where the model cannot clone."""
    library = service.engine.voices
    if library is None:
        return _cannot_clone(service)
    owner = service.owner_of(request.state.key)
    try:
        upload = await _read(_bounded(request), owner)
        voice = await asyncio.to_thread(library.add, upload)
    except ClientError as error:
        return refusal(error, 413 if error.code is ErrorCode.MESSAGE_TOO_BIG else 400)
    except VoiceRejectedError as error:
        return refusal(ClientError(ErrorCode.BAD_VALUE, str(error)), 400)
    await refresh(service, library, owner)
    return JSONResponse({"voice": {**_shown(_info(voice)), "remarks": list(voice.remarks)}}, 201)


async def delete(service: Service, request: Request) -> Response:
    """204 once recording, codes and cached state are gone; 404 where this key owns no such voice."""
    library = service.engine.voices
    if library is None:
        return _cannot_clone(service)
    owner, voice_id = service.owner_of(request.state.key), request.path_params["voice"]
    if not await asyncio.to_thread(library.delete, voice_id, owner):
        message = f"you own no voice {voice_id!r:.80}"
        return refusal(ClientError(ErrorCode.VOICE_NOT_FOUND, message), 404)
    await refresh(service, library, owner)
    service.engine.forget_prompts()
    return Response(status_code=204)


async def refresh(service: Service, library: VoiceLibrary, owner: str | None) -> None:
    """Bring what the catalog knows of an owner's voices up to date with the disk."""
    voices = await asyncio.to_thread(library.shared if owner is None else partial(library.of, owner))
    service.catalog.replace(owner, [_info(voice) for voice in voices if voice.owner == owner])


def _bounded(request: Request) -> Request:
    """The same request, whose body raises ClientError once it is too large, declared or not."""
    received = 0

    async def receive() -> Message:
        nonlocal received
        message = await request.receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY_BYTES:
            limit = f"at most {MAX_RECORDING_BYTES:,} bytes of recording"
            raise ClientError(ErrorCode.MESSAGE_TOO_BIG, f"the upload is over {MAX_BODY_BYTES:,} bytes, {limit}")
        return message

    return Request(request.scope, receive)


async def _read(request: Request, owner: str | None) -> VoiceUpload:
    """Raises ClientError naming the field that is missing or of the wrong kind."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise ClientError(ErrorCode.BAD_MESSAGE, "send multipart/form-data with the fields file, name and consent")
    async with request.form(max_files=1, max_fields=len(TEXT_FIELDS)) as form:
        unknown = [name for name in form if name not in ("file", *TEXT_FIELDS)]
        if unknown:
            known = ", ".join(("file", *TEXT_FIELDS))
            raise ClientError(ErrorCode.UNKNOWN_FIELD, f"unknown field {unknown[0]!r:.80}; known: {known}")
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise ClientError(ErrorCode.MISSING_FIELD, "field file is missing, or is not a file")
        texts: dict[str, str] = {}
        for name in TEXT_FIELDS:
            value = form.get(name)
            if isinstance(value, UploadFile):
                raise ClientError(ErrorCode.BAD_VALUE, f"field {name} is a file, must be text")
            if value is not None:
                texts[name] = value
        if "name" not in texts:
            raise ClientError(ErrorCode.MISSING_FIELD, "field name is missing")
        return VoiceUpload(
            recording=await file.read(MAX_RECORDING_BYTES + 1),
            name=texts["name"],
            owner=owner,
            consent=texts.get("consent", ""),
            transcript=texts.get("transcript"),
            language=texts.get("language"),
        )


def _cannot_clone(service: Service) -> Response:
    model = service.engine.info
    message = f"{model.name} cannot clone voices; its own are {', '.join(voice.id for voice in model.voices)}"
    return refusal(ClientError(ErrorCode.VOICE_NOT_FOUND, message), 501)


def _info(voice: Voice) -> VoiceInfo:
    return VoiceInfo(voice.id, voice.name, voice.language or "mul", "A cloned voice.")


def _shown(voice: VoiceInfo) -> dict[str, Any]:
    return {
        "id": voice.id,
        "name": voice.name,
        "language": voice.language,
        "description": voice.description,
        "derived_from": voice.derived_from,
    }
