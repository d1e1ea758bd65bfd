"""A leader that its followers do not reach: what it has, and says that it has, may be in no log once another one leads."""

from __future__ import annotations

from functools import partial
from typing import Any

from fencepost.broker_stub import BrokerStub
from fencepost.producer import DeliveryError, DeliveryTimeout, DeliveryUnknown, Persisted, RecordRefused
from fencepost.producer.accumulator.batch import RecordFuture
from fencepost.producer.wire import (
    Api,
    ErrorCode,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.later import jumping
from tests.producer.core.harness import PID, TOPIC, CoreHarness, Flight
from tests.producer.stub_helpers import ONE_EACH, probe, quick, values
from tests.waiting import until

E45 = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
IMPATIENT = {"request_timeout_ms": 500, "delivery_timeout_ms": 7_000}


def forgotten(*, records: bytes = b"AB", **settings: Any) -> tuple[CoreHarness, list[RecordFuture], list[bytes]]:
    """A harness whose leader restarted with a batch for each of these in its log, none of them answered: A is refused with 45, and
    DescribeProducers is asked. Returns their futures and bytes, too."""
    harness = CoreHarness(**settings).introduce()
    futures = harness.send(*(bytes([each]) for each in records))
    blobs = [flight.blob for flight in harness.produces()]
    harness.lose(1)
    harness.advance(50)
    harness.refuse(harness.produces()[0], E45)
    return harness, futures, blobs


def failure_of(future: RecordFuture) -> DeliveryError:
    failure = future.exception(0)
    assert failure is not None
    return failure


def fetches(harness: CoreHarness) -> list[Flight]:
    return [flight for flight in harness.open if flight.api is Api.FETCH]


def show(harness: CoreHarness, *batches: tuple[int, bytes], code: int = 0) -> None:
    """Answer the Fetch with these batches, each at its offset."""
    (fetch,) = fetches(harness)
    records = b"".join(offset.to_bytes(8, "big") + blob[8:] for offset, blob in batches)
    data = PartitionData(partition_index=0, error_code=code, high_watermark=1_000, records=records)
    harness.reply(fetch, FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[data])]))


def leader_ends_at(stub: BrokerStub) -> int:
    """The end of the leader's log, with what no follower has."""
    topic = stub.cluster.topics.named("t")
    assert topic is not None
    return topic.partitions[0].logs[stub.leader("t", 0)].log_end_offset


def test_what_only_an_isolated_leader_had_is_not_acknowledged() -> None:
    """The leader is cut from its follower; two batches that it has pass their deadline, and DescribeProducers says that it has them. The
    follower, in sync and without them, then leads: they are sent to it again, and each is at the offset that its future says."""
    with jumping() as jump, BrokerStub(brokers=2) as stub, quick(stub, **ONE_EACH, **IMPATIENT, resolve_grace_ms=20_000) as producer:
        stub.create_topic("t", replication_factor=2)
        assert producer.send("t", b"hello").result(20).offset == 0
        described = probe(stub, Api.DESCRIBE_PRODUCERS)
        stub.sever(1, 2)
        futures = [producer.send("t", b"A"), producer.send("t", b"B")]
        until(lambda: leader_ends_at(stub) == 3, "the leader has both")
        jump(IMPATIENT["delivery_timeout_ms"], producer)
        described.wait(1, 20)
        stub.move_leader("t", 0)
        stub.mend(1, 2)
        assert [future.result(20).offset for future in futures] == [1, 2]
        assert values(stub, "t") == [b"hello", b"A", b"B"]


def test_what_an_isolated_leader_says_is_not_called_persisted() -> None:
    """The leader is cut from its follower, and no other one leads until the grace is over. What becomes of the records is not known yet,
    and the failures say so."""
    with jumping() as jump, BrokerStub(brokers=2) as stub, quick(stub, **ONE_EACH, **IMPATIENT, resolve_grace_ms=1_000) as producer:
        stub.create_topic("t", replication_factor=2)
        producer.send("t", b"hello").result(20)
        stub.sever(1, 2)
        futures = [producer.send("t", b"A"), producer.send("t", b"B")]
        until(lambda: leader_ends_at(stub) == 3, "the leader has both")
        jump(IMPATIENT["delivery_timeout_ms"], producer)
        outcomes = [future.exception(20) for future in futures]
        stub.move_leader("t", 0)
        stub.mend(1, 2)
        until(lambda: values(stub, "t") == [b"hello"], "what both replicas have, below the high watermark of the new leader")
        assert [outcome and outcome.persisted for outcome in outcomes] == [Persisted.MAYBE, Persisted.MAYBE]


