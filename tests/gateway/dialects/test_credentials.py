"""Where vendors' clients put their key."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gateway.auth import Access, AccessRules
from gateway.dialects import credentials
from gateway.dialects.base import Handshake
from gateway.errors import HandshakeError

SECRET = "a secret of some length"
NOW_UNIX_S = 1_800_000_000.0
ACCESS = Access(AccessRules({"agent": SECRET}, frozenset("*"), frozenset(), 60.0), unix_time=lambda: NOW_UNIX_S)
Authenticate = Callable[[Access, Handshake, float], str]


def shake(
    headers: Mapping[str, str] | None = None, query: Mapping[str, str] | None = None, *subprotocols: str
) -> Handshake:
    return Handshake("/", {}, query or {}, headers or {}, subprotocols)


def encoded(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def signed(claims: Mapping[str, Any], secret: str = SECRET, algorithm: str = "HS256") -> str:
    body = f"{encoded({'alg': algorithm, 'typ': 'JWT'})}.{encoded(claims)}"
    signature = base64.urlsafe_b64encode(hmac.digest(secret.encode(), body.encode(), "sha256")).rstrip(b"=")
    return f"{body}.{signature.decode()}"


CLAIMS = {"iss": "agent", "nbf": NOW_UNIX_S - 1, "exp": NOW_UNIX_S + 600}
PLACES: list[tuple[Authenticate, Callable[[str], Handshake]]] = [
    (credentials.bearer, lambda key: shake({"authorization": f"Bearer {key}"})),
    (credentials.elevenlabs, lambda key: shake({"xi-api-key": key})),
    (credentials.elevenlabs, lambda key: shake({"authorization": f"bearer {key}"})),
    (credentials.cartesia, lambda key: shake({"x-api-key": key})),
    (credentials.cartesia, lambda key: shake({"authorization": f"Bearer {key}"})),
    (credentials.cartesia, lambda key: shake(None, {"api_key": key})),
    (credentials.deepgram, lambda key: shake({"authorization": f"Token {key}"})),
    (credentials.deepgram, lambda key: shake({"authorization": f"Bearer {key}"})),
    (credentials.deepgram, lambda key: shake(None, None, "token", key)),
    (credentials.livekit, lambda key: shake({"authorization": f"Bearer {key}"})),
    (credentials.livekit, lambda key: shake({"authorization": f"Bearer {signed(CLAIMS, key)}"})),
    (credentials.openai_realtime, lambda key: shake({"authorization": f"Bearer {key}"})),
    (credentials.openai_realtime, lambda key: shake(None, None, "realtime", f"openai-insecure-api-key.{key}")),
]


@pytest.mark.parametrize(("authenticate", "place"), PLACES)
def test_the_right_key_is_found_where_its_vendor_puts_it(
    authenticate: Authenticate, place: Callable[[str], Handshake]
) -> None:
    assert authenticate(ACCESS, place(SECRET), 0.0) == "agent"


@pytest.mark.parametrize(("authenticate", "place"), PLACES)
def test_a_wrong_key_and_none_are_refused(authenticate: Authenticate, place: Callable[[str], Handshake]) -> None:
    for handshake in (place("wrong"), place(""), shake()):
        with pytest.raises(HandshakeError) as refused:
            authenticate(ACCESS, handshake, 0.0)
        assert refused.value.status == 401


@pytest.mark.parametrize("authenticate", {place[0] for place in PLACES}, ids=lambda one: one.__name__)
def test_one_of_our_tokens_is_taken_everywhere(authenticate: Authenticate) -> None:
    token, _ = ACCESS.issue_token("agent", 0.0)
    assert authenticate(ACCESS, shake(None, {"token": token}), 1.0) == "agent"
    assert credentials.cartesia(ACCESS, shake(None, {"access_token": token}), 1.0) == "agent"


@pytest.mark.parametrize(
    "token",
    [
        signed({**CLAIMS, "exp": NOW_UNIX_S - 60}),
        signed({**CLAIMS, "nbf": NOW_UNIX_S + 60}),
        signed({**CLAIMS, "iss": "nobody"}),
        signed({**CLAIMS, "iss": ["agent"]}),
        signed({"iss": "agent"}),
        signed(CLAIMS, "another secret of some length"),
        signed(CLAIMS, algorithm="none"),
        signed(CLAIMS, algorithm="HS512"),
        signed(CLAIMS).rpartition(".")[0] + ".",
        "a.b.c",
        "é.é.é",
        "..",
        f"{encoded({'alg': 'HS256'})}.{base64.urlsafe_b64encode(b'[]').decode()}.",
        signed({**CLAIMS, "exp": "nan"}),
    ],
)
def test_a_signed_token_that_is_not_genuine_or_not_valid_now_is_refused(token: str) -> None:
    with pytest.raises(HandshakeError) as refused:
        credentials.livekit(ACCESS, shake({"authorization": f"Bearer {token}"}), 0.0)
    assert refused.value.status == 401


def test_without_keys_everybody_is_anonymous() -> None:
    access = Access(AccessRules({}, frozenset("*"), frozenset(), 60.0))
    assert {authenticate(access, shake(), 0.0) for authenticate, _ in PLACES} == {"anonymous"}
