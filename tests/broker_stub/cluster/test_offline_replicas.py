"""Logs that cannot be created, because the broker's disk fails: the request is answered as in Kafka, and the broker halts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.storage.disk_state import DiskFault
from fencepost.producer import Producer, wire
from fencepost.producer.wire.messages import replicas, topic_admin
from tests.broker_stub.stub_calls import Talker
from tests.waiting import until


def ask(stub: BrokerStub, node: int, request: wire.Message, version: int) -> Any:
    with closing(Talker(stub, node)) as talker:
        return talker.ask(request, version)


def send(stub: BrokerStub, *values: bytes, partition: int = 0) -> None:
    with Producer(**stub.settings) as producer:
        for value in values:
            producer.send("t", value, partition=partition).result(20)


def values(stub: BrokerStub, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in stub.records("t", partition)]


def until_down(stub: BrokerStub, node: int) -> None:
    until(lambda: not stub.cluster.brokers[node].alive, "the broker halts")


@pytest.mark.parametrize("fault", ["full", "failed"])
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("asked", [1, 2])
def test_a_new_topic(tmp_path: Path, fault: DiskFault, on_disk: bool, asked: int) -> None:
    """It is there, and its other replicas lead. The replica on the failed disk gets its log when the broker is back."""
    with BrokerStub(brokers=2, data_dir=tmp_path if on_disk else None) as stub:
        stub.fail_disk(2, fault)
        topic = wire.CreatableTopic(name="t", num_partitions=2, replication_factor=2)
        created = ask(stub, asked, wire.CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
        assert (created.topics[0].error_code, created.topics[0].num_partitions) == (0, 2)
        until_down(stub, 2)
        send(stub, b"x")
        assert [(stub.leader("t", index), stub.isr("t", index)) for index in range(2)] == [(1, [1])] * 2
        stub.repair_disk(2)
        stub.start_broker(2)
        assert [sorted(stub.isr("t", index)) for index in range(2)] == [[1, 2]] * 2
        assert values(stub) == [b"x"]


def test_new_partitions_of_the_failed_disk_alone(tmp_path: Path) -> None:
    """They have no leader until the broker is back. Then they last."""
    with BrokerStub(brokers=2, data_dir=tmp_path) as stub:
        stub.create_topic("t", replication_factor=1)
        stub.fail_disk(2)
        places = [topic_admin.CreatePartitionsAssignment(broker_ids=[node]) for node in (2, 1)]
        grown = topic_admin.CreatePartitionsTopic(name="t", count=3, assignments=places)
        created = ask(stub, 1, topic_admin.CreatePartitionsRequest(topics=[grown], timeout_ms=1000), 3)
        assert (created.results[0].error_code, created.results[0].error_message) == (0, None)
        until_down(stub, 2)
        assert stub.leader("t", 1) == -1
        with pytest.raises(OSError, match="the disk of broker 2 fails"):
            stub.start_broker(2)
        stub.repair_disk(2)
        stub.start_broker(2)
        send(stub, b"x", partition=1)
        assert (stub.leader("t", 1), stub.isr("t", 1)) == (2, [2])
    with BrokerStub(brokers=2, data_dir=tmp_path) as stub:
        assert values(stub, 1) == [b"x"]


@pytest.mark.parametrize("fault", ["full", "failed"])
@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
@pytest.mark.parametrize("records", [0, 1])
def test_a_reassignment(tmp_path: Path, fault: DiskFault, is_up: bool, records: int) -> None:
    """It stays in progress until the broker is back. Until then the old replica keeps its log."""
    with BrokerStub(brokers=2, data_dir=tmp_path) as stub:
        stub.create_topic("t", replication_factor=1)
        old, sent = stub.leader("t", 0), [b"x"] * records
        new = 3 - old
        send(stub, *sent)
        if not is_up:
            stub.stop_broker(new)
        stub.fail_disk(new, fault)
        wanted = replicas.ReassignablePartition(partition_index=0, replicas=[new])
        request = replicas.AlterPartitionReassignmentsRequest(topics=[replicas.ReassignableTopic(name="t", partitions=[wanted])])
        assert ask(stub, old, request, 1).responses[0].partitions[0].error_code == 0
        until_down(stub, new)
        assert (stub.leader("t", 0), stub.isr("t", 0), values(stub)) == (old, [old], sent)
        going_on = ask(stub, old, replicas.ListPartitionReassignmentsRequest(topics=None), 0)
        assert going_on.topics[0].partitions[0].adding_replicas == [new]
        stub.repair_disk(new)
        stub.start_broker(new)
        assert (stub.leader("t", 0), stub.isr("t", 0), values(stub)) == (new, [new], sent)
        assert not (tmp_path / f"broker-{old}" / "t-0").exists()
