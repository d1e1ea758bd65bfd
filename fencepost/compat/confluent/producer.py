"""`confluent_kafka.Producer` with our producers underneath.

It keeps their promises: the configuration of librdkafka's defaults, and idempotence besides. Callbacks run in `poll`, `flush` and the
calls that wait, on the calling thread. `underlying` is our producer. docs/compat.md says what is the same, what differs and what is
refused."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from threading import Thread
from types import TracebackType
from typing import Any, Final, NoReturn, Self
from weakref import WeakMethod

from confluent_kafka import KafkaError

from fencepost.compat.confluent.config import in_their_words, read_config
from fencepost.compat.confluent.errors import delivery_error, kafka_error, kafka_exception, made, raised
from fencepost.compat.confluent.held_messages import HeldMessages, size_of
from fencepost.compat.confluent.message import Callback, Message
from fencepost.compat.confluent.reports import Reports
from fencepost.compat.confluent.sending import CLOSED, Sending
from fencepost.compat.confluent.statistics import Statistics
from fencepost.compat.confluent.transactions import Transactions, limit
from fencepost.compat.confluent.underlying import Underlying
from fencepost.compat.confluent.watch import LOOK_S, Watch
from fencepost.producer import (
    BufferFull,
    ConfigError,
    Fatal,
    FencepostError,
    NoUsableBroker,
    ProducerClosed,
    RecordRefused,
    TopicUnavailable,
    UndeliveredRecords,
)
from fencepost.producer import Producer as PlainProducer
from fencepost.producer.config.secret import Secret
from fencepost.producer.foundations.rlock import RLock
from fencepost.txn import Transaction, TransactionalProducer

SLICE_S: Final = 0.1
"""How long `flush` waits before it calls the callbacks that are due."""
ABORT_S: Final = 60.0
"""How long `close` waits for the coordinator to abort an open transaction."""
GIL_IS_OFF: Final = (
    "fencepost.compat.confluent counts messages under Python's GIL, which is off: start Python with PYTHON_GIL=1, or use fencepost.Producer"
)


class Producer(Sending):
    """A producer with the calls, settings and errors of `confluent_kafka.Producer`.

    Configuration: a dict with librdkafka's names, keyword arguments, or both. Raises KafkaException for a property that does not exist, has
    a wrong value or cannot be carried over. Any thread may call anything. It is always true; `len` is the number of messages without a
    report.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **properties: Any) -> None:
        if self._open:
            raise RuntimeError("Producer already __init__:ialized")
        if hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled():
            raise RuntimeError(GIL_IS_OFF)
        self._config = read_config(config, properties)
        self._began = time.monotonic()
        reports = Reports(delivery_error, only_errors=self._config.only_errors)
        settings = self._config.settings
        statistics = Statistics(self._config.stats_cb, reports, self._config.messages_max, self._began)
        if "statistics_interval_ms" in settings:
            settings = {**settings, "on_statistics": statistics}
        try:
            underlying = Underlying(settings)
        except (ConfigError, TypeError) as error:
            raise raised(KafkaError._INVALID_ARG, f"Failed to create producer: {in_their_words(str(error))}") from error
        self._underlying = underlying
        self._replacing = RLock()
        self._watch = Watch(underlying, reports, self._config.error_cb, self._config.throttle_cb, self._config.logger)
        self._held = HeldMessages(
            underlying,
            reports,
            timeout_s=settings["delivery_timeout_ms"] / 1000.0,
            missing_s=self._config.missing_topic_s,
            bytes_max=settings["buffer_memory"],
            trouble=self._watch.trouble,
        )
        self._transactions = Transactions(underlying, drain=self._drain, finish=self._held.finish, drop=self._drop, changed=self._hand_over)
        limit = self._config.messages_max or 1 << 62
        self._begin(underlying.plain, reports, limit=limit, callback=self._config.on_delivery)
        self._looks = self._watch.wanted
        statistics.waiting = WeakMethod(self._waiting)
        self._config.logger.debug("INIT: %r", self)

    @property
    def underlying(self) -> PlainProducer | TransactionalProducer:
        """Our producer. `purge` and `set_sasl_credentials` replace it."""
        return self._underlying.producer

    # -- waiting -----------------------------------------------------------------------------------------------------

    def flush(self, timeout: float = -1.0) -> int:
        """Wait until every message has its report, calling the callbacks, for up to `timeout` seconds; a negative number is without end.
        Returns the number of messages without a report. What a callback raises is raised."""
        self._refuse_closed()
        return self._drain(limit(timeout))

    def close(self) -> bool:
        """Abort an open transaction, wait for every message as `flush` does, and end. Returns True. Calling it again calls the callbacks
        that are left after one has raised."""
        if not self._open:
            if hasattr(self, "_held"):  # A subclass may not have called __init__.
                self._reports.serve()
            return True
        try:
            if self._underlying.transaction is not None:
                self._drop()
            else:
                self._drain(math.inf)
        except BaseException as error:
            self._end(None if isinstance(error, Exception) else 0.0)
            raise
        self._end(None)
        self._reports.serve()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        held = getattr(self, "_held", None)
        if held is not None:
            held.end()
            self._reports.end()

    def __len__(self) -> int:
        return self._without_report(len(self._reports.ready)) if self._open else 0

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> NoReturn:
        raise TypeError("Producer cannot be pickled: its connections are this process's; make one where it is used")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._underlying.producer!r})" if self._open else f"{type(self).__name__}(closed)"

    # -- other calls -------------------------------------------------------------------------------------------------

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Callback | None = None,
        on_delivery: Callback | None = None,
    ) -> int:
        """Accept many messages, dicts with "value", "key", "partition", "headers" and "callback", and return how many were accepted.
        A message that was not gets the KafkaError as its "_error". All are checked before the first one is accepted."""
        check_types(str, topic=topic)
        check_types(int, partition=partition)
        if not isinstance(messages, list):
            raise TypeError("messages must be a list")
        self._refuse_closed()
        default = callback or on_delivery
        for index, message in enumerate(messages):
            check_row(message, index)
        accepted = 0
        for message in messages:
            where = message.get("partition")
            try:
                self.produce(
                    topic,
                    message.get("value"),
                    message.get("key"),
                    partition if where is None else where,
                    message.get("callback") or default,
                    headers=message.get("headers"),
                )
            except BufferError as error:
                message["_error"] = made(KafkaError._QUEUE_FULL, str(error))
            except Exception as error:
                if not error.args or not isinstance(error.args[0], KafkaError):
                    raise
                message["_error"] = error.args[0]
            else:
                accepted += 1
        return accepted

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Fail messages without an outcome, with _PURGE_QUEUE if they are in no log and _PURGE_INFLIGHT if they may be in one. `poll` and
        `flush` call their callbacks.

        `in_queue`: messages that wait for their topic's metadata. `in_flight`: all others; our producer is then closed and replaced by a
        new one. A transaction's messages can only be purged by abort_transaction.
        """
        self._refuse_closed()
        if in_queue:
            self._held.purge(KafkaError._PURGE_QUEUE)
        if in_flight and self._underlying.plain is not None:
            with self._replacing:
                self._purge_producer()

    def list_topics(self, topic: str | None = None, timeout: float = -1.0) -> Any:
        """The cluster's metadata (ClusterMetadata). An AdminClient of confluent-kafka with this producer's properties asks for it."""
        self._refuse_closed()
        return self._admin().list_topics(*(() if topic is None else (topic,)), timeout=timeout)

    def cluster_id(self, timeout: float = -1.0) -> str | None:
        """The cluster's id."""
        return getattr(self.list_topics(timeout=timeout), "cluster_id", None)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Use these from now on. Our producer delivers what it has with the old ones, and a new one takes its place; until then, new
        messages wait. Raises KafkaException for a transactional producer: make a new one."""
        self._refuse_closed()
        check_types(str, username=username, password=password)
        if self._underlying.transactional is not None:
            raise raised(KafkaError._STATE, "set_sasl_credentials: a transactional producer keeps its credentials: make a new producer")
        secret = Secret(password)
        self._config.properties.update({"sasl.username": username, "sasl.password": secret})
        if "sasl_username" not in self._underlying.settings:
            return  # No connection uses them, here as in librdkafka.
        try:
            new = PlainProducer({**self._underlying.settings, "sasl_username": username, "sasl_password": secret})
        except ConfigError as error:
            raise raised(KafkaError._INVALID_ARG, in_their_words(str(error))) from error
        self._underlying.settings.update(sasl_username=username, sasl_password=secret)
        self._held.hold_everything()
        Thread(target=self._renew, args=(new,), name="fencepost-compat-credentials", daemon=True).start()

    # -- transactions ------------------------------------------------------------------------------------------------

    def init_transactions(self, timeout: float = -1.0, /) -> None:
        """Register with the coordinator, for up to `timeout` seconds. It fences an older producer of this transactional.id."""
        self._refuse_closed()
        self._transactions.init(timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._refuse_closed()
        self._transactions.begin()

    def send_offsets_to_transaction(self, positions: Any, group_metadata: Any, timeout: float = -1.0, /) -> None:
        """Commit a consumer group's offsets with the transaction. `positions`: a list of TopicPartition. `group_metadata`: the consumer's
        `consumer_group_metadata()`."""
        self._refuse_closed()
        self._transactions.send_offsets(positions, group_metadata, timeout)

    def commit_transaction(self, timeout: float = -1.0, /) -> None:
        """Wait for every message, calling the callbacks, and commit. The error's flags say what to do: `retriable()` (the same call again),
        `txn_requires_abort()` (abort_transaction) or `fatal()` (a new producer)."""
        self._refuse_closed()
        self._transactions.commit(timeout)

    def abort_transaction(self, timeout: float = -1.0, /) -> None:
        """Abort the transaction. Messages without an outcome fail, and their callbacks are called."""
        self._refuse_closed()
        self._transactions.abort(timeout)

    # -- small print -------------------------------------------------------------------------------------------------

    def _without_report(self, events: int) -> int:
        """The number of messages without a report, where `events` calls wait for `poll`."""
        reports = self._reports
        unreported = int(reports.watched - reports.served)
        return max(0, unreported, self._underlying.producer.unacknowledged + events) + self._held.count

    def _waiting(self) -> tuple[int, int]:
        """For `stats_cb`: messages without a report, and the bytes of those that wait for their topic."""
        return (self._without_report(0), self._held.bytes) if self._open else (0, 0)

    def _refuse_closed(self) -> None:
        if not self._open:
            raise RuntimeError(CLOSED)

    def _end(self, timeout_s: float | None) -> None:
        """Close our producer. What it has is delivered, so that the exception of a callback loses no message."""
        self._open = False
        self._held.end()
        self._held.purge(KafkaError._PURGE_QUEUE)
        self._held.join(2.0)
        if timeout_s is None:
            timeout_s = ABORT_S if self._underlying.plain is None else math.inf
        with self._replacing:
            self._underlying.close(timeout_s)
        self._hand_over(None)

    def _hand_over(self, transaction: Transaction | None) -> None:
        self._transaction = transaction

    def _drop(self) -> None:
        self._held.purge(KafkaError._PURGE_QUEUE)

    def _drain(self, timeout_s: float) -> int:
        """`flush`, with seconds."""
        deadline = time.monotonic() + timeout_s
        while True:
            if self._looks:
                self._look()
            self._reports.serve()
            left = len(self)
            slice_s = min(SLICE_S, deadline - time.monotonic())
            if not left or slice_s <= 0.0:
                return left
            if self._held.count:
                self._held.go_on()
                self._reports.wait(slice_s)
                continue
            try:
                self._underlying.producer.flush(slice_s)
            except (TimeoutError, UndeliveredRecords):
                pass  # Failures that no callback hears of are logged by our producer.
            except FencepostError as error:
                raise kafka_exception(error) from error

    def _poll_on(self, timeout: Any) -> int:
        if not isinstance(timeout, (int, float)):
            timeout = float(timeout)  # Raises TypeError, as librdkafka's does.
        deadline = time.monotonic() + limit(timeout)
        while True:
            left = deadline - time.monotonic()
            if left <= 0.0 or (not self._looks and not self._reports.wait(left)):
                return self._reports.serve()
            if self._looks:
                self._reports.wait(min(left, LOOK_S / 4))
                self._look()
            served = self._reports.serve()
            if served or not self._open:
                return served

    def _look(self) -> None:
        self._watch.look(self)

    def _count_anew(self) -> None:
        self._reports.count = len(self)
        if self._reports.count >= self._limit:
            raise BufferError("Local: Queue full")

    def _holds(self, topic: str) -> bool:
        return self._held.holds(topic)

    def _hold(self, message: Message) -> None:
        check_types(str, topic=message._topic)
        check_types(int, partition=message._partition or 0, timestamp=message._timestamp)
        size = size_of(message)
        if size > self._underlying.producer.record_limit[0]:
            raise raised(KafkaError.MSG_SIZE_TOO_LARGE, f"{size} bytes exceed message.max.bytes")
        self._held.hold(message)
        self._reports.count += 1

    def _not_sent(self, error: Exception, message: Message, plain: PlainProducer | None) -> None:
        if isinstance(error, BufferFull):
            raise BufferError(f"Local: Queue full: {error}") from error
        topic: Any = message._topic
        if isinstance(error, TopicUnavailable) and self._held.lacks(topic, message._partition):
            raise raised(KafkaError._UNKNOWN_PARTITION, str(error)) from error
        replaced = isinstance(error, ProducerClosed) and (self._reports.purging or self._held.everything or plain is not self._plain)
        if replaced or isinstance(error, (TopicUnavailable, NoUsableBroker)):
            self._hold(message)
        elif isinstance(error, RecordRefused) and message._callback is not None:
            self._reports.watched += 1
            self._reports.count += 1
            message.fail(kafka_error(error))
        elif isinstance(error, (FencepostError, ValueError)):
            if isinstance(error, Fatal):
                self._watch.trouble(error)
            raise kafka_exception(error) from error
        else:
            raise error

    def _refuse_outside(self) -> None:
        self._transactions.refuse_ended()
        raise raised(KafkaError._STATE, "Unable to produce message: no transaction is open: call begin_transaction first")

    def _purge_producer(self) -> None:
        """Fail what our producer has, if it has something."""
        if self._underlying.producer.unacknowledged:
            self._reports.purging = True
            try:
                self._replace(PlainProducer(self._underlying.settings), timeout_s=0.0)
            finally:
                self._reports.purging = False

    def _replace(self, new: PlainProducer, *, timeout_s: float) -> None:
        """Close our producer, and take the new one."""
        with self._replacing:
            self._underlying.close(timeout_s)
            if self._open:
                self._underlying.plain = self._plain = new
            else:
                new.close(0)

    def _renew(self, new: PlainProducer) -> None:
        """Deliver what our producer has, replace it, and let the held messages go."""
        try:
            self._replace(new, timeout_s=self._underlying.settings["delivery_timeout_ms"] / 1000.0)
        finally:
            self._held.release()

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        ours = ("on_delivery", "dr_cb", "error_cb", "stats_cb", "throttle_cb", "log_cb", "transactional.id", "enable.idempotence")
        given = {name: value for name, value in self._config.properties.items() if name not in (*ours, "statistics.interval.ms")}
        return AdminClient({name: value.reveal() if isinstance(value, Secret) else value for name, value in given.items()})


def check_types(kind: type, **values: object) -> None:
    """Refuse a value of another type."""
    for name, value in values.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be {kind.__name__}, not {type(value).__name__}")


def check_row(message: Any, index: int) -> None:
    """Refuse a message of `produce_batch` that confluent-kafka refuses."""
    if not isinstance(message, dict):
        raise TypeError(f"Message at index {index} must be a dict")
    for name in ("value", "key"):
        if not isinstance(message.get(name), (bytes, str, type(None))):
            raise TypeError(f"Message {name} at index {index} must be bytes or str")
    if not isinstance(message.get("partition"), (int, type(None))):
        raise TypeError(f"Message partition at index {index} must be int")
    if message.get("timestamp") is not None:
        raise NotImplementedError("Message timestamps are not currently supported in batch mode")
