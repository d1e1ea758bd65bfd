"""`fencepost.compat.confluent.Producer` without transactions, on the stub: every call, and what confluent-kafka's does in the same case."""

from __future__ import annotations

import gc
import json
import pickle
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException

from fencepost import Api, BrokerStub, VirtualClock
from fencepost.compat.confluent import Message, Producer, SerializingProducer
from fencepost.producer import Producer as PlainProducer
from tests.gil import needs_gil
from tests.waiting import until

pytestmark = needs_gil

NOWHERE = "127.0.0.1:1"


class Heard(list[tuple[Any, Message]]):
    """A delivery callback that keeps what it heard, and the thread that called it."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def __call__(self, error: Any, message: Any) -> None:
        self.threads.add(threading.get_ident())
        self.append((error, message))

    @property
    def codes(self) -> list[int | None]:
        """The errors' codes."""
        return [error.code() if error is not None else None for error, _ in self]


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    """A broker with the topic `t`, of one partition."""
    with BrokerStub() as broker:
        broker.create_topic("t", partitions=1)
        yield broker


def made(broker: BrokerStub, **properties: Any) -> Producer:
    """A producer for the broker. Properties are written with underscores."""
    return Producer({"bootstrap.servers": broker.bootstrap, **{name.replace("_", "."): value for name, value in properties.items()}})


def code_of(raised: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = raised.value.args[0].code()
    return code


def test_it_is_ours_underneath(stub: BrokerStub) -> None:
    """`underlying` is our producer, and idempotence is on although librdkafka's default is off."""
    with made(stub) as producer:
        assert isinstance(producer.underlying, PlainProducer)
        producer.produce("t", b"v")
        assert producer.flush(10) == 0
        assert len(stub.journal.requests(Api.INIT_PRODUCER_ID)) == 1
        assert bool(producer)
        assert len(producer) == 0


def test_text_bytes_and_nothing(stub: BrokerStub) -> None:
    """Keys, values and the values of headers are bytes or text, which is sent as UTF-8, or None."""
    with made(stub) as producer:
        producer.produce("t", "Grüße", "ключ", headers={"a": "b", "c": b"\x00", "d": None})
        producer.produce("t", b"v", b"k", headers=[("a", "1"), ("a", "2")])
        producer.produce("t")
        producer.produce("t", value=memoryview(b"view"), timestamp=1234)
        assert producer.flush(10) == 0
    first, second, third, fourth = stub.records("t", 0)
    assert (first.value, first.key) == ("Grüße".encode(), "ключ".encode())
    assert [tuple(each) for each in first.headers] == [("a", b"b"), ("c", b"\x00"), ("d", None)]
    assert [tuple(each) for each in second.headers] == [("a", b"1"), ("a", b"2")]
    assert (third.key, third.value) == (None, None)
    assert (fourth.value, fourth.timestamp) == (b"view", 1234)


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": 5},
        {"value": bytearray(b"v")},
        {"key": ["k"]},
        {"headers": 5},
        {"headers": ("a", "b")},
        {"headers": [("a",)]},
        {"headers": [["a", "b"]]},
        {"headers": {"a": 5}},
        {"headers": [(5, b"b")]},
        {"topic": None},
        {"partition": "1"},
        {"timestamp": 1.5},
    ],
    ids=str,
)
def test_wrong_types_are_refused(stub: BrokerStub, wrong: dict[str, Any]) -> None:
    """A value of another type is a TypeError, and nothing is sent, whether or not the topic is known."""
    with made(stub) as producer:
        for _ in range(2):
            with pytest.raises(TypeError):
                producer.produce(**{"topic": "t", "value": b"v", **wrong})
            producer.produce("t", b"good")
            assert producer.flush(10) == 0
    assert [record.value for record in stub.records("t", 0)] == [b"good", b"good"]


