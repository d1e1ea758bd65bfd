"""What each fault of the proxy does, seen from one connection, in front of the stub and of Apache Kafka."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from typing import Any

import pytest

from fencepost.producer import wire
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages.topic_admin import DeleteTopicsRequest
from tests.broker_stub.proxy.proxy_site import Site, codes, create, site
from tests.conformance import batches
from tests.conformance.asks_log import list_offsets_request, produce_request
from tests.conformance.fixtures import kafka
from tests.conformance.raw import Closed, RawConnection, Silent
from tests.conformance.stage import Topic
from tests.waiting import until

__all__ = ["kafka", "site"]

pytestmark = pytest.mark.timeout(300)


def test_a_dropped_reply_silences_the_connection(site: Site) -> None:
    """The request took effect, later ones on the connection too, and none of them is ever answered; other connections live."""
    fault = site.proxy.faults.on(Api.PRODUCE).drop_reply()
    with site.connection(timeout=0.5) as connection, site.connection() as other:
        _ask_produce(connection, site.produce(0), expect=Silent)
        fault.wait(1, 20)
        connection.send(site.produce(1), 12)
        until(lambda: site.end_offset() == 2, "both batches are in the log")
        with pytest.raises(Silent):
            connection.ask(wire.ApiVersionsRequest(), 0)
        other.ask(wire.ApiVersionsRequest(), 0)


def test_a_dropped_request_never_arrives(site: Site) -> None:
    """It is not appended; the next one is, without a response."""
    site.proxy.faults.on(Api.PRODUCE).before().drop()
    with site.connection() as connection:
        connection.ask(wire.ApiVersionsRequest(), 0)
        connection.timeout = 0.5
        _ask_produce(connection, site.produce(0), expect=Silent)
        _ask_produce(connection, site.produce(0, pid=4712), expect=Silent)
    until(lambda: site.end_offset() == 1, "the second batch is in the log")
    assert site.producer_ids() == [4712]


def test_answers_before_a_cut_still_arrive(site: Site) -> None:
    """A request cut before the broker does not take the answers of earlier ones with it."""
    site.proxy.faults.on(Api.PRODUCE).before().disconnect().on_call(3)
    with site.connection() as connection:
        for sequence in range(3):
            connection.send(site.produce(sequence), 12)
        assert [_error(connection.receive(site.produce(0), 12)) for _ in range(2)] == [0, 0]
        with pytest.raises(Closed):
            connection.receive_frame()
    assert site.end_offset() == 2


def test_a_cut_in_the_reply_leaves_half_a_frame(site: Site) -> None:
    """The client sees the beginning of the answer and then the end of the connection."""
    site.proxy.faults.on(Api.PRODUCE).reply().disconnect()
    with site.connection() as connection:
        connection.send(site.produce(0), 12)
        came = connection.read_to_end()
    assert len(came) > 4
    assert len(came) - 4 < int.from_bytes(came[:4], "big")
    assert site.end_offset() == 1


def test_an_error_before_the_append_refuses_only_its_partition(site: Site) -> None:
    """Of a request for two topics the refused one gets the code and is not appended; the other one is."""
    other = f"other-{secrets.token_hex(4)}"
    create(site.upstream, other)
    site.proxy.faults.on(Api.PRODUCE).where(topic=other).before().error(ErrorCode.NOT_ENOUGH_REPLICAS)
    data = batches.plain().encode()
    request = produce_request([(Topic(other, wire.ZERO_UUID), 0, data), (site.topic, 0, data)], 12)
    with site.connection() as connection:
        answer = connection.ask(request, 12)
    assert isinstance(answer, wire.ProduceResponse)
    codes = {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}
    assert codes == {other: ErrorCode.NOT_ENOUGH_REPLICAS, site.topic.name: 0}
    assert site.end_offset() == 1


def test_an_error_after_the_append_hides_the_success(site: Site) -> None:
    """The records are in the log and the answer says otherwise; the resend is a duplicate."""
    site.proxy.faults.on(Api.PRODUCE).after_append().error(ErrorCode.REQUEST_TIMED_OUT)
    with site.connection() as connection:
        assert _error(connection.ask(site.produce(0), 12)) == ErrorCode.REQUEST_TIMED_OUT
        assert _error(connection.ask(site.produce(0), 12)) == 0
    assert site.end_offset() == 1


def test_a_refused_deletion_deletes_nothing(site: Site) -> None:
    """An error before anything is done is answered in the broker's place: the topic stays, and the next request for it is served."""
    site.proxy.faults.on(Api.DELETE_TOPICS).before().error(ErrorCode.POLICY_VIOLATION)
    request = DeleteTopicsRequest(topic_names=[site.topic.name], timeout_ms=10_000)
    with site.connection() as connection:
        assert codes(connection.ask(request, 5)) == {ErrorCode.POLICY_VIOLATION}
        assert _topic_code(site, connection) == 0
        assert codes(connection.ask(request, 5)) == {0}
        until(lambda: _topic_code(site, connection) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic is gone")


def _topic_code(site: Site, connection: RawConnection) -> int:
    asked = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=site.topic.name)], allow_auto_topic_creation=False)
    answer = connection.ask(asked, 12)
    assert isinstance(answer, wire.MetadataResponse)
    return answer.topics[0].error_code


