"""Cartesia's generation settings."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.cartesia_options import GenerationOrder, read_generation
from gateway.dialects.json_fields import Fields
from gateway.errors import ClientError
from tests.fakes.vendor_talk import facts


def order(*, is_raw_only: bool = False, **fields: Any) -> GenerationOrder:
    return read_generation(Fields(fields), facts(), is_raw_only=is_raw_only)


@pytest.mark.parametrize(
    ("output", "format_name", "container"),
    [
        ({}, "pcm_s16le", None),
        ({"container": "raw", "encoding": "pcm_f32le", "sample_rate": 44100}, "pcm_f32le", None),
        ({"container": "wav", "encoding": "pcm_f32le", "sample_rate": 24000}, "pcm_s16le", "wav"),
        ({"container": "mp3", "sample_rate": 44100, "bit_rate": 128000}, "pcm_s16le", "mp3"),
    ],
)
def test_output_formats(output: dict[str, Any], format_name: str, container: str | None) -> None:
    read = order(output_format=output)
    assert (read.options.format, read.container) == (format_name, container)


def test_a_websocket_is_raw_only() -> None:
    with pytest.raises(ClientError, match="must be 'raw'"):
        order(is_raw_only=True, output_format={"container": "wav"})


@pytest.mark.parametrize(
    ("fields", "speed"),
    [
        ({"generation_config": {"speed": 1.3}}, 1.3),
        ({"generation_config": {"speed": 9}}, 2.0),
        ({"speed": "slow"}, 0.8),
        ({"speed": 0.7}, 0.7),
        ({"speed": "warp"}, None),
        ({}, None),
    ],
)
def test_speed_is_a_number_or_a_word(fields: dict[str, Any], speed: float | None) -> None:
    assert order(**fields).options.speed == speed


@pytest.mark.parametrize(
    ("config", "tags"),
    [
        ({"volume": 0.5}, '<volume ratio="0.5"/>'),
        ({"volume": 1}, ""),
        ({"emotion": "Excited"}, "<|emotion:excited|>"),
        ({"emotion": ["sad", "x"]}, "<|emotion:sad|>"),
        ({"emotion": "<script>"}, ""),
        ({"emotion": []}, ""),
    ],
)
def test_volume_and_emotion_become_tags(config: dict[str, Any], tags: str) -> None:
    assert order(generation_config=config).opening_tags == tags
