"""Topics that are unknown, refused, late, deleted, recreated and grown, and when the producer asks brokers for metadata."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, DeliveryTimeout, Persisted, Producer, RecordRefused, TopicUnavailable
from fencepost.producer.core.events import Change, ConnectionLost, Send, Ticked, TopicWanted
from fencepost.producer.wire import Api, ErrorCode, Message
from fencepost.txn import AsyncTransactionalProducer, TransactionalProducer
from tests.later import jumping, limit_passes
from tests.producer.core.harness import CoreHarness
from tests.producer.stub_helpers import ONE_EACH, QUICK, probe, quick, until, values


def test_an_unknown_topic_times_out_with_the_reason() -> None:
    """send to a topic that does not exist waits max_block_ms and then names the topic, the time and what the brokers say."""
    with jumping() as jump, BrokerStub(auto_create_topics=False) as stub, quick(stub, max_block_ms=60_000) as producer:
        asked = probe(stub, Api.METADATA)
        late = limit_passes(jump, 60_000, producer, lambda: producer.send("missing", b"x"), lambda: asked.hits >= 3)
    for word in ("'missing'", "max_block_ms=60000", "UNKNOWN_TOPIC_OR_PARTITION"):
        assert word in str(late)
    assert isinstance(late, TopicUnavailable)
    assert isinstance(late, TimeoutError)


def test_without_a_reachable_broker_the_reason_is_the_address() -> None:
    """With no broker reachable the message names the time and what happened at the address, not that the topic does not exist."""
    with jumping() as jump, BrokerStub() as stub:
        bootstrap = stub.bootstrap
        stub.stop_broker(1)
        with Producer(bootstrap_servers=bootstrap, **{**QUICK, "max_block_ms": 60_000}) as producer:
            tried = producer._sender.engine.trouble
            late = limit_passes(jump, 60_000, producer, lambda: producer.send("t", b"x"), lambda: bootstrap in tried())
    assert isinstance(late, TopicUnavailable)
    assert f"max_block_ms=60000: {bootstrap}" in str(late)


def test_a_topic_that_appears_while_waiting() -> None:
    """send waits for a topic that is created a moment later, and delivers."""
    with BrokerStub(auto_create_topics=False) as stub, quick(stub) as producer:
        asked = probe(stub, Api.METADATA)
        with ThreadPoolExecutor() as pool:
            sending = pool.submit(lambda: producer.send("late", b"x").result(20).offset)
            asked.wait(2, 20)
            assert not sending.done()
            stub.create_topic("late")
            assert sending.result(20) == 0


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
def test_a_refused_topic_is_refused_at_once(code: ErrorCode) -> None:
    """What waiting would not change is raised without waiting, with the broker's code; other topics go on, and so does this one when the
    refusal is lifted."""
    with BrokerStub() as stub, quick(stub) as producer:
        refusal = stub.faults.on(Api.METADATA).where(topic="secret").before().forever().error(code)
        with pytest.raises(RecordRefused, match=code.name) as refused:
            producer.send("secret", b"x")
        assert (refused.value.persisted, refused.value.code) == (Persisted.NO, code)
        assert producer.send("open", b"x").result(20).offset == 0
        with pytest.raises(RecordRefused):
            producer.send("secret", b"x")
        refusal.remove()
        assert producer.send("secret", b"x").result(20).offset == 0


def test_a_refusal_that_comes_before_the_wait_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's refusal may arrive before the caller begins to wait for it: it is raised all the same, not forgotten."""
    with BrokerStub() as stub, quick(stub) as producer:
        stub.faults.on(Api.METADATA).where(topic="secret").before().forever().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        honest = producer._sender.post
        heard = threading.Event()
        announce = producer._sender.engine._announce

        def announced(news: Any) -> None:
            announce(news)
            heard.set()

        def slow_post(event: Any) -> None:
            honest(event)
            if isinstance(event, TopicWanted):
                heard.wait(20)

        monkeypatch.setattr(producer._sender.engine, "_announce", announced)
        monkeypatch.setattr(producer._sender, "post", slow_post)
        with pytest.raises(RecordRefused):
            producer.send("secret", b"x")


def test_a_deleted_topic_expires_what_is_sent_to_it() -> None:
    """Records for a topic that is deleted behind the producer's back wait for it to come back and expire with NO and the broker's code."""
    with jumping() as jump, BrokerStub(auto_create_topics=False) as stub:
        stub.create_topic("t")
        with quick(stub, retry_backoff_ms=200_000, retry_backoff_max_ms=200_000) as producer:
            producer.send("t", b"x").result(20)
            stub.delete_topic("t")
            refused = probe(stub, Api.PRODUCE)
            late = producer.send("t", b"y")
            refused.wait(1, 20)
            until(lambda: not producer.stats().requests_in_flight, "every request is answered")
            jump(120_000, producer)
            failure = late.exception(20)
            assert isinstance(failure, DeliveryTimeout)
            assert failure.persisted is Persisted.NO
            assert failure.code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_recreated_topic_gets_what_waited_for_it() -> None:
    """Deleted and created again under the same name: the record that waited, and all later ones, arrive once in the new topic."""
    with BrokerStub(auto_create_topics=False) as stub:
        stub.create_topic("t")
        with quick(stub, batch_size=0) as producer:
            for i in range(7):
                producer.send("t", b"old %d" % i).result(20)
            stub.delete_topic("t")
            asked = probe(stub, Api.METADATA)
            futures = [producer.send("t", b"%d" % i) for i in range(7)]
            asked.wait(2, 20)
            stub.create_topic("t")
            assert [future.result(20).offset for future in futures] == list(range(7))
            assert values(stub, "t") == [b"%d" % i for i in range(7)]


