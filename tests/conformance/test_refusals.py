"""What each vendor's client makes of an upgrade that is refused: its own error, with what the gateway said."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.conftest import KEY, Host

pytest.importorskip("livekit.agents", reason="vendors' clients are not installed: make test-clients")
pytest.importorskip("pipecat", reason="vendors' clients are not installed: make test-clients")
from livekit.agents import APIConnectionError, APIStatusError
from websockets.exceptions import InvalidStatus

from tests.conformance import (
    test_cartesia_sdk,
    test_deepgram_sdk,
    test_elevenlabs_sdk,
    test_livekit_plugins,
    test_openai_sdk,
    test_pipecat_services,
)

WRONG = "a wrong key that is long enough"
WARMING_UP = "the voice is warming up"


@pytest.fixture
def busy(host: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    """The same gateway, which lets nobody in for the moment."""
    monkeypatch.setattr(host.gateway.service, "is_ready", False)
    return host


def _elevenlabs(host: Host, key: str) -> None:
    test_elevenlabs_sdk.realtime(test_elevenlabs_sdk.client(host, key), ["Hello."])


def _cartesia(host: Host, key: str) -> None:
    with test_cartesia_sdk.client(host, key).tts.websocket_connect():
        pass


def _deepgram(version: str) -> Callable[[Host, str], None]:
    def connect(host: Host, key: str) -> None:
        speak = getattr(test_deepgram_sdk.client(host, key).speak, version)
        with speak.connect(model="alto", encoding="linear16", sample_rate="24000"):
            pass

    return connect


def _openai(host: Host, key: str) -> None:
    with test_openai_sdk.client(host, key).realtime.connect(model="gpt-realtime"):
        pass


Told = Callable[[dict[str, Any]], tuple[str, str]]
SOCKETS: dict[str, tuple[Callable[[Host, str], None], Told]] = {
    "elevenlabs": (_elevenlabs, lambda body: (body["detail"]["status"], body["detail"]["message"])),
    "cartesia": (_cartesia, lambda body: (body["error_code"], body["message"])),
    "deepgram": (_deepgram("v1"), lambda body: (body["err_code"], body["err_msg"])),
    "deepgram flux": (_deepgram("v2"), lambda body: (body["err_code"], body["err_msg"])),
    "openai": (_openai, lambda body: (body["error"]["code"], body["error"]["message"])),
}
"""The SDKs: how they connect, and where their vendor's error has its code and its sentence."""
CODES = {
    "elevenlabs": ("invalid_api_key", "system_busy"),
    "cartesia": ("unauthorized", "service_unavailable"),
    "deepgram": ("INVALID_AUTH", "NET-0002"),
    "deepgram flux": ("INVALID_AUTH", "NET-0002"),
    "openai": ("invalid_api_key", "capacity"),
}
"""Of a bad key, and of a gateway that is not ready."""


@pytest.mark.parametrize("name", SOCKETS)
def test_a_bad_key_comes_with_the_vendors_error(name: str, host: Host) -> None:
    connect, told = SOCKETS[name]
    with pytest.raises(InvalidStatus) as refused:
        connect(host, WRONG)
    assert refused.value.response.status_code == 401
    code, sentence = told(json.loads(refused.value.response.body or b""))
    assert code == CODES[name][0]
    assert "key" in sentence


@pytest.mark.parametrize("name", SOCKETS)
def test_a_gateway_that_is_not_ready_says_so_and_when_to_come_again(name: str, busy: Host) -> None:
    connect, told = SOCKETS[name]
    with pytest.raises(InvalidStatus) as refused:
        connect(busy, KEY)
    assert refused.value.response.status_code == 503
    assert refused.value.response.headers["retry-after"] == "2"
    assert told(json.loads(refused.value.response.body or b"")) == (CODES[name][1], WARMING_UP)


@pytest.mark.parametrize("name", ["Deepgram", "Deepgram Flux"])
async def test_pipecat_shows_the_reason_that_deepgram_has_in_a_header(name: str, host: Host) -> None:
    heard = await test_pipecat_services.heard(name, host, test_pipecat_services.turn(["Hello."], 0.5), key=WRONG)
    assert any("HTTP 401" in str(frame) and "key" in str(frame) for frame in heard.errors)


@pytest.mark.parametrize("name", test_livekit_plugins.CLIENTS)
async def test_livekit_may_try_again_where_the_gateway_is_not_ready(name: str, busy: Host) -> None:
    async with test_livekit_plugins.speaker(name, busy) as voice:
        with pytest.raises((APIStatusError, APIConnectionError)) as refused:
            await test_livekit_plugins.turn(voice, test_livekit_plugins.TOKENS)
    assert refused.value.retryable
    assert getattr(refused.value, "status_code", 503) == 503
