"""A broker that does not reach the controller: what it serves, what it refuses, and what is left of that when it is back.

The same steps run on the stub and on Apache Kafka. There broker 1 is the controller too, and the others connect to it through a proxy,
which cuts the connections of one of them. Clients and brokers reach all brokers. The test compares answers, not times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import wire
from fencepost.producer.wire.records import encode_batch
from tests.broker_stub.stub_calls import TIMESTAMP_MS, batch, numbered
from tests.conformance.fixtures import require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.node_asks import LATEST, WAIT_S, Asked, Identity, NodeAsks
from tests.conformance.survival.links import Links
from tests.waiting import until

CONFIG = {
    "broker.session.timeout.ms": "5000",
    "replica.lag.time.max.ms": "3000",
    "offsets.commit.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    # The test's transactions time out after seconds, because their coordinator's writes do. It must not abort them.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "600000",
    "group.initial.rebalance.delay.ms": "0",
}
OTHER, OLD, NEW = 1, 2, 3
"""Broker 2 leads, until it is cut off. Then broker 3 does."""
WRITE_MS = 2_000
"""A transaction's timeout, which is also the timeout of its coordinator's writes."""
BRIEF_MS = 500
QUIET_S = 0.3


class Place(NamedTuple):
    """A cluster of three brokers, and how to cut off a broker from the controller. `deafen`: it does not hear what the controller decides,
    and all its requests are answered."""

    addresses: dict[int, tuple[str, int]]
    cut_off: Callable[[int], None]
    deafen: Callable[[int], None]
    mend: Callable[[int], None]


@contextmanager
def on_stub() -> Iterator[Place]:
    with BrokerStub(brokers=3, config=CONFIG) as stub:
        yield Place(
            stub.addresses,
            lambda node: stub.sever(node, "controller"),
            lambda node: stub.sever("controller", node, one_way=True),
            lambda node: stub.mend(node, "controller"),
        )


@contextmanager
def on_kafka() -> Iterator[Place]:
    require_kafka()
    with ExitStack() as stack:
        links = stack.enter_context(Links())

        def advertise(node: int, listener: str, port: int) -> int:
            return links.before(node, listener, port) if listener == "CONTROLLER" else port

        def deafen(node: int) -> None:
            # Only on this connection a broker fetches the metadata log.
            links.cut(lambda end: end.client == f"raft-client-{node}")

        cluster = stack.enter_context(KafkaCluster(brokers=3, controllers=1, config=CONFIG, advertise=advertise))
        yield Place(cluster.addresses, lambda node: links.cut(lambda end: end.there == node), deafen, lambda _: links.mend())


class Story:
    """One cluster and its topics. `told`: the result of each step."""

    def __init__(self, place: Place) -> None:
        self.told: list[str] = []
        self.place = place
        self.asks = NodeAsks(place.addresses)

    def tell(self, what: str, answer: str | Asked) -> None:
        self.told += f"{what}: {answer.told if isinstance(answer, Asked) else answer}".split("\n")

    def topic(self, what: str, *nodes: int) -> str:
        """A topic with these replicas, when every broker knows it and its leader leads."""
        name = self.asks.name(what)
        made = wire.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[wire.CreatableReplicaAssignment(broker_ids=list(nodes))],
        )
        assert self.asks.create(OTHER, made).told == "NONE"
        self.until_led(name, nodes[0], *self.place.addresses)
        return name

    def until_led(self, name: str, leader: int, *told: int) -> None:
        """Wait until the leader leads, and these brokers know it."""
        until(lambda: {self.asks.leader(node, name) for node in told}, "the leader", good=lambda found: found == {leader}, timeout_s=WAIT_S)
        until(lambda: self.asks.fetch(leader, name).told, "it leads", good=lambda told: told.startswith("NONE"), timeout_s=WAIT_S)

    def until_in_sync(self, name: str, *nodes: int, at: int) -> None:
        until(lambda: self.asks.isr(at, name), f"{nodes} in sync", good=lambda isr: isr == [*nodes], timeout_s=WAIT_S)

    def until_read(self, node: int, name: str, value: str) -> None:
        """Wait until that broker's consumers see the record. It may be a follower."""
        until(
            lambda: self.asks.fetch(node, name).told, f"{value} at broker {node}", good=lambda told: f"{value}]" in told, timeout_s=WAIT_S
        )

    def settled(self, ask: Callable[[], Asked]) -> str:
        """The response of a coordinator that has loaded its partition."""
        return until(lambda: ask().told, "a loaded coordinator", good=lambda told: "COORDINATOR" not in told, timeout_s=WAIT_S)

    def coordinated_by_old(self, what: str, *, of_transactions: bool = False) -> Iterator[str]:
        """Unused groups, or transactional ids."""
        number = 0
        while True:
            number += 1
            name = self.asks.name(f"{what}{number}")
            if self.coordinator(OLD, name, of_transactions=of_transactions) == OLD:
                yield name

    def until_coordinator_moved(self, name: str, node: int, *, of_transactions: bool) -> None:
        """Wait until that broker knows another coordinator than broker 2."""
        until(
            lambda: self.asks.coordinator(node, name, of_transactions=of_transactions),
            "another coordinator",
            good=lambda found: found not in (OLD, -1),
            timeout_s=WAIT_S,
        )

    def coordinator(self, node: int, name: str, *, of_transactions: bool = False) -> int:
        return until(
            lambda: self.asks.coordinator(node, name, of_transactions=of_transactions),
            "a coordinator",
            good=lambda found: found > 0,
            timeout_s=WAIT_S,
        )

    def begun(self, txn: str | None, *, timeout_ms: int = WRITE_MS) -> Identity:
        """A producer id that broker 2 gives."""

        def ask() -> Any:
            return self.asks.init(OLD, txn, timeout_ms=timeout_ms).response()

        answer = until(ask, "a producer id", good=lambda each: each.error_code == 0, timeout_s=WAIT_S)
        return answer.producer_id, answer.producer_epoch


