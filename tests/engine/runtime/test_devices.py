"""A device that cannot be used is refused by name, whatever is written."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from engine.errors import ModelLoadError  # noqa: E402
from engine.runtime.devices import usable_device  # noqa: E402


@pytest.mark.parametrize(
    "name", ["", "foo", "mps", "meta", "xpu", "cpu:0", "cpu:1", "CPU", "cuda:", "cuda:-1", "cuda:01", "cuda:x", "cuda0"]
)
def test_what_is_no_device_that_models_run_on_is_refused(name: str) -> None:
    with pytest.raises(ModelLoadError, match=f"'{name}' is no device that can be used; there are: 'cpu'"):
        usable_device(name)


def test_the_processor_is_always_there() -> None:
    assert usable_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(("count", "name", "is_there"), [(1, "cuda", True), (2, "cuda:1", True), (2, "cuda:2", False)])
def test_a_graphics_card_is_used_where_there_are_so_many(
    monkeypatch: pytest.MonkeyPatch, count: int, name: str, is_there: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    if is_there:
        assert usable_device(name) == torch.device(name)
    else:
        with pytest.raises(ModelLoadError, match="'cuda:2' is not there: this machine has 2"):
            usable_device(name)


@pytest.mark.parametrize(("version", "why"), [(None, "built without CUDA"), ("12.8", "no NVIDIA GPU or driver")])
def test_why_there_is_no_graphics_card_is_said(monkeypatch: pytest.MonkeyPatch, version: str | None, why: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", version)
    with pytest.raises(ModelLoadError, match=f"device 'cuda:3' cannot be used: .*{why}"):
        usable_device("cuda:3")
