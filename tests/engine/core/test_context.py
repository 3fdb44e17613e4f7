"""Contexts: what they hold, what they have in common with a layout, and how they get the rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.core.context import Context, Unit
from engine.core.pages import PagePool, PromptStore
from engine.core.step import PreparedPrompt

PAGE_TOKENS = 4
PROMPT = PreparedPrompt(10, b"voice", "voice")


def prompt_unit(prompt: PreparedPrompt = PROMPT) -> Unit:
    return Unit("prompt", 0, 0, prompt.tokens, prompt.payload)


def text(block: int, length: int, revision: int = 0) -> Unit:
    return Unit("text", block, revision, length, f"text {block}")


def audio(block: int, length: int, revision: int = 0) -> Unit:
    return Unit("audio", block, revision, length, None)


class Memory:
    def __init__(self, page_count: int = 64) -> None:
        self.pool = PagePool(page_count)
        self.store = PromptStore(self.pool, PAGE_TOKENS)

    def context(self) -> Context:
        return Context(self.pool, self.store, PAGE_TOKENS, PROMPT)


def fill_all(context: Context, layout: list[Unit], budget: int = 1000) -> list[tuple[str, int, int, int]]:
    context.resize(sum(unit.length for unit in layout))
    pieces = []
    while more := context.fill(layout, budget):
        context.note_committed(context.length)
        pieces += [(piece.kind, piece.block, piece.start, piece.end) for piece in more]
    return pieces


def test_appending_a_block_begins_with_the_row_that_was_not_fed() -> None:
    context = Memory().context()
    fill_all(context, [prompt_unit(), text(0, 5)])
    context.append(audio(0, 1).key, 11)
    pieces = fill_all(context, [prompt_unit(), text(0, 5), audio(0, 12), text(1, 3)])
    assert pieces == [("audio", 0, 11, 12), ("text", 1, 0, 3)]


def test_a_layout_without_the_first_block_keeps_the_prompt_alone() -> None:
    context = Memory().context()
    fill_all(context, [prompt_unit(), text(0, 5), audio(0, 12), text(1, 3)])
    assert context.matching([prompt_unit(), text(1, 3)]) == PROMPT.tokens


def test_a_new_revision_is_something_else() -> None:
    context = Memory().context()
    fill_all(context, [prompt_unit(), text(0, 5), audio(0, 12), text(1, 3)])
    assert context.matching([prompt_unit(), text(0, 5), audio(0, 9, revision=1)]) == PROMPT.tokens + 5
    assert context.matching([prompt_unit(), text(0, 2, revision=1)]) == PROMPT.tokens


def test_rows_before_the_cut_stay_right_where_the_text_did_not_change() -> None:
    context = Memory().context()
    fill_all(context, [prompt_unit(), text(0, 5), audio(0, 12)])
    context.rename_last(audio(0, 1).key, audio(0, 1, revision=1).key, 6)
    assert context.length == PROMPT.tokens + 5 + 6
    pieces = fill_all(context, [prompt_unit(), text(0, 5), audio(0, 13, revision=1)])
    assert pieces == [("audio", 0, 6, 13)]


def test_a_block_that_is_not_the_last_cannot_be_renamed() -> None:
    context = Memory().context()
    layout = [prompt_unit(), text(0, 5), audio(0, 12), text(1, 3)]
    fill_all(context, layout)
    context.rename_last(audio(0, 1).key, audio(0, 1, revision=1).key, 6)
    assert context.matching(layout) == 30


def test_a_second_context_waits_for_the_shared_prompt_and_takes_it_over() -> None:
    memory = Memory()
    first, second = memory.context(), memory.context()
    layout = [prompt_unit(), text(0, 5)]
    for context in (first, second):
        context.resize(15)
    assert first.fill(layout, 6)
    assert second.fill(layout, 100) == ()
    first.note_committed(first.length)
    assert second.fill(layout, 100) == ()
    assert first.fill(layout, 100)
    first.note_committed(first.length)
    (rest, own) = second.fill(layout, 100)
    assert (rest.kind, rest.start, rest.end) == ("prompt", 8, 10)
    assert own.kind == "text"
    assert first.page_table[:2] == second.page_table[:2]
    assert not set(first.page_table[2:]) & set(second.page_table[2:])


def test_a_filler_that_goes_away_lets_another_fill() -> None:
    memory = Memory()
    first, second = memory.context(), memory.context()
    layout = [prompt_unit(), text(0, 5)]
    for context in (first, second):
        context.resize(15)
    first.fill(layout, 6)
    first.note_committed(first.length)
    first.stop_filling()
    (piece, *_) = second.fill(layout, 100)
    assert (piece.kind, piece.start) == ("prompt", 6)


def test_pages_are_exactly_those_that_the_positions_need() -> None:
    memory = Memory(page_count=16)
    context = memory.context()
    assert memory.pool.free_count == 14
    context.resize(17)
    assert context.page_count == 3
    assert len(context.page_table) == 5
    context.resize(9)
    assert context.page_count == 1
    context.release()
    assert memory.pool.free_count == 14
    assert memory.store.drop_oldest_idle(keep=None)
    assert memory.pool.free_count == 16


LAYOUTS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(0, 2), st.integers(1, 9)), min_size=0, max_size=4
)


@given(before=LAYOUTS, after=LAYOUTS, budget=st.integers(1, 7))
def test_filling_makes_any_content_any_layout(
    before: list[tuple[int, int, int, int]], after: list[tuple[int, int, int, int]], budget: int
) -> None:
    """Oracle: a copy of the content, position by position, changed only by the pieces."""

    def layout(blocks: list[tuple[int, int, int, int]]) -> list[Unit]:
        units = [prompt_unit()]
        for number, (step, tokens, revision, rows) in enumerate(blocks):
            units += [text(number * 3 + step, tokens, revision), audio(number * 3 + step, rows, revision)]
        return units

    def cells(units: list[Unit]) -> list[tuple[object, int]]:
        return [(unit.key, place) for unit in units for place in range(unit.length)]

    context = Memory().context()
    content: list[tuple[object, int]] = []
    for wanted in (layout(before), layout(after)):
        context.resize(sum(unit.length for unit in wanted))
        while pieces := context.fill(wanted, budget):
            filled = sum(piece.end - piece.start for piece in pieces)
            assert filled <= budget
            del content[context.length - filled :]
            keys = {(unit.kind, unit.block): unit.key for unit in wanted}
            for piece in pieces:
                content += [(keys[(piece.kind, piece.block)], n) for n in range(piece.start, piece.end)]
            context.note_committed(context.length)
        assert content[: context.length] == cells(wanted)
