"""A pipeline and what can go wrong around it: aborted transactions, lost replies, rebalances, zombies, brokers that are down. Afterwards
every message has one result."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Message

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Fenced
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages.groups import LeaveGroupRequest, MemberIdentity
from fencepost.txn import GroupMetadata, OutputRecord, PipelineFailed, PoisonMessage, TransactionalProducer
from fencepost.txn.pipeline import source
from tests.broker_stub.stub_calls import Talker
from tests.drawn import drawn
from tests.txn.pipeline.helpers import (
    DEAD,
    LIMIT_S,
    PARTITIONS,
    SINK,
    SOURCE,
    bill,
    group_at,
    invoices,
    order,
    quick,
    results,
    stub,
)
from tests.txn.pipeline.members import Running, members_come_and_go, slowly
from tests.txn.stub_helpers import removed_after
from tests.waiting import until

__all__ = ["stub"]

pytestmark = pytest.mark.timeout(120)

ABSENT: dict[str, Any] = {"call_timeout_ms": 1_000, "producer": {"allow_auto_create_topics": False}}
"""Settings of a test that writes to a topic that there is not."""

N = 300

COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
CONSUMER_PROTOCOL = {"group.protocol": "consumer", "heartbeat.interval.ms": None}


def is_whole(stub: BrokerStub, total: int = N) -> None:
    """Every order has one result, and the group has read all of them."""
    assert results(stub.bootstrap) == invoices(range(total))
    assert sum(group_at(stub.bootstrap)) == total


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (Api.PRODUCE, ErrorCode.INVALID_TXN_STATE),
        (Api.TXN_OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION),
        (Api.TXN_OFFSET_COMMIT, ErrorCode.UNKNOWN_MEMBER_ID),
        (Api.END_TXN, ErrorCode.TRANSACTION_ABORTABLE),
    ],
    ids=lambda value: value.name,
)
def test_an_aborted_batch_is_read_again(stub: BrokerStub, api: Api, code: ErrorCode) -> None:
    """The second transaction must be aborted. The consumer goes back to the batch's first messages, although it has fetched all later ones
    already, and every message has one result."""
    order(stub.bootstrap, range(N))
    stub.faults.on(api).on_call(2).error(code)
    stats = quick(stub, bill, batch_size=50).run_until_idle(timeout=LIMIT_S)
    is_whole(stub)
    assert stats.aborts >= 1
    assert stats.records_in == N


def test_an_abort_without_a_committed_offset(stub: BrokerStub) -> None:
    """With auto.offset.reset=latest a seek to the group's offsets would go to the end, because there are none yet. The pipeline goes back
    to the first message of the batch."""
    seen = threading.Event()

    def seeing(message: Message) -> bytes:
        seen.set()
        return bill(message)

    stub.faults.on(Api.TXN_OFFSET_COMMIT).error(ErrorCode.ILLEGAL_GENERATION)
    with quick(stub, seeing, consumer={"auto.offset.reset": "latest"}) as pipeline:
        pipeline.run_until_idle(timeout=LIMIT_S)  # at the end of every partition
        order(stub.bootstrap, range(N))
        until(lambda: pipeline.run(timeout=0.2).records_in == N, "all are processed", timeout_s=LIMIT_S)
        assert pipeline.stats().aborts == 1
    is_whole(stub)


def test_a_commit_whose_outcome_is_not_known_at_first(stub: BrokerStub) -> None:
    """The coordinator commits, and its answers are lost until the call's time has passed. The pipeline asks for the outcome before it goes
    on, and processes nothing twice."""
    order(stub.bootstrap, range(N))
    lost = stub.faults.on(Api.END_TXN).after_append().forever().drop()
    removing = removed_after(lost, hits=5)
    stats = quick(stub, bill, batch_size=50, call_timeout_ms=1_000, producer={"request_timeout_ms": 300}).run_until_idle(timeout=LIMIT_S)
    removing.join()
    is_whole(stub)
    assert lost.hits > 1
    assert stats.aborts == 0


def test_an_outcome_that_stays_unknown(stub: BrokerStub) -> None:
    """The pipeline stops, and says that the group's offsets tell what is processed. A restarted one loses and doubles nothing."""
    order(stub.bootstrap, range(N))
    lost = stub.faults.on(Api.END_TXN).after_append().forever().drop()
    quiet = stub.faults.on(Api.DESCRIBE_TRANSACTIONS).forever().drop()
    pipeline = quick(stub, bill, batch_size=50, call_timeout_ms=500, aborts_max=1, instance="a", producer={"request_timeout_ms": 200})
    with pytest.raises(PipelineFailed, match="the outcome of a commit stays unknown"):
        pipeline.run_until_idle(timeout=LIMIT_S)
    lost.remove()
    quiet.remove()
    quick(stub, bill, instance="a").run_until_idle(timeout=LIMIT_S)
    is_whole(stub)


