"""The checkpoint's tensor names, and where each one goes. Every tensor of either layout is accounted for here.

body.layers.N.* body.norm.weight                            the backbone
tied.embedding.text_embedding.weight                        text embedding
tied.embedding.modality_embeddings.0.embedding.weight       codebook embedding and head, codebook-major
tied.embedding.modality_embeddings.0.model.*                the codec, decoder and encoder
tied.head.*                                                 copies of both, not in all layouts
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from engine.errors import ModelLoadError
from engine.models.higgs.backbone import Backbone, DecoderLayer
from engine.models.higgs.codebooks import CodebookHead
from engine.models.higgs.codec import CodecDecoder
from engine.models.higgs.config import UNIT_KERNEL, CodecGeometry, HiggsGeometry, HiggsSettings, model_spec
from engine.models.higgs.reference import ReferenceEncoder
from engine.runtime.attention import MAX_PADDING
from engine.runtime.memory import MemoryPart, MemoryPlan, free_bytes
from engine.runtime.weights import Checkpoint, Progress

_LOG = logging.getLogger(__name__)
TEXT_EMBEDDING = "tied.embedding.text_embedding.weight"
CODE_EMBEDDING = "tied.embedding.modality_embeddings.0.embedding.weight"
CODEC_PREFIX = "tied.embedding.modality_embeddings.0.model."
HEAD_PREFIX = "tied.head."
TEXT_HEAD_PREFIX = "tied.head.text_head."
CODE_HEAD_PREFIX = "tied.head.modality_heads.0."
MOST_INSERTED = 3
"""Positions fed where text goes in between two rows: the row, a token, a mark."""
ACTIVATION_COPIES = 4
"""Of a backbone layer's rows: those that live at once."""
MASK_BYTES = 6
"""Of each cell of a prefill's attention mask: as truth values, repeated for grouped heads, and as numbers."""
DECODER_COPIES = 5
ENCODER_COPIES = 6
"""Of the codec's widest activations: those that live at once (4.7 and 5.1 counted), rounded up."""
CPU_COLUMNS = UNIT_KERNEL
"""On a CPU a convolution unrolls its input besides: as many copies as the kernel is wide (at 200 frames the decoder is
seen to take 12 copies of resident memory in all)."""
LOGIT_COPIES = 8
"""Of all codes' scores, while rows are drawn."""


@dataclass(frozen=True, slots=True)
class HiggsParts:
    """The modules of a loaded checkpoint. `encoder` is None where voices are not cloned."""

    backbone: Backbone
    codebooks: CodebookHead
    decoder: CodecDecoder
    encoder: ReferenceEncoder | None


def load_parts(
    checkpoint: Checkpoint,
    geometry: HiggsGeometry,
    settings: HiggsSettings,
    has_encoder: bool,
    on_progress: Progress | None = None,
) -> HiggsParts:
    """Build the modules on the device and fill them. Raises ModelLoadError that names what does not fit."""
    device, dtype = torch.device(settings.device), settings.torch_dtype
    backbone = Backbone(geometry.backbone, dtype, device, settings.is_rope_rounded)
    codebooks = CodebookHead(
        geometry.codebooks, geometry.codes, geometry.backbone.channels, geometry.is_head_tied, dtype, device
    )
    decoder = CodecDecoder(geometry.codec, device)
    encoder = ReferenceEncoder(geometry.codec, decoder.quantizer, device) if has_encoder else None

    destinations = backbone_tensors(backbone) | codec_tensors(decoder)
    destinations[CODE_EMBEDDING] = codebooks.embedding
    optional: dict[str, tuple[int, ...]] = {}
    heads = [name for name in checkpoint.entries if name.startswith(HEAD_PREFIX)]
    code_shape = tuple(codebooks.embedding.shape)
    for name in heads:
        is_code_head = name.startswith(CODE_HEAD_PREFIX)
        if is_code_head and codebooks.head is not None:
            destinations[name] = codebooks.head
        elif is_code_head or name.startswith(TEXT_HEAD_PREFIX):
            optional[name] = code_shape if is_code_head else tuple(backbone.text_embedding.shape)
    if codebooks.head is not None and not any(name.startswith(CODE_HEAD_PREFIX) for name in heads):
        raise ModelLoadError(
            f"{checkpoint.folder}: config.json says that the head is not tied, and no {CODE_HEAD_PREFIX}* is there"
        )
    unused = unused_codec_shapes(geometry.codec)
    reference = (
        ReferenceEncoder(geometry.codec, decoder.quantizer, torch.device("meta")) if encoder is None else encoder
    )
    reference_tensors = codec_tensors(reference)
    if encoder is None:
        unused |= {name: tuple(t.shape) for name, t in reference_tensors.items() if name not in destinations}
    else:
        destinations |= reference_tensors
    optional[f"{CODEC_PREFIX}semantic_model.masked_spec_embed"] = (geometry.codec.semantic.channels,)

    checkpoint.load(destinations, unused, optional, on_progress)
    _compare_heads(checkpoint, geometry, [name for name in heads if name in optional])
    decoder.prepare()
    for module in (backbone, codebooks, decoder, encoder):
        if module is not None:
            module.requires_grad_(False).eval()
    return HiggsParts(backbone, codebooks, decoder, encoder)


