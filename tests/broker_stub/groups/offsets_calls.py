"""Requests for committed offsets to a cluster without sockets, and what `__consumer_offsets` contains then."""

from __future__ import annotations

from fencepost.broker_stub.groups.coordinators import Shard
from fencepost.broker_stub.groups.state.classic_and_offset_records import GroupRecord, OffsetRecord, read_record
from fencepost.broker_stub.groups.state.consumer_offsets_log import Store
from fencepost.broker_stub.groups.state.pending_offsets import Committed, Key
from fencepost.broker_stub.replication.partition import Partition
from fencepost.producer.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from fencepost.producer.wire.records import read_records
from tests.broker_stub.groups.group_calls import Groups
from tests.broker_stub.stub_calls import Pending
from tests.broker_stub.transactions.txn_calls import Transactions


def partition_of(world: Groups | Transactions, group: str = "g") -> Partition:
    if isinstance(world, Transactions):
        return world.offsets_partition(group)
    replica = world.services.groups.shard_for(group, world.coordinator(group)).replica
    found = world.cluster.find(replica.partition.topic, replica.partition.index)
    assert found is not None
    return found


def shard_of(world: Groups | Transactions, group: str = "g") -> Shard:
    return world.services.groups.shard_for(group, partition_of(world, group).leader)


def records_in(partition: Partition) -> list[OffsetRecord | GroupRecord | None]:
    batches = [batch for header, batch in partition.log.batches() if not header.is_control]
    return [read_record(record.key or b"", record.value) for batch in batches for record in read_records(batch)]


def known(store: Store) -> tuple[dict[Key, Committed], dict[int, dict[Key, Committed | None]]]:
    """The committed offsets, and those that wait for the end of a transaction."""
    committed = {
        (group, topic, partition): each
        for group, topics in store.offsets.items()
        for topic, offsets in topics.items()
        for partition, each in offsets.items()
    }
    return committed, {pid: offsets for pid, offsets in store.pending._by_producer.items() if offsets}


def offset_commit(offset: int, *, group: str = "g", topic: str = "t", retention_ms: int = -1, metadata: str = "") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(committed_offset=offset, committed_metadata=metadata)
    return OffsetCommitRequest(
        group_id=group, retention_time_ms=retention_ms, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )


def offset_delete(group: str = "g", topic: str = "t") -> OffsetDeleteRequest:
    asked = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    return OffsetDeleteRequest(group_id=group, topics=[asked])


def code_of(pending: Pending) -> int:
    return int(pending.answer.topics[0].partitions[0].error_code)