def test_a_second_pipeline_with_the_same_id(stub: BrokerStub) -> None:
    """The newer producer fences the pipeline, which stops with an error that says what to change. Nothing of its open batch is visible."""
    order(stub.bootstrap, range(N))

    def overtaken(message: Message) -> bytes:
        if message.value() == b"order 200":
            with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="same") as newer:
                newer.init(LIMIT_S)
        return bill(message)

    with pytest.raises(Fenced, match="another pipeline uses transactional id 'same': give each process its own instance"):
        quick(stub, overtaken, batch_size=1_000, batch_ms=4_000, transactional_id="same").run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == []
    quick(stub, bill).run_until_idle(timeout=LIMIT_S)
    is_whole(stub)


def test_aborts_in_a_row(stub: BrokerStub) -> None:
    """A batch that is refused again and again stops the pipeline, with the last reason."""
    order(stub.bootstrap, range(N))
    refused = stub.faults.on(Api.TXN_OFFSET_COMMIT).forever().error(ErrorCode.ILLEGAL_GENERATION)
    with pytest.raises(
        PipelineFailed, match=r"4 transactions in a row were aborted, more than aborts_max=3; the last: .*ILLEGAL_GENERATION"
    ):
        quick(stub, bill, aborts_max=3).run_until_idle(timeout=LIMIT_S)
    refused.remove()
    quick(stub, bill).run_until_idle(timeout=LIMIT_S)
    is_whole(stub)


def test_a_partition_that_does_not_exist(stub: BrokerStub) -> None:
    """The function names it. It may be created, so the batch is tried again. The error names the topic, the partition and how many there
    are."""
    order(stub.bootstrap, range(N))
    with pytest.raises(PipelineFailed, match=r"more than aborts_max=1; the last: there is no partition 99: 'invoices' has 3 partitions"):
        quick(stub, lambda message: OutputRecord(value=message.value(), partition=99), aborts_max=1).run(timeout=LIMIT_S)
    assert results(stub.bootstrap) == []
    assert sum(place for place in group_at(stub.bootstrap) if place >= 0) == 0


def test_a_topic_that_does_not_exist(stub: BrokerStub) -> None:
    """The batch is tried again, and then the error names the topic."""
    order(stub.bootstrap, range(N))
    with pytest.raises(PipelineFailed, match=r"more than aborts_max=1; the last: topic 'absent' did not become available"):
        quick(stub, lambda message: OutputRecord(value=b"", topic="absent"), aborts_max=1, **ABSENT).run(timeout=LIMIT_S)
    assert sum(place for place in group_at(stub.bootstrap) if place >= 0) == 0


@pytest.mark.parametrize("batch_size", [1, 1_000])
@pytest.mark.parametrize("form", ["transform", "transform_many"])
def test_a_dead_letter_for_a_partition_that_does_not_exist(stub: BrokerStub, form: str, batch_size: int) -> None:
    """The message whose result is for it becomes a dead letter, and all others have their results."""
    order(stub.bootstrap, range(N))

    def misplace(message: Message) -> OutputRecord:
        return OutputRecord(value=bill(message), partition=99 if message.value() == b"order 7" else 0)

    function = misplace if form == "transform" else lambda messages: [misplace(message) for message in messages]
    stats = quick(stub, batch_size=batch_size, dead_letters=DEAD, **{form: function}).run_until_idle(timeout=LIMIT_S)
    assert (stats.records_in, stats.dead_letters) == (N, 1)
    assert results(stub.bootstrap) == [each for each in invoices(range(N)) if each != b"invoice for order 7"]
    assert results(stub.bootstrap, DEAD) == [b"order 7"]


def test_dead_letters_of_several_partitions(stub: BrokerStub) -> None:
    """The first message of each partition has a result for a partition that does not exist. Each of them becomes a dead letter, though the
    pipeline tries them in turns, and may abort more often than `aborts_max` before the first commit."""
    stub.create_topic("wide", partitions=8)
    order(stub.bootstrap, range(N), "wide", 8)

    def misplace(message: Message) -> OutputRecord:
        return OutputRecord(value=bill(message), partition=99 if message.offset() == 0 else 0)

    stats = quick(stub, misplace, source="wide", dead_letters=DEAD).run_until_idle(timeout=LIMIT_S)
    assert (stats.records_in, stats.dead_letters) == (N, 8)
    assert results(stub.bootstrap) == invoices(range(8, N))


