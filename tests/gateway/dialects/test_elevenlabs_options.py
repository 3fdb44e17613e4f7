"""ElevenLabs' output formats and voice settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.elevenlabs_options import OutputFormat, read_options, read_output_format
from gateway.dialects.json_fields import Fields
from gateway.errors import ClientError, ErrorCode
from tests.fakes.talk import MODEL
from tests.fakes.vendor_talk import facts


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("pcm_16000", OutputFormat("pcm_s16le", 16000, None)),
        ("ulaw_8000", OutputFormat("mulaw", 8000, None)),
        ("alaw_8000", OutputFormat("alaw", 8000, None)),
        ("mp3_22050_32", OutputFormat("pcm_s16le", 22050, "mp3")),
        ("opus_48000_96", OutputFormat("pcm_s16le", 48000, "ogg_opus")),
        ("wav_24000", OutputFormat("pcm_s16le", 24000, "wav")),
        (None, OutputFormat("pcm_s16le", 44100, "mp3")),
    ],
)
def test_formats(name: str | None, output: OutputFormat) -> None:
    assert read_output_format(name) == output


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("flac_44100", ErrorCode.FORMAT_UNSUPPORTED),
        ("pcm_", ErrorCode.FORMAT_UNSUPPORTED),
        ("pcm_9", ErrorCode.RATE_UNSUPPORTED),
        ("ulaw_16000", ErrorCode.RATE_UNSUPPORTED),
        ("opus_44100_64", ErrorCode.RATE_UNSUPPORTED),
    ],
)
def test_what_cannot_be_had_is_refused(name: str, code: ErrorCode) -> None:
    with pytest.raises(ClientError) as refused:
        read_output_format(name)
    assert refused.value.code is code


def test_settings_are_used_as_far_as_they_mean_something() -> None:
    output = read_output_format("pcm_24000")
    settings = Fields({"speed": 0.1, "stability": 0.4, "style": 1, "use_speaker_boost": True})
    options, remark = read_options(output, "bass", "de", 7, settings, facts())
    assert remark is not None
    assert remark.message == "voice_settings.speed is 0.1, voices here can do 0.5 to 2: 0.5 is used"
    assert (options.voice, options.language, options.seed, options.speed) == ("bass", "de", 7, 0.5)
    assert options.sampling.temperature is None  # this model does not sample
    assert read_options(output, None, "", None, Fields({}), facts())[0].language is None


@pytest.mark.parametrize(("stability", "temperature"), [(None, None), (0.5, None), (1, 0.5), (0, 1.1), (7, 0.5)])
def test_stability_is_a_temperature_where_the_family_samples(
    stability: float | None, temperature: float | None
) -> None:
    model = replace(MODEL, parameters=frozenset({"temperature"}))
    settings = Fields({"stability": stability})
    server = facts(read_model=lambda: model)
    options, _ = read_options(read_output_format("pcm_24000"), None, None, None, settings, server)
    assert options.sampling.temperature == (None if temperature is None else pytest.approx(temperature))
