"""The producer on Apache Kafka: confluent-kafka reads what it wrote, at the reported offsets, and topics may have unusual configs."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections import Counter
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest

from fencepost.producer import DeliveryTimeout, Persisted, Producer, RecordFuture, RecordRefused
from fencepost.producer.wire.codes import ErrorCode
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.ledger import Account, Ledger
from tests.conformance.survival.reader import Admin, read_topic
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)

WAIT_S = 60.0


@pytest.fixture
def admin(kafka: KafkaCluster) -> Admin:
    return Admin(kafka.bootstrap)


@pytest.fixture
def topic() -> str:
    """A topic name of this test alone."""
    return f"on-kafka-{secrets.token_hex(4)}"


def producer_for(kafka: KafkaCluster, **settings: Any) -> Producer:
    return Producer(bootstrap_servers=kafka.bootstrap, **settings)


READY = b"the partition takes records"

# Kafka's retention goes by the records' timestamps, which are years old in these tests.
KEPT = {"retention.ms": "-1"}
ODD_RECORDS: list[dict[str, Any]] = [
    {"value": b"plain"},
    {"value": None},
    {"value": b""},
    {"value": b"keyed", "key": b"k"},
    {"value": None, "key": b"tombstone"},
    {"value": b"", "key": b""},
    {"value": b"\x00\xff" * 150_000, "key": b"large"},
    {"value": b"headers", "headers": [("a", b"1"), ("a", None), ("\u00fcber \u2192", b""), ("", b"\x00")]},
    {"value": b"no headers", "headers": []},
    {"value": b"epoch", "timestamp": 0},
    {"value": b"then", "timestamp": 1_234_567_890_123},
    {"value": b"before it", "timestamp": 1_234_567_890_000},
    {"value": b"far ahead", "timestamp": 1_234_567_890_123 + 2**33},
    {"value": b"here", "partition": 2},
    {"value": b"and here", "partition": 0, "key": b"k"},
]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_round_trip(kafka: KafkaCluster, admin: Admin, topic: str, acks: object, codec: str) -> None:
    """Keys, values, nulls, headers, timestamps and partitions come back as they were given, at the reported offsets."""
    # The test sets the timestamps. By default the broker would refuse those in the future.
    admin.create(topic, partitions=3, config={"message.timestamp.after.max.ms": str(2**62), **KEPT})
    with producer_for(kafka) as first:
        # The leader of a new partition may not know it yet, and with acks=0 the producer would not notice.
        for partition in range(3):
            first.send(topic, READY, partition=partition).result(WAIT_S)
    begun_ms = int(time.time() * 1000)
    with producer_for(kafka, acks=acks, compression_type=codec) as producer:
        futures = [producer.send(topic, **record) for _ in range(20) for record in ODD_RECORDS]
        told = [future.result(WAIT_S) for future in futures]
    found = await_messages(kafka, topic, len(futures))
    ended_ms = int(time.time() * 1000)
    given = [record for _ in range(20) for record in ODD_RECORDS]
    if acks == 0:
        assert {metadata.offset for metadata in told} == {-1}
        assert Counter(map(shown, found)) == Counter((r["value"], r.get("key"), tuple(r.get("headers") or ())) for r in given)
        return
    at = {(message.partition(), message.offset()): message for message in found}
    assert len(at) == len({(metadata.partition, metadata.offset) for metadata in told}) == len(given)
    for record, metadata in zip(given, told, strict=True):
        message = at[metadata.partition, metadata.offset]
        assert shown(message) == (record["value"], record.get("key"), tuple(record.get("headers") or ()))
        kind, stamp = message.timestamp()
        assert kind == confluent_kafka.TIMESTAMP_CREATE_TIME
        assert stamp == metadata.timestamp
        assert stamp == record["timestamp"] if "timestamp" in record else begun_ms <= stamp <= ended_ms
        assert metadata.topic == topic
        assert metadata.partition == record.get("partition", metadata.partition)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_the_same_rows_by_three_ways(kafka: KafkaCluster, admin: Admin, topic: str, codec: str) -> None:
    """send, send_many and send_arrow of the same rows, to one topic each and mixed in one topic.

    confluent-kafka reads the same records from the same partitions, in the same order and with the same timestamps, at the offsets of the
    futures.
    """
    rng = random.Random(7)
    sizes = [0, 1, 50, 63, 64, 127, 128, 1_000, 8_191, 8_192, 20_000]
    rows = [
        (
            rng.choice([None, b"", b"key-%d" % (n % 70), rng.randbytes(90)]),
            None if n % 17 == 0 else rng.randbytes(rng.choice(sizes)),
            1_700_000_000_000 + rng.randrange(-100_000, 100_000),
            rng.randrange(4),
        )
        for n in range(1_500)
    ]
    keys, values, stamps, partitions = zip(*rows, strict=True)
    table = pa.table(
        {
            "k": pa.array(keys, pa.binary()),
            "v": pa.array(values, pa.binary()),
            "t": pa.array(stamps, pa.int64()),
            # The key decides the partition.
            "p": pa.array([partition if key is None else None for key, partition in zip(keys, partitions, strict=True)], pa.int32()),
        }
    )
    topics = [f"{topic}-{way}" for way in ("send", "many", "arrow", "mixed")]
    for each in topics:
        admin.create(each, partitions=4, config=KEPT)
    single, many, arrow, mixed = topics
    with producer_for(kafka, compression_type=codec, batch_size=100_000) as producer:

        def by_one(topic: str) -> list[RecordFuture]:
            return [
                producer.send(topic, value, key=key, timestamp=stamp, partition=partition if key is None else None)
                for key, value, stamp, partition in rows
            ]

        tuples = [(key, value, None, stamp, partition if key is None else None) for key, value, stamp, partition in rows]
        columns = {"value": "v", "key": "k", "timestamp": "t", "partition": "p"}
        futures = by_one(single)
        bulks = [producer.send_many(many, tuples), producer.send_arrow(arrow, table, **columns)]
        by_one(mixed)
        last = producer.send_arrow(mixed, table, **columns)
        producer.send_many(mixed, tuples)
        producer.flush(WAIT_S)
        told = {(future.result(0).partition, future.result(0).offset) for future in futures}
        for bulk in bulks:
            offsets = bulk.result(0).offsets
            assert {(partition, offset) for partition, spans in offsets.items() for span in spans for offset in span} == told
        assert last.result(0).acknowledged == len(rows)
    read = [by_partition(kafka, each) for each in topics]
    assert sum(map(len, read[0].values())) == len(rows)
    assert read[0] == read[1] == read[2]
    assert read[3] == {partition: records * 3 for partition, records in read[0].items()}


def test_keys_go_where_javas_and_confluents_go(kafka: KafkaCluster, admin: Admin, topic: str) -> None:
    """A key has the partition that murmur2_random gives it, for any length of key and number of partitions."""
    admin.create(topic, partitions=7)
    rng = random.Random(20)
    keys = {rng.randbytes(length % 40) for length in range(600)} | {b"", "ключ".encode()}
    stranger = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    for key in keys:
        # librdkafka treats an empty key as no key, and picks a random partition. Java and this producer hash it.
        if key:
            stranger.produce(topic, key=key, value=b"theirs")
    assert stranger.flush(WAIT_S) == 0
    with producer_for(kafka) as producer:
        ours = {key: producer.send(topic, b"ours", key=key) for key in keys}
    theirs = {message.key(): message.partition() for message in read_topic(kafka.bootstrap, topic) if message.value() == b"theirs"}
    assert len(theirs) == len(keys) - 1
    assert {key: future.result().partition for key, future in ours.items() if key} == theirs
    assert ours[b""].result().partition == 275646681 % 7
    assert len(set(theirs.values())) == 7


def test_a_log_append_time_topic_tells_the_brokers_time(kafka: KafkaCluster, admin: Admin, topic: str) -> None:
    """If the broker stamps records, the future has the broker's timestamp, as consumers do."""
    admin.create(topic, config={"message.timestamp.type": "LogAppendTime"})
    with producer_for(kafka) as producer:
        futures = [producer.send(topic, b"x", timestamp=1_000_000 + i) for i in range(50)]
    for message in read_topic(kafka.bootstrap, topic):
        kind, stamp = message.timestamp()
        assert kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
        metadata = futures[message.offset() or 0].result()
        assert (metadata.offset, metadata.timestamp) == (message.offset(), stamp)
        assert stamp > 1_500_000_000_000


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_too_large_for_the_topic_are_split(kafka: KafkaCluster, admin: Admin, topic: str, codec: str) -> None:
    """A topic that accepts only small batches gets every record once and in order. A record that is too large for it fails alone."""
    admin.create(topic, partitions=2, config={"max.message.bytes": "6000"})
    ledger = Ledger(6_000, seed=3)
    with producer_for(kafka, batch_size=128 * 1024, compression_type=codec, linger_ms=50) as producer:
        refused = producer.send(topic, random.Random(1).randbytes(10_000), partition=0)
        error = refused.exception(WAIT_S)
        assert isinstance(error, RecordRefused)
        assert (error.code, error.persisted) == (ErrorCode.MESSAGE_TOO_LARGE, Persisted.NO)
        send_rows(producer, topic, ledger, range(3_000))
        late = producer.send(topic, random.Random(2).randbytes(10_000), partition=1)
        send_rows(producer, topic, ledger, range(3_000, 6_000))
        error = late.exception(WAIT_S)
        assert isinstance(error, RecordRefused)
        assert (error.code, error.persisted) == (ErrorCode.MESSAGE_TOO_LARGE, Persisted.NO)
    assert_delivered(kafka, topic, ledger)


