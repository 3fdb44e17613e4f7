"""The order in which text, marks and rows stand in the context of a block whose text grows."""

from __future__ import annotations

from engine.core.growing_text import GrowingText
from engine.core.step import PreparedText, TextCadence

CADENCE = TextCadence(first_rows=5, rows_per_token=2, max_waits=2, max_rows=60, max_tokens=6, max_hold_s=2.0)


def text(name: str) -> PreparedText:
    return PreparedText(len(name), 8, 0.0, name)


def growing(*names: str) -> GrowingText:
    made = GrowingText(CADENCE, 6, 60)
    for name in names:
        made.append(text(name))
    made.begin(7)
    return made


def shown(made: GrowingText, fed_rows: int) -> str:
    """The layout in short: the text itself, `A` and `E` for the marks, row numbers."""
    parts = []
    for unit in made.units(fed_rows):
        if unit.kind == "text":
            assert isinstance(unit.payload, str)
            parts.append(unit.payload[unit.first : unit.first + unit.length])
        elif unit.kind == "audio":
            parts.append("".join(f"[{row}]" for row in range(unit.first, unit.first + unit.length)))
        else:
            parts.append({"begin_text": "T", "begin_audio": "A", "end_text": "E"}[unit.kind])
    return " ".join(parts)


def opened(made: GrowingText, *answers: bool) -> GrowingText:
    for may_begin in answers:
        made.lengthen_opening()
        made.answer(may_begin)
    made.lengthen_opening()
    return made


def test_tokens_are_fed_one_at_a_time_until_audio_may_begin() -> None:
    made = growing("ab", "cd")
    made.lengthen_opening()
    assert shown(made, 0) == "T a"
    made.lengthen_opening()
    assert shown(made, 0) == "T a", "the answer is still to come"
    made.answer(False)
    made.lengthen_opening()
    assert shown(made, 0) == "T ab"
    made.answer(True)
    made.lengthen_opening()
    assert shown(made, 0) == "T ab A"
    assert made.has_begun


def test_no_more_waits_than_the_cadence_allows() -> None:
    made = opened(growing("abcd"), False, False)
    assert shown(made, 0) == "T ab A"


def test_before_the_first_row_a_token_that_is_not_written_yet_is_waited_for() -> None:
    made = opened(growing("a"), False)
    assert shown(made, 0) == "T a"
    assert not made.has_begun
    made.append(text("b"))
    made.lengthen_opening()
    assert shown(made, 0) == "T a b"


def test_text_that_ends_before_audio_has_begun_is_spoken_in_one_run() -> None:
    made = growing("a")
    made.lengthen_opening()
    made.is_closed = True
    made.answer(False)
    made.lengthen_opening()
    assert shown(made, 0) == "T a E A"
    assert made.is_last_run
    assert not made.is_stop(5)


def test_after_the_first_run_a_token_goes_in_before_each_run_of_rows() -> None:
    made = opened(growing("ab", "c"), True)
    assert [row for row in range(1, 6) if made.is_stop(row)] == [5]
    pieces = made.next_pieces(5)
    assert [(piece.kind, piece.start, piece.end) for _, piece in pieces] == [
        ("audio", 4, 5),
        ("text", 1, 2),
        ("begin_audio", 0, 1),
    ]
    assert shown(made, 5) == "T a A [0][1][2][3][4] b A"
    assert shown(made, 6) == "T a A [0][1][2][3][4] b A [5]"
    assert [row for row in range(6, 9) if made.is_stop(row)] == [7]
    made.next_pieces(7)
    assert shown(made, 7) == "T a A [0][1][2][3][4] b A [5][6] c A"


def test_a_stop_waits_for_text_and_ends_once_there_will_be_no_more() -> None:
    made = opened(growing("a"), True)
    assert made.is_stop(5)
    assert not made.has_next
    made.is_closed = True
    assert made.has_next
    made.next_pieces(5)
    assert shown(made, 8) == "T a A [0][1][2][3][4] E A [5][6][7]"
    assert not any(made.is_stop(row) for row in range(6, 60))


def test_it_waits_only_where_the_next_thing_is_a_token_that_is_not_written() -> None:
    made = growing("a")
    assert not made.waits_for_text(0)
    made.lengthen_opening()
    assert made.waits_for_text(0) is False, "an answer is still to come"
    made.answer(False)
    assert made.waits_for_text(0)
    made.append(text("b"))
    assert not made.waits_for_text(0)
    made.lengthen_opening()
    made.answer(True)
    assert not made.waits_for_text(0), "audio may begin"
    made.lengthen_opening()
    assert [rows for rows in range(8) if made.waits_for_text(rows)] == [5]
    made.is_closed = True
    assert not made.waits_for_text(5)


def test_pieces_put_together_are_the_layout() -> None:
    """What is fed step by step is what a prefill of the whole would be given."""
    made = opened(growing("abc", "", "de"), False, True)
    made.is_closed = True
    fed = [(unit.kind, unit.first, unit.length) for unit in made.units(0)]
    lengths: dict[tuple[str, int], int] = {}
    for rows in range(1, 15):
        if made.is_stop(rows):
            pieces = [(unit.key, piece) for unit, piece in made.next_pieces(rows)]
        else:
            pieces = [(made.audio_unit.key, None)]  # type: ignore[list-item]
        for key, _ in pieces:
            lengths[key[0], key[2]] = lengths.get((key[0], key[2]), 0) + 1
    before = len(fed)
    after = made.units(14)[before:]
    assert {(unit.kind, unit.revision): unit.length for unit in after} == lengths


def test_there_is_room_up_to_the_limit_and_until_it_is_closed() -> None:
    made = growing("ab")
    assert not made.is_half_full
    made.append(text("c"))
    assert made.is_half_full
    assert made.has_room(3)
    assert not made.has_room(4)
    made.is_closed = True
    assert not made.has_room(0)


def test_the_positions_of_a_block_have_a_bound() -> None:
    """Every token has a mark of its own."""
    made = opened(growing("abc", "def"), True)
    made.is_closed = True
    rows = 1
    while rows < CADENCE.max_rows:
        if made.is_stop(rows):
            made.next_pieces(rows)
        rows += 1
    assert sum(unit.length for unit in made.units(rows)) <= made.max_positions
