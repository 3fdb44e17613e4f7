"""Lanes: the order in which a session's utterances are heard, and whose turn it is to send what. Sans-IO.

Utterances of one lane are sent one after another, each with its last message before the next one's audio; lanes take
turns. The audio of a lane runs no further ahead of its listener than the utterance allows that is being sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from gateway.events import ServerEvent
from gateway.utterance import Utterance

MIN_PACE_S: Final = 0.005
"""The writer is not woken more often than this for send-ahead alone."""


class Lanes:
    """`utterances`: all that the session keeps, in the order opened. What was sent of a finished one may still be
    played, and counts as ahead until it has been."""

    def __init__(self, utterances: Iterable[Utterance]) -> None:
        self._utterances = utterances
        self._lanes: dict[str, deque[Utterance]] = {}
        """Not yet done; the first is the lane's head."""
        self._next = 0
        """The lane whose turn it is."""

    def __iter__(self) -> Iterator[tuple[Utterance, ...]]:
        """Each lane's utterances that are not done, its head first."""
        return iter([tuple(lane) for lane in self._lanes.values()])

    def __len__(self) -> int:
        """Utterances that are not done."""
        return sum(len(lane) for lane in self._lanes.values())

    def join(self, utterance: Utterance) -> None:
        self._lanes.setdefault(utterance.settings.lane, deque()).append(utterance)

    def leave(self, utterance: Utterance, now_s: float) -> None:
        """It is done: the next one of its lane becomes the head."""
        lane = self._lanes[utterance.settings.lane]
        lane.remove(utterance)
        if lane:
            lane[0].head_since_s = max(lane[0].head_since_s, now_s)
        else:
            del self._lanes[utterance.settings.lane]

    def clear(self) -> None:
        self._lanes.clear()

    # ---- what may be sent --------------------------------------------------------------------------------------------

    def take(self, now_s: float) -> ServerEvent | None:
        """What may be written now: messages first, then audio, lane by lane; None where nothing may go."""
        for lane in self._lanes.values():
            for utterance in lane:
                if utterance.head() == "message":
                    return utterance.next_event()
        lanes = list(self._lanes.values())
        for step in range(len(lanes)):
            index = (self._next + step) % len(lanes)
            head = lanes[index][0]
            if self._may_send_audio(head, now_s):
                event = head.next_event()
                if event is not None:
                    self._next = index + 1
                    return event
        return None

    def audio_at_s(self, head: Utterance, now_s: float) -> float | None:
        """When send-ahead lets the next audio go, if time alone decides; None where there is none or acks decide."""
        max_ahead_s = head.settings.max_ahead_s
        if head.head() != "speech" or max_ahead_s is None:
            return None
        if not any(sent.ledger.is_clock_running(now_s) for sent in self._heard(head.settings.lane)):
            return None
        return now_s + max(MIN_PACE_S, self._ahead_s(head.settings.lane, now_s) - max_ahead_s)

    def player_free_at_s(self, utterance: Utterance, now_s: float) -> float:
        """When an assumed player has played the lane's earlier utterances."""
        free_at_s = now_s
        for earlier in self._heard(utterance.settings.lane):
            if earlier is utterance:
                break
            free_at_s = max(free_at_s, earlier.ledger.playout_end_s(now_s))
        return free_at_s

    def _may_send_audio(self, head: Utterance, now_s: float) -> bool:
        if head.head() != "speech":
            return False
        max_ahead_s = head.settings.max_ahead_s
        return max_ahead_s is None or self._ahead_s(head.settings.lane, now_s) < max_ahead_s

    def _ahead_s(self, lane: str, now_s: float) -> float:
        """Seconds of a lane's audio that were sent and not yet played."""
        return sum(sent.ledger.sent_s - sent.ledger.played_s(now_s) for sent in self._heard(lane))

    def _heard(self, lane: str) -> Iterator[Utterance]:
        """A lane's utterances that a listener has heard, hears or will hear, in order."""
        for utterance in self._utterances:
            if utterance.settings.lane == lane and utterance.state != "cancelled":
                yield utterance
