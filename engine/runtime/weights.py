"""Sharded safetensors into tensors that already exist, memory-mapped, with every name accounted for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import ModelLoadError

INDEX_NAME = "model.safetensors.index.json"
NAMES_IN_MESSAGE = 5

Progress = Callable[[int, int], None]
"""Called with (bytes loaded, bytes in all)."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where one tensor of a checkpoint lies."""

    shard: Path
    shape: tuple[int, ...]


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
                        self.entries[name] = TensorEntry(shard, tuple(file.get_slice(name).get_shape()))
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
        and are not needed. Raises ModelLoadError that names what is missing, unexpected or misshapen, before anything
        is copied.
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
        total = sum(tensor.numel() * tensor.element_size() for tensor in destinations.values())
        done = 0
        with _OpenShards() as shards, torch.no_grad():
            for name in sorted(destinations, key=lambda name: (self.entries[name].shard, name)):
                tensor = destinations[name]
                tensor.copy_(shards.tensor(self.entries[name].shard, name))
                done += tensor.numel() * tensor.element_size()
                if on_progress is not None:
                    on_progress(done, total)


def checkpoint_folder(checkpoint: str | Path) -> Path:
    """A folder as it is, or that of a repository `owner/name` which the hub's client has or can fetch."""
    folder = Path(checkpoint).expanduser()
    if folder.is_dir():
        return folder
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

    def tensor(self, shard: Path, name: str) -> Tensor:
        if shard not in self._files:
            self._files[shard] = self._stack.enter_context(safe_open(shard, framework="pt"))
        tensor: Tensor = self._files[shard].get_tensor(name)
        return tensor


def _shards(folder: Path) -> list[Path]:
    index = folder / INDEX_NAME
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise ModelLoadError(f"{index} is no safetensors index: {error}") from error
        shards = [folder / name for name in names]
    else:
        shards = sorted(folder.glob("*.safetensors"))
    if not shards:
        raise ModelLoadError(f"{folder} holds no *.safetensors file")
    absent = [shard.name for shard in shards if not shard.is_file()]
    if absent:
        raise ModelLoadError(f"{folder} lacks {len(absent)} of its {len(shards)} shards: {', '.join(absent)}")
    return shards


def _refuse(what: str, names: list[str], folder: Path) -> None:
    if names:
        more = f" and {len(names) - NAMES_IN_MESSAGE} more" if len(names) > NAMES_IN_MESSAGE else ""
        raise ModelLoadError(f"{folder}: {len(names)} tensor(s) {what}: {'; '.join(names[:NAMES_IN_MESSAGE])}{more}")
