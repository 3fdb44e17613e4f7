"""The acoustic net: phoneme ids in; spectra of 12.5 ms frames, pitch and durations out. From the wheel, by hash."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelLoadError
from engine.models.hibari import config
from engine.models.hibari.phonemes import UNSPOKEN, VOWELS

Floats = NDArray[np.float32]

_UNITS: Final = "/Clip_output_0"
_RAW_UNITS: Final = "/Sub_output_0"
"""Inner values: durations rounded to whole units of 25 ms, and before they are divided by `speed` and rounded."""
_OUTPUTS: Final = ("lh", "theta", "ln", "lr", "phi", "f0", _UNITS)
_SPEED_INPUT: Final = b"\n\x05speed\x12\n\n\x08\x08\x01\x12\x04\n\x02" + b"\x08\x01"
_SPEED_INPUT_ANY: Final = b"\n\x05speed\x12\n\n\x08\x08\x01\x12\x04\n\x02" + b"\x1a\x00"
"""ValueInfoProto of the input `speed`, float [1]; and the same with its dimension left open (an empty denotation in the
place of the value 1), so that every symbol may have its own speed."""
# Field numbers of onnx.proto3: ModelProto.graph, GraphProto.output, ValueInfoProto.name.
_MODEL_GRAPH, _GRAPH_OUTPUT, _VALUE_NAME = 7, 12, 1


@dataclass(frozen=True, slots=True)
class Acoustics:
    """What one call of the net yields, F frames for L ids (601 bins of a 1200-point transform at 24 kHz).

    The waveform's spectrum is exp(lh)·e^{iπ·tanh(theta)}·(pulse train) + exp(ln)·(noise) + exp(lr)·e^{i·phi}.
    """

    lh: Floats
    theta: Floats
    ln: Floats
    lr: Floats
    phi: Floats
    """float32 [601, F] each."""
    f0: Floats
    """float32 [F], Hz; below 40 = unvoiced."""
    frames: NDArray[np.int64]
    """int64 [L]: frames counted for each id; they sum to F."""


class AcousticNet:
    """Thread-safe: several threads may call it at once, each on one core."""

    def __init__(self, model: bytes, symbol_ids: dict[str, int]) -> None:
        model = model.replace(_SPEED_INPUT, _SPEED_INPUT_ANY)
        self._session: Any = _session(with_outputs(model, _OUTPUTS))
        self._durations: Any = _session(with_outputs(model, (_RAW_UNITS,)))
        self._ids = symbol_ids

    @classmethod
    def load(cls, folder: Path | None = None) -> AcousticNet:
        """From the installed wheel, or from `folder` that holds the same files. Never looks anywhere else.

        Raises ModelLoadError where the package or file is missing, or is not the one this code was made for.
        """
        assets = folder if folder is not None else _wheel_assets()
        path = assets / config.NET_FILE
        try:
            model = path.read_bytes()
            symbol_ids = json.loads((assets / "vocab.json").read_text(encoding="utf-8"))
        except OSError as error:
            raise ModelLoadError(
                f"cannot read {error.filename}: {error.strerror}; reinstall it with "
                f"`pip install --force-reinstall hibari-tts=={config.PACKAGE_VERSION}`"
            ) from error
        digest = hashlib.sha256(model).hexdigest()
        if digest != config.NET_SHA256:
            raise ModelLoadError(
                f"{path} has SHA-256 {digest}, expected {config.NET_SHA256}: it is damaged or of another version; "
                f"`pip install --force-reinstall hibari-tts=={config.PACKAGE_VERSION}`"
            )
        return cls(model, symbol_ids)

    @property
    def symbols(self) -> frozenset[str]:
        """The alphabet; anything else has no id."""
        return frozenset(self._ids)

    def __call__(self, symbols: str, pace: float, vowel_ratio: float = 1.0) -> Acoustics:
        """Run the net on symbols of its alphabet; `pace` divides durations (1 = as trained), `vowel_ratio` multiplies
        those of vowels against those of consonants, the speech as a whole being as long. `frames[0]` and `frames[-1]`
        belong to the silent ids put around the symbols."""
        ids = np.zeros((1, len(symbols) + 2), np.int64)
        ids[0, 1:-1] = [self._ids[symbol] for symbol in symbols]
        speed = _AS_TRAINED
        if pace != 1.0 or vowel_ratio != 1.0:
            speed = self._speeds(ids, _shares(symbols, vowel_ratio), pace)
        lh, theta, ln, lr, phi, f0, units = self._session.run(_OUTPUTS, {"ids": ids, "speed": speed})
        frames = np.rint(units.reshape(-1)).astype(np.int64) * config.FRAMES_PER_DURATION_UNIT
        return Acoustics(lh[0], theta[0], ln[0], lr[0], phi[0], f0[0], frames)

    def _speeds(self, ids: NDArray[np.int64], shares: NDArray[np.float64], pace: float) -> Floats:
        """A speed for each symbol that makes the whole as long as asked: float32 [L]. `shares`: float64 [L], how many
        times longer each is to be among those above 0; the rest keep their length.

        One speed for all would not: most symbols last one to three units, so rounding swallows a pace of 1.2 and makes
        1.5 of 1.4. Here the rounding error of each symbol is passed on to the next.
        """
        (raw,) = self._durations.run((_RAW_UNITS,), {"ids": ids, "speed": _AS_TRAINED})
        wanted = np.maximum(raw.reshape(-1), 1.0).astype(np.float64)
        is_sound = shares > 0
        shared = wanted[is_sound] * shares[is_sound]
        wanted[is_sound] = shared * (wanted[is_sound].sum() / max(shared.sum(), 1.0))
        ends = np.rint(np.cumsum(wanted / pace))
        units = np.maximum(np.diff(ends, prepend=0.0), 1.0)
        speeds: Floats = (raw.reshape(-1) / units).astype(np.float32)
        return speeds


_AS_TRAINED: Final = np.ones(1, np.float32)


def _shares(symbols: str, vowel_ratio: float) -> NDArray[np.float64]:
    """float64 [L], with the silent ids: `vowel_ratio` for vowels, 1 for consonants, 0 for what is no sound."""
    shares = [0.0 if symbol in UNSPOKEN else vowel_ratio if symbol in VOWELS else 1.0 for symbol in symbols]
    return np.asarray([0.0, *shares, 0.0])


def _session(model: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _wheel_assets() -> Path:
    spec = importlib.util.find_spec("hibari")
    if spec is None or spec.origin is None:
        raise ModelLoadError(
            f"the package hibari-tts is not installed: `pip install hibari-tts=={config.PACKAGE_VERSION}`"
        )
    version = importlib.metadata.version("hibari-tts")
    if version != config.PACKAGE_VERSION:
        raise ModelLoadError(
            f"hibari-tts {version} is installed, {config.PACKAGE_VERSION} is needed: "
            f"`pip install hibari-tts=={config.PACKAGE_VERSION}`"
        )
    return Path(spec.origin).parent / "assets"


def with_outputs(model: bytes, names: Iterable[str]) -> bytes:
    """A serialised ONNX model that yields the values `names`, inner ones too, in the place of its own outputs.

    A graph's outputs are one repeated field of the GraphProto: the old entries are left out, new ones with only a name
    are added at the end (the runtime infers their types). What no output needs, the runtime drops.
    """
    outputs = b"".join(_field(_GRAPH_OUTPUT, _field(_VALUE_NAME, name.encode())) for name in names)
    parts = []
    for number, field in _fields(model):
        if number == _MODEL_GRAPH:
            graph = _payload(field)
            kept = b"".join(inner for inner_number, inner in _fields(graph) if inner_number != _GRAPH_OUTPUT)
            field = _field(_MODEL_GRAPH, kept + outputs)
        parts.append(field)
    return b"".join(parts)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Each field of a serialised message: its number, and its bytes with the key."""
    at = 0
    while at < len(message):
        start = at
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == 0:
            _, at = _read_varint(message, at)
        elif kind == 2:
            length, at = _read_varint(message, at)
            at += length
        else:
            at += {1: 8, 5: 4}[kind]
        yield key >> 3, message[start:at]


def _payload(field: bytes) -> bytes:
    """What a length-delimited field holds."""
    _, at = _read_varint(field, 0)
    _, at = _read_varint(field, at)
    return field[at:]


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Value, and the place after it."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited field (wire type 2)."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
