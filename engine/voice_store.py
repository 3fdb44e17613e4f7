"""Cloned voices on disk: content-addressed, versioned, owned by a key, kept only with consent.

    ROOT/<id>/voice.json            what is known of it (Voice)
    ROOT/<id>/recording             the upload, byte for byte
    ROOT/<id>/codes-<codec>.npy     its codes int16 [T, K], by the codec that made them

A voice's folder appears by one rename and goes by one rename, so no reader ever sees half of one. The id is a digest of
owner, recording and transcript: the same upload twice is one voice, and an id names one content for ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.voice_audio import Recording, VoiceRejectedError, read_recording

FORMAT_VERSION = 1
ID_PATTERN = re.compile(r"voice-[0-9a-f]{20}")
MIN_RECORDING_S = 2.0
MAX_RECORDING_BYTES = 10 << 20
MAX_NAME_CHARS = 80
MAX_TRANSCRIPT_CHARS = 2000
MAX_CONSENT_CHARS = 500
MAX_CACHED_REFERENCES = 256
LEFTOVER_AGE_S = 3600.0
"""What an interrupted write left is swept after that long: by then no other process is still writing it."""

Result = TypeVar("Result")
Codes = NDArray[np.int16]
Encode = Callable[[NDArray[np.float32]], Codes]
"""Mono samples float32 [S] at the codec's rate -> codes int16 [T, K]; may take seconds."""


@dataclass(frozen=True, slots=True)
class Voice:
    """What is known of one stored voice. `owner` None = the operator's own, shared with everybody."""

    id: str
    name: str
    owner: str | None
    consent: str
    """The owner's statement of the speaker's consent, verbatim."""
    transcript: str | None
    language: str | None
    duration_s: float
    remarks: tuple[str, ...]
    created: str
    """ISO 8601, UTC."""
    version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class VoiceUpload:
    """A wish for a voice, as it came."""

    recording: bytes
    name: str
    owner: str | None
    consent: str
    transcript: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """What a family needs to speak with a voice."""

    codes: Codes
    transcript: str | None


