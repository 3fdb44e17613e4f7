"""Pages have one owner each; prompts are shared by content."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.pages import PagePool, PromptStore
from engine.core.step import PreparedPrompt


def test_a_page_given_back_while_a_plan_is_out_rests_until_it_commits() -> None:
    pool = PagePool(4)
    pages = pool.take(3)
    pool.launch(1)
    pool.give_back(pages)
    assert pool.free_count == 1
    assert pool.resting_count == 3
    pool.settle(1)
    assert pool.free_count == 4


def test_a_page_rests_until_every_plan_launched_by_then_has_committed() -> None:
    pool = PagePool(2)
    (page,) = pool.take(1)
    pool.launch(1)
    pool.launch(2)
    pool.give_back([page])
    pool.settle(1)
    assert pool.free_count == 1
    pool.launch(3)
    pool.settle(2)
    assert pool.free_count == 2
    pool.settle(3)


def test_giving_back_twice_is_a_fault() -> None:
    pool = PagePool(2)
    pages = pool.take(1)
    pool.give_back(pages)
    with pytest.raises(AssertionError, match="given back twice"):
        pool.give_back(pages)


def test_taking_more_than_there_are_is_a_fault() -> None:
    with pytest.raises(AssertionError, match="3 pages wanted, 2 free"):
        PagePool(2).take(3)


@given(steps=st.lists(st.tuples(st.sampled_from(["take", "give", "launch", "settle"]), st.integers(0, 5)), max_size=60))
def test_pages_are_never_lost_or_doubled(steps: list[tuple[str, int]]) -> None:
    pool = PagePool(10)
    held: list[list[int]] = []
    out: list[int] = []
    tick = 0
    for step, count in steps:
        if step == "take" and count <= pool.free_count:
            held.append(pool.take(count))
        elif step == "give" and held:
            pool.give_back(held.pop(count % len(held)))
        elif step == "launch":
            tick += 1
            pool.launch(tick)
            out.append(tick)
        elif step == "settle" and out:
            pool.settle(out.pop(0))
        taken = [page for pages in held for page in pages]
        assert len(set(taken)) == len(taken)
        assert len(taken) + pool.free_count + pool.resting_count == 10
        if not out:
            assert pool.resting_count == 0


def test_equal_prompts_share_their_whole_pages_and_others_do_not() -> None:
    pool = PagePool(10)
    store = PromptStore(pool, page_tokens=4)
    ours, same, other = (PreparedPrompt(10, key, None) for key in (b"a", b"a", b"b"))
    assert store.missing_pages(ours) == 2
    first = store.attach(ours)
    assert store.missing_pages(same) == 0
    assert store.attach(same) is first
    assert first.shared_tokens == 8
    assert pool.free_count == 8
    assert store.attach(other) is not first
    assert pool.free_count == 6


def test_a_prompt_nobody_uses_stays_until_its_pages_are_wanted() -> None:
    pool = PagePool(4)
    store = PromptStore(pool, page_tokens=4)
    prompts = [PreparedPrompt(8, key, None) for key in (b"a", b"b")]
    entries = [store.attach(prompt) for prompt in prompts]
    assert not store.drop_oldest_idle(keep=None)
    for entry in entries:
        store.detach(entry, user=object())
    assert pool.free_count == 0
    assert store.attach(prompts[0]) is entries[0]
    store.detach(entries[0], user=object())
    assert store.drop_oldest_idle(keep=None)
    assert pool.free_count == 2
    assert store.missing_pages(prompts[1]) == 2, "b was idle for longest"
    assert not store.drop_oldest_idle(keep=b"a")


def test_the_prompt_of_a_deleted_voice_goes_with_its_last_user() -> None:
    pool = PagePool(4)
    store = PromptStore(pool, page_tokens=4)
    prompt = PreparedPrompt(8, b"a", None)
    entry = store.attach(prompt)
    assert store.attach(replace(prompt, is_transient=True)) is entry
    store.detach(entry, user=object())
    assert pool.free_count == 2
    store.detach(entry, user=object())
    assert pool.free_count == 4
    assert store.missing_pages(prompt) == 2
    kept = store.attach(prompt)  # the same content again, of a voice that lives
    store.detach(kept, user=object())
    assert pool.free_count == 2