def test_what_a_message_says(stub: BrokerStub) -> None:
    """A delivered message has the methods of confluent_kafka.Message; one that failed has the error, and no place in the log."""
    heard = Heard()
    with made(stub) as producer:
        producer.produce("t", "value", "key", timestamp=77, headers={"h": "1"}, on_delivery=heard)
        producer.flush(10)
        producer.produce("t", b"late", callback=heard)
        producer.flush(10)
    (error, message), (_, second) = heard
    assert error is None
    assert message.error() is None
    assert (message.topic(), message.partition(), message.offset(), second.offset()) == ("t", 0, 0, 1)
    assert (message.key(), message.value(), len(message)) == (b"key", b"value", 5)
    assert message.headers() == [("h", b"1")]
    assert message.timestamp() == (TIMESTAMP_CREATE_TIME, 77)
    assert abs(second.timestamp()[1] - time.time() * 1000) < 60_000
    assert 0 <= message.latency() < 10
    assert message.leader_epoch() is None
    assert message.failure() is None
    message.set_value(b"v2")
    message.set_key(None)
    message.set_headers([])
    message.set_topic("u")
    message.set_error(KafkaError(-1))
    assert (message.value(), message.key(), message.headers(), message.topic(), message.error().code()) == (b"v2", None, [], "u", -1)


def test_the_brokers_time(stub: BrokerStub) -> None:
    """For a topic with the broker's time the message says so."""
    stub.create_topic("theirs", config={"message.timestamp.type": "LogAppendTime"})
    heard = Heard()
    with made(stub) as producer:
        producer.produce("theirs", b"v", timestamp=5, on_delivery=heard)
        producer.flush(10)
    kind, at = heard[0][1].timestamp()
    assert (kind, at) == (2, stub.records("theirs", 0)[0].timestamp)


def test_the_brokers_time_is_the_messages_own() -> None:
    """A broker's time that happens to be the message's own is still the broker's."""
    clock = VirtualClock()
    heard = Heard()
    with BrokerStub(clock=clock) as stub, made(stub) as producer:
        stub.create_topic("theirs", config={"message.timestamp.type": "LogAppendTime"})
        producer.produce("theirs", b"v", timestamp=clock.now_ms(), on_delivery=heard)
        producer.flush(10)
        assert heard[0][1].timestamp() == (2, clock.now_ms()) == (2, stub.records("theirs", 0)[0].timestamp)


def test_callbacks_run_in_poll_only(stub: BrokerStub) -> None:
    """A callback runs on the thread that polls or flushes, and never on another one, however long ago the outcome was known."""
    heard = Heard()
    with made(stub, linger_ms=0) as producer:
        for number in range(10):
            producer.produce("t", str(number), on_delivery=heard)
        until(lambda: len(stub.records("t", 0)) == 10, "the records in the log")
        until(lambda: producer.underlying.unacknowledged == 0, "the acknowledgements")
        assert heard == []
        assert len(producer) == 10
        served: list[int] = []
        polling = threading.Thread(target=lambda: served.append(sum(producer.poll(0.2) for _ in range(3))))
        polling.start()
        polling.join(10)
        assert served == [10]
        assert heard.threads == {polling.ident}
        assert len(producer) == 0
        producer.produce("t", b"v", on_delivery=heard)
        assert producer.flush() == 0
        assert heard.threads == {polling.ident, threading.get_ident()}
        assert [message.offset() for _, message in heard] == list(range(11))


def test_poll_waits_for_a_report(stub: BrokerStub) -> None:
    """`poll` returns as soon as a callback was called, after its timeout if there is none, and at once for 0."""
    heard = Heard()
    with made(stub) as producer:
        began = time.monotonic()
        assert producer.poll(0) == 0
        assert producer.poll(0.05) == 0
        assert 0.05 <= time.monotonic() - began < 5
        producer.produce("t", b"v", on_delivery=heard)
        assert producer.poll(30) == 1
        producer.produce("t", b"v", on_delivery=heard)
        assert producer.poll() == 1
        assert time.monotonic() - began < 25
        with pytest.raises(TypeError):
            producer.poll(None)
        with pytest.raises(ValueError):
            producer.poll("x")


