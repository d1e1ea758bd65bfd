"""Compaction on the cluster's clock and on demand, as clients see it."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.broker_stub.cluster import log_cleaner
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.log_cleaner import SLICE_BYTES
from fencepost.broker_stub.log import Origin
from fencepost.broker_stub.log.checkpoint_text import CLEANER_OFFSETS
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.storage.disk import open_data_dir
from fencepost.broker_stub.storage.volatile import VolatileDirectory
from fencepost.producer import Producer
from fencepost.producer.wire.records import encode_batch, read_records
from tests.broker_stub.stub_calls import Inside
from tests.reading import read_messages
from tests.waiting import despite, until

MEBIBYTE = 1 << 20
COMPACTED: dict[str, Any] = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "1000"}


def write(world: Inside, *keys: str) -> None:
    """One batch with a record for each key, a second after the one before, so that it begins a segment."""
    world.pass_time(1001)
    world.produce(encode_batch([(world.cluster.now_ms(), key.encode(), b"v") for key in keys]))


def left(world: Inside) -> list[int]:
    """The base offset of each batch that is left."""
    return [header.base_offset for header, _ in world.topic_named().partitions[0].log.batches()]


def test_a_compacted_topic_keeps_the_newest_record_of_each_key() -> None:
    """librdkafka reads one record of each key, at its own offset, and the segment that is appended to as it is. A position in a gap leads
    to the next record."""
    with BrokerStub(config={"log.cleaner.enable": False}) as stub:
        stub.create_topic("t", config={"cleanup.policy": "compact", "segment.bytes": MEBIBYTE})
        with Producer(bootstrap_servers=stub.bootstrap, acks="all") as producer:
            for number in range(4000):
                producer.send("t", b"%01000d" % number, key=b"%d" % (number % 10))
            producer.flush()
        before = stub.end_offset("t", 0)
        assert stub.clean_logs() > 0
        assert stub.end_offset("t", 0) == before == 4000
        messages = read_messages(stub.bootstrap, "t", range(1))
        values = [int(message.value() or b"") for message in messages]
        assert [message.offset() for message in messages] == values
        assert values[0] > 0
        with closing(Consumer({"bootstrap.servers": stub.bootstrap, "group.id": "g"})) as consumer:
            consumer.assign([TopicPartition("t", 0, values[0] - 1)])
            found = until(lambda: consumer.poll(1.0), "the next record", good=lambda message: message is not None)
            assert found is not None
            assert found.offset() == values[0]
        dirty = [value for value in values if value >= values[10]]
        assert [*range(4000)][-len(dirty) :] == dirty
        assert len(dirty) < 2000
        assert {value % 10 for value in values[:10]} == {*range(10)}
        assert stub.clean_logs() == 0
        with Producer(bootstrap_servers=stub.bootstrap, acks="all") as producer:
            assert producer.send("t", b"next", key=b"k").result(30).offset == 4000


def test_clients_are_served_while_a_log_is_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """`clean_logs` reads a slice at a time, so the compaction of a large log neither stops the stub nor takes too long for one call."""
    monkeypatch.setattr(log_cleaner, "SLICE_BYTES", 1)
    with BrokerStub(config={"log.cleaner.enable": False}) as stub, Producer(bootstrap_servers=stub.bootstrap, linger_ms=0) as producer:
        stub.create_topic("t", config={"cleanup.policy": "compact", "segment.bytes": MEBIBYTE})
        stub.create_topic("other")
        for number in range(4000):
            producer.send("t", b"%01000d" % number, key=b"%d" % (number % 10))
        producer.flush()
        served: list[int] = []

        def serve() -> None:
            while not done.is_set():
                served.append(producer.send("other", b"v").result(30).offset)

        done = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            serving = pool.submit(serve)
            until(lambda: served, "the first record")
            before = len(served)
            assert stub.clean_logs() > 0
            after = len(served)
            done.set()
            serving.result(30)
        assert after > before


def test_it_is_looked_for_work_at_intervals() -> None:
    """Every log.cleaner.backoff.ms, by the cluster's clock."""
    world = Inside(config={"log.cleaner.backoff.ms": 60_000})
    world.topic(**COMPACTED)
    for _ in range(4):
        write(world, "a")
    assert left(world) == [0, 1, 2, 3]
    begun_ms = world.cluster.now_ms() - 3 * 1001  # the first look
    world.pass_time(begun_ms + 60_000 - 1 - world.cluster.now_ms())
    assert left(world) == [0, 1, 2, 3]
    world.pass_time(1)
    assert left(world) == [2, 3]