class CutOff(Story):
    """Broker 2 is cut off, both ways."""

    def play(self) -> list[str]:
        self.prepare()
        self.place.cut_off(OLD)
        self.not_fenced_yet()
        self.records_when_fenced()
        self.cluster_when_fenced()
        self.coordinators_when_fenced()
        self.a_follower_when_fenced()
        self.mended()
        return self.told

    def prepare(self) -> None:
        tell, asks = self.tell, self.asks
        self.led = self.topic("led", OLD, NEW, OTHER)
        self.followed = self.topic("followed", OTHER, OLD, NEW)
        self.gone = self.topic("gone", OLD, NEW, OTHER)
        self.trimmed = self.topic("trimmed", OLD, NEW, OTHER)
        self.groups = self.coordinated_by_old("group")
        self.group, self.joined, self.left = (next(self.groups) for _ in range(3))
        txns = self.coordinated_by_old("txn", of_transactions=True)
        self.open, self.idle, self.offsets, self.writing, self.patient, self.unknown = (next(txns) for _ in range(6))
        self.ids = {name: self.begun(name) for name in (self.open, self.idle, self.offsets, self.writing)}
        self.ids[self.patient] = self.begun(self.patient, timeout_ms=60_000)
        self.pid, _ = self.begun(None)
        for name in (self.open, self.offsets, self.patient):
            tell("a partition is added", asks.add(OLD, name, self.ids[name], self.led))
        tell("a group is added", asks.add_offsets(OLD, self.offsets, self.ids[self.offsets], self.group))
        self.members = {}
        for name in (self.joined, self.left):
            member = asks.join(OLD, name).response()
            self.members[name] = member.member_id
            tell("a member", asks.sync(OLD, name, member.member_id, member.generation_id))
        tell("a record", asks.produce(OLD, self.led, batch(b"known")))
        tell("a numbered record", asks.produce(OLD, self.led, numbered(self.pid, 0)))
        tell("to trim", asks.produce(OLD, self.trimmed, batch(b"t", b"u")))
        tell("a commit", asks.commit(OLD, self.group, self.led, 1))
        for name in (self.led, self.followed, self.gone, self.trimmed):
            self.until_in_sync(name, 1, 2, 3, at=OTHER)

    def not_fenced_yet(self) -> None:
        """Its followers fetch from it, and it from its leader."""
        tell, asks = self.tell, self.asks
        tell("acks=all before the fence", asks.produce(OLD, self.led, batch(b"replicated")))
        tell("a commit before the fence", asks.commit(OLD, self.group, self.led, 2))
        tell("acks=all with a cut off follower", asks.produce(OTHER, self.followed, batch(b"one")))
        self.forwarded = asks.create(OLD, wire.CreatableTopic(name=asks.name("made"), num_partitions=1, replication_factor=1))
        tell("Metadata for a new topic", asks.topic_error(OLD, asks.name("auto"), create=True))
        for name in (self.led, self.gone, self.trimmed):
            self.until_led(name, NEW, NEW, OTHER)
        for name, of_transactions in ((self.group, False), (self.open, True)):
            for node in (NEW, OTHER):
                self.until_coordinator_moved(name, node, of_transactions=of_transactions)

    def records_when_fenced(self) -> None:
        tell, asks = self.tell, self.asks
        # When the new leader has its acknowledgement, its followers have left the old one.
        tell("acks=all at the new leader", asks.produce(NEW, self.led, batch(b"new")))
        tell("acks=1 at the old leader", asks.produce(OLD, self.led, batch(b"lost"), acks=1))
        tell("acks=1 with a number at the old leader", asks.produce(OLD, self.led, numbered(self.pid, 1), acks=1))
        tell("acks=all at the old leader", asks.produce(OLD, self.led, batch(b"lost, too"), timeout_ms=BRIEF_MS))
        for node, name in ((OLD, "old"), (NEW, "new")):
            tell(f"Fetch from the {name} leader", asks.fetch(node, self.led))
            for epoch in (0, 1):
                tell(f"in epoch {epoch} from the {name} leader", asks.fetch(node, self.led, epoch=epoch))
            tell(f"ListOffsets at the {name} leader", asks.offsets(node, self.led))
            tell(f"in epoch 1 at the {name} leader", asks.offset(node, self.led, LATEST, epoch=1))
            for epoch in (0, 1):
                tell(f"the end of epoch {epoch} at the {name} leader", asks.epoch_end(node, self.led, epoch))
            tell(f"DescribeProducers at the {name} leader", asks.producer_in(node, self.led, self.pid))
        tell("DeleteRecords at the old leader", asks.delete_records(OLD, self.trimmed, 1, timeout_ms=BRIEF_MS))
        tell("a topic is deleted", asks.delete_topic(OTHER, self.gone))
        until(lambda: asks.topic_error(NEW, self.gone), "no topic", good=lambda told: told != "NONE", timeout_s=WAIT_S)
        tell("acks=1 to the deleted topic", asks.produce(OLD, self.gone, batch(b"gone"), acks=1))

    def cluster_when_fenced(self) -> None:
        tell, asks = self.tell, self.asks
        for node, name in ((OLD, "old"), (NEW, "new")):
            tell(f"Metadata of the {name} leader", asks.show_metadata(node, self.led))
            tell(f"DescribeCluster at the {name} leader", asks.show_cluster(node))
        tell("an election of the old leader", asks.elect_preferred(OTHER, self.led))
        alone = wire.CreatableTopic(
            name=asks.name("alone"),
            num_partitions=-1,
            replication_factor=-1,
            assignments=[wire.CreatableReplicaAssignment(broker_ids=[OLD])],
        )
        tell("a topic on the fenced broker only", asks.create(OTHER, alone))
        self.three = asks.name("three")
        tell("a topic on three brokers", asks.create(OTHER, wire.CreatableTopic(name=self.three, num_partitions=1, replication_factor=3)))
        self.until_in_sync(self.three, OTHER, NEW, at=NEW)

    def coordinators_when_fenced(self) -> None:
        """What is only read succeeds, and what is written is not replicated. Each write is the first one of its id."""
        tell, asks = self.tell, self.asks
        tell("FindCoordinator of a group", str(asks.coordinator(OLD, self.group)))
        tell("FindCoordinator of a transactional id", str(asks.coordinator(OLD, self.open, of_transactions=True)))
        tell("InitProducerId without an id", asks.init(OLD, None))
        tell("Heartbeat", asks.heartbeat(OLD, self.joined, self.members[self.joined], 1))
        at_once = {
            "InitProducerId with a new id": asks.init(OLD, self.unknown, timeout_ms=WRITE_MS),
            "InitProducerId with a known id": asks.init(OLD, self.idle, timeout_ms=WRITE_MS),
            "EndTxn": asks.end(OLD, self.open, self.ids[self.open]),
            "TxnOffsetCommit": asks.commit_in_txn(OLD, self.offsets, self.ids[self.offsets], self.group, self.led, version=3),
            "Produce that adds its partition": asks.produce(
                OLD, self.led, self.transactional(self.writing), txn=self.writing, version=12, acks=1
            ),
            "OffsetCommit": asks.commit(OLD, self.group, self.led, 3),
            "JoinGroup of a new group": asks.join(OLD, next(self.groups)),
            "JoinGroup of a member": asks.join(OLD, self.joined, self.members[self.joined]),
            "LeaveGroup": asks.leave(OLD, self.left, self.members[self.left]),
        }
        for what, asked in at_once.items():
            tell(what, asked)
        then = {
            "EndTxn again": asks.end(OLD, self.open, self.ids[self.open]),
            "AddPartitionsToTxn": asks.add(OLD, self.idle, self.ids[self.idle], self.led),
            "AddOffsetsToTxn": asks.add_offsets(OLD, self.writing, self.ids[self.writing], self.group),
            "SyncGroup": asks.sync(OLD, self.joined, self.members[self.joined], 2),
            "OffsetDelete": asks.delete_offset(OLD, self.group, self.led),
            "DeleteGroups": asks.delete_group(OLD, self.left),
        }
        for what, asked in then.items():
            tell(what, asked)
        tell("DescribeTransactions", asks.txn_state(OLD, self.open))
        tell("OffsetFetch", asks.committed(OLD, self.group, self.led))
        self.there = self.coordinator(NEW, self.group)
        tell("Heartbeat at the next coordinator", self.settled(lambda: self.heartbeat_there()))
        tell("OffsetCommit at the next coordinator", self.settled(lambda: asks.commit(self.there, self.group, self.led, 4)))

    def heartbeat_there(self) -> Asked:
        return self.asks.heartbeat(self.coordinator(NEW, self.joined), self.joined, self.members[self.joined], 1)

    def transactional(self, txn: str) -> bytes:
        pid, epoch = self.ids[txn]
        record = (TIMESTAMP_MS, None, b"transactional")
        return encode_batch([record], producer_id=pid, producer_epoch=epoch, base_sequence=0, transactional=True)

    def a_follower_when_fenced(self) -> None:
        """It fetches from its leader, and does not join the ISR."""
        self.tell("acks=all without the follower", self.asks.produce(OTHER, self.followed, batch(b"two")))
        self.until_read(OLD, self.followed, "two")
        self.tell("Fetch from the follower", self.asks.fetch(OLD, self.followed))
        self.tell("its leader's ISR", str(self.asks.isr(OTHER, self.followed)))

    def mended(self) -> None:
        tell, asks = self.tell, self.asks
        waiting = {
            "CreateTopics": self.forwarded,
            "acks=all": asks.produce(OLD, self.led, batch(b"lost at last")),
            "Fetch in epoch 0": asks.fetch(OLD, self.led, 3, epoch=0, wait_ms=60_000),
            "Fetch in any epoch": asks.fetch(OLD, self.led, 3, wait_ms=60_000),
            "EndTxn with a long timeout": asks.end(OLD, self.patient, self.ids[self.patient]),
        }
        for what, asked in waiting.items():
            tell(f"{what} waits", str(asked.waits(QUIET_S)))
        self.place.mend(OLD)
        for what, asked in waiting.items():
            tell(f"{what} waited", asked)
        until(lambda: asks.topic_error(OLD, asks.name("auto")), "the new topic", good=lambda told: told == "NONE", timeout_s=WAIT_S)
        self.until_led(self.led, NEW, OLD)
        for name in (self.led, self.followed, self.trimmed, self.three):
            self.until_in_sync(name, 1, 2, 3, at=OLD)
        tell("Metadata", asks.show_metadata(OLD, self.led))
        tell("DescribeCluster", asks.show_cluster(OLD))
        tell("acks=all at the leader", asks.produce(NEW, self.led, batch(b"last")))
        tell("Fetch from the leader", asks.fetch(NEW, self.led))
        self.until_read(OLD, self.led, "last")
        tell("Fetch from the follower", asks.fetch(OLD, self.led))
        tell("DescribeProducers at the follower", asks.producer_in(OLD, self.led, self.pid))
        tell("acks=1 at the follower", asks.produce(OLD, self.led, batch(b"x"), acks=1))
        tell("ListOffsets at the follower", asks.offset(OLD, self.led, LATEST))
        tell("the end of epoch 0 at the follower", asks.epoch_end(OLD, self.led, 0))
        tell("the deleted topic", asks.topic_error(OLD, self.gone))
        tell("acks=1 to the deleted topic", asks.produce(OLD, self.gone, batch(b"x"), acks=1))
        tell("OffsetCommit at the old coordinator", asks.commit(OLD, self.group, self.led, 5))
        tell("Heartbeat at the old coordinator", asks.heartbeat(OLD, self.joined, self.members[self.joined], 1))
        tell("DescribeTransactions at the old coordinator", asks.txn_state(OLD, self.open))
        tell("OffsetFetch at the next one", asks.committed(self.there, self.group, self.led))
        for what, txn in (("open", self.open), ("idle", self.idle), ("patient", self.patient), ("unknown", self.unknown)):
            tell(f"{what} at the next one", asks.txn_state(self.coordinator(NEW, txn, of_transactions=True), txn))


