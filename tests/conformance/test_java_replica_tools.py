"""Kafka's command-line tools for replicas say the same to the stub as to Apache Kafka: kafka-reassign-partitions, kafka-log-dirs and
kafka-leader-election.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer
from fencepost.producer.wire.messages import log_dirs, replicas
from tests.conformance.fixtures import require_kafka
from tests.conformance.java_tools import JavaTools, OneByOne
from tests.conformance.kafka import KafkaCluster
from tests.conformance.raw import RawConnection
from tests.once import once_is_enough
from tests.waiting import until

pytestmark = [pytest.mark.timeout(600), once_is_enough("Kafka's tools say the same to the stub")]

WAIT_S = 60.0
TOOLS = "org.apache.kafka.tools."


class Place(NamedTuple):
    """A cluster of three brokers."""

    addresses: dict[int, tuple[str, int]]
    stop: Callable[[int], object]
    start: Callable[[int], object]


@contextmanager
def on_stub() -> Iterator[Place]:
    with BrokerStub(brokers=3, log_dirs=2) as stub:
        yield Place(stub.addresses, stub.stop_broker, stub.start_broker)


@contextmanager
def on_kafka() -> Iterator[Place]:
    require_kafka()
    with KafkaCluster(brokers=3, log_dirs=2) as cluster:
        yield Place(cluster.addresses, cluster.stop_broker, cluster.start_broker)


class Story:
    """What the tools say to one cluster, without what differs in each run."""

    def __init__(self, tools: JavaTools | OneByOne, place: Place, directory: Path) -> None:
        self.told: list[str] = []
        self.place = place
        self._tools = tools
        self._directory = directory
        self.bootstrap = ",".join(f"{host}:{port}" for host, port in place.addresses.values())

    def run(self, tool: str, *arguments: str) -> str:
        try:
            said = self._tools.run(TOOLS + tool, "--bootstrap-server", self.bootstrap, *arguments, timeout=90.0)
        except RuntimeError as error:
            said = f"failed {re.split(r'failed: ', str(error), maxsplit=1)[1].split(chr(10) + chr(9))[0]}"
        return re.sub(r"(?<!\w)/[^\s\",:]*", self._name_of, re.sub(r'"(log_dirs":\[)[^]]*', r'"\1...', said)).strip()

    def _name_of(self, path: re.Match[str]) -> str:
        """The number of a log directory."""
        return f"directory {2 if path[0].rstrip('.').endswith('.2') else 1}"

    def log_dirs(self, node: int) -> list[str]:
        """The paths of a broker's log directories."""
        with RawConnection(self.place.addresses[node]) as connection:
            answer: Any = connection.ask(log_dirs.DescribeLogDirsRequest(topics=[]), 4)
        return sorted(each.log_dir for each in answer.results)

    def tell(self, tool: str, *arguments: str) -> None:
        self.told.append(self.run(tool, *arguments))

    def create(self, topic: str, brokers: str) -> None:
        self.run("TopicCommand", "--create", "--topic", topic, "--replica-assignment", brokers)
        self.until_isr(topic, brokers.split(":"))

    def until_isr(self, topic: str, brokers: list[str]) -> None:
        """Wait until the replicas at these brokers are in sync."""
        until(
            lambda: sorted(self._described(topic, "Isr").split(",")),
            f"{brokers} in sync",
            good=lambda found: found == sorted(brokers),
            timeout_s=WAIT_S,
        )

    def until_leader(self, topic: str, leader: str) -> None:
        until(lambda: self._described(topic, "Leader"), f"leader {leader}", good=lambda found: found == leader, timeout_s=WAIT_S)

    def write(self, topic: str) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            producer.send(topic, b"x").result(WAIT_S)

    def moves(self, **brokers: list[int]) -> str:
        """The file of a reassignment."""
        wanted = [{"topic": topic, "partition": 0, "replicas": to} for topic, to in brokers.items()]
        return self.file({"version": 1, "partitions": wanted})

    def file(self, content: Any) -> str:
        path = self._directory / "file.json"
        path.write_text(json.dumps(content))
        return str(path)

    def reassign(self, action: str, file: str, *options: str) -> None:
        self.tell("reassign.ReassignPartitionsCommand", action, "--reassignment-json-file", file, *options)

    def begin(self, topic: str, *brokers: int) -> None:
        """Ask broker 2 for a reassignment, without the tool."""
        wanted = replicas.ReassignablePartition(replicas=list(brokers))
        request = replicas.AlterPartitionReassignmentsRequest(topics=[replicas.ReassignableTopic(name=topic, partitions=[wanted])])
        with RawConnection(self.place.addresses[2]) as connection:
            answer = connection.ask(request, 0)
        assert isinstance(answer, replicas.AlterPartitionReassignmentsResponse)
        assert answer.responses[0].partitions[0].error_code == 0

    def until_verified(self, file: str, end: str = "is completed") -> None:
        """Run --verify until the reassignment is completed, and tell what it says then."""
        verify = ("reassign.ReassignPartitionsCommand", "--verify", "--reassignment-json-file", file)
        self.told.append(until(lambda: self.run(*verify), "a reassignment", good=lambda said: end in said, timeout_s=WAIT_S))

    def _described(self, topic: str, field: str) -> str:
        found = re.search(rf"\t{field}: (\S*)", self.run("TopicCommand", "--describe", "--topic", topic).partition("\n")[2])
        return found[1] if found else ""


