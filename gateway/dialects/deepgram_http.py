"""Deepgram's `POST /v1/speak`."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.deepgram_frames import ERRORS
from gateway.dialects.deepgram_options import read_query
from gateway.dialects.http_speech import AudioBody, AudioEncoder, SpeechOrder
from gateway.dialects.json_fields import Fields
from gateway.events import Failed

BY_STATUS: Final = {401: "INVALID_AUTH", 429: "TOO_MANY_REQUESTS"}
"""HTTP has words of its own for these; the others are those of the WebSockets."""


def read_order(handshake: Handshake, server: ServerFacts, fields: Fields) -> SpeechOrder:
    """`{"text": …}`; everything else is in the query."""
    order = read_query(handshake.query, server, is_file_allowed=True)
    options = order.options
    encoder = AudioEncoder(options.format or "pcm_s16le", options.sample_rate_hz or 0, order.container)
    text = fields.require("text")
    headers = (("dg-model-name", server.model.name), ("dg-char-count", str(len(text))))
    return SpeechOrder(text, options, AudioBody(encoder, headers), order.remarks)


def error_body(event: Failed, status: int) -> dict[str, Any]:
    return {"err_code": BY_STATUS.get(status) or ERRORS[event.code], "err_msg": event.message}


def error_headers(event: Failed) -> dict[str, str]:
    """The reason of a refused upgrade, which is all that some of its clients show."""
    sentence = event.message.encode("ascii", "backslashreplace").decode()
    return {"dg-error": "".join(character if character.isprintable() else " " for character in sentence)}
