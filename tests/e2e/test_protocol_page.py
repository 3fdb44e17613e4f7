"""The example conversation of docs/protocol.md is what really happens with the embedded voice."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from engine.models import load_model
from gateway.dialects.native_fields import MESSAGES
from gateway.errors import ErrorCode, WarningCode
from tests.fakes.gateway import Peer, connect, running_gateway

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
VOLATILE = {"session", "resume_token", "seq", "seed", "metrics", "audio_ms", "audio_samples", "sent_ms", "formats"}
"""Random, or a matter of the voice's exact pace, or of the extras installed; their presence and type still count."""


def conversation() -> list[str]:
    found = re.search(r"```conversation\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found.group(1).strip().splitlines()


def assert_like(received: dict[str, Any], shown: dict[str, Any]) -> None:
    assert set(received) == set(shown)
    for field, value in shown.items():
        if field in VOLATILE:
            assert type(received[field]) is type(value), field
        elif field == "words":
            assert [(w["text"], w["start_char"], w["end_char"]) for w in received[field]] == [
                (w["text"], w["start_char"], w["end_char"]) for w in value
            ]
        else:
            assert received[field] == value, field


async def test_the_example_conversation_happens_as_shown() -> None:
    async with running_gateway(load_model("hibari")) as gateway, connect(gateway.url) as socket:
        peer = Peer(socket)
        is_skipping = False
        for line in conversation():
            if line.startswith(">"):
                await peer.socket.send(line[1:].strip())
            elif line.startswith("<"):
                shown = json.loads(line[1:])
                received = await peer.until(shown["type"]) if is_skipping else await _next_event(peer)
                assert_like(received, shown)
                is_skipping = False
            else:
                is_skipping = True


async def _next_event(peer: Peer) -> dict[str, Any]:
    message = await peer.receive()
    while message["type"] == "audio":
        message = await peer.receive()
    return message


def test_every_code_of_the_protocol_is_on_its_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for code in (*ErrorCode, *WarningCode):
        assert f"`{code.value}`" in page


def test_every_message_and_field_of_the_dialect_is_on_its_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for kind, (required, optional) in MESSAGES.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{kind}` |"))
        for field in (*required, *optional):
            assert f"`{field}`" in row, (kind, field)
