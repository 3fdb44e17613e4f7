"""Deepgram over HTTP."""

from __future__ import annotations

import json

import pytest

from gateway.dialects import deepgram_http
from gateway.dialects.base import Handshake
from gateway.dialects.http_speech import HttpSpeechDialect
from gateway.errors import ClientError, ErrorCode
from gateway.events import Audio, Failed
from tests.fakes.vendor_talk import facts

SOUND = Audio("speech", 0, 0, 2400, b"\1\0" * 2400, 24000)


def dialect() -> HttpSpeechDialect:
    query = {"encoding": "linear16", "container": "none", "model": "alto"}
    handshake = Handshake("/v1/speak", {}, query, {}, ())
    return HttpSpeechDialect(handshake, facts(), deepgram_http.read_order, deepgram_http.error_body)


def test_the_audio_comes_with_the_vendors_headers() -> None:
    speech = dialect()
    speech.receive(json.dumps({"text": "Hi."}))
    assert speech.send(SOUND) == [SOUND.payload]
    assert speech.head is not None
    assert dict(speech.head.headers) == {
        "content-type": "audio/pcm",
        "dg-model-name": "stand-in",
        "dg-char-count": "3",
    }


def test_an_error_has_the_vendors_names() -> None:
    failed = Failed(ErrorCode.CAPACITY, "wh\u00fd")
    assert deepgram_http.error_body(failed, 503) == {"err_code": "NET-0002", "err_msg": "wh\u00fd"}
    assert deepgram_http.error_body(failed, 429)["err_code"] == "TOO_MANY_REQUESTS"
    assert deepgram_http.error_body(failed, 401)["err_code"] == "INVALID_AUTH"


def test_a_refused_upgrade_says_why_in_a_header_of_plain_characters() -> None:
    failed = Failed(ErrorCode.VOICE_NOT_FOUND, "no \u00fd\r\nx-other: 1")
    assert deepgram_http.error_headers(failed) == {"dg-error": "no \\xfd  x-other: 1"}


def test_a_body_without_text_is_refused() -> None:
    with pytest.raises(ClientError, match="field text is missing"):
        dialect().receive("{}")