class VoiceStore:
    """The folder. Every method may be called from any thread; none waits for another."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        for leftover in root.glob(".*-*"):
            with contextlib.suppress(OSError):
                if time.time() - leftover.stat().st_mtime > LEFTOVER_AGE_S:
                    shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    def put(self, voice: Voice, recording: bytes, codec_key: str, codes: Codes) -> None:
        """Store a voice, whole or not at all. One that is there already stays as it is."""
        folder = Path(tempfile.mkdtemp(prefix=".new-", dir=self.root))
        try:
            (folder / "recording").write_bytes(recording)
            (folder / "voice.json").write_text(json.dumps(asdict(voice), ensure_ascii=False, indent=2) + "\n")
            np.save(folder / _codes_name(codec_key), codes, allow_pickle=False)
            for path in folder.iterdir():
                _sync(path)
            _sync(folder)
            with contextlib.suppress(OSError):  # the target exists: the same content
                os.rename(folder, self.root / voice.id)
                _sync(self.root)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def get(self, voice_id: str) -> Voice | None:
        """None where there is none of that id, or its record cannot be read."""
        if not ID_PATTERN.fullmatch(voice_id):
            return None
        try:
            record = json.loads((self.root / voice_id / "voice.json").read_text())
            if record["version"] != FORMAT_VERSION:
                return None
            return Voice(**{**record, "remarks": tuple(record["remarks"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def all(self) -> tuple[Voice, ...]:
        """Every voice, oldest first."""
        voices = (self.get(path.name) for path in self.root.iterdir())
        return tuple(sorted((v for v in voices if v is not None), key=lambda v: (v.created, v.id)))

    def recording(self, voice_id: str) -> bytes:
        return (self.root / voice_id / "recording").read_bytes()

    def codes(self, voice_id: str, codec_key: str) -> Codes | None:
        """None where this codec has not encoded the voice yet."""
        try:
            codes: Codes = np.load(self.root / voice_id / _codes_name(codec_key), allow_pickle=False)
        except (OSError, ValueError):
            return None
        return codes

    def put_codes(self, voice_id: str, codec_key: str, codes: Codes) -> None:
        """Add the codes of another codec to a stored voice."""
        folder = self.root / voice_id
        with tempfile.NamedTemporaryFile(dir=self.root, prefix=".codes-", delete=False) as file:
            np.save(file, codes, allow_pickle=False)
        try:
            os.rename(file.name, folder / _codes_name(codec_key))
        except OSError:  # deleted in the meantime
            os.unlink(file.name)

    def delete(self, voice_id: str) -> None:
        """Remove recording, codes and record. Unknown ids are ignored."""
        if not ID_PATTERN.fullmatch(voice_id):
            return
        grave = Path(tempfile.mkdtemp(prefix=".gone-", dir=self.root))
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.root / voice_id, grave / voice_id)
            _sync(self.root)
        shutil.rmtree(grave, ignore_errors=True)


class VoiceLibrary:
    """The store with a model's encoder: what the gateway serves. Thread-safe; `add` and a first `reference` may take
    seconds (examination and encoding) and belong on a worker thread."""

    def __init__(self, store: VoiceStore, encode: Encode, rate_hz: int, codec_key: str, max_recording_s: float) -> None:
        self._store = store
        self._encode = encode
        self._rate_hz = rate_hz
        self._codec_key = codec_key
        self._max_recording_s = max_recording_s
        self._lock = threading.Lock()
        self._running: dict[str, Future[Any]] = {}
        self._references: OrderedDict[str, Reference] = OrderedDict()

    def add(self, upload: VoiceUpload) -> Voice:
        """Examine, encode and store. The same upload again answers the stored voice. Raises VoiceRejectedError."""
        _check(upload)
        voice_id = _voice_id(upload)
        return self._once(f"add {voice_id}", lambda: self._store.get(voice_id) or self._add(voice_id, upload))

    def encode_missing(self) -> None:
        """Encode every stored voice that this codec has no codes of, so that no later `reference` has to. A recording
        that is no longer accepted is left alone."""
        for voice in self._store.all():
            with contextlib.suppress(VoiceRejectedError):
                self.reference(voice.id)

    def of(self, owner: str | None) -> tuple[Voice, ...]:
        """The voices that this key may use: its own, then the shared ones."""
        voices = self._store.all()
        own = tuple(voice for voice in voices if owner is not None and voice.owner == owner)
        return own + tuple(voice for voice in voices if voice.owner is None)

    def shared(self) -> tuple[Voice, ...]:
        """The operator's own voices."""
        return self.of(None)

    def find(self, name_or_id: str, owner: str | None) -> Voice | None:
        """The voice that this key means by an id or a name; its own before the shared ones, the newest of a name."""
        voices = self.of(owner)
        by_id = next((voice for voice in voices if voice.id == name_or_id), None)
        own = [voice for voice in voices if voice.name == name_or_id and voice.owner is not None]
        shared = [voice for voice in voices if voice.name == name_or_id and voice.owner is None]
        named = own or shared
        return by_id or (named[-1] if named else None)

    def delete(self, voice_id: str, owner: str | None) -> bool:
        """Purge a voice that this key owns: recording, codes, and what is cached here. False where it owns none."""
        voice = self._store.get(voice_id)
        if voice is None or voice.owner != owner:
            return False
        self._store.delete(voice_id)
        with self._lock:
            self._references.pop(voice_id, None)
        return True

    def reference(self, voice_id: str) -> Reference | None:
        """Codes and transcript of a stored voice; None where it is not (or no longer) there. From memory where it was
        used before; encoded anew where only another codec's codes are there."""
        with self._lock:
            cached = self._references.get(voice_id)
            if cached is not None:
                self._references.move_to_end(voice_id)
                return cached
        return self._once(f"reference {voice_id}", lambda: self._load(voice_id))

    def _add(self, voice_id: str, upload: VoiceUpload) -> Voice:
        recording = self._read(upload.recording)
        codes = self._encode(recording.samples)
        voice = Voice(
            id=voice_id,
            name=upload.name.strip(),
            owner=upload.owner,
            consent=upload.consent.strip(),
            transcript=(upload.transcript or "").strip() or None,
            language=upload.language,
            duration_s=recording.duration_s,
            remarks=recording.remarks,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._store.put(voice, upload.recording, self._codec_key, codes)
        return self._store.get(voice_id) or voice

    def _load(self, voice_id: str) -> Reference | None:
        voice = self._store.get(voice_id)
        if voice is None:
            return None
        codes = self._store.codes(voice_id, self._codec_key)
        if codes is None:
            codes = self._encode(self._read(self._store.recording(voice_id)).samples)
            self._store.put_codes(voice_id, self._codec_key, codes)
        reference = Reference(codes, voice.transcript)
        with self._lock:
            if self._store.get(voice_id) is None:  # deleted meanwhile: do not keep what was purged
                return None
            self._references[voice_id] = reference
            while len(self._references) > MAX_CACHED_REFERENCES:
                self._references.popitem(last=False)
        return reference

    def _read(self, data: bytes) -> Recording:
        return read_recording(data, self._rate_hz, MIN_RECORDING_S, self._max_recording_s)

    def _once(self, what: str, work: Callable[[], Result]) -> Result:
        """Callers that want the same at the same time wait for one that does it, and share its answer or its error."""
        with self._lock:
            running = self._running.get(what)
            future: Future[Result] = running or Future()
            if running is None:
                self._running[what] = future
        if running is None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            finally:
                with self._lock:
                    del self._running[what]
        return future.result()


def _check(upload: VoiceUpload) -> None:
    """Raises VoiceRejectedError with the value and the limit."""
    if not upload.consent.strip():
        raise VoiceRejectedError("say that the speaker consents to being cloned, and how you know (consent is empty)")
    limits = (
        ("name", len(upload.name.strip()), 1, MAX_NAME_CHARS, "characters"),
        ("consent", len(upload.consent), 1, MAX_CONSENT_CHARS, "characters"),
        ("transcript", len(upload.transcript or ""), 0, MAX_TRANSCRIPT_CHARS, "characters"),
        ("recording", len(upload.recording), 1, MAX_RECORDING_BYTES, "bytes"),
    )
    for field, size, least, most, unit in limits:
        if not least <= size <= most:
            raise VoiceRejectedError(f"{field} has {size:,} {unit}; {least:,} to {most:,} are allowed")


def _voice_id(upload: VoiceUpload) -> str:
    digest = blake2b(digest_size=10)
    for part in (upload.owner or "", (upload.transcript or "").strip(), "" if upload.owner is None else "owned"):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    digest.update(upload.recording)
    return f"voice-{digest.hexdigest()}"


def _codes_name(codec_key: str) -> str:
    return f"codes-{codec_key}.npy"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