def test_the_proxy_knows_groups(site: Site) -> None:
    """A rule for a group hits the request that names it; the next group's passes."""
    fault = site.proxy.faults.on().where(group="g").error(ErrorCode.COORDINATOR_NOT_AVAILABLE).forever()
    with site.connection() as connection:
        found, _ = (connection.ask(wire.FindCoordinatorRequest(key_type=0, coordinator_keys=[key]), 4) for key in "gh")
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE in codes(found)
    assert fault.hits == 1


@pytest.mark.parametrize("api", [Api.METADATA, Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID, Api.LIST_OFFSETS, Api.FETCH])
def test_errors_in_other_answers(site: Site, api: Api) -> None:
    """An error can be had for every API that is spoken here, once."""
    site.proxy.faults.on(api).before().error(ErrorCode.UNKNOWN_SERVER_ERROR)
    requests: dict[Api, tuple[wire.Message, int]] = {
        Api.METADATA: (wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=site.topic.name)]), 12),
        Api.FIND_COORDINATOR: (wire.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4),
        Api.INIT_PRODUCER_ID: (wire.InitProducerIdRequest(transactional_id=None), 4),
        Api.LIST_OFFSETS: (list_offsets_request(site.topic, [wire.ListOffsetsPartition(timestamp=-1)]), 7),
        Api.FETCH: (_fetch(site.topic), 12),
    }
    request, version = requests[api]
    with site.connection() as connection:
        assert ErrorCode.UNKNOWN_SERVER_ERROR in codes(connection.ask(request, version))
        assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes(connection.ask(request, version))


@pytest.mark.parametrize("point", ["before", "after_append", "reply"])
def test_a_rule_for_a_topic_meets_requests_for_all(site: Site, point: str) -> None:
    """Which topics there are only the broker knows, so a request for all is about any that a rule names: the error is in that topic's
    entry and in no other's; a partition is nothing that Metadata is about."""
    getattr(site.proxy.faults.on(Api.METADATA, Api.PRODUCE).where(topic=site.topic.name, partition=0), point)().drop()
    fault = getattr(site.proxy.faults.on(Api.METADATA).where(topic=site.topic.name), point)().error(ErrorCode.LEADER_NOT_AVAILABLE)
    with site.connection() as connection:
        told = [_codes_by_topic(connection.ask(wire.MetadataRequest(topics=None), 12)) for _ in range(2)]
    assert told[0].pop(site.topic.name) == ErrorCode.LEADER_NOT_AVAILABLE
    assert told[1].pop(site.topic.name) == 0
    assert set(told[0].values()) <= {0}
    assert fault.hits == 1


