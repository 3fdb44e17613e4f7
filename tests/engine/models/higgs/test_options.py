"""Settings by name: what an operator may set, each value for itself, together, and for a checkpoint."""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")
from engine.errors import ModelLoadError, VoiceNotFoundError
from engine.models.higgs.checkpoint_config import read_geometry
from engine.models.higgs.config import HiggsGeometry, HiggsSettings
from engine.models.higgs.model import HiggsModel
from engine.models.higgs.options import (
    MIN_VOICE_S,
    RANGES,
    check_settings,
    read_settings,
    useful_block_positions,
    voice_problem,
)
from engine.runtime.runaway import RunawayLimits
from engine.runtime.sampling import SamplingParameters
from engine.speech import Segment, SpeechRequest
from engine.voice_audio import VoiceRejectedError
from engine.voice_store import MIN_RECORDING_S, VoiceUpload
from tests.engine.test_voice_audio import packed, speech
from tests.fakes.fake_driver import SyncDriver

TEXT = "Hello there my friend."
MAX_TICKS = 2000


@pytest.fixture
def geometry(tiny_folder: Path) -> HiggsGeometry:
    return read_geometry(tiny_folder)


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
        ({"history_blocks": -1}, "-1; it takes int from 0 on, at most 1,000"),
        ({"history_s": "30"}, "takes float"),
        ({"history_blocks": None}, "takes int"),
        ({"dtype": "float16"}, "takes float32 or bfloat16"),
        ({"top_p": -0.5}, "takes float above 0, at most 1"),
        ({"page_tokens": 0}, "takes int from 1 on, at most 1,024"),
        ({"max_sequences": 2.0}, "takes int"),
    ],
)
def test_an_option_that_is_unknown_or_unfit_is_refused_by_name(options: dict[str, object], message: str) -> None:
    with pytest.raises(ModelLoadError, match=message):
        read_settings("cpu", None, options)


def test_every_number_has_limits_and_every_limit_a_number() -> None:
    numbers = {
        one.name
        for owner in (HiggsSettings, SamplingParameters, RunawayLimits)
        for one in fields(owner)
        if str(one.type).removesuffix(" | None") in ("int", "float") and one.name != "seed"
    }
    assert numbers == set(RANGES)
    assert MIN_VOICE_S == MIN_RECORDING_S


@pytest.mark.parametrize("name", RANGES)
def test_a_number_beyond_its_limits_is_refused_as_an_option_and_as_a_setting(
    geometry: HiggsGeometry, name: str
) -> None:
    limits = RANGES[name]
    beyond = [limits.least - 1, nan, inf, -inf]
    beyond += [limits.least] if limits.is_open else []
    beyond += [limits.most + 1] if limits.most < inf else []
    for value in beyond:
        with pytest.raises(ModelLoadError, match=f"option '{name}' of model 'higgs' is .*; it takes (int|float) "):
            read_settings("cpu", None, {name: value})
        given = HiggsSettings()
        group = next((g for g in ("sampling", "runaway") if hasattr(getattr(given, g), name)), None)
        changed: Any = {name: value} if group is None else {group: replace(getattr(given, group), **{name: value})}
        with pytest.raises(ModelLoadError, match=f"option '{name}'"):
            check_settings(geometry, replace(given, **changed))


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"first_window_frames": 51}, "'first_window_frames' of model 'higgs' is 51; max_window_frames is 50"),
    ({"max_window_frames": 1}, "'first_window_frames' of model 'higgs' is 5; max_window_frames is 1"),
    ({"first_right_context_frames": 11}, "'first_right_context_frames' .* 11; the decoder reaches 10 frames"),
    ({"max_block_rows": 7}, "'max_block_rows' .* 7; a block has at least 8 rows"),
    ({"max_block_rows": 14, "token_streaming": True}, "'max_block_rows' .* 14; a block has at least 15 rows"),
    ({"max_context_tokens": 8193}, "'max_context_tokens' .* 8193; the checkpoint has max_position_embeddings 8192"),
    ({"max_context_tokens": 300}, "'max_context_tokens' .* 300; that is a context of 300 .*, and a sentence takes 322"),
    ({"max_context_tokens": 20, "token_streaming": True}, "that is a context of 20 positions"),
    ({"kv_tokens": 1}, "'kv_tokens' of model 'higgs' is 1; that is a context of 0 positions"),
    ({"kv_tokens": 321}, "'kv_tokens' .* 321; that is a context of 320 positions"),
]
CONTRADICTIONS_WITH_VOICES: list[tuple[dict[str, Any], str]] = [
    ({"max_context_tokens": 1024}, "'max_context_tokens' .* 1024; max_voice_s is 30: .* takes 760 .* 321, 1081 in all"),
    ({"max_voice_s": 90}, "max_voice_s is 90: .* room for a voice of 68.7 s"),
    ({"kv_tokens": 1024}, "'kv_tokens' of model 'higgs' is 1024; max_voice_s is 30"),
    ({"max_voice_s": 70, "token_streaming": True}, "max_voice_s is 70"),
]


