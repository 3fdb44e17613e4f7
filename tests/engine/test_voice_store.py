"""Voices on disk: whole or not there, owned, with consent, encoded once, gone when deleted."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.voice_audio import VoiceRejectedError
from engine.voice_store import TooManyVoicesError, VoiceLibrary, VoiceStore, VoiceStoreError, VoiceUpload
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


@pytest.fixture
def library(tmp_path: Path, encoder: CountingEncoder) -> VoiceLibrary:
    return VoiceLibrary(VoiceStore(tmp_path / "voices"), encoder, 24_000, "codec-a", 30.0)


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

    library = VoiceLibrary(VoiceStore(tmp_path), encode, 24_000, "c", 30.0)
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
        other = VoiceLibrary(VoiceStore(tmp_path / "voices"), encoder, 24_000, "codec-b", 30.0)
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
    other = VoiceLibrary(VoiceStore(tmp_path / "voices"), encoder, 24_000, "codec-b", 30.0)
    other.load()
    assert encoder.calls == 1
    assert other.of("key-1") == (voice,)
    assert other.of("key-2") == ()


def test_a_voice_that_another_process_stored_is_there_once_it_is_listed(library: VoiceLibrary, tmp_path: Path) -> None:
    other = VoiceLibrary(VoiceStore(tmp_path / "voices"), CountingEncoder(), 24_000, "codec-a", 30.0)
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


@pytest.mark.parametrize("record", ["", "{}", "[]", json.dumps({"version": 99})])
def test_a_record_that_cannot_be_read_is_no_voice(library: VoiceLibrary, tmp_path: Path, record: str) -> None:
    voice = library.add(upload())
    (tmp_path / "voices" / voice.id / "voice.json").write_text(record)
    assert library.of("key-1") == ()


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
