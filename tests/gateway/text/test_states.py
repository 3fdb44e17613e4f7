from __future__ import annotations

from gateway.text.states import States
from gateway.text.vocabulary import Effect

SLOW = Effect("prosody", "speed_slow")
FAST = Effect("prosody", "speed", 1.2)


def opened(states: States, element: str, *effects: Effect) -> None:
    states.enter(element, effects)
    for effect in effects:
        states.note(effect)


def test_closing_puts_back_what_held_before_however_it_was_written() -> None:
    states = States()
    states.note(SLOW)
    opened(states, "prosody", FAST)
    assert states.leave("prosody") == (SLOW,)


def test_closing_goes_back_to_the_voices_own_manner_where_nothing_held() -> None:
    states = States()
    opened(states, "emotion", Effect("emotion", "awe"))
    opened(states, "speed", FAST)
    assert states.leave("speed") == (Effect("prosody", "speed", 1.0),)
    assert states.leave("emotion") == (Effect("emotion", "neutral"),)


def test_what_does_not_last_is_not_put_back() -> None:
    states = States()
    opened(states, "laugh", Effect("sfx", "laughter"))
    assert states.leave("laugh") == ()


def test_what_is_not_open_cannot_close() -> None:
    assert States().leave("prosody") == ()


def test_expressiveness_has_no_word_for_its_end() -> None:
    states = States()
    opened(states, "expressive", Effect("prosody", "expressive_high"))
    assert states.leave("expressive") == ()


def test_elements_without_end_are_forgotten_from_the_outside() -> None:
    states = States()
    for _ in range(100):
        opened(states, "speed", FAST)
    assert sum(bool(states.leave("speed")) for _ in range(100)) == 32