def test_the_cleaner_can_be_switched_off() -> None:
    """`stub.clean_logs()` compacts even then."""
    world = Inside(config={"log.cleaner.enable": False})
    world.topic(**COMPACTED)
    for _ in range(4):
        write(world, "a")
    world.pass_time(10**9)
    assert left(world) == [0, 1, 2, 3]
    assert world.cluster.clean_logs() > 0
    assert left(world) == [2, 3]


@pytest.mark.parametrize(
    ("config", "passes"),
    [
        ({}, [7]),
        ({"log.cleaner.dedupe.buffer.size": 24 * 4, "log.cleaner.io.buffer.load.factor": 1}, [4, 7]),
        ({"log.cleaner.dedupe.buffer.size": 24 * 4, "log.cleaner.io.buffer.load.factor": 0.5}, [2, 4, 6, 7]),
        ({"log.cleaner.dedupe.buffer.size": 23}, [0]),
    ],
)
def test_how_many_keys_a_pass_takes(config: dict[str, Any], passes: list[int]) -> None:
    """24 bytes for each key, of that share of the buffer. A pass begins where the one before ended; with no room at all it ends."""
    world = Inside(config={"log.cleaner.enable": False, **config})
    world.topic(**COMPACTED)
    for key in ("a", "b", "c", "d", "e", "f", "g", "h"):
        write(world, key)
    log = world.topic_named().partitions[0].log
    cleaner, ends = world.cluster.log_cleaner, [0]
    cleaner.begin()
    for _ in range(100):
        step = next(cleaner._work, None) if cleaner._work is not None else None
        if step is None:
            break
        if log.first_dirty_offset != ends[-1]:
            ends.append(log.first_dirty_offset)
    assert [*dict.fromkeys([*ends[1:], log.first_dirty_offset])] == passes


