"""Token layout: golden ids of the real tokenizer, tags as single tokens, and user text that cannot forge one."""

from __future__ import annotations

import base64
import importlib.util
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")
from engine.errors import ModelLoadError
from engine.models.higgs.prompt import TAGS, PromptTokenizer, PromptWriter, TextBlock
from engine.models.higgs.tiny_checkpoint import add_special_tokens, byte_level, special_tokens
from engine.speech import Control, Pronunciation, Segment, Span, SpeechRequest


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> PromptTokenizer:
    return PromptTokenizer(tiny_folder / "tokenizer.json")


@pytest.fixture(scope="module")
def writer(tokenizer: PromptTokenizer) -> PromptWriter:
    return PromptWriter(tokenizer, codebooks=8, frames_per_s=25.0, max_block_rows=2048)


def control(name: str, at: int, amount: float | None = None) -> Control:
    category, value = name.split(":")
    return Control(category, value, at, Span(at, at), amount)  # type: ignore[arg-type]


def segment(text: str, *controls: Control, pronunciations: tuple[Pronunciation, ...] = ()) -> Segment:
    return replace(Segment.verbatim(text, "sentence", controls=controls), pronunciations=pronunciations)


def request(speed: float = 1.0) -> SpeechRequest:
    return SpeechRequest("default", 0, speed=speed)


def spelled(tokenizer: PromptTokenizer, ids: tuple[int, ...]) -> list[str]:
    """Specials by name, runs of ordinary tokens as their text."""
    names = {tokenizer.special(name): name for name in special_tokens()}
    out: list[str] = []
    run: list[int] = []
    for number in (*ids, None):
        if number is None or number in names:
            if run:
                out.append(tokenizer._tokenizer.decode(run, skip_special_tokens=False))
            run = []
            if number is not None:
                out.append(names[number])
        else:
            run.append(number)
    return out


def written(writer: PromptWriter, tokenizer: PromptTokenizer, *parts: Any, speed: float = 1.0) -> list[str]:
    return spelled(tokenizer, writer.text_block(segment(*parts), request(speed)).ids)


# --- layout -----------------------------------------------------------------------------------------------------------


def test_a_text_block_stands_between_text_and_audio(writer: PromptWriter, tokenizer: PromptTokenizer) -> None:
    assert written(writer, tokenizer, " Hello there. ") == ["<|text|>", "Hello there.", "<|audio|>"]


def test_prompts_of_the_three_kinds(writer: PromptWriter, tokenizer: PromptTokenizer) -> None:
    rows = np.zeros((9, 8), np.int64)
    bare = writer.voice_prompt(None, None, b"")
    assert (spelled(tokenizer, bare.ids), bare.tokens) == (["<|tts|>"], 1)
    silent = writer.voice_prompt(rows, None, b"k")
    assert (spelled(tokenizer, silent.ids), silent.tokens) == (["<|tts|>", "<|ref_audio|>"], 2 + 9)
    told = writer.voice_prompt(rows, "So it goes.", b"k")
    assert spelled(tokenizer, told.ids) == ["<|tts|>", "<|ref_text|>", "So it goes.", "<|ref_audio|>"]


def test_every_documented_tag_is_one_token_and_rendered(writer: PromptWriter, tokenizer: PromptTokenizer) -> None:
    names = [f"{category}:{value}" for category, values in TAGS.items() for value in values]
    assert len(names) == 43
    for name in names:
        assert writer.tag_support[name] == "rendered"
        block = writer.text_block(segment("Well then", control(name, 0)), request())
        assert tokenizer.special(f"<|{name}|>") in block.ids
        assert not block.notices


def test_state_tags_lead_and_inline_tags_stand_where_they_were(
    writer: PromptWriter, tokenizer: PromptTokenizer
) -> None:
    assert written(
        writer, tokenizer, "One two three",
        control("prosody:pause", 4), control("prosody:pitch_low", 0), control("emotion:fear", 0),
        control("style:singing", 8),
    ) == ["<|text|>", "<|emotion:fear|>", "<|prosody:pitch_low|>", "One ", "<|prosody:pause|>", " two ",
          "<|style:singing|>", " three", "<|audio|>"]  # fmt: skip


