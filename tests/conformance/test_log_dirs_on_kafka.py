"""Brokers with three log directories: where logs are, how one moves, and what a directory that fails takes with it.

The same steps run on the stub and on Apache Kafka, with files on disk. A directory fails because it is renamed, so that the next checkpoint
cannot be written. The test compares answers, not times and paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import wire
from fencepost.producer.wire import error_name
from fencepost.producer.wire.messages import configs, incremental_configs, log_dirs
from tests.broker_stub.stub_calls import batch, numbered
from tests.conformance.fixtures import require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.node_asks import WAIT_S, Asked, NodeAsks
from tests.waiting import until

CONFIG = {
    "replica.fetch.max.bytes": "10000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "broker.session.timeout.ms": "5000",
}
OTHER, NODE = 1, 2
"""Broker 2 is the one whose directories are looked at."""
DIRS = 3
LARGE = bytes(9_000)
LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"


class Place(NamedTuple):
    """A cluster of two brokers. `directory`: one of broker 2's, from 1 on. `restart`: broker 2."""

    addresses: dict[int, tuple[str, int]]
    directory: Callable[[int], Path]
    restart: Callable[[], object]


@contextmanager
def on_stub(tmp_path: Path) -> Iterator[Place]:
    with BrokerStub(brokers=2, log_dirs=DIRS, data_dir=tmp_path, config=CONFIG) as stub:
        names = {number: f"broker-{NODE}" if number == 1 else f"broker-{NODE}.{number}" for number in range(1, DIRS + 1)}
        yield Place(stub.addresses, lambda number: tmp_path / names[number], lambda: stub.restart_broker(NODE))


@contextmanager
def on_kafka(tmp_path: Path) -> Iterator[Place]:
    require_kafka()
    with KafkaCluster(brokers=2, controllers=1, log_dirs=DIRS, config=CONFIG) as cluster:
        yield Place(cluster.addresses, cluster.brokers[NODE].log_dir, lambda: cluster.restart_broker(NODE))