def test_a_callback_that_raises(stub: BrokerStub) -> None:
    """What a callback raises leaves `poll` or `flush`. The callbacks behind it are called next time, and nothing is lost."""
    calls: list[Any] = []

    def fail(error: Any, message: Any) -> None:
        calls.append(message.value())
        raise ValueError(f"callback of {message.value()!r}")

    producer = made(stub)
    for name in (b"a", b"b", b"c"):
        producer.produce("t", name, on_delivery=fail)
    with pytest.raises(ValueError, match="callback of b'a'"):
        producer.flush(10)
    assert calls == [b"a"]
    with pytest.raises(ValueError, match="callback of b'b'"):
        producer.poll(10)
    assert len(producer) == 1
    with pytest.raises(ValueError, match="callback of b'c'"):
        producer.close()
    assert len(producer) == 0
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        producer.poll(0)
    assert [record.value for record in stub.records("t", 0)] == [b"a", b"b", b"c"]


def test_callbacks_that_raise_in_close(stub: BrokerStub) -> None:
    """`close` can be called again for the callbacks that are left."""
    heard: list[bytes | None] = []

    def failing(error: Any, message: Any) -> None:
        heard.append(message.value())
        raise ValueError(message.value())

    producer = made(stub, linger_ms=50)
    for number in range(3):
        producer.produce("t", b"%d" % number, on_delivery=failing)
    for _ in range(3):
        with pytest.raises(ValueError, match="b'"):
            producer.close()
    assert producer.close()
    assert heard == [b"0", b"1", b"2"]


def test_a_callback_may_produce(stub: BrokerStub) -> None:
    """A callback may produce, and `flush` waits for that, too."""
    left = [3]

    def again(error: Any, message: Any) -> None:
        if left[0]:
            left[0] -= 1
            producer.produce("t", str(left[0]), on_delivery=again)

    with made(stub) as producer:
        producer.produce("t", "first", on_delivery=again)
        assert producer.flush(10) == 0
    assert [record.value for record in stub.records("t", 0)] == [b"first", b"2", b"1", b"0"]


def test_the_default_callback(stub: BrokerStub) -> None:
    """`on_delivery` of the configuration is for messages that bring no callback."""
    default, own = Heard(), Heard()
    with Producer({"bootstrap.servers": stub.bootstrap, "on_delivery": default}) as producer:
        producer.produce("t", b"1")
        producer.produce("t", b"2", callback=own)
        producer.produce("t", b"3", on_delivery=own)
        producer.flush(10)
    assert [message.value() for _, message in default] == [b"1"]
    assert [message.value() for _, message in own] == [b"2", b"3"]


def test_only_errors(stub: BrokerStub) -> None:
    """With `delivery.report.only.error` a callback hears of failures only, and an acknowledged message does not count as unreported."""
    stub.create_topic("small", config={"max.message.bytes": 200})
    heard = Heard()
    with made(stub, delivery_report_only_error="true") as producer:
        producer.produce("t", b"v", on_delivery=heard)
        producer.produce("small", b"v" * 500, on_delivery=heard)
        assert producer.flush(10) == 0
    assert heard.codes == [KafkaError.MSG_SIZE_TOO_LARGE]
    error, message = heard[0]
    assert message.error() == error
    assert message.failure() is not None
    assert "persisted=NO" in error.str()
    assert (message.offset(), message.timestamp()) == (None, (TIMESTAMP_NOT_AVAILABLE, -1))


def test_the_queue_is_full(stub: BrokerStub) -> None:
    """`produce` raises BufferError at queue.buffering.max.messages, and takes messages again after a `poll` or, without callbacks, after
    the acknowledgements."""
    heard = Heard()
    with made(stub, queue_buffering_max_messages=3, linger_ms=0) as producer:
        for _ in range(3):
            producer.produce("t", b"v", on_delivery=heard)
        until(lambda: producer.underlying.unacknowledged == 0, "the acknowledgements")
        with pytest.raises(BufferError, match="Queue full"):
            producer.produce("t", b"v", on_delivery=heard)
        assert len(producer) == 3
        producer.poll(10)
        for _ in range(3):
            producer.produce("t", b"v")
        until(lambda: len(producer) == 0, "the acknowledgements")
        producer.produce("t", b"v")
        assert producer.flush(10) == 0
    assert len(stub.records("t", 0)) == 7


def test_the_memory_is_full(stub: BrokerStub) -> None:
    """`produce` raises BufferError when queue.buffering.max.kbytes are taken, also while the topic is not known yet."""
    for servers in (stub.bootstrap, NOWHERE):
        producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.kbytes": 8, "linger.ms": 1000})
        if servers == stub.bootstrap:
            producer.produce("t", b"known")
            assert producer.flush(10) == 0
        with pytest.raises(BufferError, match="Queue full"):
            for _ in range(100):
                producer.produce("t", b"v" * 500)
        assert 5 < len(producer) < 20
        producer.purge()
        producer.close()


