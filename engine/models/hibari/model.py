"""The Hibari family as a SpeechModel: a prefill runs the acoustic net on a segment, a vocode makes a window."""

from __future__ import annotations

import bisect
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from engine.core.step import (
    BlockFrames,
    Forget,
    ModelSpec,
    Opening,
    PrefillItem,
    PreparedPrompt,
    PreparedText,
    SequenceFailure,
    StepPlan,
    StepResult,
    VocodeItem,
    Window,
)
from engine.errors import VoiceNotFoundError
from engine.models.hibari.blocks import FRESH, Block, Composer, Seam, SpokenMark
from engine.models.hibari.config import (
    BASE_VOICE,
    DERIVED_VOICES,
    FRAME_SAMPLES,
    MAX_CALL_SYMBOLS,
    MAX_COLOURED_SYMBOLS,
    SAMPLE_RATE_HZ,
    Voice,
)
from engine.models.hibari.effects import has_world
from engine.models.hibari.network import AcousticNet
from engine.models.hibari.phonemes import Phonemizer, is_foreign
from engine.models.hibari.phrases import Script, plan_phrases
from engine.models.hibari.prosody import TagState, tag_support
from engine.speech import ModelInfo, Notice, Pronunciation, Segment, SpeechRequest, VoiceInfo, WordTiming

_THREADS: Final = 2
"""Calls of the net and windows of different sequences run side by side; each takes one core."""
_SPEECH_CHARS_PER_S: Final = 14.0
_COST_PER_CALL_S: Final = 0.006
_COST_PER_SPEECH_S: Final = 0.008
"""Prefill: a call of the net with its context, on one core."""
_CONTEXT_SPEECH_S: Final = 2.0
_WARM_UP_TEXT: Final = "Hello there. This is what the first listener would otherwise wait for, all of it."
_ROUSING_TEXT: Final = "Hello there."
_CONTEXT_CHARS: Final = 400
"""Text before a segment that the reader of phonemes is shown."""

SPEC: Final = ModelSpec(
    sample_rate_hz=SAMPLE_RATE_HZ,
    samples_per_frame=FRAME_SAMPLES,
    codebooks=0,
    max_sequences=256,
    max_decode_batch=1,
    max_prefill_tokens=2,
    page_tokens=0,
    page_count=0,
    left_context_frames=0,
    right_context_frames=0,
    first_window_frames=16,
    max_window_frames=64,
    max_windows_per_tick=16,
    history_blocks=8,
    history_s=30.0,
    max_plans=4,
)
"""Up to three segments are in the net at once, one of them a listener's who waits, and windows are made beside them."""


@dataclass(frozen=True, slots=True)
class HibariText:
    """Payload of a prepared segment."""

    segment: Segment
    request: SpeechRequest


@dataclass(slots=True)
class _Spoken:
    """One block of a sequence."""

    words: tuple[WordTiming, ...]
    block: Block | None
    """None once its last window has been made."""


@dataclass(slots=True)
class _Sequence:
    """What is kept of a lane's speech."""

    seam: Seam = FRESH
    seam_block: int | None = None
    """The block that the seam belongs to."""
    blocks: dict[int, _Spoken] = field(default_factory=dict)

    def start_utterance(self) -> None:
        """Nothing runs on from one utterance to the next."""
        self.seam, self.seam_block = FRESH, None

    def forget(self, block: int) -> None:
        """Drop a block's sound; what comes next does not run on from it."""
        self.blocks.pop(block, None)
        if block == self.seam_block:
            self.start_utterance()


Item = TypeVar("Item")
Answer = TypeVar("Answer")


