"""Connections to brokers: the producer tries every address and agrees on versions. It replaces a connection that is lost, idle or sends
invalid bytes."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import NoUsableBroker, Producer, TopicUnavailable
from fencepost.producer.network.connection import STRANGERS_BYTES_MAX, Connection
from fencepost.producer.network.response_limits import answer_bytes_max
from fencepost.producer.wire import (
    Api,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ErrorCode,
    FetchRequest,
    Message,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    ProduceRequest,
    RequestHeader,
    encode,
)
from fencepost.producer.wire.messages.api_versions import ApiVersion
from fencepost.producer.wire.messages.metadata import MetadataRequestTopic
from fencepost.producer.wire.messages.sasl import SaslHandshakeRequest
from tests.later import Jump, jumping, limit_passes
from tests.names import names
from tests.producer.scripted_broker import FakeBroker, framed
from tests.producer.stub_helpers import QUICK, quick, until, values


def port_of(stub: BrokerStub) -> int:
    return stub.addresses[1][1]


@pytest.mark.parametrize("first", [["::1"], ["127.0.0.2"], ["127.0.0.2", "::1", "127.0.0.3"]], ids=" ".join)
def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch, first: list[str]) -> None:
    """A name with several addresses of which only the last answers: the connection is made without waiting for a retry."""
    names(monkeypatch, kafka=[*first, "127.0.0.1"])
    with (
        BrokerStub() as stub,
        Producer(bootstrap_servers=f"kafka:{port_of(stub)}", reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000) as producer,
    ):
        assert producer.send("t", b"x").result(20).offset == 0


def test_names_are_looked_up_anew_for_each_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that changed its address behind the same name is found at the next attempt."""
    addresses = ["127.0.0.2"]
    asked = names(monkeypatch, kafka=addresses)
    with BrokerStub() as stub, Producer(bootstrap_servers=f"kafka:{port_of(stub)}", **QUICK) as producer, ThreadPoolExecutor() as pool:
        waiting = pool.submit(producer.partitions_for, "t")
        until(lambda: asked, "the first look-up")
        addresses[:] = ["127.0.0.1"]
        assert waiting.result(20) == [0]


def test_a_name_that_does_not_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    """One bootstrap name that resolves to nothing does not matter while another one does."""
    asked = names(monkeypatch, nowhere=[])
    with BrokerStub() as stub, Producer(bootstrap_servers=f"nowhere:9092,{stub.bootstrap}", **QUICK) as producer:
        assert producer.send("t", b"x").result(20).offset == 0
        for _ in range(20):
            stub.cut_connections()
            assert producer.send("t", b"x").exception(20) is None
    assert set(asked) <= {"nowhere"}


