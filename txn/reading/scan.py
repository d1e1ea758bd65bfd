"""One partition's answers to Fetch, one after another, from an offset on. It decodes no batches.

It looks the leader up again when it changes. It waits for no missing record: an empty answer from a log that continues means that there are
no records up to its end.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from fencepost.producer.wire.codecs.codec import CorruptBatch
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from fencepost.producer.wire.records.batch_header import iter_batches
from fencepost.txn.protocol.cluster_client import ClusterClient, Unanswered, refuse, the_one
from fencepost.txn.reading.errors import OffsetsGone, Unreadable
from fencepost.txn.reading.limits import EARLIEST, LATEST, Isolation, Limits
from fencepost.txn.reading.positions import UNKNOWN, Unheard, leaders, list_offsets, patiently

FETCH_VERSIONS: Final = range(4, 13)
"""Versions of Fetch with topic names."""


class Answer(Struct, frozen=True):
    """The bytes of an answer, and the offset after them."""

    data: PartitionData
    next_offset: int


class Scan:
    """See the module. `until`: the first offset that is not wanted."""

    def __init__(self, client: ClusterClient, topic: str, partition: int, until: int, isolation: Isolation, limits: Limits) -> None:
        self._client = client
        self._topic = topic
        self._partition = partition
        self._until = until
        self._isolation = isolation
        self._limits = limits
        self._leader: int | None = None

    async def fetch(self, offset: int) -> Answer:
        """The records from this offset on, as far as one answer has them. Raises OffsetsGone, PartitionGone, ReadTimeout, Unreadable."""
        return await patiently(
            self._client, lambda: self._ask(offset), self._limits.timeout_ms / 1000.0, f"{self._name} from offset {offset}"
        )

    async def _ask(self, offset: int) -> Answer:
        try:
            data = await self._fetch(offset)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise await self._gone(offset)
            if data.error_code in UNKNOWN:
                raise Unheard(f"{self._name}: the brokers know no such partition")
            refuse(Api.FETCH, data.error_code, self._name)
        except Unanswered:
            self._leader = None
            raise
        return Answer(data, self._after(offset, data))

    async def _fetch(self, offset: int) -> PartitionData:
        place = (self._topic, self._partition)
        if self._leader is None:
            self._leader = (await leaders(self._client, [place]))[place]
        limits = self._limits
        asked = FetchPartition(partition=self._partition, fetch_offset=offset, partition_max_bytes=limits.fetch_bytes)
        request = FetchRequest(
            max_wait_ms=limits.fetch_max_wait_ms,
            min_bytes=limits.fetch_min_bytes,
            max_bytes=limits.fetch_bytes,
            isolation_level=self._isolation.code,
            topics=[FetchTopic(topic=self._topic, partitions=[asked])],
        )
        answer: FetchResponse = await self._client.ask(self._leader, request, FETCH_VERSIONS)
        refuse(Api.FETCH, answer.error_code, self._name)
        return the_one(the_one(answer.responses, self._name).partitions, self._name)

    def _after(self, offset: int, data: PartitionData) -> int:
        following = offset
        try:
            for header, _ in iter_batches(data.records or b""):
                following = max(following, header.last_offset + 1)
        except CorruptBatch as error:
            raise Unreadable(f"{self._name} from offset {offset}: {error}") from None
        if following > offset:
            return following
        end = data.last_stable_offset if self._isolation is Isolation.READ_COMMITTED else data.high_watermark
        if end >= self._until:
            return end  # Compaction removed all records between here and there.
        raise Unanswered(f"{self._name} ends at offset {end}, and is wanted up to {self._until}")

    async def _gone(self, offset: int) -> OffsetsGone | Unanswered:
        place = (self._topic, self._partition)
        begin = (await list_offsets(self._client, {place: EARLIEST}, self._isolation))[place]
        end = (await list_offsets(self._client, {place: LATEST}, Isolation.READ_UNCOMMITTED))[place]
        if begin is None or end is None or begin <= offset <= end:
            return Unanswered(f"{self._name}: offset {offset} was out of range, and is not any more")
        return OffsetsGone(self._topic, self._partition, offset, begin, end)

    @property
    def _name(self) -> str:
        return f"{self._topic}-{self._partition}"
