"""Sharded safetensors: what the shards hold counts, and progress is told in bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from safetensors.torch import save_file  # noqa: E402

from engine.errors import ModelLoadError  # noqa: E402
from engine.runtime.weights import INDEX_NAME, Checkpoint, checkpoint_folder  # noqa: E402


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


def index_of(text: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / INDEX_NAME).write_bytes(text)


def named(name: object) -> Callable[[Path], object]:
    return index_of(json.dumps({"weight_map": {"a": name}}).encode())


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda folder: None, r"no \*.safetensors"),
    "no safetensors": (lambda folder: (folder / "x.safetensors").write_bytes(b"not"), "cannot be read"),
    "a pointer": (lambda folder: (folder / "x.safetensors").write_bytes(b"version https://git-lfs"), "cannot be read"),
    "a list": (index_of(b"[]"), "no safetensors index"),
    "no map": (index_of(b"{}"), "no safetensors index"),
    "no UTF-8": (index_of(b"\xff"), "no safetensors index"),
    "too deep": (index_of(b"[" * 100_000), "no safetensors index"),
    "a folder": (lambda folder: (folder / INDEX_NAME).mkdir(), "cannot be read: Is a directory"),
    "gone": (named("gone.safetensors"), "lacks 1 of its 1"),
    "itself": (named("."), "lacks 1 of its 1"),
    "a name too long": (named("x" * 5000), "lacks 1 of its 1"),
    "a NUL": (named("a\0b"), "lacks 1 of its 1"),
    "half a character": (named("\ud800"), "lacks 1 of its 1"),
    "a number": (named(5), "names '5', which is no file of its folder"),
    "null": (named(None), "no file of its folder"),
    "no name": (named(""), "no file of its folder"),
    "the folder above": (named("../x.safetensors"), "no file of its folder"),
    "far away": (named("/etc/x.safetensors"), "no file of its folder"),
    "roundabout": (named("sub/../../x.safetensors"), "no file of its folder"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_folder_is_refused_in_words(tmp_path: Path, kind: str) -> None:
    prepare, message = BROKEN[kind]
    prepare(tmp_path)
    with pytest.raises(ModelLoadError, match=message):
        Checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["~nobody-of-that-name/x", "a\0b", "x" * 5000, "/nowhere/at/all", "no name"])
def test_what_is_no_folder_and_no_repository_is_refused(name: str) -> None:
    with pytest.raises(ModelLoadError, match="no folder"):
        checkpoint_folder(name)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_weights_of_floating_point_load(tmp_path: Path, dtype: str) -> None:
    save_file({"a": torch.tensor([0.5, -2.0]).to(getattr(torch, dtype))}, str(tmp_path / "x.safetensors"))
    target = torch.zeros(2)
    Checkpoint(tmp_path).load({"a": target}, {}, {})
    assert target.tolist() == [0.5, -2.0]


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "bool", "float8_e4m3fn", "float8_e5m2", "float64"])
def test_weights_of_another_type_are_named_and_nothing_is_copied(tmp_path: Path, dtype: str) -> None:
    one = torch.ones(2).to(getattr(torch, dtype))
    save_file({"a": one, "b": torch.ones(2), "c": one.clone()}, str(tmp_path / "x.safetensors"))
    b = torch.zeros(2)
    with pytest.raises(ModelLoadError, match=r"2 tensor\(s\) not of a type .*BF16, F16, F32\): a is \w+; c is \w+$"):
        Checkpoint(tmp_path).load({"a": torch.zeros(2), "b": b, "c": torch.zeros(2)}, {}, {})
    assert not b.any()
    Checkpoint(tmp_path).load({"b": b}, {"a": (2,)}, {"c": (2,)})  # what is not needed may be anything


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_that_are_no_finite_numbers_are_named(tmp_path: Path, value: float, dtype: str) -> None:
    bad = torch.ones(40, 50)
    bad[7, 3] = value
    save_file({"a": torch.ones(3), "b": bad, "c": -bad}, str(tmp_path / "x.safetensors"))
    kind = getattr(torch, dtype)
    destinations = {"a": torch.zeros(3), "b": torch.zeros(50, 40, dtype=kind).t(), "c": torch.zeros(40, 50)}
    with pytest.raises(ModelLoadError, match=r"2 tensor\(s\) with values that are no finite numbers: b; c"):
        Checkpoint(tmp_path).load(destinations, {}, {})


def test_tensors_are_compared_row_by_row_whatever_they_are_kept_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.runtime.weights.CHUNK_ELEMENTS", 12)
    one = torch.arange(35.0).view(7, 5)
    other = one.clone()
    other[6, 4] += 1
    tensors = {"one": one, "half": one.bfloat16(), "other": other, "long": torch.zeros(8, 5)}
    save_file(tensors, str(tmp_path / "x.safetensors"))
    save_file({"same": one}, str(tmp_path / "y.safetensors"))
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.is_equal("one", "same")
    assert checkpoint.is_equal("one", "half")
    assert not checkpoint.is_equal("one", "other")
    assert not checkpoint.is_equal("one", "long")


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
