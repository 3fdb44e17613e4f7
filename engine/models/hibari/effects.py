"""Colours that the voice's own synthesis cannot give: whisper, shout, other voices. By WORLD (extra `[effects]`)."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.models.hibari.config import FRAME_S, SAMPLE_RATE_HZ
from engine.models.hibari.network import Floats
from engine.models.hibari.prosody import Effect

_PERIOD_MS: Final = 5.0
_VOICED_HZ: Final = 40.0
_WHISPER_GAIN: Final = 0.5
_SHOUT_PITCH_RATIO: Final = 2 ** (2 / 12)
_SHOUT_TILT_DB: Final = 8.0
_SHOUT_RISE_HZ: Final = (500.0, 4000.0)
"""The shout's spectrum rises from 0 dB at the first frequency to the whole tilt at the second."""
FADE_SAMPLES: Final = 120
"""5 ms."""
_SILENT_POWER: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Colouring:
    """What WORLD is asked to do to a phrase. `pitch_ratio` and `formant_ratio` multiply frequencies."""

    effect: Effect | None = None
    pitch_ratio: float = 1.0
    formant_ratio: float = 1.0

    @property
    def is_plain(self) -> bool:
        return self.effect is None and self.pitch_ratio == 1.0 and self.formant_ratio == 1.0


def has_world() -> bool:
    """Whether the extra is installed."""
    return importlib.util.find_spec("pyworld") is not None


def colour(samples: Floats, f0_hz: Floats, colouring: Colouring) -> Floats:
    """The same speech, coloured: float32 [S] to float32 [S]. Deterministic.

    `f0_hz`: float32 [S / 300], the pitch of its frames as the net gave it, 0 where unvoiced: nearer the truth than what
    WORLD would find, and cheaper. The whole costs about a twentieth of the speech's duration on one core.
    """
    world: Any = importlib.import_module("pyworld")
    sound = np.ascontiguousarray(samples, np.float64)
    f0, times_s = _sampled(f0_hz, len(samples))
    envelope = world.cheaptrick(sound, f0, times_s, SAMPLE_RATE_HZ)
    ratio, gain = colouring.pitch_ratio, 1.0
    if colouring.effect == "whisper":
        f0, aperiodicity, gain = np.zeros_like(f0), np.ones_like(envelope), _WHISPER_GAIN
    else:
        aperiodicity = world.d4c(sound, f0, times_s, SAMPLE_RATE_HZ)
    if colouring.effect == "shout":
        ratio *= _SHOUT_PITCH_RATIO
        envelope = envelope * _shout_tilt(envelope.shape[1])
    if colouring.formant_ratio != 1.0:
        envelope = _warped(envelope, colouring.formant_ratio)
        aperiodicity = _warped(aperiodicity, colouring.formant_ratio)
    made = world.synthesize(f0 * ratio, np.maximum(envelope, _SILENT_POWER), aperiodicity, SAMPLE_RATE_HZ, _PERIOD_MS)
    result = np.zeros(len(samples), np.float32)
    result[: len(made)] = made[: len(samples)] * gain
    return result


def faded(samples: Floats) -> Floats:
    """In and out, in a straight line over FADE_SAMPLES: what fades out and what fades in at the same time add up."""
    result = samples.copy()
    fade = min(FADE_SAMPLES, len(result) // 2)
    ramp = np.linspace(0, 1, fade, dtype=np.float32)
    result[:fade] *= ramp
    result[len(result) - fade :] *= ramp[::-1]
    return result


def _sampled(f0_hz: Floats, samples: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The pitch at WORLD's instants, and those: float64 [T] each. Linear over voiced frames, 0 in unvoiced ones."""
    count = int(samples / SAMPLE_RATE_HZ / (_PERIOD_MS / 1000)) + 1
    times_s = np.arange(count, dtype=np.float64) * (_PERIOD_MS / 1000)
    places = times_s / FRAME_S
    is_voiced = f0_hz > _VOICED_HZ
    if not is_voiced.any():
        return np.zeros(len(times_s)), times_s
    voiced = np.flatnonzero(is_voiced)
    nearest = np.clip(np.rint(places).astype(np.int64), 0, len(f0_hz) - 1)
    pitch = np.interp(places, voiced, f0_hz[voiced].astype(np.float64))
    return np.where(is_voiced[nearest], pitch, 0.0), times_s


def _warped(frames: NDArray[np.float64], ratio: float) -> NDArray[np.float64]:
    """Spectra [T, bins] with every frequency multiplied by `ratio`."""
    bins = np.arange(frames.shape[1])
    source = np.minimum(bins / ratio, bins[-1])
    left = np.floor(source).astype(np.int64)
    right = np.minimum(left + 1, bins[-1])
    weight = source - left
    return np.ascontiguousarray(frames[:, left] * (1 - weight) + frames[:, right] * weight)


def _shout_tilt(bins: int) -> NDArray[np.float64]:
    """Power gain [bins]."""
    hz = np.linspace(0, SAMPLE_RATE_HZ / 2, bins)
    low, high = np.log2(_SHOUT_RISE_HZ)
    rise = np.clip((np.log2(np.maximum(hz, 1.0)) - low) / (high - low), 0.0, 1.0)
    gain: NDArray[np.float64] = 10 ** (_SHOUT_TILT_DB * rise / 10)
    return gain
