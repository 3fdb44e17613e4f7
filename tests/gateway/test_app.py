"""The composition root: what happens at the start and at the end of a gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from engine.config import EngineSettings
from engine.engine import LocalEngine
from gateway.app import bind, make_app, make_service, version
from gateway.config import ConfigError, load_config
from tests.fakes.fake_model import WholeFramesModel
from tests.fakes.gateway import Call, running_gateway


async def test_a_draining_server_lets_speech_end_then_says_so_and_closes_with_1001() -> None:
    async with running_gateway() as gateway, Call(gateway) as peer:
        await peer.send(type="text", utterance="u", text="Almost done.")
        await peer.until("started")
        gateway.service.admission.drain()
        for connection in list(gateway.service.connections):
            connection.drain()
        await peer.send(type="open", utterance="new")
        assert (await peer.until("error"))["code"] == "draining"
        await peer.send(type="end", utterance="u")
        await peer.until("done", utterance="u")
        assert (await peer.until("error"))["code"] == "draining"
        await peer.socket.wait_closed()
        assert peer.socket.close_code == 1001


async def test_a_warm_up_that_fails_leaves_the_server_unready_and_says_why() -> None:
    model = WholeFramesModel(faults={"Ready to speak.": "fail_prefill"})
    with pytest.raises(TimeoutError):
        async with running_gateway(model, start_s=0.5):
            pass


async def test_the_server_is_ready_only_after_a_warm_up_utterance_was_spoken() -> None:
    async with running_gateway() as gateway, httpx.AsyncClient(base_url=gateway.http) as client:
        assert gateway.engine.stats().frames > 0
        assert (await client.get("/ready")).json() == {"status": "ready"}
        assert (await client.get("/version")).json()["version"] == version()


def test_a_lexicon_file_that_cannot_be_used_is_a_setting_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "words.json"
    path.write_text("[]", encoding="utf-8")
    config = load_config(None, {}, {"speech": {"lexicon": path}})
    with pytest.raises(ConfigError, match="lexicon"):
        make_service(config, LocalEngine(WholeFramesModel(), EngineSettings()))


@pytest.mark.parametrize(
    "speech", [{"format": "mp3"}, {"sample_rate_hz": 12345}, {"format": "mulaw", "sample_rate_hz": 16000}]
)
def test_a_default_format_that_cannot_be_sent_does_not_start(speech: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"speech\.format"):
        make_service(load_config(None, {}, {"speech": speech}), LocalEngine(WholeFramesModel(), EngineSettings()))


async def test_a_warm_up_that_falls_over_is_said_by_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    model = WholeFramesModel()
    monkeypatch.setattr(model, "warm_up", lambda: 1 // 0)
    service = make_service(load_config(None, {}), LocalEngine(model, EngineSettings()))
    app = make_app(service)
    async with app.router.lifespan_context(app):
        await next(task for task in asyncio.all_tasks() if task.get_name() == "warm-up")
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.get("/ready")
    assert answer.status_code == 503
    assert "failed" in answer.json()["message"]


def test_a_taken_port_is_an_error_and_a_free_one_is_found() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            bind("127.0.0.1", taken.getsockname()[1])
