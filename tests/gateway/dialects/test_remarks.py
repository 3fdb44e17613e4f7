"""Speeds out of reach, and remarks made once."""

from __future__ import annotations

import pytest

from gateway.dialects.remarks import MAX_REMARKED, RemarksMade, Speed, ignored_speed, speed_within_reach
from gateway.errors import WarningCode
from gateway.events import Remark
from tests.fakes.vendor_talk import VendorTalk


@pytest.mark.parametrize("asked", [None, 0.5, 1, 1.25, 2.0])
def test_a_speed_within_reach_is_used_without_a_word(asked: float | None) -> None:
    assert speed_within_reach(asked) == Speed(asked)


@pytest.mark.parametrize(("asked", "used"), [(0.25, 0.5), (-1.0, 0.5), (4.0, 2.0)])
def test_a_speed_out_of_reach_is_brought_in_and_said_so(asked: float, used: float) -> None:
    speed = speed_within_reach(asked, "speed")
    assert speed.value == used
    assert speed.remark is not None
    assert (speed.remark.code, speed.remark.detail) == (WarningCode.PARAMETER_IGNORED, "speed")
    assert f"{asked:g}" in speed.remark.message
    assert f"{used:g} is used" in speed.remark.message


def test_a_word_without_a_meaning_is_ignored_and_said_so() -> None:
    speed = ignored_speed("warp")
    assert speed.value is None
    assert speed.remark is not None
    assert "'warp'" in speed.remark.message


def test_a_remark_is_made_once_and_there_is_an_end_to_them() -> None:
    made = RemarksMade()
    remarks = [Remark(WarningCode.PARAMETER_IGNORED, "no", detail=str(number)) for number in range(MAX_REMARKED + 5)]
    assert made.new([remarks[0], None, remarks[0]]) == [remarks[0]]
    assert made.new(remarks) == remarks[1:MAX_REMARKED]
    assert made.new(remarks) == []


TEXT = {"text": "Hi. ", "voice_settings": {"speed": 9}}


@pytest.mark.parametrize(
    ("name", "query", "messages"),
    [
        ("elevenlabs stream", {}, [TEXT]),
        ("elevenlabs multi", {}, [{**TEXT, "context_id": "a"}, {**TEXT, "context_id": "b"}]),
        (
            "cartesia",
            {},
            [{"context_id": f"c{n}", "transcript": "Hi.", "generation_config": {"speed": 9}} for n in (1, 2)],
        ),
        ("deepgram", {"speed": "9"}, [{"type": "Speak", "text": "Hi."}]),
        ("deepgram flux", {"speed": "9"}, [{"type": "Speak", "text": "Hi."}]),
        (
            "livekit",
            {},
            [
                {"type": "session.create", "extra": {"speed": 9}},
                {"type": "input_transcript", "transcript": "Hi.", "generation_config": {"speed": 8}},
            ],
        ),
        ("openai realtime", {}, [{"type": "session.update", "session": {"audio": {"output": {"speed": 9}}}}] * 2),
    ],
)
def test_every_vendors_speed_out_of_reach_is_warned_about_once(
    name: str, query: dict[str, str], messages: list[dict[str, object]]
) -> None:
    talk = VendorTalk(name, query)
    talk.send(*messages)
    details = [detail or "" for code, detail in talk.warnings() if code == "parameter_ignored"]
    assert [detail.rpartition(".")[2] for detail in details] == ["speed"]
