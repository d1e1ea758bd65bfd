"""The requests of `fencepost txn` to coordinators and partition leaders, over the producer's own connections.

Every answer is a snapshot: a transaction may end between two requests. A transaction counts as hanging only if no coordinator knew it when
asked. This module prints nothing and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from fencepost.cli.options import TRANSACTION_STATES
from fencepost.cli.txn_log import ended_with_a_bump
from fencepost.producer.wire.codes import Api, ErrorCode, error_name
from fencepost.producer.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from fencepost.producer.wire.messages.describe_transactions import TransactionState
from fencepost.producer.wire.messages.end_txn import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from fencepost.producer.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from fencepost.producer.wire.messages.metadata import MetadataResponse
from fencepost.txn.errors import NotPermitted
from fencepost.txn.protocol.cluster_client import DENIED, ClusterClient, refuse, the_one
from fencepost.txn.protocol.describe import describe_transaction
from fencepost.txn.recovery.outcome import Outcome

AT_ONCE: Final = 500
"""Partitions, or producer ids, in one request."""

ENDED: Final = {"CompleteCommit": Outcome.COMMITTED, "CompleteAbort": Outcome.ABORTED}

TopicPartition = tuple[str, int]


class Listed(Struct, frozen=True):
    """A transactional id, as ListTransactions shows it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class OpenTransaction(Struct, frozen=True):
    """A transaction that is open in a partition, as the leader knows it. A `coordinator_epoch` of -1: the producer has no marker there
    yet."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


class Owner(Struct, frozen=True):
    """A transactional id that has the producer id of an open transaction. `has_it`: its coordinator will end the transaction by itself.
    `outcome`: how the coordinator ended it in the other partitions, if that is known."""

    transactional_id: str
    has_it: bool
    outcome: Outcome | None


class UnknownStates(NotPermitted):
    """Some names are not states of a transaction."""


async def list_transactions(
    client: ClusterClient,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> list[Listed]:
    """The transactions that the brokers coordinate and that the client may see."""
    await client.metadata()
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    least = 2 if pattern is not None else 1 if longer_than_ms >= 0 else 0
    found: list[Listed] = []
    for node_id in sorted(client.brokers):
        answer: ListTransactionsResponse = await client.ask(node_id, request, range(least, 3))
        refuse(Api.LIST_TRANSACTIONS, answer.error_code, f"broker {node_id}")
        if answer.unknown_state_filters:
            raise UnknownStates(
                f"no state of a transaction: {', '.join(map(_with_the_nearest, answer.unknown_state_filters))}; txn list --help names them"
            )
        found += [Listed(each.transactional_id, node_id, each.producer_id, each.transaction_state) for each in answer.transaction_states]
    return sorted(found, key=lambda each: each.transactional_id)


def _with_the_nearest(state: str) -> str:
    import difflib  # imported only for a misspelt name

    near = difflib.get_close_matches(state.lower(), TRANSACTION_STATES, n=1)
    return f"{state} (did you mean {TRANSACTION_STATES[near[0]]}?)" if near else state


async def described(client: ClusterClient, transactional_id: str) -> tuple[TransactionState | None, int]:
    """What the id's coordinator knows, if it knows the id, and the coordinator's broker id."""
    return await describe_transaction(client, transactional_id), await client.coordinator(transactional_id)


async def open_transactions(
    client: ClusterClient, *, topic: str | None, partition: int | None, broker: int | None
) -> tuple[list[OpenTransaction], dict[str, str]]:
    """Every transaction that is open in these partitions; and the topics that could not be checked, with the reason."""
    metadata = await client.metadata([topic] if topic is not None else None)
    if broker is not None and broker not in client.brokers:
        raise NotPermitted(f"there is no broker {broker}, only {', '.join(map(str, sorted(client.brokers)))}")
    by_leader, left_out = _partitions(metadata, partition=partition, broker=broker)
    found: list[OpenTransaction] = []
    for leader, places in sorted(by_leader.items()):
        for begin in range(0, len(places), AT_ONCE):
            found += await _describe_producers(client, leader, places[begin : begin + AT_ONCE], left_out)
    return found, left_out


async def owners(client: ClusterClient, several: Iterable[OpenTransaction]) -> dict[OpenTransaction, Owner]:
    """For each open transaction, the transactional id that has its producer id, if a coordinator knows one."""
    wanted = list(several)
    ids: dict[int, str] = {}
    pids = sorted({each.producer_id for each in wanted})
    for begin in range(0, len(pids), AT_ONCE):
        listed = await list_transactions(client, producer_ids=pids[begin : begin + AT_ONCE])
        ids.update({each.producer_id: each.transactional_id for each in listed})
    states = {name: await describe_transaction(client, name) for name in sorted(set(ids.values()))}
    found: dict[OpenTransaction, Owner] = {}
    for each in wanted:
        name = ids.get(each.producer_id)
        said = states[name] if name is not None else None
        if name is not None and said is not None:
            found[each] = await _owner(client, each, name, said)
    return found


async def _owner(client: ClusterClient, each: OpenTransaction, name: str, said: TransactionState) -> Owner:
    # From transaction version 2 on, each end bumps the epoch. So the state's outcome is that of the transaction with the previous epoch;
    # the outcome of earlier ones is unknown. With version 1 no outcome can be assigned, because several transactions share an epoch. The
    # version is the transaction's: an older client writes version 1 on a newer cluster.
    ended = ENDED.get(said.transaction_state) if said.producer_epoch == each.producer_epoch + 1 else None
    if ended is not None and not await ended_with_a_bump(client, name, (said.producer_id, said.producer_epoch)):
        ended = None
    partitions = {(topic.topic, index) for topic in said.topics for index in topic.partitions}
    return Owner(name, has_it=(each.topic, each.partition) in partitions, outcome=ended)


async def write_marker(client: ClusterClient, each: OpenTransaction, *, commit: bool) -> None:
    """End the transaction in this one partition, without a request to its coordinator."""
    metadata = await client.metadata([each.topic])
    by_leader, left_out = _partitions(metadata, partition=each.partition, broker=None)
    if not by_leader:
        raise NotPermitted(next(iter(left_out.values()), f"{each.topic}-{each.partition}: the brokers do not know the topic"))
    (leader,) = by_leader
    marker = WritableTxnMarker(
        producer_id=each.producer_id,
        producer_epoch=each.producer_epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=each.topic, partition_indexes=[each.partition])],
        coordinator_epoch=max(0, each.coordinator_epoch),
    )
    answer: WriteTxnMarkersResponse = await client.ask(leader, WriteTxnMarkersRequest(markers=[marker]))
    place = f"{each.topic}-{each.partition}"
    said = the_one(the_one(the_one(answer.markers, place).topics, place).partitions, place)
    refuse(Api.WRITE_TXN_MARKERS, said.error_code, place)


def _partitions(
    metadata: MetadataResponse, *, partition: int | None, broker: int | None
) -> tuple[dict[int, list[TopicPartition]], dict[str, str]]:
    """Partitions by their leader; and topics that cannot be checked, with the reason."""
    by_leader: dict[int, list[TopicPartition]] = {}
    left_out: dict[str, str] = {}
    for topic in metadata.topics:
        name = topic.name or ""
        if topic.error_code:
            left_out[name] = f"topic {name!r}: {error_name(topic.error_code)}"
            continue
        wanted = [each for each in topic.partitions if partition in (None, each.partition_index)]
        if partition is not None and not wanted:
            left_out[name] = f"topic {name!r} has no partition {partition}: it has {len(topic.partitions)}"
        for each in wanted:
            if each.leader_id < 0:
                left_out[name] = f"{name}-{each.partition_index} has no leader"
            elif broker is None or each.leader_id == broker:
                by_leader.setdefault(each.leader_id, []).append((name, each.partition_index))
    return by_leader, left_out


async def _describe_producers(
    client: ClusterClient, leader: int, places: list[TopicPartition], left_out: dict[str, str]
) -> list[OpenTransaction]:
    topics: dict[str, list[int]] = {}
    for name, index in places:
        topics.setdefault(name, []).append(index)
    request = DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics.items()])
    answer: DescribeProducersResponse = await client.ask(leader, request)
    found: list[OpenTransaction] = []
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code in DENIED or each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                left_out[topic.name] = f"{topic.name}-{each.partition_index}: {error_name(each.error_code)}"
                continue
            refuse(Api.DESCRIBE_PRODUCERS, each.error_code, f"{topic.name}-{each.partition_index}")
            found += [
                _open(topic.name, each.partition_index, state) for state in each.active_producers if state.current_txn_start_offset >= 0
            ]
    return found


def _open(topic: str, partition: int, state: ProducerState) -> OpenTransaction:
    return OpenTransaction(
        topic=topic,
        partition=partition,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        coordinator_epoch=state.coordinator_epoch,
        start_offset=state.current_txn_start_offset,
        last_timestamp_ms=state.last_timestamp,
    )