def _compare_heads(checkpoint: Checkpoint, geometry: HiggsGeometry, copies: list[str]) -> None:
    """Warns where a head that config.json calls tied is none: what the checkpoint speaks may not be what was meant."""
    for name in copies:
        is_code_head = name.startswith(CODE_HEAD_PREFIX)
        embedding = CODE_EMBEDDING if is_code_head else TEXT_EMBEDDING
        if (is_code_head or geometry.is_text_head_tied) and not checkpoint.is_equal(name, embedding):
            _LOG.warning(
                "%s: %s is not equal to %s, though config.json says that they are tied; the embedding is used for both",
                checkpoint.folder, name, embedding,
            )  # fmt: skip


def part_bytes(geometry: HiggsGeometry, settings: HiggsSettings) -> Mapping[str, int]:
    """Bytes of each part's weights on the device, from the geometry alone."""
    b, dtype, meta = geometry.backbone, settings.torch_dtype, torch.device("meta")
    decoder = CodecDecoder(geometry.codec, meta)
    encoder = ReferenceEncoder(geometry.codec, decoder.quantizer, meta)
    shared = {id(p) for p in decoder.parameters()}
    return {
        "backbone": _size(Backbone(replace(b, max_positions=1), dtype, meta, False))
        + b.max_positions * b.head_size * 4,
        "codebooks": _size(
            CodebookHead(geometry.codebooks, geometry.codes, b.channels, geometry.is_head_tied, dtype, meta)
        ),
        "codec": _size(decoder) + geometry.codebooks * geometry.codec.entries * geometry.codec.acoustic_channels * 4,
        "reference encoder": sum(p.numel() * p.element_size() for p in encoder.parameters() if id(p) not in shared),
    }


def memory_plan(geometry: HiggsGeometry, settings: HiggsSettings) -> MemoryPlan:
    """Every budget, each computed from geometry and settings: nothing is measured, nothing grows past it."""
    codec, spec = geometry.codec, model_spec(geometry, settings)
    weights = part_bytes(geometry, settings)
    convolution = CPU_COLUMNS if torch.device(settings.device).type == "cpu" else 0
    window = settings.max_window_frames + 2 * spec.left_context_frames
    batch = settings.max_codec_batch_frames
    widest = codec.decoder_channels >> len(codec.decoder_strides)
    parts = [
        MemoryPart("backbone weights", weights["backbone"]),
        MemoryPart("codebook weights", weights["codebooks"]),
        MemoryPart("codec weights", weights["codec"]),
        MemoryPart("KV pages", (spec.page_count + 1) * settings.kv_geometry(geometry.backbone).page_bytes),
        MemoryPart("rows", settings.row_slots * settings.max_block_rows * geometry.codebooks * 2),
        MemoryPart("step workspace", step_bytes(geometry, settings)),
        MemoryPart(
            "codec workspace",
            max(batch, window) * codec.samples_per_frame * widest * 4 * (DECODER_COPIES + convolution),
        ),
    ]
    if settings.voices is not None:
        samples = round(settings.max_voice_s * codec.sample_rate_hz)
        parts.append(MemoryPart("reference encoder weights", weights["reference encoder"]))
        parts.append(MemoryPart("reference encoder workspace", samples * codec.encoder_channels * 4 * ENCODER_COPIES))
    available = int(free_bytes(torch.device(settings.device)) * settings.memory_fraction)
    return MemoryPlan(settings.device, available, tuple(parts))


