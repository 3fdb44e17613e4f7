"""TagScanner: characters in, text and controls out. Recognises every inline tag and the markup that looks like one.

Forms: `<|category:value|>`, `<element …>`, `[cue]`, `*direction*`, `(direction)`, `[text](target)`, `![alt](target)`,
`[^note]`, `` `code` ``, `&entity;`. What may become one of them is held until it is decided: closed, impossible, too
long, or released by a wait, a flush or the end, whereupon it is text. Each character is looked at a bounded number of
times, since what a failed form gives back cannot begin with the same form again.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Final, Literal

from engine.speech import Span
from gateway.text.elements import Capture, Element, read_element
from gateway.text.settings import TextSettings
from gateway.text.sink import Gap, TextNotice, TextSink
from gateway.text.states import States
from gateway.text.vocabulary import CUES, SPOKEN_BRACKETS, CuePlace, Effect, cue_effects, valued_effect

_Form = Literal[
    "angle", "pipe", "element", "comment", "capture", "bracket", "closed_bracket", "after_bracket", "note", "link",
    "reference", "bang", "paren", "direction", "ticks", "code", "entity", "escape",
]  # fmt: skip
"""What is being held and may become something."""

_OPENERS: Final = frozenset("<[(*_]!`&\x1b")
_PIPE_BODY: Final = re.compile(r"[\w:.\- /]*")
_AUTOLINK: Final = re.compile(r"[A-Za-z][\w+.-]*://[^\s\"'<>]*|[\w.+%-]+@[\w.-]+")
_CUE_CHARS: Final = frozenset(" ,'’-/")
_ENTITY_CHARS: Final = 32
_CODE_CHARS: Final = 256
_COMMENT_CHARS: Final = 4096
_MAX_TICKS: Final = 8
_LONG_FORMS: Final = frozenset({"comment", "code", "link"})
"""Where one of these has failed, none begins again: so each character is read twice at most for their sake."""
_MAX_REPORTS: Final = 100


class TagScanner:
    """Feed it with `push`, and `gap` for line ends; it calls its sink. `now_s` is set by the owner before pushing."""

    def __init__(self, settings: TextSettings, sink: TextSink) -> None:
        self._settings = settings
        self._sink = sink
        self.now_s = 0.0
        self._form: _Form | None = None
        self._held: list[tuple[str, int]] = []
        self._barred_until = -1
        self._held_since_s = 0.0
        self._last_push_s = 0.0
        self._last = " "
        self._open_brackets = 0
        self._quote = ""
        self._link_depth = 0
        self._ticks = 0
        self._capture: Element | None = None
        self._capture_dropped = False
        self._states = States()
        self._reported: set[str] = set()
        self._steps: dict[_Form, Callable[[str, int], None]] = {
            "angle": self._angle,
            "pipe": self._pipe,
            "element": self._element,
            "comment": self._comment,
            "bracket": self._bracket,
            "closed_bracket": self._closed_bracket,
            "note": self._note,
            "paren": self._paren,
            "direction": self._direction,
            "after_bracket": self._after_bracket,
            "link": self._link,
            "reference": self._reference,
            "bang": self._bang,
            "ticks": self._open_ticks,
            "code": self._code,
            "entity": self._entity,
            "escape": self._escape,
            "capture": self._captured,
        }

    # ---- what the owner calls

    def push(self, char: str, position: int) -> None:
        if self._form is not None:
            self._steps[self._form](char, position)
        elif char in _OPENERS:
            self._open(char, position)
        else:
            self._last = char
            self._sink.character(char, position, position + 1)

    def gap(self, kind: Gap, position: int) -> None:
        """A line end at `position`. Inside an element it is white space like any other."""
        if self.is_holding_lines:
            self.push("\n", position)
            return
        if self._form is not None:
            self.release()
        self._last = " "
        self._sink.gap(kind, position, position + 1)

    def hard_gap(self, kind: Gap, position: int) -> None:
        """What has turned out about the line end before: a list item or a blank line follows."""
        if not self.is_holding_lines:
            self._sink.gap(kind, position, position + 1)

    @property
    def is_holding_lines(self) -> bool:
        """A form is open that may run over a line end."""
        return self._form in ("element", "comment", "capture")

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    @property
    def deadline_s(self) -> float | None:
        """When what is held becomes text."""
        if self._form is None or not self._held:
            return None
        if self._capture is not None and self._capture.capture == "hidden":
            return self._last_push_s + self._settings.unclosed_fence_wait_s
        return self._held_since_s + self._settings.unclosed_tag_wait_s

    def release(self) -> None:
        """Decides everything that is held, with what is known now."""
        while self._form is not None:
            if self._form == "closed_bracket":
                self._finish_cue()
            elif self._form == "after_bracket":
                self._form = None
            elif self._form == "capture":
                self._release_capture()
            elif self._form == "code" and self._is_closed_code():
                self._finish_code()
            else:
                self._fail()

    # ---- holding and letting go

    def _open(self, char: str, position: int) -> None:
        is_after_word = self._last.isalnum()
        if char == "<":
            self._hold("angle", char, position)
        elif char == "&":
            self._hold("entity", char, position)
        elif char == "\x1b":
            self._hold("escape", char, position)
        elif char == "`" and position > self._barred_until:
            self._ticks = 1
            self._hold("ticks", char, position)
        elif char == "[":
            self._open_brackets += 1
            self._hold("bracket", char, position)
        elif char == "]":
            self._last = char
            self._sink.character(char, position, position + 1)
            if self._open_brackets:
                self._open_brackets -= 1
                self._form = "after_bracket"
        elif char == "`" or is_after_word or (char == "!" and self._last not in " \n]([*_\"“‘'"):
            self._text(char, position)
        elif char == "(":
            self._hold("paren", char, position)
        elif char == "!":
            self._hold("bang", char, position)
        else:
            self._hold("direction", char, position)

    def _hold(self, form: _Form, char: str, position: int) -> None:
        self._form = form
        self._held = [(char, position)]
        self._held_since_s = self.now_s

    def _text(self, char: str, position: int) -> None:
        self._last = char
        self._sink.character(char, position, position + 1)

    def _fail(self) -> None:
        """It was no tag: its first character is text, the rest is read again."""
        form, held, self._held, self._form = self._form, self._held, [], None
        if form in _LONG_FORMS:
            self._barred_until = max(self._barred_until, held[-1][1])
        self._text(*held[0])
        for char, position in held[1:]:
            self._again(char, position)

    def _again(self, char: str, position: int) -> None:
        if char == "\n" and not self.is_holding_lines:
            self.gap("line", position)
        else:
            self.push(char, position)

    def _drop(self) -> Span:
        """It was a tag: nothing of it is text."""
        span = Span(self._held[0][1], self._held[-1][1] + 1)
        self._held, self._form = [], None
        self._last = ">"
        return span

    def _body(self, start: int, end: int | None = None) -> str:
        return "".join(char for char, _ in self._held[start:end])

    def _apply(self, effects: tuple[Effect, ...], span: Span) -> None:
        for effect in effects:
            self._states.note(effect)
            self._sink.control(effect, span)

    def _separate(self, effects: tuple[Effect, ...] | None, span: Span) -> None:
        """Words on both sides of something heard, or not understood, are not one word."""
        if effects is None or any(effect.state is None for effect in effects):
            self._sink.gap("space", span.start, span.start)
            self._last = " "

    def _report(self, name: str, span: Span) -> None:
        if name in self._reported or len(self._reported) >= _MAX_REPORTS:
            return
        self._reported.add(name)
        shown = name if len(name) <= 64 else name[:63] + "…"
        self._sink.notice(TextNotice("unknown_tag", shown, f"the tag {shown!r} is not known and is not spoken", span))

    # ---- <…>

    def _angle(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if char == "|":
            self._form = "pipe"
        elif char == "/" or (char.isascii() and char.isalpha()):
            self._form, self._quote = "element", ""
        elif char in "!?" and position > self._barred_until:
            self._form = "comment"
        else:
            self._fail()

    def _pipe(self, char: str, position: int) -> None:
        self._held.append((char, position))
        count = len(self._held)
        if char == ">" and count > 3 and self._held[-2][0] == "|":
            body = self._body(2, -2)
            if not body.strip() or body[0].isspace():
                self._fail()
                return
            span = self._drop()
            category, colon, value = body.partition(":")
            effects = valued_effect(category, value) if colon else CUES.get(body.strip().lower().replace("_", " "))
            self._separate(effects, span)
            if effects is None:
                self._report(f"<|{body.strip()}|>", span)
            else:
                self._apply(effects, span)
        elif (self._held[-2][0] == "|" and count > 3) or (
            char != "|" and (not _PIPE_BODY.fullmatch(char) or count > self._settings.max_tag_chars)
        ):
            self._fail()

    def _element(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if self._quote:
            if char == self._quote:
                self._quote = ""
        elif char in "\"'":
            self._quote = char
        elif char == ">":
            self._close_element()
            return
        if (
            char == "<"
            or len(self._held) > self._settings.max_tag_chars
            or (len(self._held) == 3 and self._held[1][0] == "/" and not char.isalpha())
        ):
            self._fail()

    def _close_element(self) -> None:
        body = self._body(1, -1)
        if _AUTOLINK.fullmatch(body):
            self._autolink()
            return
        element = read_element(body, is_after_word=self._last.isalnum())
        if element is None:
            self._fail()
            return
        is_after_space = self._last
        span = self._drop()
        self._last = is_after_space
        self._separate(None if element.unknown else element.effects, span)
        for name in element.unknown:
            self._report(f"<{name}>", span)
        if element.gap is not None:
            self._sink.gap(element.gap, span.start, span.end)
            self._last = " "
        if element.is_closing:
            self._apply(self._states.leave(element.name), span)
            return
        if element.capture is not None and span.end > self._barred_until:
            self._begin_capture(element)
            return
        if element.effects or (not element.is_empty and element.name in ("prosody", "emphasis")):
            if not element.is_empty:
                self._states.enter(element.name, element.effects)
            self._apply(element.effects, span)

    def _autolink(self) -> None:
        held, self._held, self._form = self._held, [], None
        for char, position in held[1:-1]:
            self._text(char, position)
        self._last = ">"

    def _comment(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if (len(self._held) == 4 and self._held[1][0] == "!" and self._held[2][0] == "-" and char != "-") or (
            len(self._held) == 3 and not (char.isalpha() or char in "-[")
        ):
            self._fail()
        elif char == ">" and self._ends_comment():
            if read_element(self._body(1, -1), is_after_word=False) is None:
                self._fail()
            else:
                self._drop()
        elif len(self._held) > _COMMENT_CHARS:
            self._fail()

    def _ends_comment(self) -> bool:
        """The `>` that has come is its end, and not part of what stands in it."""
        begin, end = self._body(1, 9), self._body(-3, -1)
        if begin.startswith("!--"):
            return end == "--" and len(self._held) >= len("<!---->")
        return end == "]]" if begin == "![CDATA[" else True

    # ---- content taken whole

    def _begin_capture(self, element: Element) -> None:
        self._form, self._capture, self._held = "capture", element, []
        self._capture_dropped = False
        self._held_since_s = self.now_s

    def _captured(self, char: str, position: int) -> None:
        self._held.append((char, position))
        self._last_push_s = self.now_s
        element = self._capture
        assert element is not None
        if char == ">":
            closing = f"</{element.name}>"
            tail = self._body(-len(closing)) if len(self._held) >= len(closing) else ""
            if tail.lower() == closing:
                content = self._held[: -len(closing)]
                self._held, self._form, self._capture = [], None, None
                self._emit_capture(element.capture, element.replacement, content)
                return
        is_hidden = element.capture == "hidden"
        if is_hidden and len(self._held) > _COMMENT_CHARS:
            del self._held[: -len(element.name) - 3]
            self._capture_dropped = True
        elif not is_hidden and len(self._held) > self._settings.max_tag_chars:
            self._release_capture()

    def _release_capture(self) -> None:
        held, self._held, self._form, self._capture = self._held, [], None, None
        if self._capture_dropped or not held:
            return
        self._barred_until = max(self._barred_until, held[-1][1])
        for char, position in held:
            self._again(char, position)

    def _emit_capture(self, capture: Capture | None, replacement: str, content: list[tuple[str, int]]) -> None:
        self._last = ">"
        visible = [(char, position) for char, position in content if not char.isspace()]
        if not visible or capture == "hidden":
            return
        if capture == "spell":
            for char, position in visible:
                self._sink.whole(char, Span(position, position + 1), None)
                self._sink.gap("space", position + 1, position + 1)
            return
        first, last = content.index(visible[0]), content.index(visible[-1])
        span = Span(content[first][1], content[last][1] + 1)
        text = " ".join("".join(char for char, _ in content[first : last + 1]).split())
        self._last = text[-1]
        if capture == "phonemes":
            self._sink.whole(text, span, replacement)
        else:
            self._sink.whole(replacement, span, None)

    # ---- […], (…), *…*

    def _bracket(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if char == "]" and len(self._held) > 2:
            self._form = "closed_bracket"
        elif len(self._held) == 2 and char == "^":
            self._form = "note"
        elif not self._is_cue_char(char) or len(self._held) > self._settings.max_cue_chars:
            self._fail()

    def _is_cue_char(self, char: str) -> bool:
        return char.isalpha() or (char in _CUE_CHARS and len(self._held) > 2)

    def _note(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if char == "]" and len(self._held) > 3:
            self._open_brackets -= 1
            last = self._last
            self._drop()
            self._last = last
        elif not (char.isalnum() or char in "-_") or len(self._held) > self._settings.max_cue_chars:
            self._fail()

    def _closed_bracket(self, char: str, position: int) -> None:
        if char in "([:":
            held, self._held, self._form = self._held, [], None
            for held_char, at in held:
                self._last = held_char
                self._sink.character(held_char, at, at + 1)
            self._open_brackets -= 1
            self._form = "after_bracket"
            self.push(char, position)
            return
        self._finish_cue()
        self._again(char, position)

    def _finish_cue(self) -> None:
        phrase = self._body(1, -1).strip()
        effects = cue_effects(phrase, "brackets")
        words = phrase.split()
        is_cue_like = phrase.islower() and len(words) <= 3 and words[0] not in SPOKEN_BRACKETS
        if effects is None and (not is_cue_like or self._last.isalnum() or self._last == "["):
            held, self._held, self._form = self._held, [], None
            for char, position in held:
                self._last = char
                self._sink.character(char, position, position + 1)
            self._open_brackets -= 1
            return
        self._open_brackets -= 1
        span = self._drop()
        self._sink.gap("space", span.start, span.start)
        self._last = " "
        if effects is None:
            self._report(f"[{phrase}]", span)
        else:
            self._apply(effects, span)

    def _paren(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if char == ")" and len(self._held) > 2:
            self._finish_direction()
        elif not self._is_cue_char(char) or len(self._held) > self._settings.max_cue_chars:
            self._fail()

    def _direction(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if char == self._held[0][0] and len(self._held) > 2:
            self._finish_direction()
        elif not self._is_cue_char(char) or len(self._held) > self._settings.max_cue_chars:
            self._fail()

    def _finish_direction(self) -> None:
        place: CuePlace = "parentheses" if self._held[0][0] == "(" else "stars"
        effects = cue_effects(self._body(1, -1).strip(), place)
        if effects is None:
            self._give_back()
            return
        span = self._drop()
        self._sink.gap("space", span.start, span.start)
        self._last = " "
        self._apply(effects, span)

    def _give_back(self) -> None:
        """All of it is text, and nothing in it can be a tag."""
        held, self._held, self._form = self._held, [], None
        for char, position in held:
            self._text(char, position)

    # ---- links and images

    def _after_bracket(self, char: str, position: int) -> None:
        self._form = None
        if char == "(" and position > self._barred_until:
            self._link_depth, self._quote = 1, ""
            self._hold("link", char, position)
        elif char == "[":
            self._hold("reference", char, position)
        else:
            self._again(char, position)

    def _link(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if self._quote:
            if char == self._quote:
                self._quote = ""
        elif char in "\"'" and self._held[-2][0] == " ":
            self._quote = char
        elif char == "(":
            self._link_depth += 1
        elif char == ")":
            self._link_depth -= 1
            if self._link_depth == 0:
                self._drop()
                return
        elif (char.isspace() and len(self._held) == 2) or (self._held[-2][0] == " " and char != " "):
            self._fail()
            return
        if len(self._held) > self._settings.max_link_chars:
            self._fail()

    def _reference(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if char == "]":
            self._drop()
        elif char == "[" or len(self._held) > self._settings.max_cue_chars:
            self._fail()

    def _bang(self, char: str, position: int) -> None:
        if char == "[":
            self._held, self._form = [], None
            self.push(char, position)
        else:
            self._fail()
            self._again(char, position)

    # ---- code spans and entities

    def _open_ticks(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if char == "`" and self._ticks < _MAX_TICKS:
            self._ticks += 1
        else:
            self._form = "code"

    def _is_closed_code(self) -> bool:
        held = self._held
        if len(held) < 2 * self._ticks + 1:
            return False
        return all(char == "`" for char, _ in held[-self._ticks :]) and held[-self._ticks - 1][0] != "`"

    def _code(self, char: str, position: int) -> None:
        if char != "`" and self._is_closed_code():
            self._finish_code()
            self._again(char, position)
            return
        self._held.append((char, position))
        if len(self._held) > _CODE_CHARS + self._ticks:
            self._fail()

    def _finish_code(self) -> None:
        held, ticks = self._held, self._ticks
        self._held, self._form = [], None
        for char, position in held[ticks:-ticks]:
            self._text(char, position)

    def _escape(self, char: str, position: int) -> None:
        """A terminal's escape sequence (ECMA-48 control sequence: colours and the like)."""
        self._held.append((char, position))
        if len(self._held) > 2 and "@" <= char <= "~":
            self._drop()
        elif (len(self._held) == 2 and char != "[") or len(self._held) > _ENTITY_CHARS or char > "~":
            self._fail()

    def _entity(self, char: str, position: int) -> None:
        self._held.append((char, position))
        if char == ";":
            written = self._body(0)
            meant = html.unescape(written)
            if meant == written or len(written) < 3:
                self._fail()
                return
            span = self._drop()
            for meant_char in meant:
                self._last = meant_char
                self._sink.character(meant_char, span.start, span.end)
        elif not (char.isalnum() or (char == "#" and len(self._held) == 2)) or len(self._held) > _ENTITY_CHARS:
            self._fail()