def test_a_message_that_can_never_be_sent(stub: BrokerStub) -> None:
    """`produce` raises KafkaException: for a message above message.max.bytes, a partition that the topic lacks, and no legal name."""
    with made(stub, message_max_bytes=5000) as producer:
        for _ in range(2):
            with pytest.raises(KafkaException) as raised:
                producer.produce("t", b"v" * 6000)
            assert code_of(raised) == KafkaError.MSG_SIZE_TOO_LARGE
            producer.produce("t", b"v")
            assert producer.flush(10) == 0
        with pytest.raises(KafkaException) as raised:
            producer.produce("t", b"v", partition=7)
        assert code_of(raised) == KafkaError._UNKNOWN_PARTITION
        for topic in ("", "a/b", "a" * 300):
            with pytest.raises(KafkaException) as raised:
                producer.produce(topic, b"v")
            assert code_of(raised) == KafkaError._INVALID_ARG
        with pytest.raises(KafkaException) as raised:
            producer.produce("t", b"v", partition=-5)
        assert code_of(raised) == KafkaError._INVALID_ARG
    assert len(stub.records("t", 0)) == 2


def test_a_partition_of_a_topic_that_is_not_known_yet(stub: BrokerStub) -> None:
    """The message is taken, and its callback hears that there is no such partition."""
    heard = Heard()
    with made(stub) as producer:
        producer.produce("t", b"v", partition=7, on_delivery=heard)
        producer.produce("t", b"v", partition=0, on_delivery=heard)
        assert producer.flush(10) == 0
    assert heard.codes == [KafkaError._UNKNOWN_PARTITION, None]


def test_produce_never_waits_for_a_topic() -> None:
    """Without a broker, `produce` returns at once, `flush` returns what is left, and messages fail after message.timeout.ms."""
    heard = Heard()
    producer = Producer({"bootstrap.servers": NOWHERE, "message.timeout.ms": 1_400, "socket.timeout.ms": 100})
    began = time.monotonic()
    for number in range(100):
        producer.produce(f"topic{number % 5}", b"v", on_delivery=heard)
    assert time.monotonic() - began < 5  # and not 1.4 s for each of five topics
    assert producer.flush(0.01) == 100
    assert producer.flush() == 0
    assert set(heard.codes) == {KafkaError._MSG_TIMED_OUT}
    assert "Message timed out" in heard[0][0].str()
    assert heard[0][1].partition() is None
    assert producer.close()


@pytest.mark.parametrize("jump_s", [86_400, -86_400])
def test_the_wall_clock_jumps_while_messages_wait_for_their_topic(monkeypatch: pytest.MonkeyPatch, jump_s: int) -> None:
    """A message without a topic fails after message.timeout.ms, neither at once nor a day later."""
    heard = Heard()
    producer = Producer({"bootstrap.servers": NOWHERE, "message.timeout.ms": 1500, "socket.timeout.ms": 100})
    began = time.monotonic()
    producer.produce("topic", b"v", on_delivery=heard)
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + jump_s)
    assert producer.flush(20) == 0
    assert time.monotonic() - began >= 1.5
    assert heard.codes == [KafkaError._MSG_TIMED_OUT]
    assert producer.close()


def test_the_order_of_messages_for_a_new_topic(stub: BrokerStub) -> None:
    """Messages that wait for their topic's metadata are in the log in the order of `produce`, with those that follow."""
    stub.faults.on(Api.METADATA).delay(ms=100).times(3)
    with made(stub) as producer:
        for number in range(3000):
            producer.produce(f"new{number % 3}", str(number))
            if number == 1500:
                until(lambda: len(stub.records("new0", 0)) > 0 if "new0" in producer.list_topics(timeout=10).topics else False, "records")
        assert producer.flush(20) == 0
    for topic in range(3):
        assert [int(record.value or b"") for record in stub.records(f"new{topic}", 0)] == list(range(topic, 3000, 3))


