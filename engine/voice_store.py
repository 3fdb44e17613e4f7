"""Cloned voices on disk: content-addressed, versioned, owned by a key, kept only with consent.

    ROOT/<id>/voice.json            what is known of it (Voice)
    ROOT/<id>/recording             the upload, byte for byte
    ROOT/<id>/codes-<codec>.npy     its codes int16 [T, K], by the codec that made them

A voice's folder appears by one rename and goes by one rename, so no reader ever sees half of one. The id is a digest of
owner, recording and transcript: the same upload twice is one voice, and an id names one content for ever.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.errors import CapacityError, ModelLoadError
from engine.voice_audio import Recording, VoiceRejectedError, read_recording

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
ID_PATTERN = re.compile(r"voice-[0-9a-f]{20}")
MIN_RECORDING_S = 2.0
MAX_RECORDING_BYTES = 10 << 20
MAX_NAME_CHARS = 80
MAX_TRANSCRIPT_CHARS = 2000
MAX_CONSENT_CHARS = 500
MAX_LANGUAGE_CHARS = 35
"""BCP 47, section 4.4.1: what a receiver has to have room for."""
LEFTOVER_AGE_S = 3600.0
"""What an interrupted write left is swept after that long: by then no other process is still writing it."""
GRAVE_PREFIX = ".gone-"
"""Of a deleted voice's folder: whoever finds one finishes its deletion."""

Result = TypeVar("Result")
Codes = NDArray[np.int16]
Encode = Callable[[NDArray[np.float32]], Codes]
"""Mono samples float32 [S] at the codec's rate -> codes int16 [T, K]; may take seconds."""
VoiceProblem = Callable[[int, str | None], str | None]
"""(frames of a recording, its transcript) -> why the model could never speak with such a voice; None = it could."""
Run = Callable[[Callable[[], Codes]], Codes]
"""Carries an encoding out on a thread of its choice, and waits for it."""


class VoiceStoreError(Exception):
    """The disk would not keep, or give up, a voice; the message says what it said."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(f"{what}: {error.strerror or error}")
        self.is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        """There is no room; anything else is a fault of the folder."""


class SpoiltCodesError(Exception):
    """A file of codes does not hold what it should; the message names the file and says what it holds."""


class TooManyVoicesError(Exception):
    """The owner has as many voices as it may have; the message names both numbers."""


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


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Reference:
    """What a family needs to speak with a voice. It lives as long as its voice: what is made of it is kept weakly by
    it, and so goes with a deleted voice."""

    codes: Codes
    transcript: str | None


@dataclass(frozen=True, slots=True)
class CodeFormat:
    """What the codes of one codec look like."""

    codec_key: str
    """Names the codec: another one's codes mean another sound."""
    codebooks: int
    entries: int
    """Codes are below that."""

    def problem(self, codes: Codes) -> str | None:
        """Why an array is no codes of this codec; None where it could be."""
        if codes.dtype != np.int16 or codes.ndim != 2 or codes.shape[1] != self.codebooks or not len(codes):
            return f"{codes.dtype} {list(codes.shape)}, where int16 [frames, {self.codebooks}] is wanted"
        least, most = int(codes.min()), int(codes.max())
        if least < 0 or most >= self.entries:
            return f"codes from {least} to {most}, where 0 to {self.entries - 1} are possible"
        return None


