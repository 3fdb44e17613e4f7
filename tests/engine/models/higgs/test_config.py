"""config.json of the public checkpoint is understood; anything else is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
from engine.errors import ModelLoadError
from engine.models.higgs.config import BackboneGeometry, CodecGeometry, HiggsSettings, read_geometry, read_settings
from engine.models.higgs.weights import memory_plan, part_bytes, with_kv_that_fits

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


def changed(path: str, value: Any) -> Any:
    config = json.loads(json.dumps(PUBLIC))
    *parents, key = path.split(".")
    target = config
    for parent in parents:
        target = target[parent]
    if value is ...:
        del target[key]
    else:
        target[key] = value
    return config


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
    config = changed("text_config.rope_parameters", ...)
    config["text_config"] |= theta
    wanted = 1e6 if theta.get("rope_theta", 0) is None else 5e5
    assert read_geometry(write(tmp_path, config)).backbone.rope_theta == wanted


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("model_type", "llama", "model_type is 'llama'"),
        ("audio_encoder_config.encoder_type", "whisper", "encoder_type is 'whisper'"),
        ("audio_encoder_config.use_delay_pattern", False, "use_delay_pattern"),
        ("audio_encoder_config.num_codebooks", 12, "num_codebooks is 12"),
        ("audio_encoder_config.vocab_size", 2050, "2050"),
        ("audio_encoder_config.out_dim", 100, "out_dim is 100"),
        ("text_config.hidden_act", "gelu", "hidden_act"),
        ("text_config.head_dim", ..., "lacks 'head_dim'"),
        ("text_config", 3, "not understood"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path: Path, path: str, value: Any, message: str) -> None:
    with pytest.raises(ModelLoadError, match=message):
        read_geometry(write(tmp_path, changed(path, value)))


def test_a_folder_without_config_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="no checkpoint folder"):
        read_geometry(tmp_path)


def test_a_config_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelLoadError, match="not understood"):
        read_geometry(tmp_path)


def test_the_memory_plan_names_every_part_and_adds_up(tmp_path: Path) -> None:
    geometry = read_geometry(write(tmp_path, PUBLIC))
    plan = memory_plan(geometry, HiggsSettings(dtype="bfloat16", max_sequences=64, voices=tmp_path))
    assert plan.total_bytes == sum(part.size_bytes for part in plan.parts)
    names = [part.name for part in plan.parts]
    assert {"backbone weights", "KV pages", "codec workspace", "reference encoder weights"} <= set(names)
    kv = next(part for part in plan.parts if part.name == "KV pages")
    assert kv.size_bytes == (64 * 4096 + 16) * 147_456


def test_kv_memory_that_is_left_open_is_what_the_sequences_want_or_what_the_device_has(tmp_path: Path) -> None:
    geometry = read_geometry(write(tmp_path, PUBLIC))
    few = HiggsSettings(dtype="bfloat16", max_sequences=1, max_context_tokens=64)
    assert with_kv_that_fits(geometry, few).kv_tokens == 64
    many = HiggsSettings(dtype="bfloat16", max_sequences=4096, max_decode_batch=16)
    fitted = with_kv_that_fits(geometry, many)
    assert fitted.kv_tokens is not None
    assert 4096 <= fitted.kv_tokens < 4096 * 4096
    assert with_kv_that_fits(geometry, fitted) is fitted


# --- settings ---------------------------------------------------------------------------------------------------------


def test_options_change_the_defaults_of_a_device_by_name() -> None:
    settings = read_settings(
        "cpu",
        None,
        {"deterministic": True, "eoc_staircase": False, "history_blocks": 0, "top_k": 50, "max_silence_s": 6},
    )
    assert settings.is_deterministic
    assert not settings.has_eoc_staircase
    assert (settings.history_blocks, settings.sampling.top_k, settings.runaway.max_silence_s) == (0, 50, 6)
    assert read_settings("cuda:1", None, {}).dtype == "bfloat16"
    assert read_settings("cuda:1", None, {"dtype": "float32", "kv_tokens": None}).torch_dtype.itemsize == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": 3}, "has no option 'history'; there are: .*history_blocks"),
        ({"device": "cuda"}, "has no option 'device'"),
        ({"deterministic": "yes"}, "'deterministic' of model 'higgs' is 'yes'; it takes bool"),
        ({"history_blocks": True}, "takes int"),
        ({"history_blocks": -1}, "-1; it takes int from 0 on"),
        ({"history_s": "30"}, "takes float"),
        ({"history_blocks": None}, "takes int"),
        ({"dtype": "float16"}, "takes float32 or bfloat16"),
        ({"top_p": -0.5}, "takes float above 0"),
        ({"page_tokens": 0}, "takes int above 0"),
    ],
)
def test_an_option_that_is_unknown_or_unfit_is_refused_by_name(options: dict[str, object], message: str) -> None:
    with pytest.raises(ModelLoadError, match=message):
        read_settings("cpu", None, options)
