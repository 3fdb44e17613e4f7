"""Every wait and length of the text front-end, each default written once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CodeBlocks = Literal["skip", "read"]


@dataclass(frozen=True, slots=True)
class TextSettings:
    """Waits are seconds. Lengths are characters of the text to be spoken; a character of a script without letters for
    single sounds (Han, kana, Hangul syllables) counts as `DENSE_CHARS` of them (see `scripts.py`)."""

    # ---- the first segment of an utterance: out as soon as it can no longer change
    first_clause_min_words: int = 2
    """A comma or the like ends the first segment from this many words on …"""
    first_clause_min_chars: int = 8
    """… or from this many characters on."""
    first_max_words: int = 10
    """With no punctuation at all, the first segment is cut at the best place among this many words."""
    first_wait_s: float = 0.5
    """The same, when this long has passed since its first character."""

    # ---- later segments: they grow from second_min_chars to target_chars
    second_min_chars: int = 40
    growth: float = 2.0
    target_chars: int = 160
    clause_min_chars: int = 140
    """From here on a clause mark will do where no sentence ends."""
    max_chars: int = 280
    """Never longer: cut at the best place."""
    sentence_hold_s: float = 0.3
    """A whole sentence shorter than what is wanted waits this long for company."""
    max_wait_s: float = 1.5
    """With no punctuation, what is complete goes out this long after its first character."""

    # ---- marks whose meaning the next character decides
    terminator_wait_s: float = 0.15
    """A closing mark with nothing behind it is taken for the end after this."""
    number_wait_s: float = 0.4
    """The same for a full stop or comma behind a digit: "3." may go on "14"."""
    word_wait_s: float = 2.0
    """A last word with nothing behind it is taken to be whole after this."""
    max_nested_chars: int = 160
    """A quotation or bracket longer than this may be cut at the ends of its sentences."""

    # ---- markup that may turn out to be text
    unclosed_tag_wait_s: float = 1.0
    """A tag, cue or link target that has not been closed is text after this."""
    unclosed_fence_wait_s: float = 3.0
    """A code fence that gets no more text and is not closed is text after this."""
    max_tag_chars: int = 256
    max_cue_chars: int = 40
    """Between the brackets of a cue such as [laughs], or the stars of *sighs*."""
    max_link_chars: int = 2048
    """Between the parentheses of a markdown link."""
    max_fence_chars: int = 4000
    """A fence with more than this in it is code, closed or not."""

    code_blocks: CodeBlocks = "skip"
    """What is heard of a fenced code block: nothing, or its text line by line."""