def test_a_recreated_topic_with_fewer_partitions() -> None:
    """Keyless records go on to the partitions that there are now."""
    with BrokerStub(auto_create_topics=False) as stub:
        stub.create_topic("t", partitions=8)
        with quick(stub, metadata_max_age_ms=20) as producer:
            for _ in range(20):
                producer.send("t", b"x" * 5_000)
            producer.flush(20)
            stub.delete_topic("t")
            stub.create_topic("t", partitions=1)
            until(lambda: producer.partitions_for("t") == [0], "the news")
            futures = [producer.send("t", b"%d" % i) for i in range(10)]
            assert [future.result(20).offset for future in futures] == list(range(10))


def test_a_recreated_topic_is_introduced_anew() -> None:
    """The new topic's leader does not know the producer id: one batch until its first acknowledgement, then pipelining again."""
    from uuid import UUID

    harness = CoreHarness(metadata_max_age_ms=1_000.0).introduce()
    harness.topic_id = UUID(int=8)
    harness.advance(harness.settings.metadata_max_age_ms)
    assert harness.announced[-1].heard.change is Change.RECREATED
    harness.send(b"0", b"1", b"2")
    assert [flight.values for flight in harness.produces()] == [[b"0"]]
    harness.ack(harness.produces()[0])
    assert [flight.values for flight in harness.produces()] == [[b"1"], [b"2"]]


def test_another_leader_is_found_before_the_next_attempt_at_the_one_before() -> None:
    """A leader's connection is cut before the cluster has elected another leader.

    During the reconnect backoff the producer asks brokers again. It sends the waiting batches to the next leader as soon as one broker
    names it.
    """
    harness = CoreHarness(reconnect_backoff_ms=1_000.0).introduce()
    harness.lose(1)
    (future,) = harness.send(b"x")
    harness.advance(50)
    harness.leaders = {0: (2, 1)}
    harness.advance(50)
    assert [connect.node for _, connect in harness.connects].count(1) == 1, "no attempt was due"
    (flight,) = harness.produces(2)
    harness.ack(flight, offset=1)
    assert future.result(0).offset == 1


