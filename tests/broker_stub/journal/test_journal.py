"""The journal: what it keeps, what it drops, and that it is light."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.journal.exchange import Exchange
from fencepost.broker_stub.journal.journal import EXCHANGE_BYTES, Journal
from fencepost.broker_stub.journal.memory import RECORDS_BYTES_MAX, footprint
from fencepost.producer import wire
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages.add_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from fencepost.producer.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from fencepost.producer.wire.messages.metadata import MetadataRequestTopic
from fencepost.producer.wire.messages.topic_admin import DeleteTopicsRequest
from fencepost.producer.wire.records import BATCH_OVERHEAD, read_header, read_records
from tests.broker_stub.stub_calls import Inside, Talker, batch, fetch_request, metadata_request, numbered, only, produce_request
from tests.bytes_held import bytes_held
from tests.drawn import drawn


def test_an_exchange_is_kept_with_its_answer() -> None:
    """The journal has the client, request, version and connection of an exchange, and its response."""
    with BrokerStub(brokers=2) as stub:
        stub.create_topic("t", replication_factor=1)
        leader = stub.leader("t", 0)
        with Talker(stub, leader, client_id="me") as talker:
            talker.metadata("t")
            talker.produce("t", numbered(7, 0, 3))
        with Talker(stub, 3 - leader) as other:
            other.metadata("t")
        (produced,) = stub.journal.requests(Api.PRODUCE)
        assert (produced.node, produced.api, produced.version, produced.client_id) == (leader, Api.PRODUCE, 12, "me")
        assert produced.correlation_id == 2
        request: Any = produced.request
        assert request.topic_data[0].name == "t"
        assert [record.value for record in read_records(request.topic_data[0].partition_data[0].records)] == [b"v0", b"v1", b"v2"]
        assert produced.response is not None
        assert only(produced.response).base_offset == 0
        mine, others = stub.journal.requests(Api.METADATA, client_id="me"), stub.journal.requests(Api.METADATA, node=3 - leader)
        assert (len(mine), len(others)) == (1, 1)
        assert mine[0].connection_id == produced.connection_id != others[0].connection_id
        assert abs(produced.at_ms - stub.clock.now_ms()) < 60_000
        stub.journal.clear()
        assert stub.journal.requests() == []


def test_the_oldest_go_first() -> None:
    """No more exchanges are kept than was asked for; 0 keeps none."""
    world = Inside(journal=3)
    for number in range(5):
        world.ask(metadata_request(f"t{number}"), 12, node=1)
    kept: list[Any] = [each.request for each in world.services.journal.requests()]
    assert [request.topics[0].name for request in kept] == ["t2", "t3", "t4"]
    silent = Inside(journal=0)
    silent.ask(metadata_request("t"), 12, node=1)
    assert len(silent.services.journal) == 0


def test_large_requests_push_out_the_oldest() -> None:
    """What many large requests hold on to is bounded: the journal keeps fewer exchanges then than it was told to, and of large batches of
    records, of which only headers stay, as many as of small ones."""
    with BrokerStub(journal=100) as stub:
        stub.create_topic("t")
        with Talker(stub) as talker:
            for sequence in range(100):
                talker.produce("t", batch(b"x" * 100_000, pid=7, epoch=0, sequence=sequence))
            assert len(stub.journal) == 100
            large = wire.FindCoordinatorRequest(key_type=0, coordinator_keys=["k" * 30_000] * 15)  # and as much is answered
            for _ in range(10):
                talker.ask(large, 4)
            assert len(stub.journal) == 100 * EXCHANGE_BYTES // 900_000
            assert {each.api for each in stub.journal.requests()} == {Api.FIND_COORDINATOR}
            for _ in range(100):
                talker.metadata("t")
            assert {each.api for each in stub.journal.requests()} == {Api.METADATA}
            assert len(stub.journal) == 100


def test_an_answer_that_was_lost_is_not_in_the_journal() -> None:
    """The response is what the client could see: none after a drop, the injected one after an error."""
    world = Inside()
    world.topic()
    world.cluster.faults.on(Api.PRODUCE).drop_reply()
    world.send(produce_request("t", numbered(7, 0)), 12)
    world.cluster.faults.on(Api.PRODUCE).after_append().error(ErrorCode.REQUEST_TIMED_OUT)
    world.produce(numbered(7, 1))
    dropped, failed = world.services.journal.requests(Api.PRODUCE)
    assert dropped.response is None
    assert failed.response is not None
    assert only(failed.response).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_large_records_leave_only_their_header() -> None:
    """Of a large batch producer, sequence and count can still be read; a small one is whole. Neither keeps the frame alive."""
    world = Inside()
    world.topic()
    world.produce(memoryview(batch(b"x" * 100_000, pid=7, epoch=3, sequence=5)))  # type: ignore[arg-type]  # as a frame's view comes
    world.produce(memoryview(batch(b"small")))  # type: ignore[arg-type]
    world.ask(fetch_request("t"), 12)
    large, small = [exchange.request.topic_data[0].partition_data[0].records for exchange in world.services.journal.requests(Api.PRODUCE)]  # type: ignore[attr-defined]
    assert (type(large), len(large)) == (bytes, BATCH_OVERHEAD)
    header = read_header(large)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.records_count) == (7, 3, 5, 1)
    assert type(small) is bytes
    assert read_records(small)[0].value == b"small"
    (fetched,) = world.services.journal.requests(Api.FETCH)
    assert fetched.response is not None
    assert len(only(fetched.response).records) <= RECORDS_BYTES_MAX


def test_a_thousand_large_requests_are_not_kept_in_memory() -> None:
    """Forty requests of one megabyte cost the journal kilobytes."""
    world = Inside()
    records = batch(b"x" * 1_000_000)
    world.topic()
    request = produce_request("nowhere", records)
    tracemalloc.start()
    try:
        for _ in range(40):
            world.ask(request, 12, node=1)
            world.replies.clear()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(world.services.journal) == 40
    assert kept < 1_000_000


def test_large_answers_push_out_the_oldest() -> None:
    """What many large answers hold on to is bounded like what was asked, also where it was asked in few bytes; an answer that comes when
    its exchange has gone is counted no more."""
    with BrokerStub(journal=100) as stub:
        stub.create_topic("t", partitions=1000)
        with Talker(stub) as talker:
            for _ in range(60):
                answer = talker.metadata("t")
            size = footprint(answer, 1 << 40)
            assert 60 * size > 100 * EXCHANGE_BYTES
            assert 0 < len(stub.journal) <= 100 * EXCHANGE_BYTES // size
            for _ in range(100):
                talker.ask(wire.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
            assert len(stub.journal) == 100
        kept = stub.journal.requests()
        gone, (newest,) = kept[:-1], kept[-1:]
        stub.journal.clear()
        for each in gone:
            each.response = answer
            for _ in range(60):
                stub.journal.weigh(each)
        stub.journal.add(newest)
        assert len(stub.journal) == 1


SMALL_PARTS: list[tuple[wire.Message, int]] = [
    (wire.MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 4_000), 12),
    (DeleteTopicsRequest(topic_names=["topic", "u"] * 15_000), 5),
    (ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition()])] * 3_000), 7),
    (AddPartitionsToTxnRequest(v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])] * 3_000), 3),
    (AddPartitionsToTxnRequest(v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(range(1000, 20_000)))]), 3),
]


def exchange_of(request: wire.Message, version: int) -> Exchange:
    asked = {"api": request.api, "version": version, "correlation_id": 1, "client_id": None, "request": request}
    return Exchange(node=1, connection_id=1, at_ms=0, **asked)  # type: ignore[arg-type]


@drawn(2)
@pytest.mark.parametrize("number", range(len(SMALL_PARTS)))
def test_requests_of_very_many_small_parts(number: int) -> None:
    """What is kept is bounded in memory, not in the bytes that were sent: of many small parts a request takes forty times its frame."""
    message, version = SMALL_PARTS[number]
    data = wire.encode(message, version)
    wire.decode(type(message), version, data)
    journal = Journal(20)
    for _ in range(20):
        journal.add(exchange_of(wire.decode(type(message), version, data), version))
    assert len(journal) < 20
    assert (EXCHANGE_BYTES if len(journal) else 0) < bytes_held(journal) < 1.1 * 20 * EXCHANGE_BYTES


@pytest.mark.parametrize("api", ["PRODUCE", True])
def test_a_name_is_no_api(api: Any) -> None:
    """A test that counts the requests of a name would always find none."""
    with BrokerStub() as stub, pytest.raises(TypeError, match=r"an Api, such as Api\.PRODUCE"):
        stub.journal.requests(api)
