"""A follower that does not reach its leader: what acks=all waits for, what can be read, and which replicas leave and join the ISR.

The same steps run on the stub, where the connection between the two brokers is severed, and on Apache Kafka, where the follower's process
is frozen. The test compares their answers, not their times.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import wire
from fencepost.producer.wire import error_name
from fencepost.producer.wire.records import iter_batches
from tests.broker_stub.stub_calls import batch, fetch_request, only
from tests.conformance import slow_commits
from tests.conformance.fixtures import TOLD_ALIKE, require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.raw import RawConnection
from tests.waiting import until

CONFIG = {"replica.lag.time.max.ms": "3000", "auto.create.topics.enable": "false", "offsets.commit.timeout.ms": "500"}
BRIEF_MS, PATIENT_MS = 300, 30_000
WAIT_S = 60.0
BEGINNINGS = 4


class Place(NamedTuple):
    """A cluster of three brokers, and how to isolate a follower and to reconnect it: (leader, follower)."""

    addresses: dict[int, tuple[str, int]]
    keep_away: Callable[[int, int], None]
    let_go: Callable[[int, int], None]


@contextmanager
def on_stub() -> Iterator[Place]:
    with BrokerStub(brokers=3, config=CONFIG) as stub:
        yield Place(stub.addresses, stub.sever, stub.mend)


@contextmanager
def on_kafka() -> Iterator[Place]:
    require_kafka()
    with KafkaCluster(brokers=3, config=CONFIG) as cluster:
        yield Place(
            cluster.addresses, lambda _, follower: cluster.pause_broker(follower), lambda _, follower: cluster.resume_broker(follower)
        )


class Story:
    """One topic, with requests to its leader. `told`: the result of each step."""

    def __init__(self, place: Place, *, min_isr: int) -> None:
        self.told: list[str] = []
        self._place = place
        self._min_isr = min_isr
        self._end = 0
        self._name = f"replicated-{secrets.token_hex(4)}"
        configs = [wire.CreatableTopicConfig(name="min.insync.replicas", value=str(min_isr))]
        topic = wire.CreatableTopic(name=self._name, num_partitions=1, replication_factor=3, configs=configs)
        with RawConnection(next(iter(place.addresses.values()))) as connection:
            answer = connection.ask(wire.CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        assert isinstance(answer, wire.CreateTopicsResponse)
        assert answer.topics[0].error_code == 0
        self.leader = until(lambda: self._partition().leader_id, "a leader", good=lambda node: node > 0, timeout_s=WAIT_S)
        until(lambda: len(self._partition().isr_nodes), "three in sync", good=lambda count: count == 3, timeout_s=WAIT_S)
        until(lambda: only(self._ask(fetch_request(self._name), 12)).error_code, "it leads", good=lambda code: code == 0, timeout_s=WAIT_S)

    def write(self, what: str, *, acks: int, timeout_ms: int) -> None:
        """Produce one record."""
        answer = only(self._ask(self._produce(batch(what.encode()), acks=acks, timeout_ms=timeout_ms), 9))
        self._end = max(self._end, answer.base_offset + 1)
        self.told.append(f"{what}: {error_name(answer.error_code)} @{answer.base_offset}")

    def read(self, what: str) -> None:
        """Fetch from the start."""
        answer = only(self._ask(fetch_request(self._name), 12))
        visible = sum(1 for _ in iter_batches(bytes(answer.records or b""))) if answer.records else 0
        self.told.append(f"{what}: {error_name(answer.error_code)} hw={answer.high_watermark} batches={visible}")

    def keep_away(self, follower: int) -> None:
        self._place.keep_away(self.leader, follower)

    def let_go(self, follower: int) -> None:
        self._place.let_go(self.leader, follower)

    def until_in_sync(self, count: int) -> None:
        """Wait until the leader reports this ISR. It gets the ISR from the controller, and its partition follows soon after."""
        until(lambda: len(self._partition().isr_nodes), f"{count} in sync", good=lambda found: found == count, timeout_s=WAIT_S)
        enough = count >= self._min_isr
        sign = "CORRUPT_MESSAGE" if enough else "NOT_ENOUGH_REPLICAS"
        until(self._write_damaged, f"the partition knows of {count} in sync", good=lambda told: told == sign, timeout_s=WAIT_S)
        if enough:
            until(self._high_watermark, "what these have is committed", good=lambda found: found == self._end, timeout_s=WAIT_S)
        self.told.append(f"{count} in sync")

    def _write_damaged(self) -> str:
        """The leader checks a damaged batch only if there are enough replicas."""
        damaged = bytearray(batch(b"damaged"))
        damaged[-1] ^= 1
        answer = only(self._ask(self._produce(bytes(damaged), acks=-1, timeout_ms=BRIEF_MS), 9))
        return error_name(answer.error_code)

    def _high_watermark(self) -> int:
        return int(only(self._ask(fetch_request(self._name), 12)).high_watermark)

    def _produce(self, records: bytes, *, acks: int, timeout_ms: int) -> wire.ProduceRequest:
        data = [wire.PartitionProduceData(index=0, records=records)]
        return wire.ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[wire.TopicProduceData(name=self._name, partition_data=data)]
        )

    def _partition(self) -> wire.MetadataResponsePartition:
        leader = self.__dict__.get("leader", next(iter(self._place.addresses)))
        request = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=self._name)], allow_auto_topic_creation=False)
        with RawConnection(self._place.addresses[leader]) as connection:
            answer = connection.ask(request, 12)
        assert isinstance(answer, wire.MetadataResponse)
        return answer.topics[0].partitions[0] if answer.topics[0].partitions else wire.MetadataResponsePartition(leader_id=-1)

    def _ask(self, request: wire.Message, version: int) -> wire.Message:
        with RawConnection(self._place.addresses[self.leader], timeout=WAIT_S) as connection:
            return connection.ask(request, version)


def begun(place: Place, min_isr: int) -> tuple[Story, int]:
    """Isolate a follower, while a record waits for it.

    On a slow machine the follower may already have left the ISR. Then start again.
    """
    for _ in range(BEGINNINGS):
        story = Story(place, min_isr=min_isr)
        follower = next(node for node in place.addresses if node != story.leader)
        story.write("with all", acks=-1, timeout_ms=PATIENT_MS)
        story.keep_away(follower)
        story.write("in vain", acks=-1, timeout_ms=BRIEF_MS)
        if "in vain: NONE @1" not in story.told:
            break
        story.let_go(follower)
    return story, follower


def play(place: Place) -> list[str]:
    """Run all steps."""
    told: list[str] = []
    for min_isr in (1, 3):
        story, follower = begun(place, min_isr)
        story.read("what one has not")
        story.write("the leader's own", acks=1, timeout_ms=PATIENT_MS)
        story.read("what one has not, still")
        story.until_in_sync(2)
        story.read("without it")
        story.write("for two", acks=-1, timeout_ms=PATIENT_MS)
        story.write("for the leader", acks=1, timeout_ms=PATIENT_MS)
        story.let_go(follower)
        story.until_in_sync(3)
        story.write("with all again", acks=-1, timeout_ms=PATIENT_MS)
        story.read("everything")
        told += [f"min.insync.replicas={min_isr}", *story.told]
    return told


TOLD = """
min.insync.replicas=1
with all: NONE @0
in vain: REQUEST_TIMED_OUT @1
what one has not: NONE hw=1 batches=1
the leader's own: NONE @2
what one has not, still: NONE hw=1 batches=1
2 in sync
without it: NONE hw=3 batches=3
for two: NONE @3
for the leader: NONE @4
3 in sync
with all again: NONE @5
everything: NONE hw=6 batches=6
min.insync.replicas=3
with all: NONE @0
in vain: REQUEST_TIMED_OUT @1
what one has not: NONE hw=1 batches=1
the leader's own: NONE @2
what one has not, still: NONE hw=1 batches=1
2 in sync
without it: NONE hw=1 batches=1
for two: NOT_ENOUGH_REPLICAS @-1
for the leader: NONE @3
3 in sync
with all again: NONE @4
everything: NONE hw=5 batches=5
"""


@pytest.mark.parametrize("where", [pytest.param(on_stub, id="stub"), pytest.param(on_kafka, id="kafka", marks=TOLD_ALIKE)])
@pytest.mark.timeout(300)
def test_a_follower_that_stays_behind(where: Callable[[], AbstractContextManager[Place]]) -> None:
    """Both give Kafka 4.3.1's answers line by line. tests/broker_stub/groups/test_consumer_offsets_log.py checks the same for a group's
    offsets.
    """
    with where() as place:
        assert play(place) == TOLD.strip().split("\n")
        if where is on_kafka:
            assert slow_commits.tell(*place) == slow_commits.TOLD.strip().split("\n")
