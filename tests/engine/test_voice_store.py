"""Voices on disk: whole or not there, owned, with consent, encoded once, gone when deleted."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.voice_audio import VoiceRejectedError
from engine.voice_store import VoiceLibrary, VoiceStore, VoiceUpload
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
    assert library.find("Ada", "key-1") == mine
    assert library.find("Ada", "key-3") == shared
    assert library.find(theirs.id, "key-1") is None
    assert library.find(shared.id, "key-1") == shared
    assert library.find("Bob", "key-1") is None


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
        assert other.reference(voice.id) is not None
    assert encoder.calls == 1
    assert {path.name for path in (tmp_path / "voices" / voice.id).iterdir()} == {
        "voice.json", "recording", "codes-codec-a.npy", "codes-codec-b.npy",
    }  # fmt: skip


def test_voices_of_another_codec_can_all_be_encoded_beforehand(library: VoiceLibrary, tmp_path: Path) -> None:
    voice = library.add(upload())
    broken = library.add(upload(owner="key-2"))
    (tmp_path / "voices" / broken.id / "recording").write_bytes(b"no audio")
    encoder = CountingEncoder()
    other = VoiceLibrary(VoiceStore(tmp_path / "voices"), encoder, 24_000, "codec-b", 30.0)
    other.encode_missing()
    assert encoder.calls == 1
    assert other.reference(voice.id) is not None
    assert encoder.calls == 1


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
