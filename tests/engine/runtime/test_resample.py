"""The resampler equals its definition, sample by sample."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from engine.runtime.resample import resample  # noqa: E402


@pytest.mark.parametrize(("from_hz", "to_hz"), [(24_000, 16_000), (16_000, 24_000), (44_100, 48_000), (8_000, 24_000)])
@pytest.mark.parametrize("length", [1, 17, 1823])
def test_equals_the_windowed_sinc_one_sample_at_a_time(from_hz: int, to_hz: int, length: int) -> None:
    stand_in = str(Path(__file__).parents[2] / "fakes" / "torchaudio_stand_in")
    if "torchaudio" not in sys.modules:
        sys.path.insert(0, stand_in)
    import torchaudio

    x = torch.randn(2, length, dtype=torch.float64, generator=torch.Generator().manual_seed(length))
    torch.testing.assert_close(
        resample(x, from_hz, to_hz), torchaudio.functional.resample(x, from_hz, to_hz), rtol=1e-9, atol=1e-9
    )


def test_a_tone_keeps_its_frequency_and_level() -> None:
    time = np.arange(24_000) / 24_000
    tone = torch.from_numpy(np.sin(2 * np.pi * 1000 * time))
    found = resample(tone, 24_000, 16_000).numpy()[1000:-1000]
    wanted = np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000)[1000:-1000]
    assert np.abs(found - wanted).max() < 2e-3


def test_equal_rates_change_nothing() -> None:
    x = torch.randn(5)
    assert resample(x, 24_000, 24_000) is x
