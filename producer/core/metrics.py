"""The producer's counters. They change once for each batch or request, never for each record.

The engine's thread writes, and any thread may read. A reader gets each number by itself, not one moment of all numbers. Averages and
maxima cover the last 30 to 60 seconds, as in Kafka (two samples of 30 s). `producer.observe.stats` makes snapshots of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fencepost.producer.core.idempotence.in_flight_batch import InFlightBatch

SAMPLE_MS: Final = 30_000.0
"""Kafka's metrics.sample.window.ms; there are two samples, as with its metrics.num.samples."""


class Samples:
    """The average and the maximum of recent measurements."""

    def __init__(self) -> None:
        self._begun_ms = 0.0
        self._now: tuple[float, int, float] = (0.0, 0, 0.0)
        self._before: tuple[float, int, float] = (0.0, 0, 0.0)

    def add(self, value: float, now_ms: float) -> None:
        """Add a measurement."""
        age = now_ms - self._begun_ms
        if age >= SAMPLE_MS:
            self._before = self._now if age < 2 * SAMPLE_MS else (0.0, 0, 0.0)
            self._now = (0.0, 0, 0.0)
            self._begun_ms = now_ms
        total, count, highest = self._now
        self._now = (total + value, count + 1, value if value > highest or not count else highest)

    def average(self, now_ms: float) -> float | None:
        """None when nothing was measured lately."""
        recent = self._recent(now_ms)
        count = sum(sample[1] for sample in recent)
        return sum(sample[0] for sample in recent) / count if count else None

    def maximum(self, now_ms: float) -> float | None:
        """None when nothing was measured lately."""
        return max((sample[2] for sample in self._recent(now_ms) if sample[1]), default=None)

    def _recent(self, now_ms: float) -> list[tuple[float, int, float]]:
        age = now_ms - self._begun_ms
        return [self._now, self._before] if age < SAMPLE_MS else [self._now] if age < 2 * SAMPLE_MS else []


class TopicMetrics:
    """One topic's."""

    def __init__(self) -> None:
        self.sent = 0
        self.retried = 0
        self.acknowledged = 0
        self.failed = 0
        self.bytes = 0


class BrokerMetrics:
    """One broker's."""

    def __init__(self) -> None:
        self.requests = 0
        self.answers = 0
        self.bytes = 0
        self.latency = Samples()


class Metrics:
    """All of a producer's."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicMetrics] = {}
        self.brokers: dict[int, BrokerMetrics] = {}
        self.batches = 0
        self.splits = 0
        self.connections_made = 0
        self.metadata_at_ms: float | None = None
        self.batch_size = Samples()
        self.compression_rate = Samples()
        self.record_size = Samples()
        self.queue_time = Samples()
        self.latency = Samples()
        self.throttle = Samples()
        self.request_records = Samples()
        self.request_size = Samples()

    def topic(self, name: str) -> TopicMetrics:
        metrics = self.topics.get(name)
        if metrics is None:
            metrics = self.topics[name] = TopicMetrics()
        return metrics

    def broker(self, node_id: int) -> BrokerMetrics:
        metrics = self.brokers.get(node_id)
        if metrics is None:
            metrics = self.brokers[node_id] = BrokerMetrics()
        return metrics

    def produced(self, node_id: int, in_flight_batches: Iterable[InFlightBatch], now_ms: float) -> None:
        """Count a Produce request with these batches. Called before their attempts are counted."""
        records = size = 0
        for in_flight in in_flight_batches:
            length, topic = in_flight.size, self.topic(in_flight.batch.topic)
            records += in_flight.count
            size += length
            topic.sent += in_flight.count
            topic.bytes += length
            if in_flight.attempts:
                topic.retried += in_flight.count
                continue
            whole = int(in_flight.batch.size)
            self.batches += 1
            self.batch_size.add(length, now_ms)
            self.compression_rate.add(length / whole, now_ms)
            self.record_size.add(whole / in_flight.count, now_ms)
            self.queue_time.add(now_ms - in_flight.batch.created_ms, now_ms)
        self.broker(node_id).bytes += size
        self.request_records.add(records, now_ms)
        self.request_size.add(size, now_ms)

    def answered(self, node_id: int, latency_ms: float, now_ms: float, *, produce: bool, throttle_ms: float) -> None:
        """Count a response, and its latency."""
        broker = self.broker(node_id)
        broker.answers += 1
        broker.latency.add(latency_ms, now_ms)
        if produce:
            self.latency.add(latency_ms, now_ms)
            self.throttle.add(throttle_ms, now_ms)

    def settled(self, topic: str, records: int, *, failed: bool) -> None:
        """Count the records of a batch that has its outcome."""
        metrics = self.topic(topic)
        if failed:
            metrics.failed += records
        else:
            metrics.acknowledged += records
