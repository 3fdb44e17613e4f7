"""Voices on disk: whole or not there, owned, with consent, encoded once, gone when deleted."""

from __future__ import annotations

import errno
import io
import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.errors import ModelLoadError
from engine.voice_audio import VoiceRejectedError
from engine.voice_store import (
    CodeFormat,
    Encode,
    TooManyVoicesError,
    VoiceLibrary,
    VoiceProblem,
    VoiceStore,
    VoiceStoreError,
    VoiceUpload,
)
from tests.engine.test_voice_audio import packed, speech

RECORDING = packed(speech())


class CountingEncoder:
    """One code per 960 samples; counts calls, and waits at the gate if there is one."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate: threading.Event | None = None
        self.entered = threading.Event()

    def __call__(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        self.calls += 1
        self.entered.set()
        if self.gate is not None:
            assert self.gate.wait(10)
        return np.arange(len(samples) // 960 * 8, dtype=np.int16).reshape(-1, 8) % 1024


@pytest.fixture
def encoder() -> CountingEncoder:
    return CountingEncoder()


def no_problem(frames: int, transcript: str | None) -> str | None:
    return None


def library_at(
    folder: Path, encode: Encode, codec: str = "codec-a", problem: VoiceProblem = no_problem
) -> VoiceLibrary:
    return VoiceLibrary(VoiceStore(folder), encode, 24_000, CodeFormat(codec, 8, 1024), 30.0, problem)


@pytest.fixture
def library(tmp_path: Path, encoder: CountingEncoder) -> VoiceLibrary:
    return library_at(tmp_path / "voices", encoder)


def upload(owner: str | None = "key-1", name: str = "Ada", recording: bytes = RECORDING) -> VoiceUpload:
    return VoiceUpload(recording, name, owner, "I am the speaker.", "Hello there.", "en")


def test_a_voice_is_stored_whole_and_read_back(library: VoiceLibrary, tmp_path: Path) -> None:
    voice = library.add(upload())
    assert voice.name == "Ada"
    assert voice.consent == "I am the speaker."
    assert voice.duration_s == pytest.approx(4.0)
    again = VoiceStore(tmp_path / "voices")
    assert again.all() == (voice,)
    assert again.recording(voice.id) == RECORDING
    reference = library.reference(voice.id)
    assert reference is not None
    assert (reference.codes.shape, reference.transcript) == ((100, 8), "Hello there.")


def test_the_same_upload_twice_is_one_voice_encoded_once(library: VoiceLibrary, encoder: CountingEncoder) -> None:
    assert library.add(upload()) == library.add(upload())
    assert encoder.calls == 1


def test_an_id_names_one_content(library: VoiceLibrary) -> None:
    other = packed(speech(5.0))
    variants = (
        upload(), upload(owner="key-2"), upload(owner=None), upload(recording=other),
        replace(upload(), transcript="Another."), upload(owner=""),
    )  # fmt: skip
    assert len({library.add(variant).id for variant in variants}) == len(variants)


def test_callers_that_want_the_same_voice_at_once_wait_for_one_encoding(
    library: VoiceLibrary, encoder: CountingEncoder
) -> None:
    encoder.gate = threading.Event()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(library.add(upload()).id)) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert encoder.entered.wait(10)
    encoder.gate.set()
    for thread in threads:
        thread.join(20)
    assert len(found) == 4
    assert len(set(found)) == 1
    assert encoder.calls == 1


def test_an_encoding_that_fails_fails_those_who_waited_and_can_be_tried_again(tmp_path: Path) -> None:
    attempts: list[int] = []

    def encode(samples: NDArray[np.float32]) -> NDArray[np.int16]:
        attempts.append(1)
        if len(attempts) == 1:
            raise MemoryError("no room")
        return np.zeros((5, 8), np.int16)

    library = library_at(tmp_path, encode)
    with pytest.raises(MemoryError):
        library.add(upload())
    assert library.of("key-1") == ()
    assert library.add(upload()).name == "Ada"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"consent": "  "}, "consent is empty"),
        ({"name": ""}, "name has 0 characters; 1 to 80"),
        ({"name": "x" * 81}, "name has 81 characters"),
        ({"name": "a\nb"}, "name holds control characters"),
        ({"language": "e" * 36}, "language has 36 characters"),
        ({"transcript": "x" * 2001}, "transcript has 2,001"),
        ({"recording": b"x" * (10 * 2**20 + 1)}, "recording has 10,485,761 bytes"),
        ({"recording": b"no audio"}, "not audio"),
    ],
)
def test_what_is_not_fit_leaves_no_trace(
    library: VoiceLibrary, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(VoiceRejectedError, match=message):
        library.add(replace(upload(), **change))  # type: ignore[arg-type]
    assert list((tmp_path / "voices").iterdir()) == []


def test_a_key_sees_its_own_voices_and_the_shared_ones(library: VoiceLibrary) -> None:
    shared, mine, theirs = (library.add(upload(owner, name="Ada")) for owner in (None, "key-1", "key-2"))
    assert library.of("key-1") == (mine, shared)
    assert library.of("key-3") == (shared,)
    assert library.shared() == (shared,)
    assert library.of("key-2") == (theirs, shared)


def test_only_its_owner_can_delete_a_voice(library: VoiceLibrary) -> None:
    voice = library.add(upload())
    assert not library.delete(voice.id, "key-2")
    assert not library.delete(voice.id, None)
    assert library.delete(voice.id, "key-1")
    assert not library.delete(voice.id, "key-1")


def test_a_deleted_voice_is_gone_from_disk_and_memory(library: VoiceLibrary, tmp_path: Path) -> None:
    voice = library.add(upload())
    assert library.reference(voice.id) is not None
    library.delete(voice.id, "key-1")
    assert library.reference(voice.id) is None
    assert list((tmp_path / "voices").iterdir()) == []


def test_another_codec_encodes_a_stored_voice_once_more(library: VoiceLibrary, tmp_path: Path) -> None:
    voice = library.add(upload())
    encoder = CountingEncoder()
    for _ in range(2):
        other = library_at(tmp_path / "voices", encoder, "codec-b")
        assert other.reference(voice.id) is None
        other.load()
        assert other.reference(voice.id) is not None
    assert encoder.calls == 1
    assert {path.name for path in (tmp_path / "voices" / voice.id).iterdir()} == {
        "voice.json", "recording", "codes-codec-a.npy", "codes-codec-b.npy",
    }  # fmt: skip


def test_a_recording_that_is_no_longer_accepted_is_left_alone_and_not_listed(
    library: VoiceLibrary, tmp_path: Path
) -> None:
    voice = library.add(upload())
    broken = library.add(upload(owner="key-2"))
    (tmp_path / "voices" / broken.id / "recording").write_bytes(b"no audio")
    encoder = CountingEncoder()
    other = library_at(tmp_path / "voices", encoder, "codec-b")
    other.load()
    assert encoder.calls == 1
    assert other.of("key-1") == (voice,)
    assert other.of("key-2") == ()


def test_a_voice_that_another_process_stored_is_there_once_it_is_listed(library: VoiceLibrary, tmp_path: Path) -> None:
    other = library_at(tmp_path / "voices", CountingEncoder())
    voice = library.add(upload())
    assert other.reference(voice.id) is None
    assert other.of("key-1") == (voice,)
    assert other.reference(voice.id) is not None


def test_a_reference_is_answered_without_the_disk(library: VoiceLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    voice = library.add(upload())
    monkeypatch.setattr(VoiceStore, "get", None)
    monkeypatch.setattr(VoiceStore, "codes", None)
    assert library.reference(voice.id) is library.reference(voice.id) is not None


def test_encodings_run_where_they_are_told_to_one_at_a_time(library: VoiceLibrary, encoder: CountingEncoder) -> None:
    running: list[str] = []
    most = 0

    def run(work: Callable[[], NDArray[np.int16]]) -> NDArray[np.int16]:
        nonlocal most
        running.append(threading.current_thread().name)
        most = max(most, len(running))
        codes = work()
        running.pop()
        return codes

    library.encode_on(run)
    uploads = [upload(name="Ada", recording=packed(speech(seconds))) for seconds in (3.0, 4.0, 5.0)]
    threads = [threading.Thread(target=library.add, args=(one,)) for one in uploads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (encoder.calls, most) == (3, 1)


def test_an_owner_has_no_more_voices_than_it_may_and_nothing_is_encoded_for_more(
    library: VoiceLibrary, encoder: CountingEncoder
) -> None:
    first = library.add(upload(), max_voices=1)
    library.add(upload(owner="key-2"), max_voices=1)
    assert library.add(upload(), max_voices=1) == first  # the same again is no more
    calls = encoder.calls
    with pytest.raises(TooManyVoicesError, match="has 1 voices, at most 1"):
        library.add(upload(recording=packed(speech(5.0))), max_voices=1)
    assert encoder.calls == calls
    library.delete(first.id, "key-1")
    library.add(upload(recording=packed(speech(5.0))), max_voices=1)


def test_voices_on_their_way_count_as_voices(library: VoiceLibrary, encoder: CountingEncoder) -> None:
    encoder.gate = threading.Event()
    first = threading.Thread(target=library.add, args=(upload(), 1))
    first.start()
    assert encoder.entered.wait(10)
    with pytest.raises(TooManyVoicesError):
        library.add(upload(recording=packed(speech(5.0))), max_voices=1)
    encoder.gate.set()
    first.join(20)
    assert len(library.of("key-1")) == 1


@pytest.mark.parametrize(("number", "is_full"), [(errno.ENOSPC, True), (errno.EACCES, False), (errno.EROFS, False)])
def test_a_voice_that_the_disk_does_not_take_is_an_error_and_leaves_no_trace(
    library: VoiceLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_full: bool
) -> None:
    def refuse(source: object, target: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr("engine.voice_store.os.rename", refuse)
        with pytest.raises(VoiceStoreError, match=os.strerror(number)) as caught:
            library.add(upload())
    assert caught.value.is_full is is_full
    assert list((tmp_path / "voices").iterdir()) == []
    assert library.of("key-1") == ()
    assert library.add(upload()).name == "Ada"


def test_a_broken_record_makes_way_for_the_same_upload(library: VoiceLibrary, tmp_path: Path) -> None:
    voice = library.add(upload())
    (tmp_path / "voices" / voice.id / "voice.json").write_text("{")
    again = library.add(upload())
    assert again.id == voice.id
    assert library.of("key-1") == (again,)


def test_what_cannot_be_purged_is_said(library: VoiceLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    voice = library.add(upload())

    def refuse(folder: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("engine.voice_store.shutil.rmtree", refuse)
    with pytest.raises(VoiceStoreError, match="could not be deleted: Permission denied"):
        library.delete(voice.id, "key-1")
    assert library.reference(voice.id) is None


def test_of_two_uploads_in_one_second_the_later_is_the_newer(library: VoiceLibrary) -> None:
    added = [library.add(upload(recording=packed(speech(seconds)))) for seconds in (3.0, 4.0, 5.0, 6.0)]
    assert list(library.of("key-1")) == added


@pytest.mark.parametrize("name", ["../../etc", "voice-", "voice-" + "g" * 20, "", "voice-../../../../x", "default"])
def test_what_is_no_id_reaches_no_path(library: VoiceLibrary, name: str) -> None:
    assert library.reference(name) is None
    assert not library.delete(name, None)


NO_RECORDS: tuple[Any, ...] = (
    "", "[]", "{}", "[" * 100_000, {"version": 99}, {"id": "voice-" + "0" * 20}, {"another": 1},
    *({field: value} for field in ("name", "consent", "created") for value in (None, 5, True, ["x"], {})),
    *({field: value} for field in ("owner", "transcript", "language") for value in (5, True, ["x"], {})),
    *({"remarks": value} for value in (None, 5, [None], [1])),
    *({"duration_s": value} for value in (None, "4.0", True, -1.0, 0.0, float("nan"), float("inf"))),
)  # fmt: skip


@pytest.mark.parametrize("change", NO_RECORDS, ids=lambda change: repr(change)[:40])
def test_a_record_that_is_not_as_written_is_no_voice_and_harms_no_other(
    library: VoiceLibrary, tmp_path: Path, change: Any
) -> None:
    voice, other = library.add(upload()), library.add(upload(recording=packed(speech(5.0))))
    path = tmp_path / "voices" / voice.id / "voice.json"
    path.write_text(change if isinstance(change, str) else json.dumps(json.loads(path.read_text()) | change))
    assert library.of("key-1") == (other,)
    assert library_at(tmp_path / "voices", CountingEncoder()).of("key-1") == (other,)


def test_what_an_interrupted_write_left_is_swept_at_the_next_start(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    (tmp_path / ".new-abc").mkdir()
    (tmp_path / ".new-abc" / "recording").write_bytes(b"x")
    (tmp_path / ".codes-abc").write_bytes(b"x")
    (tmp_path / ".new-now").mkdir()
    for name in (".new-abc", ".codes-abc"):
        os.utime(tmp_path / name, (0, 0))
    assert store.all() == ()
    VoiceStore(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".new-now"]  # another process may be writing it


# --- what is left of deleted voices, and what is spoilt ------------------------------------------------------------


def leave_graves(root: Path) -> None:
    """As crashes in mid-deletion leave them, now and in earlier releases, and a disk that keeps a file."""
    for name in (".gone-0a1b", ".gone-old/voice-00000000000000000000"):
        (root / name).mkdir(parents=True)
        (root / name / "recording").write_bytes(b"secret")
    (root / ".gone-empty").mkdir()


def graves(root: Path) -> list[str]:
    return [path.name for path in root.glob(".gone-*")]


def test_what_was_deleted_goes_at_the_next_start_however_new_it_is(tmp_path: Path) -> None:
    leave_graves(tmp_path)
    VoiceStore(tmp_path)
    assert graves(tmp_path) == []


def test_what_was_deleted_goes_with_the_next_deletion(library: VoiceLibrary, tmp_path: Path) -> None:
    voice = library.add(upload())
    leave_graves(tmp_path / "voices")
    library.delete(voice.id, "key-1")
    assert list((tmp_path / "voices").iterdir()) == []


def test_a_deletion_that_failed_half_way_is_finished_by_the_next(
    library: VoiceLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = library.add(upload()), library.add(upload(owner="key-2"))

    def refuse(folder: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("engine.voice_store.shutil.rmtree", refuse)
        with pytest.raises(VoiceStoreError):
            library.delete(first.id, "key-1")
        VoiceStore(tmp_path / "voices")  # a start that cannot finish it either says so and goes on
    assert len(graves(tmp_path / "voices")) == 1
    library.delete(second.id, "key-2")
    assert list((tmp_path / "voices").iterdir()) == []


def test_deletions_at_once_leave_nothing_and_harm_no_other_voice(library: VoiceLibrary, tmp_path: Path) -> None:
    voices = [library.add(upload(owner=f"key-{number}")) for number in range(8)]
    failures: list[BaseException] = []

    def delete(number: int) -> None:
        try:
            assert library.delete(voices[number].id, f"key-{number}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=delete, args=(number,)) for number in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failures == []
    assert [path.name for path in (tmp_path / "voices").iterdir()] == [voices[7].id]


def array_bytes(array: NDArray[np.generic]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=array.dtype == object)
    return file.getvalue()


SPOILT: dict[str, bytes] = {
    "other codebooks": array_bytes(np.zeros((50, 4), np.int16)),
    "beyond the entries": array_bytes(np.full((50, 8), 1024, np.int16)),
    "below zero": array_bytes(np.full((50, 8), -1, np.int16)),
    "no frames": array_bytes(np.zeros((0, 8), np.int16)),
    "another type": array_bytes(np.zeros((50, 8), np.float32)),
    "another shape": array_bytes(np.zeros((50, 8, 1), np.int16)),
    "objects": array_bytes(np.array([[None] * 8], dtype=object)),
    "cut off": array_bytes(np.zeros((50, 8), np.int16))[:-9],
    "empty": b"",
    "no array": b"not an array",
    "an archive": b"PK\x03\x04" + b"x" * 60,
    "more than there is": array_bytes(np.zeros((50, 8), np.int16)).replace(b"(50, 8)", b"(99, 8)"),
    "a huge shape": array_bytes(np.zeros((50, 8), np.int16)).replace(b"(50, 8), }", b"(9999999999999, 8), }"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_spoilt_codes_are_not_offered_are_named_once_and_made_again(
    library: VoiceLibrary, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    voice, other = library.add(upload()), library.add(upload(recording=packed(speech(5.0))))
    path = tmp_path / "voices" / voice.id / "codes-codec-a.npy"
    path.write_bytes(SPOILT[kind])
    again = library_at(tmp_path / "voices", CountingEncoder())
    assert again.of("key-1") == again.of("key-1") == (other,)
    assert again.reference(voice.id) is None
    assert sum(str(path) in message for message in caplog.messages) == 1
    again.load()
    assert again.of("key-1") == (voice, other)
    assert library_at(tmp_path / "voices", CountingEncoder()).of("key-1") == (voice, other), "on the disk too"


def test_the_same_upload_again_mends_spoilt_codes(library: VoiceLibrary, tmp_path: Path) -> None:
    voice = library.add(upload())
    (tmp_path / "voices" / voice.id / "codes-codec-a.npy").write_bytes(b"")
    assert library_at(tmp_path / "voices", CountingEncoder()).add(upload()).id == voice.id
    assert [one.id for one in library_at(tmp_path / "voices", CountingEncoder()).of("key-1")] == [voice.id]


# --- a voice that could never speak -----------------------------------------------------------------------------------


def too_long(frames: int, transcript: str | None) -> str | None:
    return f"{frames} frames and {transcript!r} are too much" if frames > 100 else None


def test_a_voice_that_could_never_speak_is_refused_in_words_and_leaves_no_trace(tmp_path: Path) -> None:
    library = library_at(tmp_path, CountingEncoder(), problem=too_long)
    assert library.add(upload()).duration_s == pytest.approx(4.0)
    with pytest.raises(VoiceRejectedError, match=r"125 frames and 'Hello there\.' are too much"):
        library.add(upload(recording=packed(speech(5.0))))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_stored_voice_that_can_no_longer_speak_is_neither_offered_nor_encoded_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fine, long = (library_at(tmp_path, CountingEncoder()).add(upload(recording=packed(speech(s)))) for s in (4.0, 5.0))
    encoder = CountingEncoder()
    library = library_at(tmp_path, encoder, problem=too_long)
    library.load()
    assert library.of("key-1") == library.of("key-1") == (fine,)
    assert library.reference(long.id) is None
    assert encoder.calls == 0
    assert [message for message in caplog.messages if long.id in message] == [
        f"voice {long.id} cannot be used: 125 frames and 'Hello there.' are too much"
    ]
    with pytest.raises(VoiceRejectedError, match="too much"):
        library.add(upload(recording=packed(speech(5.0))))
    assert library.delete(long.id, "key-1")


def test_where_no_folder_can_be_there_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ModelLoadError, match=r"voices cannot be kept in .*file/voices: Not a directory"):
        VoiceStore(tmp_path / "file" / "voices")
