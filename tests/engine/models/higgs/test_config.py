"""What the scheduler learns of a model: from geometry and settings alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")
from engine.models.higgs.config import (
    BackboneGeometry,
    CodecGeometry,
    HiggsGeometry,
    HiggsSettings,
    model_spec,
    text_cadence,
)

GEOMETRY = HiggsGeometry(
    BackboneGeometry(151_936, 2560, 9728, 36, 32, 8, 128, 1e6, 1e-6, 32_768), CodecGeometry(), 1026, True
)
SETTINGS = HiggsSettings(max_sequences=10, max_context_tokens=4096, max_block_rows=2048)


def test_frames_and_windows_are_those_of_the_public_codec() -> None:
    spec = model_spec(GEOMETRY, SETTINGS)
    assert (spec.sample_rate_hz, spec.samples_per_frame, spec.codebooks, spec.frame_s) == (24_000, 960, 8, 0.04)
    assert spec.left_context_frames == spec.right_context_frames == GEOMETRY.codec.decoder_reach_frames == 10
    assert (GEOMETRY.begin_code, GEOMETRY.end_code) == (1024, 1025)


def test_there_are_pages_for_every_sequence_unless_a_number_is_given() -> None:
    assert model_spec(GEOMETRY, SETTINGS).page_count == 10 * 4096 // 16
    assert model_spec(GEOMETRY, replace(SETTINGS, kv_tokens=640)).page_count == 40
    assert model_spec(GEOMETRY, SETTINGS).max_positions == 4096


def test_streamed_text_keeps_no_history_and_its_blocks_leave_room_for_a_voice() -> None:
    streaming = replace(SETTINGS, is_token_streaming=True)
    spec = model_spec(GEOMETRY, streaming)
    assert (spec.history_blocks, model_spec(GEOMETRY, SETTINGS).history_blocks) == (0, 4)
    cadence = spec.text_cadence
    assert cadence is not None
    assert (cadence.first_rows, cadence.rows_per_token, cadence.max_waits) == (11, 4, 64)
    assert cadence.max_rows + cadence.text_positions(cadence.max_tokens) < 0.5 * 4096
    assert cadence.max_tokens * cadence.rows_per_token < cadence.max_rows / 2, "half of it is left for what lags behind"


@pytest.mark.parametrize("context_tokens", [512, 2048, 4096, 8192])
def test_a_streamed_block_never_has_more_rows_than_any_block(context_tokens: int) -> None:
    assert text_cadence(GEOMETRY, SETTINGS) is None
    settings = replace(SETTINGS, is_token_streaming=True, max_context_tokens=context_tokens, max_block_rows=600)
    cadence = text_cadence(GEOMETRY, settings)
    assert cadence is not None
    assert cadence.max_rows <= 600


def test_a_cpu_decodes_fewer_frames_at_once() -> None:
    assert HiggsSettings(device="cpu").max_codec_batch_frames == 200
    assert HiggsSettings(device="cuda:0").max_codec_batch_frames == 16 * 50
