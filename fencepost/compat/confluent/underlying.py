"""Our producer under the one that the program sees: plain or transactional, with the open transaction."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fencepost.compat.confluent.message import Message
from fencepost.producer import FencepostError, Producer, ProducerStats
from fencepost.txn import Transaction, TransactionalProducer

log = logging.getLogger("fencepost.compat.confluent")


class Underlying:
    """See the module. `spoilt`: why the open transaction can only be aborted, although our producer does not know: a message failed before
    it got there. `ending`: the open transaction is being committed, and takes no more messages."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = dict(settings)
        self.plain: Producer | None = None
        self.transactional: TransactionalProducer | None = None
        self.transaction: Transaction | None = None
        self.spoilt: Exception | None = None
        self.ending = False
        if "transactional_id" in settings:
            # Without a wait: the call that must not wait is `produce`, and every other one brings its own limit.
            self.transactional = TransactionalProducer({**settings, "max_block_ms": 0})
        else:
            self.plain = Producer(self.settings)

    @property
    def producer(self) -> Producer | TransactionalProducer:
        """Our producer."""
        producer = self.plain or self.transactional
        assert producer is not None
        return producer

    @property
    def takes_messages(self) -> bool:
        """Whether messages can be produced: without transactions always, otherwise in an open one."""
        return self.plain is not None or (self.transaction is not None and not self.ending)

    def set(self, transaction: Transaction | None) -> None:
        """Another transaction is open, or none."""
        self.transaction = transaction
        self.spoilt = None
        self.ending = False

    def spoil(self, transaction: Transaction, text: str) -> None:
        """The transaction can only be aborted. Without effect if it is over."""
        if transaction is self.transaction and self.spoilt is None:
            self.spoilt = FencepostError(text)

    def send(self, message: Message, transaction: Transaction | None) -> None:
        """Send a message that was held, in the transaction that it was produced in. Raises as `try_send` does."""
        callback = message if message._callback is not None else None
        send: Any = self.plain.try_send if self.plain is not None else transaction.send if transaction is not None else None
        if send is None:
            raise FencepostError("the transaction of the message is over")
        send(
            message._topic,
            message._value,
            key=message._key,
            partition=message._partition,
            headers=message._headers,
            timestamp=message._timestamp,
            on_delivery=callback,
        )

    def partitions_for(self, topic: str, timeout_s: float) -> list[int]:
        """The topic's partitions. Raises as `Producer.partitions_for` does."""
        return self.producer.partitions_for(topic, timeout_s)

    def stats(self) -> ProducerStats:
        """Our producer's numbers."""
        return self.producer.stats()

    def heard_from_brokers(self) -> bool:
        """Whether brokers answer: a topic that is not known then does not exist."""
        stats = self.stats()
        return stats.metadata_age is not None and any(broker.connected for broker in stats.brokers.values())

    def all_down(self) -> bool:
        """Whether no broker can be connected to. A connection that is only being made, as to a far broker, is no failure."""
        brokers = self.stats().brokers.values()
        return bool(brokers) and all(broker.connect_failed for broker in brokers)

    def close(self, timeout_s: float) -> None:
        """Close our producer. What is not delivered by then fails."""
        try:
            self.producer.close(timeout_s)
        except FencepostError as error:
            log.error("close: %s", error)
