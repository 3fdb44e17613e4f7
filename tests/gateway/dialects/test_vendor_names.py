"""Vendors' names for voices and models."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.speech import VoiceInfo
from gateway.dialects.vendor_names import PRESETS, VendorNames
from gateway.errors import ClientError, ErrorCode, WarningCode
from tests.fakes.talk import MODEL

OWN = ("alto", "bass")
PLAIN = VendorNames({}, {}, "default", OWN)
STRICT = VendorNames({}, {}, "error", OWN)


def test_our_own_names_and_those_of_the_table_are_used_without_a_word() -> None:
    names = VendorNames({"aura-2": "bass", "alto": "bass"}, {"sonic-3": "stand-in"}, "error", OWN)
    assert (names.voice("bass", MODEL).value, names.voice("aura-2", MODEL).value) == ("bass", "bass")
    assert names.voice("alto", MODEL).value == "bass"
    assert names.model("sonic-3", MODEL) is names.model("stand-in", MODEL) is None


@pytest.mark.parametrize("name", [None, ""])
def test_no_name_is_the_default(name: str | None) -> None:
    assert STRICT.voice(name, MODEL).value is None
    assert STRICT.voice(name, MODEL).remark is None
    assert STRICT.model(name, MODEL) is None


def test_the_presets_of_openai_are_spread_over_the_voices() -> None:
    assert {STRICT.voice(name, MODEL).value for name in PRESETS} == {"alto", "bass"}
    assert VendorNames({"alloy": "bass"}, {}, "error", OWN).voice("alloy", MODEL).value == "bass"


def test_an_unknown_name_is_replaced_with_a_warning() -> None:
    named = PLAIN.voice("hpp4", MODEL)
    assert named.value is None
    assert named.remark is not None
    assert (named.remark.code, named.remark.detail) == (WarningCode.VOICE_SUBSTITUTED, "hpp4")
    remark = PLAIN.model("sonic-3", MODEL)
    assert remark is not None
    assert remark.code is WarningCode.MODEL_SUBSTITUTED


def test_or_refused_by_setting() -> None:
    with pytest.raises(ClientError, match="known: alto, bass") as refused:
        STRICT.voice("hpp4", MODEL)
    assert refused.value.code is ErrorCode.VOICE_NOT_FOUND
    with pytest.raises(ClientError, match="stand-in is loaded"):
        STRICT.model("sonic-3", MODEL)


def test_a_name_that_has_gone_since_the_connection_was_opened_is_left_to_the_session() -> None:
    assert STRICT.voice_now("gone", MODEL).value == "gone"
    assert STRICT.voice_now("alto", MODEL) == STRICT.voice("alto", MODEL)
    assert PLAIN.voice_now("gone", MODEL) == PLAIN.voice("gone", MODEL)


def test_a_table_that_points_nowhere_is_like_an_unknown_name() -> None:
    assert VendorNames({"alloy": "gone"}, {}, "default", OWN).voice("alloy", MODEL).remark is not None


def test_a_cloned_voice_is_meant_by_its_id_or_its_name_and_moves_no_preset() -> None:
    cloned = replace(MODEL, voices=(*MODEL.voices, VoiceInfo("v_1f", "Grandmother", "en")))
    assert STRICT.voice("v_1f", cloned).value == STRICT.voice("Grandmother", cloned).value == "v_1f"
    assert [STRICT.voice(name, cloned) for name in PRESETS] == [STRICT.voice(name, MODEL) for name in PRESETS]