def test_a_recreated_topic_without_ids_is_found() -> None:
    """Brokers that know no topic ids (Kafka before 2.8): the leader had changed before the topic was deleted and made again, so that the
    new topic's epochs are older. What is sent arrives there all the same, within seconds."""
    from uuid import UUID

    harness = CoreHarness()
    harness.topic_id, harness.leaders = UUID(int=0), {0: (1, 4)}
    harness.introduce()
    harness.leaders = {0: (2, 0)}
    (future,) = harness.send(b"x")
    for _ in range(100):
        for flight in harness.produces(1):
            harness.refuse(flight, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        harness.advance(100)
        if harness.produces(2):
            break
    (flight,) = harness.produces(2)
    assert harness.now < 10_000
    harness.ack(flight)
    assert future.exception(0) is None


def test_older_epochs_are_not_believed_while_the_leader_does_not_deny_that_it_leads() -> None:
    """Brokers without topic ids that lag behind, all that can be asked: the partition's leader refuses a record for another reason, and so
    stays the one to send to, however often another one is named from an earlier epoch."""
    from uuid import UUID

    harness = CoreHarness(metadata_max_age_ms=100.0)
    harness.topic_id, harness.leaders = UUID(int=0), {0: (1, 4)}
    harness.introduce()
    harness.leaders = {0: (2, 0)}
    (future,) = harness.send(b"x")
    for _ in range(10):
        harness.refuse(harness.produces(1)[0], ErrorCode.NOT_ENOUGH_REPLICAS)
        harness.advance(100)
        assert harness.produces(2) == []
    harness.ack(harness.produces(1)[0], offset=1)
    assert future.result(0).offset == 1


@pytest.mark.parametrize(
    ("code", "leader"), [(ErrorCode.NOT_LEADER_OR_FOLLOWER, (-1, 9)), (ErrorCode.NOT_ENOUGH_REPLICAS, (2, 9)), (ErrorCode.NONE, (2, 9))]
)
def test_a_leader_that_an_answer_has_no_reason_to_name(code: ErrorCode, leader: tuple[int, int]) -> None:
    """A response names no leader, or another leader while the broker itself does not deny that it leads. Only Metadata decides then."""
    harness = CoreHarness().introduce()
    harness.send(b"x")
    harness.refuse(harness.produces()[0], code, leader=leader)
    harness.send(b"y")
    harness.advance(50)
    assert [flight.node for flight in harness.produces()] == [1]


def test_what_the_old_topic_acknowledged_is_acknowledged() -> None:
    """News of the new topic may overtake an answer about the old one, which calls it by the old id: the answer counts all the same, and
    nothing is sent again; the new topic's leader still has to be introduced."""
    from uuid import UUID

    harness = CoreHarness(metadata_max_age_ms=1_000.0).introduce()
    futures = harness.send(b"0", b"1")
    first, second = harness.produces()
    harness.topic_id = UUID(int=8)
    harness.advance(harness.settings.metadata_max_age_ms)
    assert harness.announced[-1].heard.change is Change.RECREATED
    harness.ack(first)
    assert futures[0].done()
    assert [flight.values for flight in harness.produces()] == [[b"1"]]
    harness.ack(second)
    harness.send(b"2", b"3")
    assert [flight.values for flight in harness.produces()] == [[b"2"]]
    harness.ack(harness.produces()[0])
    assert [flight.values for flight in harness.produces()] == [[b"3"]]


def test_a_grown_topic_is_noticed() -> None:
    """A record for a partition that has just been added is delivered though the producer had not heard of it; afterwards keyless records
    use it too."""
    with BrokerStub() as stub:
        stub.create_topic("t", partitions=2)
        with quick(stub) as producer:
            assert producer.partitions_for("t") == [0, 1]
            stub.add_partitions("t", 4)
            assert producer.send("t", b"x", partition=3).result(20).partition == 3
            assert producer.partitions_for("t") == [0, 1, 2, 3]
            futures = [producer.send("t", b"x" * 10_000) for _ in range(100)]
            producer.flush(20)
            assert {future.result(0).partition for future in futures} == {0, 1, 2, 3}


WAYS: dict[str, Any] = {
    "send": lambda producer, topic: producer.send(topic, b"x", partition=9),
    "send_many": lambda producer, topic: producer.send_many(topic, [b"x"], partition=9),
    "send_many by row": lambda producer, topic: producer.send_many(topic, iter([b"x", (None, b"x", None, None, 9)])),
    "send_arrow": lambda producer, topic: producer.send_arrow(
        topic, pa.table({"value": [b"x"] * 2, "p": pa.array([0, 9], pa.int32())}), partition="p"
    ),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["plain", "asyncio", "transactional", "transactional asyncio"])
def test_a_partition_that_there_is_not(kind: str, way: str, known: bool) -> None:
    """The brokers are asked once more, and then it is refused, with how many there are, long before max_block_ms; nothing of the call was
    accepted, and the producer goes on."""
    settings = {**QUICK, "max_block_ms": 600_000}

    async def on_asyncio() -> None:
        if kind == "asyncio":
            async with AsyncProducer(bootstrap_servers=stub.bootstrap, **settings) as producer:
                if known:
                    await producer.partitions_for("t")
                with refused():
                    await WAYS[way](producer, "t")
                await (await producer.send("t", b"after"))
        else:
            async with AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="x", **settings) as owner:
                if known:
                    await owner.partitions_for("t")
                async with owner.transaction() as tx:
                    with refused():
                        await WAYS[way](tx, "t")
                    await tx.send("t", b"after")

    def refused() -> Any:
        return pytest.raises(TopicUnavailable, match="there is no partition 9: 't' has 1 partition, numbered from 0")

    with BrokerStub(default_partitions=1) as stub:
        stub.create_topic("t")
        if kind.endswith("asyncio"):
            asyncio.run(asyncio.wait_for(on_asyncio(), 60))
        elif kind == "plain":
            with quick(stub, **settings) as producer:
                if known:
                    producer.partitions_for("t")
                with refused():
                    WAYS[way](producer, "t")
                producer.send("t", b"after").result(20)
        else:
            with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="x", **settings) as owner:
                if known:
                    owner.partitions_for("t")
                with owner.transaction() as tx:
                    with refused():
                        WAYS[way](tx, "t")
                    tx.send("t", b"after")
        assert values(stub, "t") == [b"after"]


def test_a_partition_that_try_send_finds_out_about() -> None:
    """`try_send` does not wait: the partition is not known yet, then there is none, and once it has been added it is written to."""
    with BrokerStub() as stub, quick(stub) as producer:
        stub.create_topic("t", partitions=2)
        producer.partitions_for("t")
        asked = stub.faults.on(Api.METADATA).times(1).hold()
        with pytest.raises(TopicUnavailable, match="partition 3 of topic 't' is not known yet"):
            producer.try_send("t", b"x", partition=3)
        assert asked.wait(1, timeout=20)
        asked.release()
        until(lambda: "there is no partition 3: 't' has 2 partitions" in refusal_of_try(producer, partition=3), "the answer")
        stub.add_partitions("t", 4)
        until(lambda: refusal_of_try(producer, partition=3) == "", "the new partition")


