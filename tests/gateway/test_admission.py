"""Admission: who gets in, and what the others are told."""

from __future__ import annotations

import pytest

from gateway.admission import Admission, AdmissionLimits
from gateway.errors import ClientError, ErrorCode, HandshakeError


def admission() -> Admission:
    return Admission(AdmissionLimits(connections=3, connections_per_key=2, utterances=3, utterances_per_key=2))


def test_a_full_server_refuses_with_503_and_the_limit() -> None:
    door = admission()
    for key in "abc":
        door.connect(key)
    with pytest.raises(HandshakeError, match="at most 3") as caught:
        door.connect("d")
    assert (caught.value.status, caught.value.code) == (503, ErrorCode.CAPACITY)
    assert caught.value.retry_after_s is not None


def test_a_key_over_its_quota_is_refused_with_429_while_others_come_in() -> None:
    door = admission()
    door.connect("a")
    door.connect("a")
    with pytest.raises(HandshakeError) as caught:
        door.connect("a")
    assert (caught.value.status, caught.value.code) == (429, ErrorCode.QUOTA)
    door.connect("b")


def test_a_place_given_back_can_be_taken_again() -> None:
    door = admission()
    door.connect("a")
    door.connect("a")
    door.disconnect("a")
    door.connect("a")
    assert door.connections == 2


def test_utterances_have_a_capacity_and_a_quota() -> None:
    door = admission()
    door.start_utterance("a")
    door.start_utterance("a")
    with pytest.raises(ClientError) as quota:
        door.start_utterance("a")
    assert quota.value.code is ErrorCode.QUOTA
    door.start_utterance("b")
    with pytest.raises(ClientError) as capacity:
        door.start_utterance("c")
    assert capacity.value.code is ErrorCode.CAPACITY
    assert capacity.value.is_retryable
    door.end_utterance("a")
    door.start_utterance("c")
    assert door.utterances == 3


def test_a_draining_server_lets_nothing_new_in() -> None:
    door = admission()
    door.drain()
    with pytest.raises(HandshakeError) as connection:
        door.connect("a")
    assert (connection.value.status, connection.value.code) == (503, ErrorCode.DRAINING)
    with pytest.raises(ClientError) as utterance:
        door.start_utterance("a")
    assert utterance.value.code is ErrorCode.DRAINING
