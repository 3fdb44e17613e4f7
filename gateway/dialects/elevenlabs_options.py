"""What ElevenLabs clients ask for, in our words: output formats and voice settings. For its WebSockets and its HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.speech import Sampling
from gateway.audio.containers import Container, check_container
from gateway.audio.formats import resolve_format
from gateway.dialects.base import ServerFacts
from gateway.dialects.json_fields import Fields
from gateway.dialects.remarks import speed_within_reach
from gateway.errors import ClientError, ErrorCode
from gateway.events import Remark, UtteranceOptions

DEFAULT_OUTPUT_FORMAT: Final = "mp3_44100_128"
NEUTRAL_TEMPERATURE: Final = 0.8
"""What a stability of 0.5 stands for: the usual temperature of the families that sample."""
CONTAINERS: Final[dict[str, Container]] = {"mp3": "mp3", "opus": "ogg_opus", "wav": "wav"}
RAW_FORMATS: Final = {"pcm": "pcm_s16le", "ulaw": "mulaw", "alaw": "alaw"}


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """What the session sends (`format`, `sample_rate_hz`), and the container that the dialect puts it in, if any."""

    format: str
    sample_rate_hz: int
    container: Container | None


def read_output_format(name: str | None) -> OutputFormat:
    """`codec_rate[_kbits]`. Raises ClientError format_unsupported or rate_unsupported."""
    wanted = name or DEFAULT_OUTPUT_FORMAT
    codec, _, rest = wanted.partition("_")
    rate = rest.partition("_")[0]
    if (codec not in CONTAINERS and codec not in RAW_FORMATS) or not (rate.isascii() and rate.isdigit()):
        raise ClientError(
            ErrorCode.FORMAT_UNSUPPORTED,
            f"output_format {wanted!r:.40} is not supported; supported: "
            "pcm_RATE, ulaw_8000, alaw_8000, mp3_RATE_KBITS, opus_48000_KBITS, wav_RATE",
        )
    container = CONTAINERS.get(codec)
    audio_format = resolve_format(
        RAW_FORMATS.get(codec, "pcm_s16le"), int(rate[:9]), default_name="pcm_s16le", default_rate_hz=24000
    )
    if container is not None:
        check_container(container, audio_format.sample_rate_hz)
    return OutputFormat(audio_format.name, audio_format.sample_rate_hz, container)


def read_options(
    output: OutputFormat,
    voice: str | None,
    language: str | None,
    seed: int | None,
    voice_settings: Fields,
    server: ServerFacts,
) -> tuple[UtteranceOptions, Remark | None]:
    """The options, and what there is to say about them. `speed` is ours, `stability` a temperature where the family
    samples; similarity, style and boost have no counterpart and are ignored."""
    speed = speed_within_reach(voice_settings.number("speed"), "voice_settings.speed")
    sampling = Sampling()
    if "temperature" in server.model.parameters:
        sampling = Sampling(temperature=_temperature(voice_settings.number("stability")))
    options = UtteranceOptions(
        voice=voice,
        format=output.format,
        sample_rate_hz=output.sample_rate_hz,
        speed=speed.value,
        seed=seed if "seed" in server.model.parameters else None,
        language=language or None,
        sampling=sampling,
    )
    return options, speed.remark


def _temperature(stability: float | None) -> float | None:
    """0.5, the vendor's default, leaves it to the family; a full step either way is 0.6 of temperature."""
    if stability is None or stability == 0.5:
        return None
    return NEUTRAL_TEMPERATURE + 0.6 * (0.5 - min(1.0, max(0.0, stability)))
