"""Kafka's own command-line tools work on the stub: topics, configs, groups, records, leaders, transactions, and a console consumer in a
group.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer, wire
from fencepost.producer.wire.records import encode_batch
from tests.broker_stub.stub_calls import Talker, fetch_request, only
from tests.conformance.java_tools import JavaTools, OneByOne
from tests.once import once_is_enough

pytestmark = pytest.mark.timeout(300)

TOOLS = "org.apache.kafka.tools."
GROUP = "java-group"


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=3) as running:
        yield running


class Shell:
    """Runs tools against the stub."""

    def __init__(self, tools: JavaTools | OneByOne, stub: BrokerStub) -> None:
        self._tools = tools
        self._bootstrap = stub.bootstrap

    def __call__(self, tool: str, *arguments: str) -> str:
        main_class = tool if tool.startswith("kafka.") else TOOLS + tool
        return self._tools.run(main_class, "--bootstrap-server", self._bootstrap, *arguments, timeout=90.0)

    def topics(self, *arguments: str) -> str:
        return self("TopicCommand", *arguments)

    def configs(self, *arguments: str) -> str:
        return self("kafka.admin.ConfigCommand", *arguments)

    def groups(self, *arguments: str) -> str:
        return self("consumer.group.ConsumerGroupCommand", *arguments)

    def share_groups(self, *arguments: str) -> str:
        return self("consumer.group.ShareGroupCommand", *arguments)


@pytest.fixture
def shell(java_tools: JavaTools | OneByOne, stub: BrokerStub) -> Shell:
    return Shell(java_tools, stub)


def test_topics_and_configs(stub: BrokerStub, shell: Shell) -> None:
    """kafka-topics and kafka-configs create, list, describe, extend, configure and delete topics."""
    shell.topics("--create", "--topic", "t", "--partitions", "2", "--replication-factor", "2", "--config", "retention.ms=1000")
    assert shell.topics("--list").split() == ["t"]
    described = shell.topics("--describe", "--topic", "t")
    assert "PartitionCount: 2\tReplicationFactor: 2\tConfigs: min.insync.replicas=1,retention.ms=1000" in described
    assert "Partition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3" in described
    shell.topics("--alter", "--topic", "t", "--partitions", "3")
    topic = ("--entity-type", "topics", "--entity-name", "t")
    shell.configs("--alter", *topic, "--add-config", "segment.ms=5000,cleanup.policy=[compact,delete]", "--delete-config", "retention.ms")
    told = shell.configs("--describe", *topic)
    assert "segment.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.ms=5000}" in told
    assert "cleanup.policy=compact,delete" in told
    assert "retention.ms" not in told
    known = stub.cluster.topics.named("t")
    assert known is not None
    assert len(known.partitions) == 3
    assert known.overrides == {"segment.ms": "5000", "cleanup.policy": "compact,delete"}
    shell.topics("--delete", "--topic", "t")
    assert stub.cluster.topics.named("t") is None


def test_a_group_of_console_consumers(stub: BrokerStub, shell: Shell, tmp_path: Path) -> None:
    """kafka-console-consumer reads as a member and commits. kafka-consumer-groups describes, resets and deletes its group.

    Other tools delete records and elect leaders.
    """
    stub.create_topic("t", partitions=2, replication_factor=3)
    with Producer(bootstrap_servers=stub.bootstrap) as producer:
        for number in range(10):
            producer.send("t", b"%d" % number, partition=number % 2)
    wanted = ("--topic", "t", "--group", GROUP, "--from-beginning", "--timeout-ms", "60000")
    read = shell("consumer.ConsoleConsumer", *wanted, "--max-messages", "10").split()
    assert sorted(map(int, read)) == list(range(10))

    assert shell.groups("--list").split() == [GROUP]
    group = ("--group", GROUP)
    lines = [line.split() for line in shell.groups("--describe", *group).splitlines() if line.startswith(GROUP)]
    # group, topic, partition, committed, end, lag
    assert sorted(line[1:6] for line in lines) == [["t", "0", "5", "5", "0"], ["t", "1", "5", "5", "0"]]
    assert "Empty" in shell.groups("--describe", *group, "--state")
    shell.groups("--reset-offsets", *group, "--topic", "t:0", "--to-offset", "3", "--execute")
    read = shell("consumer.ConsoleConsumer", *wanted, "--max-messages", "2").split()
    assert sorted(map(int, read)) == [6, 8]
    assert "Successful" in shell.groups("--delete-offsets", *group, "--topic", "t")
    shell.groups("--delete", *group)
    assert shell.groups("--list").split() == []

    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 2}]}))
    assert "partition: t-0\tlow_watermark: 2" in shell("DeleteRecordsCommand", "--offset-json-file", str(offsets))
    assert shell("GetOffsetShell", "--topic", "t", "--time", "earliest").split() == ["t:0:2", "t:1:0"]
    preferred = stub.leader("t", 0)
    stub.move_leader("t", 0)
    shell("LeaderElectionCommand", "--election-type", "preferred", "--topic", "t", "--partition", "0")
    assert stub.leader("t", 0) == preferred


def test_a_console_consumer_of_the_consumer_protocol(shell: Shell, stub: BrokerStub) -> None:
    """Java's consumer with `group.protocol=consumer` (KIP-848) reads and commits. kafka-consumer-groups describes and deletes its group."""
    stub.create_topic("t", partitions=2, replication_factor=3)
    with Producer(bootstrap_servers=stub.bootstrap) as producer:
        for number in range(10):
            producer.send("t", b"%d" % number, partition=number % 2)
    wanted = ("--topic", "t", "--group", GROUP, "--from-beginning", "--timeout-ms", "60000", "--max-messages", "10")
    read = shell("consumer.ConsoleConsumer", *wanted, "--command-property", "group.protocol=consumer").split()
    assert sorted(map(int, read)) == list(range(10))
    group = ("--group", GROUP)
    lines = [line.split() for line in shell.groups("--describe", *group).splitlines() if line.startswith(GROUP)]
    assert sorted(line[1:6] for line in lines) == [["t", "0", "5", "5", "0"], ["t", "1", "5", "5", "0"]]
    state = shell.groups("--describe", *group, "--state")
    assert "Empty" in state
    assert "uniform" in state
    assert shell.groups("--list", "--type", "consumer").split()[-2:] == [GROUP, "Consumer"]
    shell.groups("--delete", *group)
    assert shell.groups("--list").split() == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_verifiable_consumer(shell: Shell, stub: BrokerStub, protocol: str) -> None:
    """Kafka's VerifiableConsumer reads as a member of either protocol. It says which offsets it got, and that it committed them."""
    stub.create_topic("t", partitions=2, replication_factor=3)
    with Producer(bootstrap_servers=stub.bootstrap) as producer:
        for number in range(10):
            producer.send("t", b"%d" % number, partition=number % 2)
    options = ("--topic", "t", "--group-id", GROUP, "--max-messages", "10", "--reset-policy", "earliest", "--group-protocol", protocol)
    told = [json.loads(line) for line in shell("VerifiableConsumer", *options).splitlines() if line.startswith("{")]
    events = [each["name"] for each in told]
    assert events[0] == "startup_complete"
    assert events[-1] == "shutdown_complete"
    assert "partitions_assigned" in events
    read = [part for each in told if each["name"] == "records_consumed" for part in each["partitions"]]
    assert sorted((part["partition"], offset) for part in read for offset in range(part["minOffset"], part["maxOffset"] + 1)) == [
        (partition, offset) for partition in range(2) for offset in range(5)
    ]
    committed = [each for each in told if each["name"] == "offsets_committed"]
    assert all(each["success"] for each in committed)
    ends = {part["partition"]: part["offset"] for each in committed for part in each["offsets"]}
    assert ends == {0: 5, 1: 5}


