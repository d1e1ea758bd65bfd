"""Spans and metrics of sends and transactions, by OpenTelemetry's conventions for messaging and for Kafka.

A span of a send lasts from the call to the record's outcome. Its context goes into the record's headers, in the program's format, which is
W3C's by default. `send_many` has one span for all of its rows. The span of a batch, which has records of many sends, begins a trace of its
own, and links to the spans of its sends. A transaction's span lasts from its begin to its end. The spans of sends in
it link to it, and stay children of the caller's span.

What a tracer, a meter or a propagator raises is logged, and changes nothing for the record or the transaction. With the API alone, without
an SDK, all of this does nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Container, Sequence
from types import TracebackType
from typing import Any, Final

from fencepost.producer.accumulator.batch import Batch
from fencepost.producer.accumulator.record_metadata import RecordMetadata
from fencepost.producer.errors import ConfigError

log = logging.getLogger(__name__)

HeaderList = list[tuple[str, bytes | None]]

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""The conventions' buckets of a duration."""
ERROR: Final = "error.type"
COUNT: Final = "messaging.batch.message_count"
PARTITION: Final = "messaging.destination.partition.id"
OFFSET: Final = "messaging.kafka.offset"
LINKS: Final = 128
"""A span's links at most: as many as an SDK keeps if it is not told otherwise."""


class Contained:
    """Logs what a block raises, and goes on behind it. `lost`, `name`: what is missing then."""

    def __init__(self, lost: str, name: str) -> None:
        self._lost = lost
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        log.error("no %s %s", self._lost, self._name, exc_info=error)
        return True


class Telemetry:
    """One producer's tracer and instruments. Any thread may use it. Raises ConfigError if the API is not installed."""

    def __init__(self, client_id: str) -> None:
        try:
            from opentelemetry import metrics, propagate, trace
        except ImportError:
            raise ConfigError("telemetry=True needs opentelemetry-api: install fencepost's extra `telemetry`") from None
        self._trace: Any = trace
        self._propagate: Any = propagate
        self._tracer: Any = trace.get_tracer("fencepost")
        meter: Any = metrics.get_meter("fencepost")
        self._sent: Any = meter.create_counter(
            "messaging.client.sent.messages", unit="{message}", description="Records with an outcome, by topic and error."
        )
        self._duration: Any = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Seconds from a send to its outcome, and from the begin of a transaction to its end.",
            explicit_bucket_boundaries_advisory=list(SECONDS),
        )
        self.client_id: Final = client_id
        self._no_span: Any = trace.INVALID_SPAN
        self._client = {"messaging.system": "kafka", "messaging.client.id": client_id}
        self.open: Final = OpenTransaction()

    def send(self, topic: str, more: dict[str, Any]) -> Sending:
        """The span of one send, as a child of the caller's span, and linked to the open transaction."""
        attributes = {
            **self._client,
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": topic,
        }
        transaction = self.open.sending  # Another thread may end it now.
        span = self._no_span
        with Contained("span for a send to topic", topic):
            links = [self._trace.Link(transaction.context)] if transaction is not None else []
            span = self._tracer.start_span(
                f"send {topic}", kind=self._trace.SpanKind.PRODUCER, attributes={**attributes, **more}, links=links
            )
        return Sending(self, span, attributes)

    def batch(self, batch: Batch, base_offset: int, failure: BaseException | None, age_ms: float) -> None:
        """The span of a batch, from its first record to its outcome."""
        with Contained("span for a batch of topic", batch.topic):
            self._batch(batch, base_offset, failure, age_ms)

    def _batch(self, batch: Batch, base_offset: int, failure: BaseException | None, age_ms: float) -> None:
        trace = self._trace
        attributes = {
            **self._client,
            "messaging.operation.name": "produce",
            "messaging.operation.type": "send",
            "messaging.destination.name": batch.topic,
            PARTITION: str(batch.partition),
            COUNT: int(batch.count),
        }
        span = self._tracer.start_span(
            f"produce {batch.topic}",
            context=trace.set_span_in_context(trace.INVALID_SPAN),
            kind=trace.SpanKind.CLIENT,
            attributes=attributes,
            links=[trace.Link(each) for each in batch.span_contexts()[:LINKS]],
            start_time=time.time_ns() - int(age_ms * 1_000_000),
        )
        if failure is not None:
            self.fail(span, failure)
        elif base_offset >= 0:
            span.set_attribute(OFFSET, base_offset)
        span.end()

    def fail(self, span: Any, error: BaseException) -> None:
        """Note the error in the span."""
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(error)))
        span.set_attribute(ERROR, type(error).__qualname__)

    def begin_transaction(self, transactional_id: str) -> Sending:
        """The span of a transaction. Sends link to it while it is `open`."""
        attributes = {**self._client, "messaging.operation.name": "transaction", "messaging.kafka.transactional_id": transactional_id}
        span = self._no_span
        with Contained("span for transaction", transactional_id):
            span = self._tracer.start_span(f"transaction {transactional_id}", kind=self._trace.SpanKind.INTERNAL, attributes=attributes)
        return Sending(self, span, {**self._client, "messaging.operation.name": "transaction"})


