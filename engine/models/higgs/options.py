"""What an operator may set, by name; and whether settings make sense: each for itself, together, and for a checkpoint.

Settings that pass `check_settings` can speak: every block gets its rows, its windows and its pages in the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from math import ceil, inf
from pathlib import Path

from engine.errors import ModelLoadError
from engine.models.higgs.config import (
    HiggsGeometry,
    HiggsSettings,
    text_cadence,
)
from engine.runtime.devices import usable_device

DTYPES = ("float32", "bfloat16")
MIN_VOICE_S = 2.0
"""engine.voice_store.MIN_RECORDING_S, known here without its audio libraries."""
USEFUL_BLOCK_S = 10.0
USEFUL_BLOCK_TOKENS = 64
"""What a sentence takes, as a rule: a context with less room for it than that has none."""
REFERENCE_MARKS = 3
"""Tokens of a voice's prompt beside its transcript and its rows."""


@dataclass(frozen=True, slots=True)
class Range:
    """Of a finite number; `is_open`: more than `least`."""

    least: float
    most: float = inf
    is_open: bool = False

    def holds(self, value: float) -> bool:
        return (value > self.least or (value == self.least and not self.is_open)) and value <= self.most and value < inf

    def __str__(self) -> str:
        least = f"above {self.least:,}" if self.is_open else f"from {self.least:,} on"
        return least if self.most == inf else f"{least}, at most {self.most:,}"


RANGES: Mapping[str, Range] = {
    "max_sequences": Range(1, 1 << 16),
    "max_decode_batch": Range(1),
    "max_prefill_tokens": Range(1, 1 << 20),
    "page_tokens": Range(1, 1024),
    "max_context_tokens": Range(1),
    "kv_tokens": Range(1),
    "memory_fraction": Range(0, 1, is_open=True),
    "max_block_rows": Range(1, 1 << 20),
    "max_text_tokens": Range(16, 1 << 20),
    "max_voice_s": Range(MIN_VOICE_S, 600),
    "history_blocks": Range(0, 1000),
    "history_s": Range(0, 3600),
    "first_window_frames": Range(1, 10_000),
    "max_window_frames": Range(1, 10_000),
    "first_right_context_frames": Range(0, 10_000),
    "max_windows_per_tick": Range(1, 1 << 16),
    "join_fade_ms": Range(0, 1000),
    "join_overlap_ms": Range(0, 1000),
    "split_tokens": Range(1, 1 << 16),
    "temperature": Range(0, 10),
    "top_p": Range(0, 1, is_open=True),
    "top_k": Range(1, 1 << 16),
    "max_silence_s": Range(0.1),
    "max_repeat_s": Range(0.1),
    "silence_level": Range(0, 0.1),
}
"""Every option that is a number. What has no upper end here is bounded by the memory plan, or bounds nothing."""


@dataclass(frozen=True, slots=True)
class _Option:
    name: str
    group: str
    """The settings' field that holds it: "sampling", "runaway"; "" = the settings themselves."""
    field: str
    kind: str
    """As annotated, without None."""
    may_be_none: bool


def read_settings(device: str, voices: Path | None, options: Mapping[str, object]) -> HiggsSettings:
    """Settings from an operator's options: a kind of device's defaults, changed by name. An option is called as its
    field without is_ or has_ ("deterministic", "eoc_staircase", "history_blocks" ...); "temperature", "top_p" and
    "top_k" are the sampling defaults, "max_silence_s" and "max_repeat_s" the runaway limits.

    Raises ModelLoadError that names an unknown option, or one of the wrong type or beyond its limits.
    """
    settings = HiggsSettings(device=device, voices=voices)
    if device.startswith("cuda"):
        settings = replace(
            settings,
            dtype="bfloat16",
            max_sequences=128,
            max_decode_batch=128,
            max_prefill_tokens=2048,
            max_windows_per_tick=32,
        )
    else:
        settings = replace(settings, max_context_tokens=2048, max_block_rows=1024)
    changes: dict[str, dict[str, object]] = {"": {}, "sampling": {}, "runaway": {}}
    known = {option.name: option for option in _options(settings)}
    for name, value in options.items():
        if name not in known:
            raise ModelLoadError(f"model 'higgs' has no option {name!r}; there are: {', '.join(sorted(known))}")
        _check_value(known[name], value)
        changes[known[name].group][known[name].field] = value
    return replace(
        settings,
        **changes[""],  # type: ignore[arg-type]  # checked by _check_value
        sampling=replace(settings.sampling, **changes["sampling"]),  # type: ignore[arg-type]
        runaway=replace(settings.runaway, **changes["runaway"]),  # type: ignore[arg-type]
    )


def check_settings(geometry: HiggsGeometry, settings: HiggsSettings) -> None:
    """Raises ModelLoadError with option, value and limit where a value is senseless, where two contradict each other
    (something would be waited for that cannot come, or every request be refused), or where the device or the checkpoint
    does not have what they ask for."""
    usable_device(settings.device)
    for option in _options(settings):
        _check_value(option, getattr(getattr(settings, option.group) if option.group else settings, option.field))
    _check_windows(geometry, settings)
    _check_blocks(geometry, settings)
    _check_context(geometry, settings)


