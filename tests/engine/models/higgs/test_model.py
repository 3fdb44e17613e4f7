"""HiggsModel under the scheduler: whatever happens to a context, it equals one prefill of the whole prompt at once."""

from __future__ import annotations

import gc
import itertools
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from engine.core.step import DecodeItem, Piece, PrefillItem, StepPlan, VocodeItem  # noqa: E402
from engine.errors import CapacityError, ModelLoadError, TooLongError, VoiceNotFoundError  # noqa: E402
from engine.models.higgs.config import HiggsSettings  # noqa: E402
from engine.models.higgs.model import HiggsModel  # noqa: E402
from engine.runtime.attention import Span as Rows  # noqa: E402
from engine.runtime.runaway import RunawayLimits  # noqa: E402
from engine.speech import Control, Sampling, Segment, Span, SpeechRequest  # noqa: E402
from tests.fakes.fake_driver import SyncDriver  # noqa: E402
from tests.fakes.kv_witness import KvWitness, WitnessedBlock  # noqa: E402

SETTINGS = HiggsSettings(
    max_sequences=6,
    max_decode_batch=6,
    max_prefill_tokens=48,
    page_tokens=4,
    max_context_tokens=1024,
    max_block_rows=60,
    is_rope_rounded=False,
    runaway=RunawayLimits(max_silence_s=60.0, max_repeat_s=60.0, silence_level=1e-4),
)
TEXTS = (
    "Hello there, my friend.",
    " How are you today?",
    " 你好，世界。",
    " مرحبا بك!",
    " Gut, danke.",
    " नमस्ते।",
    " สวัสดี",
)
WINDOW_TOLERANCE = 1e-4
"""float32 samples of one block in windows against its one decode."""


def segment(text: str, start: int = 0, controls: tuple[Control, ...] = ()) -> Segment:
    return Segment.verbatim(text, "sentence", start, controls)


def segments(*texts: str) -> list[Segment]:
    placed, start = [], 0
    for text in texts:
        placed.append(segment(text, start))
        start += len(text)
    return placed


def request(seed: int = 2, voice: str = "default", **sampling: Any) -> SpeechRequest:
    return SpeechRequest(voice, seed, sampling=Sampling(**sampling))


def load(folder: Path, **changes: Any) -> HiggsModel:
    return HiggsModel.load(folder, replace(SETTINGS, **changes))


@pytest.fixture
def witness(tiny_folder: Path) -> KvWitness:
    return KvWitness(load(tiny_folder))


# --- one growing context ----------------------------------------------------------------------------------------------


def test_blocks_of_one_lane_are_spoken_in_one_context(witness: KvWitness, qwen3: Any) -> None:
    driver = SyncDriver(witness)
    chunks = driver.speak(request(), *segments(*TEXTS[:4]))
    assert sum(chunk.is_segment_end for chunk in chunks) == 4
    assert witness.check(qwen3) > 60
    *before, last = witness.blocks.values()
    whole = [block for block in before if block.is_finished]
    assert len(whole) >= 2  # the one that ran into its limit is not among them: it never enters the history
    wanted = [(last_unit,) for last_unit in witness.prepare_prompt(request()).payload.ids]
    for block in whole:
        wanted += [*((number,) for number in block.text), *block.rows]
    wanted += [*((number,) for number in last.text), *last.rows[:-1]]
    assert last.context == wanted


def test_many_lanes_that_start_stall_and_finish_share_every_tick(witness: KvWitness, qwen3: Any) -> None:
    driver = SyncDriver(witness, reads=True)
    utterances = []
    for number, text in enumerate(TEXTS[:5]):
        utterance = driver.open(request(seed=number), lane=f"lane {number}")
        driver.feed(utterance, segment(text))
        utterances.append(utterance)
        for _ in range(3 + number):
            driver.tick()
    driver.cancel(utterances[1], 0, 0)
    driver.feed(utterances[0], segment(TEXTS[1], len(TEXTS[0])))
    for utterance in utterances:
        driver.finish(utterance)
    driver.run()
    assert witness.max_rows_in_a_tick >= 4
    assert witness.check(qwen3) > 100


