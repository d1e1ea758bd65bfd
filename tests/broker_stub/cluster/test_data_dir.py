"""A cluster that is kept in a directory: what a stub that is started with it again goes on with."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from fencepost.broker_stub import Acl, BrokerStub, VirtualClock
from fencepost.broker_stub.cluster import cluster
from fencepost.broker_stub.cluster.log_dir import CLEAN_SHUTDOWN
from fencepost.broker_stub.log.checkpoint_text import (
    LOG_START_OFFSETS,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINTS,
    REPLICATION_OFFSETS,
    read_offsets,
)
from fencepost.broker_stub.storage.disk import DiskDirectory, OpenFiles
from fencepost.producer import Producer
from fencepost.producer.errors import Fenced, UndeliveredRecords
from fencepost.txn import TransactionalProducer
from tests.waiting import until


@contextmanager
def stub_in(path: Path, **arguments: Any) -> Iterator[BrokerStub]:
    with BrokerStub(data_dir=path, **arguments) as stub:
        yield stub


def send(stub: BrokerStub, *values: bytes, topic: str = "t", **settings: Any) -> None:
    with Producer(**{**stub.settings, **settings}) as producer:
        for value in values:
            producer.send(topic, value=value)


def values(stub: BrokerStub, topic: str = "t", partition: int = 0) -> list[bytes | None]:
    return [record.value for record in stub.records(topic, partition)]


@pytest.mark.parametrize("brokers", [1, 3])
def test_it_goes_on_where_it_stopped(tmp_path: Path, brokers: int) -> None:
    """Topics with their ids and configs, records, leaders, the cluster's id, and producer ids that are given out once."""
    ids = set()
    with stub_in(tmp_path, brokers=brokers) as stub:
        stub.create_topic("t", partitions=2, config={"retention.ms": -1})
        stub.create_topic("gone")
        stub.add_partitions("t", 3)
        stub.delete_topic("gone")
        before = (stub.cluster.cluster_id, stub.cluster.find("t", 0).topic_id)  # type: ignore[union-attr]
        send(stub, b"first")
        ids.add(stub.cluster.producer_ids.fresh())
    for turn in range(3):
        with stub_in(tmp_path, brokers=brokers) as stub:
            found = stub.cluster.topics.named("t")
            assert found is not None
            assert stub.cluster.topics.named("gone") is None
            assert (stub.cluster.cluster_id, found.id) == before
            assert len(found.partitions) == 3
            assert found.overrides == {"retention.ms": "-1"}
            assert [len(partition.isr) for partition in found.partitions] == [brokers] * 3
            assert sum(len(values(stub, partition=partition)) for partition in range(3)) == 1 + turn
            fresh = stub.cluster.producer_ids.fresh()
            assert fresh not in ids
            ids.add(fresh)
            send(stub, b"more")


def test_a_killed_broker_is_not_eligible_at_the_next_start(tmp_path: Path) -> None:
    """The cluster ends while the broker is down. It may have lost records, as if it had been killed in the same process."""
    clock = VirtualClock()
    with stub_in(tmp_path, brokers=2, clock=clock) as stub:
        stub.create_topic("t", replication_factor=2, config={"min.insync.replicas": 2})
        leader = stub.leader("t", 0)
        follower = 3 - leader
        stub.sever(leader, follower)
        send(stub, b"x", acks=1, enable_idempotence=False)
        stub.advance(60_000)
        assert stub.cluster.find("t", 0).eligible == [follower]  # type: ignore[union-attr]
        stub.stop_broker(follower, clean=False)
    assert not (tmp_path / f"broker-{follower}" / CLEAN_SHUTDOWN).exists()
    assert (tmp_path / f"broker-{leader}" / CLEAN_SHUTDOWN).exists()
    with stub_in(tmp_path, brokers=2, clock=clock) as stub:
        assert stub.cluster.find("t", 0).eligible == []  # type: ignore[union-attr]
        assert stub.leader("t", 0) == leader
        assert values(stub) == [b"x"]