class Story:
    """One cluster. `told`: the result of each step."""

    def __init__(self, place: Place) -> None:
        self.told: list[str] = []
        self.place = place
        self.asks = NodeAsks(place.addresses)
        self.names: dict[str, str] = {}

    def tell(self, what: str, answer: str | Asked) -> None:
        self.told += f"{what}: {answer.told if isinstance(answer, Asked) else answer}".rstrip().split("\n")

    def topic(self, what: str, *nodes: int) -> str:
        """A topic with these replicas, when its leader leads."""
        name = self.asks.name(what)
        self.names[name] = what
        made = wire.CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[wire.CreatableReplicaAssignment(broker_ids=list(nodes))]
        )
        assert self.asks.create(OTHER, made).told == "NONE"
        self.until_led(name, nodes[0])
        return name

    def until_led(self, name: str, leader: int) -> None:
        until(lambda: self.asks.leader(leader, name), "the leader", good=lambda found: found == leader, timeout_s=WAIT_S)
        until(lambda: self.asks.fetch(leader, name).told, "it leads", good=lambda told: told.startswith("NONE"), timeout_s=WAIT_S)

    def path(self, number: int) -> str:
        return str(self.place.directory(number))

    def alter(self, name: str, path: str, index: int = 0) -> str:
        wanted = log_dirs.AlterReplicaLogDir(path=path, topics=[log_dirs.AlterReplicaLogDirTopic(name=name, partitions=[index])])
        answer: Any = self.asks.send(NODE, log_dirs.AlterReplicaLogDirsRequest(dirs=[wanted]), 2, str).response()
        return error_name(answer.results[0].partitions[0].error_code)

    def described(self, *, topics: bool = True) -> str:
        """For each directory of broker 2 its error, or the topics in it: `future`, and `behind` if that one lags."""
        request = log_dirs.DescribeLogDirsRequest(topics=None if topics else [])
        answer: Any = self.asks.send(NODE, request, 4, str).response()
        by_path = {each.log_dir: each for each in answer.results}
        return " | ".join(self._directory(by_path[self.path(number)]) for number in range(1, DIRS + 1))

    def _directory(self, found: Any) -> str:
        if found.error_code:
            return f"{error_name(found.error_code)} {found.total_bytes}"
        said = [
            f"{self.names[topic.name]}{' future' if each.is_future_key else ''}{' behind' if each.offset_lag > 0 else ''}"
            f"{' ?' if each.offset_lag < 0 else ''}"
            for topic in found.topics
            for each in topic.partitions
            if topic.name in self.names
        ]
        return ", ".join(sorted(said)) or "nothing"

    def limit(self, value: str | None) -> str:
        """Limits the moves of broker 2; None: no longer."""
        config = incremental_configs.AlterableConfig(name=LIMIT, config_operation=1 if value is None else 0, value=value)
        resource = incremental_configs.AlterConfigsResource(resource_type=4, resource_name=str(NODE), configs=[config])
        request = incremental_configs.IncrementalAlterConfigsRequest(resources=[resource])
        answer: Any = self.asks.send(NODE, request, 1, str).response()
        return error_name(answer.responses[0].error_code)

    def config(self, name: str) -> str:
        resource = configs.DescribeConfigsResource(resource_type=4, resource_name=str(NODE), configuration_keys=[name])
        answer: Any = self.asks.send(NODE, configs.DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4, str).response()
        value = answer.results[0].configs[0]
        number = {self.path(number): str(number) for number in range(1, DIRS + 1)}
        said = ",".join(number.get(each, each) for each in (value.value or "").split(","))
        synonyms = [(each.name, each.source) for each in value.synonyms]
        return f"{said} type={value.config_type} source={value.config_source} read_only={value.read_only} synonyms={synonyms}"

    def until_described(self, good: Callable[[str], bool]) -> None:
        until(self.described, "the directories", good=good, timeout_s=WAIT_S)

    def play(self) -> list[str]:
        self.place_logs()
        self.move()
        self.fail()
        return self.told

    def place_logs(self) -> None:
        tell = self.tell
        self.a, self.b = self.topic("a", NODE), self.topic("b", NODE)
        tell("two logs", self.described())
        self.elsewhere = self.topic("elsewhere", OTHER)
        tell("of no topic", self.described(topics=False))
        for what, name, path, index in (
            ("an unknown directory", self.a, "/nowhere", 0),
            ("a relative path", self.a, self.place.directory(2).name, 0),
            ("an unknown partition", self.a, self.path(2), 7),
            ("an unknown topic", self.asks.name("later"), self.path(2), 0),
            ("a replica of another broker", self.elsewhere, self.path(2), 0),
            ("where it is", self.a, self.path(1), 0),
        ):
            tell(what, self.alter(name, path, index))
        self.topic("c", NODE)
        tell("in the third", self.described())
        self.topic("later", NODE)
        tell("in the one that was asked for", self.described())
        for name in ("log.dirs", "log.dir"):
            tell(name, self.config(name))

    def move(self) -> None:
        tell, asks = self.tell, self.asks
        for _ in range(12):
            asks.produce(NODE, self.a, batch(LARGE)).response()
        tell("a numbered record", asks.produce(NODE, self.a, numbered(77_000, 0)))
        tell("a limit", self.limit("1"))
        tell("a move", self.alter(self.a, self.path(3)))
        self.until_described(lambda said: "a future" in said)
        tell("while it moves", self.described())
        tell("the same again", self.alter(self.a, self.path(3)))
        tell("another one instead", self.alter(self.a, self.path(2)))
        self.until_described(lambda said: "a future" in said)
        tell("while it moves elsewhere", self.described())
        tell("where it is", self.alter(self.a, self.path(1)))
        tell("cancelled", self.described())
        tell("a move", self.alter(self.a, self.path(2)))
        tell("a record meanwhile", asks.produce(NODE, self.a, batch(b"meanwhile")))
        tell("records are deleted", asks.delete_records(NODE, self.a, 3, timeout_ms=500))
        tell("no limit", self.limit(None))
        # Kafka's answer can have both logs, and call neither a future one, while one takes the place of the other.
        self.until_described(lambda said: "future" not in said and said.startswith("nothing"))
        tell("moved", self.described())
        tell("the offsets", asks.offsets(NODE, self.a))
        tell("its end", asks.fetch(NODE, self.a, 13))
        tell("its start", asks.fetch(NODE, self.a, 2).told[:30])
        tell("its producer", asks.producer_in(NODE, self.a, 77_000))
        tell("the same record", asks.produce(NODE, self.a, numbered(77_000, 0)))
        tell("the next record", asks.produce(NODE, self.a, numbered(77_000, 1)))
        tell("records are deleted", asks.delete_records(NODE, self.a, 4, timeout_ms=20_000))

    def fail(self) -> None:
        """The third directory, with the second replica's leader and a partition that has no other replica."""
        tell, asks = self.tell, self.asks
        shared, alone = self.topic("shared", NODE, OTHER), self.topic("alone", NODE)
        for name in (shared, alone):
            if self.alter(name, self.path(3)) == "NONE":
                what = self.names[name]
                self.until_described(lambda said, what=what: "future" not in said and what in said.split(" | ")[2])  # type: ignore[misc]
        tell("before", self.described())
        tell("acks=all", asks.produce(NODE, shared, batch(b"one")))
        tell("alone", asks.produce(NODE, alone, batch(b"kept")))
        third = self.place.directory(3)
        third.rename(third.with_name("away"))
        self.until_described(lambda said: "KAFKA_STORAGE_ERROR" in said)
        until(lambda: asks.leader(OTHER, shared), "the other leader", good=lambda found: found == OTHER, timeout_s=WAIT_S)
        until(lambda: asks.leader(NODE, alone), "no leader", good=lambda found: found == -1, timeout_s=WAIT_S)
        tell("a failed directory", self.described())
        tell("Metadata", asks.show_metadata(OTHER, shared))
        tell("Metadata of the one without leader", asks.show_metadata(NODE, alone))
        tell("acks=1 at the broker", asks.produce(NODE, shared, batch(b"x"), acks=1))
        tell("Fetch", asks.fetch(NODE, shared))
        tell("Fetch in an old epoch", asks.fetch(NODE, shared, epoch=0))
        tell("ListOffsets", asks.offset(NODE, shared, -1))
        tell("the end of epoch 0", asks.epoch_end(NODE, shared, 0))
        tell("DescribeProducers", asks.producer_in(NODE, shared, 1))
        tell("DeleteRecords", asks.delete_records(NODE, alone, 0, timeout_ms=500))
        tell("an election of the broker", asks.elect_preferred(OTHER, shared))
        tell("acks=all at the other broker", asks.produce(OTHER, shared, batch(b"two")))
        for what, name, path in (
            ("to the failed directory", self.a, self.path(3)),
            ("from the failed directory", shared, self.path(1)),
            ("between the others", self.a, self.path(1)),
            ("where it is", self.a, self.path(2)),
        ):
            tell(what, self.alter(name, path))
        self.topic("new", NODE)
        tell("a new log", self.described())
        third.with_name("away").rename(third)
        tell("it is back", self.described())
        self.place.restart()
        self.until_led(alone, NODE)
        until(lambda: asks.isr(OTHER, shared), "in sync", good=lambda isr: isr == [OTHER, NODE], timeout_s=WAIT_S)
        tell("after a restart", self.described())
        tell("Metadata", asks.show_metadata(NODE, shared))
        tell("what it kept", asks.fetch(NODE, alone))
        until(lambda: asks.fetch(NODE, shared).told, "two", good=lambda told: "two" in told, timeout_s=WAIT_S)
        tell("what it missed", asks.fetch(NODE, shared))


