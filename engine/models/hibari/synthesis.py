"""Spectral frames to samples, in windows that joined equal the whole.

A frame is centred on the first sample of its 300; its window spans 1200. So the 300 samples of frame k are the
overlap-add of the spectra k-1 … k+2. Nothing depends on where a window falls: the pulse phase at each frame's start is
known beforehand, and the noise of a frame is drawn by its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.models.hibari import config
from engine.models.hibari.network import Acoustics, Floats

Spectra = NDArray[np.complex64]
"""complex64 [frames, 601]."""

N_FFT: Final = 1200
BINS: Final = N_FFT // 2 + 1
HOP: Final = config.FRAME_SAMPLES
LEFT_FRAMES: Final = 1
RIGHT_FRAMES: Final = 2
"""Spectra needed before the first and after the last frame of a window."""

VOICING_HZ: Final = 40.0
_HARMONIC_LIMIT_HZ: Final = 11_000.0
_MAX_LOG_MAGNITUDE: Final = 7.0
_BREATH_RISE_HZ: Final = (1500.0, 4000.0)
_HANN: Final = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)).astype(np.float32)
_ANALYSIS: Final = _HANN / np.float32(N_FFT / 4)  # a unit cosine then peaks at magnitude 1
_SYNTHESIS: Final = _HANN / np.float32(1.5)  # squared Hann windows at a quarter's hop sum to 1.5
_WEIGHT: Final = (((np.arange(HOP) + 0.5) / HOP - 0.5) % 1.0).astype(np.float32)  # between neighbouring frames' centres
_NOISE_PERIOD: Final = 1 << 16
_NOISE_TABLE_SEED: Final = 0x5EED


def _noise_table() -> Spectra:
    """Complex Gaussian noise, unit variance a component, of which each frame takes a stretch chosen by its number."""
    pairs = np.random.Generator(np.random.Philox(_NOISE_TABLE_SEED)).standard_normal(
        2 * (_NOISE_PERIOD + BINS), dtype=np.float32
    )
    table: Spectra = pairs.view(np.complex64)
    return table


class NoiseSource:
    """Noise by number: the same (key, frame) always gives the same 601 values, in any order of asking."""

    def __init__(self) -> None:
        self._table = _noise_table()

    def __call__(self, key: int, start: int, end: int) -> Spectra:
        """complex64 [601, end - start] for frames [start, end) of the stream `key`."""
        mixed = _mix64(np.arange(start, end, dtype=np.int64).astype(np.uint64) + np.uint64(key & 0xFFFF_FFFF_FFFF_FFFF))
        offsets = (mixed & np.uint64(_NOISE_PERIOD - 1)).astype(np.int64)
        noise: Spectra = self._table[offsets[None, :] + np.arange(BINS)[:, None]]
        return noise


def _mix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014), elementwise; products wrap."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def noise_key(seed: int, *place: int) -> int:
    """A 64-bit stream key from a seed and the place (segment, phrase) it is for."""
    key = np.zeros(1, np.uint64)
    for part in (seed, *place):
        key = _mix64((key ^ np.asarray([part & 0xFFFF_FFFF_FFFF_FFFF], np.uint64)) + np.uint64(0x9E3779B97F4A7C15))
    return int(key[0])


@dataclass(frozen=True, slots=True)
class FrameEdits:
    """Changes to a phrase's frames before they become sound."""

    f0_hz: Floats
    """float32 [F]."""
    gain: Floats
    """float32 [F], linear."""
    tilt_db: Floats
    """float32 [F]: gain at 12 kHz in dB, rising from 0 dB at 500 Hz with the logarithm of frequency."""
    breath: Floats
    """float32 [F]: noise in voiced frames, as prosody.Delivery has it."""
    moves_harmonics: bool = False
    """The pitch goes so far from the net's that its harmonics need the envelope between those of the net."""


class SpectrumSource(Protocol):
    def spectra(self, start: int, end: int) -> Spectra:
        """complex64 [end - start, 601]."""
        ...