def test_a_topic_that_does_not_exist() -> None:
    """While brokers answer, a message waits for a missing topic for topic.metadata.propagation.max.ms."""
    heard = Heard()
    with BrokerStub(auto_create_topics=False) as broker, made(broker, topic_metadata_propagation_max_ms=300) as producer:
        producer.produce("missing", b"v", on_delivery=heard)
        assert producer.flush(20) == 0
    assert heard.codes == [KafkaError._UNKNOWN_TOPIC]


def test_produce_batch(stub: BrokerStub) -> None:
    """`produce_batch` returns how many messages were accepted; the others have an `_error`. Headers are sent, too."""
    shared, own = Heard(), Heard()
    with made(stub, message_max_bytes=2000) as producer:
        producer.produce("t", b"first")
        assert producer.flush(10) == 0
        rows: list[dict[str, Any]] = [
            {"value": b"a", "key": "k", "headers": {"h": "1"}},
            {"value": b"x" * 5000},
            {"value": "b", "callback": own, "partition": 0},
            {"value": "c", "partition": 9},
        ]
        assert producer.produce_batch("t", rows, on_delivery=shared) == 2
        assert producer.produce_batch("t", []) == 0
        assert producer.flush(10) == 0
        assert [row["_error"].code() for row in rows if "_error" in row] == [KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._UNKNOWN_PARTITION]
        assert [message.value() for _, message in [*shared, *own]] == [b"a", b"b"]
        for wrong in ("text", [5], [{"value": 5}], [{"value": b"v", "key": 5}], [{"value": b"v", "partition": "1"}]):
            with pytest.raises(TypeError):
                producer.produce_batch("t", wrong)  # type: ignore[arg-type]
        with pytest.raises(NotImplementedError):
            producer.produce_batch("t", [{"value": b"v", "timestamp": 5}])
    assert [record.value for record in stub.records("t", 0)] == [b"first", b"a", b"b"]


def test_purge(stub: BrokerStub) -> None:
    """`purge` fails what has no outcome: _PURGE_QUEUE for what is in no log, _PURGE_INFLIGHT for what may be in one."""
    heard = Heard()
    stub.create_topic("slow")
    with made(stub, linger_ms=0) as producer:
        producer.produce("slow", b"first")
        producer.flush(10)
        stub.faults.on(Api.PRODUCE).where(topic="slow").delay(ms=2000)
        producer.produce("slow", b"in flight", on_delivery=heard)
        until(lambda: producer.underlying.stats().requests_in_flight > 0, "the request")
        before = producer.underlying
        producer.purge(in_flight=False)
        assert producer.poll(0) == 0
        producer.purge()
        assert producer.flush(10) == 0
        assert heard.codes == [KafkaError._PURGE_INFLIGHT]
        assert producer.underlying is not before
        producer.produce("t", b"after", on_delivery=heard)
        assert producer.flush(10) == 0
        assert heard.codes[1:] == [None]


def test_purge_of_messages_without_a_topic() -> None:
    """Messages that wait for their topic are the queue: `purge(in_queue=False)` keeps them."""
    heard = Heard()
    with Producer({"bootstrap.servers": NOWHERE}) as producer:
        producer.produce("a", b"v", on_delivery=heard)
        producer.purge(in_queue=False)
        assert producer.flush(0.01) == 1
        producer.purge()
        assert producer.flush(5) == 0
        assert heard.codes == [KafkaError._PURGE_QUEUE]


def test_list_topics(stub: BrokerStub) -> None:
    """`list_topics` and `cluster_id` answer as confluent-kafka's, and fail as its do without a broker."""
    stub.create_topic("six", partitions=6)
    with made(stub) as producer:
        assert len(producer.list_topics(timeout=10).topics["six"].partitions) == 6
        assert set(producer.list_topics("t", timeout=10).topics) == {"t"}
        assert producer.cluster_id(timeout=10) == producer.list_topics(timeout=10).cluster_id
    with Producer({"bootstrap.servers": NOWHERE}) as producer:
        with pytest.raises(KafkaException) as raised:
            producer.list_topics(timeout=0.2)
        assert code_of(raised) in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)


