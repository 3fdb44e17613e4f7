"""Sharded safetensors into tensors that already exist, memory-mapped, with every name accounted for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import ModelLoadError

INDEX_NAME = "model.safetensors.index.json"
NAMES_IN_MESSAGE = 5
DTYPES = frozenset(("F32", "F16", "BF16"))
"""What a checkpoint's weights may be kept in, as safetensors spells it. Others are quantised, or no weights."""
NAME_CHARS = 80
"""Of a name in a message."""
CHUNK_ELEMENTS = 1 << 24
"""Compared at a time."""

Progress = Callable[[int, int], None]
"""Called with (bytes loaded, bytes in all)."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where one tensor of a checkpoint lies."""

    shard: Path
    shape: tuple[int, ...]
    dtype: str
    """As safetensors spells it: F32, BF16 …"""


class Checkpoint:
    """A folder of safetensors shards. What counts is what the shards hold; an index only says which files they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries: dict[str, TensorEntry] = {}
        for shard in _shards(folder):
            try:
                with safe_open(shard, framework="pt") as file:
                    for name in file.keys():  # noqa: SIM118 (not a mapping)
                        if name in self.entries:
                            raise ModelLoadError(f"{shard}: tensor {name!r} is also in {self.entries[name].shard.name}")
                        tensor = file.get_slice(name)
                        self.entries[name] = TensorEntry(shard, tuple(tensor.get_shape()), str(tensor.get_dtype()))
            except (SafetensorError, OSError) as error:
                raise ModelLoadError(f"{shard} cannot be read as safetensors: {error}") from error

    def read(self, names: Iterable[str]) -> dict[str, Tensor]:
        """A few tensors by name, on the CPU, in the checkpoint's dtype."""
        with _OpenShards() as shards:
            return {name: shards.tensor(self.entries[name].shard, name) for name in names}

    def load(
        self,
        destinations: Mapping[str, Tensor],
        unused: Mapping[str, tuple[int, ...]],
        optional: Mapping[str, tuple[int, ...]],
        on_progress: Progress | None = None,
    ) -> None:
        """Copy every destination's tensor into it, converting dtype and device.

        `unused`: names that must be there and are not needed (with their shapes); `optional`: names that may be there
        and are not needed. Raises ModelLoadError that names what is missing, unexpected, misshapen or of a type that
        is no weight's, before anything is copied, and after it what holds values that are no finite numbers.
        """
        expected = {name: tuple(tensor.shape) for name, tensor in destinations.items()} | dict(unused)
        _refuse("missing", sorted(expected.keys() - self.entries.keys()), self.folder)
        known = expected | dict(optional)
        _refuse("unexpected", sorted(self.entries.keys() - known.keys()), self.folder)
        misshapen = [
            f"{name} is {list(entry.shape)}, not {list(known[name])}"
            for name, entry in sorted(self.entries.items())
            if entry.shape != known[name]
        ]
        _refuse("misshapen", misshapen, self.folder)
        foreign = [
            f"{n} is {self.entries[n].dtype}" for n in sorted(destinations) if self.entries[n].dtype not in DTYPES
        ]
        _refuse(f"not of a type that is supported ({', '.join(sorted(DTYPES))})", foreign, self.folder)
        total = sum(tensor.numel() * tensor.element_size() for tensor in destinations.values())
        done = 0
        sums: dict[str, Tensor] = {}
        with _OpenShards() as shards, torch.no_grad():
            for name in sorted(destinations, key=lambda name: (self.entries[name].shard, name)):
                tensor = destinations[name]
                tensor.copy_(shards.tensor(self.entries[name].shard, name))
                sums[name] = tensor.sum().float()  # no finite number if one of them is none
                done += tensor.numel() * tensor.element_size()
                if on_progress is not None:
                    on_progress(done, total)
        if sums:
            is_finite = torch.stack(list(sums.values())).isfinite().tolist()
            broken = [name for name, is_fine in zip(sums, is_finite, strict=True) if not is_fine]
            _refuse("with values that are no finite numbers", broken, self.folder)

    def is_equal(self, one: str, other: str) -> bool:
        """Whether two tensors of one shape hold the same numbers, read a stretch of rows at a time."""
        first, second = self.entries[one], self.entries[other]
        if first.shape != second.shape:
            return False
        rows = max(1, CHUNK_ELEMENTS // max(1, prod(first.shape[1:])))
        with _OpenShards() as shards:
            files = shards.file(first.shard), shards.file(second.shard)
            slices = [file.get_slice(name) for file, name in zip(files, (one, other), strict=True)]
            for start in range(0, first.shape[0], rows):
                left, right = (part[start : start + rows] for part in slices)
                if not torch.equal(left, right if left.dtype == right.dtype else right.to(left.dtype)):
                    return False
        return True


def checkpoint_folder(checkpoint: str | Path) -> Path:
    """A folder as it is, or that of a repository `owner/name` which the hub's client has or can fetch."""
    try:
        folder = Path(checkpoint).expanduser()
        if folder.is_dir():
            return folder
    except (OSError, RuntimeError, ValueError) as error:  # a name too long, no home, a NUL
        raise ModelLoadError(f"{str(checkpoint)[:NAME_CHARS]!r} is no folder's name: {error}") from error
    if str(checkpoint).count("/") != 1:
        raise ModelLoadError(f"{checkpoint} is no folder, and no repository name of the form owner/name")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ModelLoadError(f"{checkpoint} is no folder; to fetch a repository, install huggingface_hub") from error
    try:
        return Path(snapshot_download(str(checkpoint), allow_patterns=["*.json", "*.safetensors"]))
    except Exception as error:  # the client raises a dozen kinds: network, name, licence not accepted
        raise ModelLoadError(f"{checkpoint} could not be fetched: {error}") from error


class _OpenShards:
    """Shards opened (memory-mapped) once each, closed together."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._files: dict[Path, Any] = {}

    def __enter__(self) -> _OpenShards:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def file(self, shard: Path) -> Any:
        if shard not in self._files:
            self._files[shard] = self._stack.enter_context(safe_open(shard, framework="pt"))
        return self._files[shard]

    def tensor(self, shard: Path, name: str) -> Tensor:
        tensor: Tensor = self.file(shard).get_tensor(name)
        return tensor


def _shards(folder: Path) -> list[Path]:
    index = folder / INDEX_NAME
    shards = [folder / name for name in _indexed(index)] if index.exists() else sorted(folder.glob("*.safetensors"))
    if not shards:
        raise ModelLoadError(f"{folder} holds no *.safetensors file")
    absent = [shard.name for shard in shards if not _is_file(shard)]
    if absent:
        raise ModelLoadError(f"{folder} lacks {len(absent)} of its {len(shards)} shards: {', '.join(absent)}")
    return shards


def _indexed(index: Path) -> list[str]:
    """The shards' names, each once. Raises ModelLoadError where they are none inside the index's folder."""
    try:
        names = list(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except OSError as error:
        raise ModelLoadError(f"{index} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ModelLoadError(f"{index} is no safetensors index: {error}") from error
    for name in names:
        if (
            not isinstance(name, str)
            or not name
            or PurePosixPath(name).is_absolute()
            or ".." in PurePosixPath(name).parts
        ):
            raise ModelLoadError(f"{index} names {str(name)[:NAME_CHARS]!r}, which is no file of its folder")
    return sorted(set(names))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, a NUL
        return False


def _refuse(what: str, names: list[str], folder: Path) -> None:
    if names:
        more = f" and {len(names) - NAMES_IN_MESSAGE} more" if len(names) > NAMES_IN_MESSAGE else ""
        raise ModelLoadError(f"{folder}: {len(names)} tensor(s) {what}: {'; '.join(names[:NAMES_IN_MESSAGE])}{more}")
