"""The transactional calls, on our `TransactionalProducer`: their order, their limits of time, and their errors with flags.

librdkafka takes a call that timed out as still running: until the same call is made again and succeeds, others fail with _CONFLICT.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError

from fencepost.compat.confluent.errors import kafka_exception, raised
from fencepost.compat.confluent.underlying import Underlying
from fencepost.producer import Fatal, FencepostError
from fencepost.txn import CommitOutcomeUnknown, TransactionalProducer, TransactionTimeout


class Transactions:
    """See the module. `drain(seconds)`: waits for the messages so far and calls their callbacks; returns how many are left. `finish()`:
    takes no more messages, unless some are held. `drop()`: fails the held messages. `changed(transaction)`: tells which transaction is
    open."""

    def __init__(
        self,
        underlying: Underlying,
        *,
        drain: Callable[[float], int],
        finish: Callable[[], bool],
        drop: Callable[[], None],
        changed: Callable[[Any], None],
    ) -> None:
        self._underlying = underlying
        self._drain = drain
        self._finish = finish
        self._drop = drop
        self._changed = changed
        self._registered = False
        self._running = ""
        self._unknown: CommitOutcomeUnknown | None = None
        self._fatal: FencepostError | None = None

    def init(self, timeout: float) -> None:
        """Register with the coordinator."""
        producer = self._enter("init_transactions")
        if self._registered:
            raise raised(KafkaError._STATE, "init_transactions: the producer is registered already")
        self._call("init_transactions", lambda: producer.init(limit(timeout)))
        self._registered = True

    def begin(self) -> None:
        """Begin a transaction."""
        producer = self._enter("begin_transaction", registered=True)
        if self._underlying.transaction is not None:
            raise raised(KafkaError._STATE, "begin_transaction: a transaction is open: commit_transaction or abort_transaction first")
        self._call("begin_transaction", lambda: self._set(producer.begin(60.0)))

    def send_offsets(self, positions: Any, group: Any, timeout: float) -> None:
        """Commit offsets with the open transaction. Positions without an offset are left out."""
        producer = self._enter("send_offsets_to_transaction", registered=True)
        self._refuse_closed("send_offsets_to_transaction")
        if not isinstance(positions, list):
            raise TypeError(f"expected list of TopicPartition, not {type(positions).__name__}")
        offsets = [each for each in positions if each.offset >= 0]
        if offsets:
            self._call("send_offsets_to_transaction", lambda: producer.send_offsets(offsets, group, limit(timeout)))

    def commit(self, timeout: float) -> None:
        """Wait for every message, calling the callbacks, and commit."""
        producer = self._enter("commit_transaction", registered=True)
        self._refuse_closed("commit_transaction")
        deadline = time.monotonic() + limit(timeout)
        unknown = self._unknown
        if unknown is None:
            left = self._drain(limit(timeout))
            if self._underlying.spoilt is not None:
                raise raised(KafkaError._STATE, str(self._underlying.spoilt), abort=True)
            if left or not self._finish():
                text = f"commit_transaction: {max(left, 1)} messages have no outcome yet: call it again, or abort_transaction"
                raise raised(KafkaError._TIMED_OUT, text, retriable=True)
        left_s = max(0.0, deadline - time.monotonic())
        try:
            self._call("commit_transaction", lambda: producer.commit(left_s) if unknown is None else unknown.resolve(left_s))
        finally:
            self._underlying.ending = self._unknown is not None
        self._set(None)  # First: what a callback raises does not change that it is committed.
        self._drain(0.0)

    def abort(self, timeout: float) -> None:
        """Drop what is not sent, calling the callbacks, and abort."""
        producer = self._enter("abort_transaction", registered=True)
        self._refuse_closed("abort_transaction")
        self._drop()
        self._call("abort_transaction", lambda: producer.abort(limit(timeout)))
        self._set(None)
        self._drop()  # What another thread produced meanwhile.
        self._drain(1.0)

    def refuse_ended(self) -> None:
        """Raise the fatal error that ended the producer, if there was one."""
        if self._fatal is not None:
            raise kafka_exception(self._fatal) from self._fatal

    def _set(self, transaction: Any) -> None:
        self._underlying.set(transaction)
        self._unknown = None
        self._changed(transaction)

    def _enter(self, call: str, *, registered: bool = False) -> TransactionalProducer:
        """Refuse a call that does not fit what was called before, and every call after a fatal error."""
        producer = self._underlying.transactional
        if producer is None:
            raise raised(KafkaError._NOT_CONFIGURED, "The Transactional API requires transactional.id to be configured")
        self.refuse_ended()
        if self._running and self._running != call:
            raise raised(KafkaError._CONFLICT, f"{call}: {self._running} timed out: call it again first", retriable=True)
        if registered and not self._registered:
            raise raised(KafkaError._STATE, f"{call}: call init_transactions first")
        return producer

    def _refuse_closed(self, call: str) -> None:
        if self._underlying.transaction is None:
            raise raised(KafkaError._STATE, f"{call}: no transaction is open")

    def _call(self, call: str, work: Callable[[], Any]) -> None:
        try:
            work()
        except FencepostError as error:
            late = isinstance(error, (TransactionTimeout, CommitOutcomeUnknown)) and not isinstance(error, Fatal)
            # Only what has no other way than the same call again: an open transaction can also be aborted.
            self._running = call if late and call in ("init_transactions", "abort_transaction") else ""
            if isinstance(error, CommitOutcomeUnknown):
                self._unknown = error
                self._running = "commit_transaction"
            elif isinstance(error, Fatal):
                self._set(None)
                self._fatal = error
            raise kafka_exception(error) from error
        self._running = ""


def limit(timeout: float) -> float:
    """Seconds; a negative number is without end."""
    return math.inf if timeout < 0 else float(timeout)
