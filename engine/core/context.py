"""What the KV memory of one sequence holds, and what has to be prefilled to make it hold something else.

A *layout* is what the context of a block ought to be: the voice prompt, then text and audio of the blocks before it,
then its own text. A Context remembers what its positions hold. Appending a block, rolling one back, moving the window
and coming back after an eviction are one operation: keep what the layout and the content have in common from position
0 on, and prefill the rest.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from engine.core.pages import PagePool, PromptPages, PromptStore
from engine.core.step import Piece, PieceKind, PreparedPrompt

UnitKey = tuple[PieceKind, int, int]


@dataclass(frozen=True, slots=True)
class Unit:
    """One part of a layout: `length` positions. `revision` changes where a roll-back changed what they hold."""

    kind: PieceKind
    block: int
    revision: int
    length: int
    payload: object
    first: int = 0
    """Which of the segment's tokens, or of the block's rows, its first position holds."""

    @property
    def key(self) -> UnitKey:
        return (self.kind, self.block, self.revision)


class Context:
    """Pages and what they hold. `length` positions are filled, in launched plans or committed ones."""

    __slots__ = ("_keys", "_lengths", "_page_tokens", "_pages", "_pool", "_prompts", "_table", "length", "prompt")

    def __init__(self, pool: PagePool, prompts: PromptStore, page_tokens: int, prompt: PreparedPrompt) -> None:
        self._pool = pool
        self._prompts = prompts
        self._page_tokens = page_tokens
        self._pages: list[int] = []
        self._keys: list[UnitKey] = []
        self._lengths: list[int] = []
        self._table: tuple[int, ...] | None = None
        self.length = 0
        self.prompt: PromptPages = prompts.attach(prompt)
        self._take_shared()

    @property
    def page_count(self) -> int:
        """Pages that are this context's alone."""
        return len(self._pages)

    @property
    def page_table(self) -> tuple[int, ...]:
        if self._table is None:
            self._table = (*self.prompt.pages, *self._pages)
        return self._table

    def own_pages_for(self, positions: int) -> int:
        """Pages of its own that a context of so many positions needs."""
        if not self._page_tokens:
            return 0
        return max(0, -(-positions // self._page_tokens) - len(self.prompt.pages))

    def resize(self, positions: int) -> None:
        """Hold exactly the pages for so many positions; the caller has seen to it that they are free."""
        difference = self.own_pages_for(positions) - len(self._pages)
        if difference > 0:
            self._pages.extend(self._pool.take(difference))
        elif difference < 0:
            self._pool.give_back(self._pages[difference:])
            del self._pages[difference:]
        if difference:
            self._table = None

    def release(self) -> None:
        """Give every page back; the context must not be used again."""
        self._pool.give_back(self._pages)
        self._pages = []
        self._prompts.detach(self.prompt, self)

    def matching(self, layout: Seq[Unit]) -> int:
        """Positions from 0 on that hold what the layout wants."""
        matched = 0
        for key, length, unit in zip(self._keys, self._lengths, layout, strict=False):
            if key != unit.key:
                break
            matched += min(length, unit.length)
            if length != unit.length:
                break
        return matched

    def cut(self, length: int) -> None:
        """Forget what positions from `length` on hold; their pages stay."""
        excess = self.length - length
        while excess > 0:
            taken = min(excess, self._lengths[-1])
            self._lengths[-1] -= taken
            excess -= taken
            if self._lengths[-1] == 0:
                del self._lengths[-1], self._keys[-1]
        self.length = min(self.length, length)

    def rename_last(self, old: UnitKey, new: UnitKey, length: int) -> None:
        """Where the last unit is `old`: its first `length` positions are right for `new` as well."""
        if self._keys and self._keys[-1] == old:
            self.cut(self.length - max(0, self._lengths[-1] - length))
            if self._keys and self._keys[-1] == old:
                self._keys[-1] = new

    def append(self, key: UnitKey, length: int) -> None:
        """A plan fills the next `length` positions."""
        if self._keys and self._keys[-1] == key:
            self._lengths[-1] += length
        else:
            self._keys.append(key)
            self._lengths.append(length)
        self.length += length

    def fill(self, layout: Seq[Unit], budget: int) -> tuple[Piece, ...]:
        """The next at most `budget` positions of the layout as pieces, noted as filled. Empty where there is nothing
        left to fill, or where another context is filling the shared prompt just now."""
        self.cut(self.matching(layout))
        shared = self.prompt.shared_tokens
        if self.length < shared:
            self._take_shared()
            if self.length < shared:
                if self.prompt.filler not in (None, self):
                    return ()
                self.prompt.filler = self
        pieces: list[Piece] = []
        skipped = self.length
        for unit in layout:
            if skipped >= unit.length:
                skipped -= unit.length
                continue
            if budget <= 0:
                break
            end = min(unit.length, skipped + budget)
            pieces.append(Piece(unit.kind, unit.block, unit.first + skipped, unit.first + end, unit.payload))
            self.append(unit.key, end - skipped)
            budget -= end - skipped
            skipped = 0
        return tuple(pieces)

    def stop_filling(self) -> None:
        """It goes on later or never: another may fill the shared prompt."""
        if self.prompt.filler is self:
            self.prompt.filler = None

    def note_committed(self, position: int) -> None:
        """A plan that filled up to `position` has committed: others may use what it filled of the prompt."""
        if self.prompt.filler is self:
            self.prompt.filled_tokens = max(self.prompt.filled_tokens, min(position, self.prompt.shared_tokens))
            if self.prompt.filled_tokens == self.prompt.shared_tokens:
                self.prompt.filler = None

    def _take_shared(self) -> None:
        """Take over what others have filled of the prompt."""
        gained = self.prompt.filled_tokens - self.length
        if gained > 0:
            self.append(("prompt", 0, 0), gained)
