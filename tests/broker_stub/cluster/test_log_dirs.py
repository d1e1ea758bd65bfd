"""Several log directories per broker: where logs are, how they move, and what a directory that fails takes with it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC, STATE_TOPIC
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.storage.disk_state import DiskFault
from fencepost.producer import Producer, wire
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages import incremental_configs, log_dirs, topic_admin
from fencepost.producer.wire.messages.group_offsets import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from fencepost.producer.wire.records import iter_batches, read_records
from tests.broker_stub.stub_calls import Inside, Pending, Talker, batch, fetch_request, metadata_request, numbered, only, produce_request
from tests.waiting import until

LIMIT = 300
"""A move copies so many bytes per second where a test wants to look at it."""


def alter(world: Inside | Talker, path: str, topic: str = "t", index: int = 0, **where: Any) -> int:
    moved = log_dirs.AlterReplicaLogDir(path=path, topics=[log_dirs.AlterReplicaLogDirTopic(name=topic, partitions=[index])])
    response: Any = world.ask(log_dirs.AlterReplicaLogDirsRequest(dirs=[moved]), 2, **where)
    return int(response.results[0].partitions[0].error_code)


def described(world: Inside | Talker, **where: Any) -> dict[str, Any]:
    """For each directory its error, or what is in it: topic, partition, lag, and whether that is a future log."""
    response: Any = world.ask(log_dirs.DescribeLogDirsRequest(topics=None), 5, **where)
    return {
        each.log_dir.rpartition("/")[2]: ErrorCode(each.error_code).name
        if each.error_code
        else [(topic.name, log.partition_index, log.offset_lag, log.is_future_key) for topic in each.topics for log in topic.partitions]
        for each in response.results
    }


def replica(world: Inside | BrokerStub, node: int = 1) -> Replica:
    partition = world.cluster.find("t", 0)
    assert partition is not None
    found = partition.on(node)
    assert found is not None
    return found


def slow(world: Inside | BrokerStub) -> None:
    for broker in world.cluster.brokers.values():
        broker.move_bytes_per_second = LIMIT


def filled(count: int = 10, **options: Any) -> Inside:
    """Topic t in the first of two directories, with so many batches of 81 bytes each."""
    world = Inside(**{"log_dirs": 2, **options})
    world.topic()
    for number in range(count):
        world.produce(batch(b"%012d" % number))
    return world


def values(world: Inside) -> list[bytes]:
    found = only(world.ask(fetch_request("t"), 12, node=world.leader()))
    return [bytes(record.value or b"") for _, data in iter_batches(found.records) for record in read_records(data)]


NUMBERS = [b"%012d" % number for number in range(10)]


def test_a_new_log_is_in_the_directory_with_the_fewest() -> None:
    """The first one of several. Future logs count."""
    world = Inside(log_dirs=3)
    world.topic(partitions=4)
    assert described(world, node=1) == {
        "broker-1": [("t", 0, 0, False), ("t", 3, 0, False)],
        "broker-1.2": [("t", 1, 0, False)],
        "broker-1.3": [("t", 2, 0, False)],
    }
    slow(world)
    assert alter(world, "/memory/broker-1.2", index=2, node=1) == ErrorCode.NONE
    world.topic("u")
    assert {name: len(logs) for name, logs in described(world, node=1).items()} == {"broker-1": 2, "broker-1.2": 2, "broker-1.3": 2}


def test_a_move() -> None:
    """The future log is filled in slices, follows appends, and takes the place of the log. A consumer sees the same before and after."""
    world = filled()
    slow(world)
    assert alter(world, "/memory/broker-1.2", node=1) == ErrorCode.NONE
    assert described(world, node=1) == {"broker-1": [("t", 0, 0, False)], "broker-1.2": [("t", 0, 10, True)]}
    world.cluster.tick()
    assert described(world, node=1)["broker-1.2"] == [("t", 0, 7, True)]
    assert values(world) == NUMBERS
    world.produce(batch(b"more"))
    assert described(world, node=1)["broker-1.2"] == [("t", 0, 8, True)]
    for _ in range(5):
        world.pass_time(1_000)
    assert described(world, node=1) == {"broker-1": [], "broker-1.2": [("t", 0, 0, False)]}
    assert values(world) == [*NUMBERS, b"more"]
    assert world.cluster.next_deadline() is None


def test_a_move_takes_no_time_without_a_limit() -> None:
    """At the next tick the log is in its new directory."""
    world = filled()
    assert alter(world, "/memory/broker-1.2", node=1) == ErrorCode.NONE
    world.cluster.tick()
    assert described(world, node=1) == {"broker-1": [], "broker-1.2": [("t", 0, 0, False)]}


def test_a_producer_notices_nothing() -> None:
    """A duplicate is one after the move, too, and the next sequence follows."""
    world = filled(0)
    world.produce(numbered(7, 0))
    world.produce(numbered(7, 1))
    assert alter(world, "/memory/broker-1.2", node=1) == ErrorCode.NONE
    world.cluster.tick()
    assert replica(world).log is world.cluster.brokers[1].logs.dirs[1].logs["t", 0]
    assert (world.produce(numbered(7, 1)).base_offset, world.produce(numbered(7, 2)).base_offset) == (1, 2)


def test_a_fetch_that_waits_goes_on_at_the_new_log() -> None:
    """A record that comes after the move answers it."""
    world = filled()
    replies: list[Any] = []
    world.send(fetch_request("t", 10, wait_ms=60_000), 12, replies=replies)
    alter(world, "/memory/broker-1.2", node=1)
    world.cluster.tick()
    assert replies == []
    world.produce(batch(b"x"))
    world.cluster.tick()
    assert len(only(replies[0].response).records) > 0


def limit(world: Inside, value: str | None, *, node: str = "1") -> int:
    config = incremental_configs.AlterableConfig(
        name="replica.alter.log.dirs.io.max.bytes.per.second", config_operation=1 if value is None else 0, value=value
    )
    resource = incremental_configs.AlterConfigsResource(resource_type=4, resource_name=node, configs=[config])
    answer = world.ask(incremental_configs.IncrementalAlterConfigsRequest(resources=[resource]), 1, node=1)
    return int(answer.responses[0].error_code)


@pytest.mark.parametrize("node", ["1", ""])
def test_a_limit(node: str) -> None:
    """An administrator sets it for one broker or for all. When it is deleted, the moves go on at once."""
    world = filled()
    assert limit(world, "81", node=node) == ErrorCode.NONE
    alter(world, "/memory/broker-1.2", node=1)
    for lag in (8, 7, 6):
        world.pass_time(1_000)
        assert described(world, node=1)["broker-1.2"] == [("t", 0, lag, True)]
    assert limit(world, None, node=node) == ErrorCode.NONE
    world.cluster.tick()
    assert described(world, node=1)["broker-1.2"] == [("t", 0, 0, False)]


@pytest.mark.parametrize("value", ["-1", "fast", "", "1_0", str(1 << 63)])
def test_an_impossible_limit(value: str) -> None:
    """It is INVALID_REQUEST and changes nothing."""
    world = filled()
    assert limit(world, value) == ErrorCode.INVALID_REQUEST
    assert world.cluster.brokers[1].move_bytes_per_second is None


def test_another_request_replaces_or_cancels_a_move() -> None:
    """A third directory replaces the move, the same one changes nothing, and the present directory cancels it."""
    world = filled(log_dirs=3)
    slow(world)
    alter(world, "/memory/broker-1.2", node=1)
    world.cluster.tick()
    assert alter(world, "/memory/broker-1.2", node=1) == ErrorCode.NONE
    assert described(world, node=1)["broker-1.2"] == [("t", 0, 7, True)]
    assert alter(world, "/memory/broker-1.3", node=1) == ErrorCode.NONE
    assert described(world, node=1) == {"broker-1": [("t", 0, 0, False)], "broker-1.2": [], "broker-1.3": [("t", 0, 10, True)]}
    assert alter(world, "/memory/broker-1", node=1) == ErrorCode.NONE
    assert described(world, node=1) == {"broker-1": [("t", 0, 0, False)], "broker-1.2": [], "broker-1.3": []}
    world.pass_time(60_000)
    assert described(world, node=1)["broker-1"] == [("t", 0, 0, False)]
    assert [each.directory.directories() for each in world.cluster.brokers[1].logs.dirs] == [["t-0"], [], []]


@pytest.mark.parametrize("path", ["broker-1.2", "/memory/broker-1.3", "/memory/broker-1.2/", ""])
def test_a_path_that_is_no_directory_of_the_broker(path: str) -> None:
    """It is LOG_DIR_NOT_FOUND."""
    assert alter(filled(), path, node=1) == ErrorCode.LOG_DIR_NOT_FOUND


def test_a_directory_for_a_log_that_comes_later() -> None:
    """The error says that there is no replica, and the broker keeps the directory."""
    world = filled()
    assert alter(world, "/memory/broker-1.2", "v", node=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.topic("u")
    world.topic("w")
    world.topic("v")
    assert [each for each in described(world, node=1)["broker-1.2"] if each[0] == "v"] == [("v", 0, 0, False)]


def test_a_replica_that_is_not_on_the_broker() -> None:
    """It is REPLICA_NOT_AVAILABLE."""
    world = filled(brokers=2)
    other = 3 - world.leader()
    assert alter(world, f"/memory/broker-{other}.2", node=other) == ErrorCode.REPLICA_NOT_AVAILABLE


def test_records_are_deleted_while_a_log_moves() -> None:
    """DeleteRecords waits for the future log. Retention does nothing meanwhile, as in Kafka."""
    world = filled(30)
    slow(world)
    alter(world, "/memory/broker-1.2", node=1)
    asked = topic_admin.DeleteRecordsTopic(name="t", partitions=[topic_admin.DeleteRecordsPartition(partition_index=0, offset=5)])
    replies: list[Any] = []
    world.send(topic_admin.DeleteRecordsRequest(topics=[asked], timeout_ms=60_000), 2, replies=replies)
    assert replies == []
    for _ in range(12):
        world.pass_time(1_000)
    assert replies[0].response.topics[0].partitions[0].low_watermark == 5
    assert replica(world).log.log_start_offset == 5
    assert described(world, node=1)["broker-1.2"] == [("t", 0, 0, False)]


@pytest.mark.parametrize("how", ["clean", "killed", "power"])
def test_a_move_goes_on_when_its_broker_starts(how: str) -> None:
    """A stop of any kind interrupts it. No record is missing afterwards."""
    world = filled(config={"flush.messages": "1"})
    slow(world)
    alter(world, "/memory/broker-1.2", node=1)
    world.pass_time(1_000)
    world.cluster.stop_broker(1, clean=how == "clean", lost_power=how == "power")
    world.pass_time(60_000)
    assert len(world.cluster.logs.moves) == 0
    world.cluster.start_broker(1)
    assert described(world, node=1)["broker-1.2"][0][3]
    for _ in range(5):
        world.pass_time(1_000)
    assert described(world, node=1) == {"broker-1": [], "broker-1.2": [("t", 0, 0, False)]}
    assert values(world) == NUMBERS


def test_a_topic_is_deleted_while_it_moves() -> None:
    """Nothing is left of it."""
    world = filled()
    slow(world)
    alter(world, "/memory/broker-1.2", node=1)
    world.pass_time(1_000)
    world.cluster.delete_topic(world.topic_named())
    world.pass_time(60_000)
    assert described(world, node=1) == {"broker-1": [], "broker-1.2": []}
    assert [each.directory.directories() for each in world.cluster.brokers[1].logs.dirs] == [[], []]
    assert len(world.cluster.logs.moves) == 0
    assert world.cluster.next_deadline() is None


def test_a_follower_moves() -> None:
    """It stays in sync."""
    world = filled(0, brokers=2)
    world.topic("r", replicas=2)
    world.produce(batch(b"x"), topic="r")
    follower = 3 - world.leader("r")
    here = next(name for name, logs in described(world, node=follower).items() if ("r", 0, 0, False) in logs)
    there = f"broker-{follower}" if here.endswith(".2") else f"broker-{follower}.2"
    alter(world, f"/memory/{there}", "r", node=follower)
    world.cluster.tick()
    assert ("r", 0, 0, False) in described(world, node=follower)[there]
    assert world.produce(batch(b"y"), topic="r").base_offset == 1
    world.pass_time(1_000)
    partition = world.cluster.find("r", 0)
    assert partition is not None
    assert sorted(partition.isr) == [1, 2]
    assert {log.log_end_offset for log in partition.logs.values()} == {2}


# -- a directory that fails


def test_a_broker_goes_on_without_a_directory() -> None:
    """Its replicas there are offline: another one leads, and the broker says so to clients. A restart brings them back."""
    world = Inside(brokers=2, log_dirs=2)
    world.topic(replicas=2, min_insync_replicas="1")
    world.topic("u", replicas=2)
    node = world.leader()
    logs = world.cluster.brokers[node].logs
    failed = logs.dir_of(("t", 0))
    assert failed is not None
    failed.disk.fault = "failed"
    assert world.produce(batch(b"x"), node=node).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    world.cluster.tick()
    assert world.cluster.brokers[node].alive
    assert (world.leader(), world.leader("u")) == (3 - node, world.leader("u"))
    assert described(world, node=node)[failed.name] == "KAFKA_STORAGE_ERROR"
    for version_and_answer in (world.produce(batch(b"x"), node=node), only(world.ask(fetch_request("t"), 12, node=node))):
        assert version_and_answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    (topic,) = world.ask(metadata_request("t"), 12, node=node).topics
    (told,) = topic.partitions
    assert (told.leader_id, told.isr_nodes, told.offline_replicas) == (3 - node, [3 - node], [node])
    (topic,) = world.ask(metadata_request("u"), 12, node=node).topics
    assert topic.partitions[0].offline_replicas == []
    assert alter(world, failed.path, node=node) == ErrorCode.KAFKA_STORAGE_ERROR
    assert alter(world, failed.path, "u", node=node) == ErrorCode.KAFKA_STORAGE_ERROR
    other = next(each for each in logs.dirs if each is not failed)
    assert alter(world, other.path, node=node) == ErrorCode.KAFKA_STORAGE_ERROR
    assert alter(world, other.path, "u", node=node) == ErrorCode.NONE
    world.topic("w", replicas=2)
    assert [each[0] for each in described(world, node=node)[other.name]] == ["u", "w"]
    assert world.produce(batch(b"y")).error_code == 0
    world.cluster.stop_broker(node)
    world.cluster.start_broker(node)
    assert described(world, node=node)[failed.name] == "KAFKA_STORAGE_ERROR"
    assert world.leader() == 3 - node
    failed.disk.fault = None
    world.cluster.stop_broker(node)
    world.cluster.start_broker(node)
    world.pass_time(1_000)
    partition = world.cluster.find("t", 0)
    assert partition is not None
    assert (sorted(partition.isr), partition.state.offline) == ([1, 2], ())
    assert {log.log_end_offset for log in partition.logs.values()} == {1}
    assert described(world, node=node)[failed.name] == [("t", 0, 0, False)]


@pytest.mark.parametrize("fault", ["full", "failed"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_the_last_disk_fails_while_a_log_is_created(tmp_path: Path, fault: DiskFault, *, on_disk: bool) -> None:
    """Each disk has the start of the log. After their repair the broker starts with one of them, and so does the next stub."""
    data_dir = tmp_path if on_disk else None
    with BrokerStub(brokers=3, log_dirs=2, data_dir=data_dir) as stub:
        stub.fail_disk(2, fault)
        stub.create_topic("t", replication_factor=3)
        assert not stub.cluster.brokers[2].alive
        stub.repair_disk(2)
        stub.start_broker(2)
        with Producer(**stub.settings) as producer:
            producer.send("t", b"x").result(20)
        until(lambda: len(stub.isr("t", 0)) == 3, "the broker is in sync")
    with BrokerStub(brokers=3, log_dirs=2, data_dir=data_dir) as stub:
        assert not on_disk or [each.value for each in stub.records("t", 0)] == [b"x"]


def test_a_topic_is_created_while_a_broker_has_no_disk() -> None:
    """The other brokers serve it. The broker creates its log when it starts."""
    with BrokerStub(brokers=3, log_dirs=2) as stub:
        stub.fail_disk(2)
        stub.create_topic("t", replication_factor=3)
        with pytest.raises(OSError, match="disk 1 of broker 2 fails"):
            stub.start_broker(2)
        stub.create_topic("u", replication_factor=3)
        with Producer(**stub.settings) as producer:
            producer.send("u", b"x").result(20)
        stub.repair_disk(2)
        stub.start_broker(2)
        until(lambda: len(stub.isr("u", 0)) == 3, "the broker is in sync")


def test_an_offset_on_a_disk_that_fails() -> None:
    """A lookup by time reads the file. It gets an error, and the directory goes offline."""
    world = filled()
    world.cluster.brokers[1].logs.dirs[0].disk.fault = "failed"
    partitions = [wire.ListOffsetsPartition(partition_index=0, timestamp=0)]
    request = wire.ListOffsetsRequest(topics=[wire.ListOffsetsTopic(name="t", partitions=partitions)])
    assert world.ask(request, 5, node=1).topics[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    world.cluster.tick()
    assert described(world, node=1)["broker-1"] == "KAFKA_STORAGE_ERROR"


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, STATE_TOPIC])
def test_a_coordinator_whose_directory_fails(topic: str) -> None:
    """The client looks for another coordinator, as in Kafka, and does not fail."""
    world = Inside(brokers=3, log_dirs=2, config={"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1})
    world.topic()
    world.cluster.internal_topic(topic)
    if topic == OFFSETS_TOPIC:
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
        topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
        request: Any = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=topics)
    else:
        request = wire.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1_000)

    def answered(node: int) -> str:
        reply = Pending(tick=world.cluster.tick)
        world.send(request, 5, node=node, replies=reply.replies)
        answer = reply.answer
        return ErrorCode((answer.topics[0].partitions[0] if topic == OFFSETS_TOPIC else answer).error_code).name

    node = world.leader(topic)
    failed = world.cluster.brokers[node].logs.dir_of((topic, 0))
    assert failed is not None
    failed.disk.fault = "failed"
    assert answered(node) == "NOT_COORDINATOR"
    world.cluster.tick()
    assert world.cluster.brokers[node].alive
    assert world.leader(topic) != node
    assert answered(world.leader(topic)) == "NONE"


def test_the_only_replica_is_offline() -> None:
    """It has no leader until the broker starts again. Then it has everything."""
    world = filled()
    world.cluster.brokers[1].logs.dirs[0].disk.fault = "full"
    assert world.produce(batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    world.cluster.tick()
    (topic,) = world.ask(metadata_request("t"), 12, node=1).topics
    assert (topic.partitions[0].leader_id, topic.partitions[0].error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    world.cluster.brokers[1].logs.dirs[0].disk.fault = None
    world.cluster.stop_broker(1)
    world.cluster.start_broker(1)
    assert values(world) == NUMBERS


def test_the_last_directory_halts_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    """With the first one the broker only loses a part of its logs."""
    with BrokerStub(log_dirs=2) as stub:
        stub.create_topic("t", partitions=2)
        stub.fail_disk(1, log_dir=1)
        with Producer(**stub.settings, delivery_timeout_ms=1500) as producer:
            assert producer.send("t", b"x", partition=0).exception(20) is not None
            producer.send("t", b"x", partition=1).result(20)
            stub.fail_disk(1, log_dir=2)
            assert producer.send("t", b"x", partition=1).exception(20) is not None
        until(lambda: not stub.cluster.brokers[1].alive, "the broker halts")
        assert "broker 1 takes /memory/broker-1 offline: disk 1 of broker 1 fails: Input/output error" in caplog.messages
        assert "broker 1 halts: disk 2 of broker 1 fails: Input/output error" in caplog.messages
        with pytest.raises(OSError, match="disk 1 of broker 1 fails"):
            stub.start_broker(1)
        stub.repair_disk(1, log_dir=2)
        stub.start_broker(1)
        assert (stub.leader("t", 0), stub.leader("t", 1)) == (-1, 1)
        stub.repair_disk(1)
        stub.restart_broker(1)
        assert (stub.leader("t", 0), stub.leader("t", 1)) == (1, 1)


@pytest.mark.parametrize("fails", ["source", "target"])
def test_a_directory_fails_while_a_log_moves(fails: str) -> None:
    """The target: the log stays where it is. The source: the move goes on when the broker starts with a working disk."""
    world = filled()
    slow(world)
    alter(world, "/memory/broker-1.2", node=1)
    world.pass_time(1_000)
    source, target = world.cluster.brokers[1].logs.dirs
    failed = source if fails == "source" else target
    failed.disk.fault = "failed"
    world.pass_time(1_000)
    world.pass_time(1_000)
    assert described(world, node=1)[failed.name] == "KAFKA_STORAGE_ERROR"
    if fails == "target":
        assert values(world) == NUMBERS
        assert described(world, node=1)["broker-1"] == [("t", 0, 0, False)]
    else:
        assert [(each[2], each[3]) for each in described(world, node=1)["broker-1.2"]] == [(-1, True)]
    failed.disk.fault = None
    world.cluster.stop_broker(1)
    world.cluster.start_broker(1)
    for _ in range(8):
        world.pass_time(1_000)
    assert described(world, node=1) == {"broker-1": [], "broker-1.2": [("t", 0, 0, False)]}
    assert values(world) == NUMBERS


@pytest.mark.parametrize("step", ["remove_taken_out", "checkpoint"])
def test_the_source_fails_when_the_log_has_moved(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """The replica uses the log in the target, and the source goes offline."""
    world = filled()
    source = world.cluster.brokers[1].logs.dirs[0]

    def fails(*_: object) -> None:
        source.disk.fault = "failed"
        source.disk.check_write()

    monkeypatch.setattr(source, step, fails)
    alter(world, "/memory/broker-1.2", node=1)
    world.cluster.tick()
    world.cluster.tick()
    monkeypatch.undo()
    assert described(world, node=1) == {"broker-1": "KAFKA_STORAGE_ERROR", "broker-1.2": [("t", 0, 0, False)]}
    assert world.produce(batch(b"%012d" % 10)).error_code == 0
    assert values(world) == [*NUMBERS, b"%012d" % 10]
    source.disk.fault = None
    world.cluster.stop_broker(1)
    world.cluster.start_broker(1)
    assert described(world, node=1) == {"broker-1": [], "broker-1.2": [("t", 0, 0, False)]}


def test_the_controller_learns_of_it_later() -> None:
    """A broker that does not reach the controller takes its replica offline at once. The leadership moves when the link is mended."""
    world = Inside(brokers=2, log_dirs=2)
    world.topic(replicas=2)
    node = world.leader()
    world.cluster.broker_links.sever(node, 0)
    failed = world.cluster.brokers[node].logs.dir_of(("t", 0))
    assert failed is not None
    failed.disk.fault = "failed"
    world.produce(batch(b"x"), node=node)
    world.cluster.tick()
    assert replica(world, node).is_offline
    assert world.leader() == node
    world.cluster.broker_links.mend(node, 0)
    world.cluster.tick()
    assert world.leader() == 3 - node


# -- on disk


def test_directories_on_disk(tmp_path: Path) -> None:
    """A move that was not finished goes on in the next process. A finished one has its files in the new directory alone."""
    with BrokerStub(data_dir=tmp_path, log_dirs=2, clock=VirtualClock()) as stub, Talker(stub) as talker:
        stub.create_topic("t")
        slow(stub)
        for number in range(10):
            talker.produce("t", batch(b"%012d" % number))
        assert alter(talker, str(tmp_path / "broker-1.2")) == ErrorCode.NONE
        stub.advance(1_000)
        (future,) = [each.name for each in (tmp_path / "broker-1.2").iterdir() if each.is_dir()]
        assert future.startswith("t-0.")
        assert future.endswith("-future")
    with BrokerStub(data_dir=tmp_path, log_dirs=2, clock=VirtualClock()) as stub, Talker(stub) as talker:
        stub.advance(0)
        assert described(talker) == {"broker-1": [], "broker-1.2": [("t", 0, 0, False)]}
        assert [record.value for record in stub.records("t", 0)] == NUMBERS
        talker.produce("t", batch(b"more"))
    assert sorted(each.name for each in tmp_path.glob("broker-*/*") if each.is_dir()) == ["t-0"]
    assert (tmp_path / "broker-1.2" / "t-0").is_dir()
    with BrokerStub(data_dir=tmp_path, log_dirs=2) as stub:
        assert [record.value for record in stub.records("t", 0)] == [*NUMBERS, b"more"]


def test_another_number_of_directories(tmp_path: Path) -> None:
    """More are fine. Fewer are an error where a log is missing then."""
    with BrokerStub(data_dir=tmp_path) as stub:
        stub.create_topic("t")
    with BrokerStub(data_dir=tmp_path, log_dirs=3) as stub:
        stub.create_topic("u")
    with BrokerStub(data_dir=tmp_path, log_dirs=2) as stub:
        assert {topic.name for topic in stub.cluster.topics} == {"t", "u"}
    with pytest.raises(ValueError, match=r"log_dirs=1: the data directory has the log of u-0 in broker-1\.2"):
        BrokerStub(data_dir=tmp_path)
    with BrokerStub(data_dir=tmp_path, log_dirs=2):
        pass


def test_a_log_in_two_directories(tmp_path: Path) -> None:
    """Nothing says which one counts, so the start fails, as in Kafka. A log of an older topic of that name does not count."""
    with BrokerStub(data_dir=tmp_path, log_dirs=2) as stub:
        stub.create_topic("t")
    shutil.copytree(tmp_path / "broker-1" / "t-0", tmp_path / "broker-1.2" / "t-0")
    with pytest.raises(ValueError, match=r"the log of t-0 is in broker-1 and broker-1\.2"):
        BrokerStub(data_dir=tmp_path, log_dirs=2)
    (tmp_path / "broker-1.2" / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    with BrokerStub(data_dir=tmp_path, log_dirs=2) as stub:
        assert stub.records("t", 0) == []
    assert not (tmp_path / "broker-1.2" / "t-0").exists()


def test_a_directory_that_is_removed(tmp_path: Path) -> None:
    """As any other failure of its disk."""
    with BrokerStub(data_dir=tmp_path, log_dirs=2) as stub, Talker(stub) as talker:
        stub.create_topic("t", partitions=2)
        shutil.rmtree(tmp_path / "broker-1.2")
        assert described(talker) == {"broker-1": [("t", 0, 0, False)], "broker-1.2": "KAFKA_STORAGE_ERROR"}
        until(lambda: stub.leader("t", 1) == -1, "the replica is offline")
        assert stub.leader("t", 0) == 1


def test_impossible_numbers() -> None:
    """Of directories, and of a directory that the broker does not have."""
    with pytest.raises(ValueError, match="log_dirs=0: must be a whole number from 1 to 100"):
        BrokerStub(log_dirs=0)
    with BrokerStub(log_dirs=2) as stub:
        with pytest.raises(KeyError, match="broker 1 has no log directory 3, only 1 to 2"):
            stub.fail_disk(1, log_dir=3)
        with pytest.raises(ValueError, match="log_dir=0: must be the number of a log directory"):
            stub.repair_disk(1, log_dir=0)


def test_a_write_waits_for_a_follower_whose_directory_failed() -> None:
    """As in Kafka the leader knows only that the follower had caught up a moment ago, and that its broker is there. It waits until
    replica.lag.time.max.ms has passed, though the follower has left the ISR."""
    world = Inside(brokers=2, log_dirs=2)
    world.cluster.create_assigned("t", [(1, 2)])
    assert world.produce(batch(b"a")).error_code == ErrorCode.NONE
    there = world.cluster.brokers[2].logs.dir_of(("t", 0))
    assert there is not None
    there.disk.fault = "failed"
    pending = Pending(only, tick=world.cluster.tick)
    world.send(replace(produce_request("t", batch(b"b")), timeout_ms=120_000), 12, replies=pending.replies)
    assert pending.waits
    assert replica(world).isr == [1]
    assert world.cluster.live == [1, 2]
    world.pass_time(15_000)
    assert pending.waits
    world.pass_time(15_001)
    world.pass_time(15_000)
    assert pending.answer.error_code == ErrorCode.NONE