def test_after_close(stub: BrokerStub) -> None:
    """Every call after `close` raises RuntimeError, as for a subclass that does not call `__init__`."""

    class Empty(Producer):
        def __init__(self) -> None:
            pass

    closed = made(stub)
    closed.produce("t", b"v")
    assert closed.close() is True
    assert closed.close() is True
    calls: list[Callable[[Producer], object]] = [
        lambda each: each.produce("t", b"v"),
        lambda each: each.poll(0),
        lambda each: each.flush(),
        lambda each: each.purge(),
        lambda each: each.produce_batch("t", [{"value": b"v"}]),
        lambda each: each.list_topics(timeout=1),
        lambda each: each.init_transactions(),
        lambda each: each.begin_transaction(),
        lambda each: each.send_offsets_to_transaction([], object()),
        lambda each: each.commit_transaction(),
        lambda each: each.abort_transaction(),
        lambda each: each.set_sasl_credentials("u", "p"),
    ]
    for producer in (closed, Empty()):
        for call in calls:
            with pytest.raises(RuntimeError, match="Producer has been closed"):
                call(producer)
        assert len(producer) == 0
        assert producer.close() is True
    assert [record.value for record in stub.records("t", 0)] == [b"v"]


def test_a_block_ends_it(stub: BrokerStub) -> None:
    """`with` waits for the messages, calls the callbacks, passes exceptions on and closes."""
    heard = Heard()
    with pytest.raises(ValueError, match="the program's"), made(stub) as producer:
        producer.produce("t", b"v", on_delivery=heard)
        raise ValueError("the program's")
    assert heard.codes == [None]
    with pytest.raises(RuntimeError):
        producer.flush()


