"""What becomes of a segment when it is fed: a block of its own, or a part of the one whose text is still growing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.core.growing_text import GrowingText
from engine.core.residency import Residency
from engine.core.sequence import Block, Utterance
from engine.core.step import ModelSpec, PreparedPrompt, PreparedText
from engine.errors import SpeechFailedError, TooLongError
from engine.speech import Segment, SpeechRequest

Prepare = Callable[[Segment, SpeechRequest], PreparedText]


class Intake:
    """`prepare`: SpeechModel.prepare."""

    def __init__(self, spec: ModelSpec, residency: Residency, prepare: Prepare) -> None:
        self._spec = spec
        self._residency = residency
        self._prepare = prepare

    def take(self, utterance: Utterance, segment: Segment, now_s: float) -> None:
        """Append a segment, with the tags that it carries. Raises TooLongError where its context could not be had with
        nobody else there, SpeechFailedError where the model made nothing of it that could be spoken; nothing has been
        appended then."""
        block = self._grow(utterance, segment) or self._begin(utterance, segment, now_s)
        if segment.boundary == "end" or self._is_good_end(block):
            utterance.close_text()

    def _grow(self, utterance: Utterance, segment: Segment) -> Block | None:
        """The utterance's growing block with the segment in it; None where there is none, or no room in it."""
        block = utterance.growing
        if block is None or block.text is None:
            return None
        continuation = replace(segment, carried=(), is_continuation=True)
        prepared = self._prepare(continuation, utterance.request)
        if not block.text.has_room(prepared.tokens):
            utterance.close_text()
            return None
        block.grow(continuation, prepared)
        return block

    def _begin(self, utterance: Utterance, segment: Segment, now_s: float) -> Block:
        prepared = self._prepare(segment, utterance.request)
        text = None
        if self._spec.codebooks and prepared.tokens:
            prepared, text = self._fitted(prepared, utterance.prompt)
        block = Block(utterance, segment, prepared, self._spec.codebooks, now_s, text)
        if text is not None:
            text.append(prepared)
            utterance.growing = block
        utterance.queue.append(block)
        utterance.pending_blocks += 1
        return block

    def _fitted(self, prepared: PreparedText, prompt: PreparedPrompt) -> tuple[PreparedText, GrowingText | None]:
        """A segment with no more rows than its context will have room for, and the text that it begins where text
        grows."""
        codebooks, cadence = self._spec.codebooks, self._spec.text_cadence
        if prepared.max_rows < codebooks:
            raise SpeechFailedError(
                f"the model prepared {prepared.max_rows} rows for a segment; it takes at least {codebooks}"
            )
        max_tokens = prepared.tokens if cadence is None else max(prepared.tokens, cadence.max_tokens)
        text_positions = max_tokens if cadence is None else cadence.text_positions(max_tokens)
        max_rows = prepared.max_rows if cadence is None else max(prepared.max_rows, cadence.max_rows)
        most = self._residency.most_positions
        if most is not None:
            max_rows = min(max_rows, most - prompt.tokens - text_positions)
        least_rows = prepared.max_rows if prepared.least_rows is None else prepared.least_rows
        if max_rows < max(codebooks, least_rows):
            raise TooLongError(
                f"the segment needs {prompt.tokens + text_positions + least_rows} positions with its voice prompt; "
                f"a context has {most}"
            )
        prepared = replace(prepared, max_rows=min(prepared.max_rows, max_rows))
        return prepared, None if cadence is None else GrowingText(cadence, max_tokens, max_rows)

    def _is_good_end(self, block: Block) -> bool:
        """A growing text with plenty in it ends at the end of a sentence, lest it should have to in mid-sentence."""
        is_sentence_end = block.segments[-1].boundary in ("sentence", "paragraph")
        return is_sentence_end and block.text is not None and block.text.is_half_full
