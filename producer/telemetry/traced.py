"""The interceptors of a producer with `telemetry=True`: the program's own ones, and a span for each record that they have seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

from fencepost.producer.accumulator.batch import OnDelivery, RecordFuture, Unread
from fencepost.producer.accumulator.record_metadata import Deliveries, RecordMetadata
from fencepost.producer.bulk.bulk import BulkFuture, unread_outcome
from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import DeliveryError
from fencepost.producer.interceptors import Interceptors, ProducerRecord
from fencepost.producer.telemetry.spans import COUNT, Sending, Telemetry, without


class TracedRecord(ProducerRecord, kw_only=True):
    """A record with its span."""

    sending: Any = None


class TracedDelivery:
    """A delivery callback of a record with a span."""

    def __init__(self, on_delivery: OnDelivery, span_context: object) -> None:
        self._on_delivery = on_delivery
        self.span_context = span_context

    def __call__(self, future: RecordFuture) -> object:
        return self._on_delivery(future)


class TracedInterceptors(Interceptors):
    """See the module."""

    def __init__(self, interceptors: tuple[Any, ...], telemetry: Telemetry) -> None:
        super().__init__(interceptors)
        self.telemetry = telemetry
        self.watches = True

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        seen = super().on_send(record)
        key = seen.key
        more: dict[str, Any] = {}
        if isinstance(key, bytes | str):
            more["messaging.kafka.message.key"] = key if isinstance(key, str) else key.decode("utf-8", "replace")
        if seen.value is None:
            more["messaging.kafka.message.tombstone"] = True
        sending = self.telemetry.send(seen.topic, more)
        return TracedRecord(
            topic=seen.topic,
            value=seen.value,
            key=key,
            partition=seen.partition,
            headers=sending.headers(seen.headers),
            timestamp=seen.timestamp,
            sending=sending,
        )

    def watched(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> OnDelivery | None:
        assert isinstance(record, TracedRecord)
        watched = super().watched(record, on_delivery)
        if isinstance(watched, Unread):
            watched.span_context = record.sending.context
            return watched
        return TracedDelivery(watched, record.sending.context) if callable(watched) else watched

    def settled(self, record: ProducerRecord, metadata: RecordMetadata, error: BaseException | None) -> None:
        assert isinstance(record, TracedRecord)
        record.sending.delivered(metadata, error)

    def bulk(self, topic: str) -> TracedBulk:
        return TracedBulk(self, topic)


class TracedBulk:
    """The span of one `send_many`."""

    def __init__(self, interceptors: TracedInterceptors, topic: str) -> None:
        self._interceptors = interceptors
        self._sending: Sending = interceptors.telemetry.send(topic, {})
        self._headers = self._sending.headers(())
        self.context = self._sending.context

    def rows(self, topic: str, records: Iterable[object], *, mappings: bool) -> Iterator[object]:
        """The rows with the span's context in their headers."""
        names = {name for name, _ in self._headers}
        for row in self._interceptors.rows(topic, records, mappings=mappings):
            # Any other row is refused later, with its number.
            if isinstance(row, tuple) and len(row) == 5 and (row[2] is None or isinstance(row[2], list | tuple)):
                yield (row[0], row[1], [*without(row[2] or (), names), *self._headers], row[3], row[4])
            else:
                yield row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """An error of the call ends the span. The rows that were accepted before it are counted when they have their outcome."""
        if error is not None:
            bulk: BulkFuture | None = getattr(error, "sent", None)
            accepted = int(bulk.accepted) if bulk is not None else 0
            self._sending.end(error, {COUNT: accepted})
            if bulk is not None and accepted:
                bulk.add_done_callback(self._count)

    def accepted(self, bulk: BulkFuture) -> BulkFuture:
        """All rows are accepted: the span ends with their outcome."""
        bulk.add_done_callback(self._done)
        return bulk

    def _count(self, bulk: BulkFuture) -> None:
        told = unread_outcome(bulk)
        self._sending.count(_first(told), failed=len(told.failures), acknowledged=told.acknowledged)

    def _done(self, bulk: BulkFuture) -> None:
        told = unread_outcome(bulk)
        self._sending.end(_first(told), {COUNT: int(bulk.accepted)}, failed=len(told.failures), acknowledged=told.acknowledged)


def _first(told: Deliveries) -> DeliveryError | None:
    return next(iter(told.failures.values()), None)


def traced(settings: Settings) -> TracedInterceptors:
    """The interceptors of a producer with these settings. Raises ConfigError without OpenTelemetry's API."""
    return TracedInterceptors(settings.interceptors, Telemetry(settings.client_id))