def test_a_null_key_on_a_compacted_topic_is_refused_and_the_rest_goes_on(kafka: KafkaCluster, admin: Admin, topic: str) -> None:
    """The batch with the record that breaks the topic's rule fails with NO and is not in the log. All others are, once and in order."""
    admin.create(topic, config={"cleanup.policy": "compact"})
    ledger = Ledger(8_000, seed=4)
    refused: list[RecordFuture] = []
    with producer_for(kafka, batch_size=4096, linger_ms=0) as producer:
        for start in range(0, 8_000, 1_000):
            send_rows(producer, topic, ledger, range(start, start + 1_000))
            refused.append(producer.send(topic, b"no key"))
        for future in refused:
            error = future.exception(WAIT_S)
            assert isinstance(error, RecordRefused)
            assert (error.code, error.persisted) == (ErrorCode.INVALID_RECORD, Persisted.NO)
        producer.flush(WAIT_S)
        again = [row for row in range(8_000) if ledger.refused(row)]
        # Records in the same batch as the refused record fail with it. They fail with NO, so the test may send them again.
        assert len(again) < 8_000 // 2
        assert ledger.acked + len(again) == 8_000
    account = read_account(kafka, topic, ledger)
    assert (account.lost, account.doubled, account.out_of_order, account.strange, account.misplaced) == (len(again), 0, 0, 0, 0)
    assert account.found == ledger.acked