class OpenTransaction:
    """The span of the transaction that is open."""

    def __init__(self) -> None:
        self.sending: Sending | None = None


class Sending:
    """A span that is open, and what its metrics are about."""

    def __init__(self, telemetry: Telemetry, span: Any, attributes: dict[str, Any]) -> None:
        self._telemetry = telemetry
        self._span = span
        self._attributes = attributes
        self._began = time.perf_counter()
        self._open = [True]  # Of two threads that end the span, one takes it out.
        self.context = span.get_span_context()

    def headers(self, given: Sequence[tuple[str, bytes | None]]) -> HeaderList:
        """The headers with the span's context in place of another one."""
        carrier: dict[str, str] = {}
        telemetry = self._telemetry
        headers = list(given)
        with Contained("headers of a span:", telemetry.client_id):
            telemetry._propagate.inject(carrier, telemetry._trace.set_span_in_context(self._span))
            headers = [*without(given, carrier), *((name, text.encode()) for name, text in carrier.items())]
        return headers

    def delivered(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """The outcome of one record."""
        where: dict[str, Any] = {}
        if metadata.partition >= 0:
            where[PARTITION] = str(metadata.partition)
        if error is None and metadata.offset >= 0:
            where[OFFSET] = metadata.offset
        self.end(error, where, failed=error is not None, acknowledged=error is None)

    def end(self, error: BaseException | None, more: dict[str, Any], *, failed: int = 0, acknowledged: int = 0) -> None:
        """End the span, once. `failed`, `acknowledged`: how many records have these outcomes with it."""
        try:
            self._open.pop()
        except IndexError:
            return
        counted = {**self._attributes, **{name: more[name] for name in (PARTITION,) if name in more}}
        telemetry = self._telemetry
        self.count(error, counted, failed=failed, acknowledged=acknowledged)
        if error is not None:
            counted[ERROR] = type(error).__qualname__
        with Contained("metrics of a span:", telemetry.client_id):
            telemetry._duration.record(time.perf_counter() - self._began, counted)
        with Contained("outcome in a span:", telemetry.client_id):
            if error is not None:
                telemetry.fail(self._span, error)
            self._span.set_attributes(more)
        with Contained("end of a span:", telemetry.client_id):
            self._span.end()

    def count(self, error: BaseException | None, where: dict[str, Any] | None = None, *, failed: int, acknowledged: int) -> None:
        """Count records with their outcome. `error`: of those that failed."""
        telemetry, counted = self._telemetry, self._attributes if where is None else where
        with Contained("metrics of a span:", telemetry.client_id):
            if acknowledged:
                telemetry._sent.add(acknowledged, dict(counted))
            if failed:
                telemetry._sent.add(failed, {**counted, ERROR: type(error).__qualname__})


def without(given: Sequence[Any], names: Container[str]) -> HeaderList:
    """The headers without those of these names. What is no header stays, and is refused as one."""
    return [each for each in given if not (isinstance(each, tuple) and each and isinstance(each[0], str) and each[0] in names)]
