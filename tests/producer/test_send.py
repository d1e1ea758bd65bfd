"""What `send` takes and refuses, and what of it arrives: values, keys, headers, timestamps, acks, codecs, partitions."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import BufferFull, Producer, RecordMetadata, RecordTooLarge, TopicUnavailable
from fencepost.producer.wire import Api, ProduceRequest
from fencepost.producer.wire.codecs.codec import Codec
from tests.producer.stub_helpers import QUICK, arrivals, quick, until, values


def test_everything_of_a_record_arrives() -> None:
    """Value, key, headers (also empty, null and repeated ones) and timestamp come back from the log as they were given."""
    headers = [("trace", b"1"), ("empty", b""), ("null", None), ("trace", b"2"), ("ключ", b"\xff")]
    with BrokerStub() as stub, quick(stub) as producer:
        metadata = producer.send("t", b"value", key=b"key", headers=headers, timestamp=1_700_000_000_123).result(20)
        assert metadata == RecordMetadata("t", 0, 0, 1_700_000_000_123)
        (record,) = stub.records("t", 0)
        assert (record.key, record.value, record.timestamp) == (b"key", b"value", 1_700_000_000_123)
        assert list(record.headers) == headers


def test_null_and_empty_are_not_the_same() -> None:
    """A null value (a tombstone) and an empty one, a null key and an empty one, stay what they are."""
    with BrokerStub() as stub, quick(stub) as producer:
        for value, key in ((None, b"k"), (b"", b"k"), (b"v", None), (b"v", b""), (None, None)):
            producer.send("t", value, key=key)
        producer.flush(20)
        assert [(record.value, record.key) for record in stub.records("t", 0)] == [
            (None, b"k"),
            (b"", b"k"),
            (b"v", None),
            (b"v", b""),
            (None, None),
        ]


def test_the_timestamp_is_now_unless_given() -> None:
    """Without a timestamp a record gets the wall clock's milliseconds at the call; 0 and far dates are kept."""
    with BrokerStub() as stub, quick(stub) as producer:
        before = int(time.time() * 1000)
        now = producer.send("t", b"x").result(20).timestamp
        assert before <= now <= int(time.time() * 1000)
        assert producer.send("t", b"x", timestamp=0).result(20).timestamp == 0
        assert [record.timestamp for record in stub.records("t", 0)] == [now, 0]


def test_timestamps_may_run_backwards_in_a_batch() -> None:
    """Records of one batch keep their own timestamps in any order, and the futures say the same as the log."""
    stamps = [1_700_000_000_500, 1_700_000_000_000, 1_700_000_009_000]
    with BrokerStub() as stub, quick(stub, linger_ms=10_000) as producer:
        futures = [producer.send("t", b"x", timestamp=stamp) for stamp in stamps]
        producer.flush(20)
        assert [record.timestamp for record in stub.records("t", 0)] == stamps
        assert [future.result(0).timestamp for future in futures] == stamps
        assert len(arrivals(stub)) == 1


def test_a_log_append_time_topic_says_its_own_time() -> None:
    """On a LogAppendTime topic the future's timestamp is the broker's."""
    with BrokerStub() as stub:
        stub.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
        with quick(stub) as producer:
            metadata = producer.send("t", b"x", timestamp=5).result(20)
            assert metadata.timestamp == stub.records("t", 0)[0].timestamp > 1_000_000


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(codec: str) -> None:
    """A batch is compressed as configured and reads back the same."""
    with BrokerStub() as stub, quick(stub, compression_type=codec, linger_ms=10_000) as producer:
        for i in range(100):
            producer.send("t", b"the same again and again %d" % (i % 3))
        producer.flush(20)
        assert values(stub, "t") == [b"the same again and again %d" % (i % 3) for i in range(100)]
        (arrival,) = arrivals(stub)
        assert arrival.header.codec == Codec[codec.upper()]


@pytest.mark.parametrize(("acks", "wanted"), [("all", -1), (1, 1), (0, 0)])
def test_acks(acks: object, wanted: int) -> None:
    """acks reach the broker as configured; with 0 there is no answer and no offset, and the record arrives all the same."""
    with BrokerStub() as stub, quick(stub, acks=acks) as producer:
        offsets = [producer.send("t", b"%d" % i).result(20).offset for i in range(3)]
        assert offsets == ([-1, -1, -1] if wanted == 0 else [0, 1, 2])
        until(lambda: stub.end_offset("t", 0) == 3, "all appended")
        requests = [exchange.request for exchange in stub.journal.requests(Api.PRODUCE)]
        assert {request.acks for request in requests if isinstance(request, ProduceRequest)} == {wanted}
        assert [arrival.header.producer_id >= 0 for arrival in arrivals(stub)] == [wanted == -1] * 3
        assert values(stub, "t") == [b"0", b"1", b"2"]


