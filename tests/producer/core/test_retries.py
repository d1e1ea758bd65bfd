"""Lost replies, lost connections and retriable errors: the producer sends the same bytes again, in order, until they are acknowledged
once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fencepost.broker_stub import BrokerStub
from fencepost.producer import DeliveryTimeout
from fencepost.producer.core.error_table import ErrorAction, Landed, judge
from fencepost.producer.wire import Api, ErrorCode, NodeEndpoint, ProduceResponse
from tests.later import jumping
from tests.producer.core.harness import CoreHarness
from tests.producer.stub_helpers import ONE_EACH, QUICK, arrivals, quick, until, values

REQUEST_MS = 30_000
"""The default of request_timeout_ms."""


@pytest.mark.parametrize("how", ["drop", "disconnect", "half an answer"])
def test_a_lost_reply_is_resent_as_it_was_and_refused_as_a_duplicate(how: str) -> None:
    """The batch whose reply was lost is sent again byte for byte; the broker knows it, appends nothing and the future succeeds."""
    with jumping() as jump, BrokerStub() as stub, quick(stub) as producer:
        point = stub.faults.on(Api.PRODUCE)
        fault = {"drop": lambda: point.after_append().drop(), "disconnect": lambda: point.after_append().disconnect()}.get(
            how, lambda: point.reply().disconnect()
        )()
        sent = producer.send("t", b"once")
        fault.wait(1, 20)
        if how == "drop":
            jump(REQUEST_MS, producer)
        metadata = sent.result(20)
        assert fault.hits == 1
        first, second = arrivals(stub)
        assert first.blob == second.blob
        assert first.connection != second.connection
        assert metadata.offset == 0
        assert stub.stats()["duplicates"] == 1
        assert values(stub, "t") == [b"once"]


def test_what_never_arrived_is_sent_again() -> None:
    """A request that was lost before the broker did anything is sent again, and appended then."""
    with BrokerStub() as stub, quick(stub) as producer:
        fault = stub.faults.on(Api.PRODUCE).before().disconnect()
        assert producer.send("t", b"once").result(20).offset == 0
        assert fault.hits == 1
        assert stub.stats()["duplicates"] == 0


def test_every_field_of_a_retry_stays() -> None:
    """Stamped once at drain: producer id, epoch, sequence, count, timestamps and CRC are the same in all of six attempts."""
    with BrokerStub() as stub, quick(stub) as producer:
        stub.faults.on(Api.PRODUCE).before().times(5).error(ErrorCode.NOT_ENOUGH_REPLICAS)
        producer.send("t", b"x", key=b"k", headers=[("h", b"v")], timestamp=1_700_000_000_123).result(20)
        seen = arrivals(stub)
        assert len(seen) == 6
        assert len({arrival.blob for arrival in seen}) == 1


def test_five_lost_at_once_come_back_one_by_one() -> None:
    """If a connection is lost with five batches in flight, the producer resends them unchanged, oldest first, one at a time. Then it
    pipelines again.
    """
    harness = CoreHarness().introduce()
    harness.send(*[b"%d" % i for i in range(7)])
    before = [flight.blob for flight in harness.produces()]
    assert len(before) == 5
    harness.lose(1)
    assert [flight.blob for flight in harness.ack_one_by_one(5, after_ms=100)] == before
    assert [flight.values for flight in harness.produces()] == [[b"5"], [b"6"]]


def test_nothing_new_passes_a_retry() -> None:
    """A record sent while an older one is being retried waits for it, also when the answer is long in coming."""
    harness = CoreHarness().introduce()
    harness.send(b"0")
    harness.refuse(harness.produces()[0], ErrorCode.NOT_ENOUGH_REPLICAS)
    harness.send(b"1")
    harness.advance(50)
    assert [flight.values for flight in harness.produces()] == [[b"0"]]
    harness.advance(1_000)
    assert [flight.values for flight in harness.produces()] == [[b"0"]]
    harness.ack(harness.produces()[0])
    assert [flight.values for flight in harness.produces()] == [[b"1"]]


def test_the_worked_example_of_a_leader_that_moved() -> None:
    """0(3), 3(2), 5(1) in flight: the first is refused with 6, the others come back 45: 0 alone, then 3, then 5, under the same epoch."""
    harness = CoreHarness(batch_size=4096, linger_ms=5.0).introduce()
    for count in (3, 2, 1):
        harness.send(*[b"x"] * count)
        harness.advance(5)
    first, second, third = harness.produces()
    stamps = [flight.stamp for flight in (first, second, third)]
    harness.refuse(first, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    harness.refuse(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    harness.refuse(third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert [flight.stamp for flight in harness.ack_one_by_one(3, after_ms=50)] == stamps
    assert not harness.questions()


RETRIED = [row for row in ErrorCode if judge(Api.PRODUCE, row).action in (ErrorAction.RETRY, ErrorAction.REFRESH)]


@pytest.mark.parametrize("code", RETRIED, ids=[code.name for code in RETRIED])
def test_passing_errors_are_retried_as_they_were(code: ErrorCode) -> None:
    """Every retriable code of the table: the same bytes again after a backoff, and success ends it; metadata is refreshed where the
    table says so."""
    harness = CoreHarness().introduce()
    (future,) = harness.send(b"x")
    (flight,) = harness.produces()
    blob = flight.blob
    asked = len(harness.announced)
    harness.refuse(flight, code)
    assert not harness.produces(), "it backs off"
    harness.advance(100)
    (flight,) = harness.produces()
    assert flight.blob == blob
    assert (len(harness.announced) > asked) is (judge(Api.PRODUCE, code).action is ErrorAction.REFRESH)
    harness.ack(flight, offset=1)
    assert future.result(0).offset == 1


def test_the_table_has_the_digests_retriable_codes() -> None:
    """The codes that Kafka's clients retry for idempotent producers are all retried here, with metadata where they want it."""
    plain = {2, 7, 14, 19, 20, 89}
    refresh = {3, 5, 6, 13, 56, 74, 100, 103}
    by_verdict = {v: {int(c) for c in RETRIED if judge(Api.PRODUCE, c).action is v} for v in (ErrorAction.RETRY, ErrorAction.REFRESH)}
    assert plain <= by_verdict[ErrorAction.RETRY]
    assert refresh <= by_verdict[ErrorAction.REFRESH]


