"""Statistics for Prometheus, in the text exposition format, version 0.0.4. The program's own HTTP server serves it at /metrics.

    body = prometheus_text(producer.stats())            # Content-Type: CONTENT_TYPE

A metric's name is `fencepost_producer_` and the field's name. A number that was not measured is left out.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.producer.observe.stats import BrokerStats, ProducerStats, TopicStats

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PREFIX: Final = "fencepost_producer_"
PASSED_OVER: Final = ("client_id", "timestamp_ms", "address", "brokers", "topics")
"""The fields that are not numbers."""

HELP: Final[dict[str, str]] = {
    "record_send_total": "Times that a record was sent, retries included.",
    "record_retry_total": "Times that a record was sent again.",
    "record_acknowledged_total": "Records that were acknowledged.",
    "record_error_total": "Records that failed.",
    "byte_total": "Bytes of batches that were sent, compressed.",
    "batch_total": "Batches that were sent, retries not included.",
    "batch_split_total": "Batches that were split because the broker found them too large.",
    "batch_size_avg": "Bytes of a batch as sent, average of the last minute.",
    "batch_size_max": "Bytes of the largest batch of the last minute.",
    "compression_rate_avg": "Compressed over uncompressed bytes, average of the last minute.",
    "record_size_avg": "Bytes of a record, uncompressed, average of the last minute.",
    "records_per_request_avg": "Records in a Produce request, average of the last minute.",
    "request_total": "Requests of every kind.",
    "response_total": "Responses of every kind.",
    "request_size_avg": "Bytes of batches in a Produce request, average of the last minute.",
    "request_size_max": "Bytes of batches in the largest Produce request of the last minute.",
    "record_queue_time_avg": "Milliseconds that a batch waited to be sent, average of the last minute.",
    "record_queue_time_max": "Milliseconds that a batch waited to be sent, maximum of the last minute.",
    "request_latency_avg": "Milliseconds from a request to its response, average of the last minute.",
    "request_latency_max": "Milliseconds from a request to its response, maximum of the last minute.",
    "produce_throttle_time_avg": "Milliseconds that brokers asked to wait, average of the last minute.",
    "produce_throttle_time_max": "Milliseconds that brokers asked to wait, maximum of the last minute.",
    "requests_in_flight": "Requests without a response.",
    "buffer_total_bytes": "Bytes that records may take (buffer_memory).",
    "buffer_available_bytes": "Bytes of the buffer that are free.",
    "waiting_threads": "Callers that wait for room in the buffer.",
    "connection_count": "Connections that are up.",
    "connection_creation_total": "Connections that were made.",
    "connection_close_total": "Connections that were closed or lost.",
    "metadata_age": "Milliseconds since the newest metadata.",
    "connected": "Whether there is a connection to the broker.",
}


def prometheus_text(*stats: ProducerStats) -> str:
    """One exposition of one or more producers, with the client id as a label. Each number is a family; those of brokers and topics begin
    with `..._broker_` and `..._topic_`."""
    families: dict[str, list[str]] = {}
    for each in stats:
        client = {"client_id": each.client_id}
        for name, line in _lines("", each, client):
            families.setdefault(name, []).append(line)
        for node_id, broker in each.brokers.items():
            for name, line in _lines("broker_", broker, {**client, "node_id": str(node_id), "address": broker.address}):
                families.setdefault(name, []).append(line)
        for topic, of_topic in each.topics.items():
            for name, line in _lines("topic_", of_topic, {**client, "topic": topic}):
                families.setdefault(name, []).append(line)
    return "".join(
        f"# HELP {name} {HELP[_field(name)]}\n# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}\n" + "".join(lines)
        for name, lines in families.items()
    )


def _lines(kind: str, stats: ProducerStats | BrokerStats | TopicStats, labels: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(family, line) of every number."""
    written = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    for field in msgspec.structs.fields(stats):
        value = getattr(stats, field.name) if field.name not in PASSED_OVER else None
        if value is not None:
            name = f"{PREFIX}{kind}{field.name}"
            yield name, f"{name}{{{written}}} {float(typing.cast(float, value))!r}\n"


def _field(name: str) -> str:
    return name.removeprefix(PREFIX).removeprefix("broker_").removeprefix("topic_")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
