"""LineScanner: what the beginning of a line says in markdown. Takes it off, and tells the rest what kind of gap came.

Headings, lists and check boxes, quotes, rules, tables, code fences. A marker is held only until it can no longer be
one; code in a fence until the fence closes, is certainly code, or is released.
"""

from __future__ import annotations

from typing import Final, Literal

from gateway.text.settings import TextSettings
from gateway.text.sink import Gap, TextSink
from gateway.text.tags import TagScanner

_State = Literal["start", "inline", "fence_info", "fence", "border", "checkbox"]
_LineKind = Literal["prose", "heading", "item", "row"]

_NEWLINES: Final = frozenset("\n\r\v\f\x85\u2028\u2029")
_INDENT: Final = frozenset(" \t\u00a0\u3000\ufeff")
_RUNS: Final = frozenset("-*_=~`+#")
_BULLETS: Final = frozenset("•◦▪‣●○■□⁃∙·–—➤➜►▸★☆✓✔✗✘☐☑")
_BORDER: Final = frozenset("-=|:+_ ┌┐└┘├┤┬┴┼─│═║╔╗╚╝╠╣╦╩╬")
_MAX_RUN: Final = 128
_MAX_INFO: Final = 200


class LineScanner:
    """Feed it with `push`. It stands in front of a `TagScanner`; `sink` is that scanner's own sink."""

    def __init__(self, settings: TextSettings, tags: TagScanner, sink: TextSink) -> None:
        self._settings = settings
        self._tags = tags
        self._sink = sink
        self.now_s = 0.0
        self._state: _State = "start"
        self._held: list[tuple[str, int]] = []
        self._held_since_s = 0.0
        self._line_kind: _LineKind = "prose"
        self._newline_at: int | None = None
        self._after_return = False
        self._cell_mark: int | None = None
        self._cell_has_text = False
        self._fence = ("`", 3)
        self._fence_line = ""
        self._is_certainly_code = False
        self._stray_fence: str | None = None
        self._barred_until = -1
        self._last_push_s = 0.0

    # ---- what the owner calls

    def push(self, char: str, position: int) -> None:
        if self._state == "inline":
            if char in _NEWLINES:
                self._newline(char, position)
            elif self._line_kind == "row":
                self._row(char, position)
            else:
                self._tags.push(char, position)
            return
        self._last_push_s = self.now_s
        if self._after_return:
            self._after_return = False
            if char == "\n":
                return
        if self._state == "start":
            self._start(char, position)
        elif self._state == "fence":
            self._in_fence(char, position)
        elif self._state == "fence_info":
            self._in_fence_info(char, position)
        elif self._state == "border":
            self._in_border(char, position)
        else:
            self._in_checkbox(char, position)

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    @property
    def deadline_s(self) -> float | None:
        """When what is held becomes text."""
        if not self._held:
            return None
        if self._state == "fence":
            return None if self._is_certainly_code else self._last_push_s + self._settings.unclosed_fence_wait_s
        return self._held_since_s + self._settings.unclosed_tag_wait_s

    def release(self) -> None:
        """Decides everything that is held, with what is known now."""
        while self._held:
            if self._state == "fence":
                if self._is_closing(self._fence_line):
                    self._close_fence()
                elif self._is_certainly_code:
                    if self._settings.code_blocks == "read":
                        self._read_aloud(self._held[1:])
                    del self._held[1:]
                    return
                else:
                    self._release_fence()
            elif self._state == "border":
                self._held.clear()
                self._state = "start"
            elif self._state == "start" and self._run_length() >= 3 and self._held[0][0] in "-*_=":
                self._rule()
            else:
                self._literal()

    # ---- the beginning of a line

    def _start(self, char: str, position: int) -> None:
        if self._held:
            self._after_marker(char, position)
        elif char in _NEWLINES:
            self._after_return = char == "\r"
            if self._newline_at is not None:
                self._tags.hard_gap("paragraph", self._newline_at)
        elif char in _INDENT:
            pass
        elif (
            char in _RUNS or char in ">|" or char in _BULLETS or char in _BORDER or (char.isascii() and char.isdigit())
        ):
            self._hold(char, position)
        else:
            self._begin_text(char, position, "prose")

    def _hold(self, char: str, position: int) -> None:
        self._held = [(char, position)]
        self._held_since_s = self.now_s

    def _after_marker(self, char: str, position: int) -> None:
        first = self._held[0][0]
        if first == ">":
            if char == "=":
                self._literal(char, position)
            else:
                self._held.clear()
                self._start(char, position)
        elif first in _RUNS:
            self._after_run(first, char, position)
        elif first.isdigit():
            self._after_number(char, position)
        elif first == "|":
            self._after_pipe(char, position)
        elif first in _BULLETS:
            if char in _INDENT:
                self._block("item")
                self._held.clear()
                self._begin_item()
            else:
                self._literal(char, position)
        elif char in _BORDER:
            self._held.append((char, position))
            self._state = "border"
        else:
            self._literal(char, position)

    def _run_length(self) -> int:
        first = self._held[0][0]
        length = 0
        for char, _ in self._held:
            if char == first:
                length += 1
            elif char not in _INDENT:
                return 0
        return length

    def _after_run(self, first: str, char: str, position: int) -> None:
        held = self._held
        is_spaced = held[-1][0] in _INDENT
        if char in _NEWLINES:
            self._end_of_run(first, char, position)
        elif char == first:
            if len(held) < _MAX_RUN:
                held.append((char, position))
        elif char in _INDENT:
            if is_spaced or (len(held) == 1 and first in "-*+"):
                held.append((char, position)) if len(held) < _MAX_RUN else None
            elif first == "#" and len(held) <= 6:
                self._block("item")
                held.clear()
                self._begin_line("heading")
            elif self._is_fence():
                self._begin_fence()
                self._in_fence_info(char, position)
            else:
                self._literal(char, position)
        elif self._is_fence():
            self._begin_fence()
            self._in_fence_info(char, position)
        elif is_spaced and sum(held_char == first for held_char, _ in held) == 1:
            self._block("item")
            held.clear()
            self._begin_item()
            self.push(char, position)
        elif first == "+" and not is_spaced and char in "-=|:":
            held.append((char, position))
            self._state = "border"
        else:
            self._literal(char, position)

    def _end_of_run(self, first: str, char: str, position: int) -> None:
        if self._is_fence() or (self._stray_fence == first and len(self._held) >= 3):
            if self._stray_fence == first:
                self._stray_fence = None
                self._rule()
                self._start(char, position)
                return
            self._begin_fence()
            self._in_fence_info(char, position)
            return
        self._rule()
        self._start(char, position)

    def _rule(self) -> None:
        """A line of nothing but marks: not spoken, and nothing runs on over it."""
        self._block("paragraph")
        self._held.clear()

    def _after_number(self, char: str, position: int) -> None:
        held = self._held
        mark = held[-1][0]
        if mark.isdigit() and ((char.isascii() and char.isdigit() and len(held) < 3) or char in ".)"):
            held.append((char, position))
        elif mark in ".)" and char in _INDENT:
            self._block("item")
            number, self._held = held, []
            self._begin_item()
            for digit, at in number[:-1]:
                self._sink.character(digit, at, at + 1)
            at = number[-1][1]
            self._sink.character(",", at, at + 1)
            self._sink.gap("space", position, position + 1)
        else:
            self._literal(char, position)

    def _after_pipe(self, char: str, position: int) -> None:
        if char in _BORDER:
            self._held.append((char, position)) if len(self._held) < _MAX_RUN else None
        elif char in _NEWLINES:
            self._held.clear()
            self._start(char, position)
        else:
            self._block("item")
            held, self._held = self._held, []
            self._begin_line("row")
            self._cell_mark, self._cell_has_text = None, False
            for held_char, at in held:
                self._row(held_char, at)
            self._row(char, position)

    def _in_border(self, char: str, position: int) -> None:
        if char in _NEWLINES:
            self._held.clear()
            self._state = "start"
            self._start(char, position)
        elif char in _BORDER:
            if len(self._held) < _MAX_RUN:
                self._held.append((char, position))
        else:
            self._literal(char, position)

    # ---- lines of text

    def _block(self, gap: Gap) -> None:
        """This line is a block of its own: the line before does not run on into it."""
        if self._newline_at is not None:
            self._tags.hard_gap(gap, self._newline_at)
            self._newline_at = None

    def _begin_line(self, kind: _LineKind) -> None:
        self._state, self._line_kind, self._newline_at = "inline", kind, None

    def _begin_item(self) -> None:
        self._begin_line("item")
        self._state = "checkbox"

    def _in_checkbox(self, char: str, position: int) -> None:
        held = self._held
        if not held and char == "[":
            self._hold(char, position)
        elif len(held) == 1 and char in " xX":
            held.append((char, position))
        elif len(held) == 2 and char == "]":
            held.clear()
            self._state = "inline"
        elif not held and char in _INDENT:
            pass
        else:
            self._state = "inline"
            self._held = []
            for held_char, at in held:
                self.push(held_char, at)
            self.push(char, position)

    def _begin_text(self, char: str, position: int, kind: _LineKind) -> None:
        self._begin_line(kind)
        self._tags.push(char, position)

    def _literal(self, char: str | None = None, position: int = 0) -> None:
        """What was held is text after all."""
        held, self._held = self._held, []
        kind = self._line_kind if self._state == "checkbox" else "prose"
        self._begin_line(kind)
        for held_char, at in held:
            self.push(held_char, at)
        if char is not None:
            self.push(char, position)

    def _newline(self, char: str, position: int) -> None:
        if self._tags.is_holding_lines:
            self._tags.push("\n", position)
            return
        gap: Gap = "paragraph" if char == "\u2029" else "line" if self._line_kind == "prose" else "item"
        self._tags.gap(gap, position)
        self._state, self._line_kind = "start", "prose"
        self._newline_at, self._after_return = position, char == "\r"
        self._cell_mark = None

    def _row(self, char: str, position: int) -> None:
        """Cells are read as a list: what is between them becomes a comma, if there is something on both sides."""
        if char in "|│║" and not self._tags.is_holding_lines:
            if self._cell_has_text:
                self._cell_mark, self._cell_has_text = position, False
                self._tags.gap("space", position)
            return
        if not char.isspace():
            if self._cell_mark is not None:
                mark, self._cell_mark = self._cell_mark, None
                self._sink.character(",", mark, mark + 1)
                self._sink.gap("space", mark, mark + 1)
            self._cell_has_text = True
        self._tags.push(char, position)

    # ---- code fences

    def _is_fence(self) -> bool:
        """No fence begins in what an unclosed fence gave back: it would only be given back again."""
        mark, at = self._held[0]
        return mark in "`~" and len(self._held) >= 3 and at > self._barred_until

    def _begin_fence(self) -> None:
        self._fence = (self._held[0][0], len(self._held))
        self._state, self._is_certainly_code, self._fence_line = "fence_info", False, ""

    def _in_fence_info(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if char in _NEWLINES:
            self._after_return = char == "\r"
            self._block("item")
            self._state, self._held = "fence", [(char, position)]
            self._newline_at = position
        elif (char == "`" and self._fence[0] == "`") or len(self._held) > _MAX_INFO:
            held, self._held = self._held, []
            self._begin_line("prose")
            for held_char, at in held:
                self.push(held_char, at)

    def _is_closing(self, line: str) -> bool:
        mark, count = self._fence
        stripped = line.strip()
        return len(stripped) >= count and not stripped.strip(mark)

    def _in_fence(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if char not in _NEWLINES:
            if len(self._fence_line) < _MAX_RUN:
                self._fence_line += char
            if len(self._held) > self._settings.max_fence_chars:
                self._is_certainly_code = True
                if self._settings.code_blocks == "skip":
                    del self._held[1:-1]
                else:
                    self._read_aloud(self._held[1:])
                    del self._held[1:]
            return
        if self._is_closing(self._fence_line):
            self._after_return = char == "\r"
            self._close_fence()
            self._newline_at = position
        elif self._settings.code_blocks == "read":
            self._read_aloud(self._held[1:])
            del self._held[1:]
            self._is_certainly_code = True
        self._fence_line = ""

    def _read_aloud(self, code: list[tuple[str, int]]) -> None:
        for char, position in code:
            if char in _NEWLINES:
                self._sink.gap("item", position, position + 1)
            else:
                self._sink.character(char, position, position + 1)

    def _close_fence(self) -> None:
        at = self._held[0][1]
        self._held.clear()
        self._state, self._fence_line, self._line_kind = "start", "", "prose"
        self._sink.gap("item", at, at + 1)

    def _release_fence(self) -> None:
        """It was never closed: its content is text. The fence that may still come is not the beginning of another."""
        self._stray_fence = self._fence[0]
        held, self._held = self._held[1:], []
        self._state, self._fence_line, self._line_kind = "start", "", "prose"
        self._barred_until = held[-1][1] if held else -1
        for char, position in held:
            self.push(char, position)