def test_a_topic_deleted_and_created_again_in_the_middle(kafka: KafkaCluster, admin: Admin, topic: str) -> None:
    """The producer notices the new topic. No delivery fails, and the new log has no duplicate and no record out of order."""
    admin.create(topic, partitions=2)
    ledger = Ledger(1_000_000, seed=5)
    enough = threading.Event()
    # Without the last setting the producer's own Metadata request would create the topic first.
    with producer_for(kafka, batch_size=4096, linger_ms=0, buffer_memory=1 << 20, allow_auto_create_topics=False) as producer:
        sender = threading.Thread(target=send_rows, args=(producer, topic, ledger, range(990_000)), kwargs={"enough": enough})
        sender.start()
        try:
            until(lambda: ledger.acked > 3_000, "acknowledgements", timeout_s=WAIT_S)
            admin.delete(topic)
            gone = ledger.acked
            admin.create(topic, partitions=3)
            until(lambda: ledger.acked > gone + 3_000, "acknowledgements of the new topic", timeout_s=WAIT_S)
        finally:
            enough.set()
            sender.join(WAIT_S)
        first = ledger.sent
        send_rows(producer, topic, ledger, range(first, first + 10_000))
        producer.flush(WAIT_S)
        assert len(producer.partitions_for(topic)) == 3
    assert (ledger.failed, ledger.acked) == (0, ledger.sent)
    account = read_account(kafka, topic, ledger, offsets=False)
    assert (account.doubled, account.out_of_order, account.strange) == (0, 0, 0)
    found = account.rows()
    # The old topic's acknowledged rows were deleted with it. Everything after the first row of the new one is there.
    assert 0 < min(found) <= first
    assert set(range(max(gone, first), first + 10_000)) <= found