def test_a_block_after_a_barge_in_is_spoken_after_what_was_heard(witness: KvWitness, qwen3: Any) -> None:
    driver = SyncDriver(witness)
    first = driver.open(request())
    for placed in segments(*TEXTS[:2]):
        driver.feed(first, placed)
    while sum(len(chunk.pcm) for chunk in driver.chunks[first]) < 12 * 960:
        driver.tick()
    driver.cancel(first, 9 * 960 + 100, 6)
    second = driver.open(request(seed=9))
    driver.feed(second, segment("And now this."))
    driver.finish(second)
    driver.run()
    sequence, number = max(witness.blocks)
    assert witness.check(qwen3) > 20
    codes = torch.tensor([unit for unit in witness.blocks[sequence, number].context if len(unit) > 1])
    kept = codes[: 9 + 7]
    pattern = witness.model._pattern
    assert torch.equal(pattern.staggered(pattern.frames(kept)), kept)
    assert kept[:9, 0].tolist() == [row[0] for row in witness.blocks[sequence, 0].rows[:9]]
    assert (kept[9:, 0] == pattern.end).all()


def test_a_window_that_moves_is_prefilled_anew_and_holds_only_its_blocks(tiny_folder: Path, qwen3: Any) -> None:
    witness = KvWitness(load(tiny_folder, history_blocks=2, max_block_rows=20))
    driver = SyncDriver(witness)
    driver.speak(request(), *segments(*TEXTS))
    assert len(witness.blocks) == len(TEXTS)
    assert witness.check(qwen3) > 100
    for block in witness.blocks.values():
        starts = [unit for unit in block.context if unit == (block.text[0],)]
        assert len(starts) <= 3


def test_without_history_every_block_stands_alone(tiny_folder: Path, qwen3: Any) -> None:
    witness = KvWitness(load(tiny_folder, history_blocks=0, max_block_rows=20))
    SyncDriver(witness).speak(request(), *segments(*TEXTS[:3]))
    assert witness.check(qwen3) > 20
    for block in witness.blocks.values():
        assert len(block.context) == 1 + len(block.text) + len(block.rows) - 1


def test_a_sequence_that_lost_its_pages_comes_back_by_prefilling_its_rows(tiny_folder: Path, qwen3: Any) -> None:
    witness = KvWitness(load(tiny_folder, kv_tokens=240))
    driver = SyncDriver(witness)
    for round_number in range(3):
        for lane in ("a", "b", "c"):
            utterance = driver.open(request(), lane)
            driver.feed(utterance, segment(TEXTS[round_number]))
            driver.finish(utterance)
        driver.run()
    assert not driver.failures
    assert witness.check(qwen3) > 100
    texts = sum(len(block.text) + 1 for block in witness.blocks.values())
    assert sum(witness.prefilled.values()) > texts + 50  # rows decoded before were prefilled


def test_without_the_staircase_marks_are_taken_as_drawn(tiny_folder: Path, qwen3: Any) -> None:
    witness = KvWitness(load(tiny_folder, has_eoc_staircase=False))
    SyncDriver(witness).speak(request(top_k=1026, top_p=1.0, temperature=3.0), *segments(*TEXTS[:3]))
    assert witness.check(qwen3) > 50


def test_a_prompt_longer_than_a_tick_is_prefilled_in_chunks(tiny_folder: Path, qwen3: Any) -> None:
    witness = KvWitness(load(tiny_folder, max_prefill_tokens=7))
    SyncDriver(witness).speak(request(), *segments(*TEXTS[:2]))
    assert witness.check(qwen3) > 20


# --- text that is streamed --------------------------------------------------------------------------------------------


def words(text: str) -> list[Segment]:
    """As the front-end gives a family whose unit is the word: each with the space before it."""
    cuts = [0, *(place for place, char in enumerate(text) if char == " "), len(text)]
    parts = [text[start:end] for start, end in itertools.pairwise(cuts)]
    placed = [replace(one, boundary="forced") for one in segments(*parts)]
    return [*placed[:-1], replace(placed[-1], boundary="end")]


def runs_of(block: WitnessedBlock) -> list[int]:
    """How many rows stand between one text and the next, with the row that was not fed."""
    kinds = "".join("r" if len(unit) > 1 else "t" for unit in block.context) + "r"
    return [len(run) for run in kinds.split("t") if run]


STREAMING: dict[str, Any] = {"is_token_streaming": True, "max_block_rows": 1600, "max_context_tokens": 4000}
STREAMED = "Well, it speaks before the sentence is over and goes on as the words come."


