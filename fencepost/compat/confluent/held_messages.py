"""Messages that wait for their topic's metadata, outside our producer: `produce` never waits, and our producer takes no record of a topic
that it does not know.

A thread asks for the topics while there are any. A topic's messages go to our producer in order as soon as it is known, and until the last
one is there, new messages of the topic wait behind them. It holds no message longer than message.timeout.ms.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Collection
from threading import Thread, current_thread
from typing import Any

from confluent_kafka import KafkaError

from fencepost.compat.confluent.errors import kafka_error, made, raised
from fencepost.compat.confluent.message import Message
from fencepost.compat.confluent.reports import Reports
from fencepost.compat.confluent.underlying import Underlying, log
from fencepost.producer import BufferFull, FencepostError, NoUsableBroker, ProducerClosed, RecordRefused, TopicUnavailable
from fencepost.producer.foundations.condition import Condition
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.rlock import RLock
from fencepost.producer.foundations.weak_list import WeakList
from fencepost.producer.network.exit_and_fork import BEFORE_LEAVING
from fencepost.txn import Transaction

ALONE_S = 0.2
"""How long one question for the only topic may take."""
AMONG_OTHERS_S = 0.05
"""How long one question for a topic may take while other topics wait, too."""
PAUSE_S = 0.01
EXIT_S = 5.0
"""How long the end of the process waits for the topics of held messages."""
OVERHEAD = 80
"""About the bytes that a held message takes besides its content."""
Held = tuple[float, Message]
"""A message, and since when it is held, by the monotonic clock: a change of the wall clock moves no deadline."""


class HeldMessages:
    """See the module. `timeout_s`: of a message. `missing_s`: how long a topic may be missing while brokers answer. `bytes_max`: of all
    held messages. `trouble`: told why no broker can be used. `count`, `bytes`: of what is held now. `everything`: above 0, messages of all
    topics are held (`Producer._renew`)."""

    def __init__(
        self,
        underlying: Underlying,
        reports: Reports,
        *,
        timeout_s: float,
        missing_s: float,
        bytes_max: int,
        trouble: Callable[[Exception], None],
    ) -> None:
        self.underlying = underlying
        self.everything = 0
        self.count = 0
        self._reports = reports
        self._timeout_s = timeout_s
        self._missing_s = missing_s
        self._bytes_max = bytes_max
        self.bytes = 0
        self._trouble = trouble
        self._topics: dict[str, deque[Held]] = {}
        self._missing_since: dict[str, float] = {}
        self._lock = RLock()
        self._ended = Condition()
        self._thread: Thread | None = None
        self._turn = 0
        LIVE.add(self)

    def holds(self, topic: str) -> bool:
        """Whether a new message of the topic has to wait behind others."""
        return self.everything > 0 or topic in self._topics

    def hold(self, message: Message) -> None:
        """Take a message. Raises BufferError if there is no room."""
        topic: Any = message._topic
        size = OVERHEAD + size_of(message)
        with self._lock:
            if self.bytes + size > self._bytes_max:
                raise BufferError(f"Local: Queue full: {self.bytes} bytes wait for the metadata of their topics")
            if self._ended.notified is not None:
                raise RuntimeError("Producer has been closed")
            if not self.underlying.takes_messages:
                raise raised(KafkaError._STATE, "Unable to produce message: no transaction is open, or it is being committed")
            messages = self._topics.setdefault(topic, deque())
            held = time.monotonic(), message
            # No calls here: Ctrl-C could strike at each.
            self.count += 1
            self.bytes += size
            messages += (held,)
            self._reports.holding = True
            self._begin()

    def go_on(self) -> None:
        """Start the thread if Ctrl-C kept `hold` from that."""
        with self._lock:
            self._begin()

    def _begin(self) -> None:
        if self._topics and (self._thread is None or self._thread.ident is None):
            self._thread = Thread(target=self._run, name="fencepost-compat-topics", daemon=True)
            self._thread.start()

    def finish(self) -> bool:
        """Take no more messages for the open transaction. False if some are held: they have to be sent first."""
        with self._lock:
            self.underlying.ending = not self.count
        return self.underlying.ending

    def purge(self, code: int) -> None:
        """Fail everything that is held with this code."""
        with self._lock:
            transaction = self.underlying.transaction
            taken = [message for messages in self._topics.values() for _, message in messages]
            self._topics.clear()
        self._fail(taken, made(code), transaction)

    def hold_everything(self) -> None:
        """Hold messages of all topics until as many calls of `release`."""
        with self._lock:
            self.everything += 1
            self._reports.holding = True

    def release(self) -> None:
        """No longer hold messages of all topics."""
        with self._lock:
            self.everything -= 1
            self._reports.holding = bool(self._topics) or self.everything > 0

    def end(self) -> None:
        """Stop, and take no more messages. Those that are held stay: call `purge` after this."""
        self._ended.notify_all()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread, after `end`."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    # -- the end of the process, and a fork --------------------------------------------------------------------------

    def leave(self, deadline: float) -> None:
        """The process exits: wait until no message is held, and log how many are lost. An open transaction is lost anyway."""
        if self.underlying.plain is None or self._ended.notified is not None:
            return
        while self.count and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
        if self.count:
            log.critical("exit without flush: no broker told the topics of %s in time: they are lost", counted(self.count, "message"))

    def after_fork_in_child(self) -> None:
        """What is held belongs to the parent, which has the thread, too. The lock may be held by it."""
        self._lock = RLock()
        self._thread = None
        self._topics, self._missing_since = {}, {}
        self.count = self.bytes = self.everything = 0
        self._reports.holding = False

    def _nap(self, seconds: float) -> None:
        """A pause, which the end cuts short."""
        self._ended.wait(None, time.monotonic() + seconds)

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._thread is not current_thread():
                    return  # Ctrl-C struck while this one was started, and there is another.
                topics = list(self._topics)
                if self._ended.notified is not None or not topics:
                    self._thread = None
                    self._reports.holding = self.everything > 0
                    return
            if self.everything:
                self._expire(topics)
                self._nap(PAUSE_S)
                continue
            try:
                waiting = [topic for topic in topics if not self._drain(topic)]
                self._expire(waiting)
                if waiting:
                    self._turn += 1
                    self._ask(waiting[self._turn % len(waiting)], ALONE_S if len(waiting) == 1 else AMONG_OTHERS_S)
            except Exception:  # noqa: BLE001  # logged: without this thread, messages would wait forever
                log.exception("messages wait for the metadata of their topics, and the thread that asks goes on")
                self._nap(ALONE_S)

    def _drain(self, topic: str) -> bool:
        """Send the topic's messages until one has to wait; True if none is left."""
        while True:
            with self._lock:
                messages = self._topics.get(topic)
                if not messages:
                    self._topics.pop(topic, None)
                    self._missing_since.pop(topic, None)
                    if not self._topics and not self.everything:
                        self._reports.holding = False
                    return True
                held = messages.popleft()
                message = held[1]
                transaction = self.underlying.transaction  # Its own: the next one begins after all held messages were taken.
            try:
                self.underlying.send(message, transaction)
            except (BufferFull, TopicUnavailable, NoUsableBroker, ProducerClosed) as error:
                if isinstance(error, TopicUnavailable) and self.lacks(topic, message._partition):
                    self._fail([message], made(KafkaError._UNKNOWN_PARTITION, str(error)), transaction)
                    continue
                with self._lock:
                    if self._topics.get(topic) is messages:
                        messages.appendleft(held)
                        return False
                self._fail([message], made(KafkaError._PURGE_QUEUE), transaction)
            except Exception as error:  # noqa: BLE001  # the message's callback hears of it
                self._fail([message], kafka_error(error), transaction)
            else:
                if message._callback is not None:
                    self._reports.watched += 1
                self._forget(message)

    def lacks(self, topic: str, partition: int | None) -> bool:
        """Whether the topic is known and lacks the partition."""
        try:
            return partition is not None and partition >= len(self.underlying.partitions_for(topic, 0))
        except FencepostError:
            return False

    def _ask(self, topic: str, timeout_s: float) -> None:
        """Wait for the topic's metadata."""
        try:
            self.underlying.partitions_for(topic, timeout_s)
            self._nap(PAUSE_S)  # It is known, but the buffer is full.
        except TopicUnavailable as error:
            self._note_missing(topic, error)
        except RecordRefused as error:
            self._fail_all(topic, kafka_error(error))
        except NoUsableBroker as error:
            self._trouble(error)
            self._nap(timeout_s)
        except ProducerClosed:
            self._nap(PAUSE_S)  # `purge` and `close` replace our producer, or end it.
        except FencepostError as error:
            self._fail_all(topic, kafka_error(error))

    def _note_missing(self, topic: str, error: TopicUnavailable) -> None:
        if not self.underlying.heard_from_brokers():
            self._missing_since.pop(topic, None)
            if self.underlying.all_down():
                self._trouble(error)
            return
        since = self._missing_since.setdefault(topic, time.monotonic())
        if time.monotonic() - since >= self._missing_s:
            self._fail_all(topic, made(KafkaError._UNKNOWN_TOPIC, str(error)))

    def _expire(self, topics: list[str]) -> None:
        """Fail the messages whose time has passed."""
        oldest = time.monotonic() - self._timeout_s
        for topic in topics:
            with self._lock:
                transaction = self.underlying.transaction
                late = taken(self._topics.get(topic), oldest)
            self._fail(late, made(KafkaError._MSG_TIMED_OUT, f"{topic}: no broker told the topic's partitions in time"), transaction)

    def _fail_all(self, topic: str, error: KafkaError) -> None:
        with self._lock:
            transaction = self.underlying.transaction
            messages = [message for _, message in self._topics.pop(topic, ())]
            self._missing_since.pop(topic, None)
        self._fail(messages, error, transaction)

    def _fail(self, messages: Collection[Message], error: KafkaError, transaction: Transaction | None) -> None:
        """Fail messages, which spoils the transaction that they were produced in."""
        silent = 0
        for message in messages:
            if transaction is not None:
                self.underlying.spoil(transaction, f"a message for {message._topic} was not sent: {error.str()}")
            if message._callback is not None:
                self._reports.watched += 1
                message.fail(error)
            else:
                silent += 1
                self._reports.count -= 1
            self._forget(message)
        if silent:
            log.error("%s without a callback not delivered: %s", counted(silent, "message"), error.str())

    def _forget(self, message: Message) -> None:
        """The message is held no longer."""
        with self._lock:
            self.count -= 1
            self.bytes -= OVERHEAD + size_of(message)
        self._reports.wake()


def taken(messages: deque[Held] | None, oldest: float) -> list[Message]:
    """The messages that are held since then or longer. They are taken away."""
    late = []
    while messages and messages[0][0] <= oldest:
        late.append(messages.popleft()[1])
    return late


def size_of(message: Message) -> int:
    """The bytes of a message's value, key and headers."""
    key, headers = message._key, message._headers
    total = len(message) + (len(key) if isinstance(key, bytes) else 0)
    if isinstance(headers, list):
        total += sum(len(name) + len(value or b"") for name, value in headers)
    return total


LIVE: WeakList[HeldMessages] = WeakList()


def leave_all() -> None:
    """At exit, before our producers flush."""
    deadline = time.monotonic() + EXIT_S
    for held in LIVE.all():
        held.leave(deadline)


def renew_all() -> None:
    """In a forked child."""
    for held in LIVE.all():
        held.after_fork_in_child()


BEFORE_LEAVING.append(leave_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=renew_all)