def test_an_explicit_partition_wins() -> None:
    """`partition` beats key and partitioner."""
    with BrokerStub(default_partitions=3) as stub, quick(stub, partitioner="round_robin") as producer:
        assert [producer.send("t", b"x", key=b"k", partition=p).result(20).partition for p in (2, 0, 2, 1)] == [2, 0, 2, 1]


def test_keys_go_where_java_puts_them() -> None:
    """Reference keys, through the whole producer: murmur2 over the partitions of the topic."""
    with BrokerStub(default_partitions=12) as stub, quick(stub) as producer:
        keys = {b"abcd": 8, b"a": 4, b"kafka": 4, b"ab": 2, b"key-1": 0, "ключ".encode(): 8}
        assert {key: producer.send("t", b"x", key=key).result(20).partition for key in keys} == keys


def test_round_robin_by_name() -> None:
    """partitioner='round_robin' visits every partition in turn."""
    with BrokerStub(default_partitions=3) as stub, quick(stub, partitioner="round_robin") as producer:
        assert [producer.send("t", b"x").result(20).partition for _ in range(6)] == [0, 1, 2, 0, 1, 2]


def test_keyless_records_stick_and_spread() -> None:
    """Keyless records fill one partition's batch at a time and, over many batches, use every partition."""
    with BrokerStub(default_partitions=4) as stub, quick(stub) as producer:
        few = {producer.send("t", b"x").result(20).partition for _ in range(20)}
        assert len(few) == 1
        futures = [producer.send("t", b"x" * 1000) for _ in range(1000)]
        producer.flush(20)
        assert {future.result(0).partition for future in futures} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "bad",
    [
        {"value": "text"},
        {"value": 5},
        {"value": bytearray(b"x")},
        {"value": b"x", "key": "text"},
        {"value": b"x", "key": 7},
        {"value": b"x", "headers": [("a", "text")]},
        {"value": b"x", "headers": [(b"a", b"b")]},
        {"value": b"x", "headers": {"a": b"b"}},
        {"value": b"x", "headers": [("a",)]},
        {"value": b"x", "timestamp": "now"},
        {"value": b"x", "timestamp": 1.5},
        {"value": b"x", "partition": "0"},
        {"value": b"x", "partition": 0.5},
        {"value": b"x", "topic": b"t"},
        {"value": b"x", "topic": 5},
        {"value": b"x", "topic": None},
    ],
    ids=str,
)
def test_the_wrong_type_is_a_type_error_at_the_call(bad: dict[str, Any]) -> None:
    """Text and other types are refused at the call, before anything is sent, and the producer goes on as if nothing had been."""
    with BrokerStub() as stub, quick(stub) as producer:
        producer.send("t", b"before").result(20)
        with pytest.raises(TypeError):
            producer.send(bad.get("topic", "t"), **{name: value for name, value in bad.items() if name != "topic"})
        assert producer.send("t", b"after").result(20).offset == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"topic": ""},
        {"topic": "a b"},
        {"topic": "a" * 250},
        {"topic": ".."},
        {"topic": "\ud800"},
        {"partition": -1},
        {"partition": 2**31},
        {"partition": 2**70},
        {"timestamp": -1},
        {"timestamp": 2**63},
        {"headers": [("\ud800", b"")]},
    ],
    ids=ascii,
)
def test_an_impossible_value_is_a_value_error_at_the_call(bad: dict[str, Any]) -> None:
    """Illegal topic names, negative partitions and timestamps, unencodable header names: refused at the call, and nothing else suffers."""
    with BrokerStub() as stub, quick(stub) as producer:
        producer.send("t", b"before").result(20)
        with pytest.raises(ValueError):
            producer.send(bad.get("topic", "t"), b"x", **{name: value for name, value in bad.items() if name != "topic"})
        arrived = threading.Event()
        producer.send("t", b"after", on_delivery=lambda future: arrived.set())
        assert arrived.wait(20), "the next record still leaves by itself"
        assert values(stub, "t") == [b"before", b"after"]


