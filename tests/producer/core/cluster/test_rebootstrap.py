"""Rebootstrap: when it happens, which addresses it uses, and what becomes of records in flight (KIP-899, KIP-1102)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.broker_stub import BrokerStub, FaultProxy
from fencepost.broker_stub.cluster.release import Release
from fencepost.broker_stub.handlers import describe_cluster
from fencepost.producer import DeliveryUnknown, Persisted, Producer
from fencepost.producer.config.settings import MetadataRecovery
from fencepost.producer.core.cluster.cluster_connection_states import LinkState
from fencepost.producer.core.events import Connected, Replied, TopicWanted
from fencepost.producer.wire import Api, ErrorCode, MetadataResponse
from fencepost.producer.wire.messages.cluster import DescribeClusterResponse
from tests.names import names
from tests.producer.core.harness import PID, TOPIC, VERSIONS, CoreHarness
from tests.producer.stub_helpers import ONE_EACH, QUICK, arrivals, quick, until, values


def lonely(harness: CoreHarness) -> CoreHarness:
    """Every connection is lost, and no broker that is known by its id can be reached."""
    harness.down |= harness.nodes
    for node in [-1, *harness.nodes]:
        harness.lose(node)
    return harness


def bootstraps(harness: CoreHarness) -> int:
    """How often the bootstrap address was tried."""
    return sum(connect.node == -1 for _, connect in harness.connects)


def test_bootstrap_is_tried_when_no_known_broker_can_be_reached() -> None:
    """All known brokers are gone and others lead. The bootstrap address names them, and the batches in flight go there with their
    sequences, in order. None fails."""
    harness = CoreHarness().introduce()
    futures = harness.send(b"0", b"1", b"2")
    before = [flight.stamp for flight in harness.produces()]
    tried = bootstraps(harness)
    lonely(harness)
    harness.nodes, harness.leaders = {7, 8}, {0: (7, 5)}
    harness.advance(5_000)
    assert bootstraps(harness) > tried
    after = []
    while flights := harness.produces(7):
        after += [flight.stamp for flight in flights]
        for flight in flights:
            harness.ack(flight, offset=len(after))
    assert after == before
    assert all(future.exception(0) is None for future in futures)


def test_no_bootstrap_while_a_known_broker_answers() -> None:
    """A lost connection, or some brokers that are down, are no reason to go back."""
    harness = CoreHarness().introduce()
    tried = bootstraps(harness)
    harness.down |= {1, 2}
    for node in (-1, 1, 2):
        harness.lose(node)
    harness.send(b"x")
    harness.advance(5_000)
    assert bootstraps(harness) == tried


def test_strategy_none_stays_with_the_brokers_it_knows() -> None:
    """metadata_recovery_strategy=none: once brokers are known the bootstrap address is not tried any more, not even when a broker asks
    for it; and the old brokers are found again when they are back."""
    harness = CoreHarness(metadata_recovery_strategy=MetadataRecovery.NONE, metadata_recovery_rebootstrap_trigger_ms=1_000.0).introduce()
    tried = bootstraps(harness)
    (future,) = harness.send(b"x")
    lonely(harness)
    harness.advance(20_000)
    assert bootstraps(harness) == tried
    harness.down.clear()
    harness.advance(2_000)
    (flight,) = harness.produces()
    harness.ack(flight, offset=1)
    assert future.exception(0) is None


def test_addresses_where_nothing_answers_do_not_stand_in_the_way() -> None:
    """Each attempt at the old addresses takes as long as it may, and the next one begins soon after: the bootstrap address is tried as soon
    as each has failed once, not when all happen to rest at the same time."""
    harness = CoreHarness().introduce()
    (future,) = harness.send(b"x")
    harness.mute |= harness.nodes
    for node in [-1, *harness.nodes]:
        harness.lose(node)
    tried = bootstraps(harness)
    for _ in range(3):
        harness.advance(200)
        waiting = [node.node_id for node in harness.core.nodes if node.state is LinkState.CONNECTING]
        assert waiting, "the leader, and whoever could be asked, are being tried"
        for number in waiting:
            harness.lose(number, "no answer")
        harness.nodes, harness.leaders = {7}, {0: (7, 5)}
    harness.advance(1_000)
    assert bootstraps(harness) > tried
    (flight,) = harness.produces(7)
    harness.ack(flight, offset=1)
    assert future.exception(0) is None


def test_metadata_that_come_keep_the_links() -> None:
    """A missing topic is asked for again for longer than metadata_recovery_rebootstrap_trigger_ms. Every response is metadata, so the
    producer does not rebootstrap and closes no connection."""
    harness = CoreHarness(metadata_recovery_rebootstrap_trigger_ms=3_000.0, max_block_ms=20_000.0).introduce()
    harness.happen(TopicWanted("away"))
    harness.advance(10_000)
    assert harness.disconnects == []


def test_after_the_trigger_every_link_is_given_up() -> None:
    """Connections that neither come about nor fail do not keep the producer from going back: after
    metadata_recovery_rebootstrap_trigger_ms without metadata it gives them up and begins anew."""
    harness = CoreHarness(metadata_recovery_rebootstrap_trigger_ms=3_000.0).introduce()
    (future,) = harness.send(b"x")
    harness.mute |= harness.nodes
    for node in [-1, *harness.nodes]:
        harness.lose(node)
    tried = bootstraps(harness)
    harness.advance(2_900)
    assert bootstraps(harness) == tried
    harness.nodes, harness.leaders = {7}, {0: (7, 5)}
    harness.advance(1_500)
    assert bootstraps(harness) > tried
    assert any("metadata_recovery_rebootstrap_trigger_ms=3000" in each.reason for each in harness.disconnects)
    (flight,) = harness.produces(7)
    harness.ack(flight, offset=1)
    assert future.exception(0) is None


def test_a_producer_without_a_broker_yet_does_not_rebootstrap(caplog: pytest.LogCaptureFixture) -> None:
    """A producer that has found no broker yet has nothing to go back from: it keeps its connections, however short the trigger."""
    harness = CoreHarness(metadata_recovery_rebootstrap_trigger_ms=0.0)
    harness.mute.add(-1)
    harness.happen(TopicWanted(TOPIC))
    harness.advance(5_000)
    assert not harness.disconnects
    assert "going back" not in caplog.text
    harness.happen(Connected(-1, VERSIONS))
    assert TOPIC in harness.accumulator.topics


def refresh(harness: CoreHarness) -> Any:
    """Have metadata asked for, and hand the request to the test."""
    harness.auto.discard(Api.METADATA)
    harness.core.metadata_updater.refresh()
    harness.advance(2_000)
    (asked,) = [flight for flight in harness.open if flight.api is Api.METADATA]
    return asked


def test_a_broker_may_send_the_producer_back() -> None:
    """REBOOTSTRAP_REQUIRED as the answer to Metadata: every connection is given up, and what was on its way is sent again unchanged."""
    harness = CoreHarness().introduce()
    (future,) = harness.send(b"x")
    before = harness.produces()[0].stamp
    asked, tried = refresh(harness), bootstraps(harness)
    harness.auto.add(Api.METADATA)
    harness.reply(asked, MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
    harness.advance(2_000)
    assert bootstraps(harness) == tried + 1
    assert any("REBOOTSTRAP_REQUIRED" in each.reason for each in harness.disconnects)
    (flight,) = harness.produces()
    assert flight.stamp == before
    harness.ack(flight, offset=1)
    assert future.exception(0) is None


@pytest.mark.parametrize("odd", [{"error_code": ErrorCode.REBOOTSTRAP_REQUIRED}, {"brokers": []}])
def test_what_an_odd_answer_tells_of_leaders_is_believed(odd: dict[str, Any]) -> None:
    """REBOOTSTRAP_REQUIRED, where the producer stays with the brokers that it knows, or no brokers: the leader has moved all the same, and
    gets the next record."""
    harness = CoreHarness(metadata_recovery_strategy=MetadataRecovery.NONE).introduce()
    asked = refresh(harness)
    harness.leaders[0] = (2, 1)
    harness.reply(asked, replace(harness.metadata(), **odd))
    harness.send(b"x")
    harness.advance(1_000)
    assert [flight.values for flight in harness.produces(2)] == [[b"x"]]


def test_another_cluster_is_not_believed_from_a_broker() -> None:
    """The address of a known broker answers for another cluster. The producer writes nothing to it. The bootstrap address decides, and
    leads to the first cluster."""
    harness = CoreHarness().introduce()
    harness.send(b"x")
    before = harness.produces()[0].stamp
    asked = refresh(harness)
    wrong = replace(harness.metadata(), cluster_id="other")
    harness.auto.add(Api.METADATA)
    harness.reply(asked, wrong)
    harness.advance(2_000)
    assert any("belongs to cluster other" in each.reason for each in harness.disconnects)
    assert [flight.stamp for flight in harness.produces()] == [before]
    assert not harness.settled


def test_another_cluster_behind_the_bootstrap_address(caplog: pytest.LogCaptureFixture) -> None:
    """bootstrap_servers lead to another cluster: what may be in the first one fails with MAYBE and is not written again; what was never
    sent goes to the new one under an identity of its own, in order; and the log says so."""
    harness = CoreHarness(max_in_flight=2).introduce()
    futures = harness.send(b"0", b"1", b"2", b"3")
    assert [flight.values for flight in harness.produces()] == [[b"0"], [b"1"]]
    lonely(harness)
    harness.cluster_id, harness.nodes, harness.leaders, harness.next_pid = "other", {7}, {0: (7, 0)}, (PID + 1, 0)
    with caplog.at_level(logging.WARNING, "fencepost.producer"):
        harness.advance(5_000)
    for future in futures[:2]:
        failure = future.exception(0)
        assert isinstance(failure, DeliveryUnknown)
        assert failure.persisted is Persisted.MAYBE
        assert "another cluster" in str(failure)
    written = []
    while flights := harness.produces(7):
        written += [(flight.values, flight.stamp) for flight in flights]
        for flight in flights:
            harness.ack(flight, offset=len(written))
    assert written == [([b"2"], (PID + 1, 0, 0)), ([b"3"], (PID + 1, 0, 1))]
    assert all(future.exception(0) is None for future in futures[2:])
    assert [record for record in caplog.records if "lead to cluster other" in record.getMessage()]


def test_a_link_to_the_old_cluster_speaks_against_the_new_one() -> None:
    """While a broker of the old cluster is reachable, the producer does not believe a bootstrap address that names another cluster.

    It asks that address again when no other connection is left, and then believes it.
    """
    harness = CoreHarness().introduce()
    lonely(harness)
    harness.auto.discard(Api.METADATA)
    harness.send(b"x")
    until_asked = 0
    while not (asked := [flight for flight in harness.open if flight.api is Api.METADATA and flight.node == -1]):
        harness.advance(100)
        until_asked += 1
        assert until_asked < 100
    harness.down.clear()
    harness.advance(2_000)
    assert harness.produces(), "the old leader is back before the bootstrap address has answered"
    other = replace(harness.metadata(), cluster_id="other")
    harness.happen(Replied(-1, asked[0].command.request_id, other))
    assert not harness.settled
    assert not harness.produces(), "every connection was given up"


@pytest.mark.parametrize("way", ["unreachable", "sent back"])
def test_every_brokers_address_changes(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Behind the same bootstrap name every broker is at another address, in the middle of sending: nothing is lost, doubled or out of
    order, and no record fails. The old addresses are dead, or answer that clients must begin again."""
    addresses = ["127.0.0.2"]
    names(monkeypatch, kafka=addresses)
    with BrokerStub(brokers=3, journal=0) as stub, FaultProxy(stub.bootstrap, host="127.0.0.2", journal=0) as old:
        stub.create_topic("t", partitions=3)
        port = old.addresses[1][1]
        with (
            FaultProxy(stub.bootstrap, host="127.0.0.3", port=port, journal=0),
            Producer(bootstrap_servers=f"kafka:{port}", **{**ONE_EACH, "metadata_max_age_ms": 200}) as producer,
        ):
            first = [producer.send("t", b"%03d" % n, partition=n % 3) for n in range(30)]
            held = old.faults.on(Api.PRODUCE).after_append().forever().hold()
            futures = [producer.send("t", b"%03d" % n, partition=n % 3) for n in range(30, 60)]
            held.wait(1, 20)
            addresses[:] = ["127.0.0.3"]
            if way == "unreachable":
                old.close()
            else:
                stub.faults.on(Api.METADATA).before().times(1).error(ErrorCode.REBOOTSTRAP_REQUIRED)
            futures += [producer.send("t", b"%03d" % n, partition=n % 3) for n in range(60, 90)]
            for future in first + futures:
                assert future.exception(30) is None
        for partition in range(3):
            assert values(stub, "t", partition) == [b"%03d" % n for n in range(partition, 90, 3)]