class PhraseSpectra:
    """The frames of one call of the net, edited; spectra for any range of them."""

    def __init__(
        self, acoustics: Acoustics, edits: FrameEdits, noise: NoiseSource, key: int, phase: float = 0.0
    ) -> None:
        """`phase`: of the pulse train at frame 0, in cycles."""
        self._acoustics = acoustics
        self._edits = edits
        self._noise = noise
        self._key = key
        self._is_tilted = bool(np.any(edits.tilt_db))
        self._is_breathy = bool(np.any(edits.breath))
        padded = np.pad(edits.f0_hz, 1, mode="edge")
        self._f0 = padded
        sums = _pitch(padded, 0, self.count).clip(VOICING_HZ).sum(axis=1, dtype=np.float64)
        self._phase = np.concatenate(([0.0], np.cumsum(sums))) / config.SAMPLE_RATE_HZ + phase

    @property
    def count(self) -> int:
        """F, the frames there are."""
        return len(self._edits.f0_hz)

    @property
    def f0_hz(self) -> Floats:
        """float32 [F], as edited."""
        return self._edits.f0_hz

    def phase_at(self, frame: int) -> float:
        """Phase of the pulse train at the start of `frame`, in cycles."""
        return float(self._phase[frame])

    def shift_phase(self, cycles: float) -> None:
        """Move the pulse train, so that it continues another phrase's. Before any spectrum is asked for."""
        self._phase = self._phase + cycles

    def spectra(self, start: int, end: int) -> Spectra:
        acoustics, frames = self._acoustics, slice(start, end)
        lh, theta = acoustics.lh[:, frames], acoustics.theta[:, frames]
        smooth, still = lh, theta
        if self._edits.moves_harmonics or self._is_breathy:
            smooth, still = _envelope(lh, theta, acoustics.f0[frames])
        if self._edits.moves_harmonics:
            lh, theta = smooth, still
        spectrum = self._pulse_spectra(start, end)
        spectrum *= _polar(np.minimum(lh, _MAX_LOG_MAGNITUDE), np.float32(np.pi) * np.tanh(theta))
        noise = self._noise(self._key, start, end)
        magnitude = np.exp(np.minimum(acoustics.ln[:, frames], _MAX_LOG_MAGNITUDE))
        if self._is_breathy:
            magnitude += _breath(smooth, acoustics.f0[frames], self._edits.breath[frames])
        noise *= magnitude
        spectrum += noise
        spectrum += _polar(np.minimum(acoustics.lr[:, frames], _MAX_LOG_MAGNITUDE), acoustics.phi[:, frames])
        if self._is_tilted:
            spectrum *= 10 ** (_TILT_SHAPE[:, None] * (self._edits.tilt_db[None, frames] / 20))
        spectrum *= self._edits.gain[None, frames]
        return np.ascontiguousarray(spectrum.T)

    def _pulse_spectra(self, start: int, end: int) -> Spectra:
        """Short-time spectra of the pulse train, complex64 [601, end - start]."""
        first, last = max(start - 2, 0), min(end + 1, self.count)
        train = _pulses(_pitch(self._f0, first, last), self._phase[first:last])
        padded = np.zeros((end + 1 - (start - 2), HOP), np.float32)
        padded[first - (start - 2) : last - (start - 2)] = train
        windows = np.lib.stride_tricks.sliding_window_view(padded.reshape(-1), N_FFT)[::HOP]
        return np.ascontiguousarray(np.fft.rfft(windows * _ANALYSIS, axis=1).T.astype(np.complex64))


class StoredSpectra:
    """Spectra kept as they are: the seam between two blocks."""

    def __init__(self, spectra: Spectra) -> None:
        self._spectra = spectra

    def spectra(self, start: int, end: int) -> Spectra:
        return self._spectra[start:end]


