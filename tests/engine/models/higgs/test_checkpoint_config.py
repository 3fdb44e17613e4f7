"""config.json of the public checkpoint is understood; anything else is refused by name."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")
from engine.errors import ModelLoadError
from engine.models.higgs.checkpoint_config import is_untrained, read_geometry
from engine.models.higgs.config import BackboneGeometry, CodecGeometry, HiggsSettings
from engine.models.higgs.weights import memory_plan, part_bytes

PUBLIC: dict[str, Any] = {
    "architectures": ["HiggsMultimodalQwen3ForConditionalGeneration"],
    "model_type": "higgs_multimodal_qwen3",
    "audio_token_id": -100,
    "text_config": {
        "model_type": "qwen3", "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": True, "max_position_embeddings": 32768,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000},
    },
    "audio_encoder_config": {
        "model_type": "higgs_audio_encoder", "encoder_type": "discrete", "num_codebooks": 8, "vocab_size": 1026,
        "out_dim": 2560, "tie_word_embeddings": True, "use_delay_pattern": True,
    },
}  # fmt: skip


def write(folder: Path, config: Any) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def changed(config: Any, path: str, value: Any) -> Any:
    """A copy with another value at a dotted path; ... = without it."""
    config = copy.deepcopy(config)
    *parents, key = path.split(".")
    target = config
    for parent in parents:
        target = target[parent]
    if value is ...:
        del target[key]
    else:
        target[key] = value
    return config


def paths(config: Any, prefix: str = "") -> Iterator[str]:
    for key, value in config.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from paths(value, f"{prefix}{key}.")


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.integers(-2, 4000),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.one_of(st.integers(-1, 70), st.floats()), max_size=8),
    st.just({}),
)


def test_the_public_config_gives_the_public_geometry(tmp_path: Path) -> None:
    geometry = read_geometry(write(tmp_path, PUBLIC))
    assert geometry.backbone == BackboneGeometry(151936, 2560, 9728, 36, 32, 8, 128, 1e6, 1e-6, 32768)
    assert geometry.codec == CodecGeometry()
    assert (geometry.codes, geometry.begin_code, geometry.end_code, geometry.is_head_tied) == (1026, 1024, 1025, True)


def test_its_weights_have_the_published_sizes(tmp_path: Path) -> None:
    """4 043 480 576 parameters of the language model; 21.5 million and 144 KiB a token are the fact sheet's sums."""
    geometry = read_geometry(write(tmp_path, PUBLIC))
    settings = HiggsSettings(dtype="bfloat16")
    sizes = part_bytes(geometry, settings)
    rotary = 32768 * 128 * 4
    assert sizes["backbone"] - rotary + sizes["codebooks"] == 2 * 4_043_480_576
    assert settings.kv_geometry(geometry.backbone).page_bytes == 16 * 147_456


@pytest.mark.parametrize("theta", [{"rope_theta": None}, {"rope_theta": 5e5}, {"rope_parameters": {"rope_theta": 5e5}}])
def test_rope_theta_is_read_from_either_place_and_null_means_a_million(tmp_path: Path, theta: Any) -> None:
    config = changed(PUBLIC, "text_config.rope_parameters", ...)
    config["text_config"] |= theta
    wanted = 1e6 if theta.get("rope_theta", 0) is None else 5e5
    assert read_geometry(write(tmp_path, config)).backbone.rope_theta == wanted