@pytest.mark.parametrize(
    "nonsense",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\x00\x00\x04\x00\x00\x00\x63",
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x00",
        None,
    ],
    ids=["http", "another correlation id", "a huge frame", "a short answer", "closed"],
)
def test_a_server_that_is_no_broker(nonsense: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    """The producer closes the connection after a nonsense answer, and uses the next bootstrap address. The log shows no traceback."""
    with BrokerStub() as stub, FakeBroker(lambda header: nonsense) as fake:
        producer = Producer(bootstrap_servers=[fake.address], **QUICK)
        with producer:
            for _ in range(2):
                with pytest.raises((TimeoutError, NoUsableBroker)):
                    producer.partitions_for("t", timeout=0.1)
            until(lambda: fake.connections >= 2, "it is tried, and tried again")
        with Producer(bootstrap_servers=[fake.address, stub.bootstrap], **QUICK) as mixed:
            assert mixed.send("t", b"x").result(20).offset == 0
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []


def test_an_answer_to_another_request_is_not_taken() -> None:
    """A complete response with an unexpected correlation id ends the connection, and the reason names both ids. Taken for this request's,
    it could acknowledge records that no broker has."""

    def answer(header: RequestHeader) -> bytes:
        other = RequestHeader(header.api_key, header.api_version, header.correlation_id + 1, header.client_id)
        return framed(ApiVersionsResponse(api_keys=[ApiVersion(api_key=Api.METADATA, max_version=5)]), header.api_version, other)

    with jumping() as jump, FakeBroker(answer) as fake, Producer(bootstrap_servers=fake.address, **QUICK) as producer:
        late = asked_in_vain(jump, producer, lambda said: "correlation id" in said and "instead of" in said)
    assert isinstance(late, TopicUnavailable)


def test_an_address_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why no broker answers is said with each broker's address once; where a name has other addresses, with each of them."""
    names(monkeypatch, kafka=["127.0.0.1", "127.0.0.2"], nowhere=[])
    refused = os.strerror(errno.ECONNREFUSED)
    expected = [
        f"127.0.0.1:1: {refused}",
        f"kafka:1: 127.0.0.1: {refused}; 127.0.0.2: {refused}",
        f"nowhere:1: the name cannot be resolved: [Errno {socket.EAI_NONAME}] Name or service not known",
    ]
    with jumping() as jump, Producer(bootstrap_servers="127.0.0.1:1,kafka:1,nowhere:1", **QUICK) as producer:
        late = asked_in_vain(jump, producer, lambda said: said == "; ".join(expected))
    assert isinstance(late, TopicUnavailable)


def test_a_server_that_never_answers() -> None:
    """A peer that accepts connections and says nothing is given up after socket_connection_setup_timeout_ms."""
    with BrokerStub() as stub, FakeBroker(lambda header: b"") as mute:
        servers = [mute.address, stub.bootstrap]
        with Producer(bootstrap_servers=servers, **QUICK, socket_connection_setup_timeout_ms=200) as producer:
            for _ in range(6):
                assert producer.send("t", b"x").exception(20) is None
                stub.cut_connections()


def test_versions_are_agreed_on_with_an_older_broker() -> None:
    """KIP-511: a broker that does not know ApiVersions v4 answers in v0 with what it has, and is asked again with that."""

    def answer(header: RequestHeader) -> bytes | None:
        if header.api_key != Api.API_VERSIONS:
            return None
        keys = [ApiVersion(api_key=Api.API_VERSIONS, min_version=0, max_version=2), ApiVersion(api_key=Api.METADATA, max_version=5)]
        if header.api_version > 2:
            return framed(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys), 0, header)
        return framed(ApiVersionsResponse(api_keys=keys), header.api_version, header)

    with FakeBroker(answer) as fake, Producer(bootstrap_servers=fake.address, **QUICK) as producer:
        until(lambda: len(fake.seen) >= 3 or asked(producer), "three requests")
        seen = [(header.api_key, header.api_version) for header in fake.seen[:3]]
    assert seen == [(Api.API_VERSIONS, 4), (Api.API_VERSIONS, 2), (Api.METADATA, 5)]


def asked_in_vain(jump: Jump, producer: Producer, reason: Callable[[str], bool]) -> BaseException | None:
    """What `partitions_for` raises whose time passes when no broker answers for that reason."""
    tried = producer._sender.engine.trouble
    return limit_passes(jump, 20_000, producer, lambda: producer.partitions_for("t"), lambda: reason(tried()))


def asked(producer: Producer) -> bool:
    """Has the producer want a topic once more: a wait that ended before the handshake did would leave nothing to ask for."""
    with pytest.raises(TimeoutError):
        producer.partitions_for("t", timeout=0.1)
    return False


def test_idle_links_are_closed_and_made_again() -> None:
    """A connection that is unused for connections_max_idle_ms is closed, without an effect on any record. The next record opens a new
    one."""
    with BrokerStub() as stub, quick(stub, connections_max_idle_ms=100) as producer:
        used = []
        for i in range(3):
            assert producer.send("t", b"%d" % i).result(20).offset == i
            used.append(stub.journal.requests(Api.PRODUCE)[-1].connection_id)
            until(
                lambda: used[-1] not in {connection.id for connection in tuple(stub.cluster.brokers[1].connections)},
                "the idle connection was closed",
            )
        assert len(set(used)) == 3
        assert stub.stats()["duplicates"] == 0


def test_a_client_names_itself() -> None:
    """Brokers see the configured client id and the name and version of the software."""
    with BrokerStub() as stub, quick(stub, client_id="orders-7") as producer:
        producer.send("t", b"x").result(20)
        assert {exchange.client_id for exchange in stub.journal.requests()} == {"orders-7"}
        request: Any = stub.journal.requests(Api.API_VERSIONS)[0].request
        assert request.client_software_name == "fencepost"
        assert request.client_software_version