def _breath(lh: Floats, f0: Floats, ratio: Floats) -> Floats:
    """Magnitude of the noise that is `ratio` as strong as the harmonics of envelope `lh` at high frequencies, nothing
    in unvoiced frames: float32 [601, n]. After the overlap-add a harmonic of magnitude 1 is three times the power of
    one bin of such noise, and there is one in f0 / 20 bins."""
    share = np.sqrt(3.0 * config.SAMPLE_RATE_HZ / N_FFT / np.maximum(f0, VOICING_HZ)) * ratio * (f0 > VOICING_HZ)
    magnitude: Floats = _BREATH_SHAPE[:, None] * share[None, :] * np.exp(np.minimum(lh, _MAX_LOG_MAGNITUDE))
    return magnitude


def _breath_shape() -> Floats:
    """0 up to the first frequency, rising with its logarithm to 1 at the second: float32 [601]."""
    low, high = np.log2(_BREATH_RISE_HZ)
    octaves = np.log2(np.maximum(np.arange(BINS) * (config.SAMPLE_RATE_HZ / N_FFT), 1.0))
    shape: Floats = np.clip((octaves - low) / (high - low), 0.0, 1.0).astype(np.float32)
    return shape


_BREATH_SHAPE: Final = _breath_shape()


@dataclass(frozen=True, slots=True)
class Placement:
    """Frames [source_start, source_start + count) of a source lie at frame `at` and on."""

    at: int
    count: int
    source: SpectrumSource
    source_start: int


def gathered(placements: Sequence[Placement], first: int, last: int) -> Spectra:
    """Spectra of frames [first, last), complex64 [last - first, 601]; nothing lies where no source does."""
    spectra = np.zeros((last - first, BINS), np.complex64)
    for placement in placements:
        left, right = max(first, placement.at), min(last, placement.at + placement.count)
        if left < right:
            shift = placement.source_start - placement.at
            spectra[left - first : right - first] = placement.source.spectra(left + shift, right + shift)
    return spectra


def _tilt_shape() -> Floats:
    hz = np.arange(BINS) * (config.SAMPLE_RATE_HZ / N_FFT)
    octaves = np.log2(np.maximum(hz, 500.0) / 500.0)
    shape: Floats = (octaves / octaves[-1]).astype(np.float32)
    return shape


_TILT_SHAPE: Final = _tilt_shape()


def _polar(log_magnitude: Floats, angle: Floats) -> Spectra:
    magnitude = np.exp(log_magnitude)
    result = np.empty(angle.shape, np.complex64)
    np.multiply(magnitude, np.cos(angle), out=result.real)
    np.multiply(magnitude, np.sin(angle), out=result.imag)
    return result


def _envelope(lh: Floats, theta: Floats, f0: Floats) -> tuple[Floats, Floats]:
    """Harmonic magnitude between the harmonics of `f0`, where the net was never heard and so says anything: linear in
    the logarithm from one harmonic to the next. The phase goes to 0. Measured at 3 semitones: DistilMOS 4.1 against
    2.9 to 3.4 with the net's own values, and the level holds within 1 dB instead of 4."""
    spacing = np.maximum(f0, VOICING_HZ)[None, :] / (config.SAMPLE_RATE_HZ / N_FFT)
    bins = np.arange(BINS)[:, None]
    harmonic = np.maximum(np.floor(bins / spacing), 1)
    weight = np.clip(bins / spacing - harmonic, 0, 1).astype(np.float32)
    left = np.minimum(np.rint(harmonic * spacing), BINS - 1).astype(np.int64)
    right = np.minimum(np.rint((harmonic + 1) * spacing), BINS - 1).astype(np.int64)
    smooth = np.take_along_axis(lh, left, 0) * (1 - weight) + np.take_along_axis(lh, right, 0) * weight
    is_voiced = f0 > VOICING_HZ
    return np.where(is_voiced, smooth, lh), np.where(is_voiced, np.float32(0), theta)