def test_a_partition_is_refused_on_a_new_answer_alone() -> None:
    """A response to a request from before the caller's call may be older than the partition. The producer asks again before it refuses."""
    harness = CoreHarness(partitions=1).learn()
    harness.auto.discard(Api.METADATA)
    harness.core.metadata_updater.refresh()
    harness.advance(100)
    (older,) = harness.open
    harness.happen(TopicWanted("t", partitions=2))
    harness.reply(older, harness.metadata())
    assert [news.short for news in harness.announced[-1:]] == [False]
    harness.happen(TopicWanted("t"))  # another caller, for a partition that exists, makes no difference
    harness.advance(100)
    (newer,) = harness.open
    harness.reply(newer, harness.metadata())
    assert harness.announced[-1].short
    harness.advance(10_000)
    assert not harness.open  # no caller waits any more


def refusal_of_try(producer: Producer, topic: str = "t", *, partition: int | None = None) -> str:
    """What `try_send` says, nothing where it accepts."""
    try:
        producer.try_send(topic, b"x", partition=partition)
    except (TopicUnavailable, RecordRefused) as error:
        return str(error)
    return ""


def test_try_send_says_why_a_topic_is_not_known() -> None:
    """A program that only calls `try_send` learns what the brokers say of the topic, or why no broker answers, as with `send`."""
    with BrokerStub(auto_create_topics=False) as stub, quick(stub) as producer:
        until(lambda: "the brokers say UNKNOWN_TOPIC_OR_PARTITION: the topic does not exist" in refusal_of_try(producer), "the reason")
    with quick(stub) as producer:
        until(lambda: f"{stub.bootstrap}: " in refusal_of_try(producer), "the reason")


def test_try_send_is_told_of_a_refusal() -> None:
    """`try_send` to a topic that brokers refuse says so, with the code, as `send` does: not for ever that it is not known yet. It goes on
    asking, and accepts once the refusal is lifted."""
    with BrokerStub() as stub, quick(stub) as producer:
        refusal = stub.faults.on(Api.METADATA).where(topic="secret").before().forever().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        # The answer may be there before the first call has looked.
        with pytest.raises((TopicUnavailable, RecordRefused), match=r"not known yet; it has been asked for|no DESCRIBE"):
            producer.try_send("secret", b"x")
        until(lambda: "TOPIC_AUTHORIZATION_FAILED" in refusal_of_try(producer, "secret"), "the refusal")
        for _ in range(3):
            with pytest.raises(RecordRefused, match="TOPIC_AUTHORIZATION_FAILED") as refused:
                producer.try_send("secret", b"x")
            assert (refused.value.persisted, refused.value.code) == (Persisted.NO, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        refusal.remove()
        until(lambda: refusal_of_try(producer, "secret") == "", "the permission")


def test_a_callback_is_told_of_a_refusal() -> None:
    """Inside a delivery callback `send` does not wait for a topic, and says of one that is refused that it is."""
    told: list[str] = []

    def again(_: object) -> None:
        try:
            producer.send("secret", b"x")
        except (TopicUnavailable, RecordRefused) as error:
            told.append(type(error).__name__)

    with BrokerStub() as stub, quick(stub) as producer:
        stub.faults.on(Api.METADATA).where(topic="secret").before().forever().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        until(lambda: bool(producer.send("t", b"x", on_delivery=again).result(20).topic) and "RecordRefused" in told, "the refusal")
        assert told[0] == "TopicUnavailable"


def test_an_asyncio_try_send_is_told_of_a_refusal() -> None:
    """On a loop, `try_send` does not wait for a topic, and says of one that is refused that it is."""

    async def story() -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **QUICK) as producer:
            with pytest.raises(TopicUnavailable, match="not known yet"):
                producer.try_send("secret", b"x")
            while True:
                try:
                    producer.try_send("secret", b"x")
                except TopicUnavailable:
                    await asyncio.sleep(0.001)
                except RecordRefused:
                    return

    with BrokerStub() as stub:
        stub.faults.on(Api.METADATA).where(topic="secret").before().forever().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        asyncio.run(asyncio.wait_for(story(), 60))


def test_a_wait_of_ones_own_is_named() -> None:
    """The error of `partitions_for` names the time that was given, not a setting that was not reached."""
    late = pytest.raises(TopicUnavailable, match=r" within 0\.2 s: ")
    with BrokerStub(auto_create_topics=False) as stub, quick(stub, max_block_ms=60_000) as producer, late:
        producer.partitions_for("missing", timeout=0.2)


def test_a_wait_longer_than_max_block() -> None:
    """partitions_for with a timeout of its own goes on asking all that time, though max_block_ms is shorter."""
    with BrokerStub(auto_create_topics=False) as stub, quick(stub, max_block_ms=10) as producer, ThreadPoolExecutor() as pool:
        asked = probe(stub, Api.METADATA)
        waiting = pool.submit(producer.partitions_for, "late", 20)
        asked.wait(4, 20)
        stub.create_topic("late")
        assert waiting.result(10) == [0]


