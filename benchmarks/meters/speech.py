"""Speak a text with a loaded model, whole or as the tokens of a language model come, with no gateway around it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from engine.core.step import Forget, Opening, Piece, PrefillItem, StepPlan, StepResult, VocodeItem
from engine.speech import Control, Segment, SpeechRequest, WordTiming
from engine.speech_model import SpeechModel
from gateway.text.front_end import Lexicon, TextFrontEnd, TextSettings

TOKENS_PER_S = 50.0
_TOKEN = re.compile(r"\s?[^\W_]{1,6}|\s?[^\w\s]|\s|_")


@dataclass(frozen=True, slots=True)
class Spoken:
    """One utterance: `pcm` float32 [S]; `words` from its first sample; `segments` as they were released, each with
    the sample at which its block begins."""

    text: str
    pcm: NDArray[np.float32]
    words: tuple[WordTiming, ...]
    segments: tuple[tuple[Segment, int], ...]


def tokens(text: str) -> list[str]:
    """Pieces about as long as a language model's; joined they are the text."""
    pieces = _TOKEN.findall(text)
    if "".join(pieces) != text:
        raise ValueError(f"{text!r} has a character that no piece takes")
    return pieces


def streamed_segments(text: str, model: SpeechModel) -> Iterator[Segment]:
    """The segments that the front-end releases while the text's tokens come at TOKENS_PER_S."""
    front_end = TextFrontEnd(
        TextSettings(),
        lexicon=Lexicon.empty(),
        segmentation="auto",
        language=None,
        spoken_languages=model.info.languages,
        has_text_normalizer=model.info.has_text_normalizer,
    )
    now_s = 0.0
    for token in tokens(text):
        now_s += 1 / TOKENS_PER_S
        while front_end.wake_at_s is not None and front_end.wake_at_s < now_s:
            yield from _segments(front_end.on_time(front_end.wake_at_s))
        yield from _segments(front_end.feed(token, now_s))
    yield from _segments(front_end.finish(now_s))


def _segments(released: Iterable[object]) -> Iterator[Segment]:
    return (item for item in released if isinstance(item, Segment))


class Speaker:
    """Runs a SpeechModel as the engine would, one utterance at a time, each segment with those before it as context
    and nothing known of what follows."""

    def __init__(self, model: SpeechModel, window_frames: int = 32) -> None:
        self.model = model
        self._window_frames = window_frames

    def whole(self, text: str, request: SpeechRequest, controls: tuple[Control, ...] = ()) -> Spoken:
        return self.speak(text, [Segment.verbatim(text, controls=controls)], request)

    def streamed(self, text: str, request: SpeechRequest) -> Spoken:
        return self.speak(text, streamed_segments(text, self.model), request)

    def speak(self, text: str, segments: Iterable[Segment], request: SpeechRequest) -> Spoken:
        self._execute(StepPlan(0, openings=(Opening(0, 0, request),)))
        heard: list[object] = []
        pieces: list[NDArray[np.float32]] = []
        words: list[WordTiming] = []
        begun: list[tuple[Segment, int]] = []
        length = 0
        for block, segment in enumerate(segments):
            begun.append((segment, length))
            prepared = self.model.prepare(segment, request)
            piece = Piece("text", block, 0, prepared.tokens, prepared.payload)
            item = PrefillItem(0, (piece,), 0, (), block, left=tuple(heard[-self.model.spec.history_blocks :]))
            (frames,) = self._execute(StepPlan(0, prefill=(item,))).frames
            heard.append(prepared.payload)
            first = length
            for start in range(0, frames.frames, self._window_frames):
                end = min(start + self._window_frames, frames.frames)
                vocode = VocodeItem(0, block, start, end, 0, 0, end == frames.frames)
                (window,) = self._execute(StepPlan(0, vocode=(vocode,))).windows
                pcm = cast("NDArray[np.float32]", window.pcm)
                pieces.append(pcm)
                length += len(pcm)
                words += [
                    WordTiming(word.start_char, word.end_char, word.start_sample + first, word.end_sample + first)
                    for word in window.words
                ]
        self._execute(StepPlan(0, forgets=(Forget(0, None),)))
        return Spoken(text, np.concatenate(pieces or [np.zeros(0, np.float32)]), tuple(words), tuple(begun))

    def _execute(self, plan: StepPlan) -> StepResult:
        result = self.model.execute(plan)
        if result.failures:
            raise RuntimeError(result.failures[0].message)
        return result
