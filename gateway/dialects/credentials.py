"""Where each vendor's clients put their key. All raise HandshakeError 401 for a key that is missing or not known."""

from __future__ import annotations

from itertools import pairwise

from gateway.auth import Access
from gateway.dialects.base import Handshake


def bearer(access: Access, handshake: Handshake, now_s: float) -> str:
    """`Authorization: Bearer KEY`, or our `?token=`."""
    return access.key_of(handshake.headers, handshake.query, now_s)


def elevenlabs(access: Access, handshake: Handshake, now_s: float) -> str:
    """`xi-api-key: KEY`."""
    key = handshake.headers.get("xi-api-key")
    return bearer(access, handshake, now_s) if key is None else access.check_secret(key)


def cartesia(access: Access, handshake: Handshake, now_s: float) -> str:
    """`X-API-Key: KEY`; browsers, which cannot set headers, `?api_key=` or, for one of our tokens, `?access_token=`."""
    key = handshake.headers.get("x-api-key") or handshake.query.get("api_key")
    if key is not None:
        return access.check_secret(key)
    token = handshake.query.get("access_token")
    if token is not None:
        return access.key_of({}, {"token": token}, now_s)
    return bearer(access, handshake, now_s)


def deepgram(access: Access, handshake: Handshake, now_s: float) -> str:
    """`Authorization: Token KEY`; browsers offer the subprotocols `token, KEY`."""
    scheme, _, key = handshake.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "token" and key:
        return access.check_secret(key.strip())
    key_offered = offered_key(handshake.subprotocols, ("token", "bearer"))
    return bearer(access, handshake, now_s) if key_offered is None else access.check_secret(key_offered)


def offered_key(subprotocols: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    """The subprotocol that stands behind one of `names`: a browser's only place for a key."""
    for name, value in pairwise(subprotocols):
        if name.lower() in names:
            return value
    return None


def livekit(access: Access, handshake: Handshake, now_s: float) -> str:
    """`Authorization: Bearer JWT`, signed with a key (`api_secret`) whose name is the issuer (`api_key`)."""
    scheme, _, token = handshake.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.count(".") == 2:
        return access.check_signed(token.strip())
    return bearer(access, handshake, now_s)


OPENAI_KEY_PREFIX = "openai-insecure-api-key."


def openai_realtime(access: Access, handshake: Handshake, now_s: float) -> str:
    """`Authorization: Bearer KEY`; browsers offer the subprotocol `openai-insecure-api-key.KEY`."""
    for offered in handshake.subprotocols:
        if offered.startswith(OPENAI_KEY_PREFIX):
            return access.check_secret(offered.removeprefix(OPENAI_KEY_PREFIX))
    return bearer(access, handshake, now_s)
