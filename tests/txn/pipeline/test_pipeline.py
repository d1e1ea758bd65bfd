"""A pipeline on the stub: what it writes, which offsets it commits, and what becomes of messages that cannot be processed."""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import AdminClient

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.faults.rules import Fault
from fencepost.producer import Producer
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages.txn_offsets import TxnOffsetCommitRequest
from fencepost.txn import OutputRecord, PipelineFailed, PipelineStats, PoisonMessage, TransactionalProducer
from tests.reading import read_messages
from tests.txn.pipeline.helpers import DEAD, LIMIT_S, PARTITIONS, SINK, SOURCE, bill, group_at, invoices, order, quick, results, stub
from tests.txn.pipeline.members import Running
from tests.waiting import until

__all__ = ["stub"]

N = 30


def numbered(message: Message) -> int:
    return int((message.value() or b"").rpartition(b" ")[2])


def test_each_message_once(stub: BrokerStub) -> None:
    """Every message has one result with its key, and the group's offsets are those after the last processed ones, with their leader
    epochs."""
    order(stub.bootstrap, range(N))
    stats = quick(stub, bill).run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == invoices(range(N))
    assert group_at(stub.bootstrap) == [N // PARTITIONS] * PARTITIONS
    assert (stats.records_in, stats.records_out, stats.dead_letters, stats.aborts) == (N, N, 0, 0)
    assert all((message.key() or b"").startswith(b"customer") for message in read_messages(stub.bootstrap, SINK, range(PARTITIONS)))
    (request, *_) = [each.request for each in stub.journal.requests(Api.TXN_OFFSET_COMMIT)]
    assert isinstance(request, TxnOffsetCommitRequest)
    assert (request.generation_id > 0, bool(request.member_id)) == (True, True)
    assert {partition.committed_leader_epoch for topic in request.topics for partition in topic.partitions} == {0}


def test_what_is_read_to_the_end_is_committed_at_once(stub: BrokerStub) -> None:
    """`run_until_idle` does not wait until the batch is old: nothing more is to come."""
    order(stub.bootstrap, range(N))
    stats = quick(stub, bill, batch_size=1_000, batch_ms=29_000).run_until_idle(timeout=25)
    assert (stats.records_in, stats.batches) == (N, 1)
    assert results(stub.bootstrap) == invoices(range(N))


def test_it_continues_where_it_stopped(stub: BrokerStub) -> None:
    """A second run of the group processes what is new, and nothing else."""
    order(stub.bootstrap, range(N))
    quick(stub, bill).run_until_idle(timeout=LIMIT_S)
    order(stub.bootstrap, range(N, 2 * N))
    stats = quick(stub, bill).run_until_idle(timeout=LIMIT_S)
    assert stats.records_in == N
    assert results(stub.bootstrap) == invoices(range(2 * N))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_it_begins_at_the_end_if_it_is_told_to(stub: BrokerStub, strategy: str) -> None:
    """With `latest` a group without offsets gets what comes after its first read; one with offsets continues there. In a `with` block
    `run_until_idle` processes what came since the last time."""
    consumer = {"auto.offset.reset": "latest", "partition.assignment.strategy": strategy}
    order(stub.bootstrap, range(N))
    with quick(stub, bill, consumer=consumer) as pipeline:
        assert pipeline.run_until_idle(timeout=LIMIT_S).records_in == 0
        order(stub.bootstrap, range(N, 2 * N))
        assert pipeline.run_until_idle(timeout=LIMIT_S).records_in == N
    order(stub.bootstrap, range(2 * N, 3 * N))
    assert quick(stub, bill, consumer=consumer).run_until_idle(timeout=LIMIT_S).records_in == N
    assert results(stub.bootstrap) == invoices(range(N, 3 * N))


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.UNSTABLE_OFFSET_COMMIT, None], ids=str
)
def test_the_place_to_begin_is_asked_for_until_it_is_known(stub: BrokerStub, code: ErrorCode | None) -> None:
    """The coordinator is loading, elsewhere, waits for a transaction, or its answers are lost: no message is doubled or left out."""
    order(stub.bootstrap, range(N))
    quick(stub, bill).run_until_idle(timeout=LIMIT_S)
    order(stub.bootstrap, range(N, 2 * N))
    rule = stub.faults.on(Api.OFFSET_FETCH).times(2)
    asked = rule.error(code) if code is not None else rule.drop()
    consumer = {"socket.timeout.ms": 1_000}
    assert quick(stub, bill, consumer=consumer).run_until_idle(timeout=LIMIT_S).records_in == N
    assert asked.hits == 2
    assert results(stub.bootstrap) == invoices(range(2 * N))


