"""Vendors' HTTP over a whole gateway."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest
import soundfile

from gateway.dialects import DIALECTS, LIST_ENDPOINTS, SPEECH_ENDPOINTS
from gateway.errors import ErrorCode
from gateway.events import Failed
from tests.fakes.fake_model import Fault, WholeFramesModel
from tests.fakes.gateway import RunningGateway, running_gateway

KEY = "a key of sixteen or more characters"
TEXT = "Hello there. How are you today?"


@asynccontextmanager
async def serving(
    faults: dict[str, Fault] | None = None, **settings: Mapping[str, Any]
) -> AsyncIterator[tuple[RunningGateway, httpx.AsyncClient]]:
    model = WholeFramesModel(frames_per_char=1)
    model.faults.update(faults or {})
    async with (
        running_gateway(model, settings) as gateway,
        httpx.AsyncClient(base_url=gateway.http, timeout=20.0) as client,
    ):
        yield gateway, client


@asynccontextmanager
async def raw(gateway: RunningGateway) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A socket without a client's manners."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1024)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/audio/speech", {"input": TEXT, "voice": "alto", "response_format": "pcm"}),
    ("/v1/text-to-speech/alto/stream?output_format=pcm_24000", {"text": TEXT}),
    ("/v1/text-to-speech/alto?output_format=pcm_24000", {"text": TEXT}),
    ("/tts/bytes", {"transcript": TEXT, "output_format": {"container": "raw", "sample_rate": 24000}}),
    ("/v1/speak?encoding=linear16&container=none", {"text": TEXT}),
    ("/v2/speak?encoding=linear16&container=none", {"text": TEXT}),
]


async def test_every_vendors_post_gives_the_same_samples_also_under_its_own_name() -> None:
    async with serving() as (_, client):
        heard = [await client.post(path, json=body) for path, body in REQUESTS]
        for prefix, (path, body) in zip(("openai", "elevenlabs", "elevenlabs", "cartesia"), REQUESTS, strict=False):
            heard.append(await client.post(f"/{prefix}{path}", json=body))
    assert {answer.status_code for answer in heard} == {200}
    assert len({answer.content for answer in heard}) == 1
    assert len(heard[0].content) >= 960 * 2 * (len(TEXT) - 2)


async def test_a_file_is_as_long_as_the_speech() -> None:
    body = REQUESTS[0][1]
    async with serving() as (_, client):
        pcm = (await client.post("/v1/audio/speech", json=body)).content
        for name in ("wav", "flac", "mp3", "opus"):
            answer = await client.post("/v1/audio/speech", json={**body, "response_format": name})
            samples, rate_hz = soundfile.read(io.BytesIO(answer.content))
            assert len(samples) / rate_hz >= len(pcm) / 48000


async def test_a_long_file_is_not_paced_like_a_conversation() -> None:
    """Four minutes of speech, far beyond the send-ahead of a WebSocket."""
    text = "This is a sentence of some length. " * 180
    async with serving() as (_, client), asyncio.timeout(30):
        answer = await client.post("/v1/audio/speech", json={"input": text, "response_format": "pcm"})
    assert len(answer.content) / 48000 > 200


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/v1/audio/speech", lambda body: body["error"]["message"]),
        ("/v1/text-to-speech/alto/stream", lambda body: body["detail"]["message"]),
        ("/tts/bytes", lambda body: body["message"]),
        ("/v1/speak", lambda body: body["err_msg"]),
    ],
)
async def test_every_refusal_has_a_status_and_the_vendors_body(path: str, sentence: Any) -> None:
    async with serving(keys={"agent": KEY}, limits={"utterance_chars": 1000, "message_bytes": 4096}) as (_, client):
        authorized = {"authorization": f"Bearer {KEY}"}
        refused = {
            401: await client.post(path, json={}),
            400: await client.post(path, content=b"{", headers=authorized),
            413: await client.post(path, content=b"x" * 5000, headers=authorized),
        }
        long = {name: "x" * 1100 for name in ("input", "text", "transcript")}
        too_long = await client.post(path, json=long, headers=authorized)
    for status, answer in [*refused.items(), (413, too_long)]:
        assert answer.status_code == status
        assert sentence(answer.json())
    assert refused[401].headers["www-authenticate"] == "Bearer"
    assert "at most 1,000" in sentence(too_long.json())


async def test_a_failure_before_the_first_sound_is_a_status() -> None:
    async with serving({"Broken.": "fail_prefill"}) as (_, client):
        answer = await client.post("/v1/audio/speech", json={"input": "Broken.", "response_format": "pcm"})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "engine_failed"


async def test_a_failure_behind_the_first_sound_does_not_look_like_a_whole_answer() -> None:
    async with serving({"Broken.": "fail_prefill"}) as (_, client):
        body = {"input": f"{TEXT}\n\nBroken.", "response_format": "pcm"}
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post("/v1/audio/speech", json=body)
        events = (await client.post("/v1/audio/speech", json={**body, "stream_format": "sse"})).text
    assert json.loads(events.split("data: ")[-1])["type"] == "error"


async def test_a_client_that_leaves_ends_its_utterance() -> None:
    async with serving() as (gateway, client):
        async with client.stream("POST", "/v1/audio/speech", json={"input": TEXT * 400}) as answer:
            await anext(answer.aiter_raw())
        async with asyncio.timeout(10):
            await asyncio.gather(*gateway.service.connections.values(), return_exceptions=True)
        assert (gateway.service.admission.utterances, gateway.service.admission.connections) == (0, 0)


async def test_a_reader_that_takes_nothing_stops_generation() -> None:
    text = "This is a sentence of some length. " * 2000
    async with serving() as (gateway, _), raw(gateway) as (reader, writer):
        body = json.dumps({"input": text, "response_format": "pcm"}).encode()
        head = f"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        await reader.read(100)
        sent = -1.0
        async with asyncio.timeout(30):
            while sent != (now := audio_s(gateway)):
                sent = now
                await asyncio.sleep(0.5)
        assert sent < 120  # of some 45 minutes: what the sockets between here and there hold


def audio_s(gateway: RunningGateway) -> float:
    for line in gateway.service.metrics.exposition().decode().splitlines():
        if line.startswith("antiphon_audio_seconds_total "):
            return float(line.rpartition(" ")[2])
    raise AssertionError("no antiphon_audio_seconds_total")


async def test_the_lists_are_served_and_refused_like_the_rest() -> None:
    async with serving(keys={"agent": KEY}) as (_, client):
        assert (await client.get("/v1/models")).status_code == 401
        authorized = {"authorization": f"Bearer {KEY}"}
        for path in ("/v1/models", "/openai/v1/models", "/v1/audio/voices", "/v1/voices", "/v2/voices"):
            assert (await client.get(path, headers=authorized)).status_code == 200
        assert (await client.get("/v1/voices/tenor", headers={"xi-api-key": KEY})).json()["name"] == "Tenor"
        missing = await client.get("/v1/voices/nobody", headers=authorized)
    assert missing.status_code == 404
    assert "nobody" in missing.json()["detail"]["message"]


async def test_a_get_of_a_speech_path_is_not_allowed() -> None:
    async with serving() as (_, client):
        assert (await client.get("/v1/audio/speech")).status_code == 405


def request_head(gateway: RunningGateway, length: int) -> bytes:
    head = f"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost:{gateway.port}\r\ncontent-length: {length}\r\n\r\n"
    return head.encode()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110  # what a socket brings about has no event
            await asyncio.sleep(0.01)


async def all_places_free(gateway: RunningGateway) -> None:
    await until(lambda: not gateway.service.admission.connections and not gateway.service.connections)


async def test_a_client_that_hangs_up_in_its_body_leaves_a_free_place_and_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as (gateway, _), raw(gateway) as (_, writer):
        writer.write(request_head(gateway, 100) + b"{")
        await writer.drain()
        await until(lambda: bool(gateway.service.admission.connections))
        writer.close()
        await all_places_free(gateway)
        assert 'status="499"' in gateway.service.metrics.exposition().decode()
    assert [record.message for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []


async def test_a_body_that_does_not_come_is_refused_and_its_place_is_free() -> None:
    async with serving(server={"stalled_s": 0.3}) as (gateway, _), raw(gateway) as (reader, writer):
        writer.write(request_head(gateway, 10_000) + b" ")
        async with asyncio.timeout(10):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "idle_timeout"
        await all_places_free(gateway)


async def test_a_body_of_which_a_byte_comes_now_and_then_does_not_keep_its_place() -> None:
    async with serving(server={"stalled_s": 0.3}) as (gateway, _), raw(gateway) as (_, writer):
        writer.write(request_head(gateway, 10_000))

        def is_refused() -> bool:
            writer.write(b" ")
            return 'status="408"' in gateway.service.metrics.exposition().decode()

        await until(is_refused)
        await all_places_free(gateway)


async def test_a_long_file_reaches_a_reader_that_is_slow_and_steady() -> None:
    """It leaves whole, for longer than a reader may stall; what it held is given back."""
    text = "This is a sentence of some length. " * 30
    async with serving(server={"stalled_s": 0.5}) as (gateway, client):
        body = {"input": text, "response_format": "wav"}
        got = 0
        async with asyncio.timeout(60), client.stream("POST", "/v1/audio/speech", json=body) as answer:
            async for piece in answer.aiter_raw(64 * 1024):
                got += len(piece)
                await asyncio.sleep(0.05)
        assert got > 1_000_000
        await all_places_free(gateway)
        assert gateway.service.held_audio.held_bytes == 0


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/v1/audio/nothing", lambda body: body["error"]["message"]),
        ("/openai/v2/anything", lambda body: body["error"]["message"]),
        ("/v1/text-to-speech/alto/nothing", lambda body: body["detail"]["message"]),
        ("/elevenlabs/v1/user", lambda body: body["detail"]["message"]),
        ("/tts/nothing", lambda body: body["message"]),
        ("/deepgram/v1/listen", lambda body: body["err_msg"]),
    ],
)
async def test_a_vendors_path_that_is_not_served_says_so_in_the_vendors_words(path: str, sentence: Any) -> None:
    async with serving() as (_, client):
        missing = await client.post(path, json={})
        assert missing.status_code == 404
        assert path in sentence(missing.json())


async def test_a_method_that_is_not_served_names_those_that_are() -> None:
    async with serving() as (_, client):
        answers = [await client.get("/v1/audio/speech"), await client.get("/openai/v1/audio/speech")]
        answers.append(await client.delete("/v1/voices/alto"))
    assert [(answer.status_code, answer.headers["allow"]) for answer in answers] == [
        (405, "POST"),
        (405, "POST"),
        (405, "GET, HEAD"),
    ]
    assert "methods: POST" in answers[0].json()["error"]["message"]


async def test_a_method_that_no_path_has_is_told_in_the_errors_of_whose_path_it_is() -> None:
    endpoints = [*DIALECTS, *SPEECH_ENDPOINTS, *LIST_ENDPOINTS]
    asking = [(endpoint, path) for endpoint in endpoints for path in endpoint.paths]
    async with serving() as (_, client):
        for endpoint, path in asking:
            asked = path.replace("{voice_id}", "alto").replace("{name}", "alto")
            answer = await client.patch(asked)
            assert answer.status_code == 405, asked
            message = f"PATCH {asked!r} is not served here; methods: {answer.headers['allow']}"
            assert answer.json() == endpoint.error_body(Failed(ErrorCode.UNKNOWN_TYPE, message), 405)
        native = await client.get("/antiphon/v1/nothing")
        assert (native.status_code, native.json()["code"]) == (404, "unknown_type")


async def test_a_form_where_json_is_wanted_is_refused_in_the_vendors_words() -> None:
    async with serving() as (_, client):
        answer = await client.post("/v1/audio/speech", files={"input": b"Hello."})
    assert answer.status_code == 400
    assert "not JSON" in answer.json()["error"]["message"]


async def test_the_connection_of_a_reader_that_takes_nothing_is_dropped_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Closing it behind what waits to be read would keep it for as long as the reader likes."""
    body = json.dumps({"input": "This is a sentence of some length. " * 2000, "response_format": "pcm"}).encode()
    async with serving(server={"stalled_s": 0.3}) as (gateway, _), raw(gateway) as (reader, writer):
        writer.write(request_head(gateway, len(body)) + body)
        await reader.read(100)
        await all_places_free(gateway)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