@pytest.mark.parametrize(
    ("options", "message", "has_voices"),
    [(*one, False) for one in CONTRADICTIONS] + [(*one, True) for one in CONTRADICTIONS_WITH_VOICES],
)
def test_options_that_contradict_each_other_or_the_checkpoint_are_refused_with_both(
    tiny_folder: Path, tmp_path: Path, options: dict[str, Any], message: str, has_voices: bool
) -> None:
    settings = read_settings("cpu", tmp_path if has_voices else None, options)
    with pytest.raises(ModelLoadError, match=message):
        HiggsModel.load(tiny_folder, settings)


def test_the_defaults_fit_a_checkpoint_of_the_public_size(geometry: HiggsGeometry, tmp_path: Path) -> None:
    for options in ({}, {"token_streaming": True}):
        check_settings(geometry, read_settings("cpu", tmp_path, options))
        cuda = replace(read_settings("cuda", tmp_path, options), device="cpu")
        check_settings(geometry, cuda)


def test_streaming_needs_a_text_head_that_is_the_embedding(geometry: HiggsGeometry) -> None:
    untied = replace(geometry, is_text_head_tied=False)
    check_settings(untied, HiggsSettings())
    with pytest.raises(ModelLoadError, match=r"'token_streaming' .* tied"):
        check_settings(untied, HiggsSettings(is_token_streaming=True))


@pytest.mark.parametrize("is_token_streaming", [False, True])
def test_a_voice_fits_where_a_sentence_fits_after_it(geometry: HiggsGeometry, is_token_streaming: bool) -> None:
    settings = HiggsSettings(max_context_tokens=2000, kv_tokens=1010, is_token_streaming=is_token_streaming)
    block = useful_block_positions(geometry, settings)
    assert voice_problem(geometry, settings, 1008 - block) is None
    problem = voice_problem(geometry, settings, 1009 - block)
    assert problem is not None
    assert f"take {1009 - block:,} positions" in problem
    assert f"{block:,}; there are 1,008" in problem


@given(
    first=st.integers(1, 15),
    most=st.integers(5, 60),
    right=st.none() | st.integers(0, 11),
    windows=st.integers(1, 2),
    rows=st.integers(7, 60),
    prefill=st.integers(1, 8),
    positions=st.integers(90, 500),
    is_token_streaming=st.booleans(),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_passes_speaks_to_its_end(
    tiny_folder: Path,
    first: int,
    most: int,
    right: int | None,
    windows: int,
    rows: int,
    prefill: int,
    positions: int,
    is_token_streaming: bool,
) -> None:
    changed = HiggsSettings(
        first_window_frames=first,
        max_window_frames=most,
        first_right_context_frames=right,
        max_windows_per_tick=windows,
        max_block_rows=rows,
        max_prefill_tokens=prefill,
        max_context_tokens=positions,
        is_token_streaming=is_token_streaming,
        max_sequences=2,
    )
    try:
        model = HiggsModel.load(tiny_folder, changed)
    except ModelLoadError:
        return
    driver = SyncDriver(model, tick_s=0.02)
    utterances = [driver.open(SpeechRequest("default", 3), f"lane {number}") for number in range(2)]
    for utterance in utterances:
        driver.feed(utterance, Segment.verbatim(TEXT))
        driver.finish(utterance)
    for _ in range(MAX_TICKS):
        if not driver.tick():
            break
    assert not driver.failures
    assert all(driver.chunks[utterance][-1].is_final for utterance in utterances)


@pytest.mark.parametrize("is_token_streaming", [False, True])
def test_a_voice_that_leaves_no_room_for_a_sentence_is_refused_when_it_is_added_and_when_it_is_met(
    tiny_folder: Path, tmp_path: Path, is_token_streaming: bool
) -> None:
    options = {"token_streaming": is_token_streaming, "max_voice_s": 5}
    roomy = HiggsModel.load(tiny_folder, read_settings("cpu", tmp_path, options))
    narrow = HiggsModel.load(tiny_folder, read_settings("cpu", tmp_path, {**options, "max_context_tokens": 900}))
    assert roomy.voices is not None
    assert narrow.voices is not None
    transcript = "It reads and reads. " * 90
    wanted = VoiceUpload(packed(speech(4.0)), "Ada", None, "I am the speaker.", transcript)
    with pytest.raises(VoiceRejectedError, match=r"take [\d,]+ positions .* a sentence after them .* there are 900"):
        narrow.voices.add(wanted)
    voice = roomy.voices.add(wanted)
    assert roomy.prepare_prompt(SpeechRequest(voice.id, 1)).tokens > 400
    narrow.warm_up()
    assert narrow.voices.shared() == ()
    with pytest.raises(VoiceNotFoundError):
        narrow.prepare_prompt(SpeechRequest(voice.id, 1))
    short = narrow.voices.add(replace(wanted, transcript="It reads."))
    assert narrow.voices.shared() == (short,)