def test_a_group_goes_on(tmp_path: Path) -> None:
    """Committed offsets are there: a consumer reads on where the one before stopped."""
    read = []
    for turn in range(3):
        with stub_in(tmp_path) as stub:
            if not turn:
                stub.create_topic("t")
            send(stub, *(b"%d" % (3 * turn + number) for number in range(3)))
            consumer = Consumer({"bootstrap.servers": stub.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
            consumer.subscribe(["t"])
            for _ in range(3):
                message = consumer.poll(20)
                assert message is not None
                read.append(int(message.value() or b""))
            consumer.commit(asynchronous=False)
            consumer.close()
    assert read == [*range(9)]


def test_transactions_go_on(tmp_path: Path) -> None:
    """A committed one stays, an open one is aborted by the next producer of its id, and the producer before is fenced."""
    with stub_in(tmp_path) as stub:
        stub.create_topic("t")
        with TransactionalProducer(**stub.settings, transactional_id="a") as producer, producer.transaction() as tx:
            tx.send("t", value=b"committed")
        port = stub.addresses[1][1]
        older = TransactionalProducer(**stub.settings, transactional_id="b")
        open_one = older.begin()
        open_one.send("t", value=b"open").result(10)
    with stub_in(tmp_path, port=port) as stub:
        assert values(stub) == [b"committed"]
        assert [record.value for record in stub.records("t", 0, isolation="read_uncommitted")] == [b"committed", b"open"]
        with TransactionalProducer(**stub.settings, transactional_id="b") as producer, producer.transaction() as tx:
            tx.send("t", value=b"next")
        with pytest.raises(Fenced):
            open_one.commit()
        assert values(stub) == [b"committed", b"next"]
        older.close()


def test_acls_go_on(tmp_path: Path) -> None:
    """Those of clients and of the test, in their order, until they are deleted. Those that a start is given are created then."""
    mine, given = Acl.allow("alice", "WRITE", topic="t"), Acl.allow("bob", "READ", topic="t")
    with stub_in(tmp_path, acls=[given], super_users=["ANONYMOUS"]) as stub:
        stub.allow("alice", "WRITE", topic="t")
        binding = AclBinding(
            ResourceType.GROUP, "g", ResourcePatternType.PREFIXED, "User:carol", "*", AclOperation.READ, AclPermissionType.DENY
        )
        admin = AdminClient({"bootstrap.servers": stub.bootstrap})
        for future in admin.create_acls([binding]).values():
            future.result(30)
        theirs = stub.acls[-1]
        assert stub.acls == [given, mine, theirs]
    with stub_in(tmp_path):
        pass  # one that permits everything keeps them
    with stub_in(tmp_path, acls=[], super_users=["ANONYMOUS"]) as stub:
        assert stub.acls == [given, mine, theirs]
        assert theirs.pattern.name == "PREFIXED"
        stub.revoke([mine, given])
    with stub_in(tmp_path, acls=[given], super_users=["ANONYMOUS"]) as stub:
        assert stub.acls == [theirs, given]


def test_quotas_go_on(tmp_path: Path) -> None:
    """Until they are removed."""
    with stub_in(tmp_path) as stub:
        stub.quota(client_id="shop", producer_byte_rate=1000)
        stub.quota(user="<default>", client_id="shop", consumer_byte_rate=2.0, request_percentage=50)
        stub.quota(user="alice", producer_byte_rate=1)
        stub.quota(user="alice", producer_byte_rate=None)
        before = dict(stub.cluster.quotas.entries)
        assert len(before) == 2
    with stub_in(tmp_path) as stub:
        assert stub.cluster.quotas.entries == before
        stub.quota(client_id="shop", producer_byte_rate=None)
    with stub_in(tmp_path) as stub:
        assert len(stub.cluster.quotas.entries) == 1


def test_an_open_transaction_times_out(tmp_path: Path) -> None:
    """The coordinator goes on to watch it after a restart, without any request."""
    clock = VirtualClock()
    with stub_in(tmp_path, clock=clock) as stub:
        stub.create_topic("t")
        producer = TransactionalProducer(**stub.settings, transactional_id="a", transaction_timeout_ms=10_000)
        producer.begin().send("t", value=b"open").result(10)
    producer.close(timeout=0)
    with stub_in(tmp_path, clock=clock) as stub:
        send(stub, b"later")
        assert values(stub) == []
        stub.advance(60_000)
        assert values(stub) == [b"later"]


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_killed_process_loses_nothing(tmp_path: Path, brokers: int) -> None:
    """kill -9 while a producer sends: every acknowledged record is there once, in its order, also after three kills."""
    script = "import sys; from fencepost.broker_stub.command import serve; serve(brokers=int(sys.argv[1]), port=0, data_dir=sys.argv[2])"
    sent = 0
    for turn in range(4):
        with subprocess.Popen(
            [sys.executable, "-P", "-c", script, str(brokers), str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            bootstrap = process.stdout.readline().rsplit(" ", 1)[1].strip()
            producer = Producer(bootstrap_servers=bootstrap, request_timeout_ms=1000, linger_ms=0, delivery_timeout_ms=5000)
            futures = [producer.send("t", value=b"%d" % (sent + number)) for number in range(2000)]
            for future in futures[:1000]:
                future.result(20)
            process.send_signal(signal.SIGKILL)
            process.wait(20)
            with suppress(UndeliveredRecords):
                producer.close(timeout=0)
            acknowledged = [number for number, future in enumerate(futures) if future.exception(0) is None]
        with stub_in(tmp_path, brokers=brokers) as stub:
            there = [int(value or b"") for value in values(stub)]
        assert [value for value in there if value < sent + 2000] == there
        assert len({*there}) == len(there)
        assert {sent + number for number in acknowledged} <= {*there}, f"turn {turn}"
        assert there == sorted(there)
        sent += 2000


def test_the_last_line_of_the_metadata_may_be_torn(tmp_path: Path) -> None:
    """It was being written when the process died, so it promised nothing."""
    with stub_in(tmp_path) as stub:
        stub.create_topic("t")
        send(stub, b"there")
    file = tmp_path / "cluster-metadata.jsonl"
    file.write_bytes(file.read_bytes() + b'{"type":"topic","id":"')
    with stub_in(tmp_path) as stub:
        assert values(stub) == [b"there"]


@pytest.mark.parametrize(
    ("line", "says"),
    [(b"nonsense\n", "line 2"), (b'[{"type":"cluster","cluster_id":"x","version":7}]\n', "version 7, only 1 is known")],
    ids=["nonsense", "a later version"],
)
def test_other_metadata_is_refused(tmp_path: Path, line: bytes, says: str) -> None:
    """Nothing is changed."""
    with stub_in(tmp_path) as stub:
        stub.create_topic("t")
    file = tmp_path / "cluster-metadata.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], line, *lines[1:]]))
    before = file.read_bytes()
    with pytest.raises(ValueError, match=says):
        BrokerStub(data_dir=tmp_path)
    assert file.read_bytes() == before


def test_no_topic_id_is_given_twice(tmp_path: Path) -> None:
    """Ids follow from the seed, and each start goes on with others: a topic does not take an older one's place."""
    for turn in range(4):
        with stub_in(tmp_path) as stub:
            stub.create_topic(f"t{turn}")
            send(stub, b"x", topic=f"t{turn}")
            assert [len(values(stub, f"t{number}")) for number in range(turn + 1)] == [1] * (turn + 1)
    assert len({topic.id for topic in stub.cluster.topics}) == 4


@pytest.mark.parametrize("bytes_kept", [0.0, 0.3, 0.6, 0.99])
def test_a_topic_is_created_as_a_whole(tmp_path: Path, bytes_kept: float) -> None:
    """A process that is killed in the middle leaves no part of a topic, and no later start fails."""
    with stub_in(tmp_path) as stub:
        stub.create_topic("t", partitions=3)
        send(stub, b"x")
    file = tmp_path / "cluster-metadata.jsonl"
    with stub_in(tmp_path) as stub:
        started = len(file.read_bytes())
        stub.create_topic("u", partitions=3)
    data = file.read_bytes()
    written = len(data) - started
    file.write_bytes(data[: started + int(written * bytes_kept)] + (b"\0" * 30 + b"\n" if bytes_kept else b""))
    with stub_in(tmp_path) as stub:
        assert [topic.name for topic in stub.cluster.topics] == ["t"]
        assert sum(len(values(stub, partition=partition)) for partition in range(3)) == 1
        assert not (tmp_path / "broker-1" / "u-0").exists()
        stub.create_topic("u", partitions=3)
        found = stub.cluster.topics.named("u")
        assert found is not None
        assert len(found.partitions) == 3


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the working directory moves no file of the stub."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with stub_in(Path("kept")) as stub:
        monkeypatch.chdir(tmp_path / "elsewhere")
        stub.create_topic("t")
        send(stub, b"x")
    assert not [*(tmp_path / "elsewhere").iterdir()]
    with stub_in(tmp_path / "kept") as stub:
        assert values(stub) == [b"x"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_forked_child_does_not_keep_the_directory(tmp_path: Path) -> None:
    """The child has the lock's file open until it ends."""
    stub = BrokerStub(data_dir=tmp_path)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    try:
        stub.close()
        with stub_in(tmp_path):
            pass
    finally:
        os.close(writer)
        os.waitpid(child, 0)


def test_metadata_of_a_partition(tmp_path: Path) -> None:
    """A log without its topic's id gets it, as in Kafka. A damaged one is refused, and nothing is deleted."""
    with stub_in(tmp_path) as stub:
        stub.create_topic("t")
        send(stub, b"kept")
    file = tmp_path / "broker-1" / "t-0" / "partition.metadata"
    whole = file.read_bytes()
    file.unlink()
    with stub_in(tmp_path) as stub:
        assert values(stub) == [b"kept"]
    assert file.read_bytes() == whole
    for damaged in (b"nonsense", whole.replace(whole[-22:], b"AAAAAAAAAAAAAAAAAAAAAA")):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"the log of t-0 of broker-1 cannot be loaded: partition.metadata"):
            BrokerStub(data_dir=tmp_path)
    file.write_bytes(whole)
    with stub_in(tmp_path) as stub:
        assert values(stub) == [b"kept"]


def test_logs_without_the_clusters_metadata_are_not_deleted(tmp_path: Path) -> None:
    """Without its metadata every log looks like one of a deleted topic."""
    with stub_in(tmp_path) as stub:
        stub.create_topic("t")
        send(stub, b"kept")
    (tmp_path / "broker-1" / "my-backup").mkdir()
    file = tmp_path / "cluster-metadata.jsonl"
    whole = file.read_bytes()
    for rest in (None, b""):
        file.unlink()
        if rest is not None:
            file.write_bytes(rest)
        with pytest.raises(ValueError, match=r"cluster-metadata.jsonl is missing or empty, and there are logs"):
            BrokerStub(data_dir=tmp_path)
    file.write_bytes(whole)
    with stub_in(tmp_path) as stub:
        assert values(stub) == [b"kept"]
    assert (tmp_path / "broker-1" / "my-backup").is_dir()


def test_a_directory_has_one_user(tmp_path: Path) -> None:
    """A second stub is refused while the first one runs."""
    with stub_in(tmp_path), pytest.raises(ValueError, match="another cluster uses this directory"):
        BrokerStub(data_dir=tmp_path)
    with stub_in(tmp_path):
        pass


def test_a_stub_that_cannot_start_frees_the_directory(tmp_path: Path) -> None:
    """Its port is in use."""

    async def start(port: int) -> None:
        async with BrokerStub(data_dir=tmp_path, port=port):
            pass

    with BrokerStub() as other:
        port = other.addresses[1][1]
        with pytest.raises(OSError, match="in use"), BrokerStub(data_dir=tmp_path, port=port):
            pass
        with pytest.raises(OSError, match="in use"):
            asyncio.run(start(port))
    with stub_in(tmp_path):
        pass


def test_a_path_that_is_no_directory(tmp_path: Path) -> None:
    """The error names the value."""
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(ValueError, match="file' is a file: give a directory"):
        BrokerStub(data_dir=file)
    with pytest.raises(ValueError, match="data_dir='': must be the path of a directory"):
        BrokerStub(data_dir="")
    with pytest.raises(ValueError, match=r"data_dir='a\\x00b': must be the path of a directory, without a null character"):
        BrokerStub(data_dir="a\0b")
    with pytest.raises(TypeError, match="data_dir=5: must be the path of a directory"):
        BrokerStub(data_dir=5)  # type: ignore[arg-type]


def test_a_directory_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the data directory, the file, and what to do, for each kind of file, and the directory is free afterwards."""
    with pytest.raises(OSError, match=r"data_dir='.*/x{300}' cannot be used, because File name too long: .*: give a shorter path"):
        BrokerStub(data_dir=tmp_path / ("x" * 300))
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match=r"data_dir='.*/file/d' cannot be used, because Not a directory: '.*/file/d': give"):
        BrokerStub(data_dir=tmp_path / "file" / "d")
    with stub_in(tmp_path / "d") as stub:
        send(stub, b"x")

    def denied(path: Path, *_: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    says = r"data_dir='.*/d' cannot be used, because {}Permission denied: '{}': this user must be allowed to read and write"
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", denied)
        with pytest.raises(PermissionError, match=says.format("the disk of .* fails: ", ".*/d/.*")):
            BrokerStub(data_dir=tmp_path / "d")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", denied)
        with pytest.raises(PermissionError, match=says.format("", ".*/d/.lock")):
            BrokerStub(data_dir=tmp_path / "d")
    log = tmp_path / "d" / "broker-1" / "t-0" / f"{0:020}.log"
    log.unlink()
    log.mkdir()
    with pytest.raises(IsADirectoryError, match=r"data_dir='.*/d' cannot be used, because the disk of broker 1 fails: Is a directory"):
        BrokerStub(data_dir=tmp_path / "d")
    log.rmdir()
    with stub_in(tmp_path / "d"):
        pass


def test_a_pipe_in_the_place_of_a_file(tmp_path: Path) -> None:
    """It would have no end."""
    with stub_in(tmp_path) as stub:
        send(stub, b"x")
    for name in ("cluster-metadata.jsonl", f"broker-1/t-0/{0:020}.index", f"broker-1/t-0/{0:020}.log"):
        kept = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
        with pytest.raises(OSError, match=f"Is no file: '.*{name}'"):
            BrokerStub(data_dir=tmp_path)
        (tmp_path / name).unlink()
        (tmp_path / name).write_bytes(kept)
    with stub_in(tmp_path) as stub:
        assert values(stub) == [b"x"]


def test_records_of_a_topic_that_the_metadata_lost_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Their directory gets another name, as in Kafka, also beside a new topic with the old name. They used to be removed. A log without
    records is, and one of a topic that is known to be deleted."""
    with stub_in(tmp_path) as stub:
        stub.create_topic("kept")
        metadata = tmp_path / "cluster-metadata.jsonl"
        before = metadata.read_bytes()
        stub.create_topic("empty")
        send(stub, b"x")
    log = tmp_path / "broker-1" / "t-0" / f"{0:020}.log"
    records = log.read_bytes()
    metadata.write_bytes(before + b'[{"type":"topic","id"')
    for _ in range(2):
        with stub_in(tmp_path) as stub:
            send(stub, b"y")
            assert values(stub) == [b"y"]
            stub.delete_topic("t")
            [aside] = (tmp_path / "broker-1").glob("*-stray")
            assert (aside / log.name).read_bytes() == records
            assert f"t-0 is the log of a topic that is not known; it is {aside.name} now" in caplog.text
            assert not (tmp_path / "broker-1" / "empty-0").exists()


def test_files_of_somebody_else_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A new topic's log would have been in their directory, which gets another name."""
    with stub_in(tmp_path) as stub:
        notes = tmp_path / "broker-1" / "t-0" / "notes.txt"
        notes.parent.mkdir()
        notes.write_text("mine")
        left = tmp_path / "broker-1" / "u-0" / "partition.metadata.tmp"  # of a creation that was interrupted
        left.parent.mkdir()
        left.write_text("x")
        send(stub, b"x")
        send(stub, b"x", topic="u")
        assert values(stub) == [b"x"]
        [aside] = (tmp_path / "broker-1").glob("*-stray")
        assert (aside / "notes.txt").read_text() == "mine"
        assert not left.exists()
        assert f"t-0 is not the log of a partition; it is {aside.name} now" in caplog.text
    with stub_in(tmp_path) as stub:
        assert values(stub) == [b"x"]
        assert (aside / "notes.txt").exists()


@pytest.mark.parametrize("killed", [False, True])
def test_a_broker_whose_directory_was_lost(tmp_path: Path, killed: bool) -> None:
    """It did not shut down cleanly, as far as anyone knows. The others did and have every record, so one of them leads (KIP-966)."""
    with stub_in(tmp_path, brokers=3) as stub:
        stub.create_topic("t", replication_factor=3, config={"min.insync.replicas": 2})
        leader = stub.leader("t", 0)
        send(stub, b"a", b"b")
    if killed:
        (tmp_path / f"broker-{leader}" / CLEAN_SHUTDOWN).unlink()
    else:
        shutil.rmtree(tmp_path / f"broker-{leader}")
    with stub_in(tmp_path, brokers=3) as stub:
        assert stub.leader("t", 0) != leader
        assert values(stub) == [b"a", b"b"]
        until(lambda: sorted(stub.isr("t", 0)), "in sync", good=lambda isr: isr == [1, 2, 3])
        send(stub, b"c")
        assert [record.value for record in stub.records("t", 0, node=leader)][:2] == [b"a", b"b"]


def test_brokers_may_come_but_not_go(tmp_path: Path) -> None:
    """A directory has the logs of its brokers, so a cluster with fewer is refused."""
    with stub_in(tmp_path, brokers=2) as stub:
        stub.create_topic("t", replication_factor=2)
    with pytest.raises(ValueError, match="brokers=1: the data directory has the logs of brokers 1 to 2"):
        BrokerStub(data_dir=tmp_path)
    with stub_in(tmp_path, brokers=3) as stub:
        stub.create_topic("u", replication_factor=3)
        assert len(stub.isr("u", 0)) == 3
    with pytest.raises(ValueError, match="brokers 1 to 3"):
        BrokerStub(data_dir=tmp_path, brokers=2)


def test_a_log_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    """After a clean stop nothing is cut: the damage is said, and the files stay as they are."""
    with stub_in(tmp_path) as stub:
        stub.create_topic("t")
        send(stub, b"there")
    log = tmp_path / "broker-1" / "t-0" / f"{0:020}.log"
    damaged = bytearray(log.read_bytes())
    damaged[16] = 9  # the format's version
    log.write_bytes(damaged)
    for file in log.parent.glob("*.snapshot"):
        file.unlink()
    with pytest.raises(ValueError, match=r"the log of t-0 of broker-1 cannot be loaded: .* fencepost log verify"):
        BrokerStub(data_dir=tmp_path)
    assert log.read_bytes() == damaged


def test_a_follower_that_was_behind_stays_out_of_the_isr(tmp_path: Path) -> None:
    """The ISR lasts: a replica that lacks acknowledged records does not lead after a restart."""
    clock = VirtualClock()
    with stub_in(tmp_path, brokers=2, clock=clock) as stub:
        stub.create_topic("t", replication_factor=2)
        leader = stub.move_leader("t", 0)  # the replica that is preferred is the one that falls behind
        stub.sever(1, 2)
        send(stub, b"acknowledged", acks=1)
        stub.advance(60_000)
        send(stub, b"too", acks="all")
        assert stub.isr("t", 0) == [leader]
    with stub_in(tmp_path, brokers=2) as stub:
        assert stub.leader("t", 0) == leader
        assert values(stub) == [b"acknowledged", b"too"]
        assert sorted(stub.isr("t", 0)) == [1, 2]  # it has caught up


def test_a_deleted_file_stays_for_a_while(tmp_path: Path) -> None:
    """file.delete.delay.ms: the files of a deleted segment are there as `.deleted` for so long."""
    clock = VirtualClock()
    with stub_in(tmp_path, clock=clock) as stub:
        stub.create_topic("t", config={"file.delete.delay.ms": 5000, "segment.bytes": 1 << 20, "retention.bytes": 1 << 20})
        send(stub, *[bytes(900_000)] * 4)
        directory = tmp_path / "broker-1" / "t-0"
        assert stub.clean_logs() > 0
        assert [*directory.glob("*.log.deleted")]
        stub.advance(5001)
        assert not [*directory.glob("*.deleted")]


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ("replica.high.watermark.checkpoint.interval.ms", REPLICATION_OFFSETS),
        ("log.flush.offset.checkpoint.interval.ms", RECOVERY_POINTS),
        ("log.flush.start.offset.checkpoint.interval.ms", LOG_START_OFFSETS),
    ],
)
def test_checkpoints_are_written_at_intervals(tmp_path: Path, config: str, kind: str) -> None:
    """Not before the interval is over."""
    clock = VirtualClock()
    with stub_in(tmp_path, clock=clock, config={config: 700}) as stub:
        stub.create_topic("t")
        send(stub, b"x")
        file = tmp_path / "broker-1" / kind
        stub.advance(600)
        assert not file.exists()
        stub.advance(101)
        assert ("t", 0) in read_offsets(kind, file.read_bytes())
        assert [name for name in OFFSET_CHECKPOINTS if (tmp_path / "broker-1" / name).exists() and name.startswith("repl")] == (
            [kind] if kind == REPLICATION_OFFSETS else []
        )


def test_an_idle_cluster_writes_checkpoints_and_deletes_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any further request: where DeleteRecords let the log start survives a kill -9, and segments that it gave up are gone. Then
    nothing is written again."""
    monkeypatch.setattr(cluster, "CLEAN_LOGS_FIRST_MS", 100)
    began_ms = int(time.time() * 1000)
    config = {"log.flush.start.offset.checkpoint.interval.ms": 100, "log.retention.check.interval.ms": 100}
    with stub_in(tmp_path, config=config) as stub:
        stub.create_topic("t", config={"segment.ms": 1, "file.delete.delay.ms": 0})
        with Producer(stub.settings) as producer:
            for number in range(3):
                producer.send("t", b"%d" % number, timestamp=began_ms + 10 * number).result(20)
        admin, partition = AdminClient({"bootstrap.servers": stub.bootstrap}), TopicPartition("t", 0, 2)
        admin.delete_records([partition])[partition].result(20)
        del admin
        file, log = tmp_path / "broker-1" / LOG_START_OFFSETS, tmp_path / "broker-1" / "t-0"
        until(lambda: file.exists() and read_offsets(LOG_START_OFFSETS, file.read_bytes())["t", 0] == 2, "the log start")
        until(lambda: [each.name for each in log.glob("*.log")] == [f"{2:020}.log"], "the last segment alone")
        until(lambda: is_unchanged(file, seconds=0.5), "a file that is not written again")


def is_unchanged(file: Path, *, seconds: float) -> bool:
    """Whether the file is not replaced in that time."""
    before = file.stat().st_mtime_ns
    time.sleep(seconds)
    return file.stat().st_mtime_ns == before


def test_few_files_are_open(tmp_path: Path) -> None:
    """However many partitions there are. The files of those that are used are kept open."""
    open_files = OpenFiles(limit=3)
    directory = DiskDirectory(tmp_path, later=lambda _, run: run(), open_files=open_files)
    files = [directory.open(f"{number}.log") for number in range(10)]
    for turn in range(3):
        for number, file in enumerate(files):
            file.append(b"%d" % number)
            assert bytes(file.read(0, 100)) == b"%d" % number * (turn + 1)
            assert len(open_files) <= 3
    directory.close()
    assert not len(open_files)


@pytest.mark.parametrize("killed", [False, True])
def test_idle_logs_are_not_synced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool) -> None:
    """A start, and the next shutdown, sync as often with 40 logs in which nothing was written as with one."""
    synced, fsync = [0], os.fsync

    def counted(file: int) -> None:
        synced[0] += 1
        fsync(file)

    monkeypatch.setattr(os, "fsync", counted)
    counts = set()
    for partitions in (1, 40):
        path = tmp_path / str(partitions)
        with stub_in(path) as stub:
            stub.create_topic("t", partitions=partitions)
            if killed:
                path = Path(shutil.copytree(path, f"{path}-killed"))
        synced[0] = 0
        with stub_in(path) as stub:
            assert stub.end_offset("t", partitions - 1) == 0
            at_start = synced[0]
        counts.add((at_start, synced[0]))
    assert len(counts) == 1, counts


def test_nothing_is_left_open(tmp_path: Path) -> None:
    """Starting and closing a stub leaves no file descriptor."""
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(3):
        with stub_in(tmp_path, brokers=3) as stub:
            stub.cluster.internal_topic("__consumer_offsets")
            send(stub, b"x")
    assert before == 0 or len(os.listdir("/proc/self/fd")) <= before + 2


def test_the_command_takes_a_directory(tmp_path: Path) -> None:
    """`fencepost broker --data-dir`, stopped as Ctrl-C does, and started again."""
    for turn in range(2):
        command = [sys.executable, "-P", "-m", "fencepost", "broker", "--port", "0", "--data-dir", str(tmp_path / "d")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            bootstrap = process.stdout.readline().rsplit(" ", 1)[1].strip()
            with Producer(bootstrap_servers=bootstrap) as producer:
                assert producer.send("t", value=b"x").result(20).offset == turn
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        assert json.loads((tmp_path / "d" / "broker-1" / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": -1}
