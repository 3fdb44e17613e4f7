"""A whole LiveKit agent that speaks through the gateway: its words as they are heard, and an interruption's truth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conformance.conftest import Host

pytest.importorskip("livekit.agents", reason="vendors' clients are not installed: make test-clients")
from livekit import rtc
from livekit.agents import Agent, AgentSession
from livekit.agents.voice.io import AudioOutput, AudioOutputCapabilities

from tests.conformance.test_livekit_plugins import NAME, speaker

WITH_WORDS = ("ElevenLabs", "Cartesia", "Inference")
STORY = ["One", " two", " three", " four", " five", " six", " seven", " eight", " nine", " ten", "."]


class Loudspeaker(AudioOutput):
    """Plays in real time into nothing, as a room would, and says how much was played."""

    def __init__(self) -> None:
        super().__init__(label="loudspeaker", capabilities=AudioOutputCapabilities(pause=False), sample_rate=24000)
        self.played_s = 0.0
        self._captured_s = 0.0
        self._started_at = 0.0
        self._finish: asyncio.TimerHandle | None = None

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        if not self._captured_s:
            self._started_at = time.time()
            self.on_playback_started(created_at=self._started_at)
        self._captured_s += frame.duration

    def flush(self) -> None:
        super().flush()
        if self._captured_s and self._finish is None:
            rest_s = max(0.0, self._started_at + self._captured_s - time.time())
            self._finish = asyncio.get_running_loop().call_later(rest_s, self._end, self._captured_s, False)

    def clear_buffer(self) -> None:
        if self._captured_s:
            self._end(min(self._captured_s, time.time() - self._started_at), True)

    def _end(self, played_s: float, interrupted: bool) -> None:
        if self._finish is not None:
            self._finish.cancel()
        self._finish, self._captured_s = None, 0.0
        self.played_s += played_s
        self.on_playback_finished(playback_position=played_s, interrupted=interrupted)


@asynccontextmanager
async def agent(name: str, host: Host) -> AsyncIterator[tuple[AgentSession[Any], Loudspeaker]]:
    async with speaker(name, host) as tts:
        session: AgentSession[Any] = AgentSession(tts=tts, use_tts_aligned_transcript=True)
        loudspeaker = Loudspeaker()
        session.output.audio = loudspeaker
        await session.start(Agent(instructions=""), record=False)
        try:
            yield session, loudspeaker
        finally:
            await session.aclose()


async def tokens(pieces: list[str]) -> AsyncIterator[str]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0.01)


def said(session: AgentSession[Any]) -> list[str]:
    return [item.text_content or "" for item in session.history.items if item.type == "message"]


@pytest.mark.parametrize(
    "name", [pytest.param(one, id=one, marks=pytest.mark.capability(NAME + one, "agent")) for one in WITH_WORDS]
)
async def test_an_interrupted_agent_remembers_what_was_heard_and_speaks_on(name: str, slow_host: Host) -> None:
    """Half a second a character: " four" begins after some seven seconds."""
    async with asyncio.timeout(40), agent(name, slow_host) as (session, loudspeaker):
        story = session.say(tokens(STORY))
        await asyncio.sleep(4.5)
        await session.interrupt()
        await story.wait_for_playout()
        heard_s = loudspeaker.played_s
        await session.say(tokens(["Yes", "?"])).wait_for_playout()
    interrupted, after = said(session)
    assert "".join(STORY).startswith(interrupted.rstrip())
    assert 1 <= len(interrupted.split()) <= 4
    assert 2.0 < heard_s < 6.0
    assert after.strip() == "Yes?"
