"""Every point and action over a socket: what happened to the log, to the answer and to the connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.broker_stub.faults.rules import Fault, Rule
from fencepost.producer import wire
from fencepost.producer.wire import Api, ErrorCode
from tests.broker_stub.stub_calls import (
    DEADLINE_S,
    TIMESTAMP_MS,
    Talker,
    fetch_request,
    metadata_request,
    numbered,
    only,
    produce_request,
)
from tests.conformance.raw import Closed, Silent
from tests.waiting import until

SHORT_S = 0.15  # how long a connection is watched that must stay silent


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as running:
        running.create_topic("t", partitions=2)
        yield running


@pytest.fixture
def still() -> Iterator[tuple[BrokerStub, VirtualClock]]:
    """A stub whose time stands still, and its clock."""
    clock = VirtualClock(TIMESTAMP_MS)
    with BrokerStub(clock=clock) as running:
        running.create_topic("t")
        yield running, clock


@pytest.fixture
def talker(stub: BrokerStub) -> Iterator[Talker]:
    with Talker(stub) as connection:
        yield connection


def point(rule: Rule, name: str) -> Rule:
    reached: Rule = getattr(rule, name)()
    return reached


POINTS = pytest.mark.parametrize("at", ["before", "after_append", "reply"])


def written(at: str) -> int:
    """How many batches a Produce leaves behind that went wrong at that point."""
    return 0 if at == "before" else 1


@POINTS
def test_error(stub: BrokerStub, talker: Talker, at: str) -> None:
    """Before, the code is the answer and nothing is done; later it replaces the answer of what was done. Once, then all is well."""
    fault = point(stub.faults.on(Api.PRODUCE), at).error(ErrorCode.NOT_ENOUGH_REPLICAS)
    answer = talker.produce("t", numbered(7, 0))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert stub.end_offset("t", 0) == written(at)
    assert talker.produce("t", numbered(7, 0)).base_offset == 0
    assert stub.end_offset("t", 0) == 1
    assert stub.stats()["duplicates"] == written(at)
    assert fault.hits == 1


@POINTS
def test_drop(stub: BrokerStub, talker: Talker, at: str) -> None:
    """No answer comes, now or later on that connection; what arrives on it is processed all the same, and a new connection is well."""
    fault = point(stub.faults.on(Api.PRODUCE), at).drop()
    talker.timeout = SHORT_S
    with pytest.raises(Silent):
        talker.produce("t", numbered(7, 0))
    assert fault.wait(1, 20)
    later = numbered(7, written(at))
    with pytest.raises(Silent):
        talker.produce("t", later)
    assert stub.end_offset("t", 0) == written(at) + 1
    with Talker(stub) as other:
        assert other.produce("t", later).base_offset == written(at)
    assert stub.stats()["duplicates"] == 1


def test_drop_reply_is_the_lost_answer(stub: BrokerStub, talker: Talker) -> None:
    """drop_reply: the append is done, the answer is lost, and the resend is recognised."""
    stub.faults.on(Api.PRODUCE).drop_reply()
    talker.timeout = SHORT_S
    with pytest.raises(Silent):
        talker.produce("t", numbered(7, 0))
    with Talker(stub) as other:
        resent = other.produce("t", numbered(7, 0))
    assert (resent.error_code, resent.base_offset) == (0, 0)
    assert len(stub.records("t", 0)) == 1


@POINTS
def test_disconnect(stub: BrokerStub, talker: Talker, at: str) -> None:
    """The connection ends: with nothing done, with everything done, or after half of the answer."""
    point(stub.faults.on(Api.PRODUCE), at).disconnect()
    talker.send(produce_request("t", numbered(7, 0)), 12)
    got = b""
    with pytest.raises(Closed):
        while True:
            got += talker._take(1, time.monotonic() + 5)
    if at == "reply":
        whole = 4 + int.from_bytes(got[:4], "big")
        assert len(got) == whole // 2
    else:
        assert got == b""
    assert stub.end_offset("t", 0) == written(at)
    assert stub.stats()["connections_cut"] == 1


@POINTS
def test_delay(still: tuple[BrokerStub, VirtualClock], at: str) -> None:
    """The answer comes after the delay and not before; the effect is late only where the request was held up before it."""
    stub, _ = still
    fault = point(stub.faults.on(Api.PRODUCE), at).delay(120)
    with Talker(stub, timeout=SHORT_S) as talker:
        talker.send(produce_request("t", numbered(7, 0)), 12)
        fault.wait(1, 20)
        stub.advance(119)
        with pytest.raises(Silent):
            talker.receive_frame()
        assert stub.end_offset("t", 0) == written(at)
        stub.advance(1)
        talker.timeout = DEADLINE_S
        answer: Any = talker.receive(produce_request("t", b""), 12)
        assert only(answer).base_offset == 0


@POINTS
def test_delayed_answers_keep_their_order(stub: BrokerStub, talker: Talker, at: str) -> None:
    """What was asked after a delayed request is answered after it, on its connection; another connection does not wait."""
    fault = point(stub.faults.on(Api.PRODUCE), at).hold()
    first = talker.send(produce_request("t", numbered(7, 0)), 12)
    second = talker.send(metadata_request("t"), 12)
    fault.wait(1, 20)
    with Talker(stub) as other:
        assert other.metadata("t")
    fault.release()
    answered, _ = wire.decode_response(talker.receive_frame(), Api.PRODUCE, 12)
    assert answered == first
    answered, _ = wire.decode_response(talker.receive_frame(), Api.METADATA, 12)
    assert answered == second


def test_hold_before_and_after(stub: BrokerStub, talker: Talker) -> None:
    """Held before, a request has no effect until its release; held after, it has had it. The next request waits in both cases."""
    for at, sequence in (("before", 0), ("after_append", 2)):
        fault = point(stub.faults.on(Api.PRODUCE), at).hold()
        for each in (sequence, sequence + 1):
            talker.send(produce_request("t", numbered(7, each)), 12)
        fault.wait(1, 20)
        assert stub.end_offset("t", 0) == sequence + (at == "after_append")
        fault.release()
        for each in (sequence, sequence + 1):
            answer: Any = talker.receive(produce_request("t", b""), 12)
            assert only(answer).base_offset == each


def test_hold_at_reply_lets_the_next_requests_be_processed(stub: BrokerStub, talker: Talker) -> None:
    """Answers held on their way out are a slow network: everything is appended meanwhile, and the answers come in order."""
    fault = stub.faults.on(Api.PRODUCE).forever().reply().hold()
    for sequence in range(5):
        talker.send(produce_request("t", numbered(7, sequence)), 12)
    fault.wait(hits=5)
    assert stub.end_offset("t", 0) == 5
    fault.remove()
    for sequence in range(5):
        answer: Any = talker.receive(produce_request("t", b""), 12, correlation_id=sequence + 1)
        assert only(answer).base_offset == sequence


@pytest.mark.parametrize(
    ("at", "pid"), [("before", 7), ("after_append", 7), ("reply", 7), ("before", -1), ("after_append", -1), ("reply", -1)]
)
def test_duplicate(stub: BrokerStub, talker: Talker, at: str, pid: int) -> None:
    """The request is processed twice and answered once: an idempotent producer is protected, any other has its records twice."""
    point(stub.faults.on(Api.PRODUCE), at).duplicate()
    records = numbered(pid, 0) if pid >= 0 else numbered(-1, -1)
    answer = talker.produce("t", records)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert stub.end_offset("t", 0) == (1 if pid >= 0 else 2)
    assert stub.stats()["duplicates"] == (1 if pid >= 0 else 0)
    assert talker.metadata("t").topics[0].name == "t"  # nothing was answered twice


@POINTS
def test_throttle(still: tuple[BrokerStub, VirtualClock], at: str) -> None:
    """The answer comes at once and says throttle_time_ms; the next request on that connection is looked at that much later (KIP-219)."""
    stub, clock = still
    point(stub.faults.on(Api.PRODUCE), at).throttle(150)
    with Talker(stub) as talker:
        answer: Any = talker.ask(produce_request("t", numbered(7, 0)), 12)
        assert answer.throttle_time_ms == 150
        assert only(answer).error_code == 0
        asked = talker.send(metadata_request("t"), 12)
        clock.advance(149)
        talker.timeout = SHORT_S
        with pytest.raises(Silent):
            talker.receive_frame()
        clock.advance(1)
        talker.timeout = DEADLINE_S
        later: Any = talker.receive(metadata_request("t"), 12, correlation_id=asked)
        assert later.throttle_time_ms == 0


def test_a_fault_for_one_partition_spares_the_other(stub: BrokerStub, talker: Talker) -> None:
    """An error narrowed by topic and partition is about that partition only, before and after."""
    both = wire.ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            wire.TopicProduceData(
                name="t", partition_data=[wire.PartitionProduceData(index=index, records=numbered(7, 0)) for index in (0, 1)]
            )
        ],
    )
    for at, ends in (("before", (1, 0)), ("after_append", (1, 1))):
        point(stub.faults.on(Api.PRODUCE).where(topic="t", partition=1), at).error(ErrorCode.REQUEST_TIMED_OUT)
        answer: Any = talker.ask(both, 12)
        assert [each.error_code for each in answer.responses[0].partition_responses] == [0, ErrorCode.REQUEST_TIMED_OUT]
        assert (stub.end_offset("t", 0), stub.end_offset("t", 1)) == ends


def test_where_narrows(stub: BrokerStub, talker: Talker) -> None:
    """Another topic, partition or client is left alone, and does not use the fault up."""
    narrowings: list[dict[str, Any]] = [{"topic": "u"}, {"client_id": "nobody"}, {"topic": "t", "partition": 1}]
    for where in narrowings:
        fault = stub.faults.on(Api.PRODUCE).where(**where).error(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert talker.produce("t", numbered(-1, -1)).error_code == 0
        assert fault.hits == 0
        fault.remove()


def test_rules_choose_by_group_and_by_transactional_id(stub: BrokerStub, talker: Talker) -> None:
    """A rule for a group or a transactional id hits only requests for its coordinator or its producer id."""
    group = stub.faults.on().where(group="g").error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS).forever()
    txn = stub.faults.on(Api.INIT_PRODUCER_ID).where(txn="x").error(ErrorCode.CONCURRENT_TRANSACTIONS)

    def coordinator(key: str, key_type: int) -> int:
        answer: Any = talker.ask(wire.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
        return int(answer.coordinators[0].error_code)

    def producer_id(transactional_id: str | None) -> int:
        answer: Any = talker.ask(wire.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000), 5)
        return int(answer.error_code)

    assert [coordinator("g", 0), coordinator("h", 0), coordinator("g", 1)] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0, 0]
    assert [producer_id(None), producer_id("y")] == [0, producer_id("y")]
    assert (group.hits, txn.hits) == (1, 0)
    assert producer_id("x") == ErrorCode.CONCURRENT_TRANSACTIONS


def test_topic_ids_are_resolved(stub: BrokerStub, talker: Talker) -> None:
    """A rule names the topic; requests that carry only its id match all the same, in an incremental fetch, too."""
    topic_id = talker.metadata("t").topics[0].topic_id
    fault = stub.faults.on(Api.PRODUCE, Api.FETCH).where(topic="t", partition=0).error(ErrorCode.UNKNOWN_LEADER_EPOCH).forever()
    data = [wire.PartitionProduceData(index=0, records=numbered(7, 0))]
    by_id = wire.ProduceRequest(acks=-1, timeout_ms=1, topic_data=[wire.TopicProduceData(topic_id=topic_id, partition_data=data)])
    assert only(talker.ask(by_id, 13)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    fault.remove()
    topics = [wire.FetchTopic(topic_id=topic_id, partitions=[wire.FetchPartition(partition_max_bytes=100)])]
    session: Any = talker.ask(wire.FetchRequest(max_wait_ms=0, topics=topics, session_epoch=0), 16)
    assert session.session_id > 0
    stub.faults.on(Api.FETCH).where(topic="t", partition=0).error(ErrorCode.UNKNOWN_LEADER_EPOCH)
    again: Any = talker.ask(wire.FetchRequest(max_wait_ms=0, session_id=session.session_id, session_epoch=1), 16)
    assert only(again).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


REQUESTS: dict[str, tuple[wire.Message, int, Callable[[Any], int]]] = {
    "Fetch": (fetch_request("t"), 12, lambda answer: only(answer).error_code),
    "ListOffsets": (
        wire.ListOffsetsRequest(
            replica_id=-1, topics=[wire.ListOffsetsTopic(name="t", partitions=[wire.ListOffsetsPartition(timestamp=-1)])]
        ),
        7,
        lambda answer: only(answer).error_code,
    ),
    "Metadata": (metadata_request("t"), 12, lambda answer: answer.topics[0].error_code),
    "FindCoordinator": (
        wire.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]),
        4,
        lambda answer: answer.coordinators[0].error_code,
    ),
    "FindCoordinator, one key": (wire.FindCoordinatorRequest(key="g"), 3, lambda answer: answer.error_code),
    "ApiVersions": (
        wire.ApiVersionsRequest(client_software_name="x", client_software_version="1"),
        3,
        lambda answer: answer.error_code,
    ),
    "CreateTopics": (
        wire.CreateTopicsRequest(topics=[wire.CreatableTopic(name="new", num_partitions=1, replication_factor=1)]),
        7,
        lambda answer: answer.topics[0].error_code,
    ),
    "InitProducerId": (
        wire.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
        5,
        lambda answer: answer.error_code,
    ),
    "DescribeProducers": (
        wire.DescribeProducersRequest(topics=[wire.TopicRequest(name="t", partition_indexes=[0])]),
        0,
        lambda answer: only(answer).error_code,
    ),
}


@POINTS
@pytest.mark.parametrize("name", list(REQUESTS))
def test_every_api_can_be_made_to_fail(stub: BrokerStub, talker: Talker, name: str, at: str) -> None:
    """An injected code is found where a client of that API looks for it."""
    request, version, code_of = REQUESTS[name]
    fault: Fault = point(stub.faults.on(request.api), at).error(ErrorCode.REQUEST_TIMED_OUT)
    assert code_of(talker.ask(request, version)) == ErrorCode.REQUEST_TIMED_OUT
    assert fault.hits == 1
    if name == "CreateTopics":
        assert ("new" in {topic.name for topic in stub.cluster.topics}) is (at != "before")
    else:
        assert code_of(talker.ask(request, version)) == 0


def test_an_unanswered_produce_can_be_cut_off_and_not_dropped(stub: BrokerStub, talker: Talker) -> None:
    """acks=0 has no answer to lose: a drop changes nothing, an error or a disconnect after the append closes the connection."""
    stub.faults.on(Api.PRODUCE).after_append().drop()
    talker.send(produce_request("t", numbered(-1, -1), acks=0), 12)
    assert talker.metadata("t").topics[0].name == "t"
    stub.faults.on(Api.PRODUCE).after_append().error(ErrorCode.NOT_ENOUGH_REPLICAS)
    talker.send(produce_request("t", numbered(-1, -1), acks=0), 12)
    assert talker.is_closed()
    assert stub.end_offset("t", 0) == 2
    assert stub.stats()["connections_cut"] == 0  # the broker closed it, for its error


def test_a_held_request_goes_on_after_its_client_left(stub: BrokerStub) -> None:
    """A broker that has read a request processes it, also after its client has left."""
    fault = stub.faults.on(Api.PRODUCE).hold()
    with Talker(stub) as leaver:
        leaver.send(produce_request("t", numbered(7, 0)), 12)
        fault.wait(1, 20)
    until(lambda: stub.stats()["open"] == 0, "its connection is gone")
    fault.release()
    until(lambda: stub.end_offset("t", 0) == 1, "the append")


def test_a_held_request_ends_with_its_broker(stub: BrokerStub, talker: Talker) -> None:
    """What a stopped broker had not done yet is never done."""
    fault = stub.faults.on(Api.PRODUCE).hold()
    talker.send(produce_request("t", numbered(7, 0)), 12)
    fault.wait(1, 20)
    stub.restart_broker(1)
    fault.release()
    with Talker(stub) as other:
        assert other.metadata("t")
    assert stub.end_offset("t", 0) == 0


def test_faults_of_one_call_add_up(still: tuple[BrokerStub, VirtualClock]) -> None:
    """A delay and an error on the same call: first the one, then the other."""
    stub, clock = still
    delayed = stub.faults.on(Api.PRODUCE).delay(60)
    failed = stub.faults.on(Api.PRODUCE).error(ErrorCode.NOT_ENOUGH_REPLICAS)
    with Talker(stub) as talker:
        talker.send(produce_request("t", numbered(7, 0)), 12)
        delayed.wait(1, 20)
        failed.wait(1, 20)
        clock.advance(60)
        answer: Any = talker.receive(produce_request("t", b""), 12)
        assert only(answer).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert stub.end_offset("t", 0) == 0


@pytest.mark.parametrize("api", ["produce", 1.5, -1, 1 << 15])
def test_a_rule_about_no_api_is_refused(api: Any) -> None:
    """It would never fire, and the test that it is for would pass for nothing."""
    with BrokerStub() as stub, pytest.raises(TypeError, match="an Api, or the number of one"):
        stub.faults.on(api)


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ({"topic": 1}, "topic=1: must be the name of a topic"),
        ({"partition": "0"}, "partition='0': must be a whole number from 0"),
        ({"partition": -1}, "partition=-1: must be a whole number from 0"),
        ({"node": "x"}, "node='x': must be a whole number"),
        ({"client_id": b"x"}, "client_id=b'x': must be a client id"),
        ({"topic": "\ud800"}, r"topic='\\ud800': no request has lone surrogates, so it would never fire"),
        ({"client_id": "\ud800"}, r"client_id='\\ud800': no request has lone surrogates"),
        ({"node": 9}, "node=9: there is no such broker, only 1, 2"),
        ({"group": "g"}, "group='g': PRODUCE name no group, so it would never fire; .*JOIN_GROUP"),
    ],
)
def test_a_filter_that_could_never_match_is_refused(filters: dict[str, Any], reason: str) -> None:
    """With the name of the filter, what was given and what can be."""
    stub = BrokerStub(brokers=2)
    with pytest.raises((TypeError, ValueError), match=f"^{reason}"):
        stub.faults.on(Api.PRODUCE).where(**filters)


def test_a_filter_that_one_of_the_apis_has_is_taken() -> None:
    """The markers of a transaction name topics inside other entries, and its coordinator knows its id."""
    stub = BrokerStub()
    stub.faults.on(Api.WRITE_TXN_MARKERS).where(topic="t", partition=0, txn="x").drop()
    stub.faults.on(Api.PRODUCE, Api.HEARTBEAT).where(group="g").drop()
    assert len(stub.faults.installed) == 2


@pytest.mark.parametrize("api", [Api.FETCH_SNAPSHOT, 999])
def test_an_api_that_the_stub_does_not_serve_is_refused(api: int) -> None:
    """A rule about it would never fire."""
    with pytest.raises(ValueError, match=rf"^on=.*({api}|FETCH_SNAPSHOT).*: this stub does not serve it"):
        BrokerStub().faults.on(api)


@pytest.mark.parametrize("code", [99_999, 0, ErrorCode.NONE])
def test_an_error_code_that_is_none_is_refused(code: int) -> None:
    """The format has 16 bits for it. With 0 a producer would take a record for written that is not in the log."""
    with pytest.raises(ValueError, match=r"^code=.*: must be an error code, .* from -32768 to 32767, but not NONE \(0\)"):
        BrokerStub().faults.on(Api.PRODUCE).error(code)


def test_an_unknown_error_code_is_injected() -> None:
    """A newer Kafka may have it."""
    assert BrokerStub().faults.on(Api.PRODUCE).error(4711).code == 4711


@pytest.mark.parametrize(("brokers", "port"), [(1, 65_536), (3, 65_534), (1, -1)])
def test_ports_that_are_none(brokers: int, port: int) -> None:
    """Refused with the highest port that leaves room for every broker."""
    with pytest.raises(ValueError, match=rf"port={port}: give 1 to {65_535 - brokers + 1}"):
        BrokerStub(brokers=brokers, port=port)
