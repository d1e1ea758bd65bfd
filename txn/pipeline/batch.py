"""One open transaction of a pipeline: which messages it has processed, and what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.txn.offsets import OffsetAndMetadata

if TYPE_CHECKING:
    from confluent_kafka import Message

TP = tuple[str, int]
"""A topic and a partition."""


class Batch:
    """See the module. `first`: for each partition the offset of the first message, where an abort goes back to. `next`: for each partition
    the offset after the last processed message, which the transaction commits. `ends_at`: when it is committed, full or not."""

    def __init__(self, transaction: Any, began: float, ends_at: float) -> None:
        self.transaction = transaction
        self.began = began
        self.ends_at = ends_at
        self.first: dict[TP, int] = {}
        self.next: dict[TP, OffsetAndMetadata] = {}
        self.read = 0
        self.written = 0
        self.dead = 0

    def note(self, messages: list[Message]) -> None:
        """These messages are processed, whether or not they made records."""
        self.read += len(messages)
        newest = last_of(messages)
        if not newest.keys() <= self.first.keys():
            self.first = first_of(messages) | self.first
        for tp, message in newest.items():
            epoch = message.leader_epoch()
            self.next[tp] = OffsetAndMetadata(offset_of(message) + 1, -1 if epoch is None else epoch)


def tp_of(message: Message) -> TP:
    """The message's partition."""
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return topic, partition


def offset_of(message: Message) -> int:
    """The message's offset."""
    offset = message.offset()
    assert offset is not None
    return offset


def last_of(messages: list[Message]) -> dict[TP, Message]:
    """The last message of each partition."""
    if not messages:
        return {}
    kind: Any = type(messages[0])
    # Without a loop in Python, because it runs for every message.
    return dict(zip(zip(map(kind.topic, messages), map(kind.partition, messages), strict=True), messages, strict=True))


def first_of(messages: list[Message]) -> dict[TP, int]:
    """The offset of the first message of each partition."""
    return {tp: offset_of(message) for tp, message in last_of(messages[::-1]).items()}