@pytest.mark.parametrize("ticks_between", [0, 3, 100])
def test_streamed_text_goes_in_token_by_token_between_the_rows(
    tiny_folder: Path, qwen3: Any, ticks_between: int
) -> None:
    witness = KvWitness(load(tiny_folder, **STREAMING))
    driver = SyncDriver(witness)
    utterance = driver.open(request())
    for word in words(STREAMED):
        driver.feed(utterance, word)
        for _ in range(ticks_between):
            driver.tick()
    driver.finish(utterance)
    driver.run()
    (block,) = witness.blocks.values()
    assert not driver.failures
    assert witness.check(qwen3) == len(block.rows)
    tokenizer = witness.model._writer._tokenizer
    marks = [tokenizer.special(name) for name in ("<|streaming_tts|>", "<|text|>", "<|audio|>", "<|text_end|>")]
    ids = [unit[0] for unit in block.context if len(unit) == 1]
    assert ids[:2] == marks[:2]
    assert [number for number in ids if number not in marks] == tokenizer.encode(STREAMED), "as if written at once"
    assert ids[-2:] == [marks[3], marks[2]]
    opening = len(witness.decisions)
    *runs, last = runs_of(block)
    assert runs == [11, *[4] * (len(runs) - 1)]
    assert len(runs) == len(tokenizer.encode(STREAMED)) - opening + 1
    assert last >= 1
    assert sum(len(chunk.pcm) for chunk in driver.chunks[utterance]) == (len(block.rows) - 7) * 960


def test_before_the_first_row_the_text_head_decides(tiny_folder: Path, qwen3: Any) -> None:
    """Its two answers are both met, over texts, and each is what transformers' logits say."""
    witness = KvWitness(load(tiny_folder, **STREAMING))
    driver = SyncDriver(witness)
    for number, text in enumerate((STREAMED, "Oh?", "你好，世界。", "Gut, danke. Und dir?", "Twelve and one")):
        driver.speak(request(seed=number), *words(text), lane=text)
    assert {decision.may_begin for decision in witness.decisions} == {False, True}
    assert witness.check(qwen3) > 100


def test_each_streamed_utterance_begins_afresh_after_its_voice(tiny_folder: Path, qwen3: Any) -> None:
    witness = KvWitness(load(tiny_folder, **STREAMING))
    driver = SyncDriver(witness)
    for text in ("One turn.", "And another one."):
        driver.speak(request(), *words(text))
    witness.check(qwen3)
    for block in witness.blocks.values():
        assert len([unit for unit in block.context if len(unit) > 1]) == len(block.rows) - 1


def test_streamed_text_may_not_end_before_it_has_ended(tiny_folder: Path) -> None:
    """Also where marks are taken as drawn, at a temperature at which an end would soon be drawn."""
    for has_staircase in (True, False):
        witness = KvWitness(load(tiny_folder, **STREAMING, has_eoc_staircase=has_staircase))
        for seed in range(3):
            SyncDriver(witness).speak(request(seed, top_k=1026, top_p=1.0, temperature=9.0), *words(STREAMED))
        for block in witness.blocks.values():
            *runs, last = runs_of(block)
            open_rows = torch.tensor(block.rows[8 : sum(runs)])
            assert (open_rows[:, 0] != witness.model._pattern.end).all()
            assert len(runs) > 5
            assert last > 0


def test_streamed_tags_stand_where_they_were_written(tiny_folder: Path) -> None:
    witness = KvWitness(load(tiny_folder, **STREAMING))
    pause = Control("prosody", "pause", 1, Span(2, 3))
    sadness = Control("emotion", "sadness", 0, Span(0, 0))
    first, second, third = words("So here goes")
    tagged = [replace(first, controls=(sadness,)), replace(second, controls=(pause,)), third]
    SyncDriver(witness).speak(SpeechRequest("default", 1, speed=1.4), *tagged)
    (block,) = witness.blocks.values()
    tokenizer = witness.model._writer._tokenizer
    names = ("<|emotion:sadness|>", "<|prosody:speed_very_fast|>", "<|prosody:pause|>")
    sad, fast, rest = (tokenizer.special(name) for name in names)
    space, here = tokenizer.encode(" "), tokenizer.encode(" here")
    wanted = [sad, fast, *tokenizer.encode("So"), *space, rest, *here, *tokenizer.encode(" goes")]
    assert list(block.text) == wanted


def test_a_checkpoint_without_the_tokens_for_it_cannot_stream(tiny_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_folder, tmp_path / "old")
    path = tmp_path / "old" / "tokenizer.json"
    path.write_text(path.read_text().replace("<|text_end|>", "<|text_fin|>"))
    with pytest.raises(ModelLoadError, match=r"cannot stream text: it lacks the tokens <\|text_end\|>"):
        load(tmp_path / "old", is_token_streaming=True)