def test_of_several_states_of_one_kind_at_one_place_the_last_holds(
    writer: PromptWriter, tokenizer: PromptTokenizer
) -> None:
    found = written(writer, tokenizer, "Go", control("emotion:fear", 0), control("emotion:anger", 0))
    assert found == ["<|text|>", "<|emotion:anger|>", "Go", "<|audio|>"]
    found = written(writer, tokenizer, "Go", control("emotion:fear", 0), control("emotion:neutral", 0))
    assert found == ["<|text|>", "Go", "<|audio|>"]


def test_tags_carried_from_earlier_segments_lead_unless_the_segment_replaces_them(
    writer: PromptWriter, tokenizer: PromptTokenizer
) -> None:
    carried = (control("emotion:fear", 7), control("style:whispering", 3), control("prosody:speed", 1, 1.2))
    given = replace(segment("Go on", control("emotion:anger", 0), control("prosody:pitch_low", 3)), carried=carried)
    found = spelled(tokenizer, writer.text_block(given, request()).ids)
    assert found == [
        "<|text|>", "<|emotion:anger|>", "<|style:whispering|>", "<|prosody:speed_fast|>", "Go ",
        "<|prosody:pitch_low|>", " on", "<|audio|>",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "at", "wanted"),
    [
        ("Haha that is fun", 0, "Haha that is fun"),
        ("that is fun", 0, "Haha that is fun"),
        ("fun, no", 3, "Haha, no"),
        ("hehe", 0, "hehe"),
        ("fun", 3, "Haha"),
    ],
)
def test_a_sound_is_followed_at_once_by_its_spelling(
    writer: PromptWriter, tokenizer: PromptTokenizer, text: str, at: int, wanted: str
) -> None:
    found = written(writer, tokenizer, text, control("sfx:laughter", at))
    assert found[found.index("<|sfx:laughter|>") + 1] == wanted


@pytest.mark.parametrize(
    ("seconds", "tags"),
    [(0.05, 0), (0.4, 1), (0.7, 1), (1.0, 1), (2.2, 2), (60.0, 3)],
)
def test_a_break_becomes_pauses(writer: PromptWriter, tokenizer: PromptTokenizer, seconds: float, tags: int) -> None:
    found = written(writer, tokenizer, "a b", control("prosody:break", 1, seconds))
    assert sum("pause" in part for part in found) == tags
    assert ("<|prosody:pause|>" in found) == (0.2 <= seconds <= 0.7)


@pytest.mark.parametrize(
    ("speed", "tag"),
    [
        (1.0, None),
        (0.95, None),
        (0.8, "speed_slow"),
        (0.5, "speed_very_slow"),
        (1.15, "speed_fast"),
        (3.0, "speed_very_fast"),
    ],
)
def test_a_request_speed_becomes_the_nearest_tag(
    writer: PromptWriter, tokenizer: PromptTokenizer, speed: float, tag: str | None
) -> None:
    found = written(writer, tokenizer, "Go on", speed=speed)
    assert found == ["<|text|>", *([] if tag is None else [f"<|prosody:{tag}|>"]), "Go on", "<|audio|>"]


def test_what_the_model_cannot_do_is_said(writer: PromptWriter) -> None:
    block = writer.text_block(
        segment("Hi", control("prosody:volume", 0, 2.0), pronunciations=(Pronunciation(0, 2, "haɪ"),)), request()
    )
    assert [(notice.code, notice.detail) for notice in block.notices] == [
        ("parameter_ignored", "lexicon"),
        ("tag_unsupported", "prosody:volume"),
    ]


def test_a_sound_alone_makes_a_block(writer: PromptWriter, tokenizer: PromptTokenizer) -> None:
    assert written(writer, tokenizer, " ", control("sfx:cough", 1)) == [
        "<|text|>",
        "<|sfx:cough|>",
        "Ahem",
        "<|audio|>",
    ]