def test_a_large_log_is_compacted_in_slices() -> None:
    """Between two of them the brokers serve their clients."""
    world = Inside(config={"log.cleaner.backoff.ms": 10**9})
    world.topic(**COMPACTED)
    value = bytes(SLICE_BYTES // 2)
    for _ in range(6):
        world.pass_time(1001)
        world.produce(encode_batch([(world.cluster.now_ms(), b"a", value)]))
    world.cluster.log_cleaner.begin()
    looks = 0
    while world.cluster.log_cleaner._work is not None:
        world.pass_time(1)
        looks += 1
        assert looks < 20
    assert left(world) == [4, 5]
    assert looks > 3


@pytest.mark.parametrize("how", ["the topic is deleted", "the replica moves"])
def test_a_log_that_goes_away_while_it_is_compacted(tmp_path: Path, how: str) -> None:
    """The cleaner gives it up, and goes on with the others."""
    world = Inside(brokers=2, storage=lambda context: open_data_dir(tmp_path, later=context.later))
    for name in ("t", "other"):
        world.topic(name, **COMPACTED)
    for size in (600_000, 400_000, 1):
        world.pass_time(1001)
        for name in ("t", "other"):
            value = b"v" * (size if name == "t" else 1)
            assert world.produce(encode_batch([(world.cluster.now_ms(), b"k", value)]), topic=name).error_code == 0
    topic, cleaner = world.topic_named("t"), world.cluster.log_cleaner
    cleaner.begin()
    cleaner.proceed()
    assert cleaner.cleaned == 0
    if how == "the topic is deleted":
        world.cluster.delete_topic(topic)
    else:
        world.cluster.reassign(topic, topic.partitions[0], [2])
    world.cluster.clean_logs()
    assert cleaner.cleaned > 0
    assert [header.base_offset for header, _ in world.topic_named("other").partitions[0].log.batches()] == [1, 2]
    world.cluster.close()


def test_a_log_that_cannot_be_read_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """As in Kafka, records that a producer compressed badly can be in a log. The cleaner says so once, and cleans the others."""
    world = Inside()
    world.topic(**COMPACTED)
    for _ in range(4):
        write(world, "a")
    log = world.topic_named().partitions[0].log
    storage = log.segments[1].file
    damaged = bytearray(storage.read(0, storage.size))
    damaged[-3] = 0x7E  # the length of the value, which ends beyond the batch
    storage.truncate(0)
    storage.append(bytes(damaged))
    for _ in range(3):
        world.cluster.clean_logs()
    assert left(world) == [0, 1, 2, 3]
    assert [each for each in caplog.messages if "t-0 cannot be compacted" in each] == [caplog.messages[-1]]


def test_what_a_group_committed_survives_compaction() -> None:
    """Also in the internal topics: the newest commit of each partition stays, and a coordinator that loads the log finds it."""
    with BrokerStub(brokers=2, clock=VirtualClock(), config={"offsets.topic.num.partitions": 1}) as stub:
        stub.create_topic("t", partitions=1)
        consumer = Consumer({"bootstrap.servers": stub.bootstrap, "group.id": "g"})
        try:
            for offset in range(1, 20):
                consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
            log = stub.cluster.topics.named("__consumer_offsets").partitions[0].log  # type: ignore[union-attr]
            log._roll(log.log_end_offset, now_ms=stub.cluster.now_ms())
            size = log.size
            assert stub.clean_logs() > 0
            assert log.size < size / 5
            stub.move_leader("__consumer_offsets", 0)
            found = despite(KafkaException, lambda: consumer.committed([TopicPartition("t", 0)], timeout=5))
            assert [each.offset for each in found] == [19]
        finally:
            consumer.close()


def test_every_replica_is_compacted() -> None:
    """A consumer reads the same after the leader has moved."""
    world = Inside(brokers=3)
    world.topic(replicas=3, **COMPACTED)
    for _ in range(6):
        write(world, "a")
    world.cluster.clean_logs()
    partition = world.topic_named().partitions[0]
    left = {node: [header.base_offset for header, _ in log.batches()] for node, log in partition.logs.items()}
    assert len(left[1]) < 6
    assert left[1] == left[2] == left[3]


def test_each_record_is_read_once_after_compaction() -> None:
    """Compaction leaves segments without a record. `records` goes over them."""
    with BrokerStub() as stub:
        stub.create_topic("t", config={"cleanup.policy": "compact", "segment.bytes": 1 << 20})
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            for _ in range(5_000):
                producer.send("t", bytes(1_000), key=b"k")
        stub.clean_logs()
        offsets = [each.offset for each in stub.records("t", 0)]
        assert any(segment.size == 0 for segment in stub.cluster.topics.named("t").partition(0).log.segments)  # type: ignore[union-attr]
    assert offsets == sorted(set(offsets))


def test_a_truncation_below_the_clean_part_survives_a_loss_of_power() -> None:
    """What is written after it is compacted. Else a tombstone would leave the older value of its key, which is back when the tombstone
    goes."""
    clock, directory = VirtualClock(), VolatileDirectory()
    cluster = Cluster(clock, storage=lambda _: directory)
    policy = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000", "delete.retention.ms": "1000"}
    cluster.create_topic("t", partitions=1, replication_factor=1, overrides={**policy, "flush.messages": "1"})

    def partition() -> Partition:
        found = cluster.find("t", 0)
        assert found is not None
        return found

    def write(*records: tuple[bytes, bytes | None]) -> None:
        for key, value in records:
            clock.advance(1001)
            partition().leading.append(encode_batch([(clock.now_ms(), key, value)]), origin=Origin.CLIENT)

    write(*[(b"other", b"v")] * 6)
    cluster.clean_logs()
    (log_dir,) = cluster.brokers[1].logs.dirs
    log_dir.checkpoint(CLEANER_OFFSETS)
    assert partition().log.first_dirty_offset == 5
    partition().log.truncate(0)
    write((b"deleted", b"old"), (b"deleted", None), *[(b"other", b"v")] * 6)
    directory.lose_power(random.Random(1))
    cluster = Cluster(clock, storage=lambda _: directory)
    for _ in range(3):
        cluster.clean_logs()
        write(*[(b"other", b"v")] * 2)
    assert {bytes(record.key or b"") for _, batch in partition().log.batches() for record in read_records(batch)} == {b"other"}