def test_another_cluster_behind_the_bootstrap_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name leads to another cluster after the first one is gone: the record whose reply was lost fails with MAYBE and is not in the new
    cluster; later records are, under a producer id of that cluster."""
    addresses = ["127.0.0.2"]
    names(monkeypatch, kafka=addresses)
    with BrokerStub(host="127.0.0.2", cluster_id="first") as first:
        port = first.addresses[1][1]
        with (
            BrokerStub(host="127.0.0.3", port=port, cluster_id="second") as second,
            Producer(bootstrap_servers=f"kafka:{port}", **{**QUICK, "batch_size": 0}) as producer,
        ):
            producer.send("t", b"hello").result(20)
            lost = first.faults.on(Api.PRODUCE).after_append().drop()
            doubtful = producer.send("t", b"doubtful")
            lost.wait(1, 20)
            addresses[:] = ["127.0.0.3"]
            first.close()
            failure = doubtful.exception(30)
            assert isinstance(failure, DeliveryUnknown)
            assert failure.persisted is Persisted.MAYBE
            assert producer.send("t", b"later").result(30).offset == 0
            assert values(second, "t") == [b"later"]
            assert arrivals(second)[0].header.base_sequence == 0


@pytest.mark.parametrize("asks", ["DescribeCluster", "Metadata"])
def test_another_cluster_at_the_same_address(monkeypatch: pytest.MonkeyPatch, asks: str) -> None:
    """A cluster is made anew where the old one was, with a broker of the same id: what may be in the old one fails with MAYBE and is not in
    the new one, also where batches name their topics and would be taken (Kafka before 4.1), and where brokers do not know DescribeCluster
    (before 2.8)."""
    if asks == "Metadata":
        without(monkeypatch, Api.DESCRIBE_CLUSTER)
    with BrokerStub(cluster_id="first", emulate="3.9") as first:
        port = first.addresses[1][1]
        with Producer(bootstrap_servers=first.bootstrap, **{**QUICK, "batch_size": 0, "retry_backoff_ms": 1}) as producer:
            producer.send("t", b"hello").result(20)
            lost = first.faults.on(Api.PRODUCE).after_append().drop()
            doubtful = producer.send("t", b"doubtful")
            lost.wait(1, 20)
            first.close()
            second = BrokerStub(cluster_id="second", emulate="3.9", port=port)
            second.create_topic("t")  # Before it starts: the producer's first question would create it.
            with second:
                failure = doubtful.exception(30)
                assert isinstance(failure, DeliveryUnknown)
                assert failure.persisted is Persisted.MAYBE
                assert producer.send("t", b"later").result(30).offset == 0
                assert values(second, "t") == [b"later"]


def test_a_proxy_that_names_the_cluster_otherwise_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata is where the producer knows its cluster from: another name in DescribeCluster does not keep it from its brokers."""

    def alias(**said: Any) -> DescribeClusterResponse:
        return DescribeClusterResponse(**{**said, "cluster_id": "alias"})

    monkeypatch.setattr(describe_cluster, "DescribeClusterResponse", alias)
    with BrokerStub() as stub, quick(stub) as producer:
        assert producer.send("t", b"0").result(20).offset == 0
        assert stub.journal.requests(Api.DESCRIBE_CLUSTER)


def without(monkeypatch: pytest.MonkeyPatch, api: Api) -> None:
    """Brokers do not offer it."""
    offered = Release.offers
    monkeypatch.setattr(Release, "offers", lambda release, served: (each for each in offered(release, served) if each.api != api))


def test_a_single_broker_that_is_back_at_its_address() -> None:
    """A cluster of one broker that goes away and comes back is found again, by its own address or the bootstrap one."""
    with BrokerStub() as stub, quick(stub) as producer:
        producer.send("t", b"0").result(20)
        for n in range(1, 4):
            stub.stop_broker(1)
            future = producer.send("t", b"%d" % n)
            until(lambda: "refused" in producer._sender.engine.trouble().lower(), "a connection has been refused")
            stub.start_broker(1)
            assert future.result(20).offset == n
