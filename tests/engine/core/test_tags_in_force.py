"""State tags are stated again for later segments of an utterance, and forgotten with what was not heard."""

from __future__ import annotations

from dataclasses import replace

from engine.core.tags_in_force import tags_in_force
from engine.speech import Control, Segment, Span, SpeechRequest
from tests.fakes.fake_driver import SyncDriver
from tests.fakes.fake_model import DelayedRowsModel


def control(name: str, at: int = 0, start: int = 0) -> Control:
    category, value = name.split(":")
    return Control(category, value, at, Span(start, start + 1))  # type: ignore[arg-type]


def segment(*controls: Control, carried: tuple[Control, ...] = (), start: int = 0) -> Segment:
    sources = tuple(Span(start + i, start + i + 1) for i in range(4))
    return Segment("word", Span(start, start + 4), sources, "sentence", controls, carried=carried)


def names(tags: tuple[Control, ...]) -> list[str]:
    return [tag.name for tag in tags]


def test_of_each_kind_the_last_one_met_holds() -> None:
    found = tags_in_force(
        segment(
            control("emotion:fear", 3),
            control("emotion:anger", 1),
            control("prosody:speed_fast"),
            control("prosody:speed", 2),
            control("prosody:pitch_low"),
            control("prosody:expressive_high"),
            carried=(control("style:singing"), control("prosody:pitch_high")),
        )
    )
    assert names(found) == [
        "style:singing", "prosody:pitch_low", "prosody:expressive_high", "prosody:speed", "emotion:fear",
    ]  # fmt: skip


def test_pauses_and_sounds_hold_nothing() -> None:
    assert tags_in_force(segment(control("prosody:pause"), control("prosody:break"), control("sfx:cough"))) == ()


def test_neutral_ends_what_was_in_force() -> None:
    carried = (control("emotion:fear"), control("style:singing"))
    assert names(tags_in_force(segment(control("emotion:neutral"), carried=carried))) == ["style:singing"]


class Listening:
    """A driver and what the segments brought when the family got them."""

    def __init__(self) -> None:
        self.model = DelayedRowsModel()
        self.driver = SyncDriver(self.model)

    def request(self, **changes: str) -> SpeechRequest:
        voice = self.model.info.default_voice
        return replace(SpeechRequest(voice, 1), **changes)  # type: ignore[arg-type]

    def carried(self) -> list[list[str]]:
        return [names(given.carried) for given in self.model.prepared]


def test_later_segments_of_an_utterance_are_told_what_is_in_force() -> None:
    listening = Listening()
    utterance = listening.driver.open(listening.request())
    for number, tags in enumerate(((control("emotion:fear"),), (control("emotion:neutral"),), ())):
        listening.driver.feed(utterance, segment(*tags, start=4 * number))
    assert listening.carried() == [[], ["emotion:fear"], []]


def test_tags_end_with_their_utterance_unless_they_are_the_sessions() -> None:
    for scope, wanted in (("utterance", []), ("session", ["emotion:fear"])):
        listening = Listening()
        for tags in ((control("emotion:fear"),), ()):
            utterance = listening.driver.open(listening.request(tag_scope=scope))
            listening.driver.feed(utterance, segment(*tags))
            listening.driver.finish(utterance)
        assert listening.carried()[-1] == wanted


def test_a_tag_beyond_the_heard_point_is_forgotten() -> None:
    listening = Listening()
    driver = listening.driver
    first = driver.open(listening.request(tag_scope="session"))
    driver.feed(first, segment(control("style:singing")))
    driver.feed(first, segment(control("emotion:fear", start=4), start=4))
    driver.finish(first)
    driver.run()
    driver.cancel(first, len(driver.chunks[first][0].pcm), 4)
    second = driver.open(listening.request(tag_scope="session"))
    driver.feed(second, segment())
    assert listening.carried()[-1] == ["style:singing"]
