"""Access: keys, tokens, Host and Origin."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth import ANONYMOUS, Access, AccessRules, is_loopback
from gateway.errors import HandshakeError

SECRET = "0123456789abcdef"


def access(*, has_keys: bool = True, origins: frozenset[str] = frozenset()) -> Access:
    keys = {"shop": SECRET} if has_keys else {}
    return Access(AccessRules(keys, frozenset({"localhost", "127.0.0.1"}), origins, token_life_s=60.0))


def test_a_bearer_key_is_known_by_its_name() -> None:
    assert access().key_of({"authorization": f"Bearer {SECRET}"}, {}, 0.0) == "shop"


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": SECRET}, {"authorization": "Bearer "}]
)
def test_no_or_a_wrong_key_is_refused_with_401_and_how_to_do_better(headers: dict[str, str]) -> None:
    with pytest.raises(HandshakeError, match="Authorization: Bearer") as caught:
        access().key_of(headers, {}, 0.0)
    assert caught.value.status == 401


def test_a_server_without_keys_lets_everybody_in() -> None:
    assert access(has_keys=False).key_of({}, {}, 0.0) == ANONYMOUS


def test_a_token_stands_for_its_key_until_it_expires() -> None:
    door = access()
    token, life_s = door.issue_token("shop", 100.0)
    assert door.key_of({}, {"token": token}, 100.0 + life_s - 1) == "shop"
    with pytest.raises(HandshakeError, match="expired"):
        door.key_of({}, {"token": token}, 100.0 + life_s)


def test_a_token_is_no_key() -> None:
    door = access()
    door.issue_token("shop", 0.0)
    assert door.owner_of({"authorization": f"bearer {SECRET}"}) == "shop"
    with pytest.raises(HandshakeError, match="key is needed"):
        door.owner_of({})


def test_an_unknown_token_is_refused() -> None:
    with pytest.raises(HandshakeError):
        access().key_of({}, {"token": "x"}, 0.0)


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:1", "LOCALHOST:80"])
def test_the_servers_own_hosts_are_answered(host: str) -> None:
    access().check_host({"host": host})


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "", "localhost.evil.example", "[::1", "a:b:c"])
def test_a_foreign_host_header_is_refused_with_403(host: str) -> None:
    with pytest.raises(HandshakeError) as caught:
        access().check_host({"host": host})
    assert caught.value.status == 403


def test_a_request_without_origin_or_from_the_servers_own_page_may_connect() -> None:
    access().check_origin({"host": "localhost:8000"})
    access().check_origin({"host": "localhost:8000", "origin": "http://localhost:8000"})


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9", "http://[", ""])
def test_a_foreign_origin_is_refused_with_403(origin: str) -> None:
    with pytest.raises(HandshakeError) as caught:
        access().check_origin({"host": "localhost:8000", "origin": origin})
    assert caught.value.status == 403


def test_an_allowed_origin_may_connect() -> None:
    access(origins=frozenset({"https://app.example"})).check_origin(
        {"host": "localhost", "origin": "https://App.example"}
    )


@given(st.text(), st.text())
def test_no_header_makes_the_door_fall_over(host: str, origin: str) -> None:
    for check in (access().check_host, access().check_origin):
        with suppress(HandshakeError):
            check({"host": host, "origin": origin})


@pytest.mark.parametrize(("host", "expected"), [("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("x", False)])
def test_loopback_is_this_machine_alone(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
