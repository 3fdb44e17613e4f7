"""What a Higgs model is (geometry), how it is to be run (settings), and what the scheduler learns of both (spec)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor, prod
from pathlib import Path
from typing import Literal

import torch

from engine.core.step import ModelSpec, TextCadence
from engine.runtime.kv_cache import KvGeometry
from engine.runtime.runaway import RunawayLimits
from engine.runtime.sampling import SamplingParameters

LICENCE_NOTICE = (
    "Higgs Audio v3 weights are Boson AI's, under a research and non-commercial licence: read it in the checkpoint's "
    "repository before you use what they speak."
)
CPU_CODEC_BATCH_FRAMES = 200
RESERVED_BLOCKS = 6
"""Blocks of a sequence beside its history: in hand, being voiced, kept for a late barge-in."""
TOKEN_FRAMES = 4
"""Of token streaming: rows for each text token, and in the first run beyond the ramp."""
MAX_TOKEN_WAITS = 64
"""Of token streaming: text tokens that the model may ask for before it begins to speak."""
MAX_HOLD_S = 2.0
"""Of token streaming: a listener waits no longer in mid-word; what there is is spoken to its end."""
ROWS_PER_STREAMED_TOKEN = 12
"""Of token streaming: rows of a block for each token that it takes, with what is still to be spoken when text ends."""
EDGE_KERNEL = 7
UNIT_KERNEL = 7
DILATIONS = (1, 3, 9)
"""Of the codec's first and last convolution, and of its three residual units: the same in every checkpoint."""


@dataclass(frozen=True, slots=True)
class BackboneGeometry:
    """The Qwen3 decoder."""

    vocabulary: int
    channels: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    rope_theta: float
    rms_eps: float
    max_positions: int


@dataclass(frozen=True, slots=True)
class SemanticGeometry:
    """The speech encoder (HuBERT) that the codec's encoder listens with."""

    channels: int = 768
    inner: int = 3072
    layers: int = 12
    heads: int = 12
    norm_eps: float = 1e-5
    conv_channels: tuple[int, ...] = (512,) * 7
    conv_kernels: tuple[int, ...] = (10, 3, 3, 3, 3, 2, 2)
    conv_strides: tuple[int, ...] = (5, 2, 2, 2, 2, 2, 2)
    position_kernel: int = 128
    position_groups: int = 16


