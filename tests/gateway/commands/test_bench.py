"""The load generator: its arrivals, its sums, and one run against a small server."""

from __future__ import annotations

import dataclasses
from http import HTTPStatus

import numpy as np
import pytest

from gateway.commands.bench import (
    Load,
    arrivals_s,
    describe,
    most_at_once,
    percentiles_ms,
    run_load,
    summarise,
)
from gateway.commands.listener import Listening
from gateway.events import ClientEvent, Done, EndText, ServerEvent
from tests.fakes.native_server import RATE_HZ, SAMPLES_PER_CHAR, RampSpeech, native_server, refusal


def load(url: str = "", rate_per_s: float = 50.0, duration_s: float = 0.2, seed: int = 1) -> Load:
    return Load(url, None, rate_per_s, duration_s, seed, texts=("ab", "abc"))


def test_arrivals_are_the_same_for_the_same_seed_and_have_the_rate() -> None:
    times = arrivals_s(load(rate_per_s=20, duration_s=500))
    assert times == arrivals_s(load(rate_per_s=20, duration_s=500))
    assert times != arrivals_s(load(rate_per_s=20, duration_s=500, seed=2))
    assert times == sorted(times)
    assert max(times) < 500
    assert len(times) == pytest.approx(10_000, rel=0.05)
    gaps = np.diff(times)
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.1)  # exponential: as wide as long


def test_overlaps_are_counted_where_they_are_most() -> None:
    assert most_at_once([]) == 0
    assert most_at_once([(0, 1), (1, 2)]) == 1
    assert most_at_once([(0, 5), (1, 2), (1.5, 3), (4, 6)]) == 3


def test_percentiles_of_nothing_are_none() -> None:
    assert percentiles_ms([]) is None
    assert percentiles_ms([0.001 * value for value in range(101)]) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}


async def test_every_arrival_is_heard_whole_and_reported() -> None:
    async with native_server() as server:
        told: list[tuple[int, int]] = []
        offered = load(server.url)
        heard = await run_load(offered, lambda finished, of: told.append((finished, of)))
    report = summarise(offered, heard)
    expected = len(arrivals_s(offered))
    assert told[-1] == (expected, expected)
    assert (report["utterances"], report["whole"], report["errors"]) == (expected, expected, {})
    chars = sum(len(offered.texts[index % 2]) for index in range(expected))
    assert report["audio_s"] == pytest.approx(chars * SAMPLES_PER_CHAR / RATE_HZ, abs=0.001)
    assert report["audible_first_audio_ms"]["p50"] > 0
    assert "whole" in describe(report)


async def test_a_refused_connection_is_an_error_by_its_code() -> None:
    refused = (HTTPStatus.SERVICE_UNAVAILABLE, refusal("capacity", "full"))
    async with native_server(refuse_with=refused) as server:
        offered = load(server.url)
        report = summarise(offered, await run_load(offered, lambda *_: None))
    assert report["errors"] == {"capacity": report["utterances"]}
    assert not report["is_sustained"]
    assert "error capacity" in describe(report)


async def test_an_utterance_that_the_server_breaks_off_is_no_whole_one() -> None:
    class Broken(RampSpeech):
        def answer(self, event: ClientEvent) -> list[ServerEvent]:
            answers = super().answer(event)
            if isinstance(event, EndText):
                return [dataclasses.replace(e, reason="error") if isinstance(e, Done) else e for e in answers]
            return answers

    async with native_server(Broken) as server:
        offered = load(server.url)
        report = summarise(offered, await run_load(offered, lambda *_: None))
    assert report["whole"] == 0
    assert report["errors"] == {"error": report["utterances"]}


def test_one_underrun_means_not_sustained() -> None:
    def heard(underruns: int) -> Listening:
        return Listening(0.0, 0.1, 0.1, 1.0, underruns, 0.2 * underruns, 1.2, None)

    assert summarise(load(), [heard(0), heard(0)])["is_sustained"]
    assert not summarise(load(), [heard(0), heard(1)])["is_sustained"]
    assert not summarise(load(), [])["is_sustained"]
