"""A proxy in front of the stub or of Apache Kafka, with the test's own topic."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.producer import wire
from fencepost.producer.wire.records import iter_batches
from tests.conformance import batches
from tests.conformance.asks_log import list_offsets_request, produce_request
from tests.conformance.kafka import KafkaCluster
from tests.conformance.raw import RawConnection
from tests.conformance.stage import Topic
from tests.waiting import until

TIMEOUT_S = 30.0


@dataclass
class Site:
    """A proxy, the cluster behind it, and a topic with one partition there."""

    upstream: str
    proxy: FaultProxy
    topic: Topic

    def connection(self, **options: float) -> RawConnection:
        ((_, address), *_) = sorted(self.proxy.addresses.items())
        return RawConnection(address, **options)  # type: ignore[arg-type]

    def end_offset(self) -> int:
        """The end offset, from the broker itself."""
        host, port = self.upstream.split(",")[0].rsplit(":", 1)
        with RawConnection((host, int(port))) as connection:
            part = wire.ListOffsetsPartition(partition_index=0, timestamp=-1)
            answer = connection.ask(list_offsets_request(self.topic, [part]), 7)
        assert isinstance(answer, wire.ListOffsetsResponse)
        return answer.topics[0].partitions[0].offset

    def producer_ids(self) -> list[int]:
        """The producer id of each batch in the log, from the broker itself."""
        host, port = self.upstream.split(",")[0].rsplit(":", 1)
        with RawConnection((host, int(port))) as connection:
            topic = wire.FetchTopic(topic=self.topic.name, partitions=[wire.FetchPartition(partition=0)])
            answer = connection.ask(wire.FetchRequest(max_wait_ms=0, topics=[topic]), 12)
        assert isinstance(answer, wire.FetchResponse)
        return [header.producer_id for header, _ in iter_batches(answer.responses[0].partitions[0].records or b"")]

    def produce(self, sequence: int, *, pid: int = 4711, acks: int = -1) -> wire.ProduceRequest:
        return produce_request([(self.topic, 0, batches.of(pid, 0, sequence).encode())], 12, acks=acks)


@pytest.fixture(params=["stub", "kafka"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    batches.begin()
    if request.param == "stub":
        with BrokerStub() as stub:
            yield from _proxied(stub.bootstrap)
    else:
        cluster: KafkaCluster = request.getfixturevalue("kafka")
        yield from _proxied(cluster.bootstrap)


def _proxied(upstream: str) -> Iterator[Site]:
    name = f"proxy-{secrets.token_hex(4)}"
    create(upstream, name)
    with FaultProxy(upstream) as proxy:
        yield Site(upstream, proxy, Topic(name, wire.ZERO_UUID))


def create(upstream: str, name: str, *, partitions: int = 1, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": upstream})
    admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=replicas)])[name].result(TIMEOUT_S)

    def has_leaders() -> bool:
        return all(part.leader >= 0 for part in admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions.values())

    until(has_leaders, "every partition has a leader", timeout_s=TIMEOUT_S)


def codes(answer: object) -> set[int]:
    """Every error code in the response, at any depth."""
    found = set()
    for name in getattr(answer, "__struct_fields__", ()):
        value = getattr(answer, name)
        if name in ("error_code", "partition_error_code"):
            found.add(value)
        for each in value if isinstance(value, list) else ():
            found |= codes(each)
    return found
