"""Who may connect: keys, short-lived browser tokens, and the Host and Origin of a request."""

from __future__ import annotations

import base64
import hmac
import ipaddress
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gateway.errors import ErrorCode, HandshakeError

ANONYMOUS: Final = "anonymous"
"""The key's name where the server has no keys (loopback only)."""
MAX_TOKENS: Final = 10_000
CLOCK_SKEW_S: Final = 30.0
"""How far a client's clock may be off when it signs a token."""
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
HOW_TO: Final = "send the header 'Authorization: Bearer KEY', or '?token=' with a token of POST /antiphon/v1/token"


def is_loopback(host: str) -> bool:
    """Whether a name or address to bind to is this machine alone."""
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class AccessRules:
    """`keys`: name -> secret; none = everybody who reaches the socket. Hosts and origins are compared in lower case."""

    keys: Mapping[str, str]
    allowed_hosts: frozenset[str]
    """Host header names (without port) that are answered; "*" = any."""
    allowed_origins: frozenset[str]
    """Origins, beside the server's own, whose pages may connect; "*" = any."""
    token_life_s: float


class Access:
    """Decides on the headers and query of a request; raises HandshakeError with 401 or 403."""

    def __init__(self, rules: AccessRules, unix_time: Callable[[], float] = time.time) -> None:
        self._rules = rules
        self._unix_time = unix_time
        self._tokens: OrderedDict[str, tuple[str, float]] = OrderedDict()

    @property
    def has_keys(self) -> bool:
        return bool(self._rules.keys)

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(self._rules.keys)

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Against DNS rebinding: the request must be meant for this server."""
        host = _host_name(headers.get("host", ""))
        if "*" not in self._rules.allowed_hosts and host not in self._rules.allowed_hosts:
            raise HandshakeError(
                403,
                ErrorCode.BAD_VALUE,
                f"host {host!r:.80} is not served here; allowed: {', '.join(sorted(self._rules.allowed_hosts))}"
                " (setting server.allowed_hosts)",
            )

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """A browser's page must come from this server or an allowed origin; other clients send none."""
        origin = headers.get("origin")
        if origin is None or "*" in self._rules.allowed_origins:
            return
        if origin.lower() in self._rules.allowed_origins:
            return
        host = headers.get("host", "").lower()
        if host and _authority(origin) == host:
            return
        raise HandshakeError(
            403,
            ErrorCode.BAD_VALUE,
            f"origin {origin!r:.120} may not connect (setting server.allowed_origins)",
        )

    def key_of(self, headers: Mapping[str, str], query: Mapping[str, str], now_s: float) -> str:
        """The name of the key that a request proves, by the key itself or by a token that stands for it; `anonymous`
        where the server has none."""
        if not self._rules.keys:
            return ANONYMOUS
        token = query.get("token")
        if "authorization" in headers:
            return self.owner_of(headers)
        if token is not None:
            return self._check_token(token, now_s)
        raise HandshakeError(401, ErrorCode.BAD_VALUE, f"a key is needed: {HOW_TO}")

    def owner_of(self, headers: Mapping[str, str]) -> str:
        """The name of the key itself that a request shows. What a browser's token is too little for: new tokens, the
        metrics, voices coming and going."""
        if not self._rules.keys:
            return ANONYMOUS
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise HandshakeError(
                401, ErrorCode.BAD_VALUE, "a key is needed: send the header 'Authorization: Bearer KEY'"
            )
        return self.check_secret(secret.strip())

    def check_secret(self, secret: str) -> str:
        """The name of this secret's key; vendors' dialects bring it in headers of their own."""
        if not self._rules.keys:
            return ANONYMOUS
        found: str | None = None
        for name, known in self._rules.keys.items():  # every key, so that the time tells nothing
            if hmac.compare_digest(secret.encode("utf-8", "replace"), known.encode()):
                found = name
        if found is None:
            raise HandshakeError(401, ErrorCode.BAD_VALUE, f"the key is not known: {HOW_TO}")
        return found

    def check_signed(self, token: str) -> str:
        """The name of the key that signed this JWT (HS256; RFC 7515) and that it names as its issuer, where it has not
        expired. LiveKit's clients sign one for each connection."""
        if not self._rules.keys:
            return ANONYMOUS
        signed, _, signature = token.rpartition(".")
        try:
            header, claims = (json.loads(_base64url(part)) for part in signed.split("."))
            issuer, algorithm = claims.get("iss"), header.get("alg")
            begins_at, expires_at = float(claims.get("nbf", 0)), float(claims["exp"])
            given = _base64url(signature)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise HandshakeError(401, ErrorCode.BAD_VALUE, "the token is not a JWT with iss and exp") from None
        secret = self._rules.keys.get(issuer) if isinstance(issuer, str) else None
        expected = hmac.digest((secret or secrets.token_hex()).encode(), signed.encode("utf-8", "replace"), "sha256")
        is_genuine = hmac.compare_digest(expected, given)
        if secret is None or algorithm != "HS256" or not is_genuine:
            raise HandshakeError(401, ErrorCode.BAD_VALUE, "the token is not signed by a key of this server")
        if not begins_at - CLOCK_SKEW_S <= self._unix_time() < expires_at + CLOCK_SKEW_S:
            raise HandshakeError(401, ErrorCode.BAD_VALUE, "the token is not valid at this time")
        return str(issuer)

    def issue_token(self, key: str, now_s: float) -> tuple[str, float]:
        """A token that stands for `key` for a short while, fit for a URL; and its life in seconds."""
        while self._tokens and (len(self._tokens) >= MAX_TOKENS or next(iter(self._tokens.values()))[1] <= now_s):
            self._tokens.popitem(last=False)
        token = secrets.token_urlsafe(24)
        self._tokens[token] = (key, now_s + self._rules.token_life_s)
        return token, self._rules.token_life_s

    def _check_token(self, token: str, now_s: float) -> str:
        key, expires_at_s = self._tokens.get(token, ("", 0.0))
        if not key or expires_at_s <= now_s:
            raise HandshakeError(401, ErrorCode.BAD_VALUE, "the token is not known or has expired: ask for a new one")
        return key


def _authority(origin: str) -> str:
    """Host and port of an Origin header, in lower case."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _base64url(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _host_name(host: str) -> str:
    """The name of a Host header without its port, in lower case."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
