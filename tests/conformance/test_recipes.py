"""The recipes of docs/dialects.md, run as they stand."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.conformance.conftest import DIALECTS_PAGE, KEY, Host, hosted
from tests.fakes.fake_model import WholeFramesModel

pytest.importorskip("livekit.agents", reason="vendors' clients are not installed: make test-clients")
pytest.importorskip("pipecat", reason="vendors' clients are not installed: make test-clients")
import aiohttp
import uvicorn

RECIPES = re.findall(
    r"^```python (\w+)\n(.*?)^```", DIALECTS_PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
TOKENS = ["Hel", "lo", " there", ",", " friend", "!"]


@pytest.fixture(scope="session")
def default_host() -> Iterator[Host]:
    """With the page's name for its key."""
    yield from hosted(WholeFramesModel(frames_per_char=1), keys={"default": KEY})


@pytest.fixture
async def chat() -> AsyncIterator[str]:
    """An OpenAI-style chat server, with the chunks that have no text: the role, null, the usage without choices."""

    async def complete(request: Request) -> StreamingResponse:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, {"content": None}]
        deltas += [{"content": token} for token in TOKENS]
        chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        chunks.append({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 6, "total_tokens": 7}})
        common = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "any"}
        lines = [f"data: {json.dumps({**common, **chunk})}\n\n" for chunk in chunks]
        return StreamingResponse(iter([*lines, "data: [DONE]\n\n"]), media_type="text/event-stream")

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as signals:
        server.capture_signals = lambda: signals  # type: ignore[method-assign]  # the test runner keeps its own
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await serving


def placed(source: str, host: Host, chat: str) -> str:
    return (
        source.replace("http://127.0.0.1:9000", chat)
        .replace("http://127.0.0.1:8000", host.http)
        .replace("ws://127.0.0.1:8000", host.ws)
        .replace("YOUR-KEY", KEY)
    )


async def run(source: str) -> dict[str, Any]:
    """A recipe may use `await` at its top level, as in an asyncio console. Blocking ones run in a thread."""
    code = compile(source, "docs/dialects.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {}
    if code.co_flags & inspect.CO_COROUTINE:
        await eval(code, names)
    else:
        await asyncio.to_thread(exec, code, names)
    return names


def recipes(kind: str) -> list[Any]:
    found = [source for name, source in RECIPES if name == kind]
    return [pytest.param(source, id=source.split("\n")[0]) for source in found]


def test_every_recipe_is_of_a_kind_that_is_run_here() -> None:
    assert {kind for kind, _ in RECIPES} == {"audio", "livekit", "pipecat"}


@pytest.mark.parametrize("source", recipes("audio"))
async def test_a_recipe_that_gives_audio(source: str, default_host: Host, chat: str) -> None:
    async with asyncio.timeout(30):
        names = await run(placed(source, default_host, chat))
    assert len(names["audio"]) > 0.4 * 48000


@pytest.mark.parametrize("source", recipes("livekit"))
async def test_a_recipe_of_livekit_speaks_token_by_token(source: str, default_host: Host, chat: str) -> None:
    from livekit.agents import APIConnectOptions

    names: dict[str, Any] = {}
    exec(placed(source, default_host, chat), names)
    tts, heard_s, words = names["tts"], 0.0, ""
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        tts._session = session  # outside of a job LiveKit has none of its own
        async with tts.stream(conn_options=APIConnectOptions(max_retry=0, timeout=10)) as stream:
            for token in TOKENS:
                stream.push_text(token)
            stream.end_input()
            async for event in stream:
                heard_s += event.frame.duration
                words += "".join(event.frame.userdata.get("lk.timed_transcripts", []))
        await tts.aclose()
    assert heard_s > 0.4
    assert words.split() == ["Hello", "there,", "friend!"]


@pytest.mark.parametrize("source", recipes("pipecat"))
async def test_a_recipe_of_pipecat_speaks_token_by_token_with_words_and_interruption(
    source: str, default_host: Host, chat: str
) -> None:
    from pipecat.frames.frames import InterruptionFrame, TTSTextFrame
    from pipecat.tests.utils import SleepFrame, run_test

    from tests.conformance.test_pipecat_services import turn

    names: dict[str, Any] = {}
    exec(placed(source, default_host, chat), names)
    frames = [*turn(TOKENS, 0.4), InterruptionFrame(), SleepFrame(0.2), *turn(TOKENS)]
    down, _ = await run_test(names["tts"], frames_to_send=frames)
    place = next(i for i, frame in enumerate(down) if isinstance(frame, InterruptionFrame))
    words = [frame.text for frame in down[place:] if isinstance(frame, TTSTextFrame)]
    assert words == ["Hello", "there,", "friend!"]