def test_collected_without_a_flush(stub: BrokerStub) -> None:
    """A producer that is dropped leaves no thread. It warns, where confluent-kafka loses the messages without a word."""
    before = set(threading.enumerate())
    producer = Producer({"bootstrap.servers": NOWHERE})
    producer.produce("t", b"v", on_delivery=lambda error, message: None)
    gone = weakref.ref(producer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del producer
        gc.collect()
        assert gone() is None
        until(lambda: gc.collect() >= 0 and not set(threading.enumerate()) - before, "the end of its threads")


def test_statistics(stub: BrokerStub) -> None:
    """`stats_cb` gets JSON with librdkafka's names, in `poll` and on the polling thread."""
    texts: list[tuple[str, int]] = []
    properties = {"statistics.interval.ms": 20, "stats_cb": lambda text: texts.append((text, threading.get_ident()))}
    with Producer({"bootstrap.servers": stub.bootstrap, "client.id": "me", **properties}) as producer:
        producer.produce("t", b"v")
        until(lambda: producer.poll(0.05) >= 0 and texts and json.loads(texts[-1][0])["txmsgs"] == 1, "statistics")
    told = json.loads(texts[-1][0])
    assert {thread for _, thread in texts} == {threading.get_ident()}
    assert (told["client_id"], told["type"], told["msg_max"]) == ("me", "producer", 100_000)
    assert told["topics"]["t"]["txmsgs"] == 1
    assert {broker["state"] for broker in told["brokers"].values()} >= {"UP"}


@pytest.mark.parametrize("callback", [None, lambda error, message: None], ids=["without a callback", "with one"])
def test_statistics_of_messages_that_wait(callback: Any) -> None:
    """Messages that wait for their topic, or for a broker, are in `msg_cnt` and `msg_size`, as in librdkafka."""
    told: list[dict[str, Any]] = []
    properties = {"statistics.interval.ms": 20, "stats_cb": lambda text: told.append(json.loads(text))}
    with Producer({"bootstrap.servers": NOWHERE, **properties}) as producer:
        for _ in range(3):
            producer.produce("t", bytes(100), on_delivery=callback)
        until(lambda: producer.poll(0.05) >= 0 and told and told[-1]["msg_cnt"] == 3 and told[-1]["msg_size"] > 300, "statistics")
        producer.purge()


def test_errors_of_brokers(stub: BrokerStub) -> None:
    """`error_cb` hears once that no broker can be reached, and again after one could. What it raises leaves `poll`."""
    heard: list[int] = []
    properties = {"error_cb": lambda error: heard.append(error.code()), "reconnect.backoff.max.ms": 100}
    with Producer({"bootstrap.servers": NOWHERE, "message.timeout.ms": 1500, **properties}) as producer:
        producer.produce("t", b"v")
        producer.flush()
        assert heard == [KafkaError._ALL_BROKERS_DOWN]

    def fail(error: KafkaError) -> None:
        raise RuntimeError("from error_cb")

    with Producer({"bootstrap.servers": NOWHERE, "error_cb": fail}) as producer:
        producer.produce("t", b"v")
        with pytest.raises(RuntimeError, match="from error_cb"):
            producer.flush(20)
        producer.purge()


@pytest.mark.parametrize("api", [Api.API_VERSIONS, Api.METADATA], ids=["connect", "ask"])
def test_a_broker_that_is_far_away_is_no_error(stub: BrokerStub, api: Api) -> None:
    """No connection has failed: `error_cb` does not hear that all brokers are down because a broker needs a second to answer."""
    heard: list[int] = []
    slow = stub.faults.on(api).forever().hold()
    with Producer({"bootstrap.servers": stub.bootstrap, "error_cb": lambda error: heard.append(error.code())}) as producer:
        producer.produce("t", b"v")
        slow.wait(1, 20)
        assert producer.flush(1.0) == 1  # Meanwhile the topic is asked for a few times.
        slow.remove()
        assert producer.flush(20) == 0
    assert heard == []


def test_errors_of_brokers_that_were_there(stub: BrokerStub) -> None:
    """`error_cb` also hears that the connections to all brokers are gone while messages wait."""
    heard: list[int] = []
    with Producer({"bootstrap.servers": stub.bootstrap, "error_cb": lambda error: heard.append(error.code())}) as producer:
        producer.produce("t", b"v")
        assert producer.flush(10) == 0
        node = next(iter(stub.addresses))
        stub.stop_broker(node)
        producer.produce("t", b"w")
        until(lambda: producer.poll(0.1) >= 0 and heard, "the error")
        stub.start_broker(node)
        assert producer.flush(30) == 0
    assert heard == [KafkaError._ALL_BROKERS_DOWN]


def test_throttling(stub: BrokerStub) -> None:
    """`throttle_cb` gets a ThrottleEvent with the longest time that a broker throttled a write."""
    heard: list[Any] = []
    stub.faults.on(Api.PRODUCE).throttle(70)
    with Producer({"bootstrap.servers": stub.bootstrap, "throttle_cb": heard.append}) as producer:
        producer.produce("t", b"v")
        until(lambda: producer.poll(0.1) >= 0 and heard, "the event")
    assert heard[0].throttle_time == pytest.approx(0.07)


def test_new_credentials() -> None:
    """`set_sasl_credentials` counts for the next connections; messages of the meantime wait and arrive in order."""
    heard = Heard()
    with BrokerStub(sasl={"ann": "old", "ben": "new"}) as broker:
        properties = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.username": "ann", "sasl.password": "old"}
        with Producer({"bootstrap.servers": broker.bootstrap, **properties}) as producer:
            producer.produce("t", b"1", on_delivery=heard)
            producer.set_sasl_credentials("ben", "new")
            for number in range(2, 50):
                producer.produce("t", str(number), on_delivery=heard)
            assert producer.flush(20) == 0
            assert set(heard.codes) == {None}
            assert [int(record.value or b"") for record in broker.records("t", 0)] == list(range(1, 50))
            with pytest.raises(TypeError):
                producer.set_sasl_credentials("ben", None)  # type: ignore[arg-type]
            assert "t" in producer.list_topics(timeout=10).topics


def test_a_wrong_password() -> None:
    """`error_cb` hears _AUTHENTICATION, and the message fails after its time."""
    heard, errors = Heard(), []
    with BrokerStub(sasl={"ann": "right"}) as broker:
        properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "wrong"}
        watch = {"error_cb": lambda error: errors.append(error.code()), "message.timeout.ms": 1000}
        with Producer({"bootstrap.servers": broker.bootstrap, **properties, **watch}) as producer:
            producer.produce("t", b"v", on_delivery=heard)
            producer.flush()
    assert errors == [KafkaError._AUTHENTICATION]
    assert heard.codes == [KafkaError._MSG_TIMED_OUT]


