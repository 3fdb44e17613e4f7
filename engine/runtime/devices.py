"""A device by its name, for people who mistype it or lack it."""

from __future__ import annotations

import re

import torch

from engine.errors import ModelLoadError

_CUDA = re.compile(r"cuda(?::(0|[1-9][0-9]{0,3}))?")


def usable_device(name: str) -> torch.device:
    """Raises ModelLoadError where it is no device that models run on, or is not there."""
    if name == "cpu":
        return torch.device(name)
    cuda = _CUDA.fullmatch(name)
    if cuda is None:
        raise ModelLoadError(f"{name!r} is no device that can be used; there are: 'cpu', 'cuda', 'cuda:0', 'cuda:1' …")
    if not torch.cuda.is_available():
        lack = "torch was built without CUDA" if torch.version.cuda is None else "torch finds no NVIDIA GPU or driver"
        raise ModelLoadError(f"device {name!r} cannot be used: {lack}")
    count = torch.cuda.device_count()
    if int(cuda[1] or 0) >= count:
        raise ModelLoadError(f"device {name!r} is not there: this machine has {count}, from 'cuda:0' on")
    return torch.device(name)