def test_a_hint_is_void_when_another_leads() -> None:
    """The leader has forgotten A and says that it has A and B; then another leads, which has neither: both are sent to it, A first, and
    nothing is acknowledged before it says so."""
    harness, (a, b), blobs = forgotten()
    harness.tell(harness.questions()[0], (PID, 0, 2))
    assert [flight.blob for flight in harness.produces()] == blobs[1:], "B confirms A"
    harness.leaders[0] = (2, 1)
    harness.refuse(harness.produces()[0], ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(2, 1))
    harness.advance(50)
    for offset, blob in enumerate(blobs, start=1):
        assert not (a.done() and b.done())
        (flight,) = harness.produces(node=2)
        assert flight.blob == blob
        harness.ack(flight, offset=offset)
    assert [each.result(0).offset for each in (a, b)] == [1, 2]


def test_a_hint_is_void_under_the_next_leader_epoch() -> None:
    """A broker that leads again after another one may have lost the end of its log. What it said of its log before counts no more."""
    harness, (a, b), blobs = forgotten()
    harness.tell(harness.questions()[0], (PID, 0, 2))
    harness.refuse(harness.produces()[0], ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(1, 2))
    harness.advance(50)
    assert harness.produces()[0].blob == blobs[0]
    harness.ack(harness.produces()[0], offset=1)
    harness.ack(harness.produces()[0], offset=2)
    assert [each.result(0).offset for each in (a, b)] == [1, 2]


def test_an_answer_about_an_earlier_leadership_is_put_aside() -> None:
    """News of the next leader overtakes what the one before says of its log: the next one is asked."""
    harness, _, _ = forgotten()
    (question,) = harness.questions()
    harness.core.view.topics[TOPIC].leaders[0] = type(harness.core.view.topics[TOPIC].leaders[0])(2, 1)
    harness.tell(question, (PID, 0, 2))
    assert [each.node for each in harness.questions()] == [2]


def test_a_batch_that_turns_out_to_be_missing_goes_again() -> None:
    """The leader said that it has A and B, and then refuses B for want of A: it is asked once more, and what it lacks is sent again."""
    harness, (a, b), blobs = forgotten()
    harness.tell(harness.questions()[0], (PID, 0, 2))
    harness.refuse(harness.produces()[0], E45)
    harness.tell(harness.questions()[0], (PID, 0, 0))
    harness.advance(50)
    for offset, blob in enumerate(blobs, start=1):
        (flight,) = harness.produces()
        assert flight.blob == blob
        harness.ack(flight, offset=offset)
        harness.advance(50)
    assert [each.result(0).offset for each in (a, b)] == [1, 2]


