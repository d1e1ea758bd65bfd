"""Counts records on their way to the brokers, and duplicate batches that a broker provably refused.

`Traffic` follows the journal of a stub or of a `FaultProxy`. It holds a few numbers for each producer and partition, for any number of
exchanges. It does not guess: it counts a duplicate only if an answer proves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import UUID

from fencepost.broker_stub import Exchange
from fencepost.producer.wire import (
    ErrorCode,
    Message,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from fencepost.producer.wire.records import BatchHeader, read_header

_REMEMBERED: Final = 16
"""Answers to keep for each producer and partition. A broker recognises a producer's newest five batches, and at most five are
unresolved."""


class _Home(NamedTuple):
    """A broker's state of a producer in a partition. The topic is a name or an id, as in the request."""

    topic: str | UUID
    partition: int
    producer_id: int


class _Batch(NamedTuple):
    """The identity of a batch within its producer and partition."""

    epoch: int
    base_sequence: int
    records: int


class Traffic:
    """Counts of Produce requests; `journal.follow(traffic)` starts it.

    `records` counts each record once for each request that carried it to the stub, or from the proxy towards a broker. A request that was
    lost with the proxy's connection counts, although perhaps no broker has read it.

    `duplicates_refused` counts batches that were sent again and answered as duplicates. Kafka answers a duplicate of a producer's newest
    five batches without an error, with the original's offset. So two answers with the same offset for the same batch prove a duplicate, and
    DUPLICATE_SEQUENCE_NUMBER proves one. The count is a lower bound. If a connection ends before the broker's first answer, the second
    answer may be about an append or about a duplicate, and does not count.
    """

    def __init__(self) -> None:
        self.records = 0
        self.duplicates_refused = 0
        self._offsets: dict[_Home, dict[_Batch, int]] = {}

    def asked(self, exchange: Exchange) -> None:
        """Count the records of a request."""
        self.records += sum(header.records_count for _, _, header in _batches(exchange.request))

    def answered(self, exchange: Exchange) -> None:
        """Count the duplicates in a response."""
        if not isinstance(exchange.response, ProduceResponse):
            return
        answers = {(_topic(topic), each.index): each for topic in exchange.response.responses for each in topic.partition_responses}
        for topic, partition, header in _batches(exchange.request):
            answer = answers.get((topic, partition))
            if answer is not None and header.producer_id >= 0:
                self.duplicates_refused += self._is_duplicate(_Home(topic, partition, header.producer_id), header, answer)

    def _is_duplicate(self, home: _Home, header: BatchHeader, answer: PartitionProduceResponse) -> bool:
        if answer.error_code != ErrorCode.NONE or answer.base_offset < 0:
            return answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        known = self._offsets.setdefault(home, {})
        batch = _Batch(header.producer_epoch, header.base_sequence, header.records_count)
        if known.get(batch) == answer.base_offset:
            return True
        known[batch] = answer.base_offset
        if len(known) > _REMEMBERED:
            del known[next(iter(known))]
        return False


def _batches(request: Message) -> Iterator[tuple[str | UUID, int, BatchHeader]]:
    """The batches of a Produce request; none for any other request."""
    if isinstance(request, ProduceRequest):
        for topic in request.topic_data:
            for each in topic.partition_data:
                if each.records is not None:
                    yield _topic(topic), each.index, read_header(each.records)


def _topic(topic: TopicProduceData | TopicProduceResponse) -> str | UUID:
    return topic.name or topic.topic_id
