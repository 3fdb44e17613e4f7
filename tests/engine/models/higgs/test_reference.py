"""The reference encoder equals transformers' encoder."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")


def wave(samples: int) -> Any:
    time = torch.arange(samples) / 24_000
    noise = torch.randn(samples, generator=torch.Generator().manual_seed(samples))
    return (0.4 * torch.sin(2 * torch.pi * 220 * time) * (1 + torch.sin(2 * torch.pi * 3 * time)) / 2 + 0.05 * noise)[
        None
    ]


@pytest.mark.parametrize(
    ("samples", "frames"),
    [(24_000, 25), (24_001, 25), (25_000, 26), (28_800, 30), (29_759, 31), (48_500, 51), (6_720, 7)],
)
def test_codes_equal_those_of_transformers(parts: Any, higgs_codec: Any, samples: int, frames: int) -> None:
    x = wave(samples).double()  # in float32 a frame that lies between two entries may fall to either
    with torch.inference_mode():
        wanted = copy.deepcopy(higgs_codec).double().encode(x[:, None]).audio_codes.transpose(1, 2)
    found = copy.deepcopy(parts.encoder).double()(x)
    assert found.shape == (1, frames, 8)
    assert len(wanted.unique()) > 50  # the oracle itself is not trivial
    assert torch.equal(found, wanted)


def test_the_semantic_reading_equals_transformers_hidden_state_mean(parts: Any, higgs_codec: Any) -> None:
    low = wave(16_000)
    with torch.inference_mode():
        states = higgs_codec.semantic_model(low, output_hidden_states=True).hidden_states
        found = parts.encoder.semantic_model(low)
    torch.testing.assert_close(found, torch.stack(states).mean(0), rtol=1e-5, atol=1e-5)