def test_a_place_to_begin_that_is_refused_ends_the_pipeline(stub: BrokerStub) -> None:
    """It names the reason, and processes nothing."""
    order(stub.bootstrap, range(N))
    stub.faults.on(Api.OFFSET_FETCH).error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(PipelineFailed, match="where to begin is not known"):
        quick(stub, bill).run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == []


def test_a_place_to_begin_that_stays_unknown(stub: BrokerStub) -> None:
    """The pipeline stops before the group removes a member that does not poll, and processes nothing."""
    order(stub.bootstrap, range(N))
    stub.faults.on(Api.OFFSET_FETCH).forever().error(ErrorCode.UNKNOWN_SERVER_ERROR)
    with pytest.raises(PipelineFailed, match="where to begin is not known"):
        quick(stub, bill, consumer={"max.poll.interval.ms": 6_000}).run(timeout=LIMIT_S)
    assert results(stub.bootstrap) == []


def test_stop_while_the_place_to_begin_is_not_known(stub: BrokerStub) -> None:
    """The coordinator refuses to tell it, for longer than `stop` may take. The pipeline ends without an error, having processed nothing."""
    order(stub.bootstrap, range(N))
    refused = stub.faults.on(Api.OFFSET_FETCH).forever().error(ErrorCode.UNKNOWN_SERVER_ERROR)
    with Running(quick(stub, bill, stop_timeout_ms=5_000)) as running:
        refused.wait(3, timeout=LIMIT_S)
    assert running.pipeline.stats().records_in == 0
    refused.remove()
    assert quick(stub, bill).run_until_idle(timeout=LIMIT_S).records_in == N


