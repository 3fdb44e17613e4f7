"""Reads a checkpoint's config.json: its geometry, and whether it was trained. What cannot be run as the file says is
refused by name; nothing in it is passed over that would change what is computed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from engine.errors import ModelLoadError
from engine.models.higgs.config import (
    BackboneGeometry,
    CodecGeometry,
    HiggsGeometry,
    SemanticGeometry,
)

MODEL_TYPE = "higgs_multimodal_qwen3"
UNTRAINED_KEY = "untrained"
"""true where the weights are random."""
DEFAULT_ROPE_THETA = 1_000_000.0
"""Older checkpoints carry null for it."""
MAX_WIDTH = 1 << 20
"""Of any size in a checkpoint: channels, vocabulary, positions. Beyond it stand slips of the pen."""
MAX_DEPTH = 1024
"""Of layers, heads and what one of them holds."""
MAX_CODEBOOKS = 64
MAX_ENTRIES = (1 << 15) - 2
"""Of a codebook: its codes and the two marks are kept in 16 bits."""
MIN_STRIDE = 2
"""A transposed convolution of the codec pads its output by less than its stride."""
MAX_STRIDE = 64
MAX_STRIDES = 8
RATES_HZ = (8_000, 192_000)
ROPE_KEYS = frozenset(("rope_theta", "rope_type", "type", "partial_rotary_factor"))
FIXED: Mapping[str, Mapping[str, object]] = {
    "text_config": {
        "model_type": "qwen3", "hidden_act": "silu", "attention_bias": False, "use_sliding_window": False,
    },
    "audio_tokenizer_config": {
        "kernel_size": 3, "unit_kernel_size": 3, "channel_ratios": [1, 1], "strides": [1, 1], "block_dilations": [1, 1],
    },
    "audio_tokenizer_config.acoustic_model_config": {"model_type": "dac"},
    "audio_tokenizer_config.semantic_model_config": {
        "model_type": "hubert", "hidden_act": "gelu", "feat_extract_activation": "gelu", "feat_extract_norm": "group",
        "conv_bias": False, "do_stable_layer_norm": False, "feat_proj_layer_norm": True, "conv_pos_batch_norm": False,
    },
}  # fmt: skip
"""By section: what is built in, where the file says anything about it."""
SHOWN_CHARS = 60


def read_geometry(folder: Path) -> HiggsGeometry:
    """Raises ModelLoadError that names what is absent, senseless or not supported."""
    try:
        return _geometry(_read(folder))
    except ValueError as error:
        raise ModelLoadError(f"{folder / 'config.json'} is not understood: {error}") from error


def is_untrained(folder: Path) -> bool:
    """Its weights are random, by its own account. Raises ModelLoadError as `read_geometry`."""
    try:
        return _read(folder).flag(UNTRAINED_KEY, False)
    except ValueError as error:
        raise ModelLoadError(f"{folder / 'config.json'} is not understood: {error}") from error


class _Section:
    """An object of the file. Its readers raise ValueError with the key, the value and what is allowed."""

    def __init__(self, name: str, values: object) -> None:
        if not isinstance(values, Mapping):
            raise ValueError(f"{name or 'it'} is {_shown(values)}, no object")
        self._name = name
        self._values: Mapping[str, Any] = values

    def __contains__(self, key: str) -> bool:
        """Whether something stands there; null stands for nothing."""
        return self._values.get(key) is not None

    def value(self, key: str) -> object:
        if key not in self._values:
            raise ValueError(f"it lacks {self._path(key)}")
        return self._values[key]

    def section(self, key: str) -> _Section:
        return _Section(self._path(key), self.value(key))

    def keys(self) -> set[str]:
        return {key for key in self._values if key in self}

    def whole(self, key: str, least: int = 1, most: int = MAX_WIDTH) -> int:
        return self._whole(key, self.value(key), least, most)

    def wholes(self, key: str, least: int, most: int, most_items: int) -> tuple[int, ...]:
        """A list of 1 to `most_items` whole numbers."""
        values = self.value(key)
        if not isinstance(values, list) or not 1 <= len(values) <= most_items:
            raise self._refusal(key, f"a list of 1 to {most_items} whole numbers")
        return tuple(self._whole(key, value, least, most) for value in values)

    def number(self, key: str, least: float, most: float) -> float:
        return self._number(key, self.value(key), least, most)

    def last_number(self, key: str, least: float, most: float) -> float:
        """The last of a list of numbers."""
        values = self.value(key)
        if not isinstance(values, list) or not values:
            raise self._refusal(key, "a list of numbers")
        return self._number(key, values[-1], least, most)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """`default`: for a key that is absent or null; None = it has to be there."""
        if default is not None and key not in self:
            return default
        value = self.value(key)
        if not isinstance(value, bool):
            raise self._refusal(key, "true or false")
        return value

    def require(self, key: str, wanted: object) -> None:
        if self.value(key) != wanted:
            raise ValueError(f"{self._path(key)} is {_shown(self.value(key))}; only {wanted!r} is supported")

    def require_if_there(self, key: str, wanted: object) -> None:
        if key in self:
            self.require(key, wanted)

    def require_fixed(self) -> None:
        for key, wanted in FIXED[self._name].items():
            self.require_if_there(key, wanted)

    def _whole(self, key: str, value: object, least: int, most: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self._refusal(key, f"whole numbers from {least} to {most}")
        return value

    def _number(self, key: str, value: object, least: float, most: float) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise self._refusal(key, f"numbers from {least:g} to {most:g}")
        return float(value)

    def _refusal(self, key: str, kind: str) -> ValueError:
        return ValueError(f"{self._path(key)} is {_shown(self._values[key])}; it takes {kind}")

    def _path(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key


def _read(folder: Path) -> _Section:
    path = folder / "config.json"
    try:
        return _Section("", json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise ModelLoadError(f"{folder} holds no config.json: it is no checkpoint folder") from error
    except OSError as error:
        raise ModelLoadError(f"{path} cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _geometry(config: _Section) -> HiggsGeometry:
    config.require("model_type", MODEL_TYPE)
    text, audio = config.section("text_config"), config.section("audio_encoder_config")
    for section in (config, text):
        if "quantization_config" in section:
            raise ValueError("it has a quantization_config; only plain weights are supported")
    audio.require("encoder_type", "discrete")
    audio.require("use_delay_pattern", True)
    backbone = _backbone(text)
    audio.require("out_dim", backbone.channels)
    codec = _codec(config.section("audio_tokenizer_config")) if "audio_tokenizer_config" in config else CodecGeometry()
    codebooks, codes = audio.whole("num_codebooks"), audio.whole("vocab_size")
    if codebooks != codec.codebooks:
        raise ValueError(f"num_codebooks is {codebooks}, the codec has {codec.codebooks}")
    if codes != codec.entries + 2:
        raise ValueError(
            f"a codebook's vocab_size is {codes}, the codec's entries and two marks are {codec.entries + 2}"
        )
    return HiggsGeometry(
        backbone,
        codec,
        codes,
        is_head_tied=audio.flag("tie_word_embeddings"),
        is_text_head_tied=text.flag("tie_word_embeddings", True),
    )


def _backbone(text: _Section) -> BackboneGeometry:
    text.require_fixed()
    if "layer_types" in text:
        layer_types = text.value("layer_types")
        if not isinstance(layer_types, list) or any(kind != "full_attention" for kind in layer_types):
            raise ValueError(f"text_config.layer_types is {_shown(layer_types)}; only 'full_attention' is supported")
    heads, kv_heads = text.whole("num_attention_heads", 1, MAX_DEPTH), text.whole("num_key_value_heads", 1, MAX_DEPTH)
    if heads % kv_heads:
        raise ValueError(f"num_attention_heads is {heads}, no multiple of num_key_value_heads, which is {kv_heads}")
    head_size = text.whole("head_dim", 2, MAX_DEPTH)
    if head_size % 2:
        raise ValueError(f"head_dim is {head_size}; rotary positions need an even one")
    return BackboneGeometry(
        vocabulary=text.whole("vocab_size"),
        channels=text.whole("hidden_size"),
        inner=text.whole("intermediate_size"),
        layers=text.whole("num_hidden_layers", 1, MAX_DEPTH),
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        rope_theta=_rope_theta(text),
        rms_eps=text.number("rms_norm_eps", 1e-12, 1e-2),
        max_positions=text.whole("max_position_embeddings"),
    )


def _rope_theta(text: _Section) -> float:
    """The base of plain rotary positions, from either place where it may stand. Scaled ones are refused: they would
    have to be computed otherwise."""
    places = [text]
    for key in ("rope_parameters", "rope_scaling"):
        if key in text:
            rope = text.section(key)
            for kind in ("rope_type", "type"):
                rope.require_if_there(kind, "default")
            rope.require_if_there("partial_rotary_factor", 1.0)
            unknown = sorted(rope.keys() - ROPE_KEYS)
            if unknown:
                raise ValueError(
                    f"text_config.{key} has {', '.join(unknown)}; only plain rotary positions are supported"
                )
            places.append(rope)
    found = [place.number("rope_theta", 1.0, 1e12) for place in places if "rope_theta" in place]
    if len(set(found)) > 1:
        raise ValueError(f"rope_theta is {found[0]:g} in one place and {found[1]:g} in another")
    return found[0] if found else DEFAULT_ROPE_THETA


def _codec(config: _Section) -> CodecGeometry:
    """From transformers' layout of a HiggsAudioV2Tokenizer config."""
    acoustic = config.section("acoustic_model_config")
    config.require_fixed()
    acoustic.require_fixed()
    up = acoustic.wholes("upsampling_ratios", MIN_STRIDE, MAX_STRIDE, MAX_STRIDES)
    down = acoustic.wholes("downsampling_ratios", MIN_STRIDE, MAX_STRIDE, MAX_STRIDES)
    if prod(up) != prod(down):
        raise ValueError(f"the codec's decoder makes {prod(up)} samples of a frame, its encoder takes {prod(down)}")
    rate_hz, entries = config.whole("sample_rate", *RATES_HZ), config.whole("codebook_size", 2, MAX_ENTRIES)
    frame_rate = -(-rate_hz // prod(up))
    codebooks = int(
        1000 * config.last_number("target_bandwidths", 0.0, 1e6) // (frame_rate * (entries - 1).bit_length())
    )
    if not 1 <= codebooks <= MAX_CODEBOOKS:
        raise ValueError(f"target_bandwidths make {codebooks} codebooks; 1 to {MAX_CODEBOOKS} are supported")
    decoder_channels = acoustic.whole("decoder_hidden_size")
    if decoder_channels % (1 << len(up)):
        raise ValueError(f"decoder_hidden_size is {decoder_channels}; it is halved {len(up)} times")
    codec = CodecGeometry(
        codebooks=codebooks,
        entries=entries,
        entry_size=config.whole("codebook_dim"),
        sample_rate_hz=rate_hz,
        semantic_rate_hz=config.whole("semantic_sample_rate", *RATES_HZ),
        semantic_hop_samples=config.whole("downsample_factor"),
        acoustic_channels=acoustic.whole("hidden_size"),
        encoder_channels=acoustic.whole("encoder_hidden_size"),
        decoder_channels=decoder_channels,
        encoder_strides=down,
        decoder_strides=up,
        semantic=_semantic(config.section("semantic_model_config")),
    )
    per_frame = prod(up) * codec.semantic_rate_hz / (rate_hz * codec.semantic_hop_samples)
    if per_frame < 1 or not per_frame.is_integer():
        raise ValueError(f"a codec frame is {per_frame:g} frames of the semantic model; it has to be a whole number")
    return codec


def _semantic(config: _Section) -> SemanticGeometry:
    config.require_fixed()
    conv = [config.wholes(f"conv_{what}", 1, MAX_WIDTH, MAX_DEPTH) for what in ("dim", "kernel", "stride")]
    if len({len(values) for values in conv}) > 1:
        raise ValueError("conv_dim, conv_kernel and conv_stride are not of one length")
    channels, heads = config.whole("hidden_size"), config.whole("num_attention_heads", 1, MAX_DEPTH)
    groups = config.whole("num_conv_pos_embedding_groups")
    for name, parts in (("num_attention_heads", heads), ("num_conv_pos_embedding_groups", groups)):
        if channels % parts:
            raise ValueError(f"the semantic model's hidden_size is {channels}, no multiple of {name}, which is {parts}")
    has_eps = "layer_norm_eps" in config
    return SemanticGeometry(
        channels=channels,
        inner=config.whole("intermediate_size"),
        layers=config.whole("num_hidden_layers", 1, MAX_DEPTH),
        heads=heads,
        norm_eps=config.number("layer_norm_eps", 1e-12, 1e-2) if has_eps else SemanticGeometry().norm_eps,
        conv_channels=conv[0],
        conv_kernels=conv[1],
        conv_strides=conv[2],
        position_kernel=config.whole("num_conv_pos_embeddings"),
        position_groups=groups,
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
