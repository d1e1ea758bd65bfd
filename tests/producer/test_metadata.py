"""Topics that are unknown, refused, late, deleted, recreated and grown, and when brokers are asked about them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from broker_stub import BrokerStub
from producer import DeliveryTimeout, Persisted, Producer, RecordRefused, TopicUnavailable
from producer.core.cluster import Change
from producer.core.events import LinkLost, TopicWanted
from producer.wire import Api, ErrorCode
from tests.producer.desk import Desk
from tests.producer.stage import ONE_EACH, QUICK, probe, quick, until, values

SHORT = {"request_timeout_ms": 500, "delivery_timeout_ms": 1_500, "resolve_grace_ms": 100}


def test_an_unknown_topic_times_out_with_the_reason() -> None:
    """send to a topic that does not exist waits max_block_ms and then names the topic, the time and what the brokers say."""
    with BrokerStub(auto_create_topics=False) as stub, quick(stub, max_block_ms=1_000) as producer:
        with pytest.raises(TopicUnavailable) as late:
            producer.send("missing", b"x")
        for word in ("'missing'", "max_block_ms=1000", "UNKNOWN_TOPIC_OR_PARTITION"):
            assert word in str(late.value)
        assert isinstance(late.value, TimeoutError)


def test_nobody_to_ask_is_another_reason() -> None:
    """With no broker reachable the message names the time and what happened at the address, not that the topic does not exist."""
    with BrokerStub() as stub:
        bootstrap = stub.bootstrap
        stub.stop_broker(1)
        words = rf"max_block_ms=500: {bootstrap}"
        with (
            Producer(bootstrap_servers=bootstrap, **{**QUICK, "max_block_ms": 500}) as producer,
            pytest.raises(TopicUnavailable, match=words),
        ):
            producer.send("t", b"x")


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
    with BrokerStub(auto_create_topics=False) as stub:
        stub.create_topic("t")
        with quick(stub, **SHORT) as producer:
            producer.send("t", b"x").result(20)
            stub.delete_topic("t")
            failure = producer.send("t", b"y").exception(20)
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

    desk = Desk().introduce()
    desk.topic_id = UUID(int=8)
    desk.advance(desk.settings.metadata_max_age_ms)
    assert desk.announced[-1].heard.change is Change.RECREATED
    desk.send(b"0", b"1", b"2")
    assert [flight.values for flight in desk.produces()] == [[b"0"]]
    desk.ack(desk.produces()[0])
    assert [flight.values for flight in desk.produces()] == [[b"1"], [b"2"]]


def test_what_the_old_topic_acknowledged_is_acknowledged() -> None:
    """News of the new topic may overtake an answer about the old one, which calls it by the old id: the answer counts all the same, and
    nothing is sent again; the new topic's leader still has to be introduced."""
    from uuid import UUID

    desk = Desk(metadata_max_age_ms=1_000.0).introduce()
    futures = desk.send(b"0", b"1")
    first, second = desk.produces()
    desk.topic_id = UUID(int=8)
    desk.advance(desk.settings.metadata_max_age_ms)
    assert desk.announced[-1].heard.change is Change.RECREATED
    desk.ack(first)
    assert futures[0].done()
    assert [flight.values for flight in desk.produces()] == [[b"1"]]
    desk.ack(second)
    desk.send(b"2", b"3")
    assert [flight.values for flight in desk.produces()] == [[b"2"]]
    desk.ack(desk.produces()[0])
    assert [flight.values for flight in desk.produces()] == [[b"3"]]


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


def test_a_partition_that_appears_while_waiting() -> None:
    """send to a partition that is added a while later, after brokers said that there are fewer, is delivered soon after."""
    with BrokerStub() as stub:
        stub.create_topic("t", partitions=2)
        with quick(stub) as producer, ThreadPoolExecutor() as pool:
            producer.partitions_for("t")
            asked = probe(stub, Api.METADATA)
            sending = pool.submit(lambda: producer.send("t", b"x", partition=3).result(20).partition)
            asked.wait(2, 20)
            assert not sending.done()
            stub.add_partitions("t", 4)
            assert sending.result(10) == 3


def test_a_wait_longer_than_max_block() -> None:
    """partitions_for with a timeout of its own goes on asking all that time, though max_block_ms is shorter."""
    with BrokerStub(auto_create_topics=False) as stub, quick(stub, max_block_ms=10) as producer, ThreadPoolExecutor() as pool:
        asked = probe(stub, Api.METADATA)
        waiting = pool.submit(producer.partitions_for, "late", 20)
        asked.wait(4, 20)
        stub.create_topic("late")
        assert waiting.result(10) == [0]


def test_nobody_asks_for_a_topic_that_nobody_waits_for() -> None:
    """A topic that never appeared is not asked for any more once the last caller has given up."""
    desk = Desk()
    desk.metadata_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    desk.happen(TopicWanted("t", wait_ms=1_000.0))
    desk.advance(1_100)
    asked = len(desk.announced)
    assert asked > 2
    desk.advance(100_000)
    assert len(desk.announced) <= asked + 1


def test_metadata_is_refreshed_by_age() -> None:
    """Without any trouble at all metadata is asked for again every metadata_max_age_ms, for the topics in use and no others."""
    desk = Desk(metadata_max_age_ms=1_000.0).introduce()
    before = len(desk.announced)
    desk.advance(999)
    assert len(desk.announced) == before
    desk.advance(1)
    assert len(desk.announced) == before + 1


def test_only_wanted_topics_are_asked_for() -> None:
    """Metadata requests name the producer's topics, never "all", and pass allow_auto_create_topics on."""
    with BrokerStub() as stub:
        stub.create_topic("others")
        stub.create_topic("mine")
        with quick(stub, allow_auto_create_topics=False, max_block_ms=50) as producer:
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
    """A refresh when no topic is wanted any more (the only one was refused) whose link dies is forgotten: the next topic is asked for."""
    desk = Desk()
    desk.metadata_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    desk.happen(TopicWanted("t"))
    assert desk.announced[-1].heard.change is Change.REFUSED
    desk.auto.discard(Api.METADATA)
    desk.core.scout.refresh()
    desk.advance(100)
    for node in {flight.node for flight in desk.open}:
        desk.open = [flight for flight in desk.open if flight.node != node]
        desk.happen(LinkLost(node, "cut"))
    desk.auto.add(Api.METADATA)
    desk.metadata_code = 0
    desk.advance(1_000)
    desk.happen(TopicWanted("t"))
    desk.advance(1_000)
    assert Change.SEEN in {news.heard.change for news in desk.announced}


def test_lost_requests_are_told_apart() -> None:
    """A link that dies under InitProducerId and Metadata at once: both are asked again, each once."""
    desk = Desk()
    desk.auto.clear()
    desk.happen(TopicWanted("t"))
    (metadata,) = desk.open
    desk.reply(metadata, desk.metadata())
    desk.send(b"x")
    desk.core.scout.refresh()
    desk.advance(20)
    asked = sorted(flight.api.name for flight in desk.open)
    assert asked == ["INIT_PRODUCER_ID", "METADATA"]
    for node in {flight.node for flight in desk.open}:
        desk.lose(node)
    desk.advance(200)
    assert sorted(flight.api.name for flight in desk.open) == asked