REFUSED: list[tuple[str, Any, str]] = [
    ("model_type", "llama", "model_type is 'llama'"),
    ("quantization_config", {"bits": 8}, "quantization_config"),
    ("audio_encoder_config", None, "audio_encoder_config is None, no object"),
    ("audio_encoder_config", ..., "lacks audio_encoder_config"),
    ("audio_encoder_config.encoder_type", "whisper", "encoder_type is 'whisper'"),
    ("audio_encoder_config.use_delay_pattern", False, "use_delay_pattern"),
    ("audio_encoder_config.num_codebooks", 12, "num_codebooks is 12"),
    ("audio_encoder_config.vocab_size", 2050, "2050"),
    ("audio_encoder_config.out_dim", 100, "out_dim is 100"),
    ("audio_encoder_config.tie_word_embeddings", "yes", "tie_word_embeddings is 'yes'; it takes true or false"),
    ("audio_encoder_config.tie_word_embeddings", None, "tie_word_embeddings is None"),
    ("audio_tokenizer_config", [], r"audio_tokenizer_config is \[\], no object"),
    ("text_config", 3, "text_config is 3, no object"),
    ("text_config.model_type", "llama", "only 'qwen3'"),
    ("text_config.hidden_act", "gelu", "hidden_act"),
    ("text_config.head_dim", ..., "lacks text_config.head_dim"),
    ("text_config.head_dim", 127, "head_dim is 127"),
    ("text_config.head_dim", 1 << 20, "head_dim is 1048576"),
    ("text_config.num_key_value_heads", 5, "num_attention_heads is 32, no multiple of num_key_value_heads, which is 5"),
    ("text_config.attention_bias", True, "attention_bias is True"),
    ("text_config.use_sliding_window", True, "use_sliding_window is True"),
    ("text_config.layer_types", ["full_attention", "sliding_attention"], "layer_types"),
    ("text_config.rms_norm_eps", None, "rms_norm_eps is None"),
    ("text_config.rms_norm_eps", "1e-6", "rms_norm_eps is '1e-6'"),
    ("text_config.rms_norm_eps", 0, "rms_norm_eps is 0"),
    ("text_config.rms_norm_eps", float("nan"), "rms_norm_eps is nan"),
    ("text_config.rope_parameters", {"rope_type": "yarn", "factor": 4.0}, "rope_type is 'yarn'"),
    ("text_config.rope_parameters", {"rope_type": "default", "factor": 4.0}, "rope_parameters has factor"),
    ("text_config.rope_parameters", {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"),
    ("text_config.rope_scaling", {"type": "linear", "factor": 4.0}, "rope_scaling.type is 'linear'"),
    ("text_config.rope_theta", 5e5, "rope_theta is 500000 in one place and 1e\\+06 in another"),
    ("text_config.max_position_embeddings", 10**12, "max_position_embeddings is 1000000000000"),
]
SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings",
)  # fmt: skip
NO_SIZES: tuple[Any, ...] = (0, -1, "2", 2.0, True, None, [1], 10**30)
NO_CODECS: list[tuple[str, Any, str]] = [
    ("sample_rate", 0, "sample_rate is 0"),
    ("sample_rate", 24_000.5, "sample_rate is 24000.5"),
    ("semantic_sample_rate", 0, "semantic_sample_rate is 0"),
    ("downsample_factor", 0, "downsample_factor is 0"),
    ("downsample_factor", 999, "frames of the semantic model; it has to be a whole number"),
    ("target_bandwidths", [], r"target_bandwidths is \[\]"),
    ("target_bandwidths", [0], "target_bandwidths make 0 codebooks"),
    ("target_bandwidths", 2, "target_bandwidths is 2"),
    ("codebook_size", 1, "codebook_size is 1"),
    ("codebook_size", 1 << 16, "codebook_size is 65536"),
    ("codebook_dim", None, "codebook_dim is None"),
    ("acoustic_model_config", None, "acoustic_model_config is None"),
    ("acoustic_model_config.upsampling_ratios", [], r"upsampling_ratios is \[\]"),
    ("acoustic_model_config.upsampling_ratios", [0, 1], r"upsampling_ratios is \[0, 1\]"),
    ("acoustic_model_config.upsampling_ratios", [960, 1], "whole numbers from 2 to 64"),
    ("acoustic_model_config.downsampling_ratios", [8, 5, 4, 3], "makes 960 samples of a frame, its encoder takes 480"),
    ("acoustic_model_config.decoder_hidden_size", 48, "decoder_hidden_size is 48; it is halved 5 times"),
    ("semantic_model_config.conv_kernel", [10], "not of one length"),
    ("semantic_model_config.conv_stride", [0] * 7, "conv_stride"),
    ("semantic_model_config.num_attention_heads", 5, "no multiple of num_attention_heads, which is 5"),
    ("semantic_model_config.num_conv_pos_embedding_groups", 0, "num_conv_pos_embedding_groups is 0"),
    ("block_dilations", [1, 3], r"block_dilations is \[1, 3\]; only \[1, 1\]"),
    ("unit_kernel_size", 5, "unit_kernel_size is 5; only 3"),
    ("acoustic_model_config.model_type", "encodec", "only 'dac'"),
    ("semantic_model_config.do_stable_layer_norm", True, "do_stable_layer_norm is True; only False"),
    ("semantic_model_config.hidden_act", "relu", "hidden_act is 'relu'; only 'gelu'"),
    ("semantic_model_config.layer_norm_eps", "x", "layer_norm_eps is 'x'"),
]


@pytest.mark.parametrize(("path", "value", "message"), REFUSED)
def test_what_is_not_supported_is_named(tmp_path: Path, path: str, value: Any, message: str) -> None:
    with pytest.raises(ModelLoadError, match=message):
        read_geometry(write(tmp_path, changed(PUBLIC, path, value)))


@pytest.mark.parametrize("key", SIZES)
def test_a_size_is_a_whole_number_in_its_bounds(tmp_path: Path, key: str) -> None:
    for value in NO_SIZES:
        with pytest.raises(ModelLoadError, match=f"text_config.{key} is .*; it takes whole numbers from"):
            read_geometry(write(tmp_path, changed(PUBLIC, f"text_config.{key}", value)))


@pytest.mark.parametrize(("path", "value", "message"), NO_CODECS)
def test_a_codec_that_cannot_be_is_named(
    tmp_path: Path, tiny_folder: Path, path: str, value: Any, message: str
) -> None:
    tiny = json.loads((tiny_folder / "config.json").read_text())
    with pytest.raises(ModelLoadError, match=message):
        read_geometry(write(tmp_path, changed(tiny, f"audio_tokenizer_config.{path}", value)))


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_a_config_it_is_understood_or_refused(
    tmp_path: Path, tiny_folder: Path, data: st.DataObject
) -> None:
    """And what is understood can be laid out, and planned for."""
    tiny = json.loads((tiny_folder / "config.json").read_text())
    path = data.draw(st.sampled_from(sorted(paths(tiny))))
    config = changed(tiny, path, data.draw(VALUES))
    try:
        geometry = read_geometry(write(tmp_path, config))
    except ModelLoadError:
        return
    if geometry.backbone.layers * geometry.backbone.max_positions < 1 << 20:
        assert memory_plan(geometry, HiggsSettings()).total_bytes > 0


@pytest.mark.parametrize("is_tied", [True, False])
def test_whether_the_text_head_is_the_embedding_is_read(tmp_path: Path, is_tied: bool) -> None:
    config = changed(PUBLIC, "text_config.tie_word_embeddings", is_tied)
    assert read_geometry(write(tmp_path, config)).is_text_head_tied is is_tied


def test_a_checkpoint_says_itself_that_it_is_untrained(tmp_path: Path, tiny_folder: Path) -> None:
    assert is_untrained(tiny_folder)
    assert not is_untrained(write(tmp_path, PUBLIC))
    with pytest.raises(ModelLoadError, match="untrained is 'so'"):
        is_untrained(write(tmp_path, PUBLIC | {"untrained": "so"}))


UNREADABLE: dict[str, tuple[bytes | None, str]] = {
    "no file": (None, "no checkpoint folder"),
    "no json": (b"{", "not understood"),
    "no UTF-8": (b"\xff\xfe\x00", "not understood"),
    "a list": (b"[]", r"it is \[\], no object"),
    "too deep": (b"[" * 100_000, "nested too deeply"),
    "a number too long": (b'{"model_type": ' + b"9" * 10_000 + b"}", "not understood"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_config_that_cannot_be_read_is_refused(tmp_path: Path, kind: str) -> None:
    content, message = UNREADABLE[kind]
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelLoadError, match=message):
        read_geometry(tmp_path)


def test_a_config_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(ModelLoadError, match="cannot be read: Is a directory"):
        read_geometry(tmp_path)
