"""Which audio formats and sample rates can be asked for, and the one place that says no."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Final, Literal, get_args

from gateway.errors import ClientError, ErrorCode

FormatName = Literal["pcm_s16le", "pcm_f32le", "mulaw", "alaw", "opus"]

FORMAT_NAMES: Final[tuple[FormatName, ...]] = get_args(FormatName)

PCM_RATES_HZ: Final = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
"""The rates that players, telephony and agent frameworks use. A closed list keeps each resampling ratio's filter table
small; a rate between them is refused with this list in the message."""

FIXED_RATE_HZ: Final[dict[str, int]] = {"mulaw": 8000, "alaw": 8000, "opus": 48000}
"""Formats that imply their rate (G.711; RFC 7587 section 4.1)."""

BYTES_PER_SAMPLE: Final[dict[str, int]] = {"pcm_s16le": 2, "pcm_f32le": 4, "mulaw": 1, "alaw": 1}
"""Opus has none: its frames are packets."""


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """How one utterance's samples leave: mono, `name` as on the native wire, at `sample_rate_hz`."""

    name: FormatName
    sample_rate_hz: int

    @property
    def bytes_per_sample(self) -> int | None:
        """None where a frame is a packet (opus)."""
        return BYTES_PER_SAMPLE.get(self.name)


def is_opus_available() -> bool:
    """Whether the optional Opus encoder (extra `opus`) is installed; it is looked for, not imported."""
    return importlib.util.find_spec("av") is not None


def available_formats() -> tuple[FormatName, ...]:
    """The formats this installation can send, in the order in which they are announced."""
    return tuple(name for name in FORMAT_NAMES if name != "opus" or is_opus_available())


def rates_of(name: FormatName) -> tuple[int, ...]:
    """The rates that a format can be sent at, in hertz."""
    fixed_rate_hz = FIXED_RATE_HZ.get(name)
    return PCM_RATES_HZ if fixed_rate_hz is None else (fixed_rate_hz,)


def resolve_format(
    name: str | None, sample_rate_hz: int | None, *, default_name: str, default_rate_hz: int
) -> AudioFormat:
    """The format that a request gets: `name` and `sample_rate_hz` as asked for, None where the request leaves them out.

    The defaults are the session's: `default_rate_hz` counts only for a format that does not imply its rate.
    Raises ClientError format_unsupported or rate_unsupported, naming the value and what is allowed.
    """
    wanted = default_name if name is None else name
    if wanted not in FORMAT_NAMES:
        raise ClientError(
            ErrorCode.FORMAT_UNSUPPORTED,
            f"format {wanted[:64]!r} is not supported; supported: {', '.join(available_formats())}",
        )
    if wanted == "opus" and not is_opus_available():
        raise ClientError(
            ErrorCode.FORMAT_UNSUPPORTED,
            "format 'opus' needs the server's optional extra: pip install 'antiphon[opus]'; "
            f"supported now: {', '.join(available_formats())}",
        )
    fixed_rate_hz = FIXED_RATE_HZ.get(wanted)
    if fixed_rate_hz is not None:
        if sample_rate_hz not in (None, fixed_rate_hz):
            raise ClientError(
                ErrorCode.RATE_UNSUPPORTED,
                f"sample_rate_hz is {sample_rate_hz}, but format {wanted!r} is always {fixed_rate_hz} Hz",
            )
        return AudioFormat(wanted, fixed_rate_hz)
    rate_hz = default_rate_hz if sample_rate_hz is None else sample_rate_hz
    if rate_hz not in PCM_RATES_HZ:
        allowed = ", ".join(str(rate) for rate in PCM_RATES_HZ)
        raise ClientError(
            ErrorCode.RATE_UNSUPPORTED, f"sample_rate_hz is {rate_hz}; {wanted} can be sent at {allowed} Hz"
        )
    return AudioFormat(wanted, rate_hz)
