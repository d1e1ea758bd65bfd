"""Log directories that are cordoned (KIP-1066): they keep their logs and get no new ones. What is set on brokers lasts, and is
described."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages import configs, incremental_configs, log_dirs
from fencepost.producer.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from fencepost.producer.wire.messages.replicas import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from fencepost.producer.wire.messages.topic_admin import CreatePartitionsRequest, CreatePartitionsTopic
from tests.broker_stub.cluster.test_log_dirs import alter, described
from tests.broker_stub.stub_calls import Inside, Talker, batch

CORDONED, MOVE_LIMIT = "cordoned.log.dirs", "replica.alter.log.dirs.io.max.bytes.per.second"
SET, DELETE, APPEND, SUBTRACT = range(4)
FIRST, SECOND = "/memory/broker-1", "/memory/broker-1.2"


def configure(
    world: Inside | Talker, name: str, value: str | None, *, how: int = SET, broker: str = "1", **where: Any
) -> tuple[str, str | None]:
    config = incremental_configs.AlterableConfig(name=name, config_operation=DELETE if value is None else how, value=value)
    resource = incremental_configs.AlterConfigsResource(resource_type=4, resource_name=broker, configs=[config])
    answer: Any = world.ask(incremental_configs.IncrementalAlterConfigsRequest(resources=[resource]), 1, **where)
    return ErrorCode(answer.responses[0].error_code).name, answer.responses[0].error_message


def config_of(world: Inside | Talker, name: str, *, broker: str = "1", **where: Any) -> list[tuple[str | None, int]]:
    """The value and its source, and those that it hides."""
    resource = configs.DescribeConfigsResource(resource_type=4, resource_name=broker, configuration_keys=[name])
    answer: Any = world.ask(configs.DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4, **where)
    return [(each.value, each.source) for entry in answer.results[0].configs for each in entry.synonyms]


def cordoned(world: Inside, node: int = 1) -> list[str]:
    answer = world.ask(log_dirs.DescribeLogDirsRequest(topics=None), 5, node=node)
    return [each.log_dir for each in answer.results if each.is_cordoned]


def create(world: Inside, name: str, *nodes: int, factor: int = 1) -> tuple[str, str | None]:
    """Creates a topic on those brokers, or on some."""
    assigned = [CreatableReplicaAssignment(broker_ids=list(nodes))] if nodes else []
    topic = CreatableTopic(name=name, num_partitions=-1 if nodes else 1, replication_factor=-1 if nodes else factor, assignments=assigned)
    (result,) = world.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 5, node=2).topics
    return ErrorCode(result.error_code).name, result.error_message


def test_a_cordoned_directory_gets_no_new_logs() -> None:
    """The logs in it stay. None moves there, and a move away from it works."""
    world = Inside(log_dirs=2)
    world.topic("a")
    assert configure(world, CORDONED, FIRST, node=1) == ("NONE", None)
    assert cordoned(world) == [FIRST]
    for name in ("b", "c"):
        world.topic(name)
    assert described(world, node=1) == {"broker-1": [("a", 0, 0, False)], "broker-1.2": [("b", 0, 0, False), ("c", 0, 0, False)]}
    assert alter(world, FIRST, "b", node=1) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert alter(world, SECOND, "a", node=1) == ErrorCode.NONE
    world.cluster.tick()
    assert described(world, node=1)["broker-1"] == []
    assert world.produce(batch(b"x"), topic="a").error_code == ErrorCode.NONE
    assert configure(world, CORDONED, None, node=1) == ("NONE", None)
    assert cordoned(world) == []
    world.topic("d")
    assert described(world, node=1)["broker-1"] == [("d", 0, 0, False)]


def test_a_list_of_directories() -> None:
    """Directories are added to the list and taken out of it. `*` is all of them."""
    world = Inside(log_dirs=3)
    assert configure(world, CORDONED, SECOND, how=APPEND, node=1) == ("NONE", None)
    assert configure(world, CORDONED, FIRST, how=APPEND, node=1) == ("NONE", None)
    assert cordoned(world) == [FIRST, SECOND]
    assert configure(world, CORDONED, SECOND, how=SUBTRACT, node=1) == ("NONE", None)
    assert cordoned(world) == [FIRST]
    assert configure(world, CORDONED, "*", node=1) == ("NONE", None)
    assert len(cordoned(world)) == 3


def test_a_broker_with_no_other_directory_gets_no_replicas() -> None:
    """While there are others."""
    world = Inside(brokers=2, log_dirs=2)
    world.topic("t", replicas=2)
    world.topic("alone")
    assert configure(world, CORDONED, "*", node=1) == ("NONE", None)
    for name in ("u", "v", "w"):
        assert create(world, name) == ("NONE", None)
        assert world.topic_named(name).partitions[0].replicas == (2,)
    few = "The target replication factor of 2 cannot be reached because only 1 broker(s) are registered or some brokers have all their log"
    assert create(world, "x", factor=2) == (
        "INVALID_REPLICATION_FACTOR",
        f"Unable to replicate the partition 2 time(s): {few} directories cordoned.",
    )
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)], timeout_ms=1_000)
    assert world.ask(more, 3, node=2).results[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert configure(world, CORDONED, "*", broker="2", node=2) == ("NONE", None)
    none = "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log directories cordoned."
    assert create(world, "x") == ("INVALID_REPLICATION_FACTOR", none)


def test_an_administrator_may_name_a_cordoned_broker() -> None:
    """As with Kafka 4.3. The log is in the first directory."""
    world = Inside(brokers=2, log_dirs=2)
    assert configure(world, CORDONED, "*", node=1) == ("NONE", None)
    assert create(world, "x", 1) == ("NONE", None)
    assert create(world, "y", 2) == ("NONE", None)
    asked = [ReassignablePartition(partition_index=0, replicas=[1])]
    moved = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="y", partitions=asked)])
    (result,) = world.ask(moved, 0, node=2).responses[0].partitions
    assert result.error_code == ErrorCode.NONE
    world.cluster.tick()
    assert described(world, node=1) == {"broker-1": [("x", 0, 0, False), ("y", 0, 0, False)], "broker-1.2": []}


def test_what_is_set_on_brokers_is_described() -> None:
    """A broker's own value before that of all brokers. What is not set is not described."""
    world = Inside(brokers=2)
    assert config_of(world, MOVE_LIMIT, node=1) == []
    assert config_of(world, CORDONED, node=1) == [("", 5)]
    configure(world, MOVE_LIMIT, "5", node=1)
    configure(world, MOVE_LIMIT, "7", broker="", node=2)
    assert config_of(world, MOVE_LIMIT, node=1) == [("5", 2), ("7", 3)]
    assert config_of(world, MOVE_LIMIT, broker="2", node=2) == [("7", 3)]
    assert config_of(world, MOVE_LIMIT, broker="", node=2) == [("7", 3)]
    assert [each.move_bytes_per_second for each in world.cluster.brokers.values()] == [5, 7]
    configure(world, MOVE_LIMIT, None, node=1)
    assert config_of(world, MOVE_LIMIT, node=1) == [("7", 3)]