def test_a_topic_without_a_waiting_caller_is_not_asked_for() -> None:
    """A topic that never appeared is not asked for any more once the last caller has given up."""
    harness = CoreHarness()
    harness.metadata_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    harness.happen(TopicWanted("t", wait_ms=1_000.0))
    harness.advance(1_100)
    asked = len(harness.announced)
    assert asked > 2
    harness.advance(100_000)
    assert len(harness.announced) <= asked + 1


def test_metadata_is_refreshed_by_age() -> None:
    """Without any trouble at all metadata is asked for again every metadata_max_age_ms, for the topics in use and no others."""
    harness = CoreHarness(metadata_max_age_ms=1_000.0).introduce()
    before = len(harness.announced)
    harness.advance(999)
    assert len(harness.announced) == before
    harness.advance(1)
    assert len(harness.announced) == before + 1


def test_only_wanted_topics_are_asked_for() -> None:
    """Metadata requests name the producer's topics, never "all", and pass allow_auto_create_topics on."""
    with BrokerStub() as stub:
        stub.create_topic("others")
        stub.create_topic("mine")
        with quick(stub, allow_auto_create_topics=False, max_block_ms=1_000) as producer:
            producer.partitions_for("mine", timeout=20)
            with pytest.raises(TopicUnavailable):
                producer.send("new", b"x")
            requests: list[Any] = [exchange.request for exchange in stub.journal.requests(Api.METADATA)]
            assert {topic.name for request in requests for topic in request.topics} == {"mine", "new"}
            assert not any(request.allow_auto_topic_creation for request in requests)


def test_a_partition_without_leader_is_avoided_by_keyless_records() -> None:
    """A partition whose only broker is down: records that need not go there go elsewhere; those that must, wait for it and arrive."""
    with BrokerStub(brokers=2) as stub:
        stub.create_topic("t", partitions=2, replication_factor=1)
        down = stub.leader("t", 0)
        stub.stop_broker(down)
        assert stub.leader("t", 1) not in (-1, down)
        with quick(stub, **ONE_EACH) as producer:
            futures = [producer.send("t", b"x" * 4_000) for _ in range(30)]
            producer.flush(20)
            assert {future.result(0).partition for future in futures} == {1}
            waiting = producer.send("t", b"wait", partition=0)
            assert not waiting.done()
            stub.start_broker(down)
            assert waiting.result(20).offset == 0


def test_a_metadata_request_without_topics_may_die_too() -> None:
    """The only topic was refused, and the connection of a refresh without topics is lost. The producer forgets this refresh and asks for
    the next topic."""
    harness = CoreHarness()
    harness.metadata_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    harness.happen(TopicWanted("t"))
    assert harness.announced[-1].heard.change is Change.REFUSED
    harness.auto.discard(Api.METADATA)
    harness.core.metadata_updater.refresh()
    harness.advance(100)
    for node in {flight.node for flight in harness.open}:
        harness.open = [flight for flight in harness.open if flight.node != node]
        harness.happen(ConnectionLost(node, "cut"))
    harness.auto.add(Api.METADATA)
    harness.metadata_code = 0
    harness.advance(1_000)
    harness.happen(TopicWanted("t"))
    harness.advance(1_000)
    assert Change.SEEN in {news.heard.change for news in harness.announced}


def test_lost_requests_are_told_apart() -> None:
    """A connection that dies under InitProducerId and Metadata at once: both are asked again, each once."""
    harness = CoreHarness()
    harness.auto.clear()
    harness.happen(TopicWanted("t"))
    (metadata,) = harness.open
    harness.reply(metadata, harness.metadata())
    harness.send(b"x")
    harness.core.metadata_updater.refresh()
    harness.advance(20)
    asked = sorted(flight.api.name for flight in harness.open)
    assert asked == ["INIT_PRODUCER_ID", "METADATA"]
    for node in {flight.node for flight in harness.open}:
        harness.lose(node)
    harness.advance(200)
    assert sorted(flight.api.name for flight in harness.open) == asked


def asked_for_metadata(harness: CoreHarness) -> list[tuple[float, Any]]:
    """Record the time and the content of every later Metadata request."""
    asked: list[tuple[float, Any]] = []
    honest = harness.answer_to

    def noted(command: Send) -> Message:
        if command.api is Api.METADATA:
            asked.append((harness.now, command.message))
        return honest(command)

    harness.answer_to = noted  # type: ignore[method-assign]
    return asked


def test_a_leader_that_is_named_and_cannot_be_reached() -> None:
    """Metadata goes on naming a leader whose connection fails: answers without news back off as far as `retry_backoff_max_ms`, and when the
    leader moves the record arrives."""
    harness = CoreHarness(retry_backoff_ms=100.0, retry_backoff_max_ms=1_000.0).introduce()
    harness.down.add(1)
    harness.lose(1)
    harness.lose(-1)
    asked = asked_for_metadata(harness)
    (future,) = harness.send(b"x")
    harness.advance(10_000)
    times = [at for at, _ in asked]
    assert len(times) <= 16
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[-1] >= 800
    assert pauses[0] <= 250
    harness.leaders[0] = (2, 1)
    harness.advance(1_300)
    harness.ack(harness.produces(node=2)[0], offset=1)
    assert future.result(0).offset == 1


