"""Statistics: what `producer.stats()` returns, under the names of Kafka's producer metrics.

Totals count from the producer's beginning. Averages and maxima cover the last 30 to 60 seconds, and are None if nothing was measured then.
Times are milliseconds, sizes bytes. Taking a snapshot stops no thread, so its numbers may differ by a batch.
"""

from __future__ import annotations

import time

from msgspec import Struct

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.cluster_connection_states import LinkState
from fencepost.producer.core.core import Core
from fencepost.producer.core.metrics import BrokerMetrics, Metrics


class TopicStats(Struct, frozen=True, kw_only=True):
    """The records of one topic, and the bytes of its batches as sent."""

    record_send_total: int
    record_retry_total: int
    record_acknowledged_total: int
    record_error_total: int
    byte_total: int


class BrokerStats(Struct, frozen=True, kw_only=True):
    """The numbers of one broker, or (with a negative id) of one bootstrap address. `connect_failed`: the newest attempt to connect to it
    failed. `request_latency_avg`: of all requests."""

    address: str
    connected: bool
    connect_failed: bool
    request_total: int
    response_total: int
    requests_in_flight: int
    byte_total: int
    request_latency_avg: float | None
    request_latency_max: float | None


class ProducerStats(Struct, frozen=True, kw_only=True):
    """A producer's numbers.

    As in Kafka, `record_send_total` counts a record each time it is sent, and `record_retry_total` each time after the first.
    `record_acknowledged_total` and `record_error_total` count each record once. `record_queue_time_*`: from a batch's first record to its
    first request. `request_latency_*`: of Produce. `batch_size_*`: as sent, compressed. `compression_rate_avg`: compressed over
    uncompressed. `metadata_age`: since the newest metadata response, None before the first.
    """

    client_id: str
    timestamp_ms: int
    record_send_total: int
    record_retry_total: int
    record_acknowledged_total: int
    record_error_total: int
    byte_total: int
    batch_total: int
    batch_split_total: int
    batch_size_avg: float | None
    batch_size_max: float | None
    compression_rate_avg: float | None
    record_size_avg: float | None
    records_per_request_avg: float | None
    request_total: int
    request_size_avg: float | None
    request_size_max: float | None
    record_queue_time_avg: float | None
    record_queue_time_max: float | None
    request_latency_avg: float | None
    request_latency_max: float | None
    produce_throttle_time_avg: float | None
    produce_throttle_time_max: float | None
    requests_in_flight: int
    buffer_total_bytes: int
    buffer_available_bytes: int
    waiting_threads: int
    connection_count: int
    connection_creation_total: int
    connection_close_total: int
    metadata_age: float | None
    brokers: dict[int, BrokerStats]
    topics: dict[str, TopicStats]


def snapshot(settings: Settings, accumulator: Accumulator, core: Core | None, now_ms: float) -> ProducerStats:
    """The current numbers. `core`: None for a producer that has not started."""
    metrics = core.metrics if core is not None else Metrics()
    nodes = list(core.nodes) if core is not None else []
    topics = {
        name: TopicStats(
            record_send_total=topic.sent,
            record_retry_total=topic.retried,
            record_acknowledged_total=topic.acknowledged,
            record_error_total=topic.failed,
            byte_total=topic.bytes,
        )
        for name, topic in list(metrics.topics.items())
    }
    brokers = {
        node.node_id: BrokerStats(
            address=str(node.address),
            connected=node.state is LinkState.UP,
            connect_failed=node.connect_failed,
            request_total=broker.requests,
            response_total=broker.answers,
            requests_in_flight=len(node.requests),
            byte_total=broker.bytes,
            request_latency_avg=broker.latency.average(now_ms),
            request_latency_max=broker.latency.maximum(now_ms),
        )
        for node in nodes
        for broker in (metrics.brokers.get(node.node_id) or BrokerMetrics(),)
    }
    connected = sum(node.state is LinkState.UP for node in nodes)
    return ProducerStats(
        client_id=settings.client_id,
        timestamp_ms=int(time.time() * 1000),
        record_send_total=sum(topic.record_send_total for topic in topics.values()),
        record_retry_total=sum(topic.record_retry_total for topic in topics.values()),
        record_acknowledged_total=sum(topic.record_acknowledged_total for topic in topics.values()),
        record_error_total=sum(topic.record_error_total for topic in topics.values()),
        byte_total=sum(topic.byte_total for topic in topics.values()),
        batch_total=metrics.batches,
        batch_split_total=metrics.splits,
        batch_size_avg=metrics.batch_size.average(now_ms),
        batch_size_max=metrics.batch_size.maximum(now_ms),
        compression_rate_avg=metrics.compression_rate.average(now_ms),
        record_size_avg=metrics.record_size.average(now_ms),
        records_per_request_avg=metrics.request_records.average(now_ms),
        request_total=sum(broker.requests for broker in list(metrics.brokers.values())),
        request_size_avg=metrics.request_size.average(now_ms),
        request_size_max=metrics.request_size.maximum(now_ms),
        record_queue_time_avg=metrics.queue_time.average(now_ms),
        record_queue_time_max=metrics.queue_time.maximum(now_ms),
        request_latency_avg=metrics.latency.average(now_ms),
        request_latency_max=metrics.latency.maximum(now_ms),
        produce_throttle_time_avg=metrics.throttle.average(now_ms),
        produce_throttle_time_max=metrics.throttle.maximum(now_ms),
        requests_in_flight=sum(len(node.requests) for node in nodes),
        buffer_total_bytes=settings.buffer_memory,
        buffer_available_bytes=max(0, settings.buffer_memory - int(accumulator.used)),
        waiting_threads=int(accumulator.waiting),
        connection_count=connected,
        connection_creation_total=metrics.connections_made,
        connection_close_total=max(0, metrics.connections_made - connected),
        metadata_age=now_ms - metrics.metadata_at_ms if metrics.metadata_at_ms is not None else None,
        brokers=brokers,
        topics=topics,
    )