def test_a_throttled_producer_waits() -> None:
    """A broker that asks for a pause of 300 ms is sent nothing meanwhile, and then the record that waited, once."""
    with BrokerStub() as stub, quick(stub) as producer:
        producer.send("t", b"hello").result(20)
        throttle = stub.faults.on(Api.PRODUCE).reply().throttle(300)
        producer.send("t", b"0").result(20)
        assert producer.send("t", b"1").result(20).offset == 2
        _, throttled, after = stub.journal.requests(Api.PRODUCE)
        assert throttled.ended_ms is not None
        between = [each for each in stub.journal.requests() if throttled.number < each.number <= after.number]
        assert min(each.at_ms for each in between) - throttled.ended_ms >= 299, "it was sent into the pause"
        assert throttle.hits == 1
        assert values(stub, "t") == [b"hello", b"0", b"1"]


def test_a_broker_that_comes_back_is_found() -> None:
    """With its broker gone for several attempts a producer goes on trying, and delivers what waited when the broker is back."""
    with BrokerStub() as stub, quick(stub) as producer:
        producer.send("t", b"0").result(20)
        stub.stop_broker(1)
        future = producer.send("t", b"1")
        node = producer._sender.engine.core.nodes.get(1)
        assert node is not None
        until(lambda: node.failures >= 4, "some attempts")
        stub.start_broker(1)
        assert future.result(20).offset == 1
        assert values(stub, "t") == [b"0", b"1"]


@pytest.mark.parametrize("notices", ["the write", "the read"])
def test_writing_to_a_peer_that_is_gone(notices: str) -> None:
    """Requests written to a connection whose peer has closed it, before or after asyncio has seen that: no exception, and one on_lost."""

    async def talk() -> list[str]:
        ours, theirs = socket.socketpair()
        lost: list[str] = []
        connection = Connection("me", on_reply=lambda token, message: None, on_lost=lost.append)
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: connection, sock=ours)
        theirs.close()
        async with asyncio.timeout(20):
            while notices == "the read" and not transport.is_closing():
                await asyncio.sleep(0)
            for token in range(20):
                connection.send(token, Api.API_VERSIONS, 4, ApiVersionsRequest())
            while not lost:
                await asyncio.sleep(0)
        connection.send(99, Api.API_VERSIONS, 4, ApiVersionsRequest())
        return lost

    assert len(asyncio.run(talk())) == 1


def test_a_peer_that_ends_first_and_reads_on() -> None:
    """A peer that closes its sending side and still reads: the connection is lost once, and asyncio logs nothing."""
    lost: list[str] = []
    complaints: list[dict[str, Any]] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: complaints.append(context))
        ended = asyncio.Event()

        def end(reason: str) -> None:
            lost.append(reason)
            ended.set()

        connection = Connection("me", on_reply=lambda token, message: None, on_lost=end)
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            transport, _ = await loop.create_connection(lambda: connection, *server.getsockname())
            theirs, _ = await loop.sock_accept(server)
            request = ApiVersionsRequest(client_software_name="x" * 30_000)
            for token in range(400):
                connection.send(token, Api.API_VERSIONS, 3, request, answered=False)
            theirs.shutdown(socket.SHUT_WR)
            while not transport.is_closing():  # It hears of the end before there is room to write.
                await asyncio.sleep(0)
            while await loop.sock_recv(theirs, 1 << 20):
                pass
            await ended.wait()
            theirs.close()
            for _ in range(5):
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(story(), 20))
    assert complaints == []
    assert len(lost) == 1


def test_a_request_that_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    """Its caller gets the reason, for example that no file can be opened. asyncio logs nothing about the answer that never comes."""

    async def run() -> None:
        ours, theirs = socket.socketpair()
        connection = Connection("me", on_reply=lambda token, message: None, on_lost=lambda reason: None)
        await asyncio.get_running_loop().create_connection(lambda: connection, sock=ours)
        request = ApiVersionsRequest(client_software_name=b"no text")  # type: ignore[arg-type]  # that is the point
        with pytest.raises(AttributeError):
            await connection.ask(request, 4)
        connection.silence()
        theirs.close()
        await asyncio.sleep(0)  # asyncio closes the socket

    asyncio.run(run())
    gc.collect()
    assert caplog.messages == []


