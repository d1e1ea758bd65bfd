"""The sockets, the thread and the command: quick to start, complete when closed, and with limits while they run."""

from __future__ import annotations

import logging
import os
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import NoReturn

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import ROUTES
from fencepost.broker_stub.socket_server.client_connection import ClientConnection
from fencepost.producer import Producer, wire
from fencepost.producer.wire import Api, ListOffsetsResponse
from fencepost.producer.wire.records import Record
from fencepost.txn import TransactionalProducer
from tests.broker_stub.stub_calls import Talker, batch, fetch_request, metadata_request, numbered, only, produce_request, refused
from tests.conformance.raw import Silent
from tests.machine import slowness
from tests.waiting import until

START_S = 0.005


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=3) as running:
        yield running


def sockets() -> set[str]:
    """Every socket, pipe and selector this process has open."""
    connections = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing's own descriptor is gone again
            connections.add(f"{descriptor} {os.readlink(f'/proc/self/fd/{descriptor}')}")
    return connections


@pytest.mark.alone
def test_three_brokers_start_in_under_five_milliseconds() -> None:
    """Once imported, a stub is up in less than 5 ms, and clients may connect at once. On a busy machine not every start is a quick one, and
    a slow machine has more time."""
    took = []
    for _ in range(15):
        began = time.perf_counter()
        with BrokerStub(brokers=3) as stub:
            took.append(time.perf_counter() - began)
            for address in stub.addresses.values():
                socket.create_connection(address, timeout=5).close()
    assert statistics.quantiles(took, n=4)[0] < START_S * slowness(), took


def test_close_leaves_nothing_behind() -> None:
    """After close the thread is gone, every port refuses, every client sees the end, and no file descriptor is left open."""
    threads, before = threading.active_count(), sockets()
    stub = BrokerStub(brokers=3).start()
    with Talker(stub) as talker:
        stub.create_topic("t")
        talker.send(fetch_request("t", wait_ms=60_000), 12)
        until(lambda: stub.stats()["open"] == 1, "its connection")
        held = stub.faults.on(wire.Api.METADATA).hold()
        with Talker(stub, 2) as other:
            other.send(metadata_request("t"), 12)
            held.wait(1, 20)
            stub.close()
            stub.close()
            assert talker.is_closed()
            assert other.is_closed()
    held.release()
    assert all(refused(address) for address in stub.addresses.values())
    assert threading.active_count() == threads
    assert sockets() <= before


def test_what_was_written_can_be_looked_at_after_close() -> None:
    """Records, offsets and counters outlive the sockets."""
    with BrokerStub() as stub:
        stub.create_topic("t")
        with Talker(stub) as talker:
            talker.produce("t", batch(b"a", b"b"))
    assert [record.value for record in stub.records("t", 0)] == [b"a", b"b"]
    assert stub.end_offset("t", 0) == 2
    assert stub.stats()["appended"] == 1


def test_records_are_what_a_consumer_may_read() -> None:
    """By default `records` returns no aborted record, no record of an open transaction, and none after it. An argument asks for all.
    confluent-kafka's consumer reads the same with either isolation level."""
    with BrokerStub(brokers=3, config={"transaction.max.timeout.ms": 600_000}) as stub:
        stub.create_topic("t", replication_factor=3)
        ours: list[TransactionalProducer] = []
        with ExitStack() as stack:
            for name in ("a", "b"):
                ours.append(stack.enter_context(TransactionalProducer(transactional_id=name, bootstrap_servers=stub.bootstrap)))
            committing, aborting = ours
            with committing.transaction() as good:
                good.send("t", b"committed")
                with pytest.raises(Abort), aborting.transaction() as bad:
                    bad.send("t", b"aborted").result(20)
                    good.send("t", b"committed, too").result(20)
                    raise Abort
            with pytest.raises(Abort), aborting.transaction() as open_one:
                open_one.send("t", b"open").result(20)
                with Producer(bootstrap_servers=stub.bootstrap) as producer:
                    producer.send("t", b"after it").result(20)
                assert values(stub.records("t", 0)) == read(stub, "read_committed") == [b"committed", b"committed, too"]
                everything = [b"committed", b"aborted", b"committed, too", b"open", b"after it"]
                assert set(values(stub.records("t", 0, isolation="read_uncommitted"))) == set(everything)
                assert values(stub.records("t", 0, isolation="read_uncommitted")) == read(stub, "read_uncommitted")
                raise Abort
        assert values(stub.records("t", 0)) == read(stub, "read_committed") == [b"committed", b"committed, too", b"after it"]
        with pytest.raises(ValueError, match=r"isolation='all': give one of read_committed, read_uncommitted"):
            stub.records("t", 0, isolation="all")  # type: ignore[arg-type]  # no such level


