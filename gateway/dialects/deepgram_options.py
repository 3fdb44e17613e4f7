"""What a Deepgram URL asks for, in our words. For its WebSockets and its HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.audio.containers import Container, check_container
from gateway.audio.formats import resolve_format
from gateway.dialects.base import ServerFacts
from gateway.dialects.json_fields import Fields
from gateway.dialects.remarks import Speed, speed_within_reach
from gateway.errors import ClientError, ErrorCode
from gateway.events import Remark, UtteranceOptions

ENCODINGS: Final = {"linear16": "pcm_s16le", "mulaw": "mulaw", "alaw": "alaw"}
FILES: Final[dict[str, Container]] = {"mp3": "mp3", "opus": "ogg_opus", "flac": "flac", "aac": "aac"}
FILE_RATES_HZ: Final = {"mp3": 22050, "ogg_opus": 48000, "flac": 48000, "aac": 22050, "wav": 24000}
DEFAULT_RATE_HZ: Final = 24000


@dataclass(frozen=True, slots=True)
class SpeakOrder:
    """`voice_name`: as the client put it; `options` has what it means now."""

    voice_name: str | None
    options: UtteranceOptions
    container: Container | None
    remarks: tuple[Remark, ...]


def read_query(query: Mapping[str, str], server: ServerFacts, *, is_file_allowed: bool) -> SpeakOrder:
    """Model (which is the voice), encoding, sample rate, speed. Raises ClientError; unknown parameters are ignored."""
    fields = Fields(query)
    encoding = query.get("encoding") or ("mp3" if is_file_allowed else "linear16")
    container: Container | None = FILES.get(encoding) if is_file_allowed else None
    if container is None and encoding not in ENCODINGS:
        supported = ", ".join([*ENCODINGS, *(FILES if is_file_allowed else ())])
        raise ClientError(
            ErrorCode.FORMAT_UNSUPPORTED, f"encoding {encoding!r:.40} is not supported; supported: {supported}"
        )
    if is_file_allowed and encoding == "linear16" and query.get("container", "wav") == "wav":
        container = "wav"
    default_rate_hz = DEFAULT_RATE_HZ if container is None else FILE_RATES_HZ[container]
    audio_format = resolve_format(
        "pcm_s16le" if container is not None else ENCODINGS[encoding],
        fields.integer("sample_rate") if query.get("sample_rate") else None,
        default_name="pcm_s16le",
        default_rate_hz=default_rate_hz,
    )
    if container is not None:
        check_container(container, audio_format.sample_rate_hz)
    voice_name = query.get("model")
    named = server.names.voice(voice_name, server.model)
    speed = read_speed(query.get("speed"))
    return SpeakOrder(
        voice_name,
        UtteranceOptions(
            voice=named.value,
            format=audio_format.name,
            sample_rate_hz=audio_format.sample_rate_hz,
            speed=speed.value,
        ),
        container,
        tuple(remark for remark in (named.remark, speed.remark) if remark is not None),
    )


def read_speed(value: str | float | None) -> Speed:
    """Brought into the range that a voice can be asked for. Raises ClientError where it is no number."""
    if value is None or value == "":
        return Speed()
    try:
        speed = float(value)
    except ValueError:
        speed = float("nan")
    if not 0.0 < speed < 100.0:
        raise ClientError(ErrorCode.BAD_VALUE, f"speed is {value!r:.40}, must be a number above 0")
    return speed_within_reach(speed)
