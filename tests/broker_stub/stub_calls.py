"""Requests for the stub's tests, over one socket, or directly into a cluster without sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any
from uuid import UUID

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.cluster.clock import VirtualClock
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.topics import Topic
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.requests.call import Fate, Reply
from fencepost.broker_stub.requests.dispatcher import Dispatcher
from fencepost.broker_stub.requests.services import Services
from fencepost.broker_stub.socket_server.acceptor import Acceptor
from fencepost.producer import wire
from fencepost.producer.wire.records import encode_batch
from tests.conformance.raw import RawConnection

DEADLINE_S = 10.0
TIMESTAMP_MS = int(time.time() * 1000)  # the virtual clocks start here, too


def batch(*values: bytes, pid: int = -1, epoch: int = -1, sequence: int = -1, transactional: bool = False) -> bytes:
    """One batch. With a producer id it needs an epoch and a sequence."""
    return encode_batch(
        [(TIMESTAMP_MS, None, value) for value in values or (b"v",)],
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def numbered(pid: int, sequence: int, count: int = 1) -> bytes:
    """A batch of an idempotent producer in epoch 0."""
    return batch(*[b"v%d" % (sequence + index) for index in range(count)], pid=pid, epoch=0, sequence=sequence)


def produce_request(topic: str, records: Any, *, partition: int = 0, acks: int = -1) -> wire.ProduceRequest:
    data = wire.PartitionProduceData(index=partition, records=records)
    return wire.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[wire.TopicProduceData(name=topic, partition_data=[data])])


def fetch_request(
    topic: str, offset: int = 0, *, partition: int = 0, wait_ms: int = 0, min_bytes: int = 1, **more: Any
) -> wire.FetchRequest:
    asked = wire.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    return wire.FetchRequest(
        max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=1 << 24, topics=[wire.FetchTopic(topic=topic, partitions=[asked])], **more
    )


def metadata_request(*topics: str) -> wire.MetadataRequest:
    return wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=name) for name in topics])


def only(response: Any) -> Any:
    """The only partition of a Produce, Fetch, ListOffsets or DescribeProducers response."""
    (topic,) = getattr(response, "responses", None) or response.topics
    (partition,) = getattr(topic, "partition_responses", None) or topic.partitions
    return partition


class Talker(RawConnection):
    """One connection to one broker of a stub, in versions that name topics."""

    def __init__(self, stub: BrokerStub, node: int | None = None, *, client_id: str = "talker", timeout: float = DEADLINE_S) -> None:
        super().__init__(stub.addresses[node or next(iter(stub.addresses))], client_id=client_id, timeout=timeout)

    def produce(self, topic: str, records: bytes, *, partition: int = 0) -> Any:
        return only(self.ask(produce_request(topic, records, partition=partition), 12))

    def fetch(self, topic: str, offset: int = 0, **more: Any) -> Any:
        return only(self.ask(fetch_request(topic, offset, **more), 12))

    def metadata(self, *topics: str) -> Any:
        return self.ask(metadata_request(*topics), 12)

    def producer_id(self) -> int:
        answer: Any = self.ask(wire.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 5)
        assert answer.error_code == 0
        return int(answer.producer_id)


class Pending:
    """A request that was sent. `show` selects the part of its response that a test compares."""

    def __init__(self, show: Callable[[Any], Any] = lambda response: response, *, tick: Callable[[], object] = lambda: None) -> None:
        self.replies: list[Reply] = []
        self._show = show
        self._tick = tick

    @property
    def waits(self) -> bool:
        """Whether it has no response, even when everything that is due has run."""
        if not self.replies:
            self._tick()
        return not self.replies

    @property
    def answer(self) -> Any:
        assert not self.waits
        (reply,) = self.replies
        assert reply.fate is Fate.ANSWER
        return self._show(reply.response)


class Inside:
    """A cluster without sockets under a virtual clock. It collects responses in their order."""

    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock(TIMESTAMP_MS)
        journal, sasl = options.pop("journal", 1000), options.pop("sasl", None)
        self.cluster = Cluster(self.clock, **options)
        self.services = Services(self.cluster, Journal(journal))
        self.dispatcher = Dispatcher(self.services)
        self.acceptor = Acceptor(self.dispatcher, sasl=sasl)
        for broker in self.cluster.brokers.values():
            broker.host, broker.port = "broker", 9000 + broker.node_id
        self.replies: list[Reply] = []

    def topic(self, name: str = "t", *, partitions: int = 1, replicas: int = 1, **overrides: str) -> UUID:
        configs = {key.replace("_", "."): value for key, value in overrides.items()}
        return self.cluster.create_topic(name, partitions=partitions, replication_factor=replicas, overrides=configs).id

    def topic_named(self, name: str = "t") -> Topic:
        found = self.cluster.topics.named(name)
        assert found is not None
        return found

    def leader(self, topic: str = "t", partition: int = 0) -> int:
        found = self.cluster.find(topic, partition)
        assert found is not None
        return found.leader

    def send(
        self, request: wire.Message, version: int, *, node: int | None = None, client_id: str = "inside", replies: list[Reply] | None = None
    ) -> None:
        header = wire.RequestHeader(api_key=request.api, api_version=version, correlation_id=1, client_id=client_id)
        heard = self.replies if replies is None else replies
        self.dispatcher.handle(self.leader() if node is None else node, 1, header, request, heard.append)

    def ask(self, request: wire.Message, version: int, *, node: int | None = None) -> Any:
        """The response, which must come without waiting."""
        replies: list[Reply] = []
        self.send(request, version, node=node, replies=replies)
        if not replies:
            self.cluster.tick()
        (reply,) = replies
        self.replies.append(reply)
        assert reply.fate is Fate.ANSWER
        return reply.response

    def produce(self, records: bytes, *, topic: str = "t", partition: int = 0, node: int | None = None, acks: int = -1) -> Any:
        node = self.leader(topic, partition) if node is None else node
        return only(self.ask(produce_request(topic, records, partition=partition, acks=acks), 12, node=node))

    def pass_time(self, ms: int) -> None:
        deadline_ms = self.cluster.next_deadline()
        if deadline_ms is not None and deadline_ms <= self.clock.now_ms():
            self.cluster.tick()
        self.clock.advance(ms)
        self.cluster.tick()


def refused(address: tuple[str, int]) -> bool:
    """Whether no process listens at this address."""
    with closing(socket.socket()) as probe:
        return probe.connect_ex(address) != 0
