"""The common base of the blocking and the asyncio producer: it checks a record, and accepts it if that needs no waiting.

It never waits. Compiled by mypyc, as every record passes through it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NoReturn

from mypy_extensions import i64, mypyc_attr

from fencepost.producer.accumulator.accumulator import Accumulator, TopicQueues
from fencepost.producer.accumulator.batch import Headers, OnDelivery, RecordFuture, Shared
from fencepost.producer.accumulator.future_await import bulk_outcome, outcome
from fencepost.producer.accumulator.named_partitioners import chooser, chosen, hash_of
from fencepost.producer.accumulator.pending_record import PendingRecord
from fencepost.producer.bulk.append import Target
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.bulk.chunks import Chunk, list_chunks
from fencepost.producer.bulk.rows import PARTITION_MAX, TIMESTAMP_MAX, not_bytes, not_int, packed_headers
from fencepost.producer.config.reader import read_settings, warn_of_softening
from fencepost.producer.config.settings import Partitioner, Settings
from fencepost.producer.core.core import Core
from fencepost.producer.core.events import Event, TopicWanted
from fencepost.producer.errors import (
    BufferFull,
    ConfigError,
    FencepostError,
    Misuse,
    ProducerClosed,
    RecordTooLarge,
    TopicUnavailable,
    again,
    plain,
)
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.runtime import time as wall_time
from fencepost.producer.interceptors import Interceptors, ProducerRecord, chain
from fencepost.producer.network.engine import now_ms
from fencepost.producer.observe.stats import ProducerStats, snapshot
from fencepost.producer.serializers import awaited, bind, row_of, taken_apart, writes_headers
from fencepost.producer.telemetry.spans import Telemetry
from fencepost.producer.telemetry.traced import TracedBulk, TracedInterceptors, traced
from fencepost.producer.topics import Topics
from fencepost.producer.wire.records.sizes import RECORD_BOUND

LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@mypyc_attr(allow_interpreted_subclasses=True)
class BaseProducer:
    """See the module."""

    def __init__(self, config: Mapping[str, Any] | None, settings: Mapping[str, object]) -> None:
        if config is not None and not isinstance(config, Mapping):
            raise ConfigError(
                f"settings are keyword arguments or a mapping, not {type(config).__name__}: bootstrap_servers='host:port', ..."
            )
        given: dict[str, Any] = {**(config or {}), **settings}
        self._settings: Settings = read_settings(given)
        warn_of_softening(self._settings, given)
        self._patience_s: float = (
            self._settings.delivery_timeout_ms + self._settings.resolve_grace_ms + self._settings.request_timeout_ms
        ) / 1000.0
        self._shared = Shared(patience_s=self._patience_s)
        self._accumulator = Accumulator(
            batch_size=self._settings.batch_size, buffer_memory=self._settings.buffer_memory, clock=now_ms, shared=self._shared
        )
        self._known_topics = Topics(
            self._accumulator,
            partial(TopicQueues, draw=draw_bits, round_robin=self._settings.partitioner is Partitioner.ROUND_ROBIN),
            self._settings.max_block_ms,
        )
        self._shared.awaiter = outcome
        self._shared.bulk_awaiter = bulk_outcome
        self._closed = False
        # The number of tasks that wait for room. While there are any, other tasks wait behind them.
        self._in_line = 0
        self._largest: i64 = min(self._settings.max_request_size, self._settings.buffer_memory)
        self._topics = self._accumulator.topics
        self._chooser = chooser(self._settings.partitioner)
        # It chooses without the lists that other functions get.
        self._hash = hash_of(self._settings.partitioner)
        self._serialize_key = bind(self._settings.key_serializer, "key")
        self._serialize_value = bind(self._settings.value_serializer, "value")
        self._awaited_serializers = awaited(self._settings)
        self._writes_headers = writes_headers(self._settings.key_serializer) or writes_headers(self._settings.value_serializer)
        # One question for a producer that has neither serializers nor interceptors.
        self._interceptors: Interceptors | None = traced(self._settings) if self._settings.telemetry else chain(self._settings.interceptors)
        if isinstance(self._interceptors, TracedInterceptors):
            self._accumulator.on_outcome = self._interceptors.telemetry.batch
        self._serializes = self._serialize_key is not None or self._serialize_value is not None or self._interceptors is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.described()})"

    def described(self) -> str:
        """The servers, the number of records without an outcome, and whether it is closed, as `repr` shows them."""
        servers = ",".join(self._settings.bootstrap_servers)
        closed = ", closed" if self._closed else ""
        return f"bootstrap_servers={servers!r}, topics={len(self._topics)}, unacknowledged={self._accumulator.unacknowledged()}{closed}"

    def _accept(
        self,
        topic: str,
        value: object,
        key: object,
        partition: object,
        headers: Headers | None,
        timestamp: object,
        on_delivery: OnDelivery | None,
    ) -> RecordFuture | PendingRecord:
        """Check a record and append it. Returns the checked record if the topic or the partition is not known, the buffer is full, other
        tasks wait for room, or the caller's partitioner has to choose."""
        if not (value is None or isinstance(value, bytes)):
            raise TypeError(not_bytes("value", value, serialized=self._serialize_value is not None))
        if not (key is None or isinstance(key, bytes)):
            raise TypeError(not_bytes("key", key, serialized=self._serialize_key is not None))
        size: i64 = RECORD_BOUND
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        packed: bytes | None = None
        if headers is not None:
            packed = packed_headers(listed_headers(headers), "headers")
            size += len(packed)
        if size > self._largest:
            raise RecordTooLarge(f"a record of up to {size} bytes exceeds {self._size_setting}; it was not accepted")
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(f"on_delivery must be callable, not {type(on_delivery).__name__}")
        stamp = wall_ms() if timestamp is None else checked_timestamp(timestamp)
        where = place_of(partition)
        queues = self._topics.get(topic)
        if where < 0 and self._hash is not None and key is not None and queues is not None:
            where = self._hash(key) % queues.partitions
        free = where >= 0 or self._chooser is None or self._hash is not None
        if queues is not None and where < queues.partitions and not self._in_line and free:
            future = self._accumulator.append(queues, where, stamp, key, value, packed, on_delivery)
            if future is not None:
                return future
        return PendingRecord(topic, where, -1 if timestamp is None else stamp, key, value, packed, on_delivery)

    def _accept_prepared(
        self,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        headers: Headers | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
    ) -> RecordFuture | PendingRecord:
        """`_accept` of what interceptors and serializers make of a record."""
        interceptors = self._interceptors
        if interceptors is None:
            headers = self._own_headers(headers)
            key, value = self._serialized(topic, key, value, headers)
            return self._accept(topic, value, key, partition, headers, timestamp, on_delivery)
        seen = self._seen(interceptors, topic, value, key, partition, headers, timestamp)
        try:
            key, value = self._serialized(seen.topic, seen.key, seen.value, seen.headers)
            return self._accept_seen(interceptors, seen, key, value, on_delivery)
        except Exception as error:
            interceptors.refused(seen, error)
            raise

    def _seen(
        self,
        interceptors: Interceptors,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        headers: Headers | None,
        timestamp: int | None,
    ) -> ProducerRecord:
        """The record as the interceptors leave it."""
        own_headers = listed_headers(headers) if headers is not None else []
        return interceptors.on_send(
            ProducerRecord(topic=topic, value=value, key=key, partition=partition, headers=own_headers, timestamp=timestamp)
        )

    def _accept_seen(
        self, interceptors: Interceptors, seen: ProducerRecord, key: object, value: object, on_delivery: OnDelivery | None
    ) -> RecordFuture | PendingRecord:
        """`_accept` of a record that the interceptors have seen, with its serialized key and value."""
        headers = seen.headers or None
        watched = interceptors.watched(seen, on_delivery)
        accepted = self._accept(seen.topic, value, key, seen.partition, headers, seen.timestamp, watched)
        if isinstance(accepted, PendingRecord):
            accepted.on_refusal = partial(interceptors.refused, seen)
        return accepted

    def _appending(self, record: PendingRecord) -> Callable[[], RecordFuture | None]:
        """What appends the record to its topic, which is known, as often as it takes to find room. The caller's partitioner is called here:
        once, and while no thread waits for a lock."""
        queues = self._topics[record.topic]
        if record.partition < 0 and self._chooser is not None:
            record.partition = chosen(self._chooser, record.key, queues.partitions, queues.available)
        if record.timestamp < 0:
            record.timestamp = wall_ms()
        return lambda: record.append_to(self._accumulator, queues)

    def _accept_now(self, record: PendingRecord) -> RecordFuture:
        """Accept the record without waiting. Raises BufferFull or TopicUnavailable if that is not possible."""
        try:
            future: RecordFuture | None = None
            if not self._in_line and self._known(record.topic, record.partition):
                future = self._appending(record)()
            if future is None:
                raise self._why_not_now(record.topic, record.partition)
        except Exception as error:
            record.refused(error)
            raise
        return future

    def _own_headers(self, headers: Headers | None) -> Headers | None:
        """The headers for serializers. Those that may add to them get a list of the record's own."""
        if not self._writes_headers:
            return headers
        return listed_headers(headers) if headers is not None else []

    def _serialized(self, topic: str, key: object, value: object, headers: Headers | None) -> tuple[object, object]:
        """Key and value as bytes, where there are serializers."""
        field = "key"
        try:
            if key is not None and self._serialize_key is not None:
                key = self._serialize_key(topic, key, headers)
            field = "value"
            if value is not None and self._serialize_value is not None:
                value = self._serialize_value(topic, value, headers)
        except Exception as error:
            error.add_note(f"{field}_serializer raised this for a {field} of topic {topic!r}")
            raise
        return key, value

    def _rows(self, topic: str, records: Iterable[object], bulk: TracedBulk | None) -> Iterator[Chunk | None]:
        """The chunks of a `send_many`, and pauses. `bulk`: its span."""
        whole = isinstance(records, (list, tuple))
        records = self._seen_rows(topic, records, bulk)
        if self._serializes:
            records = self._serialized_rows(topic, records)
        yield from self._chunks(records, whole=whole)

    def _seen_rows(self, topic: str, records: Iterable[object], bulk: TracedBulk | None) -> Iterable[object]:
        """The rows of a `send_many` as the interceptors leave them."""
        if isinstance(records, (bytes, str)):
            raise TypeError(f"records must be an iterable of rows, not {type(records).__name__}: that is one value")
        if isinstance(records, (list, tuple)):
            records = list(records)  # The caller may change the list while other tasks run.
        if self._interceptors is None:
            return records
        plain_rows = self._serialize_key is None and self._serialize_value is None
        return (bulk or self._interceptors).rows(topic, records, mappings=plain_rows)

    def _telemetry(self) -> Telemetry | None:
        """What makes the producer's spans."""
        return self._interceptors.telemetry if isinstance(self._interceptors, TracedInterceptors) else None

    def _bulk_span(self, topic: str) -> TracedBulk | None:
        """The span of a `send_many`, if the producer makes spans."""
        return self._interceptors.bulk(topic) if isinstance(self._interceptors, TracedInterceptors) else None

    def _chunks(self, rows: Iterable[object], *, whole: bool) -> Iterator[Chunk | None]:
        """The chunks of rows whose keys and values are bytes, and pauses. `whole`: they came in a list."""
        return list_chunks(rows, whole=whole, largest=int(self._largest), setting=self._size_setting)

    def _serialized_rows(self, topic: str, records: Iterable[object]) -> Iterator[object]:
        """Rows whose keys and values are bytes. With serializers, a row that is no tuple is a value of any type."""
        # Not a generator expression: mypyc compiles that to a list.
        for number, row in enumerate(records):
            try:
                key, value, headers = taken_apart(row)
                headers = self._own_headers(headers)
                made = row_of(row, self._serialized(topic, key, value, headers), headers)
            except StopIteration as stop:
                # Compiled, it would end the rows, and those behind this one would be lost.
                stopped = RuntimeError("a serializer raised StopIteration")
                for note in (*getattr(stop, "__notes__", ()), f"row {number}"):
                    stopped.add_note(note)
                raise stopped from stop
            except Exception as error:
                error.add_note(f"row {number}")
                raise
            yield made

    def _target(self, topic: str, bulk: BulkFuture, partition: int) -> Target:
        """Where the rows of a bulk go. The topic is known. `partition`: -1 if the call names none."""
        return Target(self._accumulator, self._topics[topic], bulk, partition)

    def _place(self, topic: str, chunk: Chunk, partition: int) -> None:
        """Ask the caller's partitioner, if there is one, for the partition of each row that names none."""
        if self._chooser is not None and partition < 0:
            queues = self._topics[topic]
            chunk.choose(self._chooser, queues.partitions, queues.available)

    @property
    def unacknowledged(self) -> int:
        """The number of accepted records that have no outcome yet."""
        return self._accumulator.unacknowledged()

    @property
    def record_limit(self) -> tuple[int, str]:
        """The bytes that a record may take, and the setting that limits them."""
        return int(self._largest), self._size_setting

    @property
    def _size_setting(self) -> str:
        """The setting that limits the size of a record, with its value. If both are equal, max_request_size was lowered to the other."""
        settings = self._settings
        name = "max_request_size" if settings.max_request_size < settings.buffer_memory else "buffer_memory"
        return f"{name}={getattr(settings, name)}"

    def _known(self, topic: str, partition: int) -> bool:
        """Whether the topic is known and has the partition (-1: any)."""
        queues = self._topics.get(topic)
        return queues is not None and partition < queues.partitions

    def _refuse_what_cannot_wait(self, topic: str) -> None:
        """Raise an error if the topic's name is illegal, or if the producer was forked, closed or ended."""
        check_topic(topic)
        self._shared.refuse_after_fork()
        refusal = self._accumulator.refusal
        if refusal is not None:
            raise again(refusal)

    def _full(self, limit: str) -> BufferFull:
        """The error for a full buffer. `limit`: how long the call waited, or why it cannot wait."""
        used = f"buffer_memory={self._settings.buffer_memory} bytes has no room ({self._accumulator.used} used)"
        return BufferFull(f"{used} {limit}; the record was not accepted")

    def stats(self) -> ProducerStats:
        """The producer's metrics now, with Kafka's names. Any thread may call this at any time; it does not wait. `prometheus_text` formats
        them."""
        self._shared.refuse_after_fork()
        return snapshot(self._settings, self._accumulator, self._core(), now_ms())

    def _core(self) -> Core | None:
        """The core, which counts the metrics; None before it has begun."""
        raise NotImplementedError

    def _post(self, event: Event) -> None:
        """Hand the core an event."""
        raise NotImplementedError

    def _ask_for(self, topic: str, partition: int, limit_s: float) -> None:
        """Have the core request the topic's metadata until it has the partition (-1: any), for a caller that waits up to `limit_s`."""
        self._known_topics.forget_refusal(topic)
        self._post(TopicWanted(topic, limit_s * 1000.0, partition + 1))

    def _why_not_now(self, topic: str, partition: int) -> FencepostError:
        """The error for a record that cannot be accepted without waiting. If its topic is not known, the metadata is requested."""
        if self._known(topic, partition):
            return self._full("now, and others wait for some" if self._in_line else "now")
        self._refuse_what_cannot_wait(topic)
        return self._not_known_yet(topic, partition)

    def _not_known_yet(self, topic: str, partition: int, why: str = "") -> TopicUnavailable:
        """The error for a caller that cannot wait for a topic or a partition. The metadata is requested again. Raises the error that the
        last answer had for the topic, if there is one."""
        self._post(TopicWanted(topic, partitions=partition + 1))
        self._known_topics.look(topic, partition)
        what = f"topic {topic!r}" if partition < 0 or topic not in self._topics else f"partition {partition} of topic {topic!r}"
        core = self._core()
        reason = self._known_topics.missing(topic) or (core.nodes.last_failures() if core is not None else "")
        return TopicUnavailable(f"{what} is not known yet; it has been asked for{why}{'; ' if reason else ''}{reason}")

    def _refuse_records(self) -> None:
        """The producer is being closed."""
        self._refuse_from_now_on(None)

    def _refuse_from_now_on(self, instead_of: FencepostError | None) -> None:
        """Accept no more records. The reason takes the place of `instead_of`, and of no other, in one step: no record gets in between."""
        closed = ProducerClosed("the producer is closed: no record can be sent any more")
        with self._shared.region:
            if self._accumulator.refusal is None or self._accumulator.refusal is instead_of:
                self._accumulator.refusal = closed

    def _time_to_leave(self, error: BaseException | None) -> float | None:
        """The seconds that `close` waits for deliveries if this error leaves the block; None without a limit. After Ctrl-C or a
        cancellation the wait is short."""
        leaving = error is not None and not isinstance(error, Exception)
        return self._settings.exit_flush_ms / 1000.0 if leaving else None

    def _arrow_chunks(
        self, data: Any, *, value: str, key: str | None, partition: str | None, headers: str | None, timestamp: str | None
    ) -> Iterator[Chunk | None]:
        """The chunks of a `send_arrow`."""
        if self._interceptors is not None and self._interceptors.has_any:
            raise Misuse("send_arrow makes no record that interceptors could see: use send_many, or a producer without interceptors")
        try:
            from fencepost.producer.bulk.arrow_columns import (  # only callers of send_arrow need pyarrow
                CHUNK_ROWS,
                SLOW_CHUNK_ROWS,
                arrow_chunks,
            )
        except ModuleNotFoundError as error:
            needed = "send_arrow needs pyarrow: install fencepost's extra `arrow`, in a checkout with pip install '.[arrow]'"
            raise ImportError(needed, name=error.name) from None

        yield from arrow_chunks(
            data,
            value=value,
            key=key,
            partition=partition,
            headers=headers,
            timestamp=timestamp,
            rows_max=CHUNK_ROWS if headers is None and self._chooser is None else SLOW_CHUNK_ROWS,
            largest=int(self._largest),
            setting=self._size_setting,
        )

    def __reduce__(self) -> NoReturn:
        raise unpicklable(type(self).__name__)

    def _refuse_after_close(self) -> None:
        if self._closed:
            raise ProducerClosed("the producer is closed: it asks brokers nothing any more")


