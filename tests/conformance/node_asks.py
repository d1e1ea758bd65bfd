"""Requests to the broker that the caller names, and their responses in short form.

Each request has its own connection, so that it may wait while others are answered. The functions retry nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final

from fencepost.producer import wire
from fencepost.producer.wire import error_name
from fencepost.producer.wire.messages import (
    add_to_txn,
    cluster,
    describe_producers,
    describe_transactions,
    end_txn,
    group_admin,
    group_offsets,
    groups,
    offset_for_leader_epoch,
    replicas,
    topic_admin,
    txn_offsets,
)
from fencepost.producer.wire.records import iter_batches, read_records
from tests.broker_stub.stub_calls import only
from tests.conformance.asks_groups import offset_fetch_group
from tests.conformance.raw import RawConnection

WAIT_S: Final = 60.0
PATIENT_MS: Final = 60_000
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3

Identity = tuple[int, int]
Show = Callable[[Any], str]


class Asked:
    """A request that was sent. `show` is the short form of its response."""

    def __init__(self, address: tuple[str, int], request: wire.Message, version: int, show: Show) -> None:
        self._request, self._version, self._show = request, version, show
        self._connection = RawConnection(address, timeout=WAIT_S)
        self._connection.send(request, version)

    def waits(self, seconds: float) -> bool:
        """Whether no response comes within this time."""
        return self._connection.quiet(seconds)

    def response(self) -> Any:
        with self._connection:
            return self._connection.receive(self._request, self._version)

    @property
    def told(self) -> str:
        return self._show(self.response())


class NodeAsks:
    """Asks the brokers at these addresses."""

    def __init__(self, addresses: dict[int, tuple[str, int]]) -> None:
        self._addresses = addresses
        self._run = secrets.token_hex(4)

    def name(self, what: str) -> str:
        """A name that no other run uses."""
        return f"{what}-{self._run}"

    def send(self, node: int, request: wire.Message, version: int, show: Show) -> Asked:
        return Asked(self._addresses[node], request, version, show)

    # -- topics

    def create(self, node: int, *topics: wire.CreatableTopic) -> Asked:
        request = wire.CreateTopicsRequest(topics=list(topics), timeout_ms=30_000)
        return self.send(node, request, 7, lambda answer: _results(answer.topics))

    def delete_topic(self, node: int, name: str) -> Asked:
        request = topic_admin.DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
        return self.send(node, request, 5, lambda answer: _results(answer.responses))

    def elect_preferred(self, node: int, name: str) -> Asked:
        named = replicas.TopicPartitions(topic=name, partitions=[0])
        request = replicas.ElectLeadersRequest(election_type=0, topic_partitions=[named], timeout_ms=30_000)
        return self.send(node, request, 2, lambda answer: _results(answer.replica_election_results[0].partition_result))

    def reassign(self, node: int, name: str, nodes: Sequence[int]) -> Asked:
        partition = replicas.ReassignablePartition(partition_index=0, replicas=list(nodes))
        request = replicas.AlterPartitionReassignmentsRequest(topics=[replicas.ReassignableTopic(name=name, partitions=[partition])])
        return self.send(node, request, 0, lambda answer: _results(answer.responses[0].partitions))

    def metadata(self, node: int, name: str, *, create: bool = False) -> wire.MetadataResponse:
        request = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=name)], allow_auto_topic_creation=create)
        answer: wire.MetadataResponse = self.send(node, request, 12, str).response()
        return answer

    def leader(self, node: int, name: str) -> int:
        """The leader that this broker names; -1 for none."""
        topic = self.metadata(node, name).topics[0]
        return topic.partitions[0].leader_id if topic.partitions else -1

    def isr(self, node: int, name: str) -> list[int]:
        topic = self.metadata(node, name).topics[0]
        return sorted(topic.partitions[0].isr_nodes) if topic.partitions else []

    def topic_error(self, node: int, name: str, *, create: bool = False) -> str:
        return error_name(self.metadata(node, name, create=create).topics[0].error_code)

    def show_metadata(self, node: int, name: str) -> str:
        answer = self.metadata(node, name)
        (partition,) = answer.topics[0].partitions
        brokers = sorted(each.node_id for each in answer.brokers)
        return (
            f"{error_name(partition.error_code)} leader={partition.leader_id} epoch={partition.leader_epoch}"
            f" isr={sorted(partition.isr_nodes)} offline={sorted(partition.offline_replicas)} brokers={brokers}"
        )

    def show_cluster(self, node: int) -> str:
        """DescribeCluster, with the fenced brokers."""
        request = cluster.DescribeClusterRequest(include_fenced_brokers=True)
        answer = self.send(node, request, 2, str).response()
        return ", ".join(sorted(f"{each.broker_id}{' fenced' if each.is_fenced else ''}" for each in answer.brokers))

    # -- records

    def produce(
        self,
        node: int,
        name: str,
        data: bytes,
        *,
        acks: int = -1,
        timeout_ms: int = PATIENT_MS,
        txn: str | None = None,
        version: int = 9,
    ) -> Asked:
        part = wire.PartitionProduceData(index=0, records=data)
        topics = [wire.TopicProduceData(name=name, partition_data=[part])]
        request = wire.ProduceRequest(acks=acks, timeout_ms=timeout_ms, transactional_id=txn, topic_data=topics)
        return self.send(node, request, version, _show_produced)

    def fetch(self, node: int, name: str, offset: int = 0, *, epoch: int = -1, wait_ms: int = 0) -> Asked:
        part = wire.FetchPartition(partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1 << 20)
        topics = [wire.FetchTopic(topic=name, partitions=[part])]
        return self.send(node, wire.FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 24, topics=topics), 12, _show_fetched)

    def offset(self, node: int, name: str, timestamp: int, *, epoch: int = -1) -> str:
        """ListOffsets."""
        part = wire.ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=timestamp)
        request = wire.ListOffsetsRequest(replica_id=-1, topics=[wire.ListOffsetsTopic(name=name, partitions=[part])])
        answer = only(self.send(node, request, 7, str).response())
        return f"{error_name(answer.error_code)} {answer.offset} epoch={answer.leader_epoch}"

    def offsets(self, node: int, name: str, *, epoch: int = -1) -> str:
        """The latest and the earliest offset, and the one of the largest timestamp."""
        return "; ".join(self.offset(node, name, timestamp, epoch=epoch) for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP))

    def epoch_end(self, node: int, name: str, leader_epoch: int) -> str:
        """OffsetForLeaderEpoch."""
        part = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=leader_epoch)
        topics = [offset_for_leader_epoch.OffsetForLeaderTopic(topic=name, partitions=[part])]
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
        answer = only(self.send(node, request, 4, str).response())
        return f"{error_name(answer.error_code)} epoch={answer.leader_epoch} end={answer.end_offset}"

    def producer_in(self, node: int, name: str, pid: int) -> str:
        """DescribeProducers, for one producer."""
        topic = describe_producers.TopicRequest(name=name, partition_indexes=[0])
        answer = only(self.send(node, wire.DescribeProducersRequest(topics=[topic]), 0, str).response())
        found = [f"sequence={each.last_sequence}" for each in answer.active_producers if each.producer_id == pid]
        return f"{error_name(answer.error_code)} {', '.join(found)}"

    def delete_records(self, node: int, name: str, offset: int, *, timeout_ms: int) -> Asked:
        part = topic_admin.DeleteRecordsPartition(partition_index=0, offset=offset)
        topics = [topic_admin.DeleteRecordsTopic(name=name, partitions=[part])]

        def show(answer: topic_admin.DeleteRecordsResponse) -> str:
            (result,) = answer.topics[0].partitions
            return f"{error_name(result.error_code)} low={result.low_watermark}"

        return self.send(node, topic_admin.DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms), 2, show)

    # -- transactions

    def init(self, node: int, txn: str | None, *, timeout_ms: int = 1_000) -> Asked:
        return self.send(node, wire.InitProducerIdRequest(transactional_id=txn, transaction_timeout_ms=timeout_ms), 5, _show_code)

    def add(self, node: int, txn: str, identity: Identity, topic: str) -> Asked:
        request = add_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=txn,
            v3_and_below_producer_id=identity[0],
            v3_and_below_producer_epoch=identity[1],
            v3_and_below_topics=[add_to_txn.AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )

        def show(answer: add_to_txn.AddPartitionsToTxnResponse) -> str:
            (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            return error_name(result.partition_error_code)

        return self.send(node, request, 3, show)

    def add_offsets(self, node: int, txn: str, identity: Identity, group: str) -> Asked:
        pid, epoch = identity
        request = add_to_txn.AddOffsetsToTxnRequest(transactional_id=txn, producer_id=pid, producer_epoch=epoch, group_id=group)
        return self.send(node, request, 3, _show_code)

    def end(self, node: int, txn: str, identity: Identity) -> Asked:
        pid, epoch = identity
        request = end_txn.EndTxnRequest(transactional_id=txn, producer_id=pid, producer_epoch=epoch, committed=True)
        return self.send(node, request, 3, _show_code)

    def commit_in_txn(self, node: int, txn: str, identity: Identity, group: str, topic: str, *, version: int) -> Asked:
        """TxnOffsetCommit. Version 5 also adds the group to the transaction."""
        part = txn_offsets.TxnOffsetCommitRequestPartition(committed_offset=2)
        request = txn_offsets.TxnOffsetCommitRequest(
            transactional_id=txn,
            group_id=group,
            producer_id=identity[0],
            producer_epoch=identity[1],
            topics=[txn_offsets.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
        )
        return self.send(node, request, version, _show_part)

    def txn_state(self, node: int, txn: str) -> str:
        """DescribeTransactions."""
        request = describe_transactions.DescribeTransactionsRequest(transactional_ids=[txn])
        (answer,) = self.send(node, request, 0, str).response().transaction_states
        return error_name(answer.error_code) if answer.error_code else str(answer.transaction_state)

    # -- groups

    def coordinator(self, node: int, key: str, *, of_transactions: bool = False) -> int:
        """FindCoordinator: the coordinator that this broker names; -1 for none."""
        request = wire.FindCoordinatorRequest(key_type=int(of_transactions), coordinator_keys=[key])
        (found,) = self.send(node, request, 4, str).response().coordinators
        return found.node_id if found.error_code == 0 else -1

    def commit(self, node: int, group: str, topic: str, offset: int) -> Asked:
        part = group_offsets.OffsetCommitRequestPartition(committed_offset=offset)
        topics = [group_offsets.OffsetCommitRequestTopic(name=topic, partitions=[part])]
        return self.send(node, group_offsets.OffsetCommitRequest(group_id=group, topics=topics), 8, _show_part)

    def committed(self, node: int, group: str, topic: str) -> str:
        request = group_offsets.OffsetFetchRequest(groups=[offset_fetch_group(group, [(topic, wire.ZERO_UUID, [0])])])
        (answer,) = self.send(node, request, 9, str).response().groups
        return error_name(answer.error_code) if answer.error_code else str(answer.topics[0].partitions[0].committed_offset)

    def delete_offset(self, node: int, group: str, topic: str) -> Asked:
        topics = [
            group_offsets.OffsetDeleteRequestTopic(name=topic, partitions=[group_offsets.OffsetDeleteRequestPartition(partition_index=0)])
        ]
        return self.send(node, group_offsets.OffsetDeleteRequest(group_id=group, topics=topics), 0, _show_code)

    def delete_group(self, node: int, group: str) -> Asked:
        request = group_admin.DeleteGroupsRequest(groups_names=[group])
        return self.send(node, request, 2, lambda answer: error_name(answer.results[0].error_code))

    def join(self, node: int, group: str, member: str = "") -> Asked:
        request = groups.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[groups.JoinGroupRequestProtocol(name="range", metadata=b"r")],
        )
        return self.send(node, request, 3, lambda answer: f"{error_name(answer.error_code)} generation={answer.generation_id}")

    def sync(self, node: int, group: str, member: str, generation: int) -> Asked:
        assigned = [groups.SyncGroupRequestAssignment(member_id=member, assignment=b"a")]
        request = groups.SyncGroupRequest(group_id=group, generation_id=generation, member_id=member, assignments=assigned)
        return self.send(node, request, 3, _show_code)

    def heartbeat(self, node: int, group: str, member: str, generation: int) -> Asked:
        return self.send(node, groups.HeartbeatRequest(group_id=group, generation_id=generation, member_id=member), 3, _show_code)

    def leave(self, node: int, group: str, member: str) -> Asked:
        return self.send(node, groups.LeaveGroupRequest(group_id=group, member_id=member), 2, _show_code)


def _show_code(answer: Any) -> str:
    return error_name(answer.error_code)


def _show_part(answer: Any) -> str:
    return error_name(only(answer).error_code)


def _show_produced(answer: wire.ProduceResponse) -> str:
    result = only(answer)
    message = f"\n{result.error_message}" if result.error_message is not None else ""
    return f"{error_name(result.error_code)} @{result.base_offset}{message}"


def _show_fetched(answer: wire.FetchResponse) -> str:
    result = only(answer)
    records = [record for _, blob in iter_batches(bytes(result.records or b"")) for record in read_records(blob)]
    values = ", ".join((record.value or b"").decode() for record in records)
    return f"{error_name(result.error_code)} hw={result.high_watermark} [{values}]"


def _results(results: Sequence[Any]) -> str:
    """Results with a code and a message, which has a line of its own."""
    return "\n".join("\n".join([error_name(each.error_code), *([each.error_message] if each.error_message else [])]) for each in results)
