"""Characters with times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.elevenlabs_alignment import Alignment
from gateway.events import Word, Words

RATE_HZ = 24000


def word(text: str, start: int, end: int, closing: str = "") -> Word:
    return Word(text, 0, len(text), start, end, closing)


def test_a_words_characters_share_its_time_and_a_space_completes_it() -> None:
    alignment = Alignment(is_absolute=True)
    alignment.add(Words("a", (word("ab", 2400, 7200, ","),), RATE_HZ))
    assert alignment.take() == (["a", "b", ",", " "], [100, 200, 300, 300], [100, 100, 0, 0])
    assert alignment.take() is None


def test_relative_times_start_at_the_end_of_the_message_before() -> None:
    alignment = Alignment(is_absolute=False)
    alignment.add(Words("a", (word("a", 2400, 4800),), RATE_HZ))
    assert alignment.take() == (["a", " "], [100, 200], [100, 0])
    alignment.add(Words("a", (word("b", 9600, 12000),), RATE_HZ))
    assert alignment.take() == (["b", " "], [200, 300], [100, 0])


@given(
    lengths=st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 9000), st.integers(1, 9)), min_size=1, max_size=12),
    cuts=st.sets(st.integers(0, 12)),
)
def test_relative_times_add_up_to_absolute_ones_without_drift(
    lengths: list[tuple[int, int, int]], cuts: set[int]
) -> None:
    absolute, relative = Alignment(is_absolute=True), Alignment(is_absolute=False)
    place, clock_ms, summed = 0, 0, []
    for index, (gap, length, characters) in enumerate(lengths):
        spoken = Words("a", (word("x" * characters, place + gap, place + gap + length),), RATE_HZ)
        place += gap + length
        absolute.add(spoken)
        relative.add(spoken)
        if index in cuts or index == len(lengths) - 1:
            taken = relative.take()
            assert taken is not None
            _, starts, durations = taken
            summed += [clock_ms + start for start in starts]
            clock_ms += starts[-1] + durations[-1]
    taken = absolute.take()
    assert taken is not None
    assert summed == taken[1]
    assert taken[1] == sorted(taken[1])
    assert clock_ms == round(place * 1000 / RATE_HZ)