def unpicklable(name: str) -> TypeError:
    """The error for a program that passes a producer to another process, or captures it in a task's closure."""
    return TypeError(f"{name} cannot be pickled: its connections are this process's; make one where it is used, in the worker or task")


def no_outcome(records: int, timeout_s: float) -> TimeoutError:
    """The error of a wait for records that reached its timeout."""
    left = counted(records, "record has", "records have")
    return TimeoutError(f"{left} no outcome after {plain(timeout_s)} s, and may still be delivered")


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return int(wall_time() * 1000.0)


def draw_bits() -> int:
    """31 random bits for the sticky partitioner."""
    return random.getrandbits(31)


def check_topic(topic: object) -> None:
    """Refuse an illegal topic name before a caller waits for the topic (`Topic.validate`)."""
    if not isinstance(topic, str):
        raise TypeError(f"topic must be a str, not {type(topic).__name__}")
    if not LEGAL_TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise ValueError(f"topic={topic[:300]!r}: it must be 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_', '-', and not '.' or '..'")


def place_of(partition: object) -> int:
    """The partition as a number that Kafka allows; -1 for None."""
    if partition is None:
        return -1
    if not isinstance(partition, int) or isinstance(partition, bool):
        raise TypeError(not_int("partition", partition))
    if not 0 <= partition <= PARTITION_MAX:
        raise ValueError(f"partition={partition}: from 0 to {PARTITION_MAX}; leave it out to have one chosen")
    return partition


def checked_timestamp(timestamp: object) -> int:
    """The timestamp, if the format can hold it."""
    if not isinstance(timestamp, int) or isinstance(timestamp, bool):
        raise TypeError(not_int("timestamp", timestamp))
    if not 0 <= timestamp <= TIMESTAMP_MAX:
        raise ValueError(f"timestamp={timestamp}: milliseconds since 1970, from 0 to {TIMESTAMP_MAX}")
    return timestamp


def listed_headers(headers: object) -> list[Any]:
    """A copy of the headers as a list, which the caller cannot change."""
    if not isinstance(headers, (list, tuple)):
        items = ": pass list(headers.items())" if isinstance(headers, dict) else ""
        raise TypeError(f"headers must be a list of (str, bytes or None) pairs, not {type(headers).__name__}{items}")
    return list(headers)