class VoiceStore:
    """The folder. Every method may be called from any thread; none waits for another. Raises ModelLoadError where there
    can be no such folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelLoadError(f"voices cannot be kept in {root}: {error.strerror or error}") from error
        self._finish_deletions()
        for leftover in root.glob(".*-*"):
            with contextlib.suppress(OSError):
                if time.time() - leftover.stat().st_mtime > LEFTOVER_AGE_S:
                    shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    def put(self, voice: Voice, recording: bytes, codec_key: str, codes: Codes) -> None:
        """Store a voice, whole or not at all. One that is there already stays as it is but for these codes; where its
        record cannot be read it makes way. Raises VoiceStoreError."""
        folder: Path | None = None
        try:
            folder = Path(tempfile.mkdtemp(prefix=".new-", dir=self.root))
            (folder / "recording").write_bytes(recording)
            record = json.dumps(asdict(voice), ensure_ascii=False, indent=2) + "\n"
            (folder / "voice.json").write_text(record, encoding="utf-8")
            np.save(folder / _codes_name(codec_key), codes, allow_pickle=False)
            for path in folder.iterdir():
                _sync(path)
            _sync(folder)
            if not self._place(folder, voice.id):
                if self.get(voice.id) is None:
                    self.delete(voice.id)
                    self._place(folder, voice.id)
                else:
                    self.put_codes(voice.id, codec_key, codes)
            _sync(self.root)
        except OSError as error:
            raise VoiceStoreError(f"the voice {voice.id} could not be stored", error) from error
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def _place(self, folder: Path, voice_id: str) -> bool:
        """False where there is a folder of that id already."""
        try:
            os.rename(folder, self.root / voice_id)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            return False
        return True

    def get(self, voice_id: str) -> Voice | None:
        """None where there is none of that id, or its record cannot be read."""
        if not ID_PATTERN.fullmatch(voice_id):
            return None
        try:
            record = json.loads((self.root / voice_id / "voice.json").read_text(encoding="utf-8"))
            voice = Voice(**{**record, "remarks": tuple(record["remarks"])})
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        return voice if voice.id == voice_id and _is_sound(voice) else None

    def all(self) -> tuple[Voice, ...]:
        """Every voice, oldest first."""
        voices = (self.get(path.name) for path in self.root.iterdir())
        return tuple(sorted((v for v in voices if v is not None), key=lambda v: (v.created, v.id)))

    def recording(self, voice_id: str) -> bytes:
        return (self.root / voice_id / "recording").read_bytes()

    def codes(self, voice_id: str, code_format: CodeFormat) -> Codes | None:
        """None where this codec has not encoded the voice yet. Raises SpoiltCodesError where what it left is not
        codes."""
        path = self.root / voice_id / _codes_name(code_format.codec_key)
        try:
            with path.open("rb") as file:
                codes: Codes = np.lib.format.read_array(file, allow_pickle=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError, MemoryError, OverflowError) as error:
            raise SpoiltCodesError(f"{path} cannot be read: {error}") from error
        problem = code_format.problem(codes)
        if problem is not None:
            raise SpoiltCodesError(f"{path} holds {problem}")
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
        """Remove recording, codes and record. Unknown ids are ignored. Raises VoiceStoreError where something stays."""
        if not ID_PATTERN.fullmatch(voice_id):
            return
        try:
            grave = self.root / f"{GRAVE_PREFIX}{secrets.token_hex(8)}"
            with contextlib.suppress(FileNotFoundError):
                os.rename(self.root / voice_id, grave)
                _sync(self.root)
            _remove(grave)
        except OSError as error:
            raise VoiceStoreError(f"the voice {voice_id} could not be deleted", error) from error
        self._finish_deletions()

    def _finish_deletions(self) -> None:
        """What a crash, or a disk that would not, left of deleted voices goes now."""
        for grave in self.root.glob(f"{GRAVE_PREFIX}*"):
            try:
                _remove(grave)
            except OSError as error:
                logger.warning("what is left of a deleted voice, %s, could not be removed: %s", grave, error)


class VoiceLibrary:
    """The store with a model's encoder: what the gateway serves. Thread-safe.

    What every listed voice needs to speak is in memory: `reference` never touches the disk nor waits. `add`, `load` and
    the lists do both, and belong on a worker thread. A voice that the model could not speak with is neither taken nor
    listed: `problem` is asked for each one before it is."""

    def __init__(
        self,
        store: VoiceStore,
        encode: Encode,
        rate_hz: int,
        code_format: CodeFormat,
        max_recording_s: float,
        problem: VoiceProblem,
    ) -> None:
        self._store = store
        self._encode = encode
        self._rate_hz = rate_hz
        self._code_format = code_format
        self._max_recording_s = max_recording_s
        self._problem = problem
        self._unusable: dict[str, str] = {}
        """Stored voices that are not offered, and what has been logged about each."""
        self._run: Run = lambda work: work()
        self._encoding = threading.Lock()
        """One encoding at a time is handed over: between two of them the model's thread gets to its streams."""
        self._lock = threading.Lock()
        self._running: dict[str, Future[Any]] = {}
        self._references: dict[str, Reference] = {}
        self._counting = threading.Lock()
        self._adding: Counter[str | None] = Counter()
        """Voices by owner that are on their way to the store."""

    def encode_on(self, run: Run) -> None:
        """From now on `add` encodes where `run` does it: beside a model that speaks, on that model's own thread."""
        self._run = run

    def load(self) -> None:
        """Take every stored voice into memory, once, at the start and on the model's own thread; what this codec has no
        codes of, or spoilt ones, is encoded. A voice whose recording is no longer accepted or cannot be read, or that
        the model cannot speak with, is left alone."""
        for voice in self._store.all():
            if self.reference(voice.id) is not None:
                continue
            codes = self._stored_codes(voice)
            if codes is None:
                codes = self._encoded_again(voice)
            if codes is not None:
                self._offer(voice, codes)

    def add(self, upload: VoiceUpload, max_voices: int | None = None) -> Voice:
        """Examine, encode and store; the same upload again answers the stored voice. `max_voices`: that its owner may
        have; None = any number. Raises VoiceRejectedError (also where the model could not speak with it),
        TooManyVoicesError (before any encoding), VoiceStoreError, or what the encoder raises."""
        _check(upload)
        voice_id = _voice_id(upload)
        return self._once(voice_id, lambda: self._stored(voice_id) or self._add(voice_id, upload, max_voices))

    def of(self, owner: str | None) -> tuple[Voice, ...]:
        """The voices that this key may use: its own, then the shared ones."""
        voices = [voice for voice in self._store.all() if voice.owner in (owner, None) and self._is_loaded(voice)]
        own = tuple(voice for voice in voices if owner is not None and voice.owner == owner)
        return own + tuple(voice for voice in voices if voice.owner is None)

    def shared(self) -> tuple[Voice, ...]:
        """The operator's own voices."""
        return self.of(None)

    def delete(self, voice_id: str, owner: str | None) -> bool:
        """Purge a voice that this key owns: recording, codes, and what is in memory here. False where it owns none.
        Raises VoiceStoreError."""
        voice = self._store.get(voice_id)
        if voice is None or voice.owner != owner:
            return False
        try:
            self._store.delete(voice_id)
        finally:
            with self._lock:
                self._references.pop(voice_id, None)
                self._unusable.pop(voice_id, None)
        return True

    def reference(self, voice_id: str) -> Reference | None:
        """Codes and transcript of a loaded voice, the same object until it is deleted; None where it is not, or no
        longer, there."""
        with self._lock:
            return self._references.get(voice_id)

    def _stored(self, voice_id: str) -> Voice | None:
        voice = self._store.get(voice_id)
        return voice if voice is not None and self._is_loaded(voice) else None

    def _add(self, voice_id: str, upload: VoiceUpload, max_voices: int | None) -> Voice:
        with self._room(upload.owner, max_voices):
            recording = self._read(upload.recording)
            with self._encoding:
                codes = self._run(lambda: self._encode(recording.samples))
            transcript = (upload.transcript or "").strip() or None
            problem = self._problem(len(codes), transcript)
            if problem is not None:
                raise VoiceRejectedError(problem)
            voice = Voice(
                id=voice_id,
                name=upload.name.strip(),
                owner=upload.owner,
                consent=upload.consent.strip(),
                transcript=transcript,
                language=upload.language,
                duration_s=recording.duration_s,
                remarks=recording.remarks,
                created=datetime.now(UTC).isoformat(timespec="microseconds"),
            )
            self._store.put(voice, upload.recording, self._code_format.codec_key, codes)
            self._keep(voice_id, Reference(codes, voice.transcript))
        return voice

    @contextlib.contextmanager
    def _room(self, owner: str | None, max_voices: int | None) -> Iterator[None]:
        """Hold one of the owner's places. Raises TooManyVoicesError."""
        with self._counting:
            held = self._adding[owner] + sum(voice.owner == owner for voice in self._store.all())
            if max_voices is not None and held >= max_voices:
                raise TooManyVoicesError(f"this key has {held} voices, at most {max_voices}; delete one first")
            self._adding[owner] += 1
        try:
            yield
        finally:
            with self._counting:
                self._adding[owner] -= 1

    def _is_loaded(self, voice: Voice) -> bool:
        """Is it in memory, now at the latest? False where this codec has no codes of it that can be spoken with."""
        if self.reference(voice.id) is not None:
            return True
        codes = self._stored_codes(voice)
        return codes is not None and self._offer(voice, codes)

    def _stored_codes(self, voice: Voice) -> Codes | None:
        """None where this codec has none of it, or they are spoilt."""
        try:
            return self._store.codes(voice.id, self._code_format)
        except SpoiltCodesError as error:
            self._note_unusable(voice.id, str(error))
            return None

    def _encoded_again(self, voice: Voice) -> Codes | None:
        """Codes of its recording, stored. None where there can be none."""
        try:
            codes = self._encode(self._read(self._store.recording(voice.id)).samples)
        except (VoiceRejectedError, CapacityError, OSError) as error:
            self._note_unusable(voice.id, str(error))
            return None
        try:
            self._store.put_codes(voice.id, self._code_format.codec_key, codes)
        except OSError as error:  # it speaks all the same, until the next start
            logger.warning("the codes of voice %s could not be stored: %s", voice.id, error)
        return codes

    def _offer(self, voice: Voice, codes: Codes) -> bool:
        """Take it into memory. False where the model cannot speak with it."""
        problem = self._problem(len(codes), voice.transcript)
        if problem is not None:
            self._note_unusable(voice.id, problem)
            return False
        self._unusable.pop(voice.id, None)
        self._keep(voice.id, Reference(codes, voice.transcript))
        return True

    def _note_unusable(self, voice_id: str, why: str) -> None:
        """Logged once, not whenever voices are listed."""
        if self._unusable.get(voice_id) != why:
            self._unusable[voice_id] = why
            logger.warning("voice %s cannot be used: %s", voice_id, why)

    def _keep(self, voice_id: str, reference: Reference) -> None:
        with self._lock:
            self._references.setdefault(voice_id, reference)
        if self._store.get(voice_id) is None:  # deleted meanwhile: do not keep what was purged
            with self._lock:
                self._references.pop(voice_id, None)

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
        ("language", len(upload.language or ""), 0, MAX_LANGUAGE_CHARS, "characters"),
        ("recording", len(upload.recording), 1, MAX_RECORDING_BYTES, "bytes"),
    )
    for field, size, least, most, unit in limits:
        if not least <= size <= most:
            raise VoiceRejectedError(f"{field} has {size:,} {unit}; {least:,} to {most:,} are allowed")
    if not upload.name.strip().isprintable():
        raise VoiceRejectedError("name holds control characters; only printable ones are allowed")


def _voice_id(upload: VoiceUpload) -> str:
    digest = blake2b(digest_size=10)
    for part in (upload.owner or "", (upload.transcript or "").strip(), "" if upload.owner is None else "owned"):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    digest.update(upload.recording)
    return f"voice-{digest.hexdigest()}"


def _is_sound(voice: Voice) -> bool:
    """A record that was read is what one that was written would be."""
    texts = (voice.name, voice.consent, voice.created, *voice.remarks)
    maybe = (voice.owner, voice.transcript, voice.language)
    return (
        voice.version == FORMAT_VERSION
        and all(isinstance(text, str) for text in texts)
        and all(text is None or isinstance(text, str) for text in maybe)
        and isinstance(voice.duration_s, float)
        and 0 < voice.duration_s < inf
    )


def _codes_name(codec_key: str) -> str:
    return f"codes-{codec_key}.npy"


def _remove(folder: Path) -> None:
    """Remove a folder that others may be removing at the same time, or have removed."""
    while folder.exists():
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
