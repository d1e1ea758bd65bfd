"""Disks that fail, power that fails, and bytes that change: what clients and other replicas see."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.broker_stub.cluster.coordinator_partition import partition_for
from fencepost.broker_stub.cluster.log_dir import CLEAN_SHUTDOWN
from fencepost.producer import Producer
from fencepost.producer.errors import DeliveryError
from fencepost.txn import TransactionalProducer
from tests.waiting import until


def cluster(brokers: int = 3, **arguments: Any) -> BrokerStub:
    return BrokerStub(brokers=brokers, **arguments)


def acknowledged(stub: BrokerStub, *values: bytes, **settings: Any) -> None:
    with Producer(**{**stub.settings, **settings}) as producer:
        for value in values:
            producer.send("t", value).result(20)


def values(stub: BrokerStub) -> list[bytes | None]:
    return [record.value for record in stub.records("t", 0)]


def ends(stub: BrokerStub) -> set[int]:
    partition = stub.cluster.find("t", 0)
    assert partition is not None
    return {log.log_end_offset for log in partition.logs.values()}


@pytest.mark.parametrize("fault", ["full", "failed"])
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_a_leader_whose_disk_fails_halts(tmp_path: Path, fault: Literal["full", "failed"], on_disk: bool) -> None:
    """Another replica leads on with all that was acknowledged. Repaired and started, the broker has the same log."""
    with cluster(data_dir=tmp_path if on_disk else None) as stub:
        stub.create_topic("t", replication_factor=3, config={"min.insync.replicas": 2})
        acknowledged(stub, b"before")
        leader = stub.leader("t", 0)
        stub.fail_disk(leader, fault)
        acknowledged(stub, b"meanwhile")
        assert not stub.cluster.brokers[leader].alive
        assert leader not in stub.isr("t", 0)
        stub.repair_disk(leader)
        stub.start_broker(leader)
        assert sorted(stub.isr("t", 0)) == [1, 2, 3]
        assert values(stub) == [b"before", b"meanwhile"]
        assert ends(stub) == {2}


def test_a_follower_whose_disk_fails_halts() -> None:
    """The leader goes on without it."""
    with cluster() as stub:
        stub.create_topic("t", replication_factor=3, config={"min.insync.replicas": 2})
        follower = next(node for node in (1, 2, 3) if node != stub.leader("t", 0))
        stub.fail_disk(follower)
        acknowledged(stub, b"one", b"two")
        until(lambda: not stub.cluster.brokers[follower].alive, "the follower halts")
        assert follower not in stub.isr("t", 0)
        with pytest.raises(OSError, match=f"the disk of broker {follower} fails: Input/output error"):
            stub.start_broker(follower)
        stub.repair_disk(follower)
        stub.start_broker(follower)
        assert sorted(stub.isr("t", 0)) == [1, 2, 3]
        assert ends(stub) == {2}


def test_a_broker_with_a_failed_disk_does_not_start() -> None:
    """Also one that was stopped before its disk failed."""
    with cluster(brokers=1) as stub:
        stub.create_topic("t")
        stub.stop_broker(1)
        stub.fail_disk(1)
        with pytest.raises(OSError, match="the disk of broker 1 fails: Input/output error"):
            stub.start_broker(1)
        assert not stub.cluster.brokers[1].alive
        stub.repair_disk(1)
        stub.start_broker(1)
        acknowledged(stub, b"x")


def test_a_broker_halts_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log says it once, however many partitions find out."""
    with cluster(brokers=1) as stub:
        stub.fail_disk(1)
        stub.create_topic("t", partitions=5)
        until(lambda: not stub.cluster.brokers[1].alive, "the broker halts")
        assert caplog.messages == ["broker 1 halts: the disk of broker 1 fails: Input/output error"]


def test_the_only_broker_halts() -> None:
    """The record fails after its time, without an acknowledgement. After the repair the producer's retry is the only one."""
    with cluster(brokers=1) as stub:
        stub.create_topic("t")
        acknowledged(stub, b"before")
        stub.fail_disk(1, "full")
        with Producer(**stub.settings, delivery_timeout_ms=2000) as producer:
            future = producer.send("t", b"lost")
            with pytest.raises(DeliveryError):
                future.result(20)
        stub.repair_disk(1)
        stub.start_broker(1)
        assert values(stub) == [b"before"]
        acknowledged(stub, b"after")
        assert values(stub) == [b"before", b"after"]


