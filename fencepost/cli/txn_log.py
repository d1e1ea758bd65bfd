"""Reads the newest state of a transactional id from the coordinator's own log.

The log says more than DescribeTransactions: whether the end of the previous transaction bumped the epoch. It reads a partition to its end,
so callers ask only if the answer matters.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker_stub.cluster.coordinator_partition import partition_for
from fencepost.broker_stub.cluster.topics import STATE_TOPIC
from fencepost.broker_stub.transactions.records import read_txn, txn_key
from fencepost.broker_stub.transactions.states import Txn
from fencepost.producer.wire.codecs.codec import CorruptBatch
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.errors import Malformed
from fencepost.producer.wire.records import read_records
from fencepost.producer.wire.records.batch_header import iter_batches
from fencepost.txn.errors import NotPermitted
from fencepost.txn.protocol.cluster_client import ClusterClient, Unanswered, refuse
from fencepost.txn.recovery.raw_log import EARLIEST, fetch, offset_of
from fencepost.txn.shared.participation import TP, name

CHUNK_BYTES: Final = 4 * 1024 * 1024
BUMPED_SINCE: Final = 2
"""The transaction version in which each end bumps the epoch (KIP-890)."""


async def ended_with_a_bump(client: ClusterClient, transactional_id: str, identity: tuple[int, int]) -> bool:
    """Whether the coordinator's newest record is the end of a transaction that bumped the epoch to this identity.

    A transaction of an older client, or from before the cluster's upgrade, keeps its identity at its end. The answer is also False if the
    client may not read the log (READ on `__transaction_state`).
    """
    try:
        txn = await _last(client, transactional_id)
    except NotPermitted:
        return False
    return txn is not None and txn.client_version >= BUMPED_SINCE and (txn.producer_id, txn.epoch) == identity


async def _last(client: ClusterClient, transactional_id: str) -> Txn | None:
    (topic,) = (await client.metadata([STATE_TOPIC])).topics
    refuse(Api.METADATA, topic.error_code, STATE_TOPIC)
    index = partition_for(transactional_id, len(topic.partitions))
    leader = next((each.leader_id for each in topic.partitions if each.partition_index == index), -1)
    key = txn_key(transactional_id)
    newest = await _newest(client, leader, (STATE_TOPIC, index), key)
    if newest is None:
        return None
    try:
        return read_txn(key, newest)[1]
    except Malformed as error:
        raise Unanswered(f"the coordinator's log of {transactional_id!r} cannot be read: {error}") from None


async def _newest(client: ClusterClient, leader: int, tp: TP, key: bytes) -> bytes | None:
    """The newest value of the key in the partition."""
    said = await offset_of(client, leader, tp, EARLIEST)
    refuse(Api.LIST_OFFSETS, said.error_code, name(tp))
    offset, newest = said.offset, None
    while True:
        data = await fetch(client, leader, tp, offset, bytes_max=CHUNK_BYTES)
        refuse(Api.FETCH, data.error_code, name(tp))
        before = offset
        try:
            for header, batch in iter_batches(data.records or b""):
                offset = max(offset, header.last_offset + 1)
                for record in read_records(batch) if not header.is_control else ():
                    newest = record.value if record.key == key else newest
        except CorruptBatch as error:
            raise Unanswered(f"{name(tp)} has a batch that cannot be read: {error}") from None
        if offset >= data.high_watermark or offset == before:
            return newest
