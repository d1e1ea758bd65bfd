"""Searches one partition for the marker that ended a transaction, from its first record on, in the raw log (read_uncommitted).

It reads only the headers of batches. It returns the marker, that there is none yet, or why none can be found there; `outcome` concludes
what that means.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fencepost.producer.errors import with_code
from fencepost.producer.wire.codecs.codec import CorruptBatch
from fencepost.producer.wire.codes import Api, ErrorCode, error_name
from fencepost.producer.wire.messages.fetch import PartitionData
from fencepost.producer.wire.messages.metadata import MetadataResponse
from fencepost.producer.wire.records.batch_header import BatchHeader, iter_batches
from fencepost.producer.wire.records.control_batch import ControlType, read_marker
from fencepost.txn.errors import NotPermitted
from fencepost.txn.protocol.cluster_client import ClusterClient, Unanswered, refuse
from fencepost.txn.recovery.outcome import Evidence, Marker, Reading, read_marker_of
from fencepost.txn.recovery.raw_log import EARLIEST, fetch, offset_of
from fencepost.txn.recovery.token import PreparedTransaction, WrittenPartition
from fencepost.txn.shared.participation import name

CHUNK_BYTES: Final = 4 * 1024 * 1024
UNMARKED: Final = (
    "the transaction's first offset there is not known, and with transaction version 1 earlier transactions ended with the same epoch"
)
OFFSETS: Final = "__consumer_offsets"
"""This topic's partitions are never shared, and a prepared transaction has had all its offsets acknowledged there."""
GONE: Final = "there is no such partition (any more)"


async def look_for_markers(client: ClusterClient, token: PreparedTransaction) -> list[Evidence]:
    """The evidence of each partition of the token. A partition that cannot be asked now does not delay the others."""
    if not token.partitions:
        return []
    metadata = await client.metadata(sorted({place.topic for place in token.partitions}))
    return list(await asyncio.gather(*(_Search(client, token, place).run(metadata) for place in token.partitions)))


class _Search:
    """The evidence of one partition."""

    def __init__(self, client: ClusterClient, token: PreparedTransaction, place: WrittenPartition) -> None:
        self._client = client
        self._token = token
        self._place = place
        self._tp = (place.topic, place.partition)
        self._leader = -1

    async def run(self, metadata: MetadataResponse) -> Evidence:
        try:
            leader = _leader(metadata, self._place)
            if leader is None:
                return self._lost(GONE)
            if leader < 0:
                return self._evidence(None, "it has no leader at the moment")
            blind = self._place.offset is None and self._token.transaction_version < 2
            if blind and self._place.topic != OFFSETS:
                return self._lost(UNMARKED)
            self._leader = leader
            return await self._scan(blind=blind)
        except Unanswered as error:
            return self._evidence(None, str(error))
        except NotPermitted as error:
            return self._lost(str(error))

    async def _scan(self, *, blind: bool) -> Evidence:
        first = self._place.offset
        last = _LastOfEpoch(self._token)
        begin = await self._log_start()
        offset = begin if first is None else max(first, begin)
        intact = False
        while True:
            data = await self._fetch(offset)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return self._lost(f"offset {offset} is beyond the log's end")
            batches = _read(data, self._token.producer_id)
            for header, marker in batches:
                offset = max(offset, header.last_offset + 1)
                if marker is None:
                    intact = intact or self._is_first(header)
                    last.wrote(header)
                    continue
                committed = marker == ControlType.COMMIT
                if blind:
                    last.ended(header, committed=committed)
                    continue
                match read_marker_of(self._token, epoch=header.producer_epoch, committed=committed, intact=intact):
                    case Reading.OURS:
                        return self._evidence(
                            Marker(self._place.topic, self._place.partition, header.base_offset, header.producer_epoch, committed)
                        )
                    case Reading.PAST:
                        return self._lost("its marker is gone (deleted or compacted), and only one of a later transaction is there")
            if offset >= data.high_watermark or not batches:
                break
        if blind and last.end is not None:
            header, committed = last.end
            return self._evidence(Marker(self._place.topic, self._place.partition, header.base_offset, header.producer_epoch, committed))
        if first is None or begin <= first:
            return self._evidence(None)
        return self._lost(
            f"the log begins at offset {begin} and the transaction at {first}: its marker may have been deleted with its records"
        )

    async def _log_start(self) -> int:
        said = await offset_of(self._client, self._leader, self._tp, EARLIEST)
        refuse(Api.LIST_OFFSETS, said.error_code, name(self._tp))
        return said.offset

    async def _fetch(self, offset: int) -> PartitionData:
        data = await fetch(self._client, self._leader, self._tp, offset, bytes_max=CHUNK_BYTES)
        if data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            refuse(Api.FETCH, data.error_code, name(self._tp))
        return data

    def _is_first(self, header: BatchHeader) -> bool:
        first = self._place.offset
        ours = (header.producer_id, header.producer_epoch) == self._token.identity
        return ours and first is not None and header.base_offset <= first <= header.last_offset

    def _evidence(self, marker: Marker | None, why: str = "no marker of it yet") -> Evidence:
        return Evidence(self._place.topic, self._place.partition, marker, why)

    def _lost(self, why: str) -> Evidence:
        return Evidence(self._place.topic, self._place.partition, why=why, lost=True)


class _LastOfEpoch:
    """The token does not tell the transaction's first offset, but the transaction wrote. It is the last of its epoch, so the end of the
    epoch's last records is its own. `end`: that marker, if it is there and not older than the transaction. A compaction may have removed
    the transaction's records."""

    def __init__(self, token: PreparedTransaction) -> None:
        self.end: tuple[BatchHeader, bool] | None = None
        self._token = token
        self._open = False

    def wrote(self, header: BatchHeader) -> None:
        if (header.producer_id, header.producer_epoch) == self._token.identity:
            self.end, self._open = None, True

    def ended(self, header: BatchHeader, *, committed: bool) -> None:
        if self._open:
            fenced = header.producer_epoch == self._token.producer_epoch + 1 and not committed
            ours = header.producer_epoch == self._token.producer_epoch or fenced
            young = self._token.started_ms is not None and header.max_timestamp >= self._token.started_ms
            self.end = (header, committed) if ours and young else None
        self._open = False


def _leader(metadata: MetadataResponse, place: WrittenPartition) -> int | None:
    """The leader: -1 if there is none now, None if the partition does not exist."""
    for topic in metadata.topics:
        if topic.name == place.topic:
            if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                refused = NotPermitted(f"topic {place.topic!r}: Metadata was refused with {error_name(topic.error_code)}")
                raise with_code(refused, topic.error_code)
            return next((each.leader_id for each in topic.partitions if each.partition_index == place.partition), None)
    return None


def _read(data: PartitionData, producer_id: int) -> list[tuple[BatchHeader, int | None]]:
    """Every batch, with its marker's kind if it is a marker of this producer."""
    found: list[tuple[BatchHeader, int | None]] = []
    try:
        for header, batch in iter_batches(data.records or b""):
            ends = header.is_control and header.producer_id == producer_id and header.records_count > 0
            found.append((header, read_marker(batch)[0] if ends else None))
    except CorruptBatch as error:
        raise Unanswered(f"a batch that cannot be read: {error}") from None
    return found