@pytest.mark.parametrize("version", [7, 12, 17])
def test_an_incremental_fetch_is_about_its_session(site: Site, version: int) -> None:
    """A consumer names its partitions once, and from then on only what changes (KIP-227): a rule for a topic meets the requests that name
    none, and those no longer from which the topic was taken out, or whose session has ended."""
    fault = site.proxy.faults.on(Api.FETCH).where(topic=site.topic.name, partition=0).throttle(0).forever()
    with site.connection() as connection:
        metadata = connection.ask(wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=site.topic.name)]), 12)
        assert isinstance(metadata, wire.MetadataResponse)
        words: dict[str, Any] = {"topic": site.topic.name, "topic_id": metadata.topics[0].topic_id}
        # One that is not there keeps the session alive when the other one is taken out.
        named = wire.FetchTopic(**words, partitions=[wire.FetchPartition(partition=each, partition_max_bytes=1) for each in (0, 1)])
        gone = wire.ForgottenTopic(**words, partitions=[0])

        def fetch(epoch: int, session: int, **options: Any) -> int:
            """The session that the broker answers with."""
            answer = connection.ask(wire.FetchRequest(max_bytes=1, session_id=session, session_epoch=epoch, **options), version)
            assert isinstance(answer, wire.FetchResponse)
            assert answer.error_code == 0
            return answer.session_id

        session = fetch(0, 0, topics=[named])
        assert session
        assert fetch(1, session) == fetch(2, session) == session
        assert fault.hits == 3
        fetch(3, session, forgotten_topics_data=[gone])
        hits = fault.hits
        fetch(4, session)
        assert fault.hits == hits
        fetch(5, session, topics=[named])
        fetch(-1, session)
        assert fault.hits == hits + 2
        fetch(-1, 0, topics=[named])
        assert fault.hits == hits + 3


def _codes_by_topic(answer: wire.Message) -> dict[str | None, int]:
    assert isinstance(answer, wire.MetadataResponse)
    return {topic.name: topic.error_code for topic in answer.topics}


