"""Voices over HTTP: cloned, listed, spoken with, owned, deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine.test_voice_audio import packed, speech
from tests.fakes.cloning_model import CloningFakeModel
from tests.fakes.gateway import Call, RunningGateway, running_gateway

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


async def test_a_cloned_voice_is_listed_and_speaks_by_id_and_by_name(gateway: RunningGateway) -> None:
    async with Call(gateway, additional_headers={"Authorization": f"Bearer {ADA}"}) as peer:
        answer = await add(gateway)
        assert answer.status_code == 201
        voice = answer.json()["voice"]["id"]
        assert voice in await ids(gateway, ADA)
        for wanted in (voice, "Ada"):
            await peer.send(type="open", utterance=wanted, voice=wanted)
            await peer.send(type="text", utterance=wanted, text="Hello.")
            await peer.send(type="end", utterance=wanted)
            assert (await peer.until("started"))["voice"] == voice
            await peer.until("done")


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


async def test_a_new_upload_under_an_old_name_is_meant_by_the_name(gateway: RunningGateway) -> None:
    await add(gateway, seconds=3.0)
    newer = (await add(gateway, seconds=4.0)).json()["voice"]["id"]
    assert (await ids(gateway, ADA)).index(newer) < len(await ids(gateway, ADA)) - 1


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
