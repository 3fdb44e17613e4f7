"""`/antiphon/v1/voices`: which voices there are, and the cloning and deleting of a key's own."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message

from engine.errors import CapacityError, EngineError
from engine.speech import VoiceInfo
from engine.voice_audio import VoiceRejectedError
from engine.voice_store import (
    MAX_RECORDING_BYTES,
    TooManyVoicesError,
    Voice,
    VoiceLibrary,
    VoiceStoreError,
    VoiceUpload,
)
from gateway.admission import CAPACITY_RETRY_S, DRAINING_RETRY_S
from gateway.errors import ClientError, ErrorCode, HandshakeError
from gateway.service import Service

log = logging.getLogger("antiphon.voices")

TEXT_FIELDS: Final = ("name", "consent", "transcript", "language")
MAX_BODY_BYTES: Final = MAX_RECORDING_BYTES + 64 * 1024
"""A recording and its fields."""
UPLOAD_S: Final = 120.0
"""A peer that sends more slowly holds the place of others: 10 MB at about 0.7 Mbit/s."""
DISCARD_S: Final = 10.0
"""A refused upload is let in for so long, so that its sender sees why."""
FULL_DISK_RETRY_S: Final = 60.0
"""Somebody has to make room."""


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
    with what is wrong with it, 408 where it takes too long to come, 413 where it is too large, 429 where the key has
    all the voices it may have, 501 where the model cannot clone, 503 where there is no room now, 507 where the disk is
    full."""
    owner, uploads = service.owner_of(request.state.key), service.uploads
    with ExitStack() as held:
        try:
            library = _open_library(service)
            held.enter_context(uploads.place())
        except HandshakeError:
            await _discard(request)
            raise
        with _refusals():
            async with asyncio.timeout(UPLOAD_S):
                upload = await _read(_bounded(request), owner)
            voice = await asyncio.to_thread(library.add, upload, uploads.voices_per_key)
    await refresh(service, library, owner)
    return JSONResponse({"voice": {**_shown(_info(voice)), "remarks": list(voice.remarks)}}, 201)


async def delete(service: Service, request: Request) -> Response:
    """204 once recording, codes and cached state are gone; 404 where this key owns no such voice, 500 where something
    of it could not be removed."""
    library = service.engine.voices
    if library is None:
        raise _cannot_clone(service)
    owner, voice_id = service.owner_of(request.state.key), request.path_params["voice"]
    is_owned = True  # also where the disk fails in the middle of it
    try:
        with _refusals():
            is_owned = await asyncio.to_thread(library.delete, voice_id, owner)
    finally:
        if is_owned:
            await refresh(service, library, owner)
            service.engine.forget_voice(voice_id)
    if not is_owned:
        raise HandshakeError(404, ErrorCode.VOICE_NOT_FOUND, f"you own no voice {voice_id!r:.80}")
    return Response(status_code=204)


async def refresh(service: Service, library: VoiceLibrary, owner: str | None) -> None:
    """Bring what the catalog knows of an owner's voices up to date with the disk. One at a time, so that no list is
    replaced by an older one."""
    async with service.refreshing_voices:
        voices = await asyncio.to_thread(library.shared if owner is None else partial(library.of, owner))
        service.catalog.replace(owner, [_info(voice) for voice in voices if voice.owner == owner])


def _open_library(service: Service) -> VoiceLibrary:
    """Raises HandshakeError where no voice can be added, ever or now."""
    library = service.engine.voices
    if library is None:
        raise _cannot_clone(service)
    if service.admission.is_draining:
        raise HandshakeError(503, ErrorCode.DRAINING, "the server is shutting down", retry_after_s=DRAINING_RETRY_S)
    if not service.is_ready:
        raise HandshakeError(503, ErrorCode.CAPACITY, service.not_ready_because, retry_after_s=CAPACITY_RETRY_S)
    return library


async def _discard(request: Request) -> None:
    """Let a refused upload come and drop it: most clients look for no answer before they have sent all, and would
    see a reset instead."""
    with suppress(TimeoutError, ClientDisconnect, ClientError):
        async with asyncio.timeout(DISCARD_S):
            async for _ in _bounded(request).stream():
                pass


@contextmanager
def _refusals() -> Iterator[None]:
    """Whatever a voice or the wish for one can meet, as the refusal that its sender gets. Raises HandshakeError."""
    try:
        yield
    except ClientError as error:
        status = 413 if error.code is ErrorCode.MESSAGE_TOO_BIG else 400
        raise HandshakeError(status, error.code, error.message) from error
    except ClientDisconnect as error:
        raise HandshakeError(499, ErrorCode.BAD_MESSAGE, "the client hung up in its upload") from error  # to be counted
    except HTTPException as error:  # of the form's parser
        raise HandshakeError(400, ErrorCode.BAD_MESSAGE, f"the form cannot be read: {error.detail}") from error
    except VoiceRejectedError as error:
        raise HandshakeError(400, ErrorCode.BAD_VALUE, str(error)) from error
    except TooManyVoicesError as error:
        raise HandshakeError(429, ErrorCode.QUOTA, str(error)) from error
    except CapacityError as error:
        raise HandshakeError(503, ErrorCode.CAPACITY, str(error), retry_after_s=error.retry_after_s) from error
    except EngineError as error:
        log.error("a voice could not be encoded: %s", error)
        message = "the engine could not encode the voice; the server's log says why"
        raise HandshakeError(500, ErrorCode.ENGINE_FAILED, message) from error
    except TimeoutError as error:
        message = f"the upload did not come whole within {UPLOAD_S:g} s"
        raise HandshakeError(408, ErrorCode.BAD_MESSAGE, message) from error
    except VoiceStoreError as error:
        raise _disk_refusal(error, is_full=error.is_full) from error
    except OSError as error:  # where an upload is held while it comes
        raise _disk_refusal(error, is_full=error.errno in (errno.ENOSPC, errno.EDQUOT)) from error


def _disk_refusal(error: Exception, *, is_full: bool) -> HandshakeError:
    """The path and what the system said of it stay in the log."""
    log.error("voices on disk: %s", error)
    if is_full:
        return HandshakeError(507, ErrorCode.CAPACITY, "the server's disk is full", retry_after_s=FULL_DISK_RETRY_S)
    return HandshakeError(500, ErrorCode.INTERNAL, "the server's disk failed; its log says why")


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


def _cannot_clone(service: Service) -> HandshakeError:
    model = service.engine.info
    message = f"{model.name} cannot clone voices; its own are {', '.join(voice.id for voice in model.voices)}"
    return HandshakeError(501, ErrorCode.VOICE_NOT_FOUND, message)


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