def test_a_poison_message_for_a_partition_that_does_not_exist(stub: BrokerStub) -> None:
    """Without dead letters the pipeline commits what came before it, and stops. A run after the partition was created continues."""
    order(stub.bootstrap, range(N), partitions=1)

    def misplace(message: Message) -> OutputRecord:
        return OutputRecord(value=bill(message), partition=3 if message.value() == b"order 7" else 0)

    words = r"orders-0, offset 7: UnknownPartition: there is no partition 3: 'invoices' has 3 partitions, numbered from 0"
    with pytest.raises(PoisonMessage, match=words):
        quick(stub, misplace).run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == invoices(range(7))
    stub.add_partitions(SINK, 4)
    quick(stub, misplace).run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap, partitions=4) == invoices(range(N))


def test_a_broker_that_fails_unexpectedly(stub: BrokerStub) -> None:
    """It fails twice for the first message. The message is no dead letter: the broker takes it later."""
    order(stub.bootstrap, range(50), partitions=1)
    stub.faults.on(Api.PRODUCE).where(topic=SINK).times(2).error(ErrorCode.UNKNOWN_SERVER_ERROR)
    stats = quick(stub, bill, dead_letters=DEAD, batch_size=1).run_until_idle(timeout=LIMIT_S)
    assert (stats.aborts, stats.dead_letters) == (2, 0)
    assert results(stub.bootstrap) == invoices(range(50))


def test_a_message_for_which_brokers_fail_each_time(stub: BrokerStub) -> None:
    """A broker fails for the partition of one result, as often as it is tried. The message becomes a dead letter."""
    order(stub.bootstrap, range(N), partitions=1)
    failing = stub.faults.on(Api.PRODUCE).where(topic=SINK, partition=2).forever().error(ErrorCode.UNKNOWN_SERVER_ERROR)

    def place(message: Message) -> OutputRecord:
        return OutputRecord(value=bill(message), partition=2 if message.value() == b"order 7" else 0)

    stats = quick(stub, place, dead_letters=DEAD, attempts=4).run_until_idle(timeout=LIMIT_S)
    assert stats.dead_letters == 1
    assert failing.hits >= 4
    assert results(stub.bootstrap, DEAD) == [b"order 7"]
    assert results(stub.bootstrap) == [each for each in invoices(range(N)) if each != b"invoice for order 7"]


def test_a_partition_that_is_created_meanwhile(stub: BrokerStub) -> None:
    """The brokers say at first that it does not exist. The message is no dead letter."""
    order(stub.bootstrap, range(1), partitions=1)
    created: list[None] = []

    def misplace(message: Message) -> OutputRecord:
        if created:
            stub.add_partitions(SINK, 4)
        created.append(None)
        return OutputRecord(value=bill(message), partition=3)

    stats = quick(stub, misplace, dead_letters=DEAD).run_until_idle(timeout=LIMIT_S)
    assert (stats.aborts, stats.dead_letters) == (1, 0)
    assert results(stub.bootstrap, partitions=4) == invoices(range(1))


def test_an_instance_that_two_processes_use(stub: BrokerStub) -> None:
    """The group's coordinator refuses the offsets of the older one, which stops."""
    order(stub.bootstrap, range(N))
    stub.faults.on(Api.TXN_OFFSET_COMMIT).error(ErrorCode.FENCED_INSTANCE_ID)
    with pytest.raises(PipelineFailed, match="another process has the same instance: give each its own"):
        quick(stub, bill, instance="a").run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == []


# -- the group ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("consumer", [{}, COOPERATIVE], ids=["eager", "cooperative"])
def test_members_come_and_go(stub: BrokerStub, consumer: dict[str, Any]) -> None:
    """Partitions change hands while transactions are open: each is committed before its partitions are given up. Every message has one
    result, from any member."""
    members_come_and_go(stub.bootstrap, consumer)


