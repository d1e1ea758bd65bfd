"""The message of a delivery report, with the methods of `confluent_kafka.Message`. A hot module.

The producer calls the message on its sender thread when the outcome is known, and the message then queues itself for `poll`. It is no
`confluent_kafka.Message`: that class has no room for an outcome that is read only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import Any, Final

from mypy_extensions import mypyc_attr

from fencepost.compat.confluent.reports import Report, Reports
from fencepost.producer import DeliveryError, RecordFuture

TIMESTAMP_NOT_AVAILABLE: Final = 0
TIMESTAMP_CREATE_TIME: Final = 1
TIMESTAMP_LOG_APPEND_TIME: Final = 2

Callback = Callable[[Any, Any], object]
"""Called with a KafkaError or None, and a Message."""
MessageHeaders = list[tuple[str, bytes | None]]


@mypyc_attr(acyclic=True)
class Message(Report):
    """A message that was produced, and its outcome. `underlying`: our future of the record, None for one that never reached our
    producer. `counted`: it is one of the watched messages; not after a `produce` that Ctrl-C ended."""

    def __init__(
        self,
        reports: Reports,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        headers: MessageHeaders | None,
        timestamp: int,
        callback: Callback | None,
        began: float,
    ) -> None:
        self._reports = reports
        self._topic: object = topic
        self._value = value
        self._key = key
        self._partition = partition
        self._headers: object = headers
        self._timestamp = timestamp
        self._callback = callback
        self._began = began
        self._latency = -1.0
        self._purged = False
        self.counted = True
        self._error: object = None
        self.underlying: RecordFuture | None = None

    def __call__(self, future: RecordFuture) -> None:
        """The outcome is known. Runs on the sender thread."""
        self.underlying = future
        reports = self._reports
        if reports.only_errors and future.exception(0) is None:
            if self.counted:
                reports.served += 1
            reports.count -= 1
            return
        self._latency = time() - self._began
        self._purged = reports.purging
        reports.add(self)

    def fail(self, error: object) -> None:
        """The message failed before it reached our producer. `error`: a KafkaError."""
        self._error = error
        self._latency = time() - self._began
        self._reports.add(self)

    def serve(self) -> None:
        """Call the program's callback."""
        callback, future, reports = self._callback, self.underlying, self._reports
        if callback is not None and future is not None:
            failure = future.exception(0)
            if failure is not None:
                self._error = reports.error_of(failure, self._purged)
        # No calls from here to the callback, as in `Reports.serve`.
        self.begun = True
        reports.count -= 1
        if callback is not None:
            self._callback = None
            if self.counted:
                reports.served += 1
            callback(self._error, self)

    # -- confluent_kafka.Message -------------------------------------------------------------------------------------

    def error(self) -> Any:
        """The KafkaError of a failed message, None for an acknowledged one."""
        return self._error

    def topic(self) -> Any:
        """The topic's name."""
        return self._topic

    def partition(self) -> int | None:
        """The partition, None if none was chosen."""
        future = self.underlying
        if future is None:
            return self._partition
        failure = future.exception(0)
        partition = future.result(0).partition if failure is None else failure.partition
        return partition if partition >= 0 else None

    def offset(self) -> int | None:
        """The offset in the log, None for a failed message and for an offset that no broker told."""
        future = self.underlying
        if future is None or future.exception(0) is not None:
            return None
        offset = future.result(0).offset
        return offset if offset >= 0 else None

    def key(self) -> Any:
        """The key as bytes, or None."""
        return self._key

    def value(self) -> Any:
        """The value as bytes, or None."""
        return self._value

    def headers(self) -> Any:
        """The headers as a list of (str, bytes or None), or None. confluent-kafka leaves them out of delivery reports."""
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        """(TIMESTAMP_CREATE_TIME or TIMESTAMP_LOG_APPEND_TIME, milliseconds since 1970); (TIMESTAMP_NOT_AVAILABLE, -1) for a failed
        message and for a time that no broker told."""
        future = self.underlying
        if future is None or future.exception(0) is not None:
            return TIMESTAMP_NOT_AVAILABLE, -1
        told = future.result(0).timestamp
        if told < 0:
            return TIMESTAMP_NOT_AVAILABLE, -1
        return (TIMESTAMP_CREATE_TIME if future.batch.log_append_time == -1 else TIMESTAMP_LOG_APPEND_TIME), told

    def latency(self) -> float:
        """Seconds from `produce` to the outcome."""
        return max(self._latency, 0.0)

    def leader_epoch(self) -> int | None:
        """None: the epoch of the leader is not reported."""
        return None

    def failure(self) -> DeliveryError | None:
        """Our error of a failed message, whose `persisted` says whether it may be in the log. confluent-kafka has no such method."""
        return self.underlying.exception(0) if self.underlying is not None else None

    def set_error(self, error: object) -> None:
        """Replace what `error` returns."""
        self._error = error

    def set_topic(self, topic: object) -> None:
        """Replace what `topic` returns."""
        self._topic = topic

    def set_key(self, key: object) -> None:
        """Replace what `key` returns."""
        self._key = key

    def set_value(self, value: object) -> None:
        """Replace what `value` returns."""
        self._value = value

    def set_headers(self, headers: object) -> None:
        """Replace what `headers` returns."""
        self._headers = headers

    def __len__(self) -> int:
        value = self._value
        return len(value) if isinstance(value, (bytes, str)) else 0
