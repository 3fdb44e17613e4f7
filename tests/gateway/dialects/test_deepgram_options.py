"""What a Deepgram URL asks for."""

from __future__ import annotations

import pytest

from gateway.dialects.deepgram_options import read_query, read_speed
from gateway.errors import ClientError
from tests.fakes.vendor_talk import facts


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, ("pcm_s16le", 24000, None)),
        ({"encoding": "linear16", "sample_rate": "48000"}, ("pcm_s16le", 48000, None)),
        ({"encoding": "mulaw"}, ("mulaw", 8000, None)),
        ({"encoding": "alaw", "sample_rate": ""}, ("alaw", 8000, None)),
    ],
)
def test_a_websocket_is_raw(query: dict[str, str], wanted: tuple[str, int, None]) -> None:
    order = read_query(query, facts(), is_file_allowed=False)
    assert (order.options.format, order.options.sample_rate_hz, order.container) == wanted


@pytest.mark.parametrize(
    ("query", "container"),
    [
        ({}, "mp3"),
        ({"encoding": "linear16"}, "wav"),
        ({"encoding": "linear16", "container": "none"}, None),
        ({"encoding": "opus"}, "ogg_opus"),
        ({"encoding": "flac"}, "flac"),
        ({"encoding": "mulaw"}, None),
    ],
)
def test_http_has_files_with_the_vendors_defaults(query: dict[str, str], container: str | None) -> None:
    assert read_query(query, facts(), is_file_allowed=True).container == container


def test_the_model_is_the_voice() -> None:
    assert read_query({"model": "bass"}, facts(), is_file_allowed=False).options.voice == "bass"
    assert read_query({"model": "aura"}, facts(), is_file_allowed=False).remarks[0].detail == "aura"


@pytest.mark.parametrize(("value", "speed"), [(None, None), ("", None), ("1.2", 1.2), ("0.1", 0.5), (9.0, 2.0)])
def test_speed_is_brought_into_what_a_voice_can_do(value: str | float | None, speed: float | None) -> None:
    assert read_speed(value).value == speed


@pytest.mark.parametrize("value", ["fast", "nan", "-1", "0", "1e999"])
def test_a_speed_that_is_no_number_above_zero_is_refused(value: str) -> None:
    with pytest.raises(ClientError, match="must be a number above 0"):
        read_speed(value)