@pytest.mark.parametrize(("setting", "other"), [("max_request_size", "buffer_memory"), ("buffer_memory", "max_request_size")])
def test_a_record_that_could_never_be_sent(setting: str, other: str) -> None:
    """A record above max_request_size or buffer_memory is refused at once, with the setting's name and limit, as a ValueError."""
    small, large = 2_000, 2_000 if other == "max_request_size" else 100_000
    with BrokerStub() as stub, quick(stub, **{setting: small, other: large}) as producer:
        records: list[dict[str, Any]] = [
            {"value": b"x" * 2_000},
            {"value": b"", "key": b"x" * 2_000},
            {"value": b"", "headers": [("h", b"x" * 2_000)]},
        ]
        for record in records:
            with pytest.raises(RecordTooLarge, match=r"(max_request_size|buffer_memory)=2000") as refused:
                producer.send("t", **record)
            assert isinstance(refused.value, ValueError)
        assert producer.send("t", b"x" * 1_800).result(20).offset == 0


def test_partitions_for() -> None:
    """The partitions of a topic, known or not yet known; a topic that does not come names the time it had."""
    with BrokerStub(auto_create_topics=False) as stub:
        stub.create_topic("t", partitions=4)
        with quick(stub) as producer:
            assert producer.partitions_for("t") == [0, 1, 2, 3]
            assert producer.partitions_for("t", timeout=0) == [0, 1, 2, 3]
            with pytest.raises(TopicUnavailable, match=r"did not become available within 0\.05 s|no broker told .* within 0\.05 s"):
                producer.partitions_for("none", timeout=0.05)
            with pytest.raises(ValueError):
                producer.partitions_for("a b")


def test_waits_may_be_longer_than_any_clock() -> None:
    """Long.MAX_VALUE milliseconds, as in many a Java configuration, and infinite timeouts are waits like any other."""
    with BrokerStub() as stub, quick(stub, max_block_ms=9_223_372_036_854_775_807) as producer:
        assert producer.partitions_for("t", timeout=float("inf")) == [0]
        assert producer.send("u", b"x").result(1e300).offset == 0
        producer.flush(float("inf"))


def test_a_full_buffer_names_its_setting() -> None:
    """send waits up to max_block_ms for room and then says which setting was full; the record was not accepted."""
    with BrokerStub() as stub:
        with quick(stub, buffer_memory=3_000, max_request_size=2_000, max_block_ms=100) as producer:
            producer.partitions_for("t", timeout=20)
            producer.send("t", b"hello").result(20)
            until(lambda: producer._accumulator.used == 0, "the room of the first record")
            held = stub.faults.on(Api.PRODUCE).before().forever().hold()
            kept = producer.send("t", b"a" * 1_500)
            with pytest.raises(BufferFull, match=r"buffer_memory=3000 .*max_block_ms=100") as full:
                producer.send("t", b"b" * 1_500)
            assert isinstance(full.value, TimeoutError)
            held.remove()
            kept.result(20)
            until(lambda: producer._accumulator.used == 0, "the room of the record that was kept")
            producer.send("t", b"c" * 1_500)
        assert [value[:1] for value in values(stub, "t")] == [b"h", b"a", b"c"]


def test_a_producer_is_quiet_until_it_is_used() -> None:
    """Constructing a producer connects to nothing; a broker that is not there matters to the first send alone."""
    with BrokerStub() as stub, Producer(bootstrap_servers=stub.bootstrap, **QUICK):
        assert stub.stats()["connections"] == 0


def test_acks_0_is_delivered_when_the_socket_has_it() -> None:
    """Without acknowledgements a record counts as sent when the socket has taken it: with a broker that reads nothing more the buffer fills
    up, flush waits, and when the broker reads on everything arrives and the budget is whole."""
    with BrokerStub() as stub, quick(stub, acks=0, batch_size=0, buffer_memory=64 * 1024 * 1024) as producer:
        producer.send("t", b"hello").result(20)
        held = stub.faults.on(Api.PRODUCE).before().forever().hold()
        futures = [producer.send("t", b"%02d" % i + b"x" * 1_000_000) for i in range(40)]
        with pytest.raises(TimeoutError):
            producer.flush(0.2)
        assert not futures[-1].done()
        held.remove()
        producer.flush(20)
        until(lambda: stub.end_offset("t", 0) == 41, "all of them")
        assert [value[:2] for value in values(stub, "t")[1:]] == [b"%02d" % i for i in range(40)]
        assert producer._accumulator.used == 0
