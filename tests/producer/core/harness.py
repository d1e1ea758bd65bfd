"""The producer's core without an engine: a test sends its events, answers its requests one by one, and sets the clock.

A connection opens at once, unless its node is in `down` (it refuses) or in `mute` (it never answers). The harness answers Metadata and
InitProducerId at once. Requests of other kinds wait in `open` until the test answers them. Nothing runs in the background, and time
passes only by `advance`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from fencepost.producer.accumulator.accumulator import Accumulator, TopicQueues
from fencepost.producer.accumulator.batch import RecordFuture, Shared
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.core import Core
from fencepost.producer.core.events import (
    NO_FEATURES,
    Announce,
    Appended,
    Change,
    Command,
    Connect,
    Connected,
    ConnectionLost,
    Die,
    Disconnect,
    Event,
    Replied,
    Return,
    Send,
    Settle,
    Ticked,
    TopicWanted,
    Written,
)
from fencepost.producer.core.idempotence.transaction_hooks import TransactionHooks, Transactions
from fencepost.producer.foundations.address import Address
from fencepost.producer.wire import (
    REQUESTS,
    Api,
    DescribeProducersResponse,
    InitProducerIdResponse,
    LeaderIdAndEpoch,
    Message,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    PartitionProduceResponse,
    PartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProducerState,
    TopicProduceResponse,
    TopicResponse,
)
from fencepost.producer.wire.records import BatchHeader, read_header, read_records

TOPIC = "t"
PID = 4000
VERSIONS = {int(api): (message.versions.start, message.versions.stop - 1) for api, message in REQUESTS.items()}


def in_one(records: Any) -> bytes:
    """A Produce's records as one bytes object."""
    return b"".join(records) if isinstance(records, tuple) else bytes(records or b"")


class Flight:
    """A request that waits for the test's answer. `node`: where it was sent; `blobs`: partition -> the batch's bytes, of a Produce."""

    def __init__(self, command: Send) -> None:
        self.command = command
        self.node = command.node
        self.api = command.api
        self.message: Any = command.message
        self.blobs: dict[int, bytes] = {}
        if isinstance(command.message, ProduceRequest):
            self.blobs = {p.index: in_one(p.records) for t in command.message.topic_data for p in t.partition_data}

    @property
    def blob(self) -> bytes:
        """The bytes of the only batch."""
        (blob,) = self.blobs.values()
        return blob

    @property
    def header(self) -> BatchHeader:
        return read_header(self.blob)

    @property
    def values(self) -> list[bytes]:
        """The record values of the only batch."""
        return [bytes(record.value or b"") for record in read_records(self.blob)]

    @property
    def stamp(self) -> tuple[int, int, int]:
        """(producer id, epoch, base sequence) of the only batch."""
        header = self.header
        return header.producer_id, header.producer_epoch, header.base_sequence


