"""A segment's words, tags and boundary to phrases: what each call of the net speaks, and the silence between."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from engine.models.hibari import prosody
from engine.models.hibari.config import MAX_CALL_SYMBOLS, MAX_COLOURED_SYMBOLS, PAUSES
from engine.models.hibari.phonemes import CLOSING, PAUSING, PhonemeWord
from engine.models.hibari.prosody import Delivery, TagState
from engine.speech import Boundary, Control, Notice

Ending = Literal["flow", "sentence", "paragraph", "end", "break"]
"""How a phrase ends: "flow" = it may run on into the next; "end" = the text ends with no closing punctuation;
"break" = a tag asks for silence after it."""

_PARAGRAPH_GAP: Final = re.compile(r"\n[^\S\n]*\n")


@dataclass(frozen=True, slots=True)
class Script:
    """What is known when a segment is spoken: `text` holds the words around it too."""

    text: str
    words: tuple[PhonemeWord, ...]
    own: range
    """The segment's words among `words`; those before were spoken, those after are known to follow."""
    offset: int
    """Where the segment's own text begins in `text`."""
    boundary: Boundary
    controls: tuple[Control, ...]


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words [first, last) of the script, spoken by one call of the net at one pace."""

    first: int
    last: int
    deliveries: tuple[Delivery, ...]
    """One a word."""
    ending: Ending

    @property
    def pace(self) -> float:
        return self.deliveries[0].pace

    @property
    def vowel_ratio(self) -> float:
        return self.deliveries[0].vowel_ratio


@dataclass(frozen=True, slots=True)
class Break:
    """Silence that a tag asks for: exactly so long, whatever the punctuation around it."""

    duration_s: float


@dataclass(frozen=True, slots=True)
class PhrasePlan:
    steps: tuple[Phrase | Break, ...]
    notices: tuple[Notice, ...]


def plan_phrases(
    script: Script, state: TagState, speed: float, has_effects: bool, max_symbols: int = MAX_CALL_SYMBOLS
) -> PhrasePlan:
    """Cut a segment into phrases. `state`: tags in force before it; `speed`: the request's; `max_symbols`: of a phrase
    without any effect."""
    words, stop = script.words, script.own.stop
    spoken = [index for index in script.own if words[index].is_spoken]
    breaks: dict[int, float] = {}
    presets: dict[int, Delivery] = {}
    states: dict[int, TagState] = {}
    notices: dict[str, Notice] = {}
    for control in sorted(script.controls, key=lambda control: control.at):
        place = next((index for index in spoken if words[index].start >= script.offset + control.at), stop)
        silence_s = prosody.pause_s(control)
        if control.category == "sfx":
            imitation = _imitation(script, spoken, place, control.value)
            if imitation:
                presets.update(dict.fromkeys(imitation, prosody.SOUND_EFFECTS[control.value].delivery))
            else:
                silence_s = PAUSES.sfx_pause_s
        if silence_s is not None:
            breaks[place] = breaks.get(place, 0.0) + silence_s
        state_before, state = state, state.after(control)
        states.setdefault(-1, state_before)
        states[place] = state
        notice = _notice(control, place in presets, has_effects)
        if notice is not None:
            notices.setdefault(notice.detail, notice)

    in_force = states.get(-1, state)
    steps: list[Phrase | Break] = []
    run: list[int] = []
    deliveries: list[Delivery] = []

    def close(ending: Ending) -> None:
        if run:
            steps.append(Phrase(run[0], run[-1] + 1, _for_each_word(run, deliveries), ending))
            run.clear()
            deliveries.clear()

    for index in spoken:
        in_force = states.get(index, in_force)
        delivery = in_force.delivery(speed, has_effects)
        if index in presets:
            delivery = delivery.coloured(presets[index])
        if index in breaks:
            close("break")
            steps.append(Break(breaks[index]))
        elif run:
            ending = _inner_ending(script, run[-1], index)
            changes_call = _of_a_call(delivery) != _of_a_call(deliveries[-1])
            if ending is not None:
                close(ending)
            elif changes_call or _is_full(words, run, index, _limit(delivery, max_symbols)):
                close("flow")
        run.append(index)
        deliveries.append(delivery)
    if stop in breaks:
        close("break")
        steps.append(Break(breaks[stop]))
    elif run:
        close(_last_ending(words[run[-1]], script.boundary))
    return PhrasePlan(tuple(steps), tuple(notices.values()))


def _for_each_word(run: Sequence[int], deliveries: Sequence[Delivery]) -> tuple[Delivery, ...]:
    """Silent words between spoken ones are delivered like the one before."""
    filled: list[Delivery] = []
    for index, delivery in zip(run, deliveries, strict=True):
        filled.extend([filled[-1]] * (index - run[0] - len(filled)) if filled else [])
        filled.append(delivery)
    return tuple(filled)


def closes_sentence(script: Script, index: int, following: int | None) -> bool:
    """Whether word `index` ends a sentence, given the next spoken word, where one is known."""
    closing = script.words[index].closing
    if following is None:
        return closing in CLOSING and closing != ""
    if _PARAGRAPH_GAP.search(script.text, script.words[index].end, script.words[following].start):
        return True
    return closing != "" and closing in CLOSING and not script.text[script.words[following].start].islower()


def _inner_ending(script: Script, index: int, following: int) -> Ending | None:
    if _PARAGRAPH_GAP.search(script.text, script.words[index].end, script.words[following].start):
        return "paragraph"
    return "sentence" if closes_sentence(script, index, following) else None


def _last_ending(word: PhonemeWord, boundary: Boundary) -> Ending:
    if boundary == "end":
        return "sentence" if word.closing in CLOSING and word.closing else "end"
    if boundary == "sentence" or boundary == "paragraph":
        return boundary
    return "flow"


def _limit(delivery: Delivery, max_symbols: int) -> int:
    return max_symbols if delivery.effect is None else min(max_symbols, MAX_COLOURED_SYMBOLS)


def _is_full(words: Sequence[PhonemeWord], run: Sequence[int], index: int, limit: int) -> bool:
    """Whether to cut a long phrase before word `index`: at a pausing mark once it is long, anywhere once full."""
    length = sum(len(words[other].symbols) + 1 for other in run)
    if length + len(words[index].symbols) > limit:
        return True
    return length > limit // 2 and words[run[-1]].closing in PAUSING and words[run[-1]].closing != ""


def _of_a_call(delivery: Delivery) -> tuple[float, float, prosody.Effect | None]:
    """What all words of one call of the net have in common."""
    return delivery.pace, delivery.vowel_ratio, delivery.effect


def _imitation(script: Script, spoken: Sequence[int], place: int, sound: str) -> list[int]:
    """The words from `place` on that imitate a sound ("Ha ha ha!"); none where the next word does not."""
    effect = prosody.SOUND_EFFECTS.get(sound)
    found: list[int] = []
    if effect is None:
        return found
    for index in spoken:
        if index < place:
            continue
        word = script.words[index]
        bare = re.sub(r"[^a-z-]", "", script.text[word.start : word.end].lower()).strip("-")
        if not effect.words.fullmatch(bare) or len(found) == prosody.MAX_IMITATION_WORDS:
            break
        found.append(index)
    return found


def _notice(control: Control, has_imitation: bool, has_effects: bool) -> Notice | None:
    support = prosody.tag_support(has_effects).get(control.name, "unsupported")
    low, high = prosody.MIN_PACE, prosody.MAX_PACE
    if control.name == "prosody:speed" and control.amount is not None and not low <= control.amount <= high:
        message = f"speed {control.amount:g} is beyond this voice, which speaks {low:g} to {high:g} times as fast"
        return Notice("tag_approximated", control.name, message)
    if support == "rendered":
        return None
    if support == "approximated":
        family = prosody.EMOTIONS[control.value]
        return Notice(
            "tag_approximated", control.name, f"{control.name} is approximated by the {family} prosody of this voice"
        )
    if support == "contextual" and has_imitation:
        return Notice(
            "tag_approximated", control.name, f"{control.name} is approximated by speaking the words that follow it"
        )
    if support == "contextual":
        return Notice(
            "tag_unsupported",
            control.name,
            f"{control.name} has no words to imitate it right after the tag; a short pause stands in its place",
        )
    if control.value in prosody.STYLES and prosody.STYLES[control.value] is not None:
        return Notice(
            "tag_unsupported",
            control.name,
            f"{control.name} needs the extra [effects]: pip install 'antiphon[effects]'",
        )
    return Notice("tag_unsupported", control.name, f"this voice cannot render {control.name}")