def test_a_sync_that_fails_doubles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is in the file, and the broker halts without an acknowledgement. A retry after the start is the same batch."""
    with cluster(brokers=1, data_dir=tmp_path) as stub:
        stub.create_topic("t", config={"flush.messages": 1})
        with Producer(**stub.settings) as producer:
            producer.send("t", b"before").result(20)
            real = os.fsync

            def fails(descriptor: int) -> None:
                monkeypatch.setattr(os, "fsync", real)
                raise OSError(errno.EIO, "Input/output error")

            monkeypatch.setattr(os, "fsync", fails)
            future = producer.send("t", b"once")
            until(lambda: not stub.cluster.brokers[1].alive, "the broker halts")
            stub.start_broker(1)
            assert future.result(20).offset == 1
        assert values(stub) == [b"before", b"once"]


def test_a_transaction_survives_its_coordinators_disk() -> None:
    """The coordinator's broker halts between the records and the commit: the next coordinator commits it as a whole."""
    with cluster() as stub:
        stub.create_topic("t", partitions=3, replication_factor=3, config={"min.insync.replicas": 2})
        with TransactionalProducer(**stub.settings, transactional_id="x") as producer:
            tx = producer.begin()
            for number in range(9):
                tx.send("t", b"%d" % number, partition=number % 3)
            producer.flush()
            coordinator = stub.leader("__transaction_state", partition_for("x", 50))
            stub.fail_disk(coordinator)
            tx.commit()
        assert not stub.cluster.brokers[coordinator].alive
        assert sum(len(stub.records("t", partition)) for partition in range(3)) == 9


@pytest.mark.parametrize("flush", [None, 1])
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_a_loss_of_power_takes_what_was_not_synced(tmp_path: Path, flush: int | None, on_disk: bool) -> None:
    """The only replica: flush.messages=1 keeps every acknowledged record, Kafka's default none of the active segment's."""
    with cluster(brokers=1, data_dir=tmp_path if on_disk else None) as stub:
        stub.create_topic("t", config={} if flush is None else {"flush.messages": flush})
        acknowledged(stub, b"one", b"two")
        stub.lose_power(1)
        stub.start_broker(1)
        assert values(stub) == ([] if flush is None else [b"one", b"two"])
        acknowledged(stub, b"three")
        assert values(stub)[-1] == b"three"


def test_a_loss_of_power_takes_nothing_from_the_others() -> None:
    """One of three replicas at a time, again and again: every acknowledged record stays, once."""
    sent = []
    with cluster() as stub:
        stub.create_topic("t", replication_factor=3, config={"min.insync.replicas": 2})
        with Producer(**stub.settings, linger_ms=0) as producer:
            for turn in range(12):
                sent.append(b"%d" % turn)
                future = producer.send("t", sent[-1])
                node = turn % 3 + 1
                stub.lose_power(node)
                future.result(20)
                stub.start_broker(node)
        assert values(stub) == sent
        assert ends(stub) == {len(sent)}


def test_a_damaged_batch_is_served_and_refused_by_consumers() -> None:
    """The broker does not look into what it serves. A consumer that checks CRCs does."""
    with cluster(brokers=1) as stub:
        stub.create_topic("t")
        acknowledged(stub, b"one", b"two")
        stub.corrupt("t", 0, 1)
        consumer = Consumer({"bootstrap.servers": stub.bootstrap, "group.id": "g", "check.crcs": True, "enable.auto.commit": False})
        consumer.assign([TopicPartition("t", 0, 0)])
        first = consumer.poll(20)
        assert first is not None
        assert first.value() == b"one"
        second = consumer.poll(20)
        assert second is not None
        error = second.error()
        assert error is not None
        with pytest.raises(KafkaException, match=r"CRC|_BAD_MSG"):
            raise KafkaException(error)
        consumer.close()


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_damage_does_not_undo_a_sync(tmp_path: Path, on_disk: bool) -> None:
    """A loss of power takes nothing of the segment with the damaged batch, because it was synced when the next one began. The start does
    not look for damage before the recovery point."""
    with cluster(brokers=1, data_dir=tmp_path if on_disk else None, clock=VirtualClock()) as stub:
        stub.create_topic("t", config={"flush.messages": 1, "segment.bytes": 1 << 20})
        acknowledged(stub, *[bytes(300_000)] * 6)
        stub.corrupt("t", 0, 0)
        stub.advance(60_001)  # log.flush.offset.checkpoint.interval.ms
        stub.lose_power(1)
        stub.start_broker(1)
        log = stub.cluster.find("t", 0).log  # type: ignore[union-attr]
        assert [header.base_offset for header, _ in log.batches()] == [*range(6)]


