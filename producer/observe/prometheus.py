"""Statistics for Prometheus, in the text exposition format, version 0.0.4. The program's own HTTP server serves it at /metrics.

    body = prometheus_text(producer.stats())            # Content-Type: CONTENT_TYPE

A producer's metric is named `fencepost_producer_` and the field's name. A number that was not measured is left out. `LINES` has what else
can be given: pipelines, jobs and Spark writers put theirs there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

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
    "connect_failed": "Whether the newest attempt to connect to the broker failed.",
}


class Line(NamedTuple):
    """One number. `name`: of its family."""

    name: str
    help: str
    labels: Mapping[str, str]
    value: float


LINES: Final[dict[type, Callable[[Any], Iterator[Line]]]] = {}
"""By the class of a snapshot: its numbers."""


def describe(kind: type, prefix: str, labels: Mapping[str, str], numbers: Mapping[str, tuple[str, str]]) -> None:
    """Let `prometheus_text` take snapshots of a class. `labels`: each label and its field. `numbers`: each field, and its metric's name and
    help text."""

    def lines(stats: Any) -> Iterator[Line]:
        values = {label: str(getattr(stats, field)) for label, field in labels.items()}
        for field, (name, text) in numbers.items():
            if (value := getattr(stats, field)) is not None:
                yield Line(prefix + name, text, values, float(value))

    LINES[kind] = lines


def prometheus_text(*stats: object) -> str:
    """One exposition of what `stats()` returned: of producers, pipelines, jobs and Spark writers. Each number is a family. Those of a
    producer's brokers and topics begin with `..._broker_` and `..._topic_`. Labels tell several snapshots of a kind apart: client id, group
    and transactional id, job, or sink. Raises TypeError for anything else."""
    families: dict[str, list[Line]] = {}
    for each in stats:
        lines = LINES.get(type(each))
        if lines is None:
            raise TypeError(f"prometheus_text takes what stats() returns, not {type(each).__name__}")
        for line in lines(each):
            families.setdefault(line.name, []).append(line)
    return "".join(map(_family, families.values()))


def _of_producer(stats: ProducerStats) -> Iterator[Line]:
    client = {"client_id": stats.client_id}
    yield from _numbers("", stats, client)
    for node_id, broker in stats.brokers.items():
        yield from _numbers("broker_", broker, {**client, "node_id": str(node_id), "address": broker.address})
    for topic, of_topic in stats.topics.items():
        yield from _numbers("topic_", of_topic, {**client, "topic": topic})


LINES[ProducerStats] = _of_producer


def _numbers(kind: str, stats: ProducerStats | BrokerStats | TopicStats, labels: Mapping[str, str]) -> Iterator[Line]:
    for field in msgspec.structs.fields(stats):
        value = getattr(stats, field.name) if field.name not in PASSED_OVER else None
        if value is not None:
            yield Line(f"{PREFIX}{kind}{field.name}", HELP[field.name], labels, float(cast(float, value)))


def _family(lines: list[Line]) -> str:
    name, text = lines[0].name, lines[0].help
    kind = "counter" if name.endswith("_total") else "gauge"
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n" + "".join(map(_written, lines))


def _written(line: Line) -> str:
    labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in line.labels.items())
    return f"{line.name}{{{labels}}} {line.value!r}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