def test_a_large_answer_before_api_versions_is_not_read() -> None:
    """Before the ApiVersions response the producer closes a connection with an answer above a megabyte, and does not read it.

    A hundred megabytes of versions would take a gigabyte of memory, and would block the sender thread for seconds.
    """
    many = [ApiVersion(api_key=n % 100) for n in range(200_000)]
    with (
        jumping() as jump,
        FakeBroker(lambda header: framed(ApiVersionsResponse(api_keys=many), header.api_version, header)) as fake,
        Producer(bootstrap_servers=fake.address, **QUICK) as producer,
    ):
        late = asked_in_vain(jump, producer, lambda said: f"0 to {STRANGERS_BYTES_MAX} are allowed" in said)
    assert isinstance(late, TopicUnavailable)


OFFERED = [ApiVersion(api_key=api, max_version=high) for api, high in ((Api.METADATA, 5), (Api.PRODUCE, 3))]


def about_metadata(answer: MetadataResponse) -> Callable[[RequestHeader], bytes]:
    """A broker that answers so."""
    body = encode(answer, 5)

    def told(header: RequestHeader) -> bytes:
        if header.api_key == Api.API_VERSIONS:
            return framed(ApiVersionsResponse(api_keys=OFFERED), header.api_version, header)
        return struct.pack(">ii", 4 + len(body), header.correlation_id) + body

    return told


def test_an_answer_that_is_too_large_is_not_read() -> None:
    """The producer closes a connection with thirty megabytes of Metadata about one topic, with a reason that says so.

    To read them would block the sender thread for seconds.
    """
    partitions = [MetadataResponsePartition(partition_index=n, leader_id=1) for n in range(50_000)]
    topics = [MetadataResponseTopic(name="t", partitions=partitions)] * 20
    answer = about_metadata(MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=1)], topics=topics))
    worst_s = 0.0
    with FakeBroker(answer) as fake, Producer(bootstrap_servers=fake.address, **QUICK) as producer, ThreadPoolExecutor() as pool:
        waiting = pool.submit(producer.partitions_for, "t", timeout=2.0)
        until(lambda: producer._sender.running, "the sender thread")
        busy = time.pthread_getcpuclockid(producer._sender._thread.ident or 0)  # not what the machine gives to others
        while not waiting.done():
            begun = time.clock_gettime(busy)
            assert producer._sender.catch_up(20)
            worst_s = max(worst_s, time.clock_gettime(busy) - begun)
        assert isinstance(waiting.exception(20), TopicUnavailable)
        assert "a response to METADATA has " in str(waiting.exception())
        assert "and at most 3145728 are accepted" in str(waiting.exception())
    assert worst_s < 1.0


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        (MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 3),
        (MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 1000), 16),
        (MetadataRequest(topics=None), 100),
        (FetchRequest(), 100),
        (ProduceRequest(), 4),
        (SaslHandshakeRequest(), 1),
    ],
)
def test_how_large_an_answer_may_be(asked: Message, most: int) -> None:
    """What was asked can need so many megabytes: of Metadata the more, the more topics were asked about."""
    assert answer_bytes_max(asked) == most * 1024 * 1024


def test_a_large_answer_after_api_versions_is_read() -> None:
    """A topic of very many partitions is described in more than a megabyte."""
    partitions = [MetadataResponsePartition(partition_index=n, leader_id=1, replica_nodes=[1], isr_nodes=[1]) for n in range(40_000)]
    brokers = [MetadataResponseBroker(node_id=1, host="127.0.0.1", port=1)]
    large = MetadataResponse(brokers=brokers, topics=[MetadataResponseTopic(name="t", partitions=partitions)])
    assert len(encode(large, 5)) > STRANGERS_BYTES_MAX
    with FakeBroker(about_metadata(large)) as fake, Producer(bootstrap_servers=fake.address, **QUICK) as producer:
        assert len(producer.partitions_for("t", timeout=20)) == 40_000