@pytest.mark.parametrize("text", ["", " ", "\n\n", "...!?", "—", "\u200b", "😀", "。", " ،؟ "])
@pytest.mark.parametrize("names", [(), ("emotion:fear",), ("prosody:pause",), ("style:singing", "prosody:long_pause")])
def test_without_a_word_or_a_sound_there_is_no_prompt(writer: PromptWriter, text: str, names: tuple[str, ...]) -> None:
    """It would be answered with invented speech."""
    block = writer.text_block(segment(text, *(control(name, 0) for name in names)), request())
    assert block.ids == ()
    left_out = [name for name in names if name.endswith("pause")]
    assert [notice.detail for notice in block.notices] == left_out


@pytest.mark.parametrize(
    ("text", "at", "wanted"),
    [
        ("Well there", 5, ["Well ", "<|prosody:pause|>", " there"]),
        ("Well  there", 5, ["Well ", "<|prosody:pause|>", " there"]),
        ("Wellthere", 4, ["Well", "<|prosody:pause|>", "there"]),
        ("Well there", 0, ["<|prosody:pause|>", "Well there"]),
        ("Well there", 10, ["Well there", "<|prosody:pause|>"]),
    ],
)
def test_the_space_around_a_tag_is_on_both_sides_of_it(
    writer: PromptWriter, tokenizer: PromptTokenizer, text: str, at: int, wanted: list[str]
) -> None:
    """Of two, the front-end keeps the one in front; in the texts that the model was trained on both stand."""
    assert written(writer, tokenizer, text, control("prosody:pause", at))[1:-1] == wanted


def test_breaks_at_one_place_are_one_and_what_they_ask_for_is_said(writer: PromptWriter) -> None:
    def block(*amounts: float) -> TextBlock:
        breaks = [control("prosody:break", 5, amount) for amount in amounts]
        return writer.text_block(segment("Well there", *breaks), request())

    assert block(0.1, 0.15).ids == block(0.25).ids
    assert block(3.0, 3.0).ids == block(6.0).ids
    assert [block(*amounts).pause_s for amounts in ((), (0.1,), (0.3,), (1.0,), (9.0,))] == [0.0, 0.0, 0.7, 1.5, 4.5]


def test_a_checkpoint_without_a_tag_says_so_and_leaves_it_out(tmp_path: Path, tiny_folder: Path) -> None:
    text = (tiny_folder / "tokenizer.json").read_text().replace("<|sfx:sneeze|>", "<|reserved|>")
    (tmp_path / "tokenizer.json").write_text(text)
    tokenizer = PromptTokenizer(tmp_path / "tokenizer.json")
    writer = PromptWriter(tokenizer, 8, 25.0, 2048)
    assert "sfx:sneeze" not in writer.tag_support
    block = writer.text_block(segment("Hi", control("sfx:sneeze", 0)), request())
    assert [notice.detail for notice in block.notices] == ["sfx:sneeze"]


# --- text that spells tokens ------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.one_of(st.sampled_from(special_tokens()), st.text(max_size=6), st.sampled_from(["<|", "|>", "<"])),
        max_size=6,
    )
)
@settings(max_examples=80, deadline=None)
def test_no_text_of_a_user_becomes_a_special_token(tokenizer: PromptTokenizer, parts: list[str]) -> None:
    import unicodedata

    text = "".join(parts)
    ids = tokenizer.encode(text)
    specials = {tokenizer.special(name) for name in special_tokens()}
    assert not specials & set(ids)
    decoded = tokenizer._tokenizer.decode(ids)
    assert unicodedata.normalize("NFC", decoded) == unicodedata.normalize("NFC", text)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(ModelLoadError, match="cannot be read as a tokenizer"):
        PromptTokenizer(path)