class HibariModel:
    """engine.speech_model.SpeechModel. `execute` is for several threads, of different plans (ModelSpec.max_plans
    says what they have in common); it uses two of its own inside."""

    def __init__(self, net: AcousticNet, phonemizer: Phonemizer, has_effects: bool) -> None:
        self._net = net
        self._phonemizer = phonemizer
        self._composer = Composer(net)
        self._has_effects = has_effects
        voices = (BASE_VOICE, *DERIVED_VOICES) if has_effects else (BASE_VOICE,)
        self._voices = {voice.id: voice for voice in voices}
        self._sequences: dict[int, _Sequence] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="hibari")
        self._info = _model_info(voices, has_effects)

    @classmethod
    def load(cls, checkpoint: Path | None = None) -> HibariModel:
        """From the installed wheel (or `checkpoint`, a folder with the same net). Raises ModelLoadError."""
        net = AcousticNet.load(checkpoint)
        return cls(net, Phonemizer(net.symbols), has_world())

    @property
    def info(self) -> ModelInfo:
        return self._info

    @property
    def spec(self) -> ModelSpec:
        return SPEC

    def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
        """No phonemes yet: that is the model thread's. One position a segment, however long."""
        speech_s = len(segment.text) / _SPEECH_CHARS_PER_S / max(request.speed, 0.5)
        cost_s = _COST_PER_CALL_S + _COST_PER_SPEECH_S * (speech_s + _CONTEXT_SPEECH_S)
        return PreparedText(tokens=1, max_rows=0, cost_s=cost_s, payload=HibariText(segment, request))

    def prepare_prompt(self, request: SpeechRequest) -> PreparedPrompt:
        known = tuple(voice.id for voice in self._info.voices)
        if request.voice not in known:
            raise VoiceNotFoundError(request.voice, known)
        return PreparedPrompt(tokens=0, key=request.voice.encode(), payload=None)

    def warm_up(self) -> None:
        """Load what loads lazily and run the net, so that no listener pays for it."""
        self._phonemizer.warm_up()
        self._speak_to_nobody(_WARM_UP_TEXT)

    def rouse(self) -> None:
        """The same with two words. A virtual machine that rested for seconds fetches the weights anew: 150 ms."""
        self._speak_to_nobody(_ROUSING_TEXT)

    def _speak_to_nobody(self, text: str) -> None:
        script = self._script(Segment.verbatim(text, "sentence"), (), ())
        block = self._composer.compose(
            script, plan_phrases(script, TagState(), 1.0, self._has_effects), BASE_VOICE, FRESH, (0, 0)
        )
        block.samples(0, block.frames)

    def execute(self, plan: StepPlan) -> StepResult:
        for opening in plan.openings:
            self._open(opening)
        for forget in plan.forgets:
            self._forget(forget)
        failures: list[SequenceFailure] = []
        prefills = [
            (item, item.sequence, item.samples_block or 0) for item in plan.prefill if item.samples_block is not None
        ]
        vocodes = [(item, item.sequence, item.block) for item in plan.vocode]
        frames = self._each(self._prefill, prefills, failures)
        windows = self._each(self._vocode, vocodes, failures)
        return StepResult(plan.tick, frames=tuple(frames), windows=tuple(windows), failures=tuple(failures))

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        self._sequences.clear()

    def _each(
        self,
        work: Callable[[Item], Answer],
        items: Sequence[tuple[Item, int, int]],
        failures: list[SequenceFailure],
    ) -> list[Answer]:
        """Work on items (item, sequence, block), those of one sequence in order; what fails becomes a failure."""

        def run(own: list[tuple[Item, int, int]]) -> list[Answer | SequenceFailure]:
            answers: list[Answer | SequenceFailure] = []
            for item, sequence, block in own:
                try:
                    answers.append(work(item))
                except Exception as error:  # the edge of the tick: one sequence's trouble is not the others'
                    answers.append(SequenceFailure(sequence, block, f"{type(error).__name__}: {error}"))
            return answers

        lines: dict[int, list[tuple[Item, int, int]]] = {}
        for entry in items:
            lines.setdefault(entry[1], []).append(entry)
        groups = list(lines.values())
        results = self._pool.map(run, groups) if len(groups) > 1 else map(run, groups)
        done: list[Answer] = []
        for result in results:
            for answer in result:
                if isinstance(answer, SequenceFailure):
                    failures.append(answer)
                else:
                    done.append(answer)
        return done

    def _open(self, opening: Opening) -> None:
        self._sequences.setdefault(opening.sequence, _Sequence()).start_utterance()

    def _forget(self, forget: Forget) -> None:
        if forget.block is None:
            self._sequences.pop(forget.sequence, None)
            return
        sequence = self._sequences.get(forget.sequence)
        if sequence is not None:
            sequence.forget(forget.block)

    def _prefill(self, item: PrefillItem) -> BlockFrames:
        block = item.samples_block
        text = next(piece.payload for piece in item.pieces if piece.kind == "text" and piece.block == block)
        if not isinstance(text, HibariText) or block is None:
            raise TypeError(f"block {block} of sequence {item.sequence} has no text made ready by this family")
        segment, request = text.segment, text.request
        sequence = self._sequences.setdefault(item.sequence, _Sequence())
        script = self._script(segment, _texts(item.left), _texts(item.right))
        voice = self._voices[request.voice]
        max_symbols = MAX_COLOURED_SYMBOLS if voice.is_derived else MAX_CALL_SYMBOLS
        state = TagState.of(segment.carried)
        plan = plan_phrases(script, state, request.speed, self._has_effects, max_symbols)
        composed = self._composer.compose(script, plan, voice, sequence.seam, (request.seed, segment.span.start))
        words = _word_timings(composed.marks, script.offset, segment)
        sequence.blocks[block] = _Spoken(words, composed)
        sequence.seam, sequence.seam_block = composed.seam, block
        notices = (*plan.notices, *_language_notices(script, segment, request))
        return BlockFrames(item.sequence, block, composed.frames, notices)

    def _vocode(self, item: VocodeItem) -> Window:
        spoken = self._sequences[item.sequence].blocks[item.block]
        if spoken.block is None:
            raise ValueError(f"frames {item.start_frame} to {item.end_frame} are asked for after the block's end")
        pcm = spoken.block.samples(item.start_frame, item.end_frame)
        first, last = item.start_frame * FRAME_SAMPLES, item.end_frame * FRAME_SAMPLES
        words = tuple(word for word in spoken.words if first <= word.start_sample < last)
        if item.is_block_end:
            spoken.block = None
        return Window(item.sequence, item.block, pcm, len(pcm), words)

    def _script(self, segment: Segment, left: Sequence[Segment], right: Sequence[Segment]) -> Script:
        """The segment's words with those of the same utterance and sentence around it, as far as they are known."""
        before: list[Segment] = []
        for other in reversed(left):
            is_next = other.span.end == (before[0] if before else segment).span.start > 0
            is_open = other.boundary in ("clause", "forced")
            if not (is_next and is_open) or sum(len(kept.text) for kept in before) > _CONTEXT_CHARS:
                break
            before.insert(0, other)
        after: list[Segment] = []
        if segment.boundary in ("clause", "forced"):
            for other in right:
                after.append(other)
                if other.boundary not in ("clause", "forced") or sum(len(kept.text) for kept in after) > _CONTEXT_CHARS:
                    break
        text, offset = "", 0
        pronunciations: list[Pronunciation] = []
        for part in (*before, segment, *after):
            if text and part.text and not text[-1].isspace() and not part.text[0].isspace():
                text += " "
            if part is segment:
                offset = len(text)
            pronunciations.extend(
                Pronunciation(len(text) + given.start, len(text) + given.end, given.phonemes)
                for given in part.pronunciations
            )
            text += part.text
        words = self._phonemizer.words(text, pronunciations)
        starts = [word.start for word in words]
        own = range(bisect.bisect_left(starts, offset), bisect.bisect_left(starts, offset + len(segment.text)))
        return Script(text, words, own, offset, segment.boundary, segment.controls)