class Abort(Exception):
    """Ends a block and its transaction."""


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def read(stub: BrokerStub, isolation: str) -> list[bytes | None]:
    """What confluent-kafka's consumer reads from beginning to end."""
    told = {"bootstrap.servers": stub.bootstrap, "group.id": "g", "isolation.level": isolation, "enable.partition.eof": True}
    consumer = Consumer({**told, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        found: list[bytes | None] = []
        while True:
            message = consumer.poll(20)
            assert message is not None
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return found
            assert error is None, error
            found.append(message.value())
    finally:
        consumer.close()


def test_topics_can_be_made_before_the_start() -> None:
    """A stub that has not started takes topics and faults already; it starts once."""
    stub = BrokerStub()
    stub.create_topic("t", partitions=2)
    with stub, Talker(stub) as talker:
        assert len(talker.metadata("t").topics[0].partitions) == 2
        with pytest.raises(RuntimeError, match="starts only once"):
            stub.start()
    with pytest.raises(RuntimeError, match="starts only once"):
        stub.start()


def test_ports_follow_the_first_and_a_taken_one_is_refused() -> None:
    """port=n gives n, n+1, n+2; if one of them is taken, nothing starts and nothing stays bound."""
    with BrokerStub(brokers=1) as probe:
        ((_, taken),) = probe.addresses.values()
        before = sockets()
        with pytest.raises(OSError, match="in use"):
            BrokerStub(brokers=2, port=taken - 1 if refused(("127.0.0.1", taken - 1)) else taken).start()
        assert sockets() <= before
    with BrokerStub(brokers=1, port=taken) as again:
        assert again.bootstrap == f"127.0.0.1:{taken}"


def test_a_stopped_broker_refuses_and_comes_back_on_its_port(stub: BrokerStub) -> None:
    """While a broker is down its port refuses connections, and no other process can take it. Its connections end, those of other brokers
    stay."""
    stub.create_topic("t", replication_factor=3)
    leader = stub.leader("t", 0)
    address = stub.addresses[leader]
    with Talker(stub, leader) as talker, Talker(stub, leader % 3 + 1) as other:
        talker.metadata("t")
        for _ in range(3):
            stub.stop_broker(leader)
            stub.stop_broker(leader)  # the second call does nothing
            assert talker.is_closed()
            assert refused(address)
            with closing(socket.socket()) as thief, pytest.raises(OSError, match="in use"):
                thief.bind(address)
            known = other.metadata("t")
            assert leader not in [broker.node_id for broker in known.brokers]
            assert known.topics[0].partitions[0].leader_id != leader
            stub.start_broker(leader)
            stub.start_broker(leader)
            with Talker(stub, leader) as back:
                assert len(back.metadata("t").brokers) == 3
    assert stub.addresses[leader] == address
    assert stub.stats()["restarts"] == 3


def test_cut_connections_ends_every_connection(stub: BrokerStub) -> None:
    """All connections of one broker, or of all, and how many there were; new ones are welcome."""
    connections = [Talker(stub, node) for node in (1, 1, 2, 3)]
    for connection in connections:
        connection.metadata()
    assert stub.cut_connections(1) == 2
    assert [connection.is_closed(0.05) for connection in connections] == [True, True, False, False]
    assert stub.cut_connections() == 2
    assert all(connection.is_closed() for connection in connections)
    assert stub.cut_connections() == 0
    assert stub.stats()["connections_cut"] == 4
    for connection in connections:
        connection.close()
    with Talker(stub, 1) as talker:
        assert talker.metadata()


def test_names_that_do_not_exist_are_refused_at_once(stub: BrokerStub) -> None:
    """A wrong node, topic or partition is a KeyError that says what there is; an impossible topic says what a client would hear."""
    for wrong in (
        lambda: stub.stop_broker(4),
        lambda: stub.cut_connections(0),
        lambda: stub.records("t", 0),
        lambda: stub.move_leader("t", 0),
        lambda: stub.delete_topic("t"),
    ):
        with pytest.raises(KeyError, match="there is no"):
            wrong()
    stub.create_topic("t")
    with pytest.raises(KeyError, match="no partition 1"):
        stub.end_offset("t", 1)
    for name, replicas, config, code in (
        ("t", 1, {}, "TOPIC_ALREADY_EXISTS"),
        ("a b", 1, {}, "INVALID_TOPIC_EXCEPTION"),
        ("u", 4, {}, "INVALID_REPLICATION_FACTOR"),
        ("u", 1, {"no.such": "1"}, "INVALID_CONFIG"),
    ):
        with pytest.raises(ValueError, match=code):
            stub.create_topic(name, replication_factor=replicas, config=config)


def test_every_thread_may_call(stub: BrokerStub) -> None:
    """Many threads make topics, move leaders, cut connections and read at once; every call comes back."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for round_ in range(10):
                name = f"t{number}-{round_}"
                stub.create_topic(name, replication_factor=3)
                with Talker(stub, stub.leader(name, 0)) as talker:
                    assert talker.produce(name, batch()).base_offset == 0
                stub.move_leader(name, 0)
                assert len(stub.records(name, 0)) == 1
        except BaseException as error:  # noqa: BLE001  # shown by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert stub.stats()["appended"] == 60


def test_a_client_that_does_not_read_is_not_served_without_end(stub: BrokerStub) -> None:
    """The bytes of unread responses are limited: the server stops processing that connection, and goes on when the client reads."""
    stub.create_topic("t", replication_factor=1)
    leader = stub.leader("t", 0)
    with Talker(stub, leader) as talker:
        talker.produce("t", batch(b"x" * 1_000_000))
        before = stub.stats()["requests"]
        for _ in range(200):
            talker.send(fetch_request("t"), 12)
        done = until(lambda: stub.stats()["requests"] - before, "some requests", good=lambda count: count > 2)
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < 0.1:  # it has come to rest when nothing is processed for a while
            now = stub.stats()["requests"] - before
            if now != done:
                done, quiet_since = now, time.monotonic()
        assert done < 60
        for _ in range(200):
            assert len(only(talker.receive(fetch_request("t"), 12)).records) > 1_000_000
        assert stub.stats()["requests"] - before == 200


def test_a_client_that_only_sends_is_stopped(stub: BrokerStub) -> None:
    """Behind a request that waits so many are kept, and no more is read: the client's own socket fills, the broker's memory does not."""
    stub.create_topic("t")
    waiting, behind = (
        b"".join(wire.encode_request(request, 12, correlation_id=0, client_id="x" * 16_000))
        for request in (fetch_request("t", wait_ms=60_000), metadata_request("t"))
    )
    with closing(socket.create_connection(stub.addresses[stub.leader("t", 0)], timeout=1)) as client:
        client.sendall(waiting)
        with pytest.raises(TimeoutError):
            client.sendall(behind * 64 * 64)  # 64 MiB
        (connection,) = [connection for broker in stub.cluster.brokers.values() for connection in broker.connections]
        assert isinstance(connection, ClientConnection)
        assert connection._queued_bytes < 8 * 1024 * 1024


def test_many_requests_in_one_piece_are_all_answered_in_order(stub: BrokerStub) -> None:
    """A pipeline longer than the server's queue is read in turns and answered completely."""
    count = 1000
    with Talker(stub) as talker:
        frames = b"".join(
            b"".join(wire.encode_request(metadata_request(), 12, correlation_id=number, client_id="c")) for number in range(count)
        )
        talker.send_bytes(frames)
        for number in range(count):
            talker.receive(metadata_request(), 12, correlation_id=number)


def test_garbage_ends_its_own_connection_only(stub: BrokerStub) -> None:
    """A frame above 100 MiB, a negative length, bytes that are no request: the connection is closed without a response, and other
    connections are not affected."""
    with Talker(stub) as good:
        for bad in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x04junk", b"\x00\x00\x00\x0e" + b"\x00\x63" + b"\x00" * 12):
            with Talker(stub) as talker:
                talker.send_bytes(bad)
                assert talker.is_closed()
        assert good.metadata()
        # What came whole before the bad frame is still answered.
        with Talker(stub) as talker:
            request = b"".join(wire.encode_request(metadata_request(), 12, correlation_id=1, client_id="c"))
            talker.send_bytes(request + b"\xff\xff\xff\xff")
            talker.receive(metadata_request(), 12, correlation_id=1)
            assert talker.is_closed()


def fails() -> NoReturn:
    raise ZeroDivisionError("as a mistake of the stub would")


def test_a_failing_timer_ends_no_connection(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A timer may concern any connection. When it fails, the error is logged, the other timers that are due run, and the connection whose
    bytes woke the server is served as before."""
    route, done = ROUTES[Api.LIST_OFFSETS], list[str]()

    def sets_timers(call: Call, request: wire.Message) -> wire.Message:
        call.cluster.soon(fails)
        call.cluster.soon(lambda: done.append("the next"))
        return ListOffsetsResponse()

    monkeypatch.setitem(ROUTES, Api.LIST_OFFSETS, route._replace(handler=sets_timers))
    with Talker(stub) as talker, caplog.at_level(logging.ERROR):
        talker.ask(wire.ListOffsetsRequest(topics=[]), 7)
        assert talker.metadata()
    assert done == ["the next"]
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]


@pytest.mark.parametrize("where", ["handler", "answer"])
def test_a_failing_request_ends_its_own_connection_only(where: str, stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failing request may begin because of another client: a request that waits in its connection begins when the response before it
    goes out. Only its own connection ends."""
    stub.create_topic("t")
    route = ROUTES[Api.LIST_OFFSETS]
    broken = ListOffsetsResponse(throttle_time_ms=1 << 40)  # fits no frame
    monkeypatch.setitem(ROUTES, Api.LIST_OFFSETS, route._replace(handler=lambda call, request: fails() if where == "handler" else broken))
    node = stub.leader("t", 0)
    with Talker(stub, node) as odd, Talker(stub, node) as good:
        odd.send(fetch_request("t", wait_ms=20_000), 12)
        odd.send(wire.ListOffsetsRequest(topics=[]), 7)
        until(lambda: stub.stats()["requests"], "the fetch waits", good=lambda count: count >= 1)
        assert good.produce("t", batch(b"x")).error_code == 0
        odd.receive(fetch_request("t"), 12)
        assert odd.is_closed()
        assert good.produce("t", batch(b"y")).error_code == 0


def test_a_client_that_leaves_is_not_waited_for(stub: BrokerStub) -> None:
    """Its parked fetch is taken out of the partition at once, and its deadline with it."""
    stub.create_topic("t", replication_factor=1)
    partition = stub.cluster.find("t", 0)
    assert partition is not None
    with Talker(stub, stub.leader("t", 0)) as talker:
        talker.send(fetch_request("t", wait_ms=3_600_000), 12)
        until(lambda: partition.leading.watchers, "the fetch waits")
    until(lambda: not partition.leading.watchers, "it waits no more")
    assert stub.cluster.next_deadline() is None


def test_responses_to_a_client_that_reset_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    """The loop has not seen the reset when a waiting response and those behind it are written. They are dropped in silence: asyncio would
    log each one after the fifth."""
    clock = VirtualClock()
    with BrokerStub(clock=clock) as stub:
        stub.create_topic("t")
        partition = stub.cluster.find("t", 0)
        assert partition is not None
        talker = Talker(stub)
        talker.send(fetch_request("t", wait_ms=1_000), 12)
        for _ in range(10):
            talker.send(metadata_request("t"), 12)
        until(lambda: partition.leading.watchers, "the fetch waits")

        def reset_and_answer() -> None:
            talker.reset()
            clock.advance(1_000)
            stub.cluster.tick()

        before = stub.stats()["requests"]
        stub._call(reset_and_answer)
        until(lambda: not stub.stats()["open"], "the connection has ended")
        assert stub.stats()["requests"] > before
    assert caplog.records == []


def test_bytes_after_a_request_are_passed_over(stub: BrokerStub) -> None:
    """Kafka takes a body that is longer than its message, and librdkafka relies on that; one that is too short is none."""
    frame = b"".join(wire.encode_request(metadata_request("t"), 12, correlation_id=1, client_id="c"))[4:]
    with Talker(stub) as talker:
        talker.send_frame(frame + b"and more")
        answered, _ = wire.decode_response(talker.receive_frame(), wire.Api.METADATA, 12)
        assert answered == 1
        talker.send_frame(frame[:-1])
        assert talker.is_closed()


def test_a_virtual_clock_moves_the_server_too() -> None:
    """A waiting fetch waits for the clock's own time, however long that takes, and is answered as soon as it is advanced."""
    clock = VirtualClock()
    with BrokerStub(clock=clock) as stub:
        stub.create_topic("t")
        with Talker(stub, timeout=0.1) as talker:
            talker.send(fetch_request("t", wait_ms=3_600_000), 12)
            until(lambda: stub.stats()["requests"], "the fetch")
            clock.advance(3_599_999)
            with pytest.raises(Silent):
                talker.receive(fetch_request("t"), 12)
            talker.timeout = 5
            clock.advance(1)
            assert only(talker.receive(fetch_request("t"), 12)).error_code == 0


def test_leader_moves_and_restarts_over_sockets(stub: BrokerStub) -> None:
    """A batch sent again is recognised by the next leader; after a restart of a topic's only broker just the newest is."""
    stub.create_topic("moved", replication_factor=3)
    stub.create_topic("alone", replication_factor=1)
    with Talker(stub, stub.leader("moved", 0)) as old:
        pid = old.producer_id()
        for sequence in range(3):
            old.produce("moved", numbered(pid, sequence))
        new = stub.move_leader("moved", 0)
        assert old.produce("moved", numbered(pid, 3)).error_code == wire.ErrorCode.NOT_LEADER_OR_FOLLOWER
    with Talker(stub, new) as talker:
        assert talker.produce("moved", numbered(pid, 0)).base_offset == 0
    with Talker(stub, stub.leader("alone", 0)) as talker:
        for sequence in range(3):
            talker.produce("alone", numbered(pid, sequence))
    stub.restart_broker(stub.leader("alone", 0), clean=False)
    with Talker(stub, stub.leader("alone", 0)) as talker:
        assert talker.produce("alone", numbered(pid, 1)).error_code == wire.ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert talker.produce("alone", numbered(pid, 2)).base_offset == 2
    assert stub.stats()["duplicates"] == 2


def test_an_unanswered_produce_closes_only_on_errors(stub: BrokerStub) -> None:
    """acks=0: silence when all is well, the end of the connection when anything is not."""
    stub.create_topic("t", replication_factor=1)
    with Talker(stub, stub.leader("t", 0)) as talker:
        talker.send(produce_request("t", batch(), acks=0), 12)
        assert talker.metadata("t")
        talker.send(produce_request("nowhere", batch(), acks=0), 12)
        assert talker.is_closed()
    assert stub.end_offset("t", 0) == 1