def test_what_is_set_on_brokers_lasts(tmp_path: Path) -> None:
    """In the data directory, for the next start."""
    with BrokerStub(data_dir=tmp_path, log_dirs=2) as stub, Talker(stub) as talker:
        second = stub.cluster.brokers[1].logs.dirs[1].path
        assert configure(talker, CORDONED, second) == ("NONE", None)
        assert configure(talker, MOVE_LIMIT, "12345", broker="") == ("NONE", None)
    with BrokerStub(data_dir=tmp_path, log_dirs=2) as stub, Talker(stub) as talker:
        assert config_of(talker, CORDONED) == [(second, 2), ("", 5)]
        assert config_of(talker, MOVE_LIMIT) == [("12345", 3)]
        assert [each.is_cordoned for each in stub.cluster.brokers[1].logs.dirs] == [False, True]
        assert stub.cluster.brokers[1].move_bytes_per_second == 12345


WRONG = {
    "/nowhere": "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : /nowhere",
    f"{FIRST},x": "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : x",
    f"*,{FIRST}": "requirement failed: When cordoned.log.dirs is set to *, it must not contain other values",
}


@pytest.mark.parametrize("paths", WRONG)
def test_directories_that_the_broker_does_not_have(paths: str) -> None:
    """The answer is Kafka's, and nothing changes."""
    world = Inside(log_dirs=2)
    assert configure(world, CORDONED, paths, node=1) == ("INVALID_REQUEST", WRONG[paths])
    assert cordoned(world) == []


def test_directories_are_cordoned_broker_by_broker() -> None:
    """Not for all at once."""
    world = Inside(log_dirs=2)
    says = "Cannot update these configs at default cluster level, broker id must be specified: [cordoned.log.dirs]"
    assert configure(world, CORDONED, "*", broker="", node=1) == ("INVALID_REQUEST", says)
    assert configure(world, CORDONED, None, broker="", node=1) == ("NONE", None)


def test_a_limit_of_zero() -> None:
    """Kafka takes it. A slice is copied every eleven seconds."""
    world = Inside(log_dirs=2)
    world.topic()
    for _ in range(3):
        world.produce(batch(b"x"))
    assert configure(world, MOVE_LIMIT, "0", node=1) == ("NONE", None)
    alter(world, SECOND, node=1)
    world.cluster.tick()
    assert described(world, node=1)["broker-1.2"] == [("t", 0, 2, True)]
    world.pass_time(10_999)
    assert described(world, node=1)["broker-1.2"] == [("t", 0, 2, True)]
    world.pass_time(1)
    assert described(world, node=1)["broker-1.2"] == [("t", 0, 1, True)]
    assert configure(world, MOVE_LIMIT, None, node=1) == ("NONE", None)
    world.cluster.tick()
    assert described(world, node=1) == {"broker-1": [], "broker-1.2": [("t", 0, 0, False)]}