def test_a_partition_that_has_no_leader_for_long() -> None:
    """A record waits, and every response names no leader: the requests back off as far as `retry_backoff_max_ms`."""
    harness = CoreHarness(retry_backoff_ms=100.0, retry_backoff_max_ms=1_000.0).introduce()
    harness.leaders[0] = (-1, 1)
    harness.core.metadata_updater.refresh()
    harness.advance(1_100)
    asked = asked_for_metadata(harness)
    harness.send(b"x")
    harness.advance(10_000)
    assert 8 <= len(asked) <= 16


def test_questions_that_are_lost_double_their_backoff() -> None:
    """Every broker goes away without an answer: each pause is twice the one before, up to `retry_backoff_max_ms`."""
    harness = CoreHarness(retry_backoff_ms=100.0, retry_backoff_max_ms=3_000.0).introduce()
    harness.auto.discard(Api.METADATA)
    harness.core.metadata_updater.refresh()
    asked: list[float] = []
    while len(asked) < 7:
        harness.advance(1)
        for flight in harness.open:
            if flight.api is Api.METADATA:
                asked.append(harness.now)
                harness.lose(flight.node)
                break
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert pauses == pytest.approx([200, 400, 800, 1_600, 3_000, 3_000], abs=10)


def test_the_backoff_begins_anew_with_the_next_trouble() -> None:
    """Trouble that came to an end costs the next one nothing: its first questions follow one another as quickly as those of the first."""
    harness = CoreHarness(retry_backoff_ms=100.0, retry_backoff_max_ms=5_000.0).introduce()
    for _ in range(2):
        asked = asked_for_metadata(harness)
        harness.down.add(1)
        harness.lose(1)
        harness.send(b"x")
        harness.advance(20_000)
        assert asked[2][0] - asked[0][0] <= 600
        assert asked[-1][0] - asked[-2][0] >= 4_000
        harness.down.clear()
        harness.advance(20_000)
        harness.ack(harness.produces()[0])
        harness.advance(100_000)


def test_an_idle_topic_is_forgotten() -> None:
    """Nothing was sent to the topic for `metadata_max_idle_ms`: it is asked about no more. The next record has it looked up again, and the
    partition is introduced anew, as the topic may be another one by now."""
    harness = CoreHarness(metadata_max_age_ms=10_000.0, metadata_max_idle_ms=60_000.0).introduce()
    asked = asked_for_metadata(harness)
    harness.advance(60_000)
    assert [topic.name for _, message in asked for topic in message.topics] == ["t"] * 5
    asked.clear()
    harness.advance(1_000_000)
    assert len(asked) <= 1
    assert not any(message.topics for _, message in asked)
    futures = harness.send(b"0", b"1")
    assert [flight.values for flight in harness.produces()] == [[b"0"]]
    harness.ack(harness.produces()[0], offset=1)
    harness.ack(harness.produces()[0], offset=2)
    assert [future.result(0).offset for future in futures] == [1, 2]


def test_a_topic_that_is_used_is_not_forgotten() -> None:
    """A record a minute keeps the topic among those that are asked about."""
    harness = CoreHarness(metadata_max_age_ms=10_000.0, metadata_max_idle_ms=60_000.0).introduce()
    for _ in range(5):
        harness.advance(59_000)
        harness.send(b"x")
        harness.ack(harness.produces()[0])
    asked = asked_for_metadata(harness)
    harness.advance(10_000)
    assert [topic.name for _, message in asked for topic in message.topics] == ["t"]


def test_a_deleted_topic_is_left_alone() -> None:
    """An idle producer asks for a topic that was deleted as rarely as for others, and never so that brokers create it again."""
    harness = CoreHarness(metadata_max_age_ms=10_000.0).introduce()
    harness.metadata_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = asked_for_metadata(harness)
    harness.advance(100_000)
    assert 9 <= len(asked) <= 11
    assert not any(message.allow_auto_topic_creation for _, message in asked)