def test_words_of_streamed_text_are_told_in_order_and_within_its_sound(tiny_folder: Path) -> None:
    model = load(tiny_folder, **STREAMING)
    chunks = SyncDriver(model).speak(request(), *words(STREAMED))
    told = [word for chunk in chunks for word in chunk.words]
    assert [STREAMED[word.start_char : word.end_char] for word in told] == re.findall(r"\w+", STREAMED)
    samples = sum(len(chunk.pcm) for chunk in chunks)
    assert all(0 <= word.start_sample <= word.end_sample <= samples for word in told)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    budget=st.integers(1, 9),
    lanes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9), st.booleans()), min_size=1, max_size=3),
)
def test_streamed_text_is_fed_right_however_its_prefill_is_cut(
    tiny_folder: Path, qwen3: Any, budget: int, lanes: list[tuple[int, int, bool]]
) -> None:
    """Every mark and token has its effect in whichever item it comes; lanes share the budget."""
    witness = KvWitness(load(tiny_folder, **STREAMING | {"max_prefill_tokens": budget, "kv_tokens": 12_000}))
    driver = SyncDriver(witness)
    for number, (count, ticks, is_cancelled) in enumerate(lanes):
        utterance = driver.open(request(number), lane=f"lane {number}")
        for word in words("A few, short words")[:count]:
            driver.feed(utterance, word)
            for _ in range(ticks):
                driver.tick()
        driver.finish(utterance)
        if is_cancelled:
            driver.cancel(utterance, 0, 0)
    driver.run()
    assert not driver.failures
    witness.check(qwen3)


@pytest.mark.parametrize("budget", [1, 2, 3, 7])
def test_an_end_of_text_may_come_in_an_item_of_its_own(tiny_folder: Path, budget: int) -> None:
    """Else the block would be forbidden to end, and speak on to its limit."""
    model = load(tiny_folder, **STREAMING | {"max_prefill_tokens": budget})
    driver = SyncDriver(model)
    utterance = driver.open(request())
    driver.feed(utterance, replace(segment("O"), boundary="end"))
    while driver.scheduler.counters.rows < 13:
        driver.tick()
    (state,) = model._sequences.values()
    assert state.blocks[0].may_end


