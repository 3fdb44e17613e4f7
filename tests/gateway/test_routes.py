"""Routes: the door of the WebSocket, and what HTTP answers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.fakes.gateway import Call, Peer, RunningGateway, running_gateway


@pytest.fixture
async def gateway() -> AsyncIterator[RunningGateway]:
    async with running_gateway() as running:
        yield running


async def say(peer: Peer, text: str) -> None:
    await peer.send(type="text", utterance="u", text=text)
    await peer.send(type="end", utterance="u")
    await peer.until("done")


KEY = "0123456789abcdef"


async def test_without_its_key_the_upgrade_is_refused_with_401_and_a_json_body() -> None:
    async with running_gateway(settings={"keys": {"shop": KEY}}) as gateway:
        with pytest.raises(InvalidStatus) as caught:
            async with Call(gateway):
                pass
        assert caught.value.response.status_code == 401
        assert b'"message"' in (caught.value.response.body or b"")
        async with Call(gateway, additional_headers={"Authorization": f"Bearer {KEY}"}) as peer:
            await say(peer, "With a key.")


async def test_a_browser_token_opens_the_socket() -> None:
    async with running_gateway(settings={"keys": {"shop": KEY}}) as gateway, httpx.AsyncClient() as client:
        refused = await client.post(f"{gateway.http}/antiphon/v1/token")
        assert refused.status_code == 401
        answer = await client.post(f"{gateway.http}/antiphon/v1/token", headers={"Authorization": f"Bearer {KEY}"})
        token = answer.json()["token"]
        assert answer.json()["expires_in_s"] > 0
        async with Call(gateway, query=f"?token={token}") as peer:
            await say(peer, "With a token.")


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
async def test_a_foreign_page_or_host_name_is_refused_with_403(
    gateway: RunningGateway, headers: dict[str, str]
) -> None:
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{gateway.http}/antiphon/v1/voices", headers=headers)).status_code == 403


async def test_a_full_server_refuses_the_upgrade_with_503_and_a_quota_with_429() -> None:
    for limits, status in (({"connections": 1}, 503), ({"connections_per_key": 1}, 429)):
        async with running_gateway(settings={"limits": limits}) as gateway, Call(gateway):
            with pytest.raises(InvalidStatus) as caught:
                async with Call(gateway):
                    pass
            assert caught.value.response.status_code == status
            assert "retry-after" in caught.value.response.headers


async def test_a_plain_request_on_the_sockets_path_tells_what_an_upgrade_would_be_answered() -> None:
    settings = {"limits": {"connections": 1}, "keys": {"shop": KEY}}
    async with running_gateway(settings=settings) as gateway, httpx.AsyncClient(base_url=gateway.http) as client:
        headers = {"Authorization": f"Bearer {KEY}"}
        assert (await client.get("/antiphon/v1/speak")).status_code == 401
        for _ in range(3):  # it takes no place itself
            free = await client.get("/antiphon/v1/speak", headers=headers)
            assert (free.status_code, free.headers["upgrade"]) == (426, "websocket")
        async with Call(gateway, additional_headers=headers):
            full = await client.get("/antiphon/v1/speak", headers=headers)
            assert (full.status_code, full.json()["code"]) == (503, "capacity")
            assert full.json()["retry_after_s"] > 0


async def test_health_ready_version_voices_and_metrics_answer(gateway: RunningGateway) -> None:
    async with httpx.AsyncClient(base_url=gateway.http) as client, Call(gateway) as peer:
        await say(peer, "Counted.")
        await peer.send(type="sing")
        await peer.until("error")
        for path in ("/health", "/ready", "/version", "/antiphon/v1/voices", "/"):
            assert (await client.get(path)).status_code == 200
        metrics = (await client.get("/metrics")).text
        assert 'antiphon_utterances_total{outcome="complete"} 1.0' in metrics
        assert 'antiphon_errors_total{code="unknown_type",dialect="native"} 1.0' in metrics
        assert "antiphon_connections 1.0" in metrics


async def test_the_page_and_its_files_carry_a_strict_content_security_policy(gateway: RunningGateway) -> None:
    async with httpx.AsyncClient(base_url=gateway.http) as client:
        for path in ("/", "/web/style.css", "/web/src/main.js"):
            answer = await client.get(path)
            assert answer.status_code == 200
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert (await client.get("/web/../pyproject.toml")).status_code == 404
        assert (await client.get("/web/%2e%2e/pyproject.toml")).status_code == 404


async def test_a_token_opens_no_more_than_the_socket_and_the_list_of_voices() -> None:
    async with (
        running_gateway(settings={"keys": {"shop": KEY}}) as gateway,
        httpx.AsyncClient(base_url=gateway.http) as client,
    ):
        answer = await client.post("/antiphon/v1/token", headers={"Authorization": f"Bearer {KEY}"})
        query = {"token": answer.json()["token"]}
        assert (await client.get("/antiphon/v1/voices", params=query)).status_code == 200
        for method, path in (
            ("POST", "/antiphon/v1/token"),
            ("GET", "/metrics"),
            ("POST", "/antiphon/v1/voices"),
            ("DELETE", "/antiphon/v1/voices/x"),
        ):
            assert (await client.request(method, path, params=query)).status_code == 401, path


async def test_only_the_pages_files_are_served_and_only_to_its_own_hosts(gateway: RunningGateway) -> None:
    async with httpx.AsyncClient(base_url=gateway.http) as client:
        for path in ("/web/__init__.py", "/web/package.json", "/web/src", "/web/"):
            assert (await client.get(path)).status_code == 404, path
        assert (await client.get("/web/style.css", headers={"Host": "evil.example"})).status_code == 403
        metrics = (await client.get("/metrics")).text
        assert 'antiphon_handshakes_refused_total{status="403"} 1.0' in metrics


async def test_voices_tell_what_the_model_can_do(gateway: RunningGateway) -> None:
    async with httpx.AsyncClient(base_url=gateway.http) as client:
        answer = (await client.get("/antiphon/v1/voices")).json()
    assert answer["default_voice"] in [voice["id"] for voice in answer["voices"]]
    assert set(answer["model"]) >= {"name", "word_timing", "languages", "parameters", "can_clone", "tags"}


async def test_a_server_that_is_not_ready_refuses_with_503_and_says_why(gateway: RunningGateway) -> None:
    gateway.service.is_ready = False
    with pytest.raises(InvalidStatus) as caught:
        async with Call(gateway):
            pass
    assert caught.value.response.status_code == 503
    async with httpx.AsyncClient(base_url=gateway.http) as client:
        assert (await client.get("/ready")).json()["status"] == "starting"
        assert (await client.get("/health")).status_code == 200


async def test_invalid_utf_8_in_a_text_message_closes_with_1007(gateway: RunningGateway) -> None:
    async with Call(gateway) as peer:
        peer.socket.transport.write(b"\x81\x82" + bytes(4) + b"\xff\xfe")  # masked with zeros
        await peer.socket.wait_closed()
        assert peer.socket.close_code == 1007


async def test_a_frame_over_the_librarys_limit_closes_with_1009(gateway: RunningGateway) -> None:
    async with Call(gateway, max_size=None) as peer:
        peer.socket.transport.write(b"\x81\xff" + (17 << 20).to_bytes(8, "big") + bytes(4) + b"x")
        await peer.socket.wait_closed()
        assert peer.socket.close_code == 1009
