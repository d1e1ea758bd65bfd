"""Interceptors: what sees every record before it is accepted, and its outcome afterwards, as Kafka's ProducerInterceptor does.

    class Audit:
        def on_send(self, record: ProducerRecord) -> ProducerRecord | None: ...        # None: the record as it is now
        def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None: ...

    Producer(..., interceptors=[Audit(), lambda record: record.headers.append(("host", b"a"))])

Either method may be missing, and a function is an `on_send`. They are called in their order, each `on_send` with what the one before it
made of the record: topic, key, value, partition, headers and timestamp may all be changed, before serializers and partitioner have seen
them. `on_send` runs in the call that sends, on the caller's thread. `on_acknowledgement` runs where delivery callbacks do, before the
record's own; or in the call, if that raises and the record was not accepted. Where it takes a third argument it gets the record's headers
(KIP-512). On failure the metadata has the topic, and the partition if one was chosen or asked for.

What they raise is logged and goes no further; the record goes on as it was before. That an interceptor was told of a failure does not count
as somebody having looked at it. `send_many` calls `on_send` for every row, whose topic has to stay, and no `on_acknowledgement`: what
became of the rows is in what it returns. `send_arrow` makes no record that could be shown, and refuses to pass them by.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.accumulator.batch import Headers, OnDelivery, RecordFuture
from fencepost.producer.accumulator.record_metadata import RecordMetadata
from fencepost.producer.errors import DeliveryError, Misuse

log = logging.getLogger("fencepost.producer")

ROW_FIELDS: Final = ("key", "value", "headers", "timestamp", "partition")

OnAcknowledgement = Callable[[RecordMetadata, Exception | None, list[tuple[str, bytes | None]]], object]


class ProducerRecord(Struct, kw_only=True):
    """A record on its way into `send`, for interceptors to look at and to change. `headers` is a list of its own."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: list[tuple[str, bytes | None]] = []
    timestamp: int | None = None


def chain(interceptors: tuple[Any, ...]) -> Interceptors | None:
    """All of them as one; None where there are none."""
    return Interceptors(interceptors) if interceptors else None


class Interceptors:
    """See the module. Threads: any, as `send` is called by any."""

    def __init__(self, interceptors: tuple[Any, ...]) -> None:
        sending = [getattr(each, "on_send", each if callable(each) else None) for each in interceptors]
        self._on_send: list[Callable[[ProducerRecord], object]] = [each for each in sending if each is not None]
        told = [getattr(each, "on_acknowledgement", None) for each in interceptors]
        self._on_acknowledgement = [_with_headers(each) for each in told if each is not None]

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """What the chain makes of a record."""
        for each in self._on_send:
            offered = _copy(record)
            try:
                returned = each(offered)
                if not (returned is None or isinstance(returned, ProducerRecord)):
                    raise TypeError(
                        f"on_send returned {type(returned).__name__}: it returns a ProducerRecord, or None for the one it was given"
                    )
                changed = offered if returned is None else returned
                if not isinstance(changed.headers, list | tuple):
                    raise TypeError(f"on_send left {changed.headers!r} for headers: they are a list")
                record = changed
            except Exception:
                log.exception("an interceptor's on_send raised; the record for %s goes on without it", record.topic)
        return record

    def rows(self, topic: str, records: Iterable[object], *, mappings: bool) -> Iterator[object]:
        """The rows of a `send_many`, each as a tuple. `mappings`: a mapping is a record, not a value for the serializer."""
        return (self._row(topic, row, mappings) for row in records)

    def watched(self, headers: Headers | None, on_delivery: OnDelivery | None) -> OnDelivery | None:
        """A delivery callback that tells the interceptors, and then the record's own."""
        if not self._on_acknowledgement or not (on_delivery is None or callable(on_delivery)):
            return on_delivery

        def delivered(future: RecordFuture) -> None:
            error = future.exception(0)
            batch = future.batch
            nowhere = RecordMetadata(batch.topic, int(batch.partition), -1, -1)
            if on_delivery is None:
                future.overlooked()
            # Here nobody would be interrupted: all that they raise is contained.
            self._tell(future.result(0) if error is None else nowhere, error, headers, contained=BaseException)
            if on_delivery is not None:
                on_delivery(future)

        return delivered

    def refused(self, record: ProducerRecord, error: Exception) -> None:
        """The record was not accepted."""
        partition = record.partition if isinstance(record.partition, int) else -1
        self._tell(RecordMetadata(record.topic, partition, -1, -1), error, record.headers)

    def _tell(
        self,
        metadata: RecordMetadata,
        error: Exception | None,
        headers: Headers | None,
        *,
        contained: type[BaseException] = Exception,
    ) -> None:
        for each in self._on_acknowledgement:
            told = error.again() if isinstance(error, DeliveryError) else error
            try:
                each(metadata, told, list(headers or ()))
            except contained:
                log.exception("an interceptor's on_acknowledgement raised, for a record of %s-%d", metadata.topic, metadata.partition)

    def _row(self, topic: str, row: object, mappings: bool) -> object:
        if isinstance(row, tuple):
            if not 2 <= len(row) <= len(ROW_FIELDS):
                return row
            fields: dict[str, Any] = dict(zip(ROW_FIELDS, row, strict=False))
        elif mappings and isinstance(row, Mapping):
            if not row.keys() <= set(ROW_FIELDS):
                return row
            fields = dict(row)
        else:
            fields = {"value": row}
        headers = fields.get("headers")
        if not (headers is None or isinstance(headers, list | tuple)):
            return row
        record = self.on_send(ProducerRecord(**{**fields, "topic": topic, "headers": list(headers or ())}))
        if record.topic != topic:
            raise Misuse(f"an interceptor sent a row of send_many({topic!r}) to {record.topic!r}: all rows of a call go to its topic")
        return record.key, record.value, record.headers or None, record.timestamp, record.partition


def _copy(record: ProducerRecord) -> ProducerRecord:
    """What an interceptor does before it raises must not be seen."""
    return ProducerRecord(
        topic=record.topic,
        value=record.value,
        key=record.key,
        partition=record.partition,
        headers=list(record.headers),
        timestamp=record.timestamp,
    )


def _with_headers(told: Callable[..., object]) -> OnAcknowledgement:
    """One way to call them all."""
    try:
        takes = inspect.signature(told).parameters.values()
    except ValueError:
        return lambda metadata, error, headers: told(metadata, error)
    places = [each for each in takes if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(places) > 2 or any(each.kind is each.VAR_POSITIONAL for each in takes):
        return told
    return lambda metadata, error, headers: told(metadata, error)
