"""`produce` and `poll`, through which every message passes. A hot module; `producer` has everything else.

A message goes into our producer without waiting. One that cannot, because its topic is not known yet, is handed to `_not_sent`.
"""

from __future__ import annotations

from time import time
from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from fencepost.compat.confluent.message import Callback, Message, MessageHeaders
from fencepost.compat.confluent.reports import Reports
from fencepost.producer import Producer
from fencepost.txn import Transaction

CLOSED: Final = "Producer has been closed"


@mypyc_attr(allow_interpreted_subclasses=True)
class Sending:
    """See the module. `_plain`: our producer; None for a transactional one. `_transaction`: the open transaction."""

    _open: bool = False

    def _begin(self, plain: Producer | None, reports: Reports, *, limit: int, callback: Callback | None) -> None:
        """`limit`: how many messages may wait. `callback`: for messages that bring none."""
        self._plain = plain
        self._transaction: Transaction | None = None
        self._reports = reports
        self._limit: i64 = limit
        self._callback = callback
        self._looks = False
        self._open = True

    def produce(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        partition: int | None = -1,
        callback: Callback | None = None,
        on_delivery: Callback | None = None,
        timestamp: int | None = 0,
        headers: object = None,
    ) -> None:
        """Accept one message, without waiting.

        `value`, `key`: bytes, str or None. `partition`: -1 or None lets the partitioner choose. `callback` or `on_delivery`: called by
        `poll` and `flush` as callback(error, message). `timestamp`: milliseconds since 1970, 0 or None for now. `headers`: a dict, or
        (name, bytes, str or None) pairs.

        Raises BufferError while the queue is full, KafkaException for a message that can never be sent, TypeError for a key, value or
        header of another type, and RuntimeError after `close`.
        """
        if not self._open:
            raise RuntimeError(CLOSED)
        if not (value is None or isinstance(value, bytes)):
            value = as_bytes(value, "value")
        if not (key is None or isinstance(key, bytes)):
            key = as_bytes(key, "key")
        if callback is None:
            callback = self._callback if on_delivery is None else on_delivery
        if partition == -1:
            partition = None
        if timestamp == 0:
            timestamp = None
        listed = None if headers is None else listed_headers(headers)
        reports = self._reports
        if reports.count >= self._limit:
            self._count_anew()
        if reports.holding and self._holds(topic):
            self._hold(message_of(reports, topic, value, key, partition, listed, timestamp, callback))
            return
        plain, transaction = self._plain, self._transaction
        message: Message | None = None
        try:
            if callback is None:
                if plain is not None:
                    plain.try_send(topic, value, key=key, partition=partition, headers=listed, timestamp=timestamp)
                elif transaction is not None:
                    transaction.send(topic, value, key=key, partition=partition, headers=listed, timestamp=timestamp)
                else:
                    self._refuse_outside()
            else:
                message = message_of(reports, topic, value, key, partition, listed, timestamp, callback)
                made = message._timestamp
                reports.watched += 1
                if plain is not None:
                    plain.try_send(topic, value, key=key, partition=partition, headers=listed, timestamp=made, on_delivery=message)
                elif transaction is not None:
                    transaction.send(topic, value, key=key, partition=partition, headers=listed, timestamp=made, on_delivery=message)
                else:
                    self._refuse_outside()
        except BaseException as error:
            if message is not None and message.counted:
                message.counted = False  # Ctrl-C may have struck after our producer took it.
                reports.watched -= 1
            if not isinstance(error, Exception):
                raise
            self._not_sent(error, message_of(reports, topic, value, key, partition, listed, timestamp, callback), plain)
            return
        reports.count += 1

    def poll(self, timeout: Any = -1.0) -> int:
        """Call the callbacks that are due, on the calling thread, and return their number. If none is due, wait for one up to `timeout`
        seconds; a negative number is without end. What a callback raises is raised, and the callbacks behind it stay due."""
        if not self._open:
            raise RuntimeError(CLOSED)
        if self._looks:
            self._look()
        reports = self._reports
        served = reports.serve() if reports.ready else 0
        # The usual call between two messages comes no further.
        if served or (isinstance(timeout, (int, float)) and timeout == 0):
            return served
        return self._poll_on(timeout)

    # -- what `producer` does ----------------------------------------------------------------------------------------

    def _count_anew(self) -> None:
        """Raise BufferError if the queue is full indeed."""
        raise NotImplementedError

    def _holds(self, topic: str) -> bool:
        """Whether messages of the topic wait outside the producer, so that a new one waits behind them."""
        raise NotImplementedError

    def _hold(self, message: Message) -> None:
        """The message waits outside the producer."""
        raise NotImplementedError

    def _not_sent(self, error: Exception, message: Message, plain: Producer | None) -> None:
        """Our producer did not take the message: hold it, report its failure, or raise. `plain`: the one that did not, which another
        thread may have replaced since."""
        raise NotImplementedError

    def _refuse_outside(self) -> None:
        """A transactional producer has no open transaction."""
        raise NotImplementedError

    def _poll_on(self, timeout: object) -> int:
        """The rest of a `poll` that found nothing due."""
        raise NotImplementedError

    def _look(self) -> None:
        """Find out whether error_cb or throttle_cb has to be called."""
        raise NotImplementedError


def message_of(
    reports: Reports,
    topic: str,
    value: object,
    key: object,
    partition: int | None,
    headers: MessageHeaders | None,
    timestamp: int | None,
    callback: Callback | None,
) -> Message:
    """The message of a `produce` that begins now."""
    now = time()
    return Message(reports, topic, value, key, partition, headers, int(now * 1000.0) if timestamp is None else timestamp, callback, now)


def as_bytes(given: object, name: str) -> bytes:
    """A key or value as bytes. Text is encoded as UTF-8."""
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, memoryview) and given.readonly:
        return bytes(given)
    raise TypeError(f"{name} must be bytes, str or None (a bytes-like object that nothing can change), not {type(given).__name__}")


def listed_headers(headers: object) -> MessageHeaders | None:
    """The headers as our producer takes them; None for none."""
    if isinstance(headers, dict):
        pairs: list[Any] = list(headers.items())
    elif isinstance(headers, list):
        pairs = headers
    else:
        raise TypeError(f"expected headers to be dict or list of (key, value) tuples, not {type(headers).__name__}")
    return [header(pair) for pair in pairs] or None


def header(pair: object) -> tuple[str, bytes | None]:
    """One header, with its value as bytes."""
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
        raise TypeError(f"Headers are expected to be a tuple of (key, value), with a str as key, not {pair!r:.100}")
    value = pair[1]
    if value is None or isinstance(value, bytes):
        return pair[0], value
    if isinstance(value, str):
        return pair[0], value.encode()
    raise TypeError(f"header {pair[0]!r}: its value must be bytes, str or None, not {type(value).__name__}")
