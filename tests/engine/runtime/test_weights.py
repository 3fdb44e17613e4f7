"""Sharded safetensors: what the shards hold counts, and progress is told in bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from safetensors.torch import save_file  # noqa: E402

from engine.errors import ModelLoadError  # noqa: E402
from engine.runtime.weights import INDEX_NAME, Checkpoint  # noqa: E402


def write(folder: Path) -> None:
    save_file({"a": torch.ones(2, 3), "b": torch.arange(4.0)}, str(folder / "one.safetensors"))
    save_file({"c": torch.full((5,), 2.0, dtype=torch.bfloat16)}, str(folder / "two.safetensors"))


def test_tensors_are_copied_into_slices_and_converted(tmp_path: Path) -> None:
    write(tmp_path)
    packed, c = torch.zeros(4, 3), torch.zeros(5, dtype=torch.float32)
    progress: list[tuple[int, int]] = []
    Checkpoint(tmp_path).load({"a": packed[2:], "c": c}, {"b": (4,)}, {}, lambda *done: progress.append(done))
    assert packed.tolist() == [[0] * 3, [0] * 3, [1] * 3, [1] * 3]
    assert c.tolist() == [2.0] * 5
    assert progress == [(24, 44), (44, 44)]


def test_an_index_that_lists_less_than_the_shards_hold_hides_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / INDEX_NAME).write_text(json.dumps({"weight_map": {"a": "one.safetensors", "c": "two.safetensors"}}))
    assert set(Checkpoint(tmp_path).entries) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda folder: None, "no \\*.safetensors"),
        (lambda folder: (folder / "x.safetensors").write_bytes(b"not"), "cannot be read"),
        (lambda folder: (folder / INDEX_NAME).write_text("[]"), "no safetensors index"),
        (
            lambda folder: (folder / INDEX_NAME).write_text('{"weight_map": {"a": "gone.safetensors"}}'),
            "lacks 1 of its 1",
        ),
    ],
)
def test_a_broken_folder_is_refused_in_words(tmp_path: Path, prepare: object, message: str) -> None:
    prepare(tmp_path)  # type: ignore[operator]
    with pytest.raises(ModelLoadError, match=message):
        Checkpoint(tmp_path)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    save_file({"a": torch.ones(2, 3)}, str(tmp_path / "zzz.safetensors"))
    with pytest.raises(ModelLoadError, match="'a' is also in one"):
        Checkpoint(tmp_path)


def test_nothing_is_copied_where_anything_is_wrong(tmp_path: Path) -> None:
    write(tmp_path)
    target = torch.zeros(2, 3)
    with pytest.raises(ModelLoadError, match="unexpected: b; c"):
        Checkpoint(tmp_path).load({"a": target}, {}, {})
    assert not target.any()