TOLD = """
two logs: a | b | nothing
of no topic: nothing | nothing | nothing
an unknown directory: LOG_DIR_NOT_FOUND
a relative path: LOG_DIR_NOT_FOUND
an unknown partition: UNKNOWN_TOPIC_OR_PARTITION
an unknown topic: UNKNOWN_TOPIC_OR_PARTITION
a replica of another broker: REPLICA_NOT_AVAILABLE
where it is: NONE
in the third: a | b | c
in the one that was asked for: a | b, later | c
log.dirs: 1,2,3 type=7 source=4 read_only=True synonyms=[('log.dirs', 4)]
log.dir: /tmp/kafka-logs type=7 source=5 read_only=True synonyms=[('log.dir', 5)]
a numbered record: NONE @12
a limit: NONE
a move: NONE
while it moves: a | b, later | a future behind, c
the same again: NONE
another one instead: NONE
while it moves elsewhere: a | a future behind, b, later | c
where it is: NONE
cancelled: a | b, later | c
a move: NONE
a record meanwhile: NONE @13
records are deleted: REQUEST_TIMED_OUT low=0
no limit: NONE
moved: nothing | a, b, later | c
the offsets: NONE 14 epoch=0; NONE 3 epoch=0; NONE 3 epoch=0
its end: NONE hw=14 [meanwhile]
its start: OFFSET_OUT_OF_RANGE hw=-1 []
its producer: NONE sequence=0
the same record: NONE @12
the next record: NONE @14
records are deleted: NONE low=4
before: nothing | a, b, later | alone, c, shared
acks=all: NONE @0
alone: NONE @0
a failed directory: nothing | a, b, later | KAFKA_STORAGE_ERROR -1
Metadata: NONE leader=1 epoch=1 isr=[1] offline=[2] brokers=[1, 2]
Metadata of the one without leader: LEADER_NOT_AVAILABLE leader=-1 epoch=1 isr=[] offline=[2] brokers=[1, 2]
acks=1 at the broker: KAFKA_STORAGE_ERROR @-1
Fetch: KAFKA_STORAGE_ERROR hw=-1 []
Fetch in an old epoch: KAFKA_STORAGE_ERROR hw=-1 []
ListOffsets: KAFKA_STORAGE_ERROR -1 epoch=-1
the end of epoch 0: KAFKA_STORAGE_ERROR epoch=-1 end=-1
DescribeProducers: KAFKA_STORAGE_ERROR
DeleteRecords: KAFKA_STORAGE_ERROR low=-1
an election of the broker: PREFERRED_LEADER_NOT_AVAILABLE
The preferred leader was not available.
acks=all at the other broker: NONE @1
to the failed directory: KAFKA_STORAGE_ERROR
from the failed directory: KAFKA_STORAGE_ERROR
between the others: KAFKA_STORAGE_ERROR
where it is: NONE
a new log: new | a, b, later | KAFKA_STORAGE_ERROR -1
it is back: new | a, b, later | KAFKA_STORAGE_ERROR -1
after a restart: new | a, b, later | alone, c, shared
Metadata: NONE leader=1 epoch=1 isr=[1, 2] offline=[] brokers=[1, 2]
what it kept: NONE hw=1 [kept]
what it missed: NONE hw=2 [one, two]
"""


@pytest.mark.parametrize("where", [on_stub, on_kafka], ids=["stub", "kafka"])
@pytest.mark.timeout(300)
def test_brokers_with_several_log_dirs(where: Callable[[Path], AbstractContextManager[Place]], tmp_path: Path) -> None:
    """Both give Kafka 4.3.1's answers line by line."""
    with where(tmp_path) as place:
        assert Story(place).play() == TOLD.strip().split("\n")
