"""Reading partitions of the ledger from their leaders, up to the high watermark that they have when the reading begins (read_uncommitted).

The last stable offset is not waited for: another sink's open transaction in the same partition would hold it back for as long as it likes.
What counts of the log, `ledger_scan` says. Whatever disturbs a reading begins it anew.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from producer.wire.codes import Api, ErrorCode
from producer.wire.messages.fetch import PartitionData
from txn.envoy import Deadline, Envoy, Unanswered, refuse
from txn.ledger_scan import Scan
from txn.ledger_topic import Leaders, find_topic
from txn.loan import name
from txn.raw_log import EARLIEST, LATEST, fetch, offset_of

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
        self._tp = (topic, partition)
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
        said = await offset_of(self._envoy, self._leader, self._tp, timestamp)
        refuse(Api.LIST_OFFSETS, said.error_code, self._name)
        return said.offset

    async def _fetch(self, offset: int) -> PartitionData:
        data = await fetch(self._envoy, self._leader, self._tp, offset, bytes_max=CHUNK_BYTES)
        if data.error_code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise Unanswered(f"{self._name} was changed while it was read: nothing is at offset {offset} any more")
        refuse(Api.FETCH, data.error_code, self._name)
        return data

    @property
    def _name(self) -> str:
        return name(self._tp)
