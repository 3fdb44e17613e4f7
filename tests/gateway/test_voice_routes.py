"""Voices over HTTP: cloned, listed, spoken with, owned, deleted."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.asyncio.client import connect

from gateway.voices import find_voice
from tests.engine.test_voice_audio import packed, speech
from tests.fakes.cloning_model import CloningFakeModel
from tests.fakes.gateway import RECEIVE_S, Call, RunningGateway, running_gateway

ADA, BOB = "ada-ada-ada-ada-ada", "bob-bob-bob-bob-bob"
PATH = "/antiphon/v1/voices"
FIELDS = {"name": "Ada", "consent": "I am the speaker."}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    settings = {"keys": {"ada": ADA, "bob": BOB}}
    async with running_gateway(CloningFakeModel(tmp_path), settings) as running:
        yield running


def client(gateway: RunningGateway, key: str = ADA) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=gateway.http, headers={"Authorization": f"Bearer {key}"})


async def add(gateway: RunningGateway, key: str = ADA, seconds: float = 3.0, **changes: Any) -> httpx.Response:
    async with client(gateway, key) as http:
        fields = {name: value for name, value in {**FIELDS, **changes}.items() if value is not None}
        return await http.post(PATH, data=fields, files={"file": ("a.wav", packed(speech(seconds)))})


async def ids(gateway: RunningGateway, key: str) -> list[str]:
    async with client(gateway, key) as http:
        return [voice["id"] for voice in (await http.get(PATH)).json()["voices"]]


async def test_a_cloned_voice_is_listed_and_speaks_by_its_id_alone(gateway: RunningGateway) -> None:
    async with Call(gateway, additional_headers={"Authorization": f"Bearer {ADA}"}) as peer:
        answer = await add(gateway)
        assert answer.status_code == 201
        voice = answer.json()["voice"]["id"]
        assert voice in await ids(gateway, ADA)
        await peer.send(type="open", utterance="u", voice=voice)
        await peer.send(type="text", utterance="u", text="Hello.")
        await peer.send(type="end", utterance="u")
        assert (await peer.until("started"))["voice"] == voice
        await peer.until("done")
        await peer.send(type="open", utterance="by name", voice="Ada")
        assert (await peer.until("error"))["code"] == "voice_not_found"


VENDORS_TURNS: dict[str, tuple[str, list[dict[str, Any]], str]] = {
    "elevenlabs": (
        "/v1/text-to-speech/Ada/multi-stream-input?output_format=pcm_24000",
        [
            {"context_id": "$", "text": " "},
            {"context_id": "$", "text": "Hello. ", "flush": True},
            {"context_id": "$", "flush": True},
            {"context_id": "$", "close_context": True},
        ],
        '"isFinal":true',
    ),
    "cartesia": (
        "/tts/websocket",
        [{"context_id": "$", "transcript": "Hello.", "continue": False, "voice": {"mode": "id", "id": "Ada"}}],
        '"type":"done"',
    ),
    "deepgram": ("/v1/speak?model=Ada", [{"type": "Speak", "text": "Hello."}, {"type": "Flush"}], '"Flushed"'),
}
"""Path, messages of a turn ($: its name), what its end marker holds."""


@pytest.mark.parametrize("vendor", VENDORS_TURNS)
async def test_a_vendors_socket_speaks_with_a_voice_from_its_cloning_to_its_deletion(
    gateway: RunningGateway, vendor: str
) -> None:
    path, messages, end = VENDORS_TURNS[vendor]
    assert isinstance(gateway.model, CloningFakeModel)
    default = gateway.model.info.default_voice
    url = f"ws://127.0.0.1:{gateway.port}{path}"
    async with connect(url, additional_headers={"Authorization": f"Bearer {ADA}"}) as socket:

        async def voice_of_a_turn(name: str) -> str:
            for message in messages:
                await socket.send(json.dumps(message).replace("$", name))
            async with asyncio.timeout(RECEIVE_S):
                while end not in str(await socket.recv()):
                    pass
            assert isinstance(gateway.model, CloningFakeModel)
            return gateway.model.spoken_with[-1]

        assert await voice_of_a_turn("before") == default
        voice = (await add(gateway)).json()["voice"]["id"]
        assert await voice_of_a_turn("between") == voice
        async with client(gateway) as http:
            assert (await http.delete(f"{PATH}/{voice}")).status_code == 204
        assert await voice_of_a_turn("after") == default


async def test_an_open_native_session_has_a_voice_no_longer_once_it_was_deleted(gateway: RunningGateway) -> None:
    async with Call(gateway, additional_headers={"Authorization": f"Bearer {ADA}"}) as peer:
        voice = (await add(gateway)).json()["voice"]["id"]
        await peer.send(type="config", voice=voice)
        await peer.send(type="text", utterance="u", text="Hello.")
        await peer.send(type="end", utterance="u")
        await peer.until("done")
        async with client(gateway) as http:
            assert (await http.delete(f"{PATH}/{voice}")).status_code == 204
        await peer.send(type="text", utterance="v", text="Hello.")
        assert (await peer.until("error"))["code"] == "voice_not_found"


async def test_a_voice_belongs_to_its_key_alone(gateway: RunningGateway) -> None:
    voice = (await add(gateway)).json()["voice"]["id"]
    assert voice not in await ids(gateway, BOB)
    async with client(gateway, BOB) as http:
        assert (await http.delete(f"{PATH}/{voice}")).status_code == 404
    async with Call(gateway, additional_headers={"Authorization": f"Bearer {BOB}"}) as peer:
        await peer.send(type="open", utterance="u", voice=voice)
        assert (await peer.until("error"))["code"] == "voice_not_found"


async def test_a_deleted_voice_is_gone(gateway: RunningGateway) -> None:
    voice = (await add(gateway)).json()["voice"]["id"]
    async with client(gateway) as http:
        assert (await http.delete(f"{PATH}/{voice}")).status_code == 204
        assert (await http.delete(f"{PATH}/{voice}")).status_code == 404
    assert voice not in await ids(gateway, ADA)


async def test_a_name_means_its_newest_upload_where_a_dialect_takes_names(gateway: RunningGateway) -> None:
    for seconds in (3.0, 4.0, 5.0):
        newest = (await add(gateway, seconds=seconds)).json()["voice"]["id"]
        model = gateway.service.model_for("ada")
        found = find_voice("Ada", model)
        assert found is not None
        assert found.id == newest
        async with client(gateway) as http:
            body = {"model": "tts-1", "voice": "Ada", "input": "Hello.", "response_format": "pcm"}
            answer = await http.post("/v1/audio/speech", json=body)
        assert answer.status_code == 200
        assert len(answer.content) > 0


async def test_a_recording_of_3_mb_and_one_in_stereo_of_24_bits_are_taken(gateway: RunningGateway) -> None:
    wide = np.repeat(speech(15.0, rate_hz=48_000)[:, None], 2, axis=1)
    async with client(gateway) as http:
        for recording in (
            packed(speech(16.0, rate_hz=96_000), 96_000, "WAV", "PCM_16"),
            packed(wide, 48_000, "WAV", "PCM_24"),
        ):
            assert len(recording) > 3_000_000
            answer = await http.post(PATH, data=FIELDS, files={"file": ("a.wav", recording)})
            assert answer.status_code == 201, answer.text


async def test_the_same_upload_twice_is_one_voice_encoded_once(gateway: RunningGateway) -> None:
    first, second = (await add(gateway)).json(), (await add(gateway)).json()
    assert first["voice"]["id"] == second["voice"]["id"]
    assert isinstance(gateway.model, CloningFakeModel)
    assert gateway.model.encoded == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"consent": None}, "consent"), ({"name": None}, "name"), ({"name": " "}, "name"), ({"seconds": 0.5}, "0.5")],
)
async def test_what_is_wrong_with_an_upload_is_said_in_words(
    gateway: RunningGateway, changes: dict[str, Any], words: str
) -> None:
    answer = await add(gateway, **changes)
    assert answer.status_code == 400
    assert words in answer.json()["message"]


async def test_a_file_that_is_no_sound_and_a_body_that_is_no_form_are_refused(gateway: RunningGateway) -> None:
    async with client(gateway) as http:
        for arguments in (
            {"data": FIELDS, "files": {"file": ("a.wav", b"just text")}},
            {"data": FIELDS, "files": {"file": ("a.wav", b"")}},
            {"data": FIELDS, "files": {"file": ("a.m4a", bytes(4) + b"ftypM4A " + bytes(99))}},
            {"data": FIELDS, "files": {"file": ("a.webm", b"\x1a\x45\xdf\xa3" + bytes(99))}},
            {"data": {**FIELDS, "transcript": "x" * 2**21}, "files": {"file": ("a.wav", packed(speech()))}},
            {"data": FIELDS, "files": {"other": ("a.wav", b"")}},
            {"data": {**FIELDS, "path": "/etc/passwd"}, "files": {"file": ("a.wav", packed(speech()))}},
            {"json": {**FIELDS, "url": "http://x"}},
            {"data": FIELDS},
        ):
            answer = await http.post(PATH, **arguments)
            assert answer.status_code == 400, arguments
            assert answer.json()["message"]


async def test_an_upload_over_the_limit_is_refused_whether_its_size_was_declared_or_not(
    gateway: RunningGateway,
) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + bytes(11 << 20)

    async def pieces() -> AsyncIterator[bytes]:
        yield body

    async with client(gateway) as http:
        for content in (body, pieces()):
            headers = {"content-type": "multipart/form-data; boundary=x"}
            assert (await http.post(PATH, content=content, headers=headers)).status_code == 413


def refused(gateway: RunningGateway, status: int) -> float:
    """How often such a refusal was counted."""
    value = gateway.service.metrics.registry.get_sample_value(
        "antiphon_handshakes_refused_total", {"status": str(status)}
    )
    return value or 0.0


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b"--x\r\n"),
        ("multipart/form-data; boundary=x", b"no boundary at all"),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--\r\n"),
        ("multipart/form-data; boundary=x", b"--x\r\n\xff\xfe: \0\r\n\r\n"),
        ("multipart/form-data; boundary=x", b""),
        ("multipart/form-data; boundary=x; charset=nothing", b'--x\r\nContent-Disposition: form-data; name="\xff"'),
    ],
)
async def test_a_malformed_form_is_refused_in_our_own_words(
    gateway: RunningGateway, content_type: str, body: bytes
) -> None:
    async with client(gateway) as http:
        answer = await http.post(PATH, content=body, headers={"content-type": content_type})
    assert answer.status_code == 400
    assert answer.json()["type"] == "error"
    assert answer.json()["message"]


async def test_a_peer_that_hangs_up_in_its_upload_is_counted_and_gives_its_place_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"keys": {"ada": ADA}, "limits": {"voice_uploads": 1}}
    async with running_gateway(CloningFakeModel(tmp_path), settings) as gateway:
        _, writer = await begun_upload(gateway)
        while (await add(gateway)).status_code != 503:
            pass
        writer.close()
        while (answer := await add(gateway)).status_code == 503:
            assert answer.json()["code"] == "capacity"
            assert answer.json()["retry_after_s"] > 0
            assert answer.headers["retry-after"]
        assert answer.status_code == 201
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("can_clone", [True, False])
async def test_a_client_that_reads_nothing_before_it_has_sent_all_sees_why_it_is_refused(
    tmp_path: Path, can_clone: bool
) -> None:
    model = CloningFakeModel(tmp_path) if can_clone else None
    async with running_gateway(model, {"limits": {"voice_uploads": 1}}) as gateway:
        upload = urllib.request.Request(gateway.http + PATH, bytes(9 << 20), method="POST")

        def refused_with() -> int:
            with pytest.raises(urllib.error.HTTPError) as caught, urllib.request.urlopen(upload):
                pass
            caught.value.close()
            return caught.value.code

        with gateway.service.uploads.place():
            assert await asyncio.to_thread(refused_with) == (503 if can_clone else 501)


async def begun_upload(gateway: RunningGateway) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection whose upload has begun and does not go on."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADA}\r\nContent-Length: 5000000\r\n"
    writer.write(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n".encode())
    await writer.drain()
    return reader, writer


async def test_a_key_has_no_more_voices_than_it_may(tmp_path: Path) -> None:
    settings = {"keys": {"ada": ADA, "bob": BOB}, "limits": {"voices_per_key": 2}}
    async with running_gateway(CloningFakeModel(tmp_path), settings) as gateway:
        for seconds in (3.0, 4.0):
            assert (await add(gateway, seconds=seconds)).status_code == 201
        answer = await add(gateway, seconds=5.0)
        assert (answer.status_code, answer.json()["code"]) == (429, "quota")
        assert "has 2 voices, at most 2" in answer.json()["message"]
        assert isinstance(gateway.model, CloningFakeModel)
        assert gateway.model.encoded == 2
        assert (await add(gateway, key=BOB, seconds=5.0)).status_code == 201
        assert (await add(gateway, seconds=4.0)).status_code == 201  # the same again is no more


@pytest.mark.parametrize(("number", "status"), [(errno.ENOSPC, 507), (errno.EIO, 500)])
async def test_a_voice_that_the_disk_does_not_take_is_no_voice(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, number: int, status: int
) -> None:
    def fail(source: object, target: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr("engine.voice_store.os.rename", fail)
        answer = await add(gateway)
    assert answer.status_code == status
    assert answer.json()["type"] == "error"
    assert os.strerror(number) not in answer.text
    assert not [voice for voice in await ids(gateway, ADA) if voice.startswith("voice-")]


async def test_what_is_refused_is_counted(gateway: RunningGateway) -> None:
    await add(gateway, consent=None)
    async with client(gateway) as http:
        await http.delete(f"{PATH}/voice-x")
    assert (refused(gateway, 400), refused(gateway, 404)) == (1.0, 1.0)


async def test_lists_of_many_uploads_at_once_lose_none(gateway: RunningGateway) -> None:
    answers = await asyncio.gather(*(add(gateway, seconds=3.0 + number / 10) for number in range(4)))
    added = {answer.json()["voice"]["id"] for answer in answers}
    assert len(added) == 4
    assert added <= set(await ids(gateway, ADA))


async def test_a_new_voice_is_encoded_on_the_models_own_thread(gateway: RunningGateway) -> None:
    assert (await add(gateway)).status_code == 201
    assert isinstance(gateway.model, CloningFakeModel)
    assert [name.startswith("engine-model") for name in gateway.model.encoded_on] == [True]


async def test_deleting_a_voice_of_another_key_does_nothing_to_it(gateway: RunningGateway) -> None:
    voice = (await add(gateway)).json()["voice"]["id"]
    forgotten: list[str] = []
    gateway.engine.forget_voice = forgotten.append  # type: ignore[method-assign]
    async with client(gateway, BOB) as http:
        assert (await http.delete(f"{PATH}/{voice}")).status_code == 404
    assert forgotten == []
    async with client(gateway) as http:
        assert (await http.delete(f"{PATH}/{voice}")).status_code == 204
    assert forgotten == [voice]


async def test_voices_of_an_earlier_run_are_there_at_the_next_start(tmp_path: Path) -> None:
    settings = {"keys": {"ada": ADA}}
    async with running_gateway(CloningFakeModel(tmp_path), settings) as gateway:
        voice = (await add(gateway)).json()["voice"]["id"]
    async with running_gateway(CloningFakeModel(tmp_path), settings) as gateway:
        assert voice in await ids(gateway, ADA)


async def test_a_model_that_cannot_clone_says_so() -> None:
    async with running_gateway() as gateway, httpx.AsyncClient(base_url=gateway.http) as http:
        for answer in (await http.post(PATH, data=FIELDS), await http.delete(f"{PATH}/x")):
            assert answer.status_code == 501
            assert "cannot clone" in answer.json()["message"]
