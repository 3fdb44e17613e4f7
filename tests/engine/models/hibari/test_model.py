"""The family behind the engine's plan: segments in; frames, windows and words out; tags held and answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.step import BlockFrames, Forget, Opening, Piece, PrefillItem, StepPlan, VocodeItem
from engine.errors import ModelLoadError
from engine.models import load_model
from engine.models.hibari import HibariModel
from engine.models.hibari.network import Floats
from engine.models.hibari.phonemes import Phonemizer
from engine.speech import Boundary, Control, ControlCategory, Pcm, Segment, Span, SpeechRequest, WordTiming

REQUEST = SpeechRequest(voice="heart", seed=11)


@pytest.fixture(scope="module")
def model() -> Iterator[HibariModel]:
    loaded = HibariModel.load()
    loaded.warm_up()
    yield loaded
    loaded.close()


def segment(text: str, start: int = 0, boundary: Boundary = "end", *controls: Control) -> Segment:
    return Segment.verbatim(text, boundary, start, controls)


def tag(at: int, value: str, amount: float | None = None, category: ControlCategory = "prosody") -> Control:
    return Control(category, value, at, Span(at, at + 1), amount)


class Lane:
    """Drives one sequence as the engine does."""

    def __init__(self, model: HibariModel, sequence: int, request: SpeechRequest = REQUEST) -> None:
        self.model, self.sequence, self.request = model, sequence, request
        self.heard: list[object] = []
        self.block = 0
        self.open(request)

    def open(self, request: SpeechRequest) -> None:
        self.request = request
        self.model.execute(StepPlan(0, openings=(Opening(self.sequence, self.block, request),)))

    def prefill(self, spoken: Segment, right: Sequence[Segment] = ()) -> BlockFrames:
        prepared = self.model.prepare(spoken, self.request)
        known = tuple(self.model.prepare(later, self.request).payload for later in right)
        item = PrefillItem(
            self.sequence,
            (Piece("text", self.block, 0, 1, prepared.payload),),
            0,
            (),
            self.block,
            tuple(self.heard),
            known,
        )
        result = self.model.execute(StepPlan(0, prefill=(item,)))
        assert not result.failures
        self.heard.append(prepared.payload)
        self.block += 1
        return result.frames[0]

    def window(self, block: int, start: int, end: int, is_end: bool = False) -> tuple[Pcm, tuple[WordTiming, ...]]:
        result = self.model.execute(StepPlan(0, vocode=(VocodeItem(self.sequence, block, start, end, 0, 0, is_end),)))
        assert not result.failures
        (window,) = result.windows
        assert isinstance(window.pcm, np.ndarray)
        assert window.sample_count == len(window.pcm) == (end - start) * 300
        return window.pcm, window.words

    def say(self, spoken: Segment, size: int = 1000) -> tuple[Floats, list[WordTiming]]:
        frames = self.prefill(spoken).frames
        block, pieces, words = self.block - 1, [np.zeros(0, np.float32)], []
        for start in range(0, frames, size):
            pcm, found = self.window(block, start, min(start + size, frames), start + size >= frames)
            pieces.append(pcm)
            words.extend(found)
        return np.concatenate(pieces), words

    def close(self) -> None:
        self.model.execute(StepPlan(0, forgets=(Forget(self.sequence, None),)))


@pytest.fixture
def lane(model: HibariModel) -> Iterator[Lane]:
    made = Lane(model, 1)
    yield made
    made.close()


def test_an_unknown_family_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(ModelLoadError, match="hibari"):
        load_model("nightingale")


def test_what_it_offers_is_what_it_can_do(model: HibariModel) -> None:
    assert model.info.word_timing == "exact"
    assert model.info.default_voice == "heart"
    assert model.info.voices[0].derived_from is None
    assert all(voice.derived_from == "heart" for voice in model.info.voices[1:])
    assert model.spec.codebooks == 0


def test_without_the_extra_there_is_one_voice_and_no_style(model: HibariModel) -> None:
    bare = HibariModel(model._net, model._phonemizer, has_effects=False)
    assert [voice.id for voice in bare.info.voices] == ["heart"]
    assert bare.info.tags["style:shouting"] == "unsupported"
    bare.close()


def test_preparing_a_segment_reads_no_text_and_says_what_its_prefill_will_cost(
    model: HibariModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object) -> None:
        raise AssertionError("phonemes are the model thread's work")

    monkeypatch.setattr(Phonemizer, "words", refused)
    prepared = model.prepare(segment("many words " * 100), REQUEST)
    assert prepared.cost_s > model.prepare(segment("few"), REQUEST).cost_s > 0


def test_words_are_the_words_of_the_input_in_order_inside_the_audio(lane: Lane) -> None:
    text = "Hello there, Dr. Smith!"
    pcm, words = lane.say(segment(text))
    assert [text[word.start_char : word.end_char] for word in words] == ["Hello", "there", "Dr", "Smith"]
    assert words[0].start_sample <= 0.06 * 24_000
    assert words[-1].end_sample <= len(pcm)
    assert all(left.start_sample < right.start_sample for left, right in pairwise(words))


def test_a_word_comes_with_the_window_that_holds_its_first_sample(lane: Lane) -> None:
    frames = lane.prefill(segment("Hello there, my friend.")).frames
    seen = []
    for start in range(0, frames, 16):
        end = min(start + 16, frames)
        for word in lane.window(0, start, end)[1]:
            assert start * 300 <= word.start_sample < end * 300
            seen.append(word)
    assert len(seen) == 4


def test_words_of_one_replacement_are_one_word_of_the_input(lane: Lane) -> None:
    # The input "ASAP" was replaced by three words before it came here.
    text = "as soon as possible now"
    sources = (*(Span(0, 4) for _ in "as soon as possible"), *(Span(4 + at, 5 + at) for at in range(4)))
    _, words = lane.say(Segment(text, Span(0, 8), sources, "end"))
    assert [(word.start_char, word.end_char) for word in words] == [(0, 4), (5, 8)]


@settings(max_examples=12, deadline=None)
@given(size=st.integers(1, 90), seed=st.integers(0, 2**53 - 1))
def test_windows_of_any_size_give_the_same_samples(model: HibariModel, size: int, seed: int) -> None:
    whole, cut = Lane(model, 50, SpeechRequest("heart", seed)), Lane(model, 51, SpeechRequest("heart", seed))
    spoken = segment("A short one.")
    assert np.abs(whole.say(spoken)[0] - cut.say(spoken, size)[0]).max() <= 1e-6


def test_others_in_the_same_plan_change_nothing(model: HibariModel) -> None:
    alone = Lane(model, 60)
    expected, _ = alone.say(segment("Not a soul in sight."))
    lanes = [Lane(model, 61 + index) for index in range(3)]
    texts = ["Not a soul in sight.", "Something else, and much longer than that.", "Short."]
    items = tuple(
        PrefillItem(lane.sequence, (Piece("text", 0, 0, 1, model.prepare(segment(text), REQUEST).payload),), 0, (), 0)
        for lane, text in zip(lanes, texts, strict=True)
    )
    frames = model.execute(StepPlan(0, prefill=items)).frames
    vocodes = tuple(VocodeItem(block.sequence, 0, 0, block.frames, 0, 0, True) for block in frames)
    windows = model.execute(StepPlan(0, vocode=vocodes)).windows
    assert [window.sequence for window in windows] == [61, 62, 63]
    assert np.array_equal(np.asarray(windows[0].pcm), expected)


def test_what_fails_is_one_sequences_failure(model: HibariModel) -> None:
    lane = Lane(model, 70)
    frames = lane.prefill(segment("Fine.")).frames
    result = model.execute(
        StepPlan(0, vocode=(VocodeItem(71, 0, 0, 4, 0, 0, False), VocodeItem(70, 0, 0, frames, 0, 0, True)))
    )
    assert [failure.sequence for failure in result.failures] == [71]
    assert [window.sequence for window in result.windows] == [70]


@pytest.mark.parametrize("text", ["", "   ", "...", "—", "?!", "🙂", "你好，世界。", "привет"])
def test_nothing_to_say_is_no_audio(lane: Lane, text: str) -> None:
    assert lane.prefill(segment(text)).frames == 0


def test_letters_it_cannot_read_are_reported(lane: Lane) -> None:
    (notice,) = lane.prefill(segment("Hello 你好.")).notices
    assert notice.code == "unsupported_language"


def test_another_language_is_read_as_english_and_reported(lane: Lane) -> None:
    spoken = Segment("Guten Tag.", Span(0, 10), tuple(Span(at, at + 1) for at in range(10)), "end", language="de")
    answer = lane.prefill(spoken)
    assert answer.frames > 0
    assert [(notice.code, notice.detail) for notice in answer.notices] == [("unsupported_language", "de")]


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=40))
def test_any_text_yields_words_inside_its_audio(model: HibariModel, text: str) -> None:
    lane = Lane(model, 80)
    pcm, words = lane.say(segment(text))
    assert np.all(np.isfinite(pcm))
    assert np.abs(pcm).max(initial=0.0) < 1.0
    for word in words:
        assert 0 <= word.start_char < word.end_char <= len(text)
        assert 0 <= word.start_sample < word.end_sample <= len(pcm)
    assert all(left.end_char <= right.start_char for left, right in pairwise(words))
    lane.close()


# ---- context ---------------------------------------------------------------------------------------------------------


def frames_of(model: HibariModel, parts: Sequence[tuple[str, Boundary]]) -> list[int]:
    lane = Lane(model, 90)
    at, frames = 0, []
    for text, boundary in parts:
        frames.append(lane.prefill(segment(text, at, boundary)).frames)
        at += len(text) + 1
    lane.close()
    return frames


def test_a_fragment_is_read_by_what_was_said_before_it(model: HibariModel) -> None:
    lane = Lane(model, 91)
    first = segment("She had", 0, "forced")
    lane.prefill(first)
    script = model._script(segment("read the book.", 7), [first], [])
    words = [script.words[index] for index in script.own]
    assert words[0].symbols == "ɹˈɛd"
    lane.close()


def test_fragments_of_another_utterance_are_no_context(model: HibariModel) -> None:
    other = segment("Yesterday I", 0, "forced")
    assert model._script(segment("read the book.", 0), [other], []).offset == 0


def test_a_sentence_in_fragments_is_about_as_long_as_in_one(model: HibariModel) -> None:
    (whole,) = frames_of(model, [("The farmer planted corn in the north field.", "end")])
    cut = frames_of(model, [("The farmer planted", "forced"), ("corn in the", "forced"), ("north field.", "end")])
    assert sum(cut) == pytest.approx(whole, rel=0.08)


def test_known_text_to_the_right_changes_how_a_fragment_ends(model: HibariModel) -> None:
    lane = Lane(model, 92)
    spoken, later = segment("The old", 0, "forced"), segment("clock on the wall stopped at midnight.", 8)
    with_right = lane.prefill(spoken, [later]).frames
    lane.close()
    alone = Lane(model, 92)
    alone_frames = alone.prefill(segment("The old", 0, "end")).frames
    alone.close()
    assert with_right < alone_frames


# ---- tags ------------------------------------------------------------------------------------------------------------


def longest_silence_s(pcm: Floats) -> float:
    """Inside the speech, 40 dB below the loudest 5 ms."""
    levels = np.sqrt(np.mean(pcm[: len(pcm) // 120 * 120].reshape(-1, 120).astype(np.float64) ** 2, axis=1))
    heard = np.flatnonzero(levels > levels.max() / 100)
    return float(np.max(np.diff(heard)) - 1) * 0.005


@pytest.mark.parametrize(("value", "amount", "wanted_s"), [("pause", None, 0.55), ("long_pause", None, 1.1)] + [
    ("break", seconds, seconds) for seconds in (0.3, 0.8, 2.0)
])  # fmt: skip
@pytest.mark.parametrize("text", ["I opened the door and looked inside.", "I opened the door. Then I looked."])
def test_pauses_last_what_they_say_within_40_ms(
    lane: Lane, text: str, value: str, amount: float | None, wanted_s: float
) -> None:
    at = text.index("door") + len("door" if "door " in text else "door. ")
    pcm, _ = lane.say(segment(text, 0, "end", tag(at, value, amount)))
    assert longest_silence_s(pcm) == pytest.approx(wanted_s, abs=0.04)


def test_a_break_between_segments_is_as_exact(lane: Lane) -> None:
    first, _ = lane.say(segment("I opened the door.", 0, "sentence"))
    second, _ = lane.say(segment("Then I looked.", 19, "end", tag(0, "break", 1.2)))
    assert longest_silence_s(np.concatenate([first, second])) == pytest.approx(1.2, abs=0.04)


@pytest.mark.parametrize(
    ("value", "ratio"), [("speed_very_slow", 0.65), ("speed_slow", 0.85), ("speed_fast", 1.2), ("speed_very_fast", 1.4)]
)
def test_speed_tags_change_the_pace_within_a_tenth(model: HibariModel, value: str, ratio: float) -> None:
    text = "The farmer planted corn in the north field"

    def spoken_s(*controls: Control) -> float:
        lane = Lane(model, 95)
        _, words = lane.say(segment(text, 0, "end", *controls))
        lane.close()
        return words[-1].start_sample - words[0].start_sample

    assert spoken_s() / spoken_s(tag(0, value)) == pytest.approx(ratio, rel=0.1)


def test_the_requests_speed_is_the_same_pace(model: HibariModel) -> None:
    text = "The farmer planted corn in the north field"
    fast = Lane(model, 96, SpeechRequest("heart", 11, speed=1.2))
    by_request, _ = fast.say(segment(text))
    slow = Lane(model, 97)
    by_tag, _ = slow.say(segment(text, 0, "end", tag(0, "speed", 1.2)))
    assert np.array_equal(by_request, by_tag)


@pytest.mark.parametrize("semitones", [-4.0, -2.0, 1.0, 2.0, 4.0])
def test_pitch_moves_by_its_semitones_within_three_tenths(model: HibariModel, semitones: float) -> None:
    pyworld = pytest.importorskip("pyworld", reason="extra [effects]")

    def pitch(*controls: Control) -> np.ndarray:
        lane = Lane(model, 98)
        pcm, _ = lane.say(segment("We are all alone now, in a low yellow room.", 0, "end", *controls))
        lane.close()
        f0, _ = pyworld.harvest(pcm.astype(np.float64), 24_000)
        return np.asarray(f0)

    base, moved = pitch(), pitch(tag(0, "pitch", semitones))
    voiced = (base > 0) & (moved > 0)
    assert 12 * np.log2(np.median(moved[voiced] / base[voiced])) == pytest.approx(semitones, abs=0.3)


def test_volume_is_a_gain(lane: Lane, model: HibariModel) -> None:
    text = "Not a soul in sight."
    plain, _ = lane.say(segment(text))
    soft, _ = Lane(model, 99).say(segment(text, 0, "end", tag(0, "volume", 0.25)))
    assert 20 * np.log10(np.std(soft) / np.std(plain)) == pytest.approx(-12.04, abs=0.5)


def test_state_tags_carried_into_a_segment_hold_in_it(model: HibariModel) -> None:
    lane = Lane(model, 100)
    slow = lane.say(segment("One two three.", 0, "sentence", tag(0, "speed", 0.6)))[0]
    carried = replace(segment("One two three.", 15, "sentence"), carried=(tag(0, "speed", 0.6),))
    answer = lane.prefill(carried)
    plain = lane.say(segment("One two three.", 30, "sentence"))[0]
    assert abs(answer.frames * 300 - len(slow)) <= 3 * 300
    assert len(plain) < 0.8 * len(slow)
    assert not answer.notices
    lane.close()


def test_speech_after_a_cancel_does_not_run_on_from_what_was_cut_off(model: HibariModel) -> None:
    lane = Lane(model, 102)
    frames = lane.prefill(segment("The old", 0, "forced")).frames
    model.execute(StepPlan(0, forgets=(Forget(102, 0, frames // 2),)))
    lane.heard.clear()
    after, _ = lane.say(segment("One two three.", 0, "sentence"))
    plain, _ = Lane(model, 103).say(segment("One two three.", 0, "sentence"))
    assert np.array_equal(after, plain)
    lane.close()


def test_a_model_that_is_roused_while_it_speaks_speaks_the_same(model: HibariModel) -> None:
    alone, beside = Lane(model, 901), Lane(model, 902)
    wanted, _ = alone.say(segment("The very same words."))
    frames = beside.prefill(segment("The very same words.")).frames
    model.rouse()
    first, _ = beside.window(0, 0, 20)
    model.rouse()
    rest, _ = beside.window(0, 20, frames, is_end=True)
    assert np.array_equal(np.concatenate([first, rest]), wanted)
    alone.close()
    beside.close()