def test_duplicate_sequence_number_is_success() -> None:
    """An older broker's DUPLICATE_SEQUENCE_NUMBER (46) means that the record is in the log, at an unknown offset."""
    harness = CoreHarness().introduce()
    (future,) = harness.send(b"x")
    harness.refuse(harness.produces()[0], ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert future.result(0).offset == -1
    assert judge(Api.PRODUCE, 46).landed is Landed.YES


def test_a_moved_leader_is_followed() -> None:
    """A leader that moves again and again costs refusals and nothing else: every record once, in order."""
    with BrokerStub(brokers=3) as stub:
        stub.create_topic("t", replication_factor=3)
        with quick(stub, **ONE_EACH) as producer:
            futures = []
            for i in range(30):
                if i % 6 == 0:
                    stub.move_leader("t", 0)
                futures.append(producer.send("t", b"%d" % i))
            assert [future.result(20).offset for future in futures] == list(range(30))
            assert values(stub, "t") == [b"%d" % i for i in range(30)]


def test_the_new_leader_named_in_a_refusal_is_used_at_once() -> None:
    """KIP-951: NOT_LEADER_OR_FOLLOWER names the new leader; the batch goes there without waiting for metadata."""
    harness = CoreHarness().introduce()
    harness.auto.discard(Api.METADATA)
    harness.send(b"x")
    harness.refuse(harness.produces()[0], ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(2, 1))
    harness.advance(50)
    (flight,) = harness.produces()
    assert flight.node == 2


def test_a_partition_the_answer_forgets_counts_as_unanswered() -> None:
    """An answer that leaves a partition out says nothing about it: the batch is sent again as it was."""
    harness = CoreHarness().introduce()
    (future,) = harness.send(b"x")
    (flight,) = harness.produces()
    harness.reply(flight, ProduceResponse(responses=[]))
    harness.advance(100)
    (again,) = harness.produces()
    assert again.blob == flight.blob
    harness.ack(again)
    assert future.result(0).offset == 0


def test_a_broker_restart_in_the_middle() -> None:
    """The only broker goes away and comes back on the same port while records are being sent: all of them arrive once, in order. Offsets of
    what it appended before it went may be unknown, because it forgot them."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH) as producer:
        producer.send("t", b"hello").result(20)
        futures = [producer.send("t", b"%d" % i) for i in range(10)]
        until(lambda: futures[2].done(), "some delivered")
        stub.stop_broker(1)
        futures += [producer.send("t", b"%d" % i) for i in range(10, 20)]
        stub.start_broker(1)
        for place, future in enumerate(futures, start=1):
            assert future.result(20).offset in (place, -1)
        assert values(stub, "t") == [b"hello", *(b"%d" % i for i in range(20))]


def test_a_duplicate_answers_with_the_first_offset() -> None:
    """The offset of a batch whose reply was lost is the one it got the first time, though others were appended after it."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH) as producer:
        producer.send("t", b"hello").result(20)
        lost = stub.faults.on(Api.PRODUCE).reply().on_call(1).hold()
        futures = [producer.send("t", b"%d" % i) for i in range(4)]
        until(lambda: stub.end_offset("t", 0) == 5, "all appended")
        assert lost.hits == 1
        stub.cut_connections()
        assert [future.result(20).offset for future in futures] == [1, 2, 3, 4]
        assert stub.stats()["duplicates"] == 4
        assert len(values(stub, "t")) == 5


def test_backoffs_grow_and_have_jitter() -> None:
    """retry_backoff_ms doubles, within 20 % either way, and is never longer than retry_backoff_max_ms."""
    from fencepost.producer.core.cluster.cluster_connection_states import backoff_ms

    assert [backoff_ms(n, 100, 1000, 0.5) for n in range(6)] == [100, 200, 400, 800, 1000, 1000]
    assert backoff_ms(0, 100, 1000, 0.0) == pytest.approx(80)
    assert backoff_ms(0, 100, 1000, 0.999) == pytest.approx(120, rel=0.01)
    assert backoff_ms(10_000, 100, 1000, 0.0) == pytest.approx(800)
    assert backoff_ms(10_000, 100, 1000, 0.999) == 1000
    assert QUICK["retry_backoff_ms"] < 100


def test_a_new_leader_at_a_new_address() -> None:
    """The refusal names the new leader with a new address. It closes the old connection and sends the batch to the new address."""
    harness = CoreHarness(partitions=2)
    harness.leaders[1] = (2, 0)
    harness.introduce()
    harness.send(b"x", partition=0)
    (flight,) = harness.produces()
    harness.nodes.discard(2)
    harness.connects.clear()
    refusal = harness.refusal(flight, ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(2, 1))
    harness.auto.discard(Api.METADATA)
    harness.reply(flight, replace(refusal, node_endpoints=[NodeEndpoint(node_id=2, host="b", port=22)]))
    harness.advance(500)
    assert [(command.node, command.port) for _, command in harness.connects] == [(2, 22)]
    assert [again.node for again in harness.produces()] == [2]


def test_a_broker_that_a_refusal_names_serves_other_partitions_too() -> None:
    """Metadata named the leader of partition 1 without its address. A refusal for partition 0 tells it: partition 1 is served at once."""
    harness = CoreHarness(partitions=2, metadata_max_age_ms=500.0).introduce()
    harness.leaders[1] = (2, 1)
    harness.nodes = {1}
    harness.advance(600)
    harness.auto.discard(Api.METADATA)
    harness.send(b"there", partition=1)
    harness.send(b"here", partition=0)
    (flight,) = harness.produces()
    refusal = harness.refusal(flight, ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(2, 0))  # An old epoch: partition 0 stays where it is.
    harness.reply(flight, replace(refusal, node_endpoints=[NodeEndpoint(node_id=2, host="b", port=2)]))
    assert [again.values for again in harness.produces(2)] == [[b"there"]]


@pytest.mark.parametrize("late", ["answered", "lost"])
def test_an_answer_to_what_a_later_batch_has_resolved(late: str) -> None:
    """A leader hangs until the first batch's request times out. The next leader acknowledges the second batch, so the first is in the log,
    too. A late reply to the first request changes nothing."""
    harness = CoreHarness(delivery_timeout_ms=1_000.0, resolve_grace_ms=100.0, metadata_max_age_ms=300.0).introduce()
    (first,) = harness.send(b"0")
    (hung,) = harness.produces(1)
    harness.leaders[0] = (2, 1)
    harness.advance(600)
    (second,) = harness.send(b"1")
    (moved,) = harness.produces(2)
    harness.advance(600)
    assert isinstance(first.exception(0), DeliveryTimeout)
    harness.ack(moved, offset=7)
    assert second.result(0).offset == 7
    if late == "answered":
        harness.ack(hung, offset=6)
    else:
        harness.lose(1)
    (third,) = harness.send(b"2")
    (next_one,) = harness.produces(2)
    harness.ack(next_one, offset=8)
    assert third.result(0).offset == 8
    assert harness.dead is None


def test_without_idempotence_what_was_refused_for_the_moment_arrives() -> None:
    """At least once: a batch that was refused with a code that passes is sent again, also where a later one was acknowledged before."""
    with BrokerStub() as stub, quick(stub, **{**ONE_EACH, "enable_idempotence": False}) as producer:
        producer.send("t", b"first").result(20)
        stub.faults.on(Api.PRODUCE).before().error(ErrorCode.NOT_ENOUGH_REPLICAS)
        futures = [producer.send("t", b"%d" % i) for i in range(5)]
        offsets = [future.result(20).offset for future in futures]
        assert [values(stub, "t")[offset] for offset in offsets] == [b"%d" % i for i in range(5)]


def test_the_timestamp_of_what_is_known_again() -> None:
    """A broker answers for a batch that it knows again with the newest timestamp in it; each record keeps its own all the same, and where
    the broker's time is the records', that one."""
    for kind in ("CreateTime", "LogAppendTime"):
        with jumping() as jump, BrokerStub() as stub, quick(stub, linger_ms=60_000) as producer:
            stub.create_topic("t", config={"message.timestamp.type": kind})
            producer.partitions_for("t")
            lost = stub.faults.on(Api.PRODUCE).drop_reply()
            futures = [producer.send("t", b"%d" % i, timestamp=1_700_000_000_000 + i) for i in range(3)]
            jump(60_000, producer)
            lost.wait(1, 20)
            jump(REQUEST_MS, producer)
            told = [future.result(20).timestamp for future in futures]
            assert told == [record.timestamp for record in stub.records("t", 0)]
            assert stub.stats()["duplicates"] == 1
