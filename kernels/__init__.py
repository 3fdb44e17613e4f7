"""The ops of the decode path, one public function each. Imports torch, and nothing of ours.

Call sites use `kernels.<op>` only. Today every op is the plain-torch one of `kernels.reference`. An op that gains a
kernel gets its own file here (`kernels/<op>.py`, same name, same signature) and a function in this file that takes the
kernel for CUDA tensors and the reference for anything else; no call site changes.
"""

from kernels.reference import (
    add_rms_norm,
    codebook_embed,
    counter_uniform,
    paged_decode_attention,
    paged_prefill_attention,
    rms_norm,
    rotary_kv,
    sample_codebooks,
    silu_mul,
    snake,
)

__all__ = [
    "add_rms_norm",
    "codebook_embed",
    "counter_uniform",
    "paged_decode_attention",
    "paged_prefill_attention",
    "rms_norm",
    "rotary_kv",
    "sample_codebooks",
    "silu_mul",
    "snake",
]