class Deaf(Story):
    """Broker 2 does not hear that broker 3 leads now. It is not fenced."""

    def play(self) -> list[str]:
        tell, asks = self.tell, self.asks
        led = self.topic("led", OLD, NEW, OTHER)
        tell("acks=all", asks.produce(OLD, led, batch(b"known")))
        self.place.deafen(OLD)
        tell("other replicas are preferred", asks.reassign(OTHER, led, [NEW, OLD, OTHER]))
        tell("another leader is elected", asks.elect_preferred(OTHER, led))
        self.until_led(led, NEW, NEW, OTHER)
        tell("acks=1 at the new leader", asks.produce(NEW, led, batch(b"new"), acks=1))
        tell("acks=1 at the old leader", asks.produce(OLD, led, batch(b"lost"), acks=1))
        tell("acks=all at the old leader", asks.produce(OLD, led, batch(b"lost, too"), timeout_ms=BRIEF_MS))
        made = wire.CreatableTopic(name=asks.name("made"), num_partitions=1, replication_factor=1)
        tell("CreateTopics", asks.create(OLD, made))
        until(lambda: asks.topic_error(NEW, made.name), "the topic", good=lambda told: told == "NONE", timeout_s=WAIT_S)
        tell("Metadata for the new topic", asks.topic_error(OLD, made.name))
        self.until_in_sync(led, OTHER, NEW, at=NEW)
        for node, name in ((OLD, "old"), (NEW, "new")):
            tell(f"Metadata of the {name} leader", asks.show_metadata(node, led))
            tell(f"DescribeCluster at the {name} leader", asks.show_cluster(node))
        self.place.mend(OLD)
        self.until_led(led, NEW, OLD)
        self.until_in_sync(led, 1, 2, 3, at=OLD)
        tell("Metadata", asks.show_metadata(OLD, led))
        self.until_read(OLD, led, "new")
        tell("Fetch from the follower", asks.fetch(OLD, led))
        return self.told