def test_another_models_tokenizer_is_refused(tmp_path: Path) -> None:
    from tokenizers import models

    path = tmp_path / "tokenizer.json"
    byte_level(models.BPE()).save(str(path))
    with pytest.raises(ModelLoadError, match=r"<\|tts\|>"):
        PromptTokenizer(path)


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog.",
        "今天天气很好，我们去公园散步吧。",
        "今日は天気がいいから散歩しましょう。",
        "مرحبا بكم في هذا المساء الجميل يا أصدقائي.",
        "आज मौसम बहुत अच्छा है, चलो टहलने चलें।",
        "วันนี้อากาศดีมากเราไปเดินเล่นกันเถอะ",
        "Donaudampfschifffahrtsgesellschaftskapitän",
        "0123456789",
    ],
)
def test_the_row_cap_leaves_room_for_every_script(writer: PromptWriter, text: str) -> None:
    """About 3 times what an ordinary reading takes: 8 to 40 s for sentences that take 2 to 8 s."""
    rows = writer.text_block(segment(text), request()).max_rows
    assert 8 * 25 <= rows <= 40 * 25


def test_the_row_cap_grows_with_text_tags_and_slowness_up_to_the_blocks_limit(writer: PromptWriter) -> None:
    def cap(text: str, *controls: Control, speed: float = 1.0) -> int:
        return writer.text_block(segment(text, *controls), request(speed)).max_rows

    assert cap("One.") < cap("One. Two.") < cap("One. Two.", control("prosody:long_pause", 4))
    assert cap("One. Two.", speed=0.65) > cap("One. Two.")
    assert cap("word " * 2000) == 2048


# --- the real vocabulary ----------------------------------------------------------------------------------------------


def qwen_ranks() -> dict[bytes, int]:
    """The published Qwen byte-pair ranks, where a package that carries them is installed."""
    spec = importlib.util.find_spec("dashscope")
    if spec is None or spec.origin is None:
        pytest.skip("the package dashscope, which carries the Qwen ranks, is not installed")
    lines = (Path(spec.origin).parent / "resources" / "qwen.tiktoken").read_bytes().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}


def merges_of(ranks: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    """The merge that made each token, in order of rank."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) == 1:
            continue
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            candidates = [(ranks.get(a + b, rank), i) for i, (a, b) in enumerate(pairwise(parts))]
            _, i = min(candidates)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        merges.append((parts[0], parts[1]))
    return merges


@pytest.mark.slow
def test_prompts_have_the_ids_that_the_public_tokenizer_gives(tmp_path: Path) -> None:
    """Golden ids: the public checkpoint's tokenizer at revision a7f70853."""
    from tokenizers import models

    ranks = qwen_ranks()
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = dict(zip(visible, map(chr, visible), strict=True))
    letters |= {byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in letters)}

    def as_text(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    vocabulary = {as_text(token): rank for token, rank in ranks.items()}
    merges = [(as_text(a), as_text(b)) for a, b in merges_of(ranks)]
    tokenizer = byte_level(models.BPE(vocab=vocabulary, merges=merges))
    add_special_tokens(tokenizer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    real = PromptTokenizer(tmp_path / "tokenizer.json")
    writer = PromptWriter(real, 8, 25.0, 2048)
    assert (real.special("<|endoftext|>"), real.special("<|prosody:expressive_low|>")) == (151643, 151726)
    head = writer.voice_prompt(None, None, b"").ids

    text = "Welcome to SpeakSwiftly. This is the first official Higgs Audio v3 parity fixture."
    assert head + writer.text_block(segment(text), request()).ids == (
        151667, 151672, 13936, 311, 67201, 55336, 398, 13, 1096, 374, 279, 1156, 3946, 472, 61147, 12352, 348, 18,
        49615, 12507, 13, 151670,
    )  # fmt: skip
    text = "Welcome aboard. Hello there and thanks for listening."
    tagged = segment(text, control("emotion:elation", 0), control("prosody:pause", len("Welcome aboard. Hello there ")))
    assert head + writer.text_block(tagged, request()).ids == (
        151667, 151672, 151681, 13936, 36506, 13, 21927, 1052, 220, 151722, 323, 9339, 369, 14289, 13, 151670,
    )  # fmt: skip