def test_the_name_of_the_group_protocol_in_capitals(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """librdkafka takes it in any case, and so does the pipeline: librdkafka does not warn of a call that is another protocol's."""
    order(stub.bootstrap, range(N))
    consumer = {"group.protocol": "CONSUMER", "heartbeat.interval.ms": None}
    assert quick(stub, bill, consumer=consumer).run_until_idle(timeout=LIMIT_S).records_in == N
    assert "incremental_assign" not in caplog.text


def test_messages_without_a_result_are_processed(stub: BrokerStub) -> None:
    """The offsets of filtered messages are committed too: also those of a batch that has no result at all."""
    order(stub.bootstrap, range(N))
    stats = quick(stub, lambda message: None).run_until_idle(timeout=LIMIT_S)
    assert (stats.records_in, stats.records_out, results(stub.bootstrap)) == (N, 0, [])
    assert group_at(stub.bootstrap) == [N // PARTITIONS] * PARTITIONS


def test_a_source_with_markers(stub: BrokerStub) -> None:
    """The offsets of control records are gaps: each message of the committed transactions counts once, those of aborted ones never, and the
    pipeline is idle behind the last marker."""
    with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="shop") as shop:
        for number in range(6):
            tx = shop.begin(LIMIT_S)
            tx.send(SOURCE, b"order %d" % number, partition=0).result(LIMIT_S)  # An abort drops what is not sent.
            tx.abort(LIMIT_S) if number % 2 else tx.commit(LIMIT_S)
    for _ in range(2):
        quick(stub, bill).run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == invoices(range(0, 6, 2))
    assert group_at(stub.bootstrap)[0] == stub.end_offset(SOURCE, 0) - 3, (
        "the last message is followed by its marker, a record and a marker"
    )


def returned(message: Message) -> object:
    """One of everything that a transform may return."""
    kinds: list[object] = [
        None,
        b"bytes",
        (b"key", b"pair"),
        (None, b"five", [("h", b"1")], 7, 2),
        OutputRecord(value=b"elsewhere", topic=DEAD, headers={"h": b"1"}, timestamp=5, partition=1),
        [b"first", (b"key", b"second"), OutputRecord(value=b"third", key=b"key", topic=DEAD)],
        [],
    ]
    return kinds[numbered(message)]


def test_what_a_transform_may_return(stub: BrokerStub) -> None:
    """None, bytes, tuples, records for other topics, and lists of them."""
    order(stub.bootstrap, range(7), partitions=1)
    stats = quick(stub, returned).run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == [b"bytes", b"first", b"five", b"pair", b"second"]
    assert results(stub.bootstrap, DEAD) == [b"elsewhere", b"third"]
    assert (stats.records_in, stats.records_out) == (7, 7)
    (five,) = [message for message in read_messages(stub.bootstrap, SINK, range(PARTITIONS)) if message.value() == b"five"]
    assert (five.partition(), five.headers(), five.timestamp()[1]) == (2, [("h", b"1")], 7)
    (there,) = [message for message in read_messages(stub.bootstrap, DEAD, range(PARTITIONS)) if message.value() == b"elsewhere"]
    assert (there.partition(), there.headers(), there.timestamp()[1]) == (1, [("h", b"1")], 5)


def test_a_generator_and_no_sink(stub: BrokerStub) -> None:
    """Without a sink each record names its topic."""

    def spread(message: Message) -> Iterator[OutputRecord]:
        yield OutputRecord(value=message.value(), topic=SINK)
        yield OutputRecord(value=message.value(), topic=DEAD)

    order(stub.bootstrap, range(N))
    quick(stub, spread, sink=None).run_until_idle(timeout=LIMIT_S)
    assert len(results(stub.bootstrap, SINK)) == len(results(stub.bootstrap, DEAD)) == N


def test_a_transform_of_many(stub: BrokerStub) -> None:
    """It gets lists of messages, each part of one transaction."""
    sizes = []

    def many(messages: list[Message]) -> list[tuple[bytes | None, bytes]]:
        sizes.append(len(messages))
        return [(message.key(), bill(message)) for message in messages]

    order(stub.bootstrap, range(N))
    quick(stub, transform_many=many, batch_size=7).run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == invoices(range(N))
    assert sum(sizes) == N
    assert max(sizes) <= 7


def test_sizes_of_batches(stub: BrokerStub) -> None:
    """A transaction takes at most batch_size messages; max_batches ends a run."""
    order(stub.bootstrap, range(N))
    with quick(stub, bill, batch_size=4, batch_ms=5_000) as pipeline:
        assert pipeline.run(max_batches=2, timeout=LIMIT_S).records_in == 8
        assert pipeline.run(max_batches=1, timeout=LIMIT_S).records_in == 12
        assert len(results(stub.bootstrap)) == 12


# -- messages that cannot be processed ------------------------------------------------------------------------------------


def picky(message: Message) -> bytes:
    if numbered(message) == 13:
        raise KeyError("price")
    return bill(message)


@pytest.mark.parametrize("many", [False, True], ids=["one by one", "in lists"])
def test_a_poison_message_stops_the_pipeline(stub: BrokerStub, many: bool) -> None:
    """Everything before it is committed. The error names it, and the restarted pipeline begins there: nothing is lost or doubled."""
    order(stub.bootstrap, range(N), partitions=1)
    given: dict[str, Any] = {"transform_many": lambda messages: [picky(each) for each in messages]} if many else {"transform": picky}
    with pytest.raises(PoisonMessage, match=r"orders-0, offset 13: KeyError: 'price' \(attempts=3\).*dead_letters=") as stopped:
        quick(stub, **given).run_until_idle(timeout=LIMIT_S)
    assert isinstance(stopped.value.__cause__, KeyError)
    assert (stopped.value.topic, stopped.value.partition, stopped.value.offset, stopped.value.attempts) == (SOURCE, 0, 13, 3)
    assert results(stub.bootstrap) == sorted(b"invoice for order %d" % number for number in range(13))
    assert group_at(stub.bootstrap)[0] == 13
    quick(stub, bill).run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == invoices(range(N))


@pytest.mark.parametrize("many", [False, True], ids=["one by one", "in lists"])
def test_dead_letters(stub: BrokerStub, many: bool) -> None:
    """A message that cannot be processed becomes a dead letter with the reason and its place, in the transaction of the others."""
    with Producer(bootstrap_servers=stub.bootstrap) as producer:
        for number in range(N):
            producer.send(SOURCE, b"order %d" % number, key=b"k", partition=0, headers=[("trace", b"%d" % number)])
    given: dict[str, Any] = (
        {"transform_many": lambda messages: [(None, picky(each)) for each in messages]} if many else {"transform": picky}
    )
    stats = quick(stub, dead_letters=DEAD, **given).run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == sorted(b"invoice for order %d" % number for number in range(N) if number != 13)
    (letter,) = read_messages(stub.bootstrap, DEAD, range(PARTITIONS))
    told = dict(letter.headers() or [])
    assert (letter.key(), letter.value()) == (b"k", b"order 13")
    assert told.pop("fencepost.timestamp") is not None
    assert told == {
        "trace": b"13",
        "fencepost.reason": b"KeyError: 'price'",
        "fencepost.topic": b"orders",
        "fencepost.partition": b"0",
        "fencepost.offset": b"13",
        "fencepost.attempts": b"3",
        "fencepost.cut": b"False",
        "fencepost.group": b"billing",
    }
    assert (stats.records_in, stats.records_out, stats.dead_letters) == (N, N - 1, 1)
    assert group_at(stub.bootstrap)[0] == N


def test_a_transform_that_fails_at_first(stub: BrokerStub) -> None:
    """It is tried again, with pauses, before the messages after it: then its result is there, in the order of the messages."""
    failed: list[int] = []
    called: list[int] = []

    def moody(message: Message) -> bytes:
        called.append(numbered(message))
        if numbered(message) in (3, 8) and failed.count(numbered(message)) < 2:
            failed.append(numbered(message))
            raise ConnectionError("the price service is restarting")
        return bill(message)

    order(stub.bootstrap, range(10), partitions=1)
    stats = quick(stub, moody).run_until_idle(timeout=LIMIT_S)
    assert (failed, stats.retries) == ([3, 3, 8, 8], 4)
    assert called == [0, 1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 8, 8, 9]
    assert results(stub.bootstrap) == invoices(range(10))


WRONG = [
    ("text", "returned str: None, bytes"),
    ((b"key", "text"), "must be bytes or None"),
    ((b"key", b"value", None, -1), "timestamp"),
    (OutputRecord(value=b"v", topic="no topic"), "topic"),
    ([b"fine", OutputRecord(value=b"v", topic=DEAD), {"a": 1}], "returned dict"),
    ((None, b"large" * 1_000_000), "exceeds max_request_size"),
    (b"v" * 5_000_000, "exceeds max_request_size"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[said for _, said in WRONG])
def test_results_that_are_no_records(stub: BrokerStub, wrong: object, said: str) -> None:
    """The message with such a result becomes a dead letter; the others have their results, each once."""
    order(stub.bootstrap, range(N), partitions=1)
    dead = "orders.letters"
    stub.create_topic(dead, partitions=1)
    stats = quick(stub, lambda message: wrong if numbered(message) == 13 else bill(message), dead_letters=dead).run_until_idle(
        timeout=LIMIT_S
    )
    assert results(stub.bootstrap) == sorted(b"invoice for order %d" % number for number in range(N) if number != 13)
    assert results(stub.bootstrap, DEAD) == []
    (letter,) = read_messages(stub.bootstrap, dead, [0])
    assert letter.value() == b"order 13"
    assert said in str(dict(letter.headers() or [])["fencepost.reason"])
    assert (stats.dead_letters, stats.aborts) == (1, 0)


@pytest.mark.parametrize("letters", [True, False], ids=["with dead letters", "without"])
def test_a_record_that_brokers_refuse(stub: BrokerStub, letters: bool) -> None:
    """The topic's limit is below the producer's. The batch is aborted and its messages processed one by one, until the one is found whose
    record is refused: it is a dead letter, or stops the pipeline. All others have one result."""
    stub.create_topic("small", partitions=1, config={"max.message.bytes": 1_000})
    order(stub.bootstrap, range(N), partitions=1)
    pipeline = quick(
        stub,
        lambda message: b"x" * 2_000 if numbered(message) == 13 else bill(message),
        sink="small",
        dead_letters=DEAD if letters else None,
        batch_size=10,
    )
    if letters:
        stats = pipeline.run_until_idle(timeout=LIMIT_S)
        (letter,) = read_messages(stub.bootstrap, DEAD, range(PARTITIONS))
        assert letter.value() == b"order 13"
        assert "MESSAGE_TOO_LARGE" in str(dict(letter.headers() or [])["fencepost.reason"])
        assert (stats.dead_letters, stats.aborts, stats.records_in) == (1, 2, N)
    else:
        with pytest.raises(PoisonMessage, match=r"offset 13: .*MESSAGE_TOO_LARGE"):
            pipeline.run_until_idle(timeout=LIMIT_S)
    left = [number for number in range(N if letters else 13) if number != 13]
    assert results(stub.bootstrap, "small", 1) == sorted(b"invoice for order %d" % number for number in left)


def test_messages_that_are_deleted_before_the_refused_one_is_found(stub: BrokerStub) -> None:
    """The brokers refuse the last record, and then the messages of its batch are gone from the log. Later messages are processed in large
    batches again."""
    order(stub.bootstrap, range(N), partitions=1)
    admin = AdminClient({"bootstrap.servers": stub.bootstrap})

    def deleting(message: Message) -> bytes:
        if numbered(message) == N - 1:
            refused.append(stub.faults.on(Api.PRODUCE).where(topic=SINK).error(ErrorCode.INVALID_RECORD))
            (deleted,) = admin.delete_records([TopicPartition(SOURCE, 0, N)]).values()
            assert deleted.result(LIMIT_S).low_watermark == N
        return bill(message)

    refused: list[Fault] = []
    with quick(stub, deleting, batch_size=N, batch_ms=20_000) as pipeline:
        assert pipeline.run_until_idle(timeout=LIMIT_S).records_in == 0
        assert [rule.hits for rule in refused] == [1]
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            producer.send_many(SOURCE, [b"order %d" % number for number in range(N, 2 * N)], partition=1)
        stats = pipeline.run_until_idle(timeout=LIMIT_S)
    assert (stats.records_in, stats.batches) == (N, 1)


# -- the end --------------------------------------------------------------------------------------------------------------


def test_stop_commits_what_is_processed(stub: BrokerStub) -> None:
    """Another thread calls it in the middle of a batch. Processed messages are committed, the member leaves the group, and no thread or
    connection is left."""
    before = set(threading.enumerate())
    order(stub.bootstrap, range(N), partitions=1)
    reached, may_go = threading.Event(), threading.Event()

    def slow(message: Message) -> bytes:
        if numbered(message) == 13:
            reached.set()
            assert may_go.wait(LIMIT_S)
        return bill(message)

    pipeline = quick(stub, slow, batch_ms=25_000)
    running = threading.Thread(target=pipeline.run)
    running.start()
    assert reached.wait(LIMIT_S)
    pipeline.stop()
    may_go.set()
    running.join(LIMIT_S)
    assert not running.is_alive()
    assert 13 < pipeline.stats().records_in < N
    assert len(results(stub.bootstrap)) == group_at(stub.bootstrap)[0] == pipeline.stats().records_in
    until(lambda: set(threading.enumerate()) <= before, "the threads end")
    assert len(stub.journal.requests(Api.LEAVE_GROUP)) == 1
    assert pipeline.run().records_in == pipeline.stats().records_in, "a stopped pipeline stays stopped"


def test_stop_in_a_signal_handler(stub: BrokerStub) -> None:
    """The handler runs between two instructions of the pipeline, which then ends as usual."""
    order(stub.bootstrap, range(N))
    pipeline = quick(stub, bill)
    old = signal.signal(signal.SIGUSR1, lambda number, frame: pipeline.stop())
    timer = threading.Timer(0.5, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1))
    timer.start()
    try:
        pipeline.run(timeout=LIMIT_S)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, old)
    assert len(results(stub.bootstrap)) == pipeline.stats().records_in