class CoreHarness:
    """`leaders`: partition -> (node, leader epoch), as in Metadata. `next_pid`: the producer id of the next InitProducerId."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        nodes: int = 3,
        first_sequence: int = 0,
        first_epoch: int = 0,
        hooks: TransactionHooks | None = None,
        transactions: Transactions | None = None,
        **settings: Any,
    ) -> None:
        defaults: dict[str, Any] = {"batch_size": 0, "linger_ms": 0.0, "retry_backoff_ms": 10.0, "retry_backoff_max_ms": 10.0}
        self.settings = Settings(bootstrap_servers=("b:1",), **{**defaults, **settings})
        self.now = 1_000.0
        self.leaders = dict.fromkeys(range(partitions), (1, 0))
        self.nodes = set(range(1, nodes + 1))
        self.topic_id = UUID(int=7)
        self.next_pid = (PID, first_epoch)
        self.down: set[int] = set()
        self.mute: set[int] = set()
        self.open: list[Flight] = []
        self.answered: list[Flight] = []
        self.settled: list[Settle] = []
        self.connects: list[tuple[float, Connect]] = []
        self.disconnects: list[Disconnect] = []
        self.announced: list[Announce] = []
        self.dead: Die | None = None
        self.metadata_code = 0
        self.cluster_id = "harness"
        self.auto = {Api.METADATA, Api.INIT_PRODUCER_ID}
        self.shared = Shared(patience_s=1.0)
        self.shared.wake = lambda: None
        self.accumulator = Accumulator(
            batch_size=self.settings.batch_size, buffer_memory=self.settings.buffer_memory, clock=lambda: self.now, shared=self.shared
        )
        self.features = NO_FEATURES
        self.core = Core(
            self.settings, self.accumulator, bootstrap=[Address("b", 1)], draw=lambda: 0.5, hooks=hooks, transactions=transactions
        )
        self._first_sequence = first_sequence

    # -- the caller's part -------------------------------------------------------------------------------------------

    def learn(self) -> CoreHarness:
        """Make the topic known, as the first send of a producer does."""
        self.happen(TopicWanted(TOPIC))
        for queue in self.accumulator.topics[TOPIC].queues:
            self.core.produce_requests.sender(queue).window.first_sequence = self._first_sequence
        return self

    def introduce(self) -> CoreHarness:
        """Acknowledge a first batch of every partition, so that the partition pipelines from then on."""
        self.learn()
        for partition in self.leaders:
            self.send(b"hello", partition=partition)
        self.advance(self.settings.linger_ms)
        for flight in self.produces():
            self.ack(flight, offset=0)
        self.settled.clear()
        self.answered.clear()
        return self

    def send(self, *values: bytes, partition: int = 0) -> list[RecordFuture]:
        """Append records. With the default batch_size each record is a batch."""
        futures = []
        for value in values:
            future = self.accumulator.append(self.accumulator.topics[TOPIC], partition, 1_700_000_000_000, None, value, None, None)
            assert future is not None, "the buffer is full"
            futures.append(future)
        self.happen(Appended())
        return futures

    # -- the brokers' part -------------------------------------------------------------------------------------------

    def produces(self, node: int | None = None) -> list[Flight]:
        """The Produce requests without an answer, oldest first."""
        return [flight for flight in self.open if flight.api is Api.PRODUCE and node in (None, flight.node)]

    def questions(self) -> list[Flight]:
        """The DescribeProducers requests without an answer."""
        return [flight for flight in self.open if flight.api is Api.DESCRIBE_PRODUCERS]

    def ack(self, flight: Flight, *, offset: int = 0) -> None:
        """Acknowledge every batch of a Produce."""
        self.reply(flight, self.acknowledgement(flight, offset=offset))

    def acknowledgement(self, flight: Flight, *, offset: int = 0) -> ProduceResponse:
        """The response of `ack`, for a test that wants to change it."""
        return _for_each(flight, lambda index: PartitionProduceResponse(index=index, base_offset=offset))

    def refuse(self, flight: Flight, code: int, *, leader: tuple[int, int] | None = None, message: str | None = None) -> None:
        """Answer every batch of a Produce with an error."""
        self.reply(flight, self.refusal(flight, code, leader=leader, message=message))

    def refusal(self, flight: Flight, code: int, *, leader: tuple[int, int] | None = None, message: str | None = None) -> ProduceResponse:
        """The response of `refuse`. `leader`: the (node, leader epoch) that it names."""
        current = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]) if leader is not None else LeaderIdAndEpoch()
        return _for_each(
            flight,
            lambda index: PartitionProduceResponse(
                index=index, error_code=int(code), base_offset=-1, error_message=message, current_leader=current
            ),
        )

    def tell(self, question: Flight, known: tuple[int, int, int] | None = None, *, code: int = 0) -> None:
        """Answer a DescribeProducers with (producer id, epoch, last sequence), or with nothing if the leader does not know the producer."""
        states = [ProducerState(producer_id=known[0], producer_epoch=known[1], last_sequence=known[2])] if known else []
        answers = [
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=index, error_code=int(code), active_producers=states)
                    for index in topic.partition_indexes
                ],
            )
            for topic in question.message.topics
        ]
        self.reply(question, DescribeProducersResponse(topics=answers))

    def reply(self, flight: Flight, message: Message) -> None:
        self.open.remove(flight)
        self.answered.append(flight)
        self.happen(Replied(flight.node, flight.command.request_id, message))

    def ack_one_by_one(self, count: int, *, after_ms: float) -> list[Flight]:
        """Acknowledge so many Produce requests, each `after_ms` after the one before. Fails unless exactly one is open at a time."""
        acknowledged = []
        for _ in range(count):
            self.advance(after_ms)
            (flight,) = self.produces()
            acknowledged.append(flight)
            self.ack(flight)
        return acknowledged

    def lose(self, node: int, reason: str = "cut") -> None:
        """Cut the connection to a node. The brokers may or may not have carried out its open requests."""
        self.open = [flight for flight in self.open if flight.node != node]
        self.happen(ConnectionLost(node, reason))

    def advance(self, ms: float) -> None:
        """Let time pass. Wake the core exactly when it asked for it."""
        until = self.now + ms
        while (wake := self.core.next_wake_ms(self.now)) <= until:
            self.now = max(wake, self.now + 0.001)
            self.happen(Ticked())
        self.now = until

    # -- the engine's part -------------------------------------------------------------------------------------------

    def happen(self, event: Event) -> None:
        """Give the core an event, and carry out its commands."""
        events = [event]
        while events:
            for command in self.core.handle(events.pop(0), self.now):
                events += self._do(command)

    def _do(self, command: Command) -> list[Event]:
        match command:
            case Connect():
                self.connects.append((self.now, command))
                if command.node in self.mute:
                    return []
                return [
                    ConnectionLost(command.node, "refused")
                    if command.node in self.down
                    else Connected(command.node, VERSIONS, self.features)
                ]
            case Disconnect():
                self.disconnects.append(command)
                self.open = [flight for flight in self.open if flight.node != command.node]
                return [ConnectionLost(command.node, command.reason)]
            case Settle():
                self.accumulator.release(command.batch)
                command.batch.settle(command.base_offset, command.log_append_time, command.failure)
                self.settled.append(command)
            case Announce():
                self._announce(command)
            case Return():
                command.call.finish(command.error)
            case Die():
                self.dead = command
                self.accumulator.refusal = command.error
            case Send():
                return self._sent(command)
        return []

    def _sent(self, command: Send) -> list[Event]:
        if command.api in self.auto:
            return [Replied(command.node, command.request_id, self.answer_to(command))]
        flight = Flight(command)
        self.open.append(flight)
        if not command.answered:
            return [Written(command.node, command.request_id)]
        return []

    def answer_to(self, command: Send) -> Message:
        """The harness's cluster as a Metadata response."""
        if command.api is Api.INIT_PRODUCER_ID:
            return InitProducerIdResponse(producer_id=self.next_pid[0], producer_epoch=self.next_pid[1])
        asked: Any = command.message
        answer = self.metadata()
        return replace(answer, topics=[topic for topic in answer.topics if topic.name in {each.name for each in asked.topics}])

    def metadata(self) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=node, leader_epoch=epoch)
            for index, (node, epoch) in self.leaders.items()
        ]
        topic = MetadataResponseTopic(
            error_code=self.metadata_code, name=TOPIC, topic_id=self.topic_id, partitions=[] if self.metadata_code else partitions
        )
        brokers = [MetadataResponseBroker(node_id=node, host="b", port=node) for node in sorted(self.nodes)]
        return MetadataResponse(brokers=brokers, cluster_id=self.cluster_id, topics=[topic])

    def _announce(self, command: Announce) -> None:
        self.announced.append(command)
        heard = command.heard
        if heard.change in (Change.MISSING, Change.REFUSED):
            return
        queues = self.accumulator.topics.setdefault(heard.topic, TopicQueues(heard.topic, draw=lambda: 0, round_robin=False))
        queues.grow(heard.partitions)
        queues.partitions = heard.partitions
        queues.available = list(command.available)


def _for_each(flight: Flight, answer: Callable[[int], PartitionProduceResponse]) -> ProduceResponse:
    """An answer for every partition of a Produce."""
    topics = []
    for topic in flight.message.topic_data:
        parts = [answer(data.index) for data in topic.partition_data]
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts))
    return ProduceResponse(responses=topics)
