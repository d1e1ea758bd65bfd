"""Requests of transactional producers to a cluster without sockets, under a virtual clock. Replies may come later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC, STATE_TOPIC
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.transactions.states import State, TransactionMetadata, Txn
from fencepost.producer import wire
from fencepost.producer.wire.messages import add_to_txn, end_txn, txn_offsets
from tests.broker_stub.stub_calls import Inside, Pending, batch, fetch_request, only

ID = "x"
TIMEOUT_MS = 30_000


class Transactions(Inside):
    """A cluster with a topic and a coordinator for one transactional id. `pid` and `epoch`: the newest ones from the coordinator."""

    def __init__(self, *, brokers: int = 1, partitions: int = 1, replicas: int = 3, **options: Any) -> None:
        super().__init__(brokers=brokers, **options)
        self.cluster.internal_topic(STATE_TOPIC)
        self.cluster.internal_topic(OFFSETS_TOPIC)
        self.topic(partitions=partitions, replicas=min(replicas, brokers))
        self.identity = Identity(-1, -1)

    # The coordinator

    @property
    def state_partition(self) -> Partition:
        """The partition with the id's state."""
        from fencepost.broker_stub.cluster.coordinator_partition import partition_for

        topic = self.cluster.topics.named(STATE_TOPIC)
        assert topic is not None
        return topic.partitions[partition_for(ID, len(topic.partitions))]

    @property
    def known(self) -> TransactionMetadata:
        """The coordinator's state of the id."""
        shard = self.services.transactions.shard_for(ID, self.state_partition.leader)
        assert shard is not None
        return shard.ids[ID]

    @property
    def txn(self) -> Txn:
        return self.known.txn

    @property
    def state(self) -> State:
        return self.txn.state

    def is_in(self, state: State) -> bool:
        return self.txn.state is state

    def is_pending(self, state: State | None) -> bool:
        return self.known.pending is state

    def begin(self, request: wire.Message, version: int, show: Callable[[Any], Any], *, node: int | None = None) -> Pending:
        pending = Pending(show, tick=self.cluster.tick)
        header = wire.RequestHeader(api_key=request.api, api_version=version, correlation_id=1, client_id="inside")
        self.dispatcher.handle(self.state_partition.leader if node is None else node, 1, header, request, pending.replies.append)
        return pending

    def init(self, expected: Identity | None = None, *, timeout_ms: int = TIMEOUT_MS) -> Pending:
        """InitProducerId: (code, producer id, epoch)."""
        pid, epoch = expected or (-1, -1)
        request = wire.InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=timeout_ms, producer_id=pid, producer_epoch=epoch)
        return self.begin(request, 5, lambda answer: (answer.error_code, answer.producer_id, answer.producer_epoch))

    def given(self, **options: Any) -> Identity:
        """Set the identity of the id's producer."""
        code, pid, epoch = self.init(**options).answer
        assert code == 0, wire.error_name(code)
        self.identity = Identity(pid, epoch)
        return self.identity

    def add(self, partition: int = 0, *, identity: Identity | None = None) -> Pending:
        """AddPartitionsToTxn of a client; return the error code."""
        pid, epoch = identity or self.identity
        request = add_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=pid,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[add_to_txn.AddPartitionsToTxnTopic(name="t", partitions=[partition])],
        )
        return self.begin(request, 3, lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def end(self, *, commit: bool = True, version: int = 5, identity: Identity | None = None) -> Pending:
        """EndTxn: (code, producer id, epoch)."""
        pid, epoch = identity or self.identity
        request = end_txn.EndTxnRequest(transactional_id=ID, producer_id=pid, producer_epoch=epoch, committed=commit)
        return self.begin(request, version, lambda answer: (answer.error_code, answer.producer_id, answer.producer_epoch))

    def commit_offset(self, offset: int, *, group: str = "g", version: int = 5) -> Pending:
        """TxnOffsetCommit of one partition; return the error code."""
        pid, epoch = self.identity
        request = txn_offsets.TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=group,
            producer_id=pid,
            producer_epoch=epoch,
            topics=[
                txn_offsets.TxnOffsetCommitRequestTopic(
                    name="t", partitions=[txn_offsets.TxnOffsetCommitRequestPartition(committed_offset=offset)]
                )
            ],
        )
        return self.begin(
            request, version, lambda answer: answer.topics[0].partitions[0].error_code, node=self.offsets_partition(group).leader
        )

    def offsets_partition(self, group: str = "g") -> Partition:
        from fencepost.broker_stub.cluster.coordinator_partition import partition_for

        topic = self.cluster.topics.named(OFFSETS_TOPIC)
        assert topic is not None
        return topic.partitions[partition_for(group, len(topic.partitions))]

    # Partitions

    def partition(self, index: int = 0) -> Partition:
        found = self.cluster.find("t", index)
        assert found is not None
        return found

    def write(self, sequence: int, *, partition: int = 0, identity: Identity | None = None, version: int = 12, acks: int = -1) -> Pending:
        """Write a transactional record; return the error code."""
        pid, epoch = identity or self.identity
        records = batch(b"%d" % sequence, pid=pid, epoch=epoch, sequence=sequence, transactional=True)
        data = wire.PartitionProduceData(index=partition, records=records)
        request = wire.ProduceRequest(
            transactional_id=ID,
            acks=acks,
            timeout_ms=1000,
            topic_data=[wire.TopicProduceData(name="t", partition_data=[data])],
        )
        return self.begin(request, version, lambda answer: only(answer).error_code, node=self.leader("t", partition))

    def committed(self, partition: int = 0) -> int:
        """The offset up to which a `read_committed` consumer can read."""
        answer = self.ask(fetch_request("t", partition=partition, isolation_level=1), 12, node=self.leader("t", partition))
        return int(only(answer).last_stable_offset)

    def sever_state(self) -> int:
        """Cut off a follower of the coordinator's partition, so that it falls behind. Return its node."""
        partition = self.state_partition
        follower = next(node for node in partition.replicas if node != partition.leader)
        self.cluster.broker_links.sever(partition.leader, follower)
        return follower

    def mend_state(self, follower: int) -> None:
        self.cluster.broker_links.mend(self.state_partition.leader, follower)
        self.cluster.tick()
