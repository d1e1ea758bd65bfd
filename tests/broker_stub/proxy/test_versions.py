"""FaultProxy in front of a broker older than Kafka 4: the versions that Kafka 4 does not speak any more are understood."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.producer import wire
from fencepost.producer.wire import Api, ErrorCode, Message, RequestHeader
from tests.broker_stub.proxy.proxy_site import codes
from tests.conformance.raw import RawConnection
from tests.producer.scripted_broker import FakeBroker, framed

OFFSETS = wire.ListOffsetsPartitionResponse(old_style_offsets=[9, 0])
ANSWERS: dict[int, Message] = {
    Api.API_VERSIONS: wire.ApiVersionsResponse(api_keys=[wire.ApiVersion(api_key=Api.PRODUCE, max_version=11)]),
    Api.PRODUCE: wire.ProduceResponse(
        responses=[wire.TopicProduceResponse(name="t", partition_responses=[wire.PartitionProduceResponse(base_offset=5)])]
    ),
    Api.FETCH: wire.FetchResponse(
        responses=[wire.FetchableTopicResponse(topic="t", partitions=[wire.PartitionData(high_watermark=6, records=b"old")])]
    ),
    Api.LIST_OFFSETS: wire.ListOffsetsResponse(topics=[wire.ListOffsetsTopicResponse(name="t", partitions=[OFFSETS])]),
    Api.CREATE_TOPICS: wire.CreateTopicsResponse(topics=[wire.CreatableTopicResult(name="t")]),
}


class OldBroker(FakeBroker):
    """Answers every version of some APIs, but not a Produce while `acks` is 0, which it cannot see itself."""

    def __init__(self) -> None:
        super().__init__(self._reply)
        self.acks = -1

    def _reply(self, header: RequestHeader) -> bytes | None:
        if header.api_key == Api.PRODUCE and self.acks == 0:
            return b""
        if header.api_key == Api.METADATA:
            host, port = self.address.rsplit(":", 1)
            broker = wire.MetadataResponseBroker(node_id=1, host=host, port=int(port))
            return framed(wire.MetadataResponse(brokers=[broker]), header.api_version, header)
        return framed(ANSWERS[header.api_key], header.api_version, header)


@pytest.fixture
def broker() -> Iterator[OldBroker]:
    with OldBroker() as broker:
        yield broker


@pytest.fixture
def proxy(broker: OldBroker) -> Iterator[FaultProxy]:
    with FaultProxy(broker.address) as proxy:
        yield proxy


@pytest.fixture
def connection(proxy: FaultProxy) -> Iterator[RawConnection]:
    (address,) = proxy.addresses.values()
    with RawConnection(address, timeout=20) as connection:
        yield connection


def produce(*, acks: int = -1, timeout_ms: int = 1000) -> wire.ProduceRequest:
    topic = wire.TopicProduceData(name="t", partition_data=[wire.PartitionProduceData(index=0, records=b"a message set")])
    return wire.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


def fetch() -> wire.FetchRequest:
    return wire.FetchRequest(topics=[wire.FetchTopic(topic="t", partitions=[wire.FetchPartition(partition=0)])])


def list_offsets() -> wire.ListOffsetsRequest:
    partition = wire.ListOffsetsPartition(partition_index=0, timestamp=-1, max_num_offsets=2)
    return wire.ListOffsetsRequest(replica_id=-1, topics=[wire.ListOffsetsTopic(name="t", partitions=[partition])])


def create_topics() -> wire.CreateTopicsRequest:
    return wire.CreateTopicsRequest(topics=[wire.CreatableTopic(name="t", num_partitions=1, replication_factor=1)])


OLD = [
    *[(produce(), version) for version in range(3)],
    *[(fetch(), version) for version in range(4)],
    (list_offsets(), 0),
    *[(create_topics(), version) for version in range(2)],
]
OLD_ID = [f"{type(request).__name__}-v{version}" for request, version in OLD]


@pytest.mark.parametrize("acks", [-1, 0, 1])
@pytest.mark.parametrize("timeout_ms", [1000, 0x10000])
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_whether_an_answer_is_due(broker: OldBroker, connection: RawConnection, acks: int, timeout_ms: int, version: int) -> None:
    """Before version 3 a Produce begins with its acks: whether it has an answer is known, and the next request gets its own."""
    broker.acks = acks
    connection.send(produce(acks=acks, timeout_ms=timeout_ms), version)
    if acks != 0:
        assert connection.receive(produce(), version) == decoded(Api.PRODUCE, version)
    assert isinstance(connection.ask(wire.ApiVersionsRequest(), 0), wire.ApiVersionsResponse)


@pytest.mark.parametrize(("asked", "version"), OLD, ids=OLD_ID)
def test_answers_pass(connection: RawConnection, asked: Message, version: int) -> None:
    """Without a fault every answer arrives as the broker gave it."""
    assert connection.ask(asked, version) == decoded(asked.api, version)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(("asked", "version"), OLD, ids=OLD_ID)
def test_errors_on_demand(proxy: FaultProxy, connection: RawConnection, asked: Message, version: int, before: bool) -> None:
    """An error in place of the broker's answer has a form in these versions too, and carries nothing of a success."""
    rule = proxy.faults.on(asked.api).where(topic="t")
    (rule.before() if before else rule.after_append()).error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answer = connection.ask(asked, version)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER in codes(answer)
    if isinstance(answer, wire.ListOffsetsResponse):
        assert answer.topics[0].partitions[0].old_style_offsets == []


@pytest.mark.parametrize(("asked", "version"), OLD, ids=OLD_ID)
def test_a_pause_without_a_field_for_it(proxy: FaultProxy, connection: RawConnection, asked: Message, version: int) -> None:
    """A throttle is a pause even where the version has no field to say so; where it has one, it says how long."""
    proxy.faults.on(asked.api).reply().throttle(30)
    answer = connection.ask(asked, version)
    has_field = version >= 1 and isinstance(answer, wire.ProduceResponse | wire.FetchResponse)
    assert answer == replace(decoded(asked.api, version), throttle_time_ms=30 if has_field else 0)
    assert isinstance(connection.ask(wire.ApiVersionsRequest(), 0), wire.ApiVersionsResponse)


def decoded(api: int, version: int) -> Message:
    """What a client reads of the broker's answer in this version."""
    answer = ANSWERS[api]
    return wire.decode(type(answer), version, wire.encode(answer, version))