def test_a_topic_created_again_with_fewer_partitions(kafka: KafkaCluster, admin: Admin, topic: str) -> None:
    """Records for a partition that no longer exists fail with NO at their deadline. All other records, and all later ones, arrive."""
    admin.create(topic, partitions=4)
    with producer_for(kafka, request_timeout_ms=2_000, delivery_timeout_ms=6_000, allow_auto_create_topics=False) as producer:
        assert producer.send(topic, b"old", partition=3).result(WAIT_S).offset == 0
        admin.delete(topic)
        stranded = producer.send(topic, b"stranded", partition=3)
        waiting = producer.send(topic, b"waiting", partition=0)
        admin.create(topic, partitions=2)
        assert waiting.result(WAIT_S).offset == 0
        error = stranded.exception(WAIT_S)
        assert isinstance(error, DeliveryTimeout)
        assert error.persisted is Persisted.NO
        assert len(producer.partitions_for(topic)) == 2
        assert {producer.send(topic, b"new", key=b"%d" % n).result(WAIT_S).partition for n in range(50)} == {0, 1}
    assert Counter(message.value() for message in read_topic(kafka.bootstrap, topic)) == {b"waiting": 1, b"new": 50}


def test_partitions_that_are_added_are_used(kafka: KafkaCluster, admin: Admin, topic: str) -> None:
    """A send to a new partition waits for it. Records without a key reach the new partitions too, without a restart."""
    admin.create(topic, partitions=1)
    ledger = Ledger(20_000, seed=6)
    with producer_for(kafka, metadata_max_age_ms=300) as producer:
        send_rows(producer, topic, ledger, range(10_000))
        producer.flush(WAIT_S)
        admin.grow(topic, 4)
        assert producer.send(topic, ledger.value(0), key=ledger.key(0), partition=3).result(WAIT_S).partition == 3
        used: set[int] = set()
        deadline = time.monotonic() + WAIT_S
        while used != {0, 1, 2, 3}:
            assert time.monotonic() < deadline, f"only {used} were ever used"
            used |= {future.result(WAIT_S).partition for future in [producer.send(topic, b"x" * 1000) for _ in range(100)]}
        send_rows(producer, topic, ledger, range(10_000, 20_000))
    assert set(ledger.partitions[10_000:]) == {0, 1, 2, 3}


def test_a_timestamp_that_the_topic_does_not_take(kafka: KafkaCluster, admin: Admin, topic: str) -> None:
    """A record from too far in the future fails with NO, and later ones arrive."""
    admin.create(topic)
    with producer_for(kafka) as producer:
        error = producer.send(topic, b"tomorrow", timestamp=int(time.time() * 1000) + 86_400_000).exception(WAIT_S)
        assert isinstance(error, RecordRefused)
        assert (error.code, error.persisted) == (ErrorCode.INVALID_TIMESTAMP, Persisted.NO)
        assert producer.send(topic, b"now").result(WAIT_S).offset == 0


