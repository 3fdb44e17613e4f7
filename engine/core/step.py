"""The three records that cross to the model thread and back: ModelSpec (once), StepPlan and StepResult (each tick).

Units: *positions* are places in a sequence's KV context (tokens and rows alike), *rows* are staggered decoder rows,
*frames* are de-staggered codec frames or a family's own synthesis frames, *samples* are PCM at the model's rate.
Objects typed `object` belong to the family and pass through the core unread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.speech import Notice, WordTiming

PieceKind = Literal["prompt", "text", "audio", "begin_text", "begin_audio", "end_text"]
"""The last three are one position each, and stand only in blocks whose text grows (ModelSpec.text_cadence); elsewhere a
segment's tokens have their marks themselves."""


@dataclass(frozen=True, slots=True)
class TextCadence:
    """How a block is spoken whose text is still being written: some text, some rows, one token, some rows …

    Its context is `begin_text`, then tokens one at a time until the family answers that audio may begin (or it has
    asked `max_waits` times for more, or text has ended), then `begin_audio` and `first_rows` rows; from there on, by
    turns, one token with `begin_audio` and `rows_per_token` rows. Once there is no more text, `end_text` and
    `begin_audio` are the last; the rows after them come without interruption. While text may still come and none is
    there, the block waits. The delay pattern runs on over all of it: to the vocoder it is one block.
    """

    first_rows: int
    rows_per_token: int
    max_waits: int
    max_rows: int
    """Of one such block; more only where its first segment alone wants more."""
    max_tokens: int
    """Of one such block: where the next segment does not fit, it begins another. Of a segment longer than that, a block
    is made for it alone."""
    max_hold_s: float
    """A block that has waited so long for more text is spoken to its end with what there is: nobody's words are kept
    back, and its place and pages come free."""

    def text_positions(self, tokens: int) -> int:
        """Positions that so many tokens take with all marks: one with every token, and those at either end."""
        return 2 * tokens + 3


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Geometry and budgets of a loaded family; everything the scheduler needs to know about it."""

    sample_rate_hz: int
    samples_per_frame: int
    codebooks: int
    """K of the delay pattern: K-1 rows of ramp and of wind-down. 0 = no decode rows: prefill yields the frames."""
    max_sequences: int
    """Sequences that may be resident at once."""
    max_decode_batch: int
    max_prefill_tokens: int
    """Tokens (or segments, where codebooks == 0) prefilled in one tick, all sequences together."""
    page_tokens: int
    """Positions per KV page; 0 = the family keeps no paged context."""
    page_count: int
    left_context_frames: int
    right_context_frames: int
    """Context each vocoder window needs on either side, inside its block, to equal the whole block's decode."""
    first_window_frames: int
    max_window_frames: int
    """New frames of the first window of an utterance, and the cap that later windows grow to."""
    max_windows_per_tick: int
    history_blocks: int
    """Blocks (text + audio) kept in the context before the current one; 0 = stateless."""
    history_s: float
    """At most so many seconds of audio in those blocks."""
    first_right_context_frames: int | None = None
    """Right context of an utterance's first window, where the family offers one that comes earlier and is only nearly
    final (it hides the join with the next); None = right_context_frames."""
    max_positions: int | None = None
    """Positions of one sequence's context: voice prompt, history and the block in hand; None = all there are."""
    max_plans: int = 1
    """Plans that `execute` may be given at once, on threads of their own. More than 1 only where codebooks == 0: each
    of them then has one segment's prefill, or windows (in one plan at a time). Of a sequence, a prefill and a window
    of an earlier block may be under way together, but nothing else of it while it is told to forget."""

    text_cadence: TextCadence | None = None
    """Given by a family that speaks text while it is being written: all segments of an utterance, up to one whose
    boundary is "end", are then one block. Such a family keeps no history (history_blocks 0)."""

    @property
    def frame_s(self) -> float:
        return self.samples_per_frame / self.sample_rate_hz


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A segment made ready by the family: `tokens` positions to prefill, at most `max_rows` rows to speak it. 0 tokens:
    there is nothing in it to be spoken, and the family hears no more of it."""

    tokens: int
    max_rows: int
    cost_s: float
    """Expected time of its prefill where it cannot be cut into chunks (an acoustic net); 0.0 where it can."""
    payload: object
    least_rows: int | None = None
    """Where its context has no room for max_rows, fewer will do, but not fewer than these; None = max_rows."""
    notices: tuple[Notice, ...] = ()
    """Of a segment with nothing to be spoken: what there is to say of it nevertheless."""


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A voice's prompt: `key` names its content (codes and transcript), so that equal prompts share pages."""

    tokens: int
    key: bytes
    payload: object
    is_transient: bool = False
    """Its voice has been deleted: nothing of it is kept for later."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Positions to prefill: units [start, end) of one segment's text tokens, of a block's audio rows or of the voice
    prompt; or a mark."""

    kind: PieceKind
    block: int
    """Block number within the sequence, counted from 0 and never reused; 0 for the prompt."""
    start: int
    end: int
    payload: object
    """Of PreparedText or PreparedPrompt; None for marks, and for audio rows, which the family has by sequence and
    block."""


