"""The producer that callers hold: thread-safe, blocking where it must, and done when `close` returns.

`send` encodes the record into an open batch and returns; everything else happens on the producer's own sender thread. It never blocks
that thread and refuses to be used after a fork, after `close`, or (for `flush` and `close`) inside a delivery callback.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from librt.time import time as wall_time
from mypy_extensions import mypyc_attr

from producer.config import read_settings
from producer.core.accumulator import Accumulator, TopicQueues
from producer.core.batch import Headers, OnDelivery, RecordFuture, Shared, deadline_after
from producer.core.errors import (
    BufferFull,
    Misuse,
    ProducerClosed,
    RecordTooLarge,
    TopicUnavailable,
    UndeliveredRecords,
    again,
    plain,
)
from producer.core.events import TopicWanted
from producer.core.settings import Partitioner, Settings
from producer.directory import Directory
from producer.engine import now_ms
from producer.lifecycle import Lease
from producer.sender import Sender

log = logging.getLogger("fencepost.producer")

RECORD_BOUND: Final = 61 + 21
"""Bytes that a record of its own can take in a batch beyond key, value and headers (`DefaultRecord.recordSizeUpperBound`)."""

TIMESTAMP_MAX: Final = 0x7FFFFFFFFFFFFFFF
LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@mypyc_attr(allow_interpreted_subclasses=True)
class Producer:
    """An idempotent Kafka producer.

    Settings are keyword arguments (`linger_ms=5`) or a mapping with Kafka's names (`{"linger.ms": 5}`); `Settings` lists them with
    their defaults. Raises ConfigError for settings that are unknown, out of range or contradict each other. No connection is made
    before the first `send`.

    Threads: any thread may call anything. Delivery callbacks run on the producer's sender thread, a partition's in the order of its
    records; a slow callback holds up every delivery.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self._settings: Settings = read_settings({**(config or {}), **settings})
        patience_s = (self._settings.delivery_timeout_ms + self._settings.resolve_grace_ms + self._settings.request_timeout_ms) / 1000.0
        self._shared = Shared(patience_s=patience_s)
        self._accumulator = Accumulator(
            batch_size=self._settings.batch_size, buffer_memory=self._settings.buffer_memory, clock=now_ms, shared=self._shared
        )
        self._directory = Directory(
            self._accumulator, partial(TopicQueues, draw=draw_bits, round_robin=self._settings.partitioner is Partitioner.ROUND_ROBIN)
        )
        self._sender = Sender(self._settings, self._accumulator, self._shared, announce=self._directory.announce, died=self._directory.die)
        self._shared.wake = self._sender.wake
        self._largest = min(self._settings.max_request_size, self._settings.buffer_memory)
        self._topics = self._accumulator.topics
        self._closed = False
        self._lease = Lease(self._sender, self._accumulator, self._shared, exit_flush_s=self._settings.exit_flush_ms / 1000.0)
        self._sender.start()

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """Accept one record and return the future of its delivery.

        `value`, `key`: bytes or None. `partition`: None lets the partitioner choose. `headers`: (name, bytes or None) pairs.
        `timestamp`: milliseconds since 1970, None for now. `on_delivery(future)` is called on the sender thread once the outcome is
        known.

        Blocks up to `max_block_ms` while the topic is unknown (TopicUnavailable) or the buffer is full (BufferFull); inside a delivery
        callback it raises these at once. Raises RecordTooLarge for what could never be sent and TypeError for what is not bytes.
        Nothing that raises here was sent.
        """
        if not (value is None or isinstance(value, bytes)):
            raise TypeError(f"value must be bytes or None, not {type(value).__name__}: encode it first")
        if not (key is None or isinstance(key, bytes)):
            raise TypeError(f"key must be bytes or None, not {type(key).__name__}: encode it first")
        size = RECORD_BOUND + (len(value) if value is not None else 0) + (len(key) if key is not None else 0)
        if headers is not None:
            headers = checked_headers(headers)
            size += sum(20 + len(name) * 4 + (len(content) if content is not None else 0) for name, content in headers)
        if size > self._largest:
            raise RecordTooLarge(self._why_too_large(size))
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(f"on_delivery must be callable, not {type(on_delivery).__name__}")
        stamp = int(wall_time() * 1000.0) if timestamp is None else checked_timestamp(timestamp)
        queues = self._topics.get(topic)
        if queues is None or partition is not None:
            queues = self._route(topic, queues, partition)
        where = -1 if partition is None else partition
        future = self._accumulator.append(queues, where, stamp, key, value, headers, on_delivery)
        if future is None:
            future = self._append_later(queues, where, stamp, key, value, headers, on_delivery)
        return future

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The topic's partitions. Waits up to `timeout` seconds (None: max_block_ms) for a topic that is not known yet."""
        self._refuse_on_sender("partitions_for")
        self._refuse_after_fork()
        check_topic(topic)
        limit_s = self._settings.max_block_ms / 1000.0 if timeout is None else timeout
        self._directory.forget_refusal(topic)
        self._sender.post(TopicWanted(topic, limit_s * 1000.0))
        return list(range(self._directory.wait(topic, -1, limit_s, trouble=self._sender.engine.trouble).partitions))

    # -- waiting -----------------------------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent before this call has its outcome and its delivery callbacks have returned.

        `timeout`: seconds, None until the delivery deadline has decided all of them. Raises TimeoutError when the time passed first, and
        UndeliveredRecords when deliveries failed that nobody had looked at. A Misuse inside a delivery callback.
        """
        self._refuse_on_sender("flush")
        self._refuse_after_fork()
        self._drain(self._shared.patience_s if timeout is None else timeout)
        unseen = self._sender.failures.take()
        if unseen is not None:
            raise unseen

    def close(self, timeout: float | None = None) -> None:
        """Send what is left, then end the sender thread and its connections. Calling it again does nothing.

        `timeout`: seconds to wait for deliveries, None until the delivery deadline has decided all of them; what has no outcome by then
        fails. Raises UndeliveredRecords when deliveries failed that nobody had looked at. A Misuse inside a delivery callback.
        """
        self._refuse_on_sender("close")
        self._refuse_after_fork()
        if self._closed:
            return
        self._closed = True
        if self._accumulator.refusal is None:
            self._accumulator.refusal = ProducerClosed("the producer is closed: no record can be sent any more")
        try:
            self._drain(self._shared.patience_s if timeout is None else timeout)
        except TimeoutError:
            log.warning("closing with records undelivered: the timeout of %s s passed", timeout)
        finally:
            self._sender.stop(ProducerClosed("the producer was closed before the record was acknowledged"))
            self._lease.end()
        unseen = self._sender.failures.take()
        if unseen is not None:
            raise unseen

    def __enter__(self) -> Self:
        self._refuse_after_fork()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # Whoever pressed Ctrl-C wants to leave: what cannot be delivered within the time of an exit fails.
        leaving = error is not None and not isinstance(error, Exception)
        try:
            self.close(self._settings.exit_flush_ms / 1000.0 if leaving else None)
        except UndeliveredRecords as undelivered:
            if error is None:
                raise
            log.error("while another exception left the block: %s", undelivered)

    # -- small print -------------------------------------------------------------------------------------------------

    def _route(self, topic: str, queues: TopicQueues | None, partition: int | None) -> TopicQueues:
        """The topic's queues, waiting for them, and for a partition that may be about to appear."""
        if partition is not None and partition < 0:
            raise ValueError(f"partition={partition}: partitions count from 0; leave it out to have one chosen")
        wanted = -1 if partition is None else partition
        if queues is not None and wanted < queues.partitions:
            return queues
        check_topic(topic)
        self._refuse_after_fork()
        refusal = self._accumulator.refusal
        if refusal is not None:
            raise again(refusal)
        self._directory.forget_refusal(topic)
        self._sender.post(TopicWanted(topic, partitions=wanted + 1))
        if self._shared.on_sender():
            raise TopicUnavailable(f"topic {topic!r} is not known yet, and a delivery callback cannot wait for it")
        return self._directory.wait(topic, wanted, self._settings.max_block_ms / 1000.0, trouble=self._sender.engine.trouble)

    def _append_later(
        self,
        queues: TopicQueues,
        partition: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        on_delivery: OnDelivery | None,
    ) -> RecordFuture:
        """Wait for room in the buffer, up to max_block_ms."""
        future: RecordFuture | None = None
        limit = "inside a delivery callback, which cannot wait"
        if not self._shared.on_sender():
            limit = f"for max_block_ms={plain(self._settings.max_block_ms)}"
            future = self._sender.when_room(
                lambda: self._accumulator.append(queues, partition, timestamp, key, value, headers, on_delivery),
                self._settings.max_block_ms / 1000.0,
            )
        if future is None:
            used = f"buffer_memory={self._settings.buffer_memory} bytes is full ({self._accumulator.used} used)"
            raise BufferFull(f"{used} {limit}; the record was not accepted")
        return future

    def _drain(self, timeout_s: float) -> None:
        """Wait for every batch that is incomplete now, without lingering."""
        deadline = deadline_after(timeout_s)
        waiting = self._accumulator.begin_flush()
        try:
            for place, batch in enumerate(waiting):
                if not batch.wait(max(0.0, deadline - time.monotonic())):
                    left = sum(int(late.count) for late in waiting[place:] if not late.complete())
                    raise TimeoutError(f"{left} records have no outcome after {plain(timeout_s)} s; they are still on their way")
            # An outcome is published before its callbacks run and its failure is noted: let the sender finish what it is at.
            if not self._sender.catch_up(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"a delivery callback has not returned after {plain(timeout_s)} s")
        finally:
            self._accumulator.end_flush()

    def _refuse_on_sender(self, call: str) -> None:
        if self._shared.on_sender():
            raise Misuse(f"{call}() inside a delivery callback would never end: the callback runs on the thread that delivers")

    def _refuse_after_fork(self) -> None:
        if self._shared.forked is not None:
            raise again(self._shared.forked)

    def _why_too_large(self, size: int) -> str:
        settings = self._settings
        name = "max_request_size" if settings.max_request_size <= settings.buffer_memory else "buffer_memory"
        return f"a record of up to {size} bytes exceeds {name}={getattr(settings, name)}; it was not accepted"


def draw_bits() -> int:
    """31 random bits for the sticky partitioner."""
    return random.getrandbits(31)


def check_topic(topic: object) -> None:
    """Refuse what can be no topic, before anybody waits for it (`Topic.validate`)."""
    if not isinstance(topic, str):
        raise TypeError(f"topic must be a str, not {type(topic).__name__}")
    if not LEGAL_TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise ValueError(f"topic={topic[:300]!r}: 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..'")


def checked_timestamp(timestamp: int) -> int:
    """A timestamp that the format can hold."""
    if not 0 <= timestamp <= TIMESTAMP_MAX:
        raise ValueError(f"timestamp={timestamp}: milliseconds since 1970, from 0 to {TIMESTAMP_MAX}")
    return timestamp


def checked_headers(headers: Headers) -> Headers:
    """Headers as the encoder takes them, checked."""
    for pair in headers:
        match pair:
            case (str(), bytes() | None):
                continue
            case _:
                raise TypeError(f"headers must be (str, bytes or None) pairs, not {pair!r}")
    return headers
