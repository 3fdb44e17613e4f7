"""Prometheus metrics. Observed in shells only: connection, routes, app."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.engine import LocalEngine
from gateway.admission import Admission
from gateway.errors import ClientError
from gateway.events import Audio, Cancelled, ClientEvent, Done, Failed, ServerEvent, TextFragment, Warned

LATENCY_BUCKETS_S = (0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0)


class Metrics:
    """One server's counters, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._messages = Counter(
            "antiphon_client_events", "Client events by kind", ["dialect", "kind"], registry=registry
        )
        self._chars = Counter("antiphon_text_characters", "Characters of text received", registry=registry)
        self._errors = Counter("antiphon_errors", "Errors answered, by code", ["dialect", "code"], registry=registry)
        self._warnings = Counter("antiphon_warnings", "Warnings sent, by code", ["code"], registry=registry)
        self._utterances = Counter(
            "antiphon_utterances", "Utterances ended, by outcome", ["outcome"], registry=registry
        )
        self._audio_s = Counter("antiphon_audio_seconds", "Seconds of audio sent", registry=registry)
        self._first_audio_s = Histogram(
            "antiphon_first_audio_seconds",
            "First text received to first audible sample written",
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self._handshakes = Counter(
            "antiphon_handshakes_refused", "Connections refused before the upgrade", ["status"], registry=registry
        )

        self._ignored = Counter(
            "antiphon_messages_ignored", "Messages for utterances that were over", ["dialect"], registry=registry
        )

    def watch(self, admission: Admission, engine: LocalEngine) -> None:
        """Show what is open now, and the engine's own counts, whenever the metrics are read."""
        connections = Gauge("antiphon_connections", "Open connections", registry=self.registry)
        connections.set_function(lambda: admission.connections)
        speaking = Gauge("antiphon_utterances_open", "Utterances spoken or waiting", registry=self.registry)
        speaking.set_function(lambda: admission.utterances)
        self.registry.register(_EngineCollector(engine))

    def handshake_refused(self, status: int) -> None:
        self._handshakes.labels(str(status)).inc()

    def observer(self, dialect: str) -> DialectObserver:
        return DialectObserver(self, dialect)

    def received(self, dialect: str, event: ClientEvent) -> None:
        self._messages.labels(dialect, type(event).__name__).inc()
        if isinstance(event, TextFragment):
            self._chars.inc(len(event.text))

    def refused(self, dialect: str, error: ClientError) -> None:
        self._errors.labels(dialect, error.code.value).inc()

    def sent(self, dialect: str, event: ServerEvent) -> None:
        match event:
            case Audio():
                self._audio_s.inc(event.sample_count / event.sample_rate_hz)
            case Done():
                self._utterances.labels(event.reason).inc()
                if event.metrics.first_audio_s is not None:
                    self._first_audio_s.observe(event.metrics.first_audio_s)
            case Cancelled():
                self._utterances.labels("cancelled_after_done" if event.after_done else "cancelled").inc()
            case Warned():
                self._warnings.labels(event.code.value).inc()
            case Failed() if event.is_fatal:
                self._errors.labels(dialect, event.code.value).inc()
            case _:
                pass

    def ignored(self, dialect: str, messages: int) -> None:
        """Messages for utterances that were over, of a connection that has ended."""
        self._ignored.labels(dialect).inc(messages)

    def exposition(self) -> bytes:
        """The text format of Prometheus."""
        return generate_latest(self.registry)


class DialectObserver:
    """What a connection of one dialect tells the metrics."""

    def __init__(self, metrics: Metrics, dialect: str) -> None:
        self._metrics = metrics
        self._dialect = dialect

    def received(self, event: ClientEvent) -> None:
        self._metrics.received(self._dialect, event)

    def refused(self, error: ClientError) -> None:
        self._metrics.refused(self._dialect, error)

    def sent(self, event: ServerEvent) -> None:
        self._metrics.sent(self._dialect, event)


class _EngineCollector(Collector):
    """The engine's stats, a gauge each."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    def collect(self) -> list[Metric]:
        stats = self._engine.stats()
        return [
            GaugeMetricFamily(f"antiphon_engine_{name}", f"Engine: {name.replace('_', ' ')}", value=float(value))
            for name, value in ((name, getattr(stats, name)) for name in stats.__slots__)
            if isinstance(value, int | float)
        ]