@pytest.mark.parametrize("consumer", [{}, COOPERATIVE], ids=["eager", "cooperative"])
def test_a_member_that_is_closed_while_the_group_rebalances(stub: BrokerStub, consumer: dict[str, Any]) -> None:
    """The first member joins again, and is closed before the coordinator has answered. A broker answers one request of a connection after
    the other, so what the consumer asks for at its end comes too late. The member leaves all the same, and the group does not wait for the
    end of its session."""
    order(stub.bootstrap, range(N))
    given = {**consumer, "session.timeout.ms": 300_000}
    with Running(quick(stub, bill, consumer={**given, "client.id": "first"})) as first:
        until(lambda: first.pipeline.stats().partitions == PARTITIONS, "the first has the partitions", timeout_s=LIMIT_S)
        joins = stub.faults.on(Api.JOIN_GROUP).where(client_id="first").reply().hold()
        with Running(quick(stub, bill, consumer=given)) as second:
            assert joins.wait(1, timeout=LIMIT_S)
            first.pipeline.stop()
            until(lambda: second.pipeline.stats().partitions == PARTITIONS, "the second has the partitions", timeout_s=LIMIT_S)
            until(lambda: sum(group_at(stub.bootstrap)) == N, "everything is processed", timeout_s=LIMIT_S, pause_max_s=0.2)
    is_whole(stub)


def test_a_member_that_is_closed_before_the_group_has_answered(stub: BrokerStub) -> None:
    """In the consumer protocol, librdkafka does not leave if it is closed before the answer to its first heartbeat. The member leaves all
    the same, and the next one has the partitions at once."""
    order(stub.bootstrap, range(N))
    joins = stub.faults.on(Api.CONSUMER_GROUP_HEARTBEAT).where(client_id="first").reply().hold()
    with Running(quick(stub, bill, consumer={**CONSUMER_PROTOCOL, "client.id": "first"})) as first:
        assert joins.wait(1, timeout=LIMIT_S)
        first.pipeline.stop()
    with Running(quick(stub, bill, consumer=CONSUMER_PROTOCOL)) as second:
        until(lambda: second.pipeline.stats().partitions == PARTITIONS, "the second has the partitions", timeout_s=15.0)
        until(lambda: sum(group_at(stub.bootstrap)) == N, "everything is processed", timeout_s=LIMIT_S, pause_max_s=0.2)
    is_whole(stub)


def test_an_instance_that_is_closed_before_the_group_has_answered(stub: BrokerStub) -> None:
    """The same with an instance: the group does not refuse the next process of that instance, and gives it the partitions."""
    order(stub.bootstrap, range(N))
    joins = stub.faults.on(Api.CONSUMER_GROUP_HEARTBEAT).where(client_id="first").reply().hold()
    with Running(quick(stub, bill, instance="0", consumer={**CONSUMER_PROTOCOL, "client.id": "first"})) as first:
        assert joins.wait(1, timeout=LIMIT_S)
        first.pipeline.stop()
    quick(stub, bill, instance="0", consumer=CONSUMER_PROTOCOL).run_until_idle(timeout=15.0)
    is_whole(stub)


def test_an_instance_in_the_consumer_protocol_begins_again(stub: BrokerStub) -> None:
    """Its former process is still a member, as after a kill. The next one has the partitions at once; the former one is told that it is
    replaced."""
    order(stub.bootstrap, range(N))
    protocol = {name: value for name, value in CONSUMER_PROTOCOL.items() if value is not None}
    former = Consumer({"bootstrap.servers": stub.bootstrap, "group.id": "billing", "group.instance.id": "0", **protocol})
    try:
        former.subscribe([SOURCE])
        until(lambda: former.poll(0.1) is None and len(former.assignment()) == PARTITIONS, "it has the partitions", timeout_s=LIMIT_S)
        quick(stub, bill, instance="0", consumer=CONSUMER_PROTOCOL).run_until_idle(timeout=15.0)
    finally:
        former.close()
    is_whole(stub)


def test_a_group_that_does_not_say_its_members(stub: BrokerStub) -> None:
    """An instance that is not in the group begins without knowing its members."""
    order(stub.bootstrap, range(N))
    asked = stub.faults.on(Api.CONSUMER_GROUP_DESCRIBE).error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    quick(stub, bill, instance="0", consumer=CONSUMER_PROTOCOL).run_until_idle(timeout=LIMIT_S)
    assert asked.wait(1, timeout=LIMIT_S)
    is_whole(stub)