def test_the_newest_is_refused_for_good() -> None:
    """The leader has A and B, and knows only B again, which it then refuses permanently. No reply with acks=all ever came for A or a later
    batch, so A is neither acknowledged nor called persisted."""
    harness, (a, b), _ = forgotten()
    harness.tell(harness.questions()[0], (PID, 0, 2))
    harness.refuse(harness.produces()[0], ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert not a.done()
    harness.tell(harness.questions()[0], (PID, 0, 2))
    assert (type(failure_of(a)), failure_of(a).persisted) == (DeliveryUnknown, Persisted.MAYBE)
    assert (type(failure_of(b)), failure_of(b).persisted) == (RecordRefused, Persisted.MAYBE)
    (later,) = harness.send(b"C")
    assert harness.produces()[0].stamp == (PID, 1, 0)
    harness.ack(harness.produces()[0], offset=3)
    assert later.result(0).offset == 3


def test_a_deadline_on_a_hint_is_a_maybe() -> None:
    """What only a hint speaks for at its deadline fails with MAYBE."""
    harness, futures, _ = forgotten(delivery_timeout_ms=1_000.0, request_timeout_ms=10_000.0, resolve_grace_ms=500.0)
    harness.tell(harness.questions()[0], (PID, 0, 2))
    harness.advance(1_000)
    for question in harness.questions():
        harness.tell(question, (PID, 0, 2))
    harness.advance(500)
    assert [(type(failure_of(each)), failure_of(each).persisted) for each in futures] == [(DeliveryTimeout, Persisted.MAYBE)] * 2


def test_a_later_acknowledgement_makes_a_decided_failure_persisted() -> None:
    """A's time is over, and its futures wait for an elder's; then B, after it in the same log, is acknowledged: A failed, and is there."""
    harness = CoreHarness(delivery_timeout_ms=1_000.0, request_timeout_ms=10_000.0, resolve_grace_ms=100.0).introduce()
    (elder, a) = harness.send(b"0", b"A")
    harness.advance(500)
    (b,) = harness.send(b"B")
    flights = harness.produces()
    harness.advance(599)
    for question in harness.questions():
        harness.tell(question, None)
    window = harness.core.produce_requests.senders[TOPIC, 0].window
    window.in_flight_batches[1].fail(DeliveryTimeout, "its time is over")
    harness.ack(flights[2], offset=3)
    harness.ack(flights[0], offset=1)
    assert elder.result(0).offset == 1
    assert (type(failure_of(a)), failure_of(a).persisted) == (DeliveryTimeout, Persisted.YES)
    assert b.result(0).offset == 3


def test_what_is_known_again_is_answered_with_its_offset() -> None:
    """Only what the leader does not know again is left to a later batch: the others are sent again, each for its own offset."""
    harness, futures, blobs = forgotten(records=b"ABC")
    harness.tell(harness.questions()[0], (PID, 0, 3))
    (b,) = harness.produces()
    assert b.blob == blobs[1]
    harness.ack(b, offset=7)
    harness.ack(harness.produces()[0], offset=9)
    show(harness, (5, blobs[0]), (7, blobs[1]))
    assert [each.result(0).offset for each in futures] == [5, 7, 9]


def test_the_offset_of_what_was_forgotten_follows_from_its_neighbours() -> None:
    """The leader knows C alone again: where just A and B fit between what was acknowledged before and C, their offsets are known."""
    harness, futures, blobs = forgotten(records=b"ABC")
    harness.tell(harness.questions()[0], (PID, 0, 3))
    harness.refuse(harness.produces()[0], E45)
    harness.advance(50)
    (c,) = harness.produces()
    assert c.blob == blobs[2]
    harness.ack(c, offset=3)
    assert [each.result(0).offset for each in futures] == [1, 2, 3]
    assert not harness.open


def test_the_offset_of_what_was_forgotten_is_looked_up() -> None:
    """Where others wrote between them, the log is read, from the newest known offset on, until the batch is found."""
    harness, (a, b), blobs = forgotten()
    harness.tell(harness.questions()[0], (PID, 0, 2))
    harness.ack(harness.produces()[0], offset=9)
    assert not a.done()
    (fetch,) = fetches(harness)
    wanted = fetch.message.topics[0].partitions[0]
    assert (wanted.partition, wanted.fetch_offset) == (0, 1)
    stranger = CoreHarness()
    stranger.next_pid = (PID + 1, 0)
    stranger.introduce().send(b"stranger")
    show(harness, (1, stranger.produces()[0].blob))
    assert not a.done()
    assert fetches(harness)[0].message.topics[0].partitions[0].fetch_offset == 2
    show(harness, code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not fetches(harness), "asked again after a pause"
    harness.advance(50)
    show(harness, (4, blobs[0]), (9, blobs[1]))
    assert [each.result(0).offset for each in (a, b)] == [4, 9]


def test_what_is_confirmed_after_the_look_is_looked_for_too() -> None:
    """B is known again, and the log was read to its end for A, before C and D: C is looked for where the reading began, not where it
    ended."""
    harness, futures, blobs = forgotten(records=b"ABCD")
    harness.tell(harness.questions()[0], (PID, 0, 4))
    harness.ack(harness.produces()[0], offset=4)
    show(harness, (2, blobs[0]), (4, blobs[1]), (6, blobs[2]), (8, blobs[3]))
    harness.refuse(harness.produces()[0], E45)
    harness.advance(50)
    harness.ack(harness.produces()[0], offset=8)
    assert fetches(harness)[0].message.topics[0].partitions[0].fetch_offset == 5
    show(harness, (6, blobs[2]), (8, blobs[3]))
    assert [each.result(0).offset for each in futures] == [2, 4, 6, 8]


def test_what_is_shown_after_another_confirmation_is_put_aside() -> None:
    """The log is being read for A when D confirms C: C was not looked for when the reading began, so the log is read once more."""
    harness, futures, blobs = forgotten(records=b"ABCD")
    harness.tell(harness.questions()[0], (PID, 0, 4))
    harness.ack(harness.produces()[0], offset=4)
    harness.refuse(harness.produces()[0], E45)
    harness.advance(50)
    harness.ack(harness.produces()[0], offset=8)
    show(harness, (8, blobs[3]))
    assert not any(each.done() for each in futures)
    assert not fetches(harness), "asked again after a pause"
    harness.advance(50)
    assert fetches(harness)[0].message.topics[0].partitions[0].fetch_offset == 1
    show(harness, *zip((2, 4, 6, 8), blobs, strict=True))
    assert [each.result(0).offset for each in futures] == [2, 4, 6, 8]


def test_an_offset_that_cannot_be_found_is_no_success() -> None:
    """The log was cleaned between the acknowledgement and the look: the record had been persisted, and has no offset to be told."""
    harness, (a, b), blobs = forgotten()
    harness.tell(harness.questions()[0], (PID, 0, 2))
    harness.ack(harness.produces()[0], offset=9)
    show(harness, (9, blobs[1]))
    assert (type(failure_of(a)), failure_of(a).persisted) == (DeliveryUnknown, Persisted.YES)
    assert b.result(0).offset == 9


def test_an_offset_unknown_at_the_deadline() -> None:
    """The leader does not answer before the deadline: the failure says that the record is in the log."""
    harness, (a, b), _ = forgotten(delivery_timeout_ms=1_000.0, request_timeout_ms=10_000.0, resolve_grace_ms=100.0)
    harness.tell(harness.questions()[0], (PID, 0, 2))
    harness.ack(harness.produces()[0], offset=9)
    harness.advance(1_000)
    assert (type(failure_of(a)), failure_of(a).persisted) == (DeliveryTimeout, Persisted.YES)
    assert b.result(0).offset == 9


def test_offsets_after_a_restart_with_another_writer() -> None:
    """Five batches between those of another producer, their replies lost with the broker that restarts: every future says where its record
    is, though the broker knows only the newest again."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH) as producer, quick(stub, **ONE_EACH) as other:

        def ends_at(offset: int) -> bool:
            return stub.end_offset("t", 0) == offset

        producer.send("t", b"hello").result(20)
        other.send("t", b"hello").result(20)
        held = stub.faults.on(Api.PRODUCE).reply().forever().hold()
        futures = []
        for i in range(5):
            futures.append(producer.send("t", b"%d" % i))
            until(partial(ends_at, 2 * i + 3), "one appended")
            other.send("t", b"other")
            until(partial(ends_at, 2 * i + 4), "the other one's appended")
        stub.stop_broker(1)
        held.remove()
        stub.start_broker(1)
        assert [future.result(20).offset for future in futures] == [2, 4, 6, 8, 10]
        assert stub.journal.requests(Api.FETCH)


def test_an_error_that_names_an_offset_came_after_the_append() -> None:
    """If the leader moves while a Produce waits for replicas, Kafka answers with the batch's offset. The batch was appended, for every
    code, so the failure does not say that it is not in the log."""
    harness = CoreHarness(
        delivery_timeout_ms=1_000.0, resolve_grace_ms=100.0, retry_backoff_ms=2_000.0, retry_backoff_max_ms=2_000.0
    ).introduce()
    (future,) = harness.send(b"x")
    (flight,) = harness.produces()
    answer = PartitionProduceResponse(index=0, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, base_offset=1)
    topic = flight.message.topic_data[0]
    said = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[answer])
    harness.reply(flight, ProduceResponse(responses=[said]))
    harness.advance(1_200)
    assert failure_of(future).persisted is Persisted.MAYBE


def test_an_unknown_timestamp() -> None:
    """Where the broker's time is the records', what was acknowledged through a later batch has its offset, and no timestamp of its own
    that the log has not."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH) as producer:
        stub.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
        producer.send("t", b"hello").result(20)
        held = stub.faults.on(Api.PRODUCE).reply().forever().hold()
        futures = [producer.send("t", b"%d" % i, timestamp=1_700_000_000_000) for i in range(3)]
        until(lambda: stub.end_offset("t", 0) == 4, "all appended")
        stub.stop_broker(1)
        held.remove()
        stub.start_broker(1)
        told = [future.result(20) for future in futures]
        assert [each.offset for each in told] == [1, 2, 3]
        assert [each.timestamp for each in told] == [-1, -1, stub.records("t", 0)[3].timestamp]
