"""The codec's decoder equals transformers' and is exact in windows."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from engine.models.higgs.checkpoint_config import read_geometry  # noqa: E402
from engine.models.higgs.codec import CodecDecoder  # noqa: E402
from engine.models.higgs.config import CodecGeometry  # noqa: E402

RELATIVE_TOLERANCE = 1e-4
"""float32 through 30 layers of sines."""
EXACT = 1e-11
"""float64: what differs by rounding only. (The folded table is computed in float64 and kept in float32; here it is
kept in float64.)"""


def codes(frames: int, seed: int = 0, batch: int = 1) -> Any:
    return torch.randint(0, 1024, (batch, frames, 8), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def exact_decoder(parts: Any) -> CodecDecoder:
    decoder = copy.deepcopy(parts.decoder).double()
    decoder.prepare(torch.float64)
    return decoder


@pytest.mark.parametrize("frames", [1, 2, 7, 31])
def test_decode_equals_transformers_in_float64(exact_decoder: CodecDecoder, higgs_codec: Any, frames: int) -> None:
    rows = codes(frames, batch=2)
    with torch.inference_mode():
        wanted = copy.deepcopy(higgs_codec).double().decode(rows.transpose(1, 2)).audio_values[:, 0]
        samples = exact_decoder(rows)
    assert samples.shape == (2, frames * 960)
    assert (samples - wanted).abs().max() < EXACT * wanted.abs().max()


@pytest.mark.parametrize("frames", [1, 2, 7, 31])
def test_decode_equals_transformers(parts: Any, higgs_codec: Any, frames: int) -> None:
    rows = codes(frames, batch=2)
    with torch.inference_mode():
        wanted = higgs_codec.decode(rows.transpose(1, 2)).audio_values[:, 0]
        samples = parts.decoder(rows)
    assert samples.shape == (2, frames * 960)
    assert (samples - wanted).abs().max() < RELATIVE_TOLERANCE * wanted.abs().max()


def test_a_decode_in_a_batch_equals_the_decode_alone(parts: Any) -> None:
    rows = codes(9, batch=3)
    with torch.inference_mode():
        together, alone = parts.decoder(rows), torch.cat([parts.decoder(row[None]) for row in rows])
    assert (together - alone).abs().max() < RELATIVE_TOLERANCE * alone.abs().max()


def test_the_public_codec_reaches_ten_frames() -> None:
    assert CodecGeometry().decoder_reach_frames == 10


def test_the_reach_is_what_gradients_see_and_no_less(exact_decoder: CodecDecoder) -> None:
    reach = 10
    samples = exact_decoder(codes(40))[0]
    middle = samples[20 * 960 : 21 * 960]
    for changed, must_differ in (
        (20 - reach - 1, False),
        (20 + reach + 1, False),
        (20 - reach, True),
        (20 + reach, True),
    ):
        other = codes(40)
        other[0, changed] = (other[0, changed] + 1) % 1024
        difference = (exact_decoder(other)[0][20 * 960 : 21 * 960] - middle).abs().max()
        assert bool(difference > 0) == must_differ


def test_windows_with_the_reach_on_either_side_joined_equal_the_whole_decode(exact_decoder: CodecDecoder) -> None:
    rows, reach = codes(57), 10
    whole = exact_decoder(rows)[0]
    joined, at = [], 0
    for end in (5, 6, 19, 48, 57):
        first, last = max(0, at - reach), min(57, end + reach)
        window = exact_decoder(rows[:, first:last])[0]
        joined.append(window[(at - first) * 960 : (end - first) * 960])
        at = end
    assert (torch.cat(joined) - whole).abs().max() < EXACT * whole.abs().max()


def test_geometry_of_the_tiny_checkpoint_has_the_real_strides(tiny_folder: Any) -> None:
    geometry = read_geometry(tiny_folder).codec
    assert geometry.decoder_strides == CodecGeometry().decoder_strides
    assert (geometry.samples_per_frame, geometry.frames_per_s, geometry.codebooks) == (960, 25.0, 8)
