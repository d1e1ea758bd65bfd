"""The directory of each broker, in memory and on disk. The answers themselves are compared with Apache Kafka's in tests/conformance."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages import log_dirs
from tests.broker_stub.stub_calls import Inside, Talker, batch
from tests.waiting import until


def described(world: Inside, node: int) -> Any:
    (directory,) = world.ask(log_dirs.DescribeLogDirsRequest(topics=None), 5, node=node).results
    return directory


def sizes(directory: Any) -> dict[tuple[str, int], int]:
    return {(topic.name, each.partition_index): each.partition_size for topic in directory.topics for each in topic.partitions}


def test_a_directory_in_memory() -> None:
    """Each broker has one, with the logs of its replicas and no disk below. A follower that is cut off has a smaller log, and no lag."""
    world = Inside(brokers=3)
    world.topic(replicas=2)
    world.produce(batch(b"x"))
    world.cluster.broker_links.sever(1, 2)
    world.produce(batch(b"y"), acks=1)
    leader, follower, other = (described(world, node) for node in (1, 2, 3))
    assert (leader.log_dir, leader.total_bytes, leader.usable_bytes) == ("/memory/broker-1", -1, -1)
    assert sizes(leader)["t", 0] == 2 * sizes(follower)["t", 0] == 2 * len(batch(b"x"))
    assert [each.offset_lag for each in follower.topics[0].partitions] == [0]
    assert sizes(other) == {}


@pytest.mark.parametrize("absolute", [True, False])
def test_a_directory_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absolute: bool) -> None:
    """It has its absolute path, and the space of its disk."""
    monkeypatch.chdir(tmp_path)
    with BrokerStub(data_dir=tmp_path / "d" if absolute else "d") as stub, Talker(stub) as talker:
        answer: Any = talker.ask(log_dirs.DescribeLogDirsRequest(topics=None), 4)
        (directory,) = answer.results
    assert directory.log_dir == str(tmp_path / "d" / "broker-1")
    assert directory.total_bytes == shutil.disk_usage(tmp_path).total
    assert 0 < directory.usable_bytes < directory.total_bytes


def test_a_directory_that_was_removed(tmp_path: Path) -> None:
    """It is named with its error, and the broker halts."""
    with BrokerStub(data_dir=tmp_path) as stub, Talker(stub) as talker:
        shutil.rmtree(tmp_path / "broker-1")
        answer: Any = talker.ask(log_dirs.DescribeLogDirsRequest(topics=None), 4)
        (directory,) = answer.results
        assert (directory.log_dir, directory.error_code) == (str(tmp_path / "broker-1"), ErrorCode.KAFKA_STORAGE_ERROR)
        until(lambda: not stub.cluster.brokers[1].alive, "the broker halts")