def test_console_share_consumers(shell: Shell, stub: BrokerStub) -> None:
    """kafka-console-share-consumer accepts, releases and rejects records (KIP-932). kafka-configs says where the group begins, and
    kafka-share-groups lists, describes, resets and deletes it."""
    stub.create_topic("t", partitions=2, replication_factor=3)
    with Producer(bootstrap_servers=stub.bootstrap) as producer:
        for number in range(10):
            producer.send("t", b"%d" % number, partition=number % 2)
    named = ("--entity-type", "groups", "--entity-name", GROUP)
    shell.configs("--alter", *named, "--add-config", "share.auto.offset.reset=earliest")
    assert "share.auto.offset.reset=earliest" in shell.configs("--describe", *named)
    wanted = ("--topic", "t", "--group", GROUP, "--timeout-ms", "60000")
    released = shell("consumer.ConsoleShareConsumer", *wanted, "--max-messages", "2", "--release").split()
    assert len(released) == 2
    rejected = shell("consumer.ConsoleShareConsumer", *wanted, "--max-messages", "10", "--reject").split()
    assert sorted(map(int, rejected)) == list(range(10))
    with Producer(bootstrap_servers=stub.bootstrap) as producer:
        producer.send("t", b"10", partition=0)
    assert shell("consumer.ConsoleShareConsumer", *wanted, "--max-messages", "1").split() == ["10"]

    group = ("--group", GROUP)
    assert shell.share_groups("--list").split() == [GROUP]
    lines = [line.split() for line in shell.share_groups("--describe", *group).splitlines() if line.startswith(GROUP)]
    # group, topic, partition, start offset, lag. The share coordinator hears of a new start offset with the next change.
    assert sorted([*line[:3], line[4]] for line in lines) == [[GROUP, "t", "0", "0"], [GROUP, "t", "1", "0"]]
    assert "Empty" in shell.share_groups("--describe", *group, "--state")
    shell.share_groups("--reset-offsets", *group, "--topic", "t", "--to-earliest", "--execute")
    read = shell("consumer.ConsoleShareConsumer", *wanted, "--max-messages", "11").split()
    assert sorted(map(int, read)) == list(range(11))
    assert "Successful" in shell.share_groups("--delete-offsets", *group, "--topic", "t")
    shell.share_groups("--delete", *group)
    assert shell.share_groups("--list").split() == []


