"""Writes a small random checkpoint in exactly the public one's format: names, shards, index, config, tokenizer.

For tests, continuous integration and whoever has no weights. It speaks noise: nothing in it is trained.

    python -m engine.models.higgs.tiny_checkpoint FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor

from engine.models.higgs import weights
from engine.models.higgs.backbone import Backbone
from engine.models.higgs.checkpoint_config import MODEL_TYPE, UNTRAINED_KEY, read_geometry
from engine.models.higgs.codebooks import CodebookHead
from engine.models.higgs.codec import CodecDecoder
from engine.models.higgs.config import HiggsGeometry
from engine.models.higgs.prompt import TAGS
from engine.models.higgs.reference import ReferenceEncoder
from engine.runtime.weights import INDEX_NAME

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
END_LOUDNESS = 4.0
"""Of codebook 0's end-of-codes beside other codes: blocks then end by themselves now and then, some after a second,
some not before their limit."""
LOUDNESS = 2e-3
"""Of the decoder's last weights: its noise then lies well inside full scale."""
_STRUCTURE = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>",
    "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|asr|>", "<|streaming_asr|>", "<|tts|>",
    "<|streaming_tts|>", "<|audio_cont_txt|>", "<|audio|>", "<|audio_end|>", "<|text|>", "<|text_end|>", "<|eoc|>",
    "<|user|>", "<|assistant|>", "<|system|>", "<|await_audio|>", "<|ref_audio|>", "<|ref_text|>",
)  # fmt: skip
_SAMPLE_TEXT = (
    "the quick brown fox jumps over the lazy dog and then speaks to you of rivers, bridges and the morning light",
    "hello there, welcome aboard; this is a small voice that is reading what somebody is still writing",
)


@dataclass(frozen=True, slots=True)
class TinyShape:
    """Size of the written model. The codec's kernels, strides and reach are always the real ones."""

    channels: int = 64
    inner: int = 128
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 32
    decoder_channels: int = 64
    vocabulary: int = 512
    has_heads: bool = True
    """The tied heads stand in the shards, as in the public ones."""
    shards: int = 3
    seed: int = 0


def write_tiny_checkpoint(folder: Path, shape: TinyShape | None = None) -> None:
    """Write the checkpoint into `folder` (made if absent; files of the same names are replaced)."""
    shape = shape or TinyShape()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_config(shape), indent=2) + "\n")
    tokenizer = build_tokenizer(shape.vocabulary)
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer_config = {"tokenizer_class": "Qwen2Tokenizer", "model_max_length": 131072}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config, indent=2) + "\n")
    tensors = _tensors(read_geometry(folder), shape)
    names = sorted(tensors)
    weight_map: dict[str, str] = {}
    for shard in range(shape.shards):
        file = f"model-{shard + 1:05d}-of-{shape.shards:05d}.safetensors"
        members = names[shard :: shape.shards]
        save_file({name: tensors[name] for name in members}, str(folder / file), metadata={"format": "pt"})
        weight_map |= dict.fromkeys(members, file)
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / INDEX_NAME).write_text(json.dumps(index, indent=2) + "\n")


def special_tokens() -> tuple[str, ...]:
    """The 84 added tokens in the order of their ids."""
    tags = {category: [f"<|{category}:{value}|>" for value in values] for category, values in TAGS.items()}
    late = ("<|prosody:expressive_high|>", "<|prosody:expressive_low|>")
    early = [tag for tag in tags["prosody"] if tag not in late]
    return (
        *_STRUCTURE, *tags["emotion"], "<|env:music|>", "<|env:noise|>", *tags["style"], *tags["sfx"], *early,
        "<|chatml|>", *late,
    )  # fmt: skip


