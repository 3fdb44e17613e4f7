"""Defaults of a session, and what an utterance gets of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.speech import VoiceInfo
from gateway.errors import ClientError, ErrorCode
from gateway.events import Configure, OpenUtterance, UtteranceOptions
from gateway.session_defaults import SessionDefaults
from tests.fakes.talk import MODEL, SETTINGS

DEFAULTS = SessionDefaults.of(SETTINGS, MODEL)


def resolved_format(defaults: SessionDefaults, options: UtteranceOptions) -> tuple[str, int]:
    settings, _ = defaults.resolve(OpenUtterance("u", options=options), MODEL, 0, 1)
    return settings.audio_format.name, settings.audio_format.sample_rate_hz


def test_an_utterance_may_change_format_and_rate_by_itself() -> None:
    assert resolved_format(DEFAULTS, UtteranceOptions()) == ("pcm_s16le", 24000)
    assert resolved_format(DEFAULTS, UtteranceOptions(format="mulaw")) == ("mulaw", 8000)
    assert resolved_format(DEFAULTS, UtteranceOptions(sample_rate_hz=16000)) == ("pcm_s16le", 16000)


def test_a_new_default_format_forgets_the_old_ones_rate() -> None:
    changed = DEFAULTS.changed(Configure(sample_rate_hz=16000), SETTINGS, MODEL)
    telephony = changed.changed(Configure(format="alaw"), SETTINGS, MODEL)
    assert resolved_format(telephony, UtteranceOptions()) == ("alaw", 8000)
    assert resolved_format(telephony, UtteranceOptions(format="pcm_s16le")) == ("pcm_s16le", 24000)


def test_an_empty_configure_changes_nothing() -> None:
    assert DEFAULTS.changed(Configure(), SETTINGS, MODEL) == DEFAULTS


def test_a_session_lexicon_stands_over_the_servers() -> None:
    changed = DEFAULTS.changed(Configure(lexicon={"SQL": "sequel"}), SETTINGS, MODEL)
    assert changed.lexicon != DEFAULTS.lexicon


def test_a_regional_language_is_its_language() -> None:
    _, remarks = DEFAULTS.resolve(OpenUtterance("u", options=UtteranceOptions(language="en-GB")), MODEL, 0, 1)
    assert remarks == []


def test_a_parameter_of_the_session_is_warned_about_like_one_of_the_utterance() -> None:
    deaf = replace(MODEL, parameters=frozenset())
    defaults = DEFAULTS.changed(Configure(speed=1.5, seed=3), SETTINGS, deaf)
    _, remarks = defaults.resolve(OpenUtterance("u"), deaf, 0, 1)
    assert [remark.detail for remark in remarks] == ["speed", "seed"]


def test_a_session_whose_voice_was_deleted_can_still_be_configured_and_its_utterances_say_what_is_wrong() -> None:
    cloned = replace(MODEL, voices=(*MODEL.voices, VoiceInfo("v_1f", "Grandmother", "en")))
    defaults = DEFAULTS.changed(Configure(voice="v_1f"), SETTINGS, cloned)
    assert defaults.changed(Configure(speed=1.5), SETTINGS, MODEL).speed == 1.5
    with pytest.raises(ClientError, match="v_1f") as caught:
        defaults.resolve(OpenUtterance("u"), MODEL, 0, 1)
    assert caught.value.code is ErrorCode.VOICE_NOT_FOUND


@pytest.mark.parametrize("speed", [0.49, 2.01, float("inf")])
def test_a_speed_out_of_range_is_refused_with_the_range(speed: float) -> None:
    with pytest.raises(ClientError, match=r"0\.5 to 2") as caught:
        DEFAULTS.changed(Configure(speed=speed), SETTINGS, MODEL)
    assert caught.value.code is ErrorCode.BAD_VALUE