def step_bytes(geometry: HiggsGeometry, settings: HiggsSettings) -> int:
    """What a step takes at most beside weights and pages: activations of its rows, padded queries and their masks, the
    contexts that attention gathers, logits."""
    b, width = geometry.backbone, settings.torch_dtype.itemsize
    decode = max(settings.max_decode_batch, 1)
    prefill = settings.max_prefill_tokens + (decode * MOST_INSERTED if settings.is_token_streaming else 0)
    rows = prefill + decode
    layer = 2 * b.inner + (b.heads + 2 * b.kv_heads) * b.head_size + ACTIVATION_COPIES * b.channels
    queries = MAX_PADDING * prefill * b.heads
    masks = queries // b.kv_heads * settings.max_context_tokens * MASK_BYTES
    contexts = decode * settings.max_context_tokens * b.kv_heads * b.head_size * 2
    logits = (decode + settings.max_sequences) * geometry.codebooks * geometry.codes * 4 * LOGIT_COPIES
    return (rows * layer + ACTIVATION_COPIES * queries * b.head_size + contexts) * width + masks + logits


def with_kv_that_fits(geometry: HiggsGeometry, settings: HiggsSettings) -> HiggsSettings:
    """Settle `kv_tokens` where it was left open: every sequence's whole context, or what the device has room for. The
    plan of settings that have no room for a single context does not pass its check."""
    if settings.kv_tokens is not None:
        return settings
    page, page_bytes = settings.page_tokens, settings.kv_geometry(geometry.backbone).page_bytes
    without = memory_plan(geometry, replace(settings, kv_tokens=page))
    room = (without.available_bytes - without.total_bytes) // page_bytes * page
    context = -(-settings.max_context_tokens // page) * page
    return replace(settings, kv_tokens=max(context, min(settings.max_sequences * context, room)))


def _size(module: nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in module.parameters())


def backbone_tensors(backbone: Backbone) -> dict[str, Tensor]:
    """Checkpoint name -> the (part of a) weight that it fills; packed projections are filled piece by piece."""
    tensors: dict[str, Tensor] = {
        TEXT_EMBEDDING: backbone.text_embedding,
        "body.norm.weight": backbone.final_norm.weight,
    }
    for index, layer in enumerate(backbone.layers):
        assert isinstance(layer, DecoderLayer)
        attention, mlp, head = layer.attention, layer.mlp, layer.attention.head_size
        q_end = attention.heads * head
        k_end, v_end = q_end + attention.kv_heads * head, q_end + 2 * attention.kv_heads * head
        layer_tensors = {
            "input_layernorm": layer.input_norm.weight,
            "post_attention_layernorm": layer.post_attention_norm.weight,
            "self_attn.q_proj": attention.qkv.rows(0, q_end),
            "self_attn.k_proj": attention.qkv.rows(q_end, k_end),
            "self_attn.v_proj": attention.qkv.rows(k_end, v_end),
            "self_attn.o_proj": attention.out.weight.t(),
            "self_attn.q_norm": attention.q_norm,
            "self_attn.k_norm": attention.k_norm,
            "mlp.gate_proj": mlp.gate_up.rows(0, mlp.inner),
            "mlp.up_proj": mlp.gate_up.rows(mlp.inner, 2 * mlp.inner),
            "mlp.down_proj": mlp.down.weight.t(),
        }
        tensors |= {f"body.layers.{index}.{name}.weight": tensor for name, tensor in layer_tensors.items()}
    return tensors


def codec_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The same for a module of the codec, whose parameters are named as in the checkpoint."""
    return {CODEC_PREFIX + name: parameter for name, parameter in module.named_parameters()}


def unused_codec_shapes(codec: CodecGeometry) -> dict[str, tuple[int, ...]]:
    """Tensors of training that nothing at inference reads: codebook statistics and the semantic decoder."""
    semantic, kernel = codec.semantic.channels, 3
    shapes: dict[str, tuple[int, ...]] = {
        "fc1.weight": (semantic, codec.channels),
        "fc1.bias": (semantic,),
        "decoder_semantic.conv1.weight": (semantic, semantic, kernel),
        "decoder_semantic.conv2.weight": (semantic, semantic, kernel),
    }
    for stage in range(codec.codebooks):
        codebook = f"quantizer.quantizers.{stage}.codebook"
        shapes[f"{codebook}.inited"] = (1,)
        shapes[f"{codebook}.cluster_size"] = (codec.entries,)
        shapes[f"{codebook}.embed_avg"] = (codec.entries, codec.entry_size)
    for block in range(2):
        prefix = f"decoder_semantic.conv_blocks.{block}"
        shapes[f"{prefix}.conv.weight"] = (semantic, semantic, kernel)
        shapes[f"{prefix}.conv.bias"] = (semantic,)
        for unit in range(2):
            shapes[f"{prefix}.res_units.{unit}.conv1.weight"] = (semantic, semantic, kernel)
            shapes[f"{prefix}.res_units.{unit}.conv2.weight"] = (semantic, semantic, 1)
    return {CODEC_PREFIX + name: shape for name, shape in shapes.items()}