def byte_level(model: models.Model) -> Tokenizer:
    """A tokenizer of the Qwen kind around a model: NFC, Qwen's split, bytes as characters."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def build_tokenizer(vocabulary: int) -> Tokenizer:
    """A byte-level BPE of the Qwen kind with the real added tokens behind a small base vocabulary."""
    tokenizer = byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(special_tokens()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_SAMPLE_TEXT, trainer)
    add_special_tokens(tokenizer)
    return tokenizer


def add_special_tokens(tokenizer: Tokenizer) -> None:
    """Put the 84 added tokens behind the base vocabulary."""
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special_tokens()])


def _config(shape: TinyShape) -> dict[str, Any]:
    codec_channels = 32
    return {
        "architectures": ["HiggsMultimodalQwen3ForConditionalGeneration"],
        "model_type": MODEL_TYPE,
        UNTRAINED_KEY: True,
        "audio_token_id": -100,
        "ignore_index": -100,
        "mel_per_sample": 8,
        "dtype": "bfloat16",
        "text_config": {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": shape.vocabulary,
            "hidden_size": shape.channels,
            "intermediate_size": shape.inner,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_size,
            "hidden_act": "silu",
            "attention_bias": False,
            "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
            "tie_word_embeddings": True,
        },
        "audio_encoder_config": {
            "model_type": "higgs_audio_encoder",
            "encoder_type": "discrete",
            "num_codebooks": 8,
            "vocab_size": 1026,
            "out_dim": shape.channels,
            "tie_word_embeddings": True,
            "use_delay_pattern": True,
        },
        "audio_tokenizer_config": {
            "model_type": "higgs_audio_v2_tokenizer",
            "sample_rate": 24_000,
            "semantic_sample_rate": 16_000,
            "downsample_factor": 320,
            "target_bandwidths": [0.5, 1, 1.5, 2],
            "codebook_size": 1024,
            "codebook_dim": 8,
            "acoustic_model_config": {
                "model_type": "dac",
                "encoder_hidden_size": 4,
                "decoder_hidden_size": shape.decoder_channels,
                "downsampling_ratios": [8, 5, 4, 2, 3],
                "upsampling_ratios": [8, 5, 4, 2, 3],
                "hidden_size": 16,
                "hop_length": 960,
                "n_codebooks": 9,
                "codebook_size": 1024,
                "codebook_dim": 8,
                "sampling_rate": 16_000,
            },
            "semantic_model_config": {
                "model_type": "hubert",
                "hidden_size": codec_channels,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 64,
                "conv_dim": [16] * 7,
                "conv_stride": [5, 2, 2, 2, 2, 2, 2],
                "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
                "conv_bias": False,
                "feat_extract_norm": "group",
                "do_stable_layer_norm": False,
                "num_feat_extract_layers": 7,
                "num_conv_pos_embeddings": 16,
                "num_conv_pos_embedding_groups": 4,
                "layer_norm_eps": 1e-5,
                "mask_time_prob": 0.0,
            },
        },
    }


def _tensors(geometry: HiggsGeometry, shape: TinyShape) -> dict[str, Tensor]:
    """Every tensor, random in bfloat16, with no trivial value anywhere: biases, norms and α differ per channel."""
    generator = torch.Generator().manual_seed(shape.seed)
    tensors: dict[str, Tensor] = {}
    for name, dimensions in sorted(_shapes(geometry)):
        tensors[name] = _random(name, dimensions, geometry.end_code, generator).bfloat16()
    if shape.has_heads:
        tensors[f"{weights.TEXT_HEAD_PREFIX}weight"] = tensors[weights.TEXT_EMBEDDING].clone()
        tensors[f"{weights.CODE_HEAD_PREFIX}weight"] = tensors[weights.CODE_EMBEDDING].clone()
    return tensors


def _shapes(geometry: HiggsGeometry) -> Iterator[tuple[str, tuple[int, ...]]]:
    meta, dtype, b = torch.device("meta"), torch.bfloat16, geometry.backbone
    decoder = CodecDecoder(geometry.codec, meta)
    codebooks = CodebookHead(geometry.codebooks, geometry.codes, b.channels, True, dtype, meta)
    parts = (
        weights.backbone_tensors(Backbone(b, dtype, meta, is_rope_rounded=False)),
        {weights.CODE_EMBEDDING: codebooks.embedding},
        weights.codec_tensors(decoder)
        | weights.codec_tensors(ReferenceEncoder(geometry.codec, decoder.quantizer, meta)),
    )
    for part in parts:
        yield from ((name, tuple(tensor.shape)) for name, tensor in part.items())
    yield from weights.unused_codec_shapes(geometry.codec).items()
    yield f"{weights.CODEC_PREFIX}semantic_model.masked_spec_embed", (geometry.codec.semantic.channels,)


def _random(name: str, shape: tuple[int, ...], end_code: int, generator: torch.Generator) -> Tensor:
    noise = torch.randn(shape, generator=generator)
    if name.endswith(".alpha") or "norm.weight" in name or name.endswith((".inited", "cluster_size", "original0")):
        return 1.0 + 0.2 * noise
    if name.endswith(".bias"):
        return 0.05 * noise
    if name.endswith((".embed", ".embed_avg")):
        return noise
    if name == weights.TEXT_EMBEDDING:
        return 0.3 * noise
    if name == weights.CODE_EMBEDDING:
        noise[end_code] *= END_LOUDNESS
        return 0.15 * noise
    if name.endswith("acoustic_decoder.conv2.weight"):
        return LOUDNESS * noise
    if name.endswith("acoustic_decoder.conv2.bias"):
        return LOUDNESS * noise.sign()
    if ".res_unit" in name and name.endswith(".conv2.weight"):
        noise = 0.3 * noise  # else each unit doubles the signal
    fan_in = shape[0] if ".conv_t1." in name else prod(shape[1:])
    taps = 2 if ".conv_t1." in name else 1  # of a transposed convolution, two taps meet in every output
    return noise / sqrt(max(1, fan_in * taps))


if __name__ == "__main__":
    write_tiny_checkpoint(Path(sys.argv[1]))