@pytest.mark.parametrize("place", ["rows", "frames", "cut", "_grow"])
def test_want_of_memory_anywhere_is_one_sequences_trouble(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Not its batch's, and never the engine's."""
    model = load(tiny_folder, max_block_rows=24)
    driver = SyncDriver(model)
    first, *others = (driver.open(request(number), lane=f"lane {number}") for number in range(3))
    for utterance in (first, *others):
        for placed in segments(*TEXTS[:2]):
            driver.feed(utterance, placed)
    while len(driver.pcm(first)) == 0:
        driver.tick()
    original = getattr(model._rows, place)
    is_done = False

    def scarce(*arguments: Any) -> Any:
        nonlocal is_done
        if not is_done:
            is_done = True
            raise torch.OutOfMemoryError("no room")
        return original(*arguments)

    monkeypatch.setattr(model._rows, place, scarce)
    if place == "_grow":
        model._rows._free.clear()
    if place == "cut":
        driver.cancel(first, 960, 3)
        first = driver.open(request(9), lane="lane 0")
        driver.feed(first, segment("And now this."))
    for utterance in (first, *others):
        driver.finish(utterance)
    driver.run()
    assert is_done
    assert len(driver.failures) <= 1
    if place != "cut":  # what was heard is lost then; the failure says that it is not there
        assert set(driver.failures.values()) <= {"the device ran out of memory"}
    for utterance in {first, *others} - driver.failures.keys():
        assert driver.chunks[utterance][-1].is_final
    assert driver.speak(request(11), segment("Once more."), lane="lane 0")[-1].is_final


# --- nothing to be spoken ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_token_streaming", [False, True])
def test_white_space_at_the_end_is_no_prompt(tiny_folder: Path, is_token_streaming: bool) -> None:
    """A prompt without words would be answered with invented speech."""
    witness = KvWitness(load(tiny_folder, **(STREAMING if is_token_streaming else {})))
    chunks = SyncDriver(witness).speak(request(), segment("Good day."), segment("", 9), segment("   ", 9))
    assert sum(chunk.is_segment_end for chunk in chunks) == 3
    assert len(witness.blocks) == 1


# --- the same whatever runs beside it ---------------------------------------------------------------------------------


def spoken(model: HiggsModel, beside: int, prefill_ticks: int = 0) -> tuple[Any, list[Any]]:
    """(pcm, rows) of one lane's two blocks, with other lanes that start, stall, finish and are cancelled."""
    witness = KvWitness(model)
    driver = SyncDriver(witness)
    others = []
    for number in range(beside):
        other = driver.open(request(seed=100 + number), lane=f"other {number}")
        driver.feed(other, segment(TEXTS[number % len(TEXTS)] * (1 + number % 3)))
        others.append(other)
        for _ in range(number + prefill_ticks):
            driver.tick()
    mine = driver.open(request(seed=3), lane="mine")
    for placed in segments(*TEXTS[:2]):
        driver.feed(mine, placed)
    driver.finish(mine)
    for number, other in enumerate(others):
        for _ in range(2):
            driver.tick()
        if number % 2:
            driver.cancel(other, 0, 0)
        else:
            driver.finish(other)
    driver.run()
    sequence = max(sequence for sequence, _ in witness.blocks)
    return driver.pcm(mine), [witness.blocks[sequence, number].rows for number in (0, 1)]


def test_codes_and_sound_are_the_same_alone_and_beside_others(tiny_folder: Path) -> None:
    pcm, rows = spoken(load(tiny_folder), beside=0)
    for beside in (1, 4):
        other_pcm, other_rows = spoken(load(tiny_folder), beside)
        assert other_rows == rows
        np.testing.assert_allclose(other_pcm, pcm, atol=WINDOW_TOLERANCE * np.abs(pcm).max())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_deterministic_mode_gives_the_same_bits_in_any_batch_and_any_chunking(tiny_folder: Path, dtype: str) -> None:
    rows = []
    for beside, max_prefill_tokens, decode_batch in ((0, 48, 6), (3, 5, 6), (4, 48, 6)):
        model = load(
            tiny_folder, dtype=dtype, is_deterministic=True, max_prefill_tokens=max_prefill_tokens,
            max_decode_batch=decode_batch, split_tokens=32,
        )  # fmt: skip
        rows.append(spoken(model, beside)[1])
    assert rows[0] == rows[1] == rows[2]


def test_the_same_seed_draws_the_same_whatever_was_said_before(tiny_folder: Path) -> None:
    def rows_after(blocks_before: int) -> Any:
        witness = KvWitness(load(tiny_folder, history_blocks=0))
        driver = SyncDriver(witness)
        if blocks_before:
            driver.speak(request(seed=1), *segments(*TEXTS[:blocks_before]))
        driver.speak(request(seed=5), *segments(TEXTS[0]))
        return witness.blocks[max(witness.blocks)].rows

    assert rows_after(0) == rows_after(2)


def test_another_seed_speaks_otherwise(tiny_folder: Path) -> None:
    model = load(tiny_folder)
    first = SyncDriver(model).speak(request(seed=1), segment(TEXTS[0]))
    second = SyncDriver(load(tiny_folder)).speak(request(seed=2), segment(TEXTS[0]))
    assert not np.array_equal(first[0].pcm, second[0].pcm)


# --- sound ------------------------------------------------------------------------------------------------------------


def whole_block(witness: KvWitness, number: int) -> Any:
    """A block's one decode, as it should be heard: float32, faded at its two edges."""
    block = next(block for (_, n), block in witness.blocks.items() if n == number)
    frames = witness.model._pattern.frames(torch.tensor(block.rows))
    with torch.inference_mode():
        pcm = witness.model._parts.decoder(frames[None])[0].numpy().copy()
    phase = (np.arange(120) + 0.5) / 120
    rise = 0.5 - 0.5 * np.cos(np.pi * phase)
    pcm[:120] *= rise
    pcm[-120:] *= rise[::-1]
    return pcm


def test_a_blocks_chunks_joined_equal_its_one_decode(witness: KvWitness) -> None:
    driver = SyncDriver(witness, tick_s=0.01)
    chunks = driver.speak(request(), *segments(*TEXTS[:2]))
    assert len(chunks) > 4
    pcm = np.concatenate([chunk.pcm for chunk in chunks])
    wanted = np.concatenate([whole_block(witness, 0), whole_block(witness, 1)])
    assert np.abs(pcm - wanted).max() < WINDOW_TOLERANCE * np.abs(wanted).max()


def test_a_first_window_with_less_right_context_comes_earlier_and_only_its_end_differs(tiny_folder: Path) -> None:
    def speak(right: int | None) -> tuple[Any, Any, int]:
        witness = KvWitness(load(tiny_folder, first_right_context_frames=right))
        driver = SyncDriver(witness)
        utterance = driver.open(request())
        driver.feed(utterance, segment(TEXTS[0]))
        driver.finish(utterance)
        ticks = 0
        while not driver.chunks[utterance]:
            driver.tick()
            ticks += 1
        driver.run()
        return driver.pcm(utterance), whole_block(witness, 0), ticks

    exact, wanted, late = speak(None)
    pcm, _, early = speak(6)
    assert early == late - 4
    first, overlap = 5 * 960, 480
    error = np.abs(pcm - wanted) / np.abs(wanted).max()
    assert 0.001 < error[: first + overlap].max() < 0.5
    assert error[first + overlap :].max() < WINDOW_TOLERANCE
    usual = np.abs(np.diff(exact))[first - 2400 : first + 2400].max()
    assert np.abs(np.diff(pcm))[first - 1] <= usual


def test_words_are_estimated_in_order_inside_the_audio_and_before_their_segment_ends(witness: KvWitness) -> None:
    text = TEXTS[0] + TEXTS[1]
    chunks = SyncDriver(witness).speak(request(), *segments(*TEXTS[:2]))
    words = [word for chunk in chunks for word in chunk.words]
    assert [text[word.start_char : word.end_char] for word in words] == [
        "Hello", "there", "my", "friend", "How", "are", "you", "today",
    ]  # fmt: skip
    samples = sum(len(chunk.pcm) for chunk in chunks)
    places = [place for word in words for place in (word.start_sample, word.end_sample)]
    assert places == sorted(places)
    assert places[-1] <= samples
    ends = [index for index, chunk in enumerate(chunks) if chunk.is_segment_end]
    assert sum(len(chunk.words) for chunk in chunks[: ends[0] + 1]) == 4


# --- trouble stays with its sequence ----------------------------------------------------------------------------------


def test_a_block_that_repeats_itself_is_ended_and_reported(tiny_folder: Path) -> None:
    limits = RunawayLimits(max_silence_s=60.0, max_repeat_s=0.3, silence_level=1e-4)
    model = load(tiny_folder, runaway=limits, has_eoc_staircase=True)
    with torch.no_grad():
        model._parts.codebooks.embedding.zero_()  # every logit equal: greedy repeats code 0
    driver = SyncDriver(model)
    chunks = driver.speak(request(top_k=1), segment(TEXTS[0]))
    assert driver.scheduler.counters.runaway == 1
    assert any(notice.code == "speech_truncated" for chunk in chunks for notice in chunk.notices)


def test_a_sequence_whose_numbers_are_no_numbers_fails_alone(tiny_folder: Path) -> None:
    model = load(tiny_folder)
    ids = model.prepare(segment("é"), request()).payload.ids
    with torch.no_grad():
        model._parts.backbone.text_embedding[ids[1]] = torch.nan
    driver = SyncDriver(model)
    bad, good = driver.open(request(), "bad"), driver.open(request(), "good")
    driver.feed(bad, segment("é"))
    driver.feed(good, segment("Hello"))
    driver.finish(bad)
    driver.finish(good)
    driver.run()
    assert "no number" in driver.failures[bad]
    assert good not in driver.failures
    assert driver.chunks[good][-1].is_final


def test_a_plan_that_does_not_fit_fails_its_items_and_no_others(tiny_folder: Path) -> None:
    model = load(tiny_folder)
    plan = StepPlan(
        0,
        prefill=(PrefillItem(5, (Piece("audio", 3, 0, 2, None),), 0, (0,), None),),
        decode=(DecodeItem(6, 0, 1, 4, (0, 1)),),
        vocode=(VocodeItem(7, 0, 0, 5, 0, 0, False),),
    )
    result = model.execute(plan)
    assert [(failure.sequence, failure.block) for failure in result.failures] == [(5, 3), (6, 0), (7, 0)]
    assert not result.rows
    assert not result.windows


@pytest.mark.parametrize("stage", ["backbone", "decoder"])
def test_what_does_not_fit_the_device_alone_fails_alone(
    tiny_folder: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tiny_folder)
    part = getattr(model._parts, stage)
    forward = part.forward
    limit = {"backbone": 12, "decoder": 1}[stage]

    def scarce(x: Any, *rest: Any) -> Any:
        if x.shape[0] > limit:
            raise torch.OutOfMemoryError("no room")
        return forward(x, *rest)

    monkeypatch.setattr(part, "forward", scarce)
    driver = SyncDriver(model)
    long, short = driver.open(request(), "long"), driver.open(request(), "short")
    driver.feed(long, segment(TEXTS[0] * 2))
    driver.feed(short, segment("Hi"))
    driver.finish(long)
    driver.finish(short)
    driver.run()
    assert short not in driver.failures
    assert (long in driver.failures) == (stage == "backbone")


def test_a_model_that_does_not_fit_is_refused_before_it_is_loaded(tiny_folder: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"KV pages: [\d,]+ MiB"):
        load(tiny_folder, kv_tokens=10**12)


def test_an_unknown_voice_is_refused_with_those_there_are(tiny_folder: Path) -> None:
    with pytest.raises(VoiceNotFoundError) as error:
        load(tiny_folder).prepare_prompt(request(voice="nobody"))
    assert error.value.known == ("default",)


@pytest.mark.parametrize(
    "sampling", [{"top_k": 0}, {"top_k": 10**9}, {"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 9.0}]
)
def test_odd_sampling_values_of_one_request_do_no_harm(tiny_folder: Path, sampling: dict[str, Any]) -> None:
    driver = SyncDriver(load(tiny_folder, max_block_rows=12))
    assert driver.speak(request(**sampling), segment(TEXTS[0]))[-1].is_final


def test_a_segment_of_too_many_tokens_is_refused_with_the_limit(tiny_folder: Path) -> None:
    model = load(tiny_folder, max_text_tokens=100)
    with pytest.raises(TooLongError, match=r"the segment has \d+ tokens, at most 100"):
        model.prepare(segment("word " * 100), request())


def test_bfloat16_stays_close_to_float32(tiny_folder: Path) -> None:
    logits = []
    for dtype in ("float32", "bfloat16"):
        model = load(tiny_folder, dtype=dtype)
        SyncDriver(model).speak(request(), segment(TEXTS[0]))
        batch = [Rows(0, 20, (0, 1, 2, 3, 4))]
        x = model._parts.backbone.embed_text(torch.arange(20))
        with torch.inference_mode():
            hidden = model._runner.run(x, batch, [], list(range(20)))
            logits.append(model._parts.codebooks.logits(hidden))
    error = (logits[0] - logits[1]).norm() / logits[0].norm()
    assert 0 < error < 0.03


# --- anything may happen ----------------------------------------------------------------------------------------------


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["feed", "tick", "tick", "cancel", "finish", "stall"]),
            st.integers(0, 3),
            st.integers(0, 99),
        ),
        min_size=5,
        max_size=30,
    ),
    pages=st.sampled_from([40, 60, 200]),
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_every_block_is_that_of_a_one_shot_prompt(
    tiny_folder: Path, qwen3: Any, steps: list[tuple[str, int, int]], pages: int
) -> None:
    witness = KvWitness(
        load(tiny_folder, kv_tokens=pages * 4, max_block_rows=30, history_blocks=2, max_prefill_tokens=20)
    )
    with torch.no_grad():
        witness.model._parts.codebooks.embedding[witness.model._pattern.end] *= 3.0  # most blocks end in time
    driver = SyncDriver(witness, tick_s=0.01)
    open_in: dict[str, tuple[int, int]] = {}
    for action, lane_number, value in steps:
        lane = f"lane {lane_number}"
        if action == "tick":
            for _ in range(value % 12):
                driver.tick()
        elif action == "stall":
            driver.reads = not driver.reads
        elif action == "feed":
            utterance, chars = open_in.get(lane) or (driver.open(request(seed=value), lane), 0)
            text = TEXTS[value % len(TEXTS)]
            driver.feed(utterance, segment(text, chars))
            open_in[lane] = utterance, chars + len(text)
        elif lane in open_in:
            utterance, chars = open_in.pop(lane)
            driver.finish(utterance)
            if action == "cancel":
                samples = sum(len(chunk.pcm) for chunk in driver.chunks[utterance])
                driver.cancel(utterance, samples * value // 100, chars * value // 100)
    for utterance, _ in open_in.values():
        driver.finish(utterance)
    driver.reads = True
    for utterance, chunks in driver.chunks.items():
        known = driver.scheduler.utterance(utterance)
        if known is not None and known.unread_samples:
            driver.scheduler.read(utterance, known.unread_samples)
        assert chunks is not None
    driver.run()
    assert not driver.failures
    witness.check(qwen3)


def test_forgotten_sequences_leave_nothing_behind(tiny_folder: Path) -> None:
    witness = KvWitness(load(tiny_folder, max_block_rows=15))
    driver = SyncDriver(witness)
    for _ in range(3):
        driver.speak(request(), *segments(*TEXTS[:2]))
        driver.close()
        driver.speak(request(), segment(TEXTS[0]), lane="other")
        driver.close("other")
    driver.speak(request(), segment("x"), lane="last")
    driver.close("last")
    utterance = driver.open(request())
    driver.feed(utterance, segment("y"))
    driver.tick()
    model = witness.model
    assert len(model._sequences) == 1
    assert len(model._rows._slots) == 1


def test_the_tiny_checkpoint_by_name_calls_itself_untrained() -> None:
    model = HiggsModel.load("tiny", SETTINGS)
    model.warm_up()
    assert "untrained" in model.info.name
    assert "noise" in model.info.voices[0].description
    assert "non-commercial" in model.licence
    model.close()


def test_a_name_that_is_no_folder_and_no_repository_is_refused() -> None:
    with pytest.raises(ModelLoadError, match="no folder"):
        HiggsModel.load("/nowhere/at/all", SETTINGS)


# --- cloned voices ----------------------------------------------------------------------------------------------------


def cloned(model: HiggsModel, seconds: float, transcript: str | None = None) -> str:
    from engine.voice_store import VoiceUpload
    from tests.engine.test_voice_audio import packed, speech

    assert model.voices is not None
    return model.voices.add(VoiceUpload(packed(speech(seconds)), "Ada", None, "I am the speaker.", transcript)).id


def test_a_cloned_voice_leads_the_context_with_its_rows(tiny_folder: Path, tmp_path: Path, qwen3: Any) -> None:
    witness = KvWitness(load(tiny_folder, voices=tmp_path))
    voice = cloned(witness.model, 3.0, "Hello there.")
    assert witness.info.can_clone
    assert witness.model.voices is not None
    assert voice in [known.id for known in witness.model.voices.shared()]
    driver = SyncDriver(witness)
    driver.speak(request(voice=voice), *segments(*TEXTS[:2]))
    assert witness.check(qwen3) > 20
    rows = [unit for unit in next(iter(witness.blocks.values())).context if len(unit) > 1][: 75 + 7]
    pattern = witness.model._pattern
    reference = witness.model.voices.reference(voice)
    assert torch.equal(pattern.staggered(torch.from_numpy(reference.codes.astype(np.int64))), torch.tensor(rows))


def test_lanes_of_one_voice_share_its_pages_and_other_voices_do_not(
    tiny_folder: Path, tmp_path: Path, qwen3: Any
) -> None:
    witness = KvWitness(load(tiny_folder, voices=tmp_path))
    voices = [cloned(witness.model, 3.0), cloned(witness.model, 3.0, "Same length, other transcript.")]
    driver = SyncDriver(witness)
    utterances = []
    for number, voice in enumerate((voices[0], voices[0], voices[1])):
        utterance = driver.open(request(voice=voice), lane=f"lane {number}")
        driver.feed(utterance, segment(TEXTS[0]))
        driver.finish(utterance)
        utterances.append(utterance)
    driver.run()
    assert witness.check(qwen3) > 50
    assert np.array_equal(driver.pcm(utterances[0]), driver.pcm(utterances[1]))
    assert not np.array_equal(driver.pcm(utterances[0]), driver.pcm(utterances[2]))
    prefilled = list(witness.prefilled.values())
    assert prefilled[1] < prefilled[0] - 50


def test_a_prompts_key_names_codes_and_transcript(tiny_folder: Path, tmp_path: Path) -> None:
    model = load(tiny_folder, voices=tmp_path)
    keys = [
        model.prepare_prompt(request(voice=cloned(model, seconds, transcript))).key
        for seconds, transcript in ((3.0, None), (3.0, "One."), (3.2, "One."), (3.0, "One."))
    ]
    assert len(set(keys)) == 3
    assert keys[1] == keys[3]


def test_a_prompt_is_made_once_and_goes_with_its_voice(tiny_folder: Path, tmp_path: Path) -> None:
    model = load(tiny_folder, voices=tmp_path)
    voice = cloned(model, 3.0)
    assert model.voices is not None
    prompt = model.prepare_prompt(request(voice=voice))
    assert model.prepare_prompt(request(voice=voice)) is prompt
    assert model.prepare_prompt(request()) is model.prepare_prompt(request())
    model.voices.delete(voice, None)
    with pytest.raises(VoiceNotFoundError):
        model.prepare_prompt(request(voice=voice))
    gc.collect()
    assert not model._prompts
    assert cloned(model, 3.0) == voice
    assert model.prepare_prompt(request(voice=voice)).key == prompt.key


def test_voices_of_an_earlier_run_are_ready_after_the_warm_up(tiny_folder: Path, tmp_path: Path) -> None:
    voice = cloned(load(tiny_folder, voices=tmp_path), 3.0)
    for path in (tmp_path / voice).glob("codes-*"):
        path.unlink()  # as if another codec had made them
    model = load(tiny_folder, voices=tmp_path)
    with pytest.raises(VoiceNotFoundError):
        model.prepare_prompt(request(voice=voice))
    model.warm_up()
    assert model.prepare_prompt(request(voice=voice)).tokens > 75


def test_a_recording_that_finds_no_memory_is_refused_for_now(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tiny_folder, voices=tmp_path)

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(model._parts.encoder, "forward", full)
        with pytest.raises(CapacityError, match="no memory for the recording"):
            cloned(model, 3.0)
    assert cloned(model, 3.0)