def _pitch(padded_f0: Floats, first: int, last: int) -> Floats:
    """f0 at each sample of frames [first, last), linear between frames' centres: float32 [last - first, 300].
    `padded_f0` has one frame more on either side."""
    half = HOP // 2
    before, here, after = (padded_f0[first + shift : last + shift, None] for shift in range(3))
    pitch = np.empty((last - first, HOP), np.float32)
    pitch[:, :half] = before + (here - before) * _WEIGHT[:half]
    pitch[:, half:] = here + (after - here) * _WEIGHT[half:]
    return pitch


def _pulses(pitch: Floats, phase: NDArray[np.float64]) -> Floats:
    """A band-limited pulse train: every harmonic below 11 kHz at unit amplitude, 0 where unvoiced. float32 [n, 300].

    `phase`: cycles at each frame's start. Sum of cosines in closed form (the Dirichlet kernel).
    """
    is_voiced = pitch > VOICING_HZ
    pitch = np.maximum(pitch, VOICING_HZ)
    cycles = np.cumsum(pitch, axis=1, dtype=np.float64) / config.SAMPLE_RATE_HZ + phase[:, None]
    angle = ((cycles - np.floor(cycles)) * (2 * np.pi)).astype(np.float32)
    order = np.floor(_HARMONIC_LIMIT_HZ / pitch) + np.float32(0.5)
    denominator = 2 * np.sin(angle * np.float32(0.5))
    is_peak = np.abs(denominator) <= 2e-3
    train = np.where(is_peak, order, np.sin(order * angle) / np.where(is_peak, np.float32(1), denominator))
    return np.where(is_voiced, train - np.float32(0.5), np.float32(0))


def frame_levels_dbfs(acoustics: Acoustics) -> Floats:
    """Estimated level of each frame, float32 [F]: good to about 6 dB, enough to tell speech from silence."""
    voiced_hz = np.maximum(acoustics.f0, VOICING_HZ)
    harmonics = np.exp(2 * np.minimum(acoustics.lh, _MAX_LOG_MAGNITUDE)).sum(axis=0)
    # Harmonics stand f0 / 20 bins apart; the Hann window spreads each over 1.5 bins of power.
    power = np.where(acoustics.f0 > VOICING_HZ, harmonics * (1.5 * config.SAMPLE_RATE_HZ / N_FFT) / voiced_hz, 0.0)
    power = power + 2 * np.exp(2 * np.minimum(acoustics.ln, _MAX_LOG_MAGNITUDE)).sum(axis=0)
    power = power + np.exp(2 * np.minimum(acoustics.lr, _MAX_LOG_MAGNITUDE)).sum(axis=0)
    window_power = float(np.sum(_HANN.astype(np.float64) ** 2))
    levels: Floats = (10 * np.log10(2 * power / (N_FFT * window_power) + 1e-12)).astype(np.float32)
    return levels


def overlap_add(spectra: Spectra) -> Floats:
    """Samples of the frames that have LEFT_FRAMES spectra before and RIGHT_FRAMES after them.

    `spectra`: complex64 [n + 3, 601]; returns float32 [n · 300].
    """
    pieces = np.fft.irfft(spectra, N_FFT, axis=1).astype(np.float32) * _SYNTHESIS
    pieces = pieces.reshape(len(spectra), 4, HOP)
    count = len(spectra) - LEFT_FRAMES - RIGHT_FRAMES
    samples = pieces[:count, 3] + pieces[1 : count + 1, 2]
    samples += pieces[2 : count + 2, 1]
    samples += pieces[3 : count + 3, 0]
    return samples.reshape(-1)


def limit(samples: Floats) -> Floats:
    """A limiter without memory, so that windows joined equal the whole: straight up to the knee, then a tanh that
    never reaches the ceiling."""
    room = np.float32(config.LIMITER_CEILING - config.LIMITER_KNEE)
    size = np.abs(samples)
    bent = config.LIMITER_KNEE + room * np.tanh((size - np.float32(config.LIMITER_KNEE)) / room)
    limited: Floats = np.where(size <= config.LIMITER_KNEE, samples, np.copysign(bent, samples)).astype(np.float32)
    return limited
