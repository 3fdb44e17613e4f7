"""What Cartesia's clients ask for, in our words: formats, voices, settings. For its WebSocket and its HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.audio.containers import Container, check_container
from gateway.audio.formats import resolve_format
from gateway.dialects.base import ServerFacts
from gateway.dialects.json_fields import Fields
from gateway.dialects.remarks import Speed, ignored_speed, speed_within_reach
from gateway.errors import ClientError, ErrorCode, WarningCode
from gateway.events import Remark, UtteranceOptions

ENCODINGS: Final = {"pcm_s16le": "pcm_s16le", "pcm_f32le": "pcm_f32le", "pcm_mulaw": "mulaw", "pcm_alaw": "alaw"}
CONTAINERS: Final[dict[str, Container | None]] = {"raw": None, "wav": "wav", "mp3": "mp3"}
VOLUME_RANGE: Final = (0.0, 4.0)
SPEED_WORDS: Final = {"slowest": 0.6, "slow": 0.8, "normal": 1.0, "fast": 1.2, "fastest": 1.5}
DEFAULT_RATE_HZ: Final = 24000


@dataclass(frozen=True, slots=True)
class GenerationOrder:
    """`opening_tags` stand before the first text: volume and emotion, which hold to the utterance's end."""

    options: UtteranceOptions
    container: Container | None
    opening_tags: str
    has_words: bool
    remarks: tuple[Remark, ...]


def read_generation(fields: Fields, server: ServerFacts, *, is_raw_only: bool) -> GenerationOrder:
    """The settings of a generation request. Raises ClientError."""
    output = fields.fields("output_format")
    container_name = output.text("container") or "raw"
    if container_name not in CONTAINERS or (is_raw_only and container_name != "raw"):
        wanted = "'raw'" if is_raw_only else "raw, wav or mp3"
        raise ClientError(
            ErrorCode.FORMAT_UNSUPPORTED, f"output_format.container is {container_name!r:.40}, must be {wanted}"
        )
    container = CONTAINERS[container_name]
    encoding = output.text("encoding") or "pcm_s16le"
    if container is None and encoding not in ENCODINGS:
        raise ClientError(
            ErrorCode.FORMAT_UNSUPPORTED,
            f"output_format.encoding {encoding!r:.40} is not supported; supported: {', '.join(ENCODINGS)}",
        )
    rate_hz = output.integer("sample_rate")
    audio_format = resolve_format(
        ENCODINGS[encoding] if container is None else "pcm_s16le",
        rate_hz,
        default_name="pcm_s16le",
        default_rate_hz=DEFAULT_RATE_HZ,
    )
    if container is not None:
        check_container(container, audio_format.sample_rate_hz)
    named = server.names.voice(_voice_name(fields), server.model)
    config = fields.fields("generation_config")
    speed = _speed(fields, config)
    remarks = [named.remark, server.names.model(fields.text("model_id"), server.model), speed.remark]
    if fields.has("pronunciation_dict_id"):
        remarks.append(
            Remark(
                WarningCode.PARAMETER_IGNORED,
                "pronunciation dictionaries of the vendor are not known here; use a lexicon (docs/tags.md)",
                detail="pronunciation_dict_id",
            )
        )
    return GenerationOrder(
        UtteranceOptions(
            voice=named.value,
            format=audio_format.name,
            sample_rate_hz=audio_format.sample_rate_hz,
            speed=speed.value,
            language=fields.text("language"),
        ),
        container,
        _opening_tags(config),
        fields.flag("add_timestamps"),
        tuple(remark for remark in remarks if remark is not None),
    )


def _voice_name(fields: Fields) -> str | None:
    """`{mode, id}`, `{id}` or a bare string; an embedding names no voice."""
    voice = fields.raw("voice")
    return fields.fields("voice").text("id") if isinstance(voice, dict) else fields.text("voice")


def _speed(fields: Fields, config: Fields) -> Speed:
    holder = config if config.has("speed") else fields
    word = holder.raw("speed")
    if not isinstance(word, str):
        return speed_within_reach(holder.number("speed"))
    return Speed(SPEED_WORDS[word]) if word in SPEED_WORDS else ignored_speed(word)


def _opening_tags(config: Fields) -> str:
    volume, moods = config.number("volume"), config.raw("emotion")
    emotion = moods[0] if isinstance(moods, list) and moods else moods
    tags = ""
    if volume is not None and volume != 1.0:
        low, high = VOLUME_RANGE
        tags += f'<volume ratio="{min(high, max(low, volume)):g}"/>'
    if (
        isinstance(emotion, str)
        and emotion.isascii()
        and emotion.replace("-", "").replace("_", "").replace(" ", "").isalpha()
    ):
        tags += f"<|emotion:{emotion.lower()}|>"
    return tags