def test_a_topic_with_its_own_codec(kafka: KafkaCluster, admin: Admin, topic: str) -> None:
    """If a broker compresses batches again, every record has its reported offset."""
    admin.create(topic, partitions=2, config={"compression.type": "gzip"})
    ledger = Ledger(10_000, seed=9)
    with producer_for(kafka, batch_size=16 * 1024) as producer:
        send_rows(producer, topic, ledger, range(10_000))
    assert_delivered(kafka, topic, ledger)


def test_a_topic_that_does_not_exist_is_created(kafka: KafkaCluster, topic: str) -> None:
    """If the brokers create topics automatically, the first send waits for that and succeeds."""
    with producer_for(kafka) as producer:
        assert producer.send(topic, b"first").result(WAIT_S).offset == 0
        assert producer.send(topic, b"second").result(WAIT_S).offset == 1


def test_many_threads_and_topics(kafka: KafkaCluster, admin: Admin) -> None:
    """Four threads write to three topics at once: each topic has every row once, at its reported offset."""
    names = [f"on-kafka-{secrets.token_hex(4)}" for _ in range(3)]
    ledgers = {name: [Ledger(2_000, seed=100 * at + thread) for thread in range(4)] for at, name in enumerate(names)}
    for name in names:
        admin.create(name, partitions=4)
    with producer_for(kafka) as producer:

        def work(thread: int) -> None:
            for row in range(2_000):
                for name in names:
                    send_rows(producer, name, ledgers[name][thread], range(row, row + 1), partition=thread)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
    for name in names:
        accounts = [Account(ledger) for ledger in ledgers[name]]
        for message in read_topic(kafka.bootstrap, name):
            accounts[message.partition() or 0].take_message(message)
        for account in accounts:
            assert account.faults() == dict.fromkeys(account.faults(), 0)
            assert account.found == 2_000


# -- helpers ---------------------------------------------------------------------------------------------------------------


def send_rows(
    producer: Producer, topic: str, ledger: Ledger, rows: range, *, enough: threading.Event | None = None, **options: Any
) -> None:
    """Send these rows, or rows until the test stops."""
    for row in rows:
        if enough is not None and enough.is_set():
            return
        ledger.send(producer, topic, row, **options)


def read_account(kafka: KafkaCluster, topic: str, ledger: Ledger, *, offsets: bool = True) -> Account:
    account = Account(ledger, offsets=offsets)
    for message in read_topic(kafka.bootstrap, topic):
        account.take_message(message)
    return account


def assert_delivered(kafka: KafkaCluster, topic: str, ledger: Ledger) -> None:
    """Every row is acknowledged and in the log once, in order, at its reported offset, with its bytes."""
    account = read_account(kafka, topic, ledger)
    assert account.faults() == dict.fromkeys(account.faults(), 0), account.verdict()
    assert ledger.acked == ledger.sent == ledger.rows == account.found
    assert account.sum == ledger.sum


def by_partition(kafka: KafkaCluster, topic: str) -> dict[int | None, list[tuple[object, ...]]]:
    """What confluent-kafka reads from each partition, in order."""
    found: dict[int | None, list[tuple[object, ...]]] = {}
    for message in read_topic(kafka.bootstrap, topic):
        found.setdefault(message.partition(), []).append((message.offset(), message.key(), message.value(), message.timestamp()))
    # Offsets begin at 0 in each topic. None may be missing.
    for records in found.values():
        assert [record[0] for record in records] == list(range(len(records)))
    return {partition: [record[1:] for record in records] for partition, records in found.items()}


def shown(message: confluent_kafka.Message) -> tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]:
    headers = message.headers() or []
    assert isinstance(headers, list)
    return message.value(), message.key(), tuple((name, content) for name, content in headers if not isinstance(content, str))


def await_messages(kafka: KafkaCluster, topic: str, count: int) -> list[confluent_kafka.Message]:
    """Everything in the topic, once it has so many records. acks=0 promises no time."""

    def read() -> list[confluent_kafka.Message]:
        return [message for message in read_topic(kafka.bootstrap, topic) if message.value() != READY]

    return until(read, f"{count} records", good=lambda found: len(found) >= count, timeout_s=WAIT_S)
