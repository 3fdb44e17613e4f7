"""What a listener notices: the first sound, and the gaps."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.client import Client
from gateway.commands.listener import Listener
from tests.fakes.native_server import RATE_HZ, SAMPLES_PER_CHAR, native_server


def test_the_first_audible_sample_counts_from_the_text_whatever_silence_leads_it() -> None:
    samples = np.zeros(1000, dtype=np.float32)
    listener = Listener(buffer_s=0.0)
    listener.receive(samples, 1000, now_s=5.0)
    samples[400:] = 0.02
    listener.receive(samples, 1000, now_s=5.1)
    heard = listener.heard(sent_s=4.0, now_s=6.0, error=None)
    assert heard.first_frame_s == 5.0
    assert heard.audible_s == pytest.approx(6.4)
    assert heard.silent_at_s == pytest.approx(7.0)


def test_a_late_piece_does_not_move_what_had_been_heard_before() -> None:
    listener = Listener(buffer_s=0.0)
    listener.receive(np.full(100, 0.02, dtype=np.float32), 1000, now_s=5.0)
    listener.receive(np.full(100, 0.02, dtype=np.float32), 1000, now_s=9.0)
    heard = listener.heard(sent_s=4.0, now_s=9.0, error=None)
    assert heard.audible_s == 5.0
    assert (heard.underruns, heard.underrun_s) == (1, pytest.approx(3.9))


def test_an_utterance_without_a_loud_sample_has_no_audible_time() -> None:
    listener = Listener(buffer_s=0.1)
    listener.receive(np.full(50, 0.009, dtype=np.float32), 1000, now_s=5.0)
    assert listener.ahead_s(5.0) == 0.05
    heard = listener.heard(sent_s=4.0, now_s=5.5, error=None)
    assert heard.audible_s is None
    assert heard.audio_s == 0.05


async def test_an_utterance_is_heard_to_its_end() -> None:
    listener = Listener(buffer_s=0.0)
    async with native_server() as server, Client.connect(server.url) as client:
        assert await listener.hear(await client.speak("abcd")) is None
    assert listener.heard(0.0, 0.0, None).audio_s == 4 * SAMPLES_PER_CHAR / RATE_HZ


async def test_a_cancelled_utterance_is_not_whole() -> None:
    async with native_server() as server, Client.connect(server.url) as client:
        utterance = await client.open()
        await utterance.say("abcd")
        await utterance.cancel()
        assert await Listener(buffer_s=0.0).hear(utterance) == "cancelled"