class WithoutIds(Story):
    """Broker 3 is cut off before it has given a producer id. Then it has none to give."""

    def play(self) -> list[str]:
        self.place.cut_off(NEW)
        self.tell("InitProducerId", self.asks.init(NEW, None))
        self.place.mend(NEW)
        self.tell("InitProducerId, mended", self.settled(lambda: self.asks.init(NEW, None)))
        return self.told


TOLD = """
a partition is added: NONE
a partition is added: NONE
a partition is added: NONE
a group is added: NONE
a member: NONE
a member: NONE
a record: NONE @0
a numbered record: NONE @1
to trim: NONE @0
a commit: NONE
acks=all before the fence: NONE @2
a commit before the fence: NONE
acks=all with a cut off follower: NONE @0
Metadata for a new topic: UNKNOWN_TOPIC_OR_PARTITION
acks=all at the new leader: NONE @3
acks=1 at the old leader: NONE @3
acks=1 with a number at the old leader: NONE @4
acks=all at the old leader: REQUEST_TIMED_OUT @5
Fetch from the old leader: NONE hw=3 [known, v0, replicated]
in epoch 0 from the old leader: NONE hw=3 [known, v0, replicated]
in epoch 1 from the old leader: UNKNOWN_LEADER_EPOCH hw=-1 []
ListOffsets at the old leader: NONE 3 epoch=0; NONE 0 epoch=0; NONE 0 epoch=0
in epoch 1 at the old leader: UNKNOWN_LEADER_EPOCH -1 epoch=-1
the end of epoch 0 at the old leader: NONE epoch=0 end=6
the end of epoch 1 at the old leader: NONE epoch=-1 end=-1
DescribeProducers at the old leader: NONE sequence=1
Fetch from the new leader: NONE hw=4 [known, v0, replicated, new]
in epoch 0 from the new leader: FENCED_LEADER_EPOCH hw=-1 []
in epoch 1 from the new leader: NONE hw=4 [known, v0, replicated, new]
ListOffsets at the new leader: NONE 4 epoch=1; NONE 0 epoch=0; NONE 0 epoch=0
in epoch 1 at the new leader: NONE 4 epoch=1
the end of epoch 0 at the new leader: NONE epoch=0 end=3
the end of epoch 1 at the new leader: NONE epoch=1 end=4
DescribeProducers at the new leader: NONE sequence=0
DeleteRecords at the old leader: REQUEST_TIMED_OUT low=0
a topic is deleted: NONE
acks=1 to the deleted topic: NONE @0
Metadata of the old leader: NONE leader=2 epoch=0 isr=[1, 2, 3] offline=[] brokers=[1, 2, 3]
DescribeCluster at the old leader: 1, 2, 3
Metadata of the new leader: NONE leader=3 epoch=1 isr=[1, 3] offline=[2] brokers=[1, 3]
DescribeCluster at the new leader: 1, 2 fenced, 3
an election of the old leader: PREFERRED_LEADER_NOT_AVAILABLE
The preferred leader was not available.
a topic on the fenced broker only: INVALID_REPLICA_ASSIGNMENT
All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown.
a topic on three brokers: NONE
FindCoordinator of a group: 2
FindCoordinator of a transactional id: 2
InitProducerId without an id: NONE
Heartbeat: NONE
InitProducerId with a new id: COORDINATOR_NOT_AVAILABLE
InitProducerId with a known id: COORDINATOR_NOT_AVAILABLE
EndTxn: COORDINATOR_NOT_AVAILABLE
TxnOffsetCommit: COORDINATOR_NOT_AVAILABLE
Produce that adds its partition: NOT_ENOUGH_REPLICAS @-1
Unable to verify the partition has been added to the transaction. Underlying error: COORDINATOR_NOT_AVAILABLE
OffsetCommit: COORDINATOR_NOT_AVAILABLE
JoinGroup of a new group: NONE generation=1
JoinGroup of a member: NONE generation=2
LeaveGroup: COORDINATOR_NOT_AVAILABLE
EndTxn again: COORDINATOR_NOT_AVAILABLE
AddPartitionsToTxn: COORDINATOR_NOT_AVAILABLE
AddOffsetsToTxn: COORDINATOR_NOT_AVAILABLE
SyncGroup: COORDINATOR_NOT_AVAILABLE
OffsetDelete: COORDINATOR_NOT_AVAILABLE
DeleteGroups: COORDINATOR_NOT_AVAILABLE
DescribeTransactions: Ongoing
OffsetFetch: 2
Heartbeat at the next coordinator: NONE
OffsetCommit at the next coordinator: NONE
acks=all without the follower: NONE @1
Fetch from the follower: NONE hw=2 [one, two]
its leader's ISR: [1, 3]
CreateTopics waits: True
acks=all waits: True
Fetch in epoch 0 waits: True
Fetch in any epoch waits: True
EndTxn with a long timeout waits: True
CreateTopics waited: NONE
acks=all waited: NOT_LEADER_OR_FOLLOWER @6
Fetch in epoch 0 waited: FENCED_LEADER_EPOCH hw=-1 []
Fetch in any epoch waited: NONE hw=4 [new]
EndTxn with a long timeout waited: NOT_COORDINATOR
Metadata: NONE leader=3 epoch=1 isr=[1, 2, 3] offline=[] brokers=[1, 2, 3]
DescribeCluster: 1, 2, 3
acks=all at the leader: NONE @4
Fetch from the leader: NONE hw=5 [known, v0, replicated, new, last]
Fetch from the follower: NONE hw=5 [known, v0, replicated, new, last]
DescribeProducers at the follower: NONE sequence=0
acks=1 at the follower: NOT_LEADER_OR_FOLLOWER @-1
ListOffsets at the follower: NOT_LEADER_OR_FOLLOWER -1 epoch=-1
the end of epoch 0 at the follower: NOT_LEADER_OR_FOLLOWER epoch=-1 end=-1
the deleted topic: UNKNOWN_TOPIC_OR_PARTITION
acks=1 to the deleted topic: UNKNOWN_TOPIC_OR_PARTITION @-1
OffsetCommit at the old coordinator: NOT_COORDINATOR
Heartbeat at the old coordinator: NOT_COORDINATOR
DescribeTransactions at the old coordinator: NOT_COORDINATOR
OffsetFetch at the next one: 4
open at the next one: Ongoing
idle at the next one: Empty
patient at the next one: Ongoing
unknown at the next one: TRANSACTIONAL_ID_NOT_FOUND
"""
TOLD_DEAF = """
acks=all: NONE @0
other replicas are preferred: NONE
another leader is elected: NONE
acks=1 at the new leader: NONE @1
acks=1 at the old leader: NONE @1
acks=all at the old leader: REQUEST_TIMED_OUT @2
CreateTopics: NONE
Metadata for the new topic: UNKNOWN_TOPIC_OR_PARTITION
Metadata of the old leader: NONE leader=2 epoch=0 isr=[1, 2, 3] offline=[] brokers=[1, 2, 3]
DescribeCluster at the old leader: 1, 2, 3
Metadata of the new leader: NONE leader=3 epoch=1 isr=[1, 3] offline=[] brokers=[1, 2, 3]
DescribeCluster at the new leader: 1, 2, 3
Metadata: NONE leader=3 epoch=1 isr=[1, 2, 3] offline=[] brokers=[1, 2, 3]
Fetch from the follower: NONE hw=2 [known, new]
"""
TOLD_WITHOUT_IDS = """
InitProducerId: COORDINATOR_LOAD_IN_PROGRESS
InitProducerId, mended: NONE
"""


@pytest.mark.parametrize("where", [on_stub, on_kafka], ids=["stub", "kafka"])
@pytest.mark.timeout(300)
def test_a_broker_that_is_cut_off_from_the_controller(where: Callable[[], AbstractContextManager[Place]]) -> None:
    """Both give Kafka 4.3.1's answers line by line."""
    with where() as place:
        assert CutOff(place).play() == TOLD.strip().split("\n")
        assert Deaf(place).play() == TOLD_DEAF.strip().split("\n")
        assert WithoutIds(place).play() == TOLD_WITHOUT_IDS.strip().split("\n")