def of_moves(story: Story) -> None:
    """A reassignment that is generated, executed and verified, and one that waits for a broker, is listed and cancelled."""
    story.create("t", "1:2")
    story.write("t")
    topics = story.file({"version": 1, "topics": [{"topic": "t"}]})
    said = story.run("reassign.ReassignPartitionsCommand", "--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3")
    story.told.append(re.sub(r"\[(2,3|3,2)\]", "[2 and 3]", said))
    file = story.moves(t=[3, 2])
    story.reassign("--execute", file)
    story.until_verified(file)
    story.tell("reassign.ReassignPartitionsCommand", "--list")
    story.until_isr("t", ["2", "3"])
    story.place.stop(1)
    file = story.moves(t=[1, 2])
    story.reassign("--execute", file)  # the tool refuses a broker that is down
    story.begin("t", 1, 2)
    story.tell("reassign.ReassignPartitionsCommand", "--list")
    for action in ("--verify", "--cancel", "--verify", "--cancel"):
        story.reassign(action, file, "--preserve-throttles")
    story.tell("reassign.ReassignPartitionsCommand", "--list")
    story.place.start(1)
    story.until_isr("t", ["2", "3"])


def of_directories(story: Story) -> None:
    """The sizes of a topic's logs at each broker, and of unknown topics and brokers."""
    story.create("d", "1:2")
    story.write("d")
    for arguments in (
        ("--topic-list", "d"),
        ("--topic-list", "d,unknown", "--broker-list", "1"),
        ("--broker-list", "9", "--topic-list", "d"),
    ):
        story.told.append(without_sizes(story.run("LogDirsCommand", "--describe", *arguments)))


def without_sizes(said: str) -> str:
    """What kafka-log-dirs says, with the directories in order."""
    lines = re.sub(r'(?<="size":)[1-9]\d*', "some", said).split("\n")
    for number, line in enumerate(lines):
        if line.startswith("{"):
            described = json.loads(line.replace(":some", ":1"))
            for broker in described["brokers"]:
                broker["logDirs"].sort(key=lambda each: each["logDir"])
            lines[number] = json.dumps(described, sort_keys=True)
    return "\n".join(lines)


def of_moves_between_directories(story: Story) -> None:
    """kafka-reassign-partitions with log_dirs: a replica moves at its broker, under a throttle that is lifted at the end. Then one moves to
    another broker, into the directory that was named."""
    story.create("m", "1:2")
    story.write("m")
    here, there = story.log_dirs(1)
    current = story.run("LogDirsCommand", "--describe", "--topic-list", "m", "--broker-list", "1")
    target = there if re.search(r'"logDir":"directory 1"[^}]*"partition":"m-0"', current) else here
    wanted = {"topic": "m", "partition": 0, "replicas": [1, 2], "log_dirs": [target, "any"]}
    file = story.file({"version": 1, "partitions": [wanted]})
    story.reassign("--execute", file, "--replica-alter-log-dirs-throttle", "1000000")
    story.until_verified(file, "completed successfully")
    story.told.append(without_sizes(story.run("LogDirsCommand", "--describe", "--topic-list", "m")))
    to_third = {"topic": "m", "partition": 0, "replicas": [3, 2], "log_dirs": [story.log_dirs(3)[1], "any"]}
    file = story.file({"version": 1, "partitions": [to_third]})
    story.reassign("--execute", file)
    story.until_isr("m", ["2", "3"])
    story.until_verified(file, "completed successfully")
    story.told.append(without_sizes(story.run("LogDirsCommand", "--describe", "--topic-list", "m")))
    nowhere = {"topic": "m", "partition": 0, "replicas": [3, 2], "log_dirs": ["/nowhere", "any"]}
    story.reassign("--verify", story.file({"version": 1, "partitions": [nowhere]}))


def of_elections(story: Story) -> None:
    """The preferred replica leads again, once. An unclean election elects the replica that is there, which lacks a record."""
    story.create("p", "3:2")
    story.create("u", "2:3")
    preferred = ("LeaderElectionCommand", "--election-type", "preferred", "--topic", "p", "--partition", "0")
    unclean = ("LeaderElectionCommand", "--election-type", "unclean", "--topic", "u", "--partition", "0")
    story.place.stop(3)
    story.until_leader("p", "2")
    story.tell(*preferred)
    story.until_isr("u", ["2"])
    story.write("u")
    story.place.start(3)
    story.until_isr("p", ["2", "3"])
    story.tell(*preferred)
    story.tell(*preferred)
    story.tell(*unclean)
    story.until_isr("u", ["2", "3"])
    story.place.stop(3)
    story.until_isr("u", ["2"])
    story.write("u")
    story.place.stop(2)
    story.place.start(3)
    story.until_leader("u", "none")
    story.tell(*unclean)
    story.until_leader("u", "3")
    story.tell(*unclean)
    story.place.start(2)
    story.until_isr("u", ["2", "3"])


def test_the_tools_say_the_same(java_tools: JavaTools | OneByOne, tmp_path: Path) -> None:
    """Every line that they print is the same."""
    told = []
    for place_of in (on_stub, on_kafka):
        with place_of() as place:
            story = Story(java_tools, place, tmp_path)
            for tell in (of_moves, of_directories, of_moves_between_directories, of_elections):
                tell(story)
        told.append(story.told)
    ours, theirs = told
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        assert one == other, f"step {number}"
    assert any("Successfully completed leader election (UNCLEAN)" in said for said in ours)