@dataclass(frozen=True, slots=True)
class CodecGeometry:
    """The audio codec inside the checkpoint. The public checkpoint's config.json does not describe it: these defaults
    are its geometry; a checkpoint with another one carries `audio_tokenizer_config` in its config.json."""

    codebooks: int = 8
    entries: int = 1024
    entry_size: int = 64
    sample_rate_hz: int = 24_000
    semantic_rate_hz: int = 16_000
    semantic_hop_samples: int = 320
    acoustic_channels: int = 256
    encoder_channels: int = 64
    decoder_channels: int = 1024
    encoder_strides: tuple[int, ...] = (8, 5, 4, 2, 3)
    decoder_strides: tuple[int, ...] = (8, 5, 4, 2, 3)
    semantic: SemanticGeometry = field(default_factory=SemanticGeometry)

    @property
    def samples_per_frame(self) -> int:
        return prod(self.decoder_strides)

    @property
    def channels(self) -> int:
        """Of the quantised vectors: acoustic and semantic ones side by side."""
        return self.acoustic_channels + self.semantic.channels

    @property
    def semantic_frames_per_frame(self) -> int:
        """Every how-manieth semantic frame is kept."""
        per_frame = self.samples_per_frame * self.semantic_rate_hz / self.sample_rate_hz
        return int(per_frame / self.semantic_hop_samples)

    @property
    def frames_per_s(self) -> float:
        return self.sample_rate_hz / self.samples_per_frame

    @property
    def decoder_reach_frames(self) -> int:
        """Whole frames on either side that a frame's samples depend on, from kernels and strides alone: walking back
        from the output, a range of positions widens by each convolution's half-width and shrinks by each stride."""
        first, last = -(EDGE_KERNEL // 2), self.samples_per_frame - 1 + EDGE_KERNEL // 2
        unit_reach = sum((UNIT_KERNEL - 1) // 2 * dilation for dilation in DILATIONS)
        for stride in reversed(self.decoder_strides):
            padding = ceil(stride / 2)
            first = ceil((first - unit_reach + padding - (2 * stride - 1)) / stride)
            last = floor((last + unit_reach + padding) / stride)
        return max(EDGE_KERNEL // 2 - first, last + EDGE_KERNEL // 2)


@dataclass(frozen=True, slots=True)
class HiggsGeometry:
    """Everything that the weights' shapes follow from."""

    backbone: BackboneGeometry
    codec: CodecGeometry
    codes: int
    """V: codes per codebook, the codec's entries and the two marks."""
    is_head_tied: bool
    is_text_head_tied: bool = True
    """Token streaming asks the text head, and has it only as the text embedding."""

    @property
    def codebooks(self) -> int:
        return self.codec.codebooks

    @property
    def begin_code(self) -> int:
        """Begin-of-codes, the ramp's filling."""
        return self.codes - 2

    @property
    def end_code(self) -> int:
        """End-of-codes."""
        return self.codes - 1


@dataclass(frozen=True, slots=True)
class HiggsSettings:
    """How the model is run. Every size is declared here and nothing grows past it."""

    device: str = "cpu"
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of backbone, embeddings and KV memory. The codec always runs in float32: transposed convolutions in bfloat16 are
    not stable."""
    max_sequences: int = 16
    """Sequences resident at once."""
    max_decode_batch: int = 16
    max_prefill_tokens: int = 512
    page_tokens: int = 16
    max_context_tokens: int = 4096
    """Positions that one sequence may take: voice prompt, history and the block in hand."""
    kv_tokens: int | None = None
    """Positions in all; None = max_sequences * max_context_tokens, or what the device has left if that is less."""
    memory_fraction: float = 0.9
    """Of the device's free memory that may be planned."""
    max_block_rows: int = 2048
    """Rows of one block at most: 81.6 s."""
    max_text_tokens: int = 1024
    """Tokens of one text block at most."""
    max_voice_s: float = 30.0
    """Reference audio of a voice at most."""
    history_blocks: int = 4
    history_s: float = 30.0
    is_token_streaming: bool = False
    """Experimental: text goes in token by token between the rows, in one running context for each utterance. For
    checkpoints that were trained for it; keeps no history, whatever the two above say."""
    first_window_frames: int = 5
    max_window_frames: int = 50
    first_right_context_frames: int | None = None
    """Frames decoded beyond an utterance's first window; None = all that the codec reaches, as for every other window,
    so that the windows joined equal the block's one decode. Fewer: the first audio comes so many rows earlier, the end
    of its first window is only nearly right (benchmarks/higgs_context.py: by how much) and is faded into the next."""
    max_windows_per_tick: int = 16
    join_fade_ms: float = 5.0
    """Fade at the two edges of every block."""
    join_overlap_ms: float = 20.0
    """Cross-fade into the window after one that had to do with less right context than the codec reaches."""
    has_eoc_staircase: bool = True
    """Force the end-of-codes staircase of the training layout and forbid marks elsewhere. Not yet compared with free
    marks on the real weights."""
    is_rope_rounded: bool = True
    """Rotary cache rounded to bfloat16, as in training."""
    is_deterministic: bool = False
    """The same codes for a request whatever runs beside it, also in bfloat16: every row runs in batches of exactly
    `max_decode_batch` rows with fixed KV splits. Slower."""
    split_tokens: int = 128
    """KV split of the deterministic mode."""
    sampling: SamplingParameters = field(
        default_factory=lambda: SamplingParameters(temperature=0.8, top_p=0.8, top_k=30, seed=0)
    )
    """Defaults for what a request leaves open (its seed is always its own)."""
    runaway: RunawayLimits = field(
        default_factory=lambda: RunawayLimits(max_silence_s=4.0, max_repeat_s=2.0, silence_level=10 ** (-50 / 20))
    )
    voices: Path | None = None
    """Folder of the voice store; None = no cloning."""

    @property
    def max_codec_batch_frames(self) -> int:
        """Frames that the codec decodes in one batch: a CPU is slower per frame once a batch's samples outgrow its
        caches."""
        return CPU_CODEC_BATCH_FRAMES if self.device == "cpu" else self.max_windows_per_tick * self.max_window_frames

    @property
    def row_slots(self) -> int:
        """Blocks whose rows the row store begins with room for."""
        return self.max_sequences * (self.history_blocks + RESERVED_BLOCKS)

    @property
    def torch_dtype(self) -> torch.dtype:
        return torch.float32 if self.dtype == "float32" else torch.bfloat16

    def kv_geometry(self, backbone: BackboneGeometry) -> KvGeometry:
        return KvGeometry(backbone.layers, backbone.kv_heads, backbone.head_size, self.page_tokens, self.torch_dtype)


def text_cadence(geometry: HiggsGeometry, settings: HiggsSettings) -> TextCadence | None:
    """How text is given while it is being written; None where segments are spoken whole. A block takes as much as
    leaves room for a voice's prompt in the context."""
    if not settings.is_token_streaming:
        return None
    max_rows = min(settings.max_block_rows, 2 * settings.max_context_tokens // 5)
    return TextCadence(
        first_rows=geometry.codebooks - 1 + TOKEN_FRAMES,
        rows_per_token=TOKEN_FRAMES,
        max_waits=MAX_TOKEN_WAITS,
        max_rows=max_rows,
        max_tokens=max(1, max_rows // ROWS_PER_STREAMED_TOKEN),
        max_hold_s=MAX_HOLD_S,
    )


def model_spec(geometry: HiggsGeometry, settings: HiggsSettings) -> ModelSpec:
    """What the scheduler has to know, from geometry and settings alone."""
    codec = geometry.codec
    reach = codec.decoder_reach_frames
    kv_tokens = settings.kv_tokens or settings.max_sequences * settings.max_context_tokens
    return ModelSpec(
        sample_rate_hz=codec.sample_rate_hz,
        samples_per_frame=codec.samples_per_frame,
        codebooks=geometry.codebooks,
        max_sequences=settings.max_sequences,
        max_decode_batch=settings.max_decode_batch,
        max_prefill_tokens=settings.max_prefill_tokens,
        page_tokens=settings.page_tokens,
        page_count=kv_tokens // settings.page_tokens,
        left_context_frames=reach,
        right_context_frames=reach,
        first_window_frames=settings.first_window_frames,
        max_window_frames=settings.max_window_frames,
        max_windows_per_tick=settings.max_windows_per_tick,
        history_blocks=0 if settings.is_token_streaming else settings.history_blocks,
        history_s=settings.history_s,
        first_right_context_frames=settings.first_right_context_frames,
        text_cadence=text_cadence(geometry, settings),
        max_positions=settings.max_context_tokens,
    )