def test_a_follower_does_not_take_a_damaged_batch(caplog: pytest.LogCaptureFixture) -> None:
    """It stays behind and out of the ISR, and the log says why. The leader goes on."""
    with cluster(brokers=2) as stub:
        stub.create_topic("t", replication_factor=2)
        leader = stub.leader("t", 0)
        follower = 3 - leader
        stub.stop_broker(follower)
        acknowledged(stub, b"one", b"two")
        stub.corrupt("t", 0, 1)
        stub.start_broker(follower)
        assert stub.isr("t", 0) == [leader]
        assert f"broker {follower} cannot replicate t-0 from broker {leader}" in caplog.text
        acknowledged(stub, b"three")
        assert stub.isr("t", 0) == [leader]


def test_impossible_arguments_are_named() -> None:
    """An unknown fault, broker or offset."""
    with cluster(brokers=1) as stub:
        stub.create_topic("t")
        with pytest.raises(ValueError, match="fault='broken': must be 'full' or 'failed'"):
            stub.fail_disk(1, "broken")  # type: ignore[arg-type]
        with pytest.raises(KeyError, match="no broker 2"):
            stub.lose_power(2)
        with pytest.raises(KeyError, match="no batch with offset 0"):
            stub.corrupt("t", 0, 0)
        with pytest.raises(KeyError, match="no broker 7"):
            stub.corrupt("t", 0, 0, node=7)


