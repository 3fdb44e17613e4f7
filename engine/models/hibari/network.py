"""The acoustic net: phoneme ids in; spectra of 12.5 ms frames, pitch and durations out. From the wheel, by hash."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelLoadError
from engine.models.hibari import config

Floats = NDArray[np.float32]

_DURATIONS: Final = "/Clip_output_0"
_OUTPUTS: Final = ("lh", "theta", "ln", "lr", "phi", "f0", _DURATIONS)
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
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session: Any = onnxruntime.InferenceSession(
            with_extra_output(model, _DURATIONS), options, providers=["CPUExecutionProvider"]
        )
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

    def __call__(self, symbols: str, pace: float) -> Acoustics:
        """Run the net on symbols of its alphabet; `pace` divides durations (1 = as trained). `frames[0]` and
        `frames[-1]` belong to the silent ids put around the symbols."""
        ids = np.zeros((1, len(symbols) + 2), np.int64)
        ids[0, 1:-1] = [self._ids[symbol] for symbol in symbols]
        lh, theta, ln, lr, phi, f0, units = self._session.run(
            _OUTPUTS, {"ids": ids, "speed": np.asarray([pace], np.float32)}
        )
        frames = np.rint(units.reshape(-1)).astype(np.int64) * config.FRAMES_PER_DURATION_UNIT
        return Acoustics(lh[0], theta[0], ln[0], lr[0], phi[0], f0[0], frames)


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


def with_extra_output(model: bytes, name: str) -> bytes:
    """A serialised ONNX model with the inner value `name` among its outputs, without parsing it.

    Protocol buffers merge an embedded message that occurs twice and concatenate its repeated fields, so a ModelProto
    that holds only `graph { output { name: ... } }`, appended to the file, adds exactly that output. The type is
    inferred by the runtime.
    """
    value = _field(_VALUE_NAME, name.encode())
    return model + _field(_MODEL_GRAPH, _field(_GRAPH_OUTPUT, value))


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