def context_positions(settings: HiggsSettings) -> int:
    """Positions that one sequence's context can have: what it may, or all pages if those are fewer."""
    if settings.kv_tokens is None:
        return settings.max_context_tokens
    return min(settings.max_context_tokens, settings.kv_tokens // settings.page_tokens * settings.page_tokens)


def useful_block_positions(geometry: HiggsGeometry, settings: HiggsSettings) -> int:
    """Positions that a block needs, without what stands before it, to say a sentence."""
    cadence = text_cadence(geometry, settings)
    rows = ceil(USEFUL_BLOCK_S * geometry.codec.frames_per_s) + geometry.codebooks - 1
    tokens = min(USEFUL_BLOCK_TOKENS, settings.max_text_tokens)
    if cadence is not None:
        tokens = cadence.text_positions(max(tokens, cadence.max_tokens))
    return min(rows, settings.max_block_rows) + tokens


def voice_problem(geometry: HiggsGeometry, settings: HiggsSettings, prompt_tokens: int) -> str | None:
    """Why a voice with a prompt of so many positions could never speak; None where it could."""
    block, most = useful_block_positions(geometry, settings), context_positions(settings)
    if prompt_tokens + block <= most:
        return None
    return (
        f"the recording and its transcript take {prompt_tokens:,} positions of the model's context, and a sentence "
        f"after them {block:,}; there are {most:,}: send a shorter recording, or a shorter transcript"
    )


def _check_windows(geometry: HiggsGeometry, settings: HiggsSettings) -> None:
    """The scheduler stops a block's rows once max_window_frames and the decoder's reach wait for the vocoder: no window
    may want more than that."""
    first, most = settings.first_window_frames, settings.max_window_frames
    if first > most:
        raise _contradiction("first_window_frames", first, f"max_window_frames is {most}: it may be at most as large")
    right, reach = settings.first_right_context_frames, geometry.codec.decoder_reach_frames
    if right is not None and right > reach:
        raise _contradiction("first_right_context_frames", right, f"the decoder reaches {reach} frames: at most those")


def _check_blocks(geometry: HiggsGeometry, settings: HiggsSettings) -> None:
    cadence, rows = text_cadence(geometry, settings), settings.max_block_rows
    least = geometry.codebooks if cadence is None else cadence.first_rows + cadence.rows_per_token
    if rows < least:
        raise _contradiction("max_block_rows", rows, f"a block has at least {least} rows")
    if cadence is not None and not geometry.is_text_head_tied:
        raise ModelLoadError(
            "option 'token_streaming' of model 'higgs' needs a text head tied to the text embedding; "
            "the checkpoint's text_config.tie_word_embeddings is false"
        )


def _check_context(geometry: HiggsGeometry, settings: HiggsSettings) -> None:
    most, trained = settings.max_context_tokens, geometry.backbone.max_positions
    if most > trained:
        raise _contradiction("max_context_tokens", most, f"the checkpoint has max_position_embeddings {trained}")
    positions, block = context_positions(settings), useful_block_positions(geometry, settings)
    name, value = ("max_context_tokens", most) if positions == most else ("kv_tokens", settings.kv_tokens or 0)
    if 1 + block > positions:
        raise _contradiction(
            name, value, f"that is a context of {positions} positions, and a sentence takes {1 + block}"
        )
    if settings.voices is None:
        return
    frames_per_s = geometry.codec.frames_per_s
    fixed = REFERENCE_MARKS + geometry.codebooks - 1
    prompt = fixed + ceil(settings.max_voice_s * frames_per_s)
    if prompt + block > positions:
        room_s = max(0.0, (positions - block - fixed) / frames_per_s)
        raise _contradiction(
            name,
            value,
            f"max_voice_s is {settings.max_voice_s:g}: a voice of that length takes {prompt} positions and a sentence "
            f"after it {block}, {prompt + block} in all (there is room for a voice of {room_s:.1f} s)",
        )


def _contradiction(name: str, value: object, why: str) -> ModelLoadError:
    return ModelLoadError(f"option {name!r} of model 'higgs' is {value}; {why}")


def _options(settings: HiggsSettings) -> Iterator[_Option]:
    """`device` and `voices` are the caller's, seeds the requests'."""
    for group, owner in (("", settings), ("sampling", settings.sampling), ("runaway", settings.runaway)):
        for one in fields(owner):
            if one.name not in ("device", "voices", "seed", "sampling", "runaway"):
                name = one.name.removeprefix("is_").removeprefix("has_")
                kind = str(one.type)
                yield _Option(name, group, one.name, kind.removesuffix(" | None"), kind.endswith("| None"))


def _check_value(option: _Option, value: object) -> None:
    """Raises ModelLoadError where the value is not of the annotated kind, or beyond its limits."""
    if value is None and option.may_be_none:
        return
    if option.kind == "bool":
        takes, is_fit = "bool", isinstance(value, bool)
    elif option.kind in ("int", "float"):
        limits = RANGES[option.name]
        takes = f"{option.kind} {limits}"
        is_number = isinstance(value, int if option.kind == "int" else int | float) and not isinstance(value, bool)
        is_fit = is_number and limits.holds(value)  # type: ignore[arg-type]
    else:
        takes, is_fit = " or ".join(DTYPES), value in DTYPES
    if not is_fit:
        raise ModelLoadError(f"option {option.name!r} of model 'higgs' is {value!r}; it takes {takes}")