def test_a_deleted_topic_is_created_for_a_record() -> None:
    """There is something to send to the topic that is gone: now it may be created, and no other topic is named in the same request."""
    harness = CoreHarness().introduce()
    harness.happen(TopicWanted("other", wait_ms=0.0))
    harness.metadata_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = asked_for_metadata(harness)
    harness.send(b"x")
    harness.refuse(harness.produces()[0], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    harness.advance(1_000)
    creating = [message for _, message in asked if message.allow_auto_topic_creation]
    assert creating
    assert all([topic.name for topic in message.topics] == ["t"] for message in creating)


def test_an_idle_producer_does_not_create_a_deleted_topic_again() -> None:
    """On brokers that create topics, a deleted topic stays deleted until a caller sends to it."""
    with BrokerStub() as stub, quick(stub, metadata_max_age_ms=20) as producer:
        producer.send("t", b"x").result(20)
        stub.delete_topic("t")
        asked = probe(stub, Api.METADATA)
        asked.wait(10, 20)
        with pytest.raises(KeyError):
            stub.end_offset("t", 0)
        assert producer.send("t", b"y").result(20).offset == 0


def test_a_new_topic_does_not_hide_what_is_wrong_with_another() -> None:
    """While a topic is waited for that does not appear, the others are asked about, too."""
    harness = CoreHarness(retry_backoff_ms=100.0, retry_backoff_max_ms=1_000.0).introduce()
    harness.happen(TopicWanted("absent", wait_ms=30_000.0))
    asked = asked_for_metadata(harness)
    harness.send(b"x")
    harness.leaders[0] = (2, 1)
    harness.refuse(harness.produces()[0], ErrorCode.NOT_LEADER_OR_FOLLOWER)
    harness.advance(5_000)
    assert {tuple(topic.name for topic in message.topics) for _, message in asked} == {("absent",), ("absent", "t")}
    if harness.produces(node=1):  # sent again before the news came
        harness.refuse(harness.produces(node=1)[0], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        harness.advance(200)
    harness.ack(harness.produces(node=2)[0])


def test_a_log_handler_that_sends_what_is_logged() -> None:
    """A program's log goes to a topic that is not there. Its handler waits for that, with the lock that every handler has; what the sender
    then has to log waits for the handler, and both come to an end."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with suppress(TopicUnavailable):
                producer.send("missing", b"x")

    with BrokerStub(auto_create_topics=False) as stub, quick(stub, max_block_ms=3_000) as producer:
        handler = Handler()
        logger = logging.getLogger("fencepost.producer")
        logger.addHandler(handler)
        try:
            thread = threading.Thread(target=logger.warning, args=["something"], daemon=True)
            thread.start()
            thread.join(20)
            assert not thread.is_alive()
        finally:
            logger.removeHandler(handler)
        stub.create_topic("t")
        assert producer.send("t", b"x").result(20).offset == 0


def wake_ups(harness: CoreHarness, ms: float) -> int:
    """How often the core asks to be woken in that time, by a clock of which every look takes a tenth of a millisecond."""
    until, count = harness.now + ms, 0
    while (wake := harness.core.next_wake_ms(harness.now)) <= until:
        harness.now, count = max(wake, harness.now + 0.1), count + 1
        harness.happen(Ticked())
    harness.now = until
    return count


def test_a_topic_that_is_wanted_while_another_one_is_asked_about() -> None:
    """Each topic is asked for alone. The producer waits asleep for the request that is due after them: a sender that looks again and again
    for its backoff's end has a processor for itself, and the interpreter's lock, when a program begins."""
    harness = CoreHarness(retry_backoff_ms=100.0, retry_backoff_max_ms=1_000.0)
    harness.auto = {Api.INIT_PRODUCER_ID}
    for topic in ("a", "b"):
        harness.happen(TopicWanted(topic))
    for topic in ("a", "b"):
        (asked,) = [flight for flight in harness.open if flight.api is Api.METADATA]
        assert [each.name for each in asked.message.topics] == [topic]
        answer = harness.metadata()
        harness.reply(asked, replace(answer, topics=[replace(answer.topics[0], name=topic)]))
        harness.core.metadata_updater.refresh()
        assert wake_ups(harness, 75.0) <= 2
    assert wake_ups(harness, 50.0) <= 2
    (asked,) = [flight for flight in harness.open if flight.api is Api.METADATA]
    assert [each.name for each in asked.message.topics] == ["a", "b"]


def test_old_metadata_is_asked_for_once_a_broker_is_not_throttled() -> None:
    """Every broker is throttled when metadata_max_age_ms has passed: the producer sleeps until one may be asked, and asks it then."""
    harness = CoreHarness(nodes=1, metadata_max_age_ms=5_000.0).introduce()
    harness.lose(-1)
    harness.send(b"x")
    (flight,) = harness.produces()
    harness.reply(flight, replace(harness.acknowledgement(flight), throttle_time_ms=30_000))
    harness.auto = set()
    assert wake_ups(harness, 29_000.0) <= 5
    harness.advance(2_000)
    assert [flight.api for flight in harness.open] == [Api.METADATA]


def answers_by_name(harness: CoreHarness, codes: dict[str, ErrorCode]) -> list[tuple[float, tuple[str, ...]]]:
    """Every topic that is asked for has one partition, but for those of `codes`. Returns when which topics are asked about."""
    asked: list[tuple[float, tuple[str, ...]]] = []
    honest = harness.answer_to

    def answer_to(command: Send) -> Message:
        if command.api is not Api.METADATA:
            return honest(command)
        message: Any = command.message
        names = tuple(topic.name for topic in message.topics)
        asked.append((harness.now, names))
        answer = harness.metadata()
        found = [replace(answer.topics[0], name=name, error_code=codes.get(name, ErrorCode.NONE)) for name in names]
        return replace(answer, topics=[replace(each, partitions=[]) if each.error_code else each for each in found])

    harness.answer_to = answer_to  # type: ignore[method-assign]
    return asked


@pytest.mark.parametrize("create", [True, False])
def test_one_topic_after_the_other_costs_no_pause(create: bool) -> None:
    """After a complete response the next topic is asked for at once and alone, as in Java's producer, whether it may be created or not: a
    program that sends to a hundred topics does not wait a hundred times `retry_backoff_ms`, and names each of them once."""
    harness = CoreHarness(retry_backoff_ms=100.0, retry_backoff_max_ms=1_000.0, allow_auto_create_topics=create).introduce()
    harness.advance(200)
    asked, begin = answers_by_name(harness, {}), harness.now
    for number in range(20):
        harness.happen(TopicWanted(f"topic-{number}"))
        assert asked[-1] == (begin, (f"topic-{number}",))


@pytest.mark.parametrize("partition", [None, 0])
def test_the_first_records_of_many_topics_cost_no_pause(partition: int | None) -> None:
    """`send` to nine new topics, with or without a partition, takes less than one `retry_backoff_ms`, which is five seconds here."""
    with BrokerStub() as stub, Producer(bootstrap_servers=stub.bootstrap, retry_backoff_ms=5_000, retry_backoff_max_ms=5_000) as producer:
        for number in range(10):
            stub.create_topic(f"topic-{number}")
        producer.send("topic-0", b"x", partition=partition).result(20)
        begin = time.monotonic()
        for number in range(1, 10):
            producer.send(f"topic-{number}", b"x", partition=partition).result(20)
        assert time.monotonic() - begin < 4


@pytest.mark.parametrize("during", [False, True])
def test_a_missing_topic_delays_no_other(during: bool) -> None:
    """The backoff for a topic that does not exist has grown to a second: another topic is asked for `retry_backoff_ms` after the last
    response, also if its caller comes while a request is in flight."""
    harness = CoreHarness(retry_backoff_ms=100.0, retry_backoff_max_ms=1_000.0).introduce()
    asked = answers_by_name(harness, {"absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    harness.happen(TopicWanted("absent", wait_ms=60_000.0))
    harness.advance(10_000)
    assert asked[-1][0] - asked[-2][0] >= 800
    if during:
        harness.auto.discard(Api.METADATA)
        harness.advance(1_200)
        (flight,) = [flight for flight in harness.open if flight.api is Api.METADATA]
        harness.happen(TopicWanted("other"))
        harness.auto.add(Api.METADATA)
        harness.reply(flight, harness.answer_to(flight.command))
    else:
        count = len(asked)
        while len(asked) == count:
            harness.advance(1)
        harness.happen(TopicWanted("other"))
    begin = asked[-1][0]
    harness.advance(125)
    first = next(at for at, names in asked if "other" in names)
    assert 75 <= first - begin <= 125


@pytest.mark.parametrize("news", ["another partition is wanted", "the metadata is old"])
def test_a_missing_topic_hides_no_other(news: str) -> None:
    """A caller waits for a topic that brokers do not create. The known topics are still asked about: for a partition that was added, and
    after `metadata_max_age_ms`."""
    harness = CoreHarness(retry_backoff_ms=100.0, retry_backoff_max_ms=1_000.0, metadata_max_age_ms=20_000.0, partitions=1).introduce()
    harness.happen(TopicWanted("absent", wait_ms=100_000.0))
    harness.advance(10_000)
    asked = asked_for_metadata(harness)
    harness.leaders[1] = (1, 0)
    begin = harness.now
    if news == "another partition is wanted":
        harness.happen(TopicWanted("t", wait_ms=8_000.0, partitions=2))
    while not any(each.heard.topic == "t" and each.heard.partitions == 2 for each in harness.announced):
        harness.advance(10)
        assert harness.now < begin + 25_000
    assert harness.now - begin <= (1_300 if news == "another partition is wanted" else 12_000)
    assert len(asked) <= 30


def test_topics_that_never_were_leave_nothing_behind() -> None:
    """Names may come from data: what the producer knew about a thousand topics that never appeared is gone when their waits are over."""
    harness = CoreHarness(retry_backoff_ms=100.0, retry_backoff_max_ms=1_000.0).introduce()
    for number in range(1_000):
        harness.happen(TopicWanted(f"absent-{number}", wait_ms=500.0))
    harness.advance(5_000)
    updater = harness.core.metadata_updater
    assert set(updater._used_ms) | updater._topics | set(updater._wanted) == {"t"}


def test_a_topic_that_is_refused_again_and_again_is_no_storm() -> None:
    """A caller that never stops to try a forbidden topic has it asked for once in `retry_backoff_ms`."""
    harness = CoreHarness(retry_backoff_ms=100.0, retry_backoff_max_ms=1_000.0).introduce()
    asked, begin = answers_by_name(harness, {"forbidden": ErrorCode.TOPIC_AUTHORIZATION_FAILED}), harness.now
    while harness.now < begin + 2_000:
        harness.happen(TopicWanted("forbidden"))
        harness.advance(1)
    assert 10 <= len(asked) <= 26