@pytest.mark.parametrize("late", [False, True])
def test_a_damaged_request_ends_its_connection_and_nothing_else(site: Site, late: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A rule that wants an error in the answer to bytes that are no request finds nothing to answer: that connection is cut, also where it
    is the clock that comes back to it, and the next one is served."""
    if late:
        site.proxy.faults.on(Api.METADATA).delay(1)
    site.proxy.faults.on(Api.METADATA).error(ErrorCode.LEADER_NOT_AVAILABLE)
    whole = b"".join(wire.encode_request(wire.MetadataRequest(topics=None), 12, correlation_id=1, client_id="c"))[4:]
    ((_, address), *_) = sorted(site.proxy.addresses.items())
    with socket.create_connection(address, timeout=20) as damaged:
        damaged.sendall(len(whole[:-2]).to_bytes(4, "big") + whole[:-2])
        assert damaged.recv(1) == b""
    assert _topics_told(site)
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


def _topics_told(site: Site) -> set[str | None]:
    with site.connection() as connection:
        return set(_codes_by_topic(connection.ask(wire.MetadataRequest(topics=None), 12)))


def test_what_is_held_up_is_bounded(site: Site) -> None:
    """While a request is held up, the proxy takes a few megabytes of those behind it and then no more, however large they are."""
    site.proxy.faults.on().hold()
    frame = b"\0\x03\0\x0c\0\0\0\x01\0\x01c\0" + bytes(4 * 1024 * 1024)
    ((_, address), *_) = sorted(site.proxy.addresses.items())
    sent = 0
    with socket.create_connection(address, timeout=20) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        client.settimeout(2)  # the held bytes are not read for longer than this
        with suppress(TimeoutError):
            while sent < 60:
                client.sendall(len(frame).to_bytes(4, "big") + frame)
                sent += 1
    assert sent < 30  # what the proxy takes, and the system for it: up to 64 MiB in a socket's buffer


def test_a_held_request_waits_and_holds_back_those_behind_it(site: Site) -> None:
    """Nothing reaches the broker until the release; then both are appended and answered in order."""
    fault = site.proxy.faults.on(Api.PRODUCE).before().hold()
    with site.connection() as connection:
        sent = [connection.send(site.produce(sequence), 12) for sequence in range(2)]
        fault.wait(1, 20)
        assert connection.quiet(0.2)
        assert site.end_offset() == 0
        fault.release()
        assert [_error(connection.receive(site.produce(0), 12, correlation_id=each)) for each in sent] == [0, 0]
    assert site.end_offset() == 2


def test_a_held_reply_has_taken_effect(site: Site) -> None:
    """The records are in the log before the client hears of them; answers behind it wait their turn."""
    fault = site.proxy.faults.on(Api.PRODUCE).reply().hold()
    with site.connection() as connection:
        first = connection.send(site.produce(0), 12)
        fault.wait(1, 20)
        second = connection.send(wire.ApiVersionsRequest(), 0)
        until(lambda: site.end_offset() == 1, "the batch is in the log")
        assert connection.quiet(0.2)
        fault.release()
        connection.receive(site.produce(0), 12, correlation_id=first)
        connection.receive(wire.ApiVersionsRequest(), 0, correlation_id=second)


def test_a_held_request_arrives_after_its_client_is_gone(site: Site) -> None:
    """A packet that was late: the producer has died, and its batch is appended all the same."""
    fault = site.proxy.faults.on(Api.PRODUCE).before().hold()
    with site.connection() as connection:
        connection.send(site.produce(0), 12)
        fault.wait(1, 20)
    until(lambda: site.proxy.stats()["open"] == 1, "one connection is open")
    assert site.end_offset() == 0
    fault.release()
    until(lambda: site.end_offset() == 1, "the batch is in the log")
    until(lambda: site.proxy.stats()["open"] == 0, "every connection is closed")


def test_a_duplicated_request_is_answered_once(site: Site) -> None:
    """Without a producer id it is appended twice; the client hears one answer, and the next one is the next request's."""
    site.proxy.faults.on(Api.PRODUCE).before().duplicate()
    with site.connection() as connection:
        assert _error(connection.ask(produce_request([(site.topic, 0, batches.plain().encode())], 12), 12)) == 0
        connection.ask(wire.ApiVersionsRequest(), 0)
    assert site.end_offset() == 2


def test_a_request_without_an_answer_does_not_disturb_the_order(site: Site) -> None:
    """acks 0: the answer that follows belongs to the next request; an error closes the connection as a broker does."""
    with site.connection() as connection:
        connection.send(site.produce(0, acks=0), 12)
        connection.ask(wire.ApiVersionsRequest(), 0)
        site.proxy.faults.on(Api.PRODUCE).before().error(ErrorCode.NOT_ENOUGH_REPLICAS)
        connection.send(site.produce(1, acks=0), 12)
        assert connection.is_closed()
    assert site.end_offset() == 1


def test_topic_ids_are_matched_by_name(site: Site) -> None:
    """Produce 13 names topics by id; a rule for the name finds it."""
    fault = site.proxy.faults.on(Api.PRODUCE).where(topic=site.topic.name, partition=0).before().error(ErrorCode.NOT_ENOUGH_REPLICAS)
    with site.connection() as connection:
        metadata = connection.ask(wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=site.topic.name)]), 12)
        assert isinstance(metadata, wire.MetadataResponse)
        topic = Topic(site.topic.name, metadata.topics[0].topic_id)
        answer = connection.ask(produce_request([(topic, 0, batches.plain().encode())], 13), 13)
    assert _error(answer) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert fault.hits == 1


def _ask_produce(connection: RawConnection, request: wire.ProduceRequest, *, expect: type[Exception]) -> None:
    with pytest.raises(expect):
        connection.ask(request, 12)


def _error(answer: wire.Message) -> int:
    assert isinstance(answer, wire.ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def _fetch(topic: Topic) -> wire.FetchRequest:
    part = wire.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    return wire.FetchRequest(max_bytes=1, topics=[wire.FetchTopic(topic=topic.name, partitions=[part])])
