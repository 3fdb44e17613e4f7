"""Who owns each page of KV memory. Every page has exactly one owner: nobody, one context, or one voice prompt.

A page given back while a plan is out may still be named in it, so it rests until every plan launched by then has
committed; only then can it be taken again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from engine.core.step import PreparedPrompt

_FREE, _HELD, _RESTING = range(3)


class PagePool:
    """Pages 0 … page_count-1. Giving back a page that is not held, or taking more than there are, is a fault of the
    caller and raises AssertionError."""

    def __init__(self, page_count: int) -> None:
        self.page_count = page_count
        self._free = list(range(page_count - 1, -1, -1))
        self._state = bytearray(page_count)
        self._resting: list[tuple[int, list[int]]] = []
        self._launched: list[int] = []

    @property
    def free_count(self) -> int:
        return len(self._free)

    @property
    def resting_count(self) -> int:
        return sum(len(pages) for _, pages in self._resting)

    def take(self, count: int) -> list[int]:
        if count > len(self._free):
            raise AssertionError(f"{count} pages wanted, {len(self._free)} free")
        pages = [self._free.pop() for _ in range(count)]
        for page in pages:
            self._state[page] = _HELD
        return pages

    def give_back(self, pages: Iterable[int]) -> None:
        leaving = list(pages)
        for page in leaving:
            if self._state[page] != _HELD:
                raise AssertionError(f"page {page} given back twice")
            self._state[page] = _RESTING
        if self._launched:
            self._resting.append((self._launched[-1], leaving))
        else:
            self._to_free(leaving)

    def launch(self, tick: int) -> None:
        """A plan that may name any page held now is on its way."""
        self._launched.append(tick)

    def settle(self, tick: int) -> None:
        """The plan of this tick has committed (or failed as a whole)."""
        self._launched.remove(tick)
        oldest = self._launched[0] if self._launched else None
        while self._resting and (oldest is None or self._resting[0][0] < oldest):
            self._to_free(self._resting.pop(0)[1])

    def _to_free(self, pages: list[int]) -> None:
        for page in pages:
            self._state[page] = _FREE
        self._free.extend(pages)


class PromptPages:
    """The whole pages of one voice prompt, shared by every context that begins with it. The rest of the prompt, less
    than a page, each context holds for itself."""

    __slots__ = ("filled_tokens", "filler", "is_transient", "key", "pages", "shared_tokens", "users")

    def __init__(self, key: bytes, pages: list[int], shared_tokens: int) -> None:
        self.key = key
        self.pages = pages
        self.shared_tokens = shared_tokens
        self.filled_tokens = 0
        """Positions that a committed plan has filled."""
        self.filler: object | None = None
        """The one context that may fill it now."""
        self.users = 0
        self.is_transient = False
        """It goes with its last user."""


class PromptStore:
    """Prompts by the content of their key: kept while a context uses them, then until their pages are wanted; those of
    deleted voices (PreparedPrompt.is_transient) no longer than they are used."""

    def __init__(self, pool: PagePool, page_tokens: int) -> None:
        self._pool = pool
        self._page_tokens = page_tokens
        self._prompts: dict[bytes, PromptPages] = {}
        self._idle: OrderedDict[bytes, PromptPages] = OrderedDict()

    def missing_pages(self, prompt: PreparedPrompt) -> int:
        """Pages that `attach` would take from the pool."""
        return 0 if prompt.key in self._prompts else self._whole_pages(prompt)

    def attach(self, prompt: PreparedPrompt) -> PromptPages:
        """One user more; takes pages where nobody has used the prompt lately."""
        entry = self._prompts.get(prompt.key)
        if entry is None:
            count = self._whole_pages(prompt)
            entry = PromptPages(prompt.key, self._pool.take(count), count * self._page_tokens)
            self._prompts[prompt.key] = entry
        entry.users += 1
        entry.is_transient |= prompt.is_transient
        self._idle.pop(prompt.key, None)
        return entry

    def detach(self, entry: PromptPages, user: object) -> None:
        entry.users -= 1
        if entry.filler is user:
            entry.filler = None
        if entry.users == 0 and entry.is_transient:
            self._drop(entry)
        elif entry.users == 0:
            self._idle[entry.key] = entry

    def drop_oldest_idle(self, keep: bytes | None) -> bool:
        """Give back the pages of the prompt unused for longest, other than `keep`. False where there is none."""
        for key in self._idle:
            if key != keep:
                self._drop(self._idle.pop(key))
                return True
        return False

    def _drop(self, entry: PromptPages) -> None:
        del self._prompts[entry.key]
        self._pool.give_back(entry.pages)

    def _whole_pages(self, prompt: PreparedPrompt) -> int:
        return prompt.tokens // self._page_tokens if self._page_tokens else 0