@dataclass(frozen=True, slots=True)
class PrefillItem:
    """Fill positions [first_position, first_position + Σ lengths) of the context that `page_table` holds."""

    sequence: int
    pieces: tuple[Piece, ...]
    first_position: int
    page_table: tuple[int, ...]
    samples_block: int | None
    """The block of which row `row` is sampled (or whose frames are computed) after this item. None = fill only."""
    left: tuple[object, ...] = ()
    """Payloads of texts heard before the block, oldest first (for families that keep no context of their own)."""
    right: tuple[object, ...] = ()
    """Payloads of texts known to follow the block, nearest first."""
    row: int = 0
    """More than 0 where the text of a block goes on between its rows."""
    asks_block: int | None = None
    """The block of which is asked, after this item, whether its audio may begin (see TextCadence)."""


@dataclass(frozen=True, slots=True)
class DecodeItem:
    """Feed row `row - 1` of `block` at `position` and sample row `row`."""

    sequence: int
    block: int
    row: int
    position: int
    page_table: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VocodeItem:
    """Turn frames [start_frame, end_frame) of a block into samples, with that many context frames on either side."""

    sequence: int
    block: int
    start_frame: int
    end_frame: int
    left_context_frames: int
    right_context_frames: int
    is_block_end: bool


@dataclass(frozen=True, slots=True)
class Opening:
    """A sequence appears, or begins another utterance: `request` is the SpeechRequest of its blocks from `block` on.
    It comes again where the plan that carried it failed as a whole."""

    sequence: int
    block: int
    request: object


@dataclass(frozen=True, slots=True)
class Forget:
    """State the family may drop: one block's codes and frames, or all of a sequence where block is None.

    `kept_frames` (with a block): the block was heard up to there; its first kept_frames frames stay as history and
    its rows are rebuilt as those frames with the end-of-codes staircase (kept_frames + K - 1 rows)."""

    sequence: int
    block: int | None
    kept_frames: int = 0


@dataclass(frozen=True, slots=True)
class StepPlan:
    """All that the model does in one tick. Executed in this order: openings, forgets, prefill, decode, vocode."""

    tick: int
    openings: tuple[Opening, ...] = ()
    forgets: tuple[Forget, ...] = ()
    prefill: tuple[PrefillItem, ...] = ()
    decode: tuple[DecodeItem, ...] = ()
    vocode: tuple[VocodeItem, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockFrames:
    """Answer to a PrefillItem with samples_block of a family without decode rows: the block's frames, all at once."""

    sequence: int
    block: int
    frames: int
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """Rows that one sequence gained this tick (row 0 by a prefill, one by a decode)."""

    sequence: int
    block: int
    rows: int
    is_block_finished: bool
    is_runaway: bool = False
    """The family saw the block go astray (repeated silence); the scheduler ends it and keeps it out of the history."""


@dataclass(frozen=True, slots=True)
class AudioDecision:
    """Answer to a PrefillItem that asks: may the block's audio begin, or does the family want more text first?"""

    sequence: int
    block: int
    may_begin: bool


@dataclass(frozen=True, slots=True)
class Window:
    """Answer to a VocodeItem. `words`: samples from the block's first sample on, chars of the utterance's input."""

    sequence: int
    block: int
    pcm: object
    sample_count: int
    words: tuple[WordTiming, ...] = ()
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class SequenceFailure:
    """One sequence's share of the plan failed (out of memory, a bad input); the others stand."""

    sequence: int
    block: int
    message: str


@dataclass(frozen=True, slots=True)
class StepResult:
    """The answer to the plan of the same tick, complete: one outcome per item, or a failure in its place."""

    tick: int
    frames: tuple[BlockFrames, ...] = ()
    rows: tuple[RowOutcome, ...] = ()
    windows: tuple[Window, ...] = ()
    failures: tuple[SequenceFailure, ...] = ()
    decisions: tuple[AudioDecision, ...] = ()
