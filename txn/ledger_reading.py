"""Reading partitions of the ledger from their leaders, up to the high watermark that they have when the reading begins (read_uncommitted).

The last stable offset is not waited for: another sink's open transaction in the same partition would hold it back for as long as it likes.
What counts of the log, `ledger_scan` says. Whatever disturbs a reading begins it anew.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from producer.wire.codes import Api, ErrorCode
from producer.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from producer.wire.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from txn.envoy import Deadline, Envoy, Unanswered, refuse
from txn.ledger_scan import Scan
from txn.ledger_topic import Leaders, find_topic

FETCH_VERSIONS: Final = range(4, 13)
"""Those in which topics go by their names."""
LIST_VERSIONS: Final = range(2, 12)
"""Those with an isolation level."""
EARLIEST: Final = -2
LATEST: Final = -1
CONSUMER: Final = -1
CHUNK_BYTES: Final = 1024 * 1024


async def scan_partition(envoy: Envoy, topic: str, partition: int, deadline: Deadline, *, wanted: Container[bytes] | None = None) -> Scan:
    """The partition, read from the beginning of its log to the end that it has now."""
    return await envoy.again(lambda: _Reading(envoy, topic, partition, wanted).run(), deadline)


class _Reading:
    """One attempt."""

    def __init__(self, envoy: Envoy, topic: str, partition: int, wanted: Container[bytes] | None) -> None:
        self._envoy = envoy
        self._topic = topic
        self._partition = partition
        self._wanted = wanted
        self._leader = -1

    async def run(self) -> Scan:
        leaders: Leaders = await find_topic(self._envoy, self._topic) or {}
        self._leader = leaders.get(self._partition, -1)
        if self._leader < 0:
            raise Unanswered(f"{self._name} has no leader at the moment")
        # The end first: what is deleted between the two questions is then before the start, not behind the end.
        end = await self._offset_of(LATEST)
        start = await self._offset_of(EARLIEST)
        scan = Scan(self._topic, self._partition, start=start, end=end, wanted=self._wanted)
        while not scan.done:
            data = await self._fetch(scan.position)
            if not scan.feed(data.records or b""):
                # A new leader may not show all of it yet. To take this for the end could be to overlook the newest entry.
                raise Unanswered(f"{self._name} gives nothing from offset {scan.position} on, and is to end at {end}")
        return scan

    async def _offset_of(self, timestamp: int) -> int:
        asked = ListOffsetsPartition(partition_index=self._partition, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=CONSUMER, topics=[ListOffsetsTopic(name=self._topic, partitions=[asked])])
        answer: ListOffsetsResponse = await self._envoy.ask(self._leader, request, LIST_VERSIONS)
        said = answer.topics[0].partitions[0]
        refuse(Api.LIST_OFFSETS, said.error_code, self._name)
        return said.offset

    async def _fetch(self, offset: int) -> PartitionData:
        asked = FetchPartition(partition=self._partition, fetch_offset=offset, partition_max_bytes=CHUNK_BYTES)
        request = FetchRequest(max_bytes=CHUNK_BYTES, topics=[FetchTopic(topic=self._topic, partitions=[asked])])
        answer: FetchResponse = await self._envoy.ask(self._leader, request, FETCH_VERSIONS)
        refuse(Api.FETCH, answer.error_code, self._name)
        if not answer.responses or not answer.responses[0].partitions:
            raise Unanswered(f"{self._name} is not read at the moment: the broker holds answers back for a quota")
        data = answer.responses[0].partitions[0]
        if data.error_code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise Unanswered(f"{self._name} was changed while it was read: nothing is at offset {offset} any more")
        refuse(Api.FETCH, data.error_code, self._name)
        return data

    @property
    def _name(self) -> str:
        return f"{self._topic}-{self._partition}"