@once_is_enough("Kafka's tools say the same to the stub")
def test_a_transaction_that_hangs(java_tools: JavaTools | OneByOne) -> None:
    """kafka-transactions finds a record from an hour ago that is in no transaction of its producer, and aborts it. Consumers with
    `read_committed` continue.
    """
    with BrokerStub(config={"transaction.partition.verification.enable": False}) as stub, Talker(stub) as talker:
        stub.create_topic("t")
        talker.ask(wire.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
        given: Any = talker.ask(wire.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000), 5)
        identity = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
        an_hour_ago = int(time.time() * 1000) - 3_600_000
        records = encode_batch([(an_hour_ago, None, b"v")], base_sequence=0, transactional=True, **identity)
        asked = wire.TopicProduceData(name="t", partition_data=[wire.PartitionProduceData(records=records)])
        written = only(talker.ask(wire.ProduceRequest(transactional_id="x", acks=-1, timeout_ms=1000, topic_data=[asked]), 11))
        assert written.error_code == 0
        shell = Shell(java_tools, stub)
        found = [line.split() for line in shell("TransactionsCommand", "find-hanging", "--broker-id", "1").splitlines()[1:]]
        assert found == [["t", "0", str(given.producer_id), "0", "-1", "0", str(an_hour_ago), "60"]]
        shell("TransactionsCommand", "abort", "--topic", "t", "--partition", "0", "--start-offset", "0")
        seen = only(talker.ask(fetch_request("t", isolation_level=1), 12))
        assert (seen.last_stable_offset, seen.high_watermark) == (2, 2)
        assert len(seen.aborted_transactions) == 1