def test_lost_replies(stub: BrokerStub) -> None:
    """Replies are lost after the append, and connections break: each message is in the log once and in order, which is what changes with
    the import."""
    stub.create_topic("faulty", partitions=3)
    lost = stub.faults.on(Api.PRODUCE).after_append().drop_reply().probability(0.2, seed=1)
    broken = stub.faults.on(Api.PRODUCE).disconnect().probability(0.1, seed=2)
    heard = Heard()
    with made(stub, linger_ms=1, socket_timeout_ms=300, retry_backoff_ms=10) as producer:
        for number in range(2000):
            producer.produce("faulty", str(number), key=str(number % 10), on_delivery=heard)
            producer.poll(0.005 if number % 50 == 0 else 0)
        assert producer.flush(100) == 0
    assert set(heard.codes) == {None}
    assert lost.hits > 0
    assert broken.hits > 0
    found = [[int(record.value or b"") for record in stub.records("faulty", partition)] for partition in range(3)]
    assert sorted(number for each in found for number in each) == list(range(2000))
    for key in range(10):
        assert [each for numbers in found for each in numbers if each % 10 == key] == list(range(key, 2000, 10))


def test_subclasses(stub: BrokerStub) -> None:
    """A subclass may add methods and override `produce`, also with positional arguments."""

    class Mine(Producer):
        def __init__(self, topic: str, **properties: Any) -> None:
            super().__init__(properties)
            self.topic = topic

        def say(self, text: str) -> None:
            self.produce(self.topic, text, None, -1, None, None, 99, {"by": "me"})

    with Mine("t", **{"bootstrap.servers": stub.bootstrap}) as producer:
        producer.say("hello")
        assert producer.flush(10) == 0
    record = stub.records("t", 0)[0]
    assert (record.value, record.timestamp, [tuple(each) for each in record.headers]) == (b"hello", 99, [("by", b"me")])


def test_serializers(stub: BrokerStub) -> None:
    """SerializingProducer takes confluent-kafka's serializers, with the key before the value, and names the one that failed."""
    from confluent_kafka.error import KeySerializationError, ValueSerializationError
    from confluent_kafka.serialization import IntegerSerializer, StringSerializer

    serializers = {"key.serializer": StringSerializer("utf_8"), "value.serializer": IntegerSerializer()}
    with SerializingProducer({"bootstrap.servers": stub.bootstrap, **serializers}) as producer:
        producer.produce("t", "key", 5)
        assert producer.flush(10) == 0
        with pytest.raises(ValueSerializationError):
            producer.produce("t", "key", "text")
        with pytest.raises(KeySerializationError):
            producer.produce("t", 5, 5)
    with pytest.raises(RuntimeError):
        producer.produce("t", "key", 5)
    with pytest.raises(ValueError, match=r"value\.serializer\.builder"):
        SerializingProducer({"value.serializer.builder": object()})
    assert [(record.key, record.value) for record in stub.records("t", 0)] == [(b"key", b"\x00\x00\x00\x05")]


def test_it_is_not_pickled(stub: BrokerStub) -> None:
    """A producer cannot be pickled, and the error says what to do."""
    with made(stub) as producer, pytest.raises(TypeError, match="make one where it is used"):
        pickle.dumps(producer)


def test_many_threads(stub: BrokerStub) -> None:
    """Threads that produce and poll at once lose nothing, and the count of messages ends at 0."""
    heard = Heard()
    with made(stub) as producer:

        def work() -> None:
            for number in range(500):
                producer.produce("t", str(number), on_delivery=heard if number % 2 else None)
                producer.poll(0)

        workers = [threading.Thread(target=work) for _ in range(6)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        assert producer.flush(20) == 0
        assert len(producer) == 0
    assert len(heard) == 1500
    assert len(stub.records("t", 0)) == 3000


def test_other_names_are_confluent_kafkas() -> None:
    """One changed module name is enough: what this package does not have is confluent-kafka's."""
    import confluent_kafka

    from fencepost.compat import confluent

    assert confluent.Consumer is confluent_kafka.Consumer
    assert confluent.KafkaException is confluent_kafka.KafkaException
    with pytest.raises(ImportError):
        exec("from fencepost.compat.confluent import Nothing")