@pytest.mark.parametrize("fault", ["full", "failed"])
@pytest.mark.parametrize("halted", [False, True])
def test_a_stub_whose_disk_fails_closes(
    tmp_path: Path, fault: Literal["full", "failed"], halted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The shutdown is unclean, the log names the reason once, and the next stub gets the directory with all that was acknowledged."""
    with cluster(brokers=2, data_dir=tmp_path) as stub:
        stub.create_topic("t", replication_factor=2)
        acknowledged(stub, b"before")
        leader = stub.leader("t", 0)
        stub.fail_disk(leader, fault)
        if halted:
            acknowledged(stub, b"after")
    says = "halts" if halted else "does not shut down cleanly"
    reason = {"full": "No space left on device", "failed": "Input/output error"}[fault]
    assert f"broker {leader} {says}: the disk of broker {leader} fails: {reason}" in caplog.messages
    assert [(tmp_path / f"broker-{node}" / CLEAN_SHUTDOWN).exists() for node in (leader, 3 - leader)] == [False, True]
    with cluster(brokers=2, data_dir=tmp_path) as stub:
        assert values(stub) == [b"before", b"after"][: 1 + halted]
        assert sorted(stub.isr("t", 0)) == [1, 2]


@pytest.mark.parametrize("removed", ["broker-1", "broker-1/t-0"])
@pytest.mark.parametrize("noticed_by", ["a record", "retention"])
def test_files_that_are_removed_halt_the_broker(tmp_path: Path, removed: str, noticed_by: str, caplog: pytest.LogCaptureFixture) -> None:
    """As any other error of a disk does. Without its own directory the broker stays down; that of a partition is made again."""
    with cluster(brokers=1, data_dir=tmp_path) as stub:
        stub.create_topic("t", config={"segment.bytes": 1 << 20, "retention.bytes": 0})
        acknowledged(stub, bytes(900_000))
        shutil.rmtree(tmp_path / removed)
        if noticed_by == "a record":
            with Producer(**stub.settings, delivery_timeout_ms=1500) as producer:
                assert "KAFKA_STORAGE_ERROR" in str(producer.send("t", bytes(900_000)).exception(20))
        else:
            stub.clean_logs()
        until(lambda: not stub.cluster.brokers[1].alive, "the broker halts")
        assert "broker 1 halts: the disk of broker 1 fails: No such file or directory" in caplog.messages
        assert "this is a bug" not in caplog.text
        if removed == "broker-1":
            with pytest.raises(OSError, match="the disk of broker 1 fails: No such file or directory"):
                stub.start_broker(1)
            (tmp_path / removed).mkdir()
        stub.start_broker(1)
        acknowledged(stub, b"again")
        assert values(stub) == [b"again"]


def test_a_disk_on_which_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller's files are on it, too, so every broker halts. Started again, the brokers go on with what was acknowledged, and so
    does the next stub."""
    with cluster(data_dir=tmp_path) as stub:
        stub.create_topic("t", replication_factor=3, config={"flush.messages": 1})
        acknowledged(stub, b"before")

        def fails(descriptor: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails)
            with Producer(**stub.settings, delivery_timeout_ms=1500) as producer:
                assert producer.send("t", b"lost").exception(20) is not None
            until(lambda: not stub.cluster.live, "every broker halts")
            with pytest.raises(OSError, match="the disk of the controller fails: Input/output error"):
                stub.start_broker(1)
        for node in (1, 2, 3):
            stub.start_broker(node)
        assert sorted(stub.isr("t", 0)) == [1, 2, 3]
        assert stub.leader("t", 0) in stub.isr("t", 0)
        acknowledged(stub, b"after")
        there = values(stub)
        assert [value for value in there if value != b"lost"] == [b"before", b"after"]
    with cluster(data_dir=tmp_path) as stub:
        assert values(stub) == there


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="a system without the names of open files")
def test_what_the_controller_cannot_write_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics are as they were, with their files and configs."""
    with cluster(brokers=1, data_dir=tmp_path) as stub:
        stub.create_topic("t")
        acknowledged(stub, b"x")
        real = os.fsync

        def fails(descriptor: int) -> None:
            if Path(os.readlink(f"/proc/self/fd/{descriptor}")).name == "cluster-metadata.jsonl":
                raise OSError(errno.EIO, "Input/output error")
            real(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails)
            with pytest.raises(OSError, match="the disk of the controller fails"):
                stub.create_topic("u")
            with pytest.raises(OSError, match="the disk of the controller fails"):
                stub.add_partitions("t", 2)
            with pytest.raises(OSError, match="the disk of the controller fails"):
                stub.delete_topic("t")
        assert [(topic.name, len(topic.partitions)) for topic in stub.cluster.topics] == [("t", 1)]
        assert [*stub.cluster.brokers[1].logs.logs] == [("t", 0)]
        stub.start_broker(1)
        assert values(stub) == [b"x"]
    with cluster(brokers=1, data_dir=tmp_path) as stub:
        assert [(topic.name, len(topic.partitions)) for topic in stub.cluster.topics] == [("t", 1)]
        assert values(stub) == [b"x"]


FULL = """
import resource, sys
from fencepost import BrokerStub, Producer
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with BrokerStub(data_dir=sys.argv[1]) as stub:
    stub.create_topic("t")
    with Producer(bootstrap_servers=stub.bootstrap, linger_ms=0, delivery_timeout_ms=1500, request_timeout_ms=500) as producer:
        futures = [producer.send("t", bytes(20_000)) for _ in range(30)]
        acknowledged = sum(future.exception(30) is None for future in futures)
    print(acknowledged, stub.cluster.brokers[1].alive, flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a system without limits of file sizes")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """The system takes no more bytes: the broker halts, and the next start has all that was acknowledged, and nothing torn."""
    assert resource.RLIMIT_FSIZE is not None
    command = [sys.executable, "-P", "-c", FULL, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    acknowledged_count, alive = ran.stdout.split()
    assert alive == "False", ran.stderr[-2000:]
    assert 0 < int(acknowledged_count) < 30
    with BrokerStub(data_dir=tmp_path) as stub:
        assert len(values(stub)) >= int(acknowledged_count)
        assert {len(value or b"") for value in values(stub)} == {20_000}
