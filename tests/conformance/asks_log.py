"""Questions about one partition's log: Produce, DescribeProducers and ListOffsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import lz4.frame

from fencepost.producer import wire
from fencepost.producer.wire import error_name
from tests.conformance.batches import LZ4, Batch, plain
from tests.conformance.raw import Closed, Silent
from tests.conformance.stage import READY_TIMEOUT_S, Stage, Topic
from tests.waiting import until

PRODUCE_VERSION = 12
TIMEOUT_MS = 10_000

Entry = tuple[Topic, int, bytes | None]


class LogAsks(Stage):
    """A part of the world of a case."""

    def produce(
        self,
        batch: Batch | bytes | None,
        topic: Topic,
        *,
        label: str,
        partition: int = 0,
        version: int = PRODUCE_VERSION,
        acks: int = -1,
        transactional_id: str | None = None,
        node: int | None = None,
        settled: bool = True,
    ) -> None:
        """Send one batch, and note the partition's answer. Unless `settled`, wait until enough replicas are in sync again."""
        data = batch.encode() if isinstance(batch, Batch) else batch
        request = produce_request([(topic, partition, data)], version, acks=acks, transactional_id=transactional_id)
        node = topic.leaders.get(partition) if node is None else node
        if not settled:
            until(lambda: self._enough_replicas(request, version, node), "enough replicas", timeout_s=READY_TIMEOUT_S)
        self.note_answer(label, request, version, wire.ProduceResponse, self._show_produced, node=node)

    def produce_many(
        self,
        entries: Sequence[Entry],
        *,
        label: str,
        acks: int = -1,
        version: int = PRODUCE_VERSION,
        transactional_id: str | None = None,
    ) -> None:
        """Several partitions in one request; the answers are in order of topic and partition."""
        request = produce_request(entries, version, acks=acks, transactional_id=transactional_id)
        self.note_answer(label, request, version, wire.ProduceResponse, self._show_all_produced)

    def produce_no_partitions(self, topic: Topic, *, label: str) -> None:
        request = wire.ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[wire.TopicProduceData(name=topic.name)])
        self.note_answer(label, request, PRODUCE_VERSION, wire.ProduceResponse, self._show_all_produced)

    def produce_pipelined(self, batches: Sequence[Batch], topic: Topic, *, label: str) -> None:
        """Send all requests before reading the first response."""
        requests = [produce_request([(topic, 0, batch.encode())], PRODUCE_VERSION) for batch in batches]
        with self.open(topic.leaders[0]) as connection:
            for request in requests:
                connection.send(request, PRODUCE_VERSION)
            for number, request in enumerate(requests, start=1):
                answer = connection.receive(request, PRODUCE_VERSION, correlation_id=number)
                assert isinstance(answer, wire.ProduceResponse)
                self.note(f"{label} {number}", self._show_produced(answer))

    def produce_unanswered(self, batch: Batch, topic: Topic, *, label: str, node: int | None = None) -> None:
        """Send with acks 0, and then a request that is always answered, to see whether the connection is open."""
        request = produce_request([(topic, 0, batch.encode())], PRODUCE_VERSION, acks=0)
        with self.open(topic.leaders.get(0) if node is None else node) as connection:
            try:
                connection.send(request, PRODUCE_VERSION)
                connection.ask(wire.ApiVersionsRequest(), 0)
                self.note(label, "no answer, and the next request is answered")
            except Closed:
                self.note(label, "closed")
            except Silent:
                self.note(label, "silent")

    def describe(self, topic: Topic, *, partition: int = 0, label: str = "producers", node: int | None = None) -> None:
        """Note the producers that the partition's leader remembers."""
        request = wire.DescribeProducersRequest(topics=[wire.TopicRequest(name=topic.name, partition_indexes=[partition])])

        def show(answer: wire.DescribeProducersResponse) -> str:
            (part,) = answer.topics[0].partitions
            producers = sorted(
                f"{self.show_pid(p.producer_id)} epoch={p.producer_epoch} last={p.last_sequence} time={self.show_time(p.last_timestamp)}"
                f" coordinator={p.coordinator_epoch} txn={p.current_txn_start_offset}"
                for p in part.active_producers
            )
            return f"{error_name(part.error_code)}{_said(part.error_message)} [{'; '.join(producers)}]"

        node = topic.leaders.get(partition) if node is None else node
        self.note_answer(label, request, 0, wire.DescribeProducersResponse, show, node=node)

    def list_offsets(
        self,
        topic: Topic,
        when: int,
        *,
        label: str,
        partition: int = 0,
        version: int = 7,
        isolation: int = 0,
        leader_epoch: int = -1,
        replica_id: int = -1,
        node: int | None = None,
    ) -> None:
        """Note the offset for a timestamp or a special position."""
        part = wire.ListOffsetsPartition(partition_index=partition, timestamp=when, current_leader_epoch=leader_epoch)
        request = list_offsets_request(topic, [part], isolation=isolation, replica_id=replica_id)
        node = topic.leaders.get(partition) if node is None else node
        self.note_answer(label, request, version, wire.ListOffsetsResponse, self._show_offsets, node=node)

    def list_offsets_twice(self, topic: Topic) -> None:
        parts = [wire.ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2
        self.note_answer("twice", list_offsets_request(topic, parts), 7, wire.ListOffsetsResponse, self._show_offsets)

    def end_offset(self, topic: Topic, *, partition: int = 0, label: str = "end offset") -> None:
        self.list_offsets(topic, -1, partition=partition, label=label if partition == 0 else f"{label} of partition {partition}")

    def compressed(self, codec: int, batch: Batch) -> Batch:
        """The batch with its records in one LZ4 frame, as Java writes it."""
        assert codec == LZ4
        frame = lz4.frame.compress(batch.encode()[61:], block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB, store_size=False)
        return replace(batch, payload=frame, attributes=batch.attributes | LZ4)

    def move_leader(self, topic: Topic) -> None:
        """Stop the first partition's leader, wait for another one, and start the broker again."""
        old = topic.leaders[0]
        with self._down(old):
            others = [node for node in self.nodes if node != old]
            self._until_seen(topic, others[0], "another leader", lambda part: part.leader_id in others)
        self.known_topic(topic.name)

    @contextmanager
    def without_a_follower(self, topic: Topic) -> Iterator[None]:
        """A follower of the first partition is stopped until the end of the block, and out of the ISR."""
        leader = topic.leaders[0]
        replicas = self.look_up(topic.name, node=leader).partitions[0].replica_nodes
        with self._down(next(node for node in replicas if node != leader)):
            self._until_seen(topic, leader, "the leader alone in sync", lambda part: part.isr_nodes == [leader])
            yield
        self._until_seen(topic, leader, "all replicas in sync", lambda part: len(part.isr_nodes) == len(replicas))

    @contextmanager
    def abandoned(self, topic: Topic, *, clean: bool = True) -> Iterator[None]:
        """The first partition's leader appended records alone, and is stopped until the end of the block. Its only follower is up again.

        Both were stopped cleanly, or both were killed.
        """
        leader = topic.leaders[0]
        follower = next(node for node in self.look_up(topic.name).partitions[0].replica_nodes if node != leader)
        with self._down(follower, clean=clean):
            self._until_seen(topic, leader, "the leader alone in sync", lambda part: part.isr_nodes == [leader])
            self.produce(plain(), topic, acks=1, label="the leader alone has it")
            self.close()
            self.target.stop(leader, clean=clean)
        self.nodes = [node for node in self.nodes if node != leader]
        request = wire.MetadataRequest(topics=[])
        until(
            lambda: [each.node_id for each in self.ask(request, 12, wire.MetadataResponse).brokers],
            "the follower is up and the leader is not",
            good=lambda up: follower in up and leader not in up,
            timeout_s=READY_TIMEOUT_S,
        )
        self._until_seen(topic, self.nodes[0], "another leader or none", lambda part: part.leader_id != leader)
        try:
            yield
        finally:
            self.nodes = sorted(self.target.addresses)
            self.target.start(leader)

    @contextmanager
    def without_the_leader(self, topic: Topic, *, clean: bool) -> Iterator[None]:
        """The first partition's leader is stopped until the end of the block, and the other brokers know it."""
        leader = topic.leaders[0]
        with self._down(leader, clean=clean):
            for node in self.nodes:
                self._until_seen(topic, node, "another leader or none", lambda part: part.leader_id != leader)
            yield

    def until_in_sync(self, topic: Topic) -> None:
        """Wait until every broker sees all replicas of the first partition in sync."""
        for node in self.nodes:
            self._until_seen(topic, node, "all in sync", lambda part: sorted(part.isr_nodes) == sorted(part.replica_nodes))
        self.known_topic(topic.name)

    def until_led(self, topic: Topic) -> None:
        """Wait until the first partition's leader itself says that it leads."""
        self.known_topic(topic.name)

    # -- showing -----------------------------------------------------------------------------------------------------------

    def _show_produced(self, answer: wire.ProduceResponse) -> str:
        (part,) = answer.responses[0].partition_responses
        shown = self._show_partition(part)
        return shown + self.show_leader(part.current_leader, answer.node_endpoints)

    def _show_all_produced(self, answer: wire.ProduceResponse) -> str:
        shown = [
            f"{self.show_topic(topic.name, topic.topic_id)}-{part.index} {self._show_partition(part)}"
            for topic in answer.responses
            for part in topic.partition_responses
        ]
        return "; ".join(sorted(shown)) or "nothing"

    def _show_partition(self, part: wire.PartitionProduceResponse) -> str:
        shown = f"{error_name(part.error_code)} @{part.base_offset} time={self.show_time(part.log_append_time_ms)}"
        shown += f" start={part.log_start_offset}"
        if part.record_errors:
            told = all(each.batch_index_error_message for each in part.record_errors)
            shown += f" records={[each.batch_index for each in part.record_errors]}" + ("" if told else " untold")
        return shown + _said(part.error_message)

    def _show_offsets(self, answer: wire.ListOffsetsResponse) -> str:
        return "; ".join(
            f"{error_name(part.error_code)} @{part.offset} time={self.show_time(part.timestamp)} epoch={part.leader_epoch}"
            for topic in answer.topics
            for part in topic.partitions
        )

    # -- brokers that go and come ------------------------------------------------------------------------------------------

    @contextmanager
    def _down(self, node: int, *, clean: bool = True) -> Iterator[None]:
        self.close()
        self.target.stop(node, clean=clean)
        nodes, self.nodes = self.nodes, [each for each in self.nodes if each != node]
        try:
            yield
        finally:
            self.nodes = nodes
            self.target.start(node)

    def _until_seen(self, topic: Topic, node: int, what: str, good: Callable[[wire.MetadataResponsePartition], bool]) -> None:
        """Wait until a node's Metadata shows the first partition in this state."""
        until(lambda: self.look_up(topic.name, node=node).partitions[0], what, good=good, timeout_s=READY_TIMEOUT_S)

    def _enough_replicas(self, request: wire.ProduceRequest, version: int, node: int | None) -> bool:
        answer = self.ask(request, version, wire.ProduceResponse, node=node)
        return answer.responses[0].partition_responses[0].error_code != wire.ErrorCode.NOT_ENOUGH_REPLICAS


def produce_request(entries: Sequence[Entry], version: int, *, acks: int = -1, transactional_id: str | None = None) -> wire.ProduceRequest:
    """One partition per topic entry, which keeps the order. From version 13 on topics have ids."""
    topics = []
    for topic, partition, data in entries:
        part = wire.PartitionProduceData(index=partition, records=data)
        name, topic_id = ("", topic.id) if version >= 13 else (topic.name, wire.ZERO_UUID)
        topics.append(wire.TopicProduceData(name=name, topic_id=topic_id, partition_data=[part]))
    return wire.ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=TIMEOUT_MS, topic_data=topics)


def list_offsets_request(
    topic: Topic, parts: list[wire.ListOffsetsPartition], *, isolation: int = 0, replica_id: int = -1
) -> wire.ListOffsetsRequest:
    topics = [wire.ListOffsetsTopic(name=topic.name, partitions=parts)]
    return wire.ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation, topics=topics, timeout_ms=TIMEOUT_MS)


def _said(message: str | None) -> str:
    return "" if message is None else " said why"