def test_a_member_that_the_group_removed(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator no longer knows the member: its partitions are lost, and another one may have them. The open batch is aborted, not
    committed, and processed once after the member has joined again."""
    order(stub.bootstrap, range(N))
    removed: list[str | None] = []
    consumers: list[Consumer] = []

    def noted(settings: dict[str, Any]) -> Consumer:
        consumers.append(Consumer(settings))
        return consumers[-1]

    def while_processing(message: Message) -> bytes:
        if message.value() == b"order 100" and not removed:
            member_id = consumers[-1].memberid()
            removed.append(member_id)
            with Talker(stub) as talker:
                left: Any = talker.ask(LeaveGroupRequest(group_id="billing", members=[MemberIdentity(member_id=str(member_id))]), 5)
            assert left.members[0].error_code == 0
            until(lambda: consumers[-1].memberid() != member_id, "a heartbeat tells the consumer")
        return bill(message)

    monkeypatch.setattr(source, "Consumer", noted)

    stats = quick(stub, while_processing, batch_size=1_000, batch_ms=2_000).run_until_idle(timeout=LIMIT_S)
    is_whole(stub)
    assert stats.aborts >= 1
    assert stats.records_in == N


@drawn(2)
def test_a_transform_that_takes_too_long(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """The member has not polled for max.poll.interval.ms: the group gives its partitions away. The pipeline notices, says which setting to
    change, and processes each message once."""
    order(stub.bootstrap, range(N))
    slept: list[None] = []

    def too_slow(message: Message) -> bytes:
        if not slept:
            slept.append(None)
            time.sleep(7.5)
        return bill(message)

    stats = quick(stub, too_slow, consumer={"max.poll.interval.ms": 6_000}).run_until_idle(timeout=LIMIT_S)
    is_whole(stub)
    assert stats.lost > 0
    assert stats.aborts >= 1
    assert "max.poll.interval.ms" in caplog.text


def test_a_message_that_is_tried_for_longer_than_a_transaction_may_last() -> None:
    """The open batch is committed before it is too old, and the message becomes a dead letter after its last attempt."""

    def fails(message: Message) -> bytes:
        if message.value() == b"order 100":
            raise KeyError("never")
        return bill(message)

    with BrokerStub(config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}) as stub:
        for topic, partitions in ((SOURCE, 1), (SINK, PARTITIONS), (DEAD, 1)):
            stub.create_topic(topic, partitions=partitions)
        order(stub.bootstrap, range(N), partitions=1)
        pauses = {"attempts": 40, "retry_backoff_ms": 100, "retry_backoff_max_ms": 100}
        slow = quick(stub, fails, dead_letters=DEAD, batch_size=1_000, batch_ms=300, transaction_timeout_ms=3_000, **pauses)
        stats = slow.run_until_idle(timeout=LIMIT_S)
        assert (stats.dead_letters, stats.aborts) == (1, 0)
        assert results(stub.bootstrap) == sorted(set(invoices(range(N))) - {b"invoice for order 100"})


def test_a_slow_transform_keeps_the_group(stub: BrokerStub) -> None:
    """The messages of one read together take longer than max.poll.interval.ms. The pipeline lets the group know in between that it lives,
    and commits every batch_ms."""
    total = 45
    order(stub.bootstrap, range(total))

    def slow(message: Message) -> bytes:
        time.sleep(0.2)
        return bill(message)

    stats = quick(stub, slow, batch_ms=1_000, consumer={"max.poll.interval.ms": 6_000}).run_until_idle(timeout=LIMIT_S)
    is_whole(stub, total)
    assert (stats.lost, stats.aborts) == (0, 0)
    assert stats.batches >= 6


# -- brokers --------------------------------------------------------------------------------------------------------------


def test_a_broker_that_is_down(stub: BrokerStub) -> None:
    """The pipeline waits, and continues when the broker is back."""
    order(stub.bootstrap, range(N))
    with Running(quick(stub, slowly, call_timeout_ms=500)) as running:
        until(lambda: running.pipeline.stats().records_in > 0, "it has begun", timeout_s=LIMIT_S)
        stub.stop_broker(1)
        time.sleep(2.0)
        stub.start_broker(1)
        until(lambda: running.pipeline.stats().records_in == N, "everything is processed", timeout_s=LIMIT_S)
    is_whole(stub)


def test_a_broker_that_comes_later() -> None:
    """Nothing answers when the pipeline begins. It waits, and a run with a time ends after it."""
    with BrokerStub() as stub:
        for topic in (SOURCE, SINK):
            stub.create_topic(topic, partitions=PARTITIONS)
        order(stub.bootstrap, range(N))
        stub.stop_broker(1)
        with pytest.raises(TimeoutError):
            quick(stub, bill, call_timeout_ms=200, stop_timeout_ms=100).run(timeout=0.5)
        threading.Timer(1.0, lambda: stub.start_broker(1)).start()
        quick(stub, bill, call_timeout_ms=500).run_until_idle(timeout=LIMIT_S)
        is_whole(stub)


def test_no_broker_until_the_deadline(stub: BrokerStub) -> None:
    """A run waits no longer than its own time, also if a call may take longer than that. Nothing is open that it would have to end."""
    stub.stop_broker(1)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        quick(stub, bill).run(timeout=2.0)
    assert 1.5 < time.monotonic() - began < 10.0


@pytest.mark.parametrize("consumer", [{}, COOPERATIVE, CONSUMER_PROTOCOL], ids=["eager", "cooperative", "consumer"])
def test_the_deadline_while_the_place_to_begin_is_not_known(stub: BrokerStub, consumer: dict[str, Any]) -> None:
    """The run ends in time, with its partitions. The next run of the same pipeline asks again, and begins where the group is."""
    order(stub.bootstrap, range(N))
    quick(stub, bill).run_until_idle(timeout=LIMIT_S)
    order(stub.bootstrap, range(N, 2 * N))
    refused = stub.faults.on(Api.OFFSET_FETCH).forever().error(ErrorCode.UNKNOWN_SERVER_ERROR)
    with quick(stub, bill, consumer=consumer) as pipeline:
        began = time.monotonic()
        while not refused.hits:
            assert pipeline.run(timeout=2.0).records_in == 0
        assert time.monotonic() - began < 15.0
        refused.remove()
        assert pipeline.run_until_idle(timeout=LIMIT_S).records_in == N
    is_whole(stub, 2 * N)


def test_no_broker_when_a_pipeline_looks_again(stub: BrokerStub) -> None:
    """The pipeline has read everything. The next run waits for the brokers until its deadline, or until they are back."""
    order(stub.bootstrap, range(N))
    with quick(stub, bill) as pipeline:
        pipeline.run_until_idle(timeout=LIMIT_S)
        order(stub.bootstrap, range(N, 2 * N))
        stub.stop_broker(1)
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="has not read everything within 2 s"):
            pipeline.run_until_idle(timeout=2.0)
        assert time.monotonic() - began < 10.0
        threading.Timer(1.0, lambda: stub.start_broker(1)).start()
        assert pipeline.run_until_idle(timeout=LIMIT_S).records_in == 2 * N
    is_whole(stub, 2 * N)


@pytest.mark.parametrize("api", [Api.PRODUCE, Api.TXN_OFFSET_COMMIT, Api.END_TXN, Api.INIT_PRODUCER_ID, Api.FETCH, Api.OFFSET_FETCH])
def test_connections_that_break(stub: BrokerStub, api: Api) -> None:
    """One reply in three is cut off in the middle."""
    order(stub.bootstrap, range(N))
    stub.faults.on(api).reply().probability(0.3, seed=7).disconnect()
    quick(stub, bill, batch_size=40).run_until_idle(timeout=LIMIT_S)
    is_whole(stub)


def test_what_a_killed_run_left_open(stub: BrokerStub) -> None:
    """A killed run of the instance left a transaction with offsets open. The restarted pipeline ends it before it asks for the group's
    offsets, which are not stable until then, so it does not wait for the transaction's timeout."""
    order(stub.bootstrap, range(N))
    killed = TransactionalProducer(
        bootstrap_servers=stub.bootstrap, transactional_id="billing.a", transaction_timeout_ms=600_000, linger_ms=0
    )
    with killed:
        tx = killed.begin(LIMIT_S)
        tx.send(SINK, b"never visible", partition=0).result(LIMIT_S)
        tx.send_offsets({(SOURCE, 0): N}, GroupMetadata("billing"), LIMIT_S)
        quick(stub, bill, instance="a").run_until_idle(timeout=LIMIT_S)
    is_whole(stub)


def test_a_pattern_that_only_the_consumer_understands(stub: BrokerStub) -> None:
    """A source [[:alpha:]]+ matches the sink for librdkafka, and not for Python. When the pipeline gets the sink's partitions it stops, and
    has written nothing."""
    order(stub.bootstrap, range(3))
    with quick(stub, bill, source="^[[:alpha:]]+$") as pipeline, pytest.raises(PipelineFailed, match="matches 'invoices', to which"):
        pipeline.run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == []
