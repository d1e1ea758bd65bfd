"""Interceptors see every record before it is accepted, and its outcome afterwards, like Kafka's ProducerInterceptor.

    class Audit:
        def on_send(self, record: ProducerRecord) -> ProducerRecord | None: ...        # None: the record as it is now
        def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None: ...

    Producer(..., interceptors=[Audit(), lambda record: record.headers.append(("host", b"a"))])

Either method may be missing, and a function is an `on_send`. Interceptors are called in their order, and each `on_send` gets the record
of the one before it. It may change topic, key, value, partition, headers and timestamp. Serializers and the partitioner run afterwards.
`on_send` runs in the call that sends, on the caller's thread. `on_acknowledgement` runs where delivery callbacks run, before the record's
own callback. If the call raises because the record was not accepted, it runs in the call. With a third parameter it gets the record's
headers (KIP-512). On failure the metadata has the topic, and the partition if one was chosen or given.

An exception of an interceptor is logged, and the record continues unchanged. A failed delivery that only interceptors were told of counts
as not read. `send_many` calls `on_send` for every row, which must not change the topic, and calls no `on_acknowledgement`: its return
value has the results of the rows. `send_arrow` makes no record objects, so it refuses to run with interceptors.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.accumulator.batch import OnDelivery, RecordFuture, Unread
from fencepost.producer.accumulator.record_metadata import RecordMetadata
from fencepost.producer.errors import DeliveryError, Misuse, place

log = logging.getLogger("fencepost.producer")

ROW_FIELDS: Final = ("key", "value", "headers", "timestamp", "partition")

OnAcknowledgement = Callable[[RecordMetadata, BaseException | None, list[tuple[str, bytes | None]]], object]


class ProducerRecord(Struct, kw_only=True):
    """A record that is being sent. Interceptors may read and change it. `headers` is its own list."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: list[tuple[str, bytes | None]] = []
    timestamp: int | None = None


def chain(interceptors: tuple[Any, ...]) -> Interceptors | None:
    """One object that calls all of them; None if there are none."""
    return Interceptors(interceptors) if interceptors else None


class Interceptors:
    """See the module. Any thread may call it."""

    def __init__(self, interceptors: tuple[Any, ...]) -> None:
        sending = [getattr(each, "on_send", each if callable(each) else None) for each in interceptors]
        self._on_send: list[Callable[[ProducerRecord], object]] = [each for each in sending if each is not None]
        told = [getattr(each, "on_acknowledgement", None) for each in interceptors]
        self._on_acknowledgement = [_with_headers(each) for each in told if each is not None]
        self.watches = bool(self._on_acknowledgement)
        self.has_any = bool(interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record as it is sent."""
        return self._changed(record)

    def settled(self, record: ProducerRecord, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Called with the outcome of a record of `on_send`, before the program's own interceptors."""

    def _changed(self, record: ProducerRecord) -> ProducerRecord:
        """The record after every `on_send`."""
        for each in self._on_send:
            offered = _copy(record)
            try:
                returned = each(offered)
                if not (returned is None or isinstance(returned, ProducerRecord)):
                    raise TypeError(
                        f"on_send returned {type(returned).__name__}: it must return a ProducerRecord, or None to keep its argument"
                    )
                changed = offered if returned is None else returned
                if not isinstance(changed.headers, list | tuple):
                    raise TypeError(f"on_send set headers to {changed.headers!r}: headers must be a list")
                record = changed
            except Exception:
                log.exception("an interceptor's on_send raised; the record for topic %s is sent without its changes", record.topic)
        return record

    def rows(self, topic: str, records: Iterable[object], *, mappings: bool) -> Iterator[object]:
        """The rows of a `send_many`, each as a tuple. `mappings`: a mapping is a record, not a value for the serializer."""
        return (self._row(topic, row, mappings) for row in records)

    def watched(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> OnDelivery | None:
        """A delivery callback that calls the interceptors, and then the record's own callback. Without one, a failure does not count as
        read: the program may read it before or after this call."""
        if not self.watches or not (on_delivery is None or callable(on_delivery)):
            return on_delivery

        def delivered(future: RecordFuture) -> object:
            batch = future.batch
            error = batch.failure.again() if batch.failure is not None else None  # `exception` would count as reading it.
            nowhere = RecordMetadata(batch.topic, int(batch.partition), -1, -1)
            # On the sender thread even a BaseException of an interceptor must not end the thread.
            self._tell(record, future.result(0) if error is None else nowhere, error, contained=BaseException)
            return on_delivery(future) if on_delivery is not None else None

        return Unread(delivered) if on_delivery is None else delivered

    def refused(self, record: ProducerRecord, error: BaseException) -> None:
        """The record was not accepted."""
        partition = record.partition if isinstance(record.partition, int) else -1
        self._tell(record, RecordMetadata(record.topic, partition, -1, -1), error)

    def _tell(
        self,
        record: ProducerRecord,
        metadata: RecordMetadata,
        error: BaseException | None,
        *,
        contained: type[BaseException] = Exception,
    ) -> None:
        try:
            self.settled(record, metadata, error)
        except contained:
            log.exception("the span of a record of %s was not ended", place(metadata.topic, metadata.partition))
        for each in self._on_acknowledgement:
            told = error.again() if isinstance(error, DeliveryError) else error
            try:
                each(metadata, told, list(record.headers))
            except contained:
                log.exception("an interceptor's on_acknowledgement raised, for a record of %s", place(metadata.topic, metadata.partition))

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
        record = self._changed(ProducerRecord(**{**fields, "topic": topic, "headers": list(headers or ())}))
        if record.topic != topic:
            raise Misuse(f"an interceptor sent a row of send_many({topic!r}) to {record.topic!r}: it must not change the topic")
        return record.key, record.value, record.headers or None, record.timestamp, record.partition


def _copy(record: ProducerRecord) -> ProducerRecord:
    """A copy, so that the changes of an interceptor that raises are lost."""
    return ProducerRecord(
        topic=record.topic,
        value=record.value,
        key=record.key,
        partition=record.partition,
        headers=list(record.headers),
        timestamp=record.timestamp,
    )


def _with_headers(told: Callable[..., object]) -> OnAcknowledgement:
    """The method as a function of three arguments."""
    try:
        takes = inspect.signature(told).parameters.values()
    except ValueError:
        return lambda metadata, error, headers: told(metadata, error)
    places = [each for each in takes if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(places) > 2 or any(each.kind is each.VAR_POSITIONAL for each in takes):
        return told
    return lambda metadata, error, headers: told(metadata, error)