def _texts(payloads: Iterable[object]) -> list[Segment]:
    return [payload.segment for payload in payloads if isinstance(payload, HibariText)]


def _word_timings(marks: Iterable[SpokenMark], offset: int, segment: Segment) -> tuple[WordTiming, ...]:
    """Marks with places in the utterance's input. Words of one replacement are one word of the input."""
    timings: list[WordTiming] = []
    for mark in marks:
        start = segment.sources[mark.start - offset].start
        end = segment.sources[mark.end - offset - 1].end
        if timings and start < timings[-1].end_char:
            previous = timings.pop()
            start, end = previous.start_char, max(end, previous.end_char)
            timings.append(WordTiming(start, end, previous.start_sample, max(mark.end_sample, previous.end_sample)))
        else:
            timings.append(WordTiming(start, end, mark.start_sample, mark.end_sample))
    return tuple(timings)


def _language_notices(script: Script, segment: Segment, request: SpeechRequest) -> tuple[Notice, ...]:
    """What is not English: letters that the voice cannot read, or a language it reads as if it were English."""
    language = (segment.language or request.language or "en").split("-")[0].lower()
    foreign = next((character for character in segment.text if is_foreign(character)), None)
    if foreign is not None:
        writing = unicodedata.name(foreign, "unknown").split(" ")[0].split("-")[0].capitalize()
        detail = writing if language == "en" else language
        return (Notice("unsupported_language", detail, f"this voice speaks English; {writing} letters are left out"),)
    if language == "en" or not script.own:
        return ()
    return (Notice("unsupported_language", language, f"this voice speaks English; {language!r} is read as English"),)


def _model_info(voices: Iterable[Voice], has_effects: bool) -> ModelInfo:
    return ModelInfo(
        name="hibari",
        sample_rate_hz=SAMPLE_RATE_HZ,
        voices=tuple(
            VoiceInfo(voice.id, voice.name, "en", voice.description, BASE_VOICE.id if voice.is_derived else None)
            for voice in voices
        ),
        default_voice=BASE_VOICE.id,
        languages=frozenset({"en"}),
        word_timing="exact",
        tags=tag_support(has_effects),
        parameters=frozenset({"speed", "seed"}),
        has_text_normalizer=True,
    )
