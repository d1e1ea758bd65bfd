"""Reads partitions of the ledger from their leaders, up to the high watermark at the beginning (read_uncommitted).

It does not wait for the last stable offset, which another sink's open transaction in the same partition could hold back for any time.
`scan` decides which records count. After a disturbance the reading begins again. A process remembers its readings by keys, because a query
reads its sink's partition with each batch. It continues a reading if the same leader leads the same log, and the last batch that was read
is still there unchanged.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set
from typing import Final
from uuid import UUID

from msgspec import Struct

from fencepost.producer.foundations.address import Address
from fencepost.producer.foundations.rlock import RLock
from fencepost.producer.wire.codecs.codec import CorruptBatch
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.fetch import PartitionData
from fencepost.producer.wire.records.batch_header import iter_batches
from fencepost.txn.keyed_topic.scan import Scan
from fencepost.txn.keyed_topic.topic import leaders_of
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline, Unanswered, refuse, the_one
from fencepost.txn.recovery.raw_log import EARLIEST, LATEST, fetch, offset_of
from fencepost.txn.shared.participation import name

CHUNK_BYTES: Final = 1024 * 1024
MEMORIES_MAX: Final = 64


class Mark(Struct, frozen=True):
    """Identifies the log that was read. A new topic of the same name has another id. Each election has another leader epoch, so no part of
    the log was replaced. Deletion moves the start. `brokers`: the addresses, which tell clusters apart."""

    topic: str
    topic_id: UUID
    brokers: frozenset[Address]
    leader_epoch: int
    start: int


class Memory:
    """The readings, by topic, partition and keys. Any thread may use it."""

    def __init__(self) -> None:
        self._lock: Final = RLock()
        self._kept: OrderedDict[tuple[str, int, frozenset[bytes]], tuple[Mark, Scan]] = OrderedDict()

    def recall(self, mark: Mark, partition: int, wanted: Set[bytes], end: int) -> Scan | None:
        """A reading of this log that can be continued, or None."""
        with self._lock:
            known, scan = self._kept.get((mark.topic, partition, frozenset(wanted)), (None, None))
            if scan is None or known != mark or scan.position > end or scan.last is None:
                return None
            recalled = scan.copy()
        recalled.end = end
        return recalled

    def keep(self, mark: Mark, partition: int, wanted: Set[bytes], scan: Scan) -> None:
        """Keep a finished reading. If brokers tell no topic ids, none is kept."""
        if mark.topic_id.int == 0:
            return
        key = (mark.topic, partition, frozenset(wanted))
        with self._lock:
            self._kept[key] = (mark, scan.copy())
            self._kept.move_to_end(key)
            if len(self._kept) > MEMORIES_MAX:
                self._kept.popitem(last=False)


MEMORY: Final = Memory()


async def scan_partition(
    client: ClusterClient, topic: str, partition: int, deadline: Deadline, *, wanted: Set[bytes] | None = None
) -> Scan:
    """The partition, read from the beginning of its log to its present end."""
    return await client.again(lambda: _Reading(client, topic, partition, wanted).run(), deadline)


class _Reading:
    """One attempt."""

    def __init__(self, client: ClusterClient, topic: str, partition: int, wanted: Set[bytes] | None) -> None:
        self._client = client
        self._topic = topic
        self._partition = partition
        self._tp = (topic, partition)
        self._wanted = wanted
        self._leader = -1

    async def run(self) -> Scan:
        metadata = await self._client.metadata([self._topic])
        self._leader = (leaders_of(metadata, self._topic) or {}).get(self._partition, -1)
        if self._leader < 0:
            raise Unanswered(f"{self._name} has no leader at the moment")
        # Ask for the end first: records that are deleted between the two requests are then before the start, not after the end.
        end = await self._offset_of(LATEST)
        start = await self._offset_of(EARLIEST)
        topic = the_one(metadata.topics, self._name)
        epoch = next(each.leader_epoch for each in topic.partitions if each.partition_index == self._partition)
        mark = Mark(self._topic, topic.topic_id, frozenset(self._client.brokers.values()), epoch, start)
        scan = await self._recalled(mark, end) or Scan(self._topic, self._partition, start=start, end=end, wanted=self._wanted)
        while not scan.done:
            data = await self._fetch(scan.position)
            if not scan.feed(data.records or b""):
                # A new leader may not show the whole log yet. If its end counted, the newest entry could be missed.
                raise Unanswered(f"{self._name} gives nothing from offset {scan.position} on, and is to end at {end}")
        if self._wanted is not None:
            MEMORY.keep(mark, self._partition, self._wanted, scan)
        return scan

    async def _recalled(self, mark: Mark, end: int) -> Scan | None:
        """The reading to continue, if the log still has its last batch unchanged."""
        scan = MEMORY.recall(mark, self._partition, self._wanted, end) if self._wanted is not None else None
        if scan is None or scan.last is None:
            return None
        data = (await self._fetch(scan.last[0])).records or b""
        try:
            first = next(iter_batches(data), None)
        except CorruptBatch:
            return None
        if first is None or (first[0].base_offset, first[0].crc) != scan.last:
            return None
        scan.feed(data)
        return scan

    async def _offset_of(self, timestamp: int) -> int:
        said = await offset_of(self._client, self._leader, self._tp, timestamp)
        refuse(Api.LIST_OFFSETS, said.error_code, self._name)
        return said.offset

    async def _fetch(self, offset: int) -> PartitionData:
        data = await fetch(self._client, self._leader, self._tp, offset, bytes_max=CHUNK_BYTES)
        if data.error_code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise Unanswered(f"{self._name} was changed while it was read: nothing is at offset {offset} any more")
        refuse(Api.FETCH, data.error_code, self._name)
        return data

    @property
    def _name(self) -> str:
        return name(self._tp)