def test_ctrl_c_aborts_the_open_batch(stub: BrokerStub) -> None:
    """What was not committed is processed by the next run, once."""
    order(stub.bootstrap, range(N), partitions=1)

    def interrupted(message: Message) -> bytes:
        if numbered(message) == 13:
            raise KeyboardInterrupt
        return bill(message)

    with pytest.raises(KeyboardInterrupt):
        quick(stub, interrupted, batch_ms=25_000).run()
    assert results(stub.bootstrap) == []
    quick(stub, bill).run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == invoices(range(N))


def test_a_run_that_is_too_short(stub: BrokerStub) -> None:
    """`run` returns after its time; `run_until_idle` raises, and says what was done."""
    order(stub.bootstrap, range(N))
    assert quick(stub, bill).run(timeout=0).records_in == 0
    with pytest.raises(TimeoutError, match="has not read everything within 0 s; 0 messages in"):
        quick(stub, bill).run_until_idle(timeout=0)


def test_the_progress_line(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged and given to `on_progress`, and what that raises is logged. The statistics are a plain struct."""
    seen: list[PipelineStats] = []

    def on_progress(stats: PipelineStats) -> None:
        seen.append(stats)
        raise ZeroDivisionError

    order(stub.bootstrap, range(N))
    with caplog.at_level(logging.INFO, "fencepost.pipeline"):
        stats = quick(stub, bill, progress_ms=1, on_progress=on_progress).run_until_idle(timeout=LIMIT_S)
    assert seen[-1].records_in <= stats.records_in == N
    assert "on_progress raised" in caplog.text
    assert "pipeline 'billing': " in caplog.text
    assert f"{N} records out" in str(stats)
    assert json.loads(json.dumps({name: getattr(stats, name) for name in stats.__struct_fields__}))["batches"] == stats.batches


def test_headers_that_can_be_read_once(stub: BrokerStub) -> None:
    """A result that is no record has the others of its piece looked at again. Their headers are still there."""

    def tagged(message: Message) -> object:
        if numbered(message) % 7 == 6:
            return "no record"
        return OutputRecord(value=bill(message), headers=iter([("h", b"1")]))

    order(stub.bootstrap, range(N), partitions=1)
    stats = quick(stub, tagged, dead_letters=DEAD).run_until_idle(timeout=LIMIT_S)
    found = read_messages(stub.bootstrap, SINK, range(PARTITIONS))
    assert len(found) == N - stats.dead_letters
    assert [message.headers() for message in found] == [[("h", b"1")]] * len(found)


def test_an_error_that_has_no_text(stub: BrokerStub) -> None:
    """The transform's error raises when it is shown. The message becomes a dead letter nevertheless, and its reason names both errors."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise KeyError("code")

    def failing(message: Message) -> bytes:
        if numbered(message) == 5:
            raise Mute
        return bill(message)

    order(stub.bootstrap, range(10))
    quick(stub, failing, dead_letters=DEAD, attempts=1).run_until_idle(timeout=LIMIT_S)
    assert len(results(stub.bootstrap)) == 9
    (letter,) = read_messages(stub.bootstrap, DEAD, range(PARTITIONS))
    assert dict(letter.headers() or [])["fencepost.reason"] == b"Mute, whose text raises KeyError"


def test_a_source_that_is_created_again_between_two_runs(stub: BrokerStub) -> None:
    """It has fewer messages than the one before. `run_until_idle` reads them, and does not take the old end for the new one."""
    order(stub.bootstrap, range(N), partitions=1)
    with quick(stub, bill) as pipeline:
        pipeline.run_until_idle(timeout=LIMIT_S)
        stub.delete_topic(SOURCE)
        stub.create_topic(SOURCE, partitions=PARTITIONS)
        order(stub.bootstrap, range(100, 105), partitions=1)
        stats = pipeline.run_until_idle(timeout=LIMIT_S)
    assert stats.records_in == N + 5
    assert results(stub.bootstrap) == sorted(invoices(range(N)) + invoices(range(100, 105)))
