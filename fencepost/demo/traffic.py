"""What went to the brokers, counted while it goes: records, and duplicate batches that a broker demonstrably refused.

`Traffic` follows the journal of a stub or of a `FaultProxy` and holds a few numbers per producer and partition, however many exchanges
there are. It never guesses: what no answer proves is not counted.
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
"""Answers per producer and partition. A broker knows the newest five batches of each again, and no more than five are unresolved."""


class _Home(NamedTuple):
    """Where a broker keeps what it knows of a producer. A topic goes by name or by id, as the request had it."""

    topic: str | UUID
    partition: int
    producer_id: int


class _Batch(NamedTuple):
    """What makes two batches of one producer and partition the same batch."""

    epoch: int
    base_sequence: int
    records: int


class Traffic:
    """Counts of Produce requests; `journal.follow(traffic)` starts it.

    `records` counts each record as often as a request carried it to a broker: to the stub, or from the proxy towards a broker, where a
    request that was lost with its connection counts although no broker may have read it.

    `duplicates_refused` counts batches that were sent again and answered as duplicates. Kafka answers a duplicate of a producer's newest
    five batches as it did the original, without error and with the original's offset; so it is proven when two answers name the same offset
    for the same batch, and by DUPLICATE_SEQUENCE_NUMBER, which says it outright. That is a lower bound. When a connection ends before the
    broker's first answer, the second one may be that of an append or of a duplicate, and is not counted.
    """

    def __init__(self) -> None:
        self.records = 0
        self.duplicates_refused = 0
        self._offsets: dict[_Home, dict[_Batch, int]] = {}

    def asked(self, exchange: Exchange) -> None:
        """Counts the records."""
        self.records += sum(header.records_count for _, _, header in _batches(exchange.request))

    def answered(self, exchange: Exchange) -> None:
        """Counts the duplicates."""
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
    """The batches of a Produce request; of any other, none."""
    if isinstance(request, ProduceRequest):
        for topic in request.topic_data:
            for each in topic.partition_data:
                if each.records is not None:
                    yield _topic(topic), each.index, read_header(each.records)


def _topic(topic: TopicProduceData | TopicProduceResponse) -> str | UUID:
    return topic.name or topic.topic_id
