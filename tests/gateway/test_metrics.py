"""Metrics: what is counted, and how it is shown."""

from __future__ import annotations

from gateway.errors import ClientError, ErrorCode, WarningCode
from gateway.events import Audio, Cancelled, Done, Failed, TextFragment, UtteranceMetrics, Warned
from gateway.metrics import Metrics


def shown(metrics: Metrics) -> str:
    return metrics.exposition().decode()


def test_each_event_moves_its_counter() -> None:
    metrics = Metrics()
    observer = metrics.observer("native")
    observer.received(TextFragment("u", "four"))
    observer.refused(ClientError(ErrorCode.BAD_VALUE, "m"))
    observer.sent(Audio("u", 0, 0, 12_000, b"", 24_000))
    observer.sent(Done("u", "complete", 12_000, 24_000, 4, UtteranceMetrics(0.0, 0.08, 0.1, 1)))
    observer.sent(Cancelled("v", True, 0, 0, 24_000, "clock", "", ""))
    observer.sent(Warned(WarningCode.UNKNOWN_TAG, "m"))
    observer.sent(Failed(ErrorCode.DRAINING, "m", is_fatal=True))
    observer.sent(Failed(ErrorCode.BAD_VALUE, "already counted when it was refused"))
    metrics.ignored("native", 3)
    metrics.handshake_refused(401)
    text = shown(metrics)
    for line in (
        'antiphon_client_events_total{dialect="native",kind="TextFragment"} 1.0',
        "antiphon_text_characters_total 4.0",
        'antiphon_errors_total{code="bad_value",dialect="native"} 1.0',
        'antiphon_errors_total{code="draining",dialect="native"} 1.0',
        "antiphon_audio_seconds_total 0.5",
        'antiphon_utterances_total{outcome="complete"} 1.0',
        'antiphon_utterances_total{outcome="cancelled_after_done"} 1.0',
        'antiphon_warnings_total{code="unknown_tag"} 1.0',
        'antiphon_first_audio_seconds_bucket{le="0.1"} 1.0',
        'antiphon_messages_ignored_total{dialect="native"} 3.0',
        'antiphon_handshakes_refused_total{status="401"} 1.0',
    ):
        assert line in text, line


def test_two_servers_in_one_process_do_not_share_counters() -> None:
    one, two = Metrics(), Metrics()
    one.handshake_refused(401)
    assert 'status="401"' not in shown(two)
